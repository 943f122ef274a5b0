/** @file
 * libsched: collective communication as schedules. The C interface (C11, also valid C++).
 *
 * Conventions, stated once:
 *  1. Every function that can fail returns an lsched_status: 0 done, LSCHED_PENDING (positive) not an error,
 *     negative an error. Outputs are written on success only. A NULL handle or output is LSCHED_ERR_ARGUMENT.
 *     Compilers warn where a status is not looked at; `(void)` before the call says that this is meant.
 *  2. Order of arguments: object, inputs, options, outputs, and last an optional lsched_diagnostic (NULL allowed)
 *     that receives the detail of a failure. Functions without a diagnostic fail only as their "Errors" say; those that
 *     start rounds, rebind, offer, allocate or close keep the detail in lsched_last_failure(). A create that
 *     succeeds leaves it alone, or writes status LSCHED_OK and a remark (for example, that an adaptive sum is only a
 *     mean here): initialise it to tell the two apart.
 *  3. Counts are elements, `_bytes` bytes, `_ns` nanoseconds; ranks are int32_t, everything else 64-bit.
 *     A timeout of LSCHED_FOREVER never passes, 0 makes one attempt.
 *  4. Structs that may grow begin with `struct_size`: set it to sizeof(the struct), or use the _init function. Caller
 *     and library may then come from different headers of the same LSCHED_ABI. Of a struct that the caller fills in,
 *     missing members have their defaults (zero, where nothing else is said), and members unknown to the library must
 *     be zero, else LSCHED_ERR_VERSION. Of a struct that the library fills in, nothing is written beyond struct_size,
 *     and members unknown to the library become zero. A size that the struct never had is LSCHED_ERR_ARGUMENT; a
 *     diagnostic of such a size is left alone. Structs without struct_size never change.
 *  5. Nothing prints, exits, aborts, installs signal handlers or forks; nothing throws.
 *  6. Each function states:  Thread (who may call it)  Blocks  Memory (who owns what, how long)  Errors.
 *     "Any" means any thread at any time. Functions on different worlds never exclude each other.
 *     LSCHED_ERR_PEER (a rank of this node died: the first to be missed, the same on all its ranks),
 *     LSCHED_ERR_TRANSPORT and LSCHED_ERR_INTERNAL can come from every function that starts, waits or commits,
 *     and are not repeated.
 *  7. "Collective" functions are called by all ranks of the world, in the same order. A rank whose own arguments
 *     are bad still takes part: every rank returns, with an error that names both sides. Only a NULL world or
 *     builder, which belongs to no world, returns at once and leaves the others to their commit timeout.
 *  8. Arithmetic on the host runs in the default floating-point mode: round to nearest even, keep subnormals, trap
 *     nothing. The modes of the caller's threads (fesetround, flush to zero) change no result, and no call changes a
 *     mode. Exception flags (fetestexcept) may be raised by any call.
 */
#ifndef LSCHED_H
#define LSCHED_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LSCHED_API __attribute__((visibility("default")))
#else
#define LSCHED_API
#endif

/* Of functions whose status must be looked at. */
#if (defined(__cplusplus) && __cplusplus >= 201703L) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define LSCHED_CHECKED [[nodiscard]] LSCHED_API
#elif defined(__GNUC__) && __GNUC__ >= 10 && !defined(__clang__) && !defined(__cplusplus)
#define LSCHED_CHECKED __extension__ [[nodiscard]] LSCHED_API /* a cast to void silences it, unlike the next */
#elif defined(__GNUC__)
#define LSCHED_CHECKED LSCHED_API __attribute__((warn_unused_result))
#else
#define LSCHED_CHECKED LSCHED_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ------------------------------------------------------------------------------------------------- */

#define LSCHED_VERSION_MAJOR 0
#define LSCHED_VERSION_MINOR 1
#define LSCHED_VERSION_PATCH 0
/** Changes with the meaning of this interface, or its layout other than by growing structs (convention 4); checked when
 * a world is opened. */
#define LSCHED_ABI 3

/** The library's package version, "0.1.0". Thread: any. Blocks: never. Memory: static. */
LSCHED_API const char* lsched_version(void);

/** The LSCHED_ABI the library was built with. Thread: any. Blocks: never. */
LSCHED_API int lsched_abi(void);

/* ---- Status -------------------------------------------------------------------------------------------------- */

typedef enum lsched_status {
  LSCHED_OK = 0,
  LSCHED_PENDING = 1,          /* not finished yet; not an error */
  LSCHED_ERR_ARGUMENT = -1,    /* an argument is null, negative or meaningless */
  LSCHED_ERR_BOUNDS = -2,      /* a region leaves its buffer; of a round: what came does not fit */
  LSCHED_ERR_STATE = -3,       /* the call does not fit the object's present state */
  LSCHED_ERR_CYCLE = -4,       /* the dependencies form a cycle */
  LSCHED_ERR_UNMATCHED = -5,   /* sends and receives of the world do not pair up */
  LSCHED_ERR_MISMATCH = -6,    /* ranks committed different things, or in a different order */
  LSCHED_ERR_CONSTRAINT = -7,  /* the algorithm cannot do this world, count, dtype or operation */
  LSCHED_ERR_UNSUPPORTED = -8, /* not offered by this build or transport */
  LSCHED_ERR_NOMEM = -9,
  LSCHED_ERR_TRANSPORT = -10, /* the medium below failed */
  LSCHED_ERR_PEER = -11,      /* a rank died, or closed without leaving */
  LSCHED_ERR_TIMEOUT = -12,
  LSCHED_ERR_BUSY = -13,       /* something still uses the object */
  LSCHED_ERR_VERSION = -14,    /* caller and library disagree about LSCHED_ABI, or a struct has unknown members */
  LSCHED_ERR_INTERNAL = -15,   /* an invariant of the library is broken: please report */
  LSCHED_ERR_NOT_FINITE = -16, /* LSCHED_NAN_ERROR has refused the result of a round */
  LSCHED_ERR_CANCELLED = -17,  /* a rank has given the schedule up: lsched_cancel */
  LSCHED_ERR_DEVICE = -18      /* a GPU or its driver has failed */
} lsched_status;

/** "LSCHED_ERR_PEER". Thread: any. Blocks: never. Memory: static; never NULL. */
LSCHED_API const char* lsched_status_name(lsched_status status);

/** One sentence. Thread: any. Blocks: never. Memory: static; never NULL. */
LSCHED_API const char* lsched_status_text(lsched_status status);

/** The detail of a failure or a timeout, or a remark of lsched_collective_create on its success (status LSCHED_OK);
 * otherwise untouched. Owned by the caller. */
typedef struct lsched_diagnostic {
  size_t struct_size;
  lsched_status status;
  int32_t rank;   /* the rank that is to blame or is waited for; -1: none */
  uint32_t op;    /* the op of the schedule; UINT32_MAX: none */
  uint64_t round; /* 0: none */
  char text[512]; /* one line, always terminated */
} lsched_diagnostic;

/** Returns the detail of the latest failure of a function without a diagnostic in the calling thread, such as
 * lsched_start or lsched_world_close. Status OK: no such function has failed in this thread.
 * Thread: any. Blocks: never. Memory: the thread's. The next failure in this thread overwrites the detail. */
LSCHED_API const lsched_diagnostic* lsched_last_failure(void);

/** Nothing is wrong yet: status OK, no rank, no op, no round, no text.  Thread: any. Blocks: never. NULL is OK. */
#define lsched_diagnostic_init(diagnostic) lsched_diagnostic_init_sized((diagnostic), sizeof(lsched_diagnostic))
/** What lsched_diagnostic_init calls, with the size that the struct has in the caller's header. */
LSCHED_API void lsched_diagnostic_init_sized(lsched_diagnostic* diagnostic, size_t bytes);

/* ---- Words ---------------------------------------------------------------------------------------------------- */

typedef enum lsched_dtype {
  LSCHED_DTYPE_NONE = 0, /* a member that was forgotten: refused wherever a dtype is needed */
  LSCHED_I8,
  LSCHED_U8,
  LSCHED_I32,
  LSCHED_I64,
  LSCHED_U64,
  LSCHED_F16,
  LSCHED_BF16,
  LSCHED_F32,
  LSCHED_F64
} lsched_dtype;

/** Logical and bit operations: integers only. f16 and bf16 are combined in f32 and rounded once per combination.
 * 0 is no reduction, and refused where there must be one. */
typedef enum lsched_reduction {
  LSCHED_SUM = 2,
  LSCHED_PROD,
  LSCHED_MIN,
  LSCHED_MAX,
  LSCHED_LAND,
  LSCHED_LOR,
  LSCHED_LXOR,
  LSCHED_BAND,
  LSCHED_BOR,
  LSCHED_BXOR
} lsched_reduction;

/** What results are divided by; sums only. The sum is taken in the dtype, and may overflow before it is divided. Every
 * mean of this library is the exact quotient of sum and divisor, rounded once to the dtype (integers to an integer,
 * half to even): ranks that all have x get x, if P x is exact. */
typedef enum lsched_divisor {
  LSCHED_DIVIDE_BY_NONE = 0,
  LSCHED_DIVIDE_BY_RANKS,        /* the size of the world that it was created in, as Li et al. do */
  LSCHED_DIVIDE_BY_CONTRIBUTORS, /* ranks in the round; partial, and LSCHED_LATEST only: others are of several rounds */
  LSCHED_DIVIDE_BY_OFFERS        /* partial: calls of lsched_offer in the result */
} lsched_divisor;

/** target = lower (op) higher on `count` elements, a multiple of the unit, unit by unit. `lower` comes from ranks below
 * those of `higher`. `target` may be `lower` or `higher` itself, but never a part of one. Memory is aligned to the
 * dtype, not to a whole unit.
 * Called while a round runs by the thread that drives the world (inside an lsched call, or the progress thread): one at
 * a time per world. It must return, must neither throw nor jump out, and must not call this library. It runs in the
 * default floating-point mode (convention 8); a mode that it sets ends with it. */
typedef void (*lsched_combine)(const void* lower, const void* higher, void* target, uint64_t count, void* context);

/** Arithmetic of the caller's own: associative, and equal operands give equal bits on all ranks. Copied where it is
 * passed; `context` is the caller's, and must outlive the schedules that use it. */
typedef struct lsched_user_op {
  size_t struct_size;
  lsched_combine combine;
  void* context;
  lsched_dtype dtype; /* of the elements */
  uint64_t unit;      /* elements that belong together (a struct of 6 floats: 6) and are never cut apart; at least 1 */
  int32_t is_commutative; /* 1: operands may change places; 0: they are combined in the order of ranks */
} lsched_user_op;

#define LSCHED_FOREVER UINT64_MAX

/** A rank's place in a world of ranks, and the engine that serves it there. */
typedef struct lsched_world lsched_world;
typedef struct lsched_builder lsched_builder;
typedef struct lsched_schedule lsched_schedule;

/* ---- World ----------------------------------------------------------------------------------------------------- */

typedef enum lsched_progress_mode {
  LSCHED_PROGRESS_THREAD = 0, /* an auxiliary thread serves the engine while the application computes */
  LSCHED_PROGRESS_CALLER = 1  /* only threads inside lsched calls do */
} lsched_progress_mode;

typedef enum lsched_idle_mode {
  LSCHED_IDLE_AUTO = 0, /* spin if there is a core for each local rank, else yield, then sleep; sleep at once while
                           other programs use the core */
  LSCHED_IDLE_SPIN,
  LSCHED_IDLE_YIELD,
  LSCHED_IDLE_PARK
} lsched_idle_mode;

typedef enum lsched_lane_mode {
  LSCHED_LANE_AUTO = 0,    /* large arithmetic also on cores that no rank of this machine needs; none: INLINE */
  LSCHED_LANE_INLINE = -1, /* arithmetic is done by whichever thread drives the world */
  LSCHED_LANE_TBB = -2     /* as AUTO, but at least one worker, even if no core is free for it */
} lsched_lane_mode;

typedef struct lsched_config {
  size_t struct_size;
  int32_t progress;           /* an lsched_progress_mode */
  int32_t idle;               /* an lsched_idle_mode */
  int32_t progress_core;      /* the progress thread's core; -1: one that is free, or the scheduler's choice */
  int32_t lane;               /* an lsched_lane_mode, or the number of oneTBB workers for large arithmetic */
  uint64_t region_bytes;      /* address space of this rank's region, from 1 MiB on, for the library too; 0: as much
                                 as the machine has memory, at most 64 TiB for all ranks, or half of `ulimit -v` */
  uint64_t commit_timeout_ns; /* for the collective create functions */
} lsched_config;

/** Fills in the defaults: progress thread, automatic idling and lane, 60 s for commits, then the environment's
 * (LSCHED_PROGRESS=thread|caller, LSCHED_IDLE=auto|spin|yield|park, LSCHED_LANE=auto|inline|tbb|tbb:WORKERS,
 * LSCHED_REGION=BYTES such as 64M; any other word makes opening fail with ARGUMENT).  Under `lsched run` the region is
 * the launcher's.  Thread: any. Blocks: never. */
#define lsched_config_init(config) lsched_config_init_sized((config), sizeof(lsched_config))
/** What lsched_config_init calls, with the size that the struct has in the caller's header. */
LSCHED_API void lsched_config_init_sized(lsched_config* config, size_t bytes);

/** Joins the world that `lsched run -n P` has prepared for this process, or makes a world of one rank where no launcher
 * has started it, or LSCHED_WORLD=alone is set.  config NULL: defaults. A rank joins its world once, and leaves it for
 * good by closing it. A process that has joined is killed (SIGKILL) when `lsched run` ends, if it is still there.
 * Thread: any, once per process and world.  Blocks: until all ranks have come, at most commit_timeout_ns.
 * Memory: *world is the caller's until lsched_world_close.
 * Errors: UNSUPPORTED in a process that another launcher has started as one of several, by the variables of PMI, PMIx,
 * torchrun and steps of Slurm (use lsched_world_open_mpi of lsched_mpi.h, or lsched_world_open_with), or for a oneTBB
 * lane in a build without oneTBB; STATE (this rank has joined before), VERSION, ARGUMENT, NOMEM, TRANSPORT (also where
 * `lsched run` has ended), TIMEOUT (names a rank that did not come), PEER (names one that died on its way). */
#define lsched_world_open(config, world, diagnostic) lsched_world_open_abi(LSCHED_ABI, (config), (world), (diagnostic))
/** What lsched_world_open calls, with the LSCHED_ABI of the caller's header. */
LSCHED_CHECKED lsched_status lsched_world_open_abi(int abi, const lsched_config* config, lsched_world** world,
                                                   lsched_diagnostic* diagnostic);

/** Brings `bytes` bytes of each rank to all: all + r * bytes are rank r's `mine`. Blocks until it has. Called twice, by
 * the thread that opens, with at most LSCHED_EXCHANGE_BYTES; every rank is called.  Answers 0, or a number of its own:
 * it has failed. */
#define LSCHED_EXCHANGE_BYTES 256
typedef int (*lsched_exchange)(const void* mine, void* all, uint64_t bytes, void* context);

/** Joins a world of `size` ranks, as `rank`, that any launcher has started and that know each other by `exchange`: a
 * store, a pipe, PMI.  All of one user on one machine: they find each other's memory through /proc, without a name.
 * Thread: any.  Blocks: as long as the exchange does.  Memory: as lsched_world_open; `context` is the caller's.
 * Errors: UNSUPPORTED, naming two hosts, where the ranks are on several, and likewise of several users or process name
 * spaces (use lsched_world_open_mpi); MISMATCH (ranks differ in size or build), ARGUMENT, VERSION, NOMEM; TRANSPORT
 * where the exchange has failed.  Where one rank fails, all do, with its reason, but for rank, size and exchange
 * themselves, which are looked at first. */
#define lsched_world_open_with(rank, size, exchange, context, config, world, diagnostic) \
  lsched_world_open_with_abi(LSCHED_ABI, (rank), (size), (exchange), (context), (config), (world), (diagnostic))
/** What lsched_world_open_with calls, with the LSCHED_ABI of the caller's header. */
LSCHED_CHECKED lsched_status lsched_world_open_with_abi(int abi, int32_t rank, int32_t size, lsched_exchange exchange,
                                                        void* context, const lsched_config* config,
                                                        lsched_world** world, lsched_diagnostic* diagnostic);

/** A world of `ranks` ranks in this process, to be used by one thread (or more) each: worlds[r] is rank r.
 * Thread: any.  Blocks: never.  Memory: `worlds` has room for `ranks` pointers; each is closed by itself.
 * Errors: ARGUMENT, VERSION, NOMEM. */
#define lsched_world_open_threads(ranks, config, worlds, diagnostic) \
  lsched_world_open_threads_abi(LSCHED_ABI, (ranks), (config), (worlds), (diagnostic))
/** What lsched_world_open_threads calls, with the LSCHED_ABI of the caller's header. */
LSCHED_CHECKED lsched_status lsched_world_open_threads_abi(int abi, int32_t ranks, const lsched_config* config,
                                                           lsched_world** worlds, lsched_diagnostic* diagnostic);

/** Makes new worlds of the ranks of one: each rank is in that of its `color`, where ranks are in the order of `key`,
 * and of their ranks in `world` where keys are equal.  A negative color: in none, *made = NULL.  Collective over
 * `world`, in the order of its creates.  A new world is used like the one that was opened: it has ranks 0 … of its own,
 * its schedules, errors and creates do not concern `world`, which may be closed before it.  All worlds of a process
 * share engine, progress thread and memory: one costs some 5 KiB, and no thread or descriptor.
 * Thread, Blocks: as lsched_barrier_create.  Memory: *made is the caller's until lsched_world_close.
 * Errors: as lsched_barrier_create, ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_split(lsched_world* world, int32_t color, int32_t key, lsched_world** made,
                                          lsched_diagnostic* diagnostic);

/** A world of the `count` ranks listed, in that order: each of them calls this with the same ranks and tag, which tells
 * worlds of the same ranks apart that are made at the same time; ranks that are not listed do not.  Creates and splits
 * of `world` may go on meanwhile.
 * Thread: any, one call of the same ranks and tag at a time.  Blocks: until all have called, at most commit_timeout_ns.
 * Memory: as lsched_split.
 * Errors: ARGUMENT (no such rank, one listed twice, this one not listed); TIMEOUT, naming a rank that has not called
 * with this list and tag (over MPI the first one listed alone knows), nothing made: a later call may succeed; PEER,
 * NOMEM. */
LSCHED_CHECKED lsched_status lsched_split_ranks(lsched_world* world, const int32_t* ranks, int32_t count, int32_t tag,
                                                lsched_world** made, lsched_diagnostic* diagnostic);

/** Goes on after a death: makes the world of those members of `world` that are neither lost nor have closed it, in
 * their old order. Collective over them; a further death while they wait only makes them fewer. What is not over in
 * `world` ends on all of them with PEER, if anybody is missing. Partial schedules go on in the new world by
 * lsched_carry; ordinary ones are created anew there. `world` stays to be closed. docs/reference/shrink.md has a
 * training loop.
 * Thread: any, one call at a time.  Blocks: until all have called, at most timeout_ns.
 * Memory: as lsched_split.
 * Errors: TIMEOUT, naming a rank that is alive and has not called; it is the same on all ranks that have, and a later
 * call begins anew. UNSUPPORTED: the members share no memory (over MPI a death ends the job). ARGUMENT, NOMEM. */
LSCHED_CHECKED lsched_status lsched_shrink(lsched_world* world, uint64_t timeout_ns, lsched_world** survivors,
                                           lsched_diagnostic* diagnostic);

/** The ranks of `world` that are known to be lost, in the order in which the losses were noticed. A rank that has
 * closed its world counts as lost once another rank has waited for it in vain. Over MPI a rank knows of its own node
 * alone. *count holds the room in `ranks` before the call, and the number of lost ranks after it. If there is room for
 * fewer, the first ones are in `ranks`.
 * Thread: any. Blocks: never.  Memory: `ranks` is the caller's, and may be NULL if *count is 0.
 * Errors: ARGUMENT (world or count is NULL, *count is negative, or there is room but no `ranks`). */
LSCHED_API lsched_status lsched_world_lost(const lsched_world* world, int32_t* ranks, int32_t* count);

/** The rank that rank `rank` of `world` has in `other`, both of this process; -1: none.  Thread: any. Blocks: never. */
LSCHED_API int32_t lsched_rank_in(const lsched_world* world, int32_t rank, const lsched_world* other);

/** Leaves the world; with the last world of a process the progress thread ends.  NULL is OK.
 * Thread: any, once, with no other call on this world.  Blocks: until the progress thread has ended (one step).
 * Memory: *world is gone, and with the last world everything from lsched_alloc.  Errors: BUSY while schedules exist,
 * nothing changed. STATE: ranks had talked through MPI, and MPI_Finalize came before this call; the world is gone. */
LSCHED_CHECKED lsched_status lsched_world_close(lsched_world* world);

/** This process's rank, 0 … size-1; -1 for NULL.  Thread: any. Blocks: never. */
LSCHED_API int32_t lsched_rank(const lsched_world* world);
/** Ranks of the world; 0 for NULL.  Thread: any. Blocks: never. */
LSCHED_API int32_t lsched_size(const lsched_world* world);

/** Where a rank is. A node is a set of ranks that share memory, or k neighbours (LSCHED_RANKS_PER_NODE=k). Nodes are
 * numbered from 0 in the order of their lowest ranks, places on a node in the order of its ranks. */
typedef struct lsched_node {
  size_t struct_size;
  int32_t number;
  int32_t place;       /* of the rank, 0 … ranks-1 */
  int32_t ranks;       /* on that node */
  int32_t nodes;       /* in the world */
  int32_t least_ranks; /* of the smallest node: places below it are on every node */
} lsched_node;

/** Fills *node in for any rank of the world; the same answer on all ranks.  Thread: any. Blocks: never.
 * Errors: ARGUMENT (no such rank, a null pointer, or not a struct_size of lsched_node). */
LSCHED_CHECKED lsched_status lsched_node_of(const lsched_world* world, int32_t rank, lsched_node* node);

/** One pass of the engine by the calling thread; *moved (optional) tells whether anything happened.
 * Thread: any.  Blocks: never; another thread that drives the engine is left alone.  Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_progress(lsched_world* world, int* moved);

/** Memory that local ranks can read directly: large messages leave such buffers without a copy. 64-byte aligned,
 * contents unspecified, left out of core dumps.
 * Thread: any. Blocks: never. Memory: until lsched_free or close. Errors: NOMEM, ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_alloc(lsched_world* world, uint64_t bytes, void** memory);
/** Thread: any. Blocks: never. NULL is OK. No schedule may be bound to the memory any more. */
LSCHED_CHECKED lsched_status lsched_free(lsched_world* world, void* memory);

typedef struct lsched_stats {
  size_t struct_size;
  uint64_t rounds;        /* finished, all schedules */
  uint64_t ops;           /* fired */
  uint64_t messages_sent; /* payload messages, null ones included */
  uint64_t nulls_sent;    /* of these: without payload, because there was no contribution */
  uint64_t bytes_sent;    /* payload; not what transports add: of MPI a header of 64 bytes a message */
  uint64_t signals_sent;
  uint64_t steps; /* passes of the engine */
} lsched_stats;

/** Counters since open.  Thread: any. Blocks: for at most one step of the engine. Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_get_stats(lsched_world* world, lsched_stats* stats);

/** One line about transport, ranks, progress thread and lane; truncated to `bytes`, always terminated.
 * Thread: any. Blocks: never. Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_world_describe(lsched_world* world, char* text, size_t bytes);

/** What this rank waits for, or has failed of, now: the text of a timeout or a failure, a line for each schedule; empty
 * if there is nothing.  *rank (optional): who is to blame, -1: nobody is known.  *needed (optional) = bytes including
 * the terminator; at most `bytes` are written, always terminated if bytes > 0.
 * Thread: any.  Blocks: until the engine is free, a step of it.  Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_diagnose(lsched_world* world, int32_t* rank, char* text, size_t bytes,
                                             size_t* needed);

/** Records what every op of this rank's schedules does and when, into memory reserved now: 48 bytes an event (an op:
 * one or two, a round: two). Recording stops when it is full; the file says so. LSCHED_TRACE=PREFIX in the environment
 * records every world from open to close into PREFIX.RANK.json.
 * Thread: any, one trace call at a time per world.  Blocks: for at most one step of the engine.  Memory: until
 * lsched_trace_write or close.  Errors: ARGUMENT (events 0 or above 2^40), STATE (already recording), NOMEM. */
LSCHED_CHECKED lsched_status lsched_trace_start(lsched_world* world, uint64_t events);

/** Ends the recording and writes it to the file `path` (replaced if it exists) in the JSON that Perfetto and
 * chrome://tracing open: this rank alone; `lsched trace FILE...` joins those of all ranks.
 * Thread: as lsched_trace_start.  Blocks: while it writes.
 * Errors: STATE (not recording), ARGUMENT (the file cannot be opened; recording goes on), TRANSPORT (it cannot be
 * written), NOMEM. */
LSCHED_CHECKED lsched_status lsched_trace_write(lsched_world* world, const char* path, lsched_diagnostic* diagnostic);

/* ---- Ready-made schedules -------------------------------------------------------------------------------- */

/** Whether the collective creates of this world wait for the other ranks: on = 0, as at open, they do; with 1 they are
 * queued in the order of the calls and return at once, whatever the others do, as nonblocking collectives of MPI.  A
 * schedule that is not agreed upon yet takes all calls: a round that is started runs once all ranks have made the
 * create, and two worlds may be used in opposite order on two ranks.  A create still answers what is wrong with its own
 * arguments; what the ranks do not agree upon, every call on the schedule answers from then on.  There is no timeout
 * but those of the calls that wait.  A split waits in any case.  Worlds that are split from this one begin as it is.
 * Thread: any. Blocks: never. Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_set_nonblocking(lsched_world* world, int32_t on);

/** Asks for a proof of each schedule of this world before the schedule stands (on = 1), or no longer asks (0). With
 * LSCHED_VERIFY=1 in the environment a world asks from its opening on. Without a proof a commit checks the schedule of
 * each rank by itself, and that messages pair up. With a proof all ranks also exchange their schedules as text, and
 * each rank proves the whole world as lsched_verify does: no deadlock, no race, and the contents of the collective that
 * the schedules are named after ("allreduce/mine"). One rank that asks is enough: then all ranks prove. A schedule that
 * does not hold is refused on all ranks, with the finding, its rank and its op in the diagnostic: UNMATCHED (messages),
 * CYCLE (ranks wait for each other) or ARGUMENT (all else); UNSUPPORTED if all texts together are above 16 MiB. The
 * proof takes time and memory as lsched_verify does, and rounds of other schedules wait while a rank proves; rounds
 * themselves cost nothing more. Worlds that are split from this world begin as this world is.
 * Thread: any. Blocks: never. Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_set_verify(lsched_world* world, int32_t on);

/** Waits until all ranks have made the create, or it is known that it has failed.
 * Thread: any number.  Blocks: at most timeout_ns.
 * Errors: ARGUMENT; TIMEOUT, naming a rank that has not come (over MPI perhaps none), nothing changed: call again;
 * those of the create; CANCELLED, PEER. */
LSCHED_CHECKED lsched_status lsched_create_wait(lsched_schedule* schedule, uint64_t timeout_ns,
                                                lsched_diagnostic* diagnostic);

/** A barrier, to be run any number of times.  Collective.
 * Thread: any, one collective create at a time per world.  Blocks: until all ranks have committed, at most
 * commit_timeout_ns.  Memory: *schedule is the caller's until lsched_schedule_destroy.
 * Errors: MISMATCH, TIMEOUT (naming a rank that did not come; on all ranks, and the world goes on. Over MPI it may name
 * none, and where rank 0 came late the schedule may exist there, cancelled), PEER (naming one that died), NOMEM. */
LSCHED_CHECKED lsched_status lsched_barrier_create(lsched_world* world, lsched_schedule** schedule,
                                                   lsched_diagnostic* diagnostic);

/** Refuses the collective call that the other ranks make next, for a binding whose own checks have failed before it
 * could make that call: this rank takes part with the error `code` and its reason, `text`. Every rank returns with
 * `code`, the others with a text that names this rank and the reason, and the next collective call is paired as usual.
 * Collective, in the order of the world's creates.  Thread, Blocks: as lsched_barrier_create.
 * Errors: always `code`; ARGUMENT, on all ranks too, if `code` is no error or `text` is NULL. */
LSCHED_API lsched_status lsched_refuse(lsched_world* world, lsched_status code, const char* text,
                                       lsched_diagnostic* diagnostic);

typedef struct lsched_allreduce_desc {
  size_t struct_size;
  const void* input; /* count elements, or equal to output: in place */
  void* output;      /* count elements */
  uint64_t count;
  lsched_dtype dtype;
  lsched_reduction reduction;
  const char* algorithm;  /* a name `lsched list` shows; NULL or "auto": chosen */
  lsched_divisor divisor; /* LSCHED_DIVIDE_BY_RANKS: the mean of all ranks in place of the sum; 0: none */
  int32_t reserved;       /* 0 */
  uint64_t segment_bytes; /* of pipelined algorithms, the same on all ranks; 0: chosen */
} lsched_allreduce_desc;

/** output[i] on every rank = reduction over all ranks of input[i]; the same bits on every rank.  Collective.
 * Thread, Blocks: as lsched_barrier_create.  Memory: input and output stay the caller's and must outlive the schedule
 * or the next lsched_rebind; their contents belong to the schedule while a round runs.
 * Errors: ARGUMENT (null buffer with count > 0, no dtype or reduction, partly overlapping buffers, unknown
 * algorithm), CONSTRAINT, MISMATCH (ranks disagree about count, dtype, reduction or algorithm), else as barrier. */
LSCHED_CHECKED lsched_status lsched_allreduce_create(lsched_world* world, const lsched_allreduce_desc* desc,
                                                     lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/* ---- Any collective -------------------------------------------------------------------------------------- */

/** A part of a vector that an adaptive sum treats by itself. */
typedef struct lsched_tensor {
  uint64_t begin; /* its first element in the vector */
  uint64_t count; /* elements; 0 is a count like any other */
} lsched_tensor;

/** What is asked for. Members that a collective does not look at are left zero. n = count, or this rank's counts[rank]
 * where there are counts; P ranks; what only the root has stands in brackets:
 *
 *   collective            input        output                                  takes               in place
 *   allreduce             n            n: combined over all ranks              count reduction     input == output
 *   reduce                n            [n: combined over all ranks]            ... and root        at the root
 *   scan, exscan          n            n: combined over ranks 0 to r, or r-1   count reduction     input == output
 *   reduce_scatter_block  P * n        n: block r combined over all ranks      count reduction     input == output
 *   reduce_scatter        all blocks   counts[r]: likewise                     counts reduction    input == output
 *   bcast                 [n]          n, at all others                        count root          one buffer anyway
 *   gather(v)             n            [all blocks]                            count(s) root       input in the output
 *   scatter(v)            [all blocks] n                                       count(s) root       output in the input
 *   allgather(v)          n            all blocks                              count(s)            input in the output
 *   alltoall              P * n        P * n: block s comes from rank s        count               input == output
 *   alltoallv             sum(counts)  sum(recv_counts)                        counts recv_counts  no
 *   neighbor_exchange     sum(counts)  sum(recv_counts)                        all but root, count no
 *   adasum                n            n: adaptive sum over all ranks          count tensors       input == output
 *   node_mean             n            [n: mean over the owner's node]         count root          input == output
 *   node_adasum           [n]          n: adaptive sum over all owners         count root tensors  input == output
 *   barrier               -            -                                       -                   -
 *
 * Blocks lie one after the other, in order of ranks (of `destinations` and `sources`). In place, gather, allgather and
 * scatter find this rank's own block where it belongs in the larger buffer, and leave it there. exscan leaves rank 0's
 * output alone. A user_op that does not commute is applied in the order of ranks, other arithmetic in an order that
 * depends on the algorithm; every rank that gets a combined element gets the same bits.
 *
 * adasum (Maleki and others, MLSys 2021): floating types, reduction 0. Each tensor of the vector becomes the sum of the
 * orthogonal parts of the ranks' contributions and the mean of the parallel ones; of zeros nothing is taken. Elements
 * in no tensor become some rank's. An element that is not finite makes its tensor NaN on all ranks, and no other.
 * docs/reference/adasum.md has the order of ranks. Algorithm "two_level" combines the means of nodes; on one node it is
 * the mean, and the schedule's name and the diagnostic of the create say so.
 *
 * node_mean and node_adasum: floating types, reduction 0. Every node has an owner, the rank at place `root`
 * (lsched_node_of), which all nodes must have; owners alone have what is in brackets. On one node node_adasum is what
 * its owner has, and says so likewise. */
typedef struct lsched_collective_desc {
  size_t struct_size;
  const char* collective; /* a name from the table */
  const void* input;
  void* output;
  uint64_t count;
  const uint64_t* counts;      /* elements by rank, the same on all ranks; alltoallv: of my block for each rank */
  const uint64_t* recv_counts; /* alltoallv: of each rank's block for me */
  const int32_t* destinations; /* neighbor_exchange: who gets my blocks, and counts has one entry for each; and who */
  const int32_t* sources;      /* sends me one, with recv_counts. A rank may be there more than once, and be itself */
  int32_t destination_count;
  int32_t source_count;
  lsched_dtype dtype;
  lsched_reduction reduction;
  int32_t root;
  const char* algorithm;         /* a name `lsched list` shows; NULL or "auto": chosen, the same on all ranks */
  uint64_t segment_bytes;        /* of pipelined algorithms, not of adasums and node_mean; 0: chosen */
  int32_t radix;                 /* of trees and multiplying steps, likewise; 0: chosen */
  const lsched_user_op* user_op; /* in place of reduction, which is then left 0; all counts are multiples of its unit */
  const lsched_tensor* tensors;  /* adasums: ascending and disjoint, the same on all ranks; NULL and 0: one tensor */
  uint64_t tensor_count;
  uint64_t capacity; /* gatherv, scatterv, allgatherv, alltoallv: instead of counts and recv_counts, of which each rank
                        then knows its own alone, and of each round anew: the most elements of any block, the same on
                        all ranks, or LSCHED_ANY_COUNT. Memory and counts come with each round (lsched_start_with) */
  int32_t depth;     /* rounds that may be outstanding at once, up to 8, the same on all ranks; 0: one. With more than
                        one, memory comes with each round, in place if it was at create */
  lsched_divisor divisor; /* allreduce, reduce, reduce_scatter(_block): LSCHED_DIVIDE_BY_RANKS makes means of sums */
  const char* elements;   /* what the elements are to the caller if dtype does not say it, such as "complex". The same
                             text on all ranks, or the create returns MISMATCH. NULL or "": what dtype says */
} lsched_collective_desc;

/** Any that a message may have: 2^32. */
#define LSCHED_ANY_COUNT UINT64_MAX

/** A persistent collective: created once, run any number of times.  Collective.
 * Thread, Blocks, Memory: as lsched_allreduce_create; arrays of counts and ranks are not kept.
 * Errors: as lsched_allreduce_create; CONSTRAINT also if the named algorithm cannot keep the order of ranks and user_op
 * does not commute. What must be equal on all ranks and is not: MISMATCH; blocks whose two ends have different counts:
 * UNMATCHED. */
LSCHED_CHECKED lsched_status lsched_collective_create(lsched_world* world, const lsched_collective_desc* desc,
                                                      lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/** Creates a collective, runs one round, and destroys the schedule. For a collective that is needed once: in a loop, a
 * schedule that is created once is faster, because each create exchanges the requests of all ranks.  Collective.
 * Thread: as lsched_collective_create.  Blocks: until all ranks have called (at most commit_timeout_ns), and then at
 * most timeout_ns for the round.
 * Memory: desc, input and output are the caller's again at return, also after a failure.
 * Errors: as lsched_collective_create and lsched_run; ARGUMENT for a capacity or a depth. If the round fails, for
 * example by TIMEOUT, the collective is cancelled on all ranks: the other ranks return CANCELLED. */
LSCHED_CHECKED lsched_status lsched_once(lsched_world* world, const lsched_collective_desc* desc, uint64_t timeout_ns,
                                         lsched_diagnostic* diagnostic);

/* ---- Running --------------------------------------------------------------------------------------------- */

/** Names a round of a schedule. A small value; needs no release. */
typedef struct lsched_ticket {
  lsched_schedule* schedule;
  uint64_t round;
} lsched_ticket;

/** Starts the next round. One round may be outstanding; of schedules with a depth or a capacity: lsched_start_with.
 * Thread: any, one at a time per schedule.  Blocks: never, but runs inline what can run at once.
 * Memory: the bound buffers belong to the schedule until the round has ended.
 * Errors: STATE if a round is outstanding, the schedule is partial (use lsched_offer), or a round needs memory of its
 * own (lsched_start_with). */
LSCHED_CHECKED lsched_status lsched_start(lsched_schedule* schedule, lsched_ticket* ticket);

/** Where a round's blocks lie, of a schedule with a capacity: numbers of elements, one for each block. The input has
 * one block (gatherv, allgatherv) or one for each rank (scatterv at the root, alltoallv), the output one (scatterv) or
 * one from each rank (gatherv at the root, allgatherv, alltoallv). NULL for a buffer that this rank does not have. */
typedef struct lsched_counts {
  size_t struct_size;
  const uint64_t* send_counts;        /* elements of each block of the input */
  const uint64_t* send_displacements; /* from the input's beginning; NULL: one after the other */
  const uint64_t* recv_counts;        /* of the output: room; a block may turn out shorter */
  const uint64_t* recv_displacements; /* likewise. Blocks of the output do not overlap */
  uint64_t* received;                 /* NULL, or where the elements of each are written before the round ends */
} lsched_counts;

/** Starts the next round over memory of its own: as lsched_rebind and lsched_start, but only the round `depth` before
 * it must have ended. Tickets may be waited for in any order.  `inputs` and `outputs` in the order of the slots (a
 * collective: at most one each); both NULL: the memory that the round `depth` before this one had. `counts`: NULL but
 * for schedules with a capacity, which this is the only way to run. No rank needs to know another's counts, and every
 * rank may have others in every round.  Input and output lie apart, but for a block that a rank of a gatherv, scatterv
 * or allgatherv sends itself: where that lies in both at the same place it is not copied.
 * Thread: any, one at a time per schedule.  Blocks: until the engine is free, a step of it.
 * Memory: buffers, counts, displacements and `received` belong to the schedule until the round has ended.
 * Errors, of which nothing is sent and no round is started: STATE: the round `depth` before is outstanding; ARGUMENT:
 * as lsched_rebind, or counts or memory are missing, or there that belong to no buffer, or an array of lsched_counts is
 * in device memory; BOUNDS: a count is above the capacity, or the block for this rank itself above its room.  A round
 * whose blocks find no room at their receiver ends there with BOUNDS, naming the sender. */
LSCHED_CHECKED lsched_status lsched_start_with(lsched_schedule* schedule, const void* const* inputs,
                                               void* const* outputs, const lsched_counts* counts,
                                               lsched_ticket* ticket);

/** LSCHED_OK once the round has ended, LSCHED_PENDING before.  Thread: any. Blocks: never.  Memory: as lsched_wait.
 * Makes progress where there is no progress thread.  Errors: STATE: the round has not been started. */
LSCHED_CHECKED lsched_status lsched_test(lsched_ticket ticket);

/** Waits for the round's end; the waiting thread drives the engine itself.  May be repeated after TIMEOUT.
 * Thread: any number.  Blocks: at most timeout_ns.
 * Memory: after TIMEOUT the buffers still belong to the schedule; after OK and after every other way in which the round
 * has ended (PEER, CANCELLED, BOUNDS, TRANSPORT, DEVICE) they are the caller's, and no other rank reads or writes them.
 * Over MPI buffers of more than 16 KiB may be overwritten then, but must exist until the world is closed.
 * Errors: TIMEOUT; the diagnostic then names the schedule, the round of the ticket, the ops that have not fired and the
 * ranks they wait for. STATE: the round has not been started. */
LSCHED_CHECKED lsched_status lsched_wait(lsched_ticket ticket, uint64_t timeout_ns, lsched_diagnostic* diagnostic);

/** lsched_start and lsched_wait in one, without letting go of the engine in between: the fastest way to run a round.
 * Thread, Blocks, Memory, Errors: as these two. After TIMEOUT the round is still outstanding, and the diagnostic's
 * `round` is the number of the round that this call has started: {schedule, round} is its ticket. */
LSCHED_CHECKED lsched_status lsched_run(lsched_schedule* schedule, uint64_t timeout_ns, lsched_diagnostic* diagnostic);

/** The same program over other memory: `inputs` and `outputs` in the order of the slots (a collective: at most one
 * each).
 * Thread: any, not while a round runs.  Blocks: never.  Memory: as at create.
 * Errors: STATE while a round runs; what the schedule has failed of, if it has; ARGUMENT if an in-place schedule is
 * given two buffers or the other way round, or an input lies at another place of its output than at create, or an
 * output overlaps with other memory; UNSUPPORTED for partial schedules, which own their buffers, and for those whose
 * rounds have memory of their own. */
LSCHED_CHECKED lsched_status lsched_rebind(lsched_schedule* schedule, const void* const* inputs, void* const* outputs);

/** Gives a schedule up, on all ranks, whatever they do with it: a round that has timed out, say.  Rounds that a rank
 * has finished stay finished; every other call on the schedule answers CANCELLED there, and names the rank that was
 * first to cancel.  Other schedules, and the world, go on.  What is left to do with it is lsched_schedule_destroy, and
 * before that, on a partial schedule, lsched_withdraw.  docs/reference/cancel.md has the whole story.
 * Thread: any but one inside a combine function; waits on the schedule in other threads return.  Blocks: until the
 * engine is free and what this rank's lane has begun is done, then at most 100 ms for peers that read, and 2 s for what
 * this rank's device has begun.
 * Memory: this rank's buffers are the caller's again: nobody writes or reads them any more.
 * Errors: BUSY: the schedule is dead, but a peer (named) still reads a buffer; call again. UNSUPPORTED: likewise, but
 * MPI moves a message of more than 16 KiB, and the buffers stay in use until the world is closed. DEVICE: likewise, but
 * this rank's device hangs, and the buffers stay in use until it has ended what it has begun. */
LSCHED_CHECKED lsched_status lsched_cancel(lsched_schedule* schedule, lsched_diagnostic* diagnostic);

/** Ends a schedule.  NULL is OK.  An ordinary one: local; no round may be outstanding.  A partial one: collective;
 * leaves first if lsched_leave has not been called, then serves until every rank has left.  One that has failed or was
 * cancelled: local.
 * Thread: any, with no other call on this schedule.  Blocks: never (ordinary), at most timeout_ns (partial, or not
 * agreed upon yet: lsched_set_nonblocking), as lsched_cancel (failed).
 * Memory: the schedule is gone, and its buffers are the caller's again.
 * Errors: BUSY while a round runs (wait for it, or lsched_cancel), or, of a failed schedule, while a peer (named) reads
 * a buffer; TIMEOUT: nothing is gone, call again. UNSUPPORTED, or DEVICE of a failed schedule: it is gone, but as
 * lsched_cancel says. */
LSCHED_CHECKED lsched_status lsched_schedule_destroy(lsched_schedule* schedule, uint64_t timeout_ns,
                                                     lsched_diagnostic* diagnostic);

typedef enum lsched_print_format { LSCHED_PRINT_TEXT = 0, LSCHED_PRINT_DOT = 1 } lsched_print_format;

/** The compiled program of this rank as text.  *needed (optional) = bytes including the terminator; at most `bytes` are
 * written, always terminated if bytes > 0.  Thread: any. Blocks: never. Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_schedule_print(const lsched_schedule* schedule, lsched_print_format format,
                                                   char* text, size_t bytes, size_t* needed);

/* ---- Adaptive sums: what became of the tensors --------------------------------------------------------------- */

/** Which tensors of the last round of an "adasum" or "node_adasum" are non-finite: is_non_finite[i] = 1 if tensor i is,
 * else 0, and *number (optional) = how many. The same on all ranks, without a message. Non-finite is a tensor
 *   - that is NaN, in a world of several ranks: an element was not finite on some rank, or did not remain so on the way
 *     (an f16 beyond 65504 in an intermediate sum; docs/reference/adasum.md);
 *   - of which any element is not finite, where nothing is combined tensor by tensor: one rank; "two_level" on one
 *     node, which is the mean; and node_adasum on one node, which is one contribution.
 * A result that overflows in the last combination is an infinity in that element alone, and its tensor does not count.
 * Looks at one element of each tensor, of the latter kind at all elements.  Without a table there is one tensor.
 * `is_non_finite` has room for `tensor_count`, the schedule's number of tensors; NULL and 0: only the number.
 * Thread: any, but not while somebody starts a round, or rebinds.  Blocks: never.  Memory: reads the output where it
 * lies; ask before changing it.
 * Errors: ARGUMENT (not made as "adasum" or "node_adasum", another number of tensors); STATE while a round runs, and
 * before one has ended since the create or the last lsched_rebind; UNSUPPORTED for partial schedules, and for an
 * output in device memory. */
LSCHED_CHECKED lsched_status lsched_non_finite_tensors(const lsched_schedule* schedule, uint64_t tensor_count,
                                                       uint8_t* is_non_finite, uint64_t* number);

/* ---- Messages -------------------------------------------------------------------------------------------------- */

/** Messages between two ranks of a world, outside schedules. Two that a rank sends to another arrive in the order in
 * which they were posted; a receive takes the first one that has its tag and comes from its rank. What has come before
 * anybody has asked for it is kept in memory of the receiver's process. docs/reference/messages.md has the rest. */
typedef struct lsched_mailbox lsched_mailbox;
typedef struct lsched_message lsched_message; /* one that is sent, or waited for; gone once its end was told */

#define LSCHED_ANY_RANK (-1)
#define LSCHED_ANY_TAG (-1)

/** What has come. */
typedef struct lsched_arrival {
  size_t struct_size;
  int32_t rank; /* from whom; of a message that was sent: to whom */
  int32_t tag;
  uint64_t bytes; /* of it, whatever room there was */
} lsched_arrival;

/** Collective: every rank of the world has one, and messages may be posted at once where creates do not wait
 * (lsched_set_nonblocking). A world may have several, whose messages know nothing of each other.
 * Thread, Blocks, Errors: as lsched_barrier_create.  Memory: the mailbox is the caller's until lsched_mailbox_destroy.
 * About 17 KB for each other rank (48 KB where MPI carries them), of which what is not used is not touched. */
LSCHED_CHECKED lsched_status lsched_mailbox_create(lsched_world* world, lsched_mailbox** mailbox,
                                                   lsched_diagnostic* diagnostic);

/** Sends `bytes` bytes, 0 to 2^45, to a rank, perhaps this one.  The message has ended when `data` is the caller's
 * again: short ones then are on their way, long ones have been read.
 * Thread: any.  Blocks: until the engine is free, a step of it.  Memory: data belongs to the message until that has
 * ended.  Errors: ARGUMENT (no such rank, a tag below 0, no data), UNSUPPORTED (data in device memory), NOMEM. */
LSCHED_CHECKED lsched_status lsched_send_post(lsched_mailbox* mailbox, int32_t to, int32_t tag, const void* data,
                                              uint64_t bytes, lsched_message** message);

/** Waits for a message of at most `room` bytes, from a rank or LSCHED_ANY_RANK, with a tag or LSCHED_ANY_TAG.
 * Thread, Blocks, Memory, Errors: as lsched_send_post. */
LSCHED_CHECKED lsched_status lsched_receive_post(lsched_mailbox* mailbox, int32_t from, int32_t tag, void* data,
                                                 uint64_t room, lsched_message** message);

/** Waits until a message has ended. Whatever is answered but TIMEOUT, it is gone, *message is NULL, and *what (may be
 * NULL) is filled in.
 * Thread: any, one at a time per message.  Blocks: at most timeout_ns.
 * Errors: TIMEOUT, naming the rank: nothing has changed, call again, or lsched_message_cancel; BOUNDS: it was longer
 * than the room, and `data` is as it was; PEER: the rank (named) is lost, or has destroyed its mailbox; those of the
 * create; NOMEM: a message of that rank could not be kept, and no other will come from it. */
LSCHED_CHECKED lsched_status lsched_message_wait(lsched_message** message, uint64_t timeout_ns, lsched_arrival* what,
                                                 lsched_diagnostic* diagnostic);

/** The same without waiting: PENDING in place of TIMEOUT.  Thread: as lsched_message_wait. Blocks: never. */
LSCHED_CHECKED lsched_status lsched_message_test(lsched_message** message, lsched_arrival* what);

/** Takes a message back that has not begun to move: it is gone, *message is NULL.
 * Thread: as lsched_message_wait.  Blocks: as lsched_send_post.
 * Errors: BUSY: it moves or has ended; wait for it. */
LSCHED_CHECKED lsched_status lsched_message_cancel(lsched_message** message);

/** NULL is OK. Local: ranks that send to this one, or wait for it, from now on hear PEER; what had come and nobody
 * asked for is gone.  Thread: any, with no other call on this mailbox. Blocks: as lsched_send_post.
 * Errors: BUSY: messages have not ended, or their end was not told. */
LSCHED_CHECKED lsched_status lsched_mailbox_destroy(lsched_mailbox* mailbox);

/* ---- Sparse allreduces ----------------------------------------------------------------------------------------- */

/** Items for which an owner of a region has no room. */
typedef enum lsched_capacity {
  LSCHED_STRICT = 0, /* there is room for all: exactly the k largest of every rank are in */
  LSCHED_DEFER       /* a rank sends every owner at most its share of k, the largest first; the rest stays in its
                        residual. Balanced by cost or always, a rank sends and receives at most 6 k (P-1)/P words,
                        whatever the gradients; for k below some hundreds, 1 + log2 P items more */
} lsched_capacity;

typedef enum lsched_boundaries {
  LSCHED_POOLED = 0, /* regions go by quantiles of all ranks' items together */
  LSCHED_AVERAGED    /* by the mean of every rank's own quantiles, as published */
} lsched_boundaries;

typedef enum lsched_balance {
  LSCHED_BALANCE_BY_COST = 0, /* results are shared out equally before they are gathered, if that is fewer words */
  LSCHED_BALANCE_PUBLISHED,   /* if one owner has more than four times the mean */
  LSCHED_BALANCE_ALWAYS,
  LSCHED_BALANCE_NEVER
} lsched_balance;

/** NaN and infinities in gradients and sums. */
typedef enum lsched_nan_policy {
  LSCHED_NAN_PROPAGATE = 0, /* they count as the largest elements, so that they are sent, and all ranks see them */
  LSCHED_NAN_IGNORE,        /* NaN stay in the residual until somebody writes to it; infinities are sent */
  LSCHED_NAN_ERROR          /* as the first, but a round whose sum is not finite is refused, on all ranks */
} lsched_nan_policy;

/** Which elements a rank sends, and which of the sums are the result. */
typedef enum lsched_selection {
  LSCHED_EXACT = 0, /* the k largest, in every round */
  LSCHED_REUSED     /* as published: the k largest in rounds 1, 1 + reuse, ...; in between, all whose magnitude is not
                       below the k-th of the last such round: of a rank's elements 4 k at most, of sums any number. In
                       those rounds all sums are gathered, which is beyond the bound */
} lsched_selection;

typedef struct lsched_sparse_desc {
  size_t struct_size;
  const void* gradient;  /* count elements, only read */
  void* update;          /* count elements, disjoint from the gradient */
  uint64_t count;        /* up to 2^32 */
  uint64_t k;            /* items that a rank sends at most; more than count is count */
  lsched_dtype dtype;    /* F16, BF16, F32 or F64 */
  const char* algorithm; /* "oktopk" or "topka"; NULL or "auto": whichever is expected to take least. It is in the
                            schedule's name */
  double scale;          /* gradients enter the residual times this: 1, or the learning rate; 0 is 1 */
  lsched_nan_policy nans;
  /* Of "oktopk", else zero: */
  lsched_capacity capacity;
  uint32_t period; /* rounds between two looks at the regions' boundaries; 0: 64 */
  lsched_boundaries boundaries;
  lsched_balance balance;
  lsched_selection selection;
  uint32_t reuse;  /* of LSCHED_REUSED, else zero: rounds between two looks for thresholds; 0: 32 */
  uint32_t bucket; /* lists that a rank sends to owners before it has those of as many; 0: all of them */
  /* Of all: to go on from (lsched_sparse_save), on as many ranks; read by the create. NULL: the residual is zero. */
  const void* image;
  size_t image_bytes;
} lsched_sparse_desc;

/** An allreduce of the largest elements, with error feedback (Li and Hoefler, PPoPP 2022, Algorithm 2). In each round,
 * on every rank:
 *
 *     residual += scale * gradient                      the residual is the schedule's, f64 for F64 and f32 else
 *     its k largest elements (by magnitude, then index) are sent, those of all ranks added up in rank order
 *     update = the result / P, zero elsewhere: the same bits on every rank
 *     residual -= what of this rank's is in the update
 *
 * The result of "oktopk" is the k largest sums (but see lsched_selection), of "topka" all of them. No element is lost:
 * what is not in the update is in some rank's residual. A round that fails leaves residual + scale * gradient.
 *
 * LSCHED_NAN_ERROR: a round ends with NOT_FINITE on all ranks (lsched_run, lsched_wait, lsched_test; the diagnostic
 * names the first element) if anything that was sent, or its sum, is not finite. Its update is zero everywhere; in the
 * residuals elements that are not finite, or not as `dtype`, become zero on every rank, and nothing else changes. The
 * schedule remains usable. Finite elements whose sum overflows are in the residuals still, so the next round may be
 * refused, too. Of refused rounds the last one is remembered: an older ticket, asked again, answers OK.
 *
 * In device memory (lsched_cuda.h) are gradient and update both, or neither; the residual then is, too, and all bits
 * are the same. Not with LSCHED_REUSED: UNSUPPORTED.
 *
 * Run as any other (lsched_start, lsched_wait, lsched_run, lsched_rebind); docs/reference/sparse.md has the rest.
 * Collective. Thread, Blocks: as lsched_barrier_create.  Memory: as lsched_allreduce_create. The update is written as a
 * whole in the first round and after lsched_rebind, then only where it changes: do not write to it. Besides the
 * residual the schedule has a dense vector for sums and lists of about 2 P k items (LSCHED_DEFER: of some k).
 * F16 and BF16: sums travel as such; rounding is lost, and a sum beyond the type is infinite, even if its P-th part
 * would not be: scale gradients accordingly.
 * From an image of each rank, of the same round, rounds go on as those of the schedule that was saved would have: with
 * the same gradients they give the same bits.
 * Errors: ARGUMENT (also for members that the algorithm does not look at and that are not zero, and for what is no
 * image), VERSION (of the image), MISMATCH (ranks disagree about anything but memory and scale, or have images of
 * different rounds; an image of another dtype, count or number of ranks), else as barrier. */
LSCHED_CHECKED lsched_status lsched_sparse_create(lsched_world* world, const lsched_sparse_desc* desc,
                                                  lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/** What this rank has sent and received in all rounds so far, without the headers of transports (lsched_stats). */
typedef struct lsched_sparse_stats {
  size_t struct_size;
  uint64_t rounds;              /* that have ended */
  uint64_t item_bytes_sent;     /* indices and values; what a rank keeps for itself is not sent */
  uint64_t item_bytes_received; /* likewise */
  uint64_t other_bytes_sent;    /* counters, lengths, bitmaps; of partial ones an element that counts contributors */
  uint64_t other_bytes_received;
  uint64_t messages_sent; /* those without any bytes included */
  uint64_t messages_received;
} lsched_sparse_stats;

/** Thread: any.  Blocks: for at most one step of the engine.  Errors: ARGUMENT (also for schedules that were not made
 * by lsched_sparse_create, lsched_coo_allreduce_create or with `sparse`). */
LSCHED_CHECKED lsched_status lsched_sparse_get_stats(const lsched_schedule* schedule, lsched_sparse_stats* stats);

/** The residual, between rounds: *residual points to `count` elements of *dtype, which may be read and written; in
 * device memory if the gradient is.
 * A round of a partial schedule lasts from the capture of this rank's contribution to its end, and any rank may start
 * the next: flush on all ranks, look or save, then a barrier or another lsched_flush before any rank offers.
 * After a failed round there is no other, but the residual is still there to be saved.
 * Thread: not while a round runs.  Blocks: never; for at most one step of the engine if partial.  Memory: the
 * schedule's.  Errors: ARGUMENT, STATE while a round runs. */
LSCHED_CHECKED lsched_status lsched_sparse_residual(const lsched_schedule* schedule, void** residual,
                                                    lsched_dtype* dtype);

/** Saves all that lives from round to round, for a checkpoint (residual, boundaries, thresholds): *needed (optional) =
 * its bytes; written if there is room for all of it. lsched_sparse_create goes on from the image. Partial schedules: as
 * lsched_sparse_residual; images of several ranks belong together only if no round ran in between.
 * Thread: not while a round runs.  Blocks: as lsched_sparse_residual; for a copy from device memory.  Errors: ARGUMENT
 * (too little room), DEVICE, STATE while a round runs. */
LSCHED_CHECKED lsched_status lsched_sparse_save(const lsched_schedule* schedule, void* image, size_t bytes,
                                                size_t* needed);

/** Which part of the indices is added up by which rank. Sums do not depend on it, time and memory do. */
typedef enum lsched_regions {
  LSCHED_EQUAL_REGIONS = 0, /* each rank's is as long; it may have to hold P * room items */
  LSCHED_BALANCED_REGIONS   /* cut in each round by samples of all ranks' indices: none gets more than about 2 * room
                               items. Two more exchanges, of 2 P numbers and of one a rank; count is up to 2^32 */
} lsched_regions;

typedef struct lsched_coo_desc {
  size_t struct_size;
  const uint64_t* indices;    /* what this rank brings: `room` of them, of which the first *item_count count; */
  const void* values;         /* and as many values. In any order, an index as often as you like */
  const uint64_t* item_count; /* read when a round begins, up to room */
  uint64_t room;
  uint64_t* out_indices; /* the result: room for out_room of them, ascending, each once; */
  void* out_values;      /* and as many values */
  uint64_t* out_count;   /* how many these are, written when a round ends */
  uint64_t out_room;     /* the least of count and P * room is always enough */
  void* dense;        /* NULL, or count elements: the result as a vector, zero where it has no item. Written as a whole
                         in the first round and after lsched_rebind, then where it changes: do not write to it */
  uint64_t count;     /* of the vector: indices are below it. Up to P * 2^32; takes no memory */
  lsched_dtype dtype; /* of values: F16, BF16, F32 or F64 */
  lsched_regions regions; /* 0: equal */
} lsched_coo_desc;

/** The exact sum of sparse vectors that ranks bring (gradients of embeddings): nothing is selected or left out, so
 * there is no residual. The result has every index that any rank has given, also if its sum is zero; its value is rank
 * 0's, added up in the order of its items, plus rank 1's, and so on: in f32 for F16 and BF16, rounded once, at the end.
 * The same bits on every rank.
 *
 * A round with more than `room` items on a rank, an index that is not below count, or a result of more than out_room
 * items ends on all ranks with BOUNDS (lsched_run, lsched_wait, lsched_test; the diagnostic says whose, or how many).
 * It changes nothing but *out_count: the number of items of the result, or 0 if a rank's items were wrong. The schedule
 * remains usable. Of such rounds the last one is remembered: an older ticket, asked again, answers OK.
 *
 * Inputs for lsched_rebind are indices, values and item_count, outputs out_indices, out_values, out_count and, if there
 * was one, dense. What was sent and received is in lsched_sparse_get_stats.  Collective.
 * Thread, Blocks: as lsched_barrier_create.  Memory: as lsched_allreduce_create; outputs are disjoint from each other
 * and from inputs. The schedule takes P * min(room, ceil(count / P)) items of f32 or f64 (about 2 * room if balanced),
 * 16 bytes and more for each item of room, and three times out_room items.
 * Errors: ARGUMENT, NOMEM, UNSUPPORTED (count is more than P * 2^32, or 2^32 if balanced), CONSTRAINT (an integer
 * dtype), MISMATCH (ranks disagree about room, out_room, count, dtype or regions; dense is each rank's own choice),
 * else as barrier. */
LSCHED_CHECKED lsched_status lsched_coo_allreduce_create(lsched_world* world, const lsched_coo_desc* desc,
                                                         lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/* ---- Floating formats ----------------------------------------------------------------------------------------- */

/** output[i] = factor * input[i], from one floating dtype to another (or the same): the product in f64, rounded to
 * nearest even, subnormals included; too large is an infinity. A factor that is a power of two rounds once.
 * Thread: any.  Blocks: never.  Memory: all the caller's; input and output have count elements each and are disjoint.
 * Errors: ARGUMENT (a null buffer with count > 0, one in device memory (lsched_cuda.h), an integer dtype, or none). */
LSCHED_CHECKED lsched_status lsched_convert(lsched_dtype from, const void* input, uint64_t count, double factor,
                                            lsched_dtype to, void* output);

/* ---- Partial collectives: wait-avoiding rounds ----------------------------------------------------------- */

/* What starts a round, in words:
 *   "full"         every rank's own call starts its part: nobody is left out
 *   "solo"         the first call of a round
 *   "majority"     the call of one rank, drawn for each round from the seed: on average half of the ranks have called
 *   "first_of(M)"  the first call of M ranks that are drawn for each round
 *   "all_of(M)"    the last call of M such ranks
 *   "quorum(K)"    the K-th call
 *   "deadline(T)"  every rank's own call starts its part, as "full"; but a rank that has waited in lsched_collect for T
 *                  microseconds since its call starts the parts of all. T may be "auto": of each rank a fifth of the
 *                  median time between two of its last 64 calls; before there are 8 such times it waits for all
 * followed by "+every(T)" or nothing: rounds T, 2T, … wait for every rank's call, so that none falls further behind.
 * A rank that has left is not drawn, and is not waited for. */

typedef enum lsched_lag {
  LSCHED_LATEST = 0, /* a result that was not collected is replaced by the next */
  LSCHED_ACCUMULATE, /* it is combined into the next: no round is ever dropped */
  LSCHED_HISTORY     /* both are kept, and collected one after the other, up to a number of results; when so many wait,
                        the last of them and the next are combined */
} lsched_lag;

typedef struct lsched_partial_desc {
  size_t struct_size;
  const char* collective; /* contribution -> result, with n = count and P ranks:
                               "allreduce"             n      -> n, reduced over all; also if NULL
                               "reduce_scatter_block"  P * n  -> n, block r of all, reduced
                               "adasum"                n      -> n, adaptive sum over all, tensor by tensor
                               "allgather"             n      -> P * n, block r from rank r, zero if that rank has
                                                                 contributed nothing; other lags than LSCHED_LATEST
                                                                 combine results, and that is for LSCHED_SUM only
                               "sparse_allreduce"      n      -> n, gradient -> update; needs `sparse` */
  uint64_t count;
  const uint64_t* buckets; /* of an allreduce, if not NULL: elements of each of bucket_count parts of the vector, which
                              are reduced side by side: with one call, one draw, one set of contributors and one report
                              for all. They add up to count. The same on all ranks */
  uint32_t bucket_count;
  lsched_dtype dtype;
  lsched_reduction reduction; /* also of contributions that come late, with later ones. adasum: of these alone, 0 (by
                                 adasum, too) or LSCHED_SUM; results of several rounds are added up */
  const char* activation;     /* as above */
  uint64_t seed;              /* of the draws; the same on all ranks */
  lsched_lag lag;             /* each rank's own choice */
  uint32_t history;           /* of LSCHED_HISTORY: how many results are kept, 1 … 60; else 0 */
  lsched_divisor divisor;     /* each rank's own choice */
  const char* algorithm;      /* a name `lsched list` shows; NULL or "auto": chosen */
  int32_t averages_weights;   /* 1: lsched_model_sync will be called; takes memory for six more vectors. The same on all
                               ranks; sums of f32 and f64 only */
  const lsched_tensor* tensors; /* of an adasum, as in lsched_collective_desc, but without gaps */
  uint64_t tensor_count;
  const lsched_sparse_desc*
      sparse; /* of a sparse_allreduce, which NULL for `collective` then means; NULL for others. Its
                                       gradient and update are NULL, its count and dtype those above; the algorithm is
                                       named in it, not above. LSCHED_SUM, no divisor (an update is divided by P) */
  const char* elements; /* as in lsched_collective_desc; not of a sparse_allreduce */
} lsched_partial_desc;

/** What a round was: the same bytes on every rank that has collected just up to it. */
typedef struct lsched_round_report {
  uint64_t round;
  uint64_t contributors; /* ranks whose contribution is in it; 0: there is no result of it, but of sparse_allreduce */
  uint64_t offers;       /* calls of lsched_offer inside */
  uint64_t ranks;        /* size of the world in which the round was */
} lsched_round_report;

/** What a collect delivered to this rank. */
typedef struct lsched_report {
  size_t struct_size;
  lsched_round_report last; /* round `to` */
  uint64_t from, to;        /* rounds (from, to] are covered; from == to: nothing new, the result is untouched */
  uint64_t round;     /* the last that was over: to, unless a history waits; of a flush the same on every rank, if none
                         leaves meanwhile */
  uint64_t offers;    /* calls of lsched_offer inside the result */
  uint64_t mine;      /* of this rank's, those sent in rounds (from, to] */
  uint64_t staleness; /* of these: rounds between the one called for and the one it was in, at most */
  int32_t has_result; /* 0: nobody contributed anything, or (all there is of a sparse_allreduce) nothing is new; the
                         result is untouched */
} lsched_report;

/** A collective in which nobody waits for the slowest (Li et al., PPoPP 2020). It owns its buffers and is served in
 * the background from creation on: with any policy but full a rank takes part in a round even if it has not called,
 * with what it has offered so far, or with nothing (null), which moves no bytes.  Collective.
 * In a sparse allreduce a rank that has offered nothing sends from its residual (lsched_sparse_create), so every round
 * has an update; 0 contributors: no new gradient is in it. lsched_sparse_get_stats, _residual, _save and _load apply.
 * Thread, Blocks, Memory: as lsched_barrier_create.
 * Errors: as lsched_allreduce_create; UNSUPPORTED for other policies than full without a progress thread, unless the
 * configuration asks for LSCHED_PROGRESS_CALLER on purpose. */
LSCHED_CHECKED lsched_status lsched_partial_create(lsched_world* world, const lsched_partial_desc* desc,
                                                   lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/** Deposits a contribution and calls for my next round: with c my c-th call and E the open round, c < E: that round is
 * over, the contribution goes into the next one; c == E: I join, and start the round if the policy says so; c > E: the
 * call is remembered, but the contribution joins whatever is captured next, perhaps the open round. So a round, also of
 * "full", may have fewer contributors than ranks, and an earlier one several offers of a rank.
 * Contributions that missed their round are combined with later ones: none is lost, none counts twice.
 * Thread: one at a time per schedule.  Blocks: never; one pass over the data, two if a round captures meanwhile.
 * Memory: `contribution` is copied and the caller's again at return. NULL: a call without a contribution, as of a rank
 * whose gradients have overflowed or that has no data in this step; what is pending already goes into the round.
 * Errors: ARGUMENT, UNSUPPORTED (device memory), STATE after lsched_leave, in the middle of lsched_flush or
 * lsched_model_sync, or for ordinary schedules. */
LSCHED_CHECKED lsched_status lsched_offer(lsched_schedule* schedule, const void* contribution, lsched_ticket* ticket);

/** The same of a contribution whose buckets lie in memory of their own: one pointer each. (A schedule that was made
 * without buckets has one.) */
LSCHED_CHECKED lsched_status lsched_offer_buckets(lsched_schedule* schedule, const void* const* buckets,
                                                  lsched_ticket* ticket);

/** The same bucket by bucket, while others of the contribution are still computed: lsched_offer_bucket copies one, in
 * any order, and lsched_offer_end deposits the whole and calls, once all buckets that are not empty are there. Given
 * twice, a bucket is as it was given last. lsched_withdraw forgets what has been begun.
 * Thread, Blocks, Memory: as lsched_offer.  Errors: as lsched_offer; ARGUMENT (no such bucket); STATE: a bucket is
 * missing; lsched_offer, lsched_flush and lsched_model_sync answer it in between. */
LSCHED_CHECKED lsched_status lsched_offer_bucket(lsched_schedule* schedule, uint32_t index, const void* bucket);
/** Deposits the buckets that lsched_offer_bucket has copied, and calls. */
LSCHED_CHECKED lsched_status lsched_offer_end(lsched_schedule* schedule, lsched_ticket* ticket);

/** Skips calls: the rounds up to `last` that are over count as called for, so that my next lsched_offer calls for a
 * round after them. *skipped (optional) = the number of these rounds. Contributions are not affected. A loop that ends
 * with round N skips up to N - 1 before each offer: a late rank then joins the open round instead of calling for rounds
 * that are over, and no rank calls for a round after N. Once round N is over on a rank, the rank may flush.
 * Thread: as lsched_offer.  Blocks: never.  Errors: as lsched_offer. */
LSCHED_CHECKED lsched_status lsched_skip(lsched_schedule* schedule, uint64_t last, uint64_t* skipped);

/** Saves what this rank has offered and no round has taken yet, for a checkpoint: *needed (optional) = its bytes;
 * written if there is room for all of it. A round may take it at any time: an image is what is pending at that moment.
 * Loads it into a schedule of the same dtype and count, beside what is pending there, without a call.
 * Thread: as lsched_offer.  Blocks: never.
 * Errors: ARGUMENT (too little room; no such image), VERSION, MISMATCH; load also as lsched_offer. Nothing has changed
 * then. */
LSCHED_CHECKED lsched_status lsched_pending_save(const lsched_schedule* schedule, void* image, size_t bytes,
                                                 size_t* needed);
/** Adds an image of lsched_pending_save to what is pending. */
LSCHED_CHECKED lsched_status lsched_pending_load(lsched_schedule* schedule, const void* image, size_t bytes);

/** Waits until the ticket's round is over, then copies the result that was not collected yet; of a history the first of
 * them, and the next call the next.
 * Thread: one at a time per schedule; may be another than the offering one.  Blocks: at most timeout_ns.
 * Memory: `result` has room for it; NULL drops the data.  `report` may be NULL.
 * Errors: TIMEOUT (as lsched_wait), ARGUMENT, STATE for a ticket of an ordinary schedule. */
LSCHED_CHECKED lsched_status lsched_collect(lsched_ticket ticket, void* result, uint64_t timeout_ns,
                                            lsched_report* report, lsched_diagnostic* diagnostic);

/** The same into buckets that lie in memory of their own: one pointer each. */
LSCHED_CHECKED lsched_status lsched_collect_buckets(lsched_ticket ticket, void* const* buckets, uint64_t timeout_ns,
                                                    lsched_report* report, lsched_diagnostic* diagnostic);

/** The same without a copy (a result that is divided is written beside itself): *result points to where it lies. It may
 * be read until the next collect (of any kind), flush or model_sync that has something new, or the end of the schedule;
 * not written: ranks that lack it after a death take it from here. NULL where there is no result.
 * Errors: as lsched_collect; STATE in the middle of lsched_flush. */
LSCHED_CHECKED lsched_status lsched_collect_view(lsched_ticket ticket, const void** result, uint64_t timeout_ns,
                                                 lsched_report* report, lsched_diagnostic* diagnostic);

/** Takes back what was offered and has not been sent, and forgets it; *offers (optional) = how many calls that was.
 * Thread: as lsched_offer.  Blocks: never.  Errors: STATE for ordinary schedules. */
LSCHED_CHECKED lsched_status lsched_withdraw(lsched_schedule* schedule, uint64_t* offers);

/** Together with all ranks that have not left: makes a round that contains everything offered before, on all of them,
 * and copies what was not collected yet, as lsched_collect (of a history the first result; collect the others). All
 * ranks are at the same round afterwards. What a rank that leaves meanwhile had pending may come a round later.
 * Collective.
 * Thread: as lsched_offer and lsched_collect.  Blocks: at most timeout_ns; after a TIMEOUT call it again (offer and
 * withdraw answer STATE until then; collect and leave are possible).  `result` is written at OK only.
 * Errors: TIMEOUT, ARGUMENT, STATE after lsched_leave, in the middle of lsched_model_sync, or for ordinary
 * schedules. */
LSCHED_CHECKED lsched_status lsched_flush(lsched_schedule* schedule, void* result, uint64_t timeout_ns,
                                          lsched_report* report, lsched_diagnostic* diagnostic);

/** The same into buckets that lie in memory of their own: one pointer each. */
LSCHED_CHECKED lsched_status lsched_flush_buckets(lsched_schedule* schedule, void* const* buckets, uint64_t timeout_ns,
                                                  lsched_report* report, lsched_diagnostic* diagnostic);

/** Together with all ranks that have not left: replaces `weights`, count elements as those of contributions, by their
 * mean, the same bits everywhere; drops what was pending and not collected.  Collective. (The periodic synchronisation
 * of Li et al., PPoPP 2020.)
 * report->last.contributors: how many ranks' weights; those of a rank that leaves meanwhile may be among them.
 * Thread, Blocks: as lsched_flush; `weights` must not change between a TIMEOUT and the next call.
 * Errors: as lsched_flush; UNSUPPORTED unless the schedule was made with averages_weights. */
LSCHED_CHECKED lsched_status lsched_model_sync(lsched_schedule* schedule, void* weights, uint64_t timeout_ns,
                                               lsched_report* report, lsched_diagnostic* diagnostic);

/** From now on this rank counts as having called in every round, with nothing to contribute (what is pending is still
 * sent). It goes on serving the others until lsched_schedule_destroy.
 * Thread: as lsched_offer.  Blocks: never.  Errors: STATE for ordinary schedules. Calling it twice is OK. */
LSCHED_CHECKED lsched_status lsched_leave(lsched_schedule* schedule);

/** Carries a partial schedule into a world of some of its ranks, after lsched_shrink: the others are gone for it, and
 * all that it waits for ends with PEER; where nobody is missing it must have failed. The handle and its tickets stay;
 * what was waited for is to be waited for again. The last round that any member has ended is over on all of them, with
 * the same result; whatever else members have offered is pending, and calls that were not answered count. A quorum, or
 * a number of candidates, that is larger than the world becomes its size. Results go on being divided by the number of
 * ranks that the schedule was created with.  Collective over `survivors`, in the order of its creates.
 * Thread: any, while no other uses the schedule.  Blocks: as lsched_barrier_create.
 * Memory: the schedule's world may be closed once all its schedules have been carried or destroyed.
 * Errors: the same on all members, but for ARGUMENT; nothing has changed then, and the schedule may be carried to
 * another world. PEER: another rank has died: shrink the first world once more. UNSUPPORTED: an ordinary or sparse
 * schedule, a reduce_scatter_block or an allgather. STATE: nobody is missing, and it has not failed; or all ranks have
 * left it. BUSY: a rank has not let go of another's memory. ARGUMENT: `survivors` has a rank that the schedule's world
 * has not. Else as lsched_barrier_create. */
LSCHED_CHECKED lsched_status lsched_carry(lsched_schedule* schedule, lsched_world* survivors,
                                          lsched_diagnostic* diagnostic);

/** bins[b] counts values of b binary digits: bins[0] zeros, bins[b] those from 2^(b-1) to 2^b - 1; the last one larger
 * ones, too. */
#define LSCHED_HISTOGRAM_BINS 40
typedef struct lsched_histogram {
  uint64_t sum, max;
  uint64_t bins[LSCHED_HISTOGRAM_BINS];
} lsched_histogram;

/** What a rank has seen of the rounds that are over. Its gate is the moment at which its part of a round begins, with
 * the capture of what it has offered. */
#define LSCHED_CONTRIBUTOR_BINS 65
typedef struct lsched_partial_stats {
  size_t struct_size;
  uint64_t rounds;
  /* Ranks that contributed, by round; the same on every rank. contributors[n] counts the rounds with n of them; in a
   * world of more than 64 ranks with n * 64 / ranks, rounded up. */
  uint64_t contributors_sum, contributors_min, contributors_max;
  uint64_t contributors[LSCHED_CONTRIBUTOR_BINS];
  lsched_histogram staleness; /* of this rank's contributions, one a round; in rounds, as in reports */
  /* When this rank called, against its gate: three numbers that add up to `rounds`, and by how much. No time is kept
   * of a call that is some 1,000 rounds or more from its gate. */
  uint64_t in_time;               /* rounds that it had called for */
  uint64_t late;                  /* rounds that it called for afterwards */
  uint64_t uncalled;              /* rounds that it has not called for, or only by leaving */
  lsched_histogram early_ns;      /* of those in time: from the call to the gate */
  lsched_histogram late_ns;       /* of those late: from the gate to the call */
  lsched_histogram completion_ns; /* from the gate to the end of the round */
  /* Sent by this rank, also in the round that is under way; payload, without headers, as in lsched_stats. */
  uint64_t messages_sent; /* null ones included */
  uint64_t nulls_sent;
  uint64_t bytes_sent;
  uint64_t bytes_saved; /* that null messages would have had */
} lsched_partial_stats;

/** What this rank has seen of a partial schedule since it was made. Rounds of lsched_flush and lsched_model_sync count;
 * what ranks exchange to agree on them does not.
 * Thread: any.  Blocks: for at most one step of the engine.  Errors: ARGUMENT; STATE for ordinary schedules. */
LSCHED_CHECKED lsched_status lsched_schedule_stats(const lsched_schedule* schedule, lsched_partial_stats* stats);

/** The same as one JSON object with the members' names; of bins, those up to the last that is not 0.
 * Room as lsched_schedule_print, but it may take some more the next time.
 * Thread, Blocks, Errors: as lsched_schedule_stats. */
LSCHED_CHECKED lsched_status lsched_schedule_stats_print(const lsched_schedule* schedule, char* text, size_t bytes,
                                                         size_t* needed);

/* ---- Schedules by hand: create, describe, commit --------------------------------------------------------- */

typedef struct lsched_op {
  uint32_t id;
} lsched_op;
typedef struct lsched_slot {
  uint32_t id;
} lsched_slot;

/** `count` elements of a slot from `offset` on. */
typedef struct lsched_region {
  lsched_slot slot;
  uint64_t offset;
  uint64_t count;
} lsched_region;

/** An empty schedule of this rank. Slot, add and set functions keep the builder's first error, so a chain of them may
 * be checked once, at commit; each also returns it, but no compiler asks to look.  `name` (NULL: "custom") must be the
 * same on all ranks.
 * Thread: any; a builder is one thread's at a time, for all functions below.  Blocks: never, all of them.
 * Memory: *builder is the caller's until commit or destroy.  Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_builder_create(lsched_world* world, const char* name, lsched_builder** builder);

/** The same of any rank of a world that need not exist: what it makes can be printed, and the text proved, simulated,
 * drawn and loaded. lsched_builder_commit refuses it.  Errors: ARGUMENT (no such rank). */
LSCHED_CHECKED lsched_status lsched_builder_create_at(int32_t rank, int32_t ranks, const char* name,
                                                      lsched_builder** builder);
/** Destroys a builder that is not to be committed. NULL is OK. */
LSCHED_API void lsched_builder_destroy(lsched_builder* builder);

/** Buffers: `input` is only read, `output` written (both bound at commit, in the order of their declaration), `scratch`
 * belongs to the schedule.  Errors: ARGUMENT (no dtype, count of 2^48 or more). */
LSCHED_API lsched_status lsched_slot_input(lsched_builder* b, lsched_dtype dtype, uint64_t count, lsched_slot* slot);
/** A buffer that the schedule writes; see lsched_slot_input. */
LSCHED_API lsched_status lsched_slot_output(lsched_builder* b, lsched_dtype dtype, uint64_t count, lsched_slot* slot);
/** A buffer of the schedule's own; see lsched_slot_input. */
LSCHED_API lsched_status lsched_slot_scratch(lsched_builder* b, lsched_dtype dtype, uint64_t count, lsched_slot* slot);

/** Ops. `op` (optional) receives the new op. A tag is used once per peer and direction. A peer is another rank:
 * lsched_add_copy moves data within a rank.
 * Errors: ARGUMENT (a slot that does not exist). Peers, bounds, dtypes and tags are checked at commit. */
LSCHED_API lsched_status lsched_add_nop(lsched_builder* b, lsched_op* op);
/** Sends a region to rank `to`. */
LSCHED_API lsched_status lsched_add_send(lsched_builder* b, int32_t to, uint32_t tag, lsched_region source,
                                         lsched_op* op);
/** Receives a region from rank `from`. */
LSCHED_API lsched_status lsched_add_recv(lsched_builder* b, int32_t from, uint32_t tag, lsched_region target,
                                         lsched_op* op);
/** target = lower (reduction) higher, elementwise; `count` of all three must be equal. Regions are equal or disjoint.
 * Ranks whose ops combine elements of a dtype by one reduction alone must all have the same one: commit compares them.
 * A rank that combines none, or by several reductions, goes with any. */
LSCHED_API lsched_status lsched_add_reduce(lsched_builder* b, lsched_reduction reduction, lsched_region lower,
                                           lsched_region higher, lsched_region target, lsched_op* op);
/** The same by the caller's own arithmetic: one for all such ops of a schedule. Offsets and counts are multiples of its
 * unit. */
LSCHED_API lsched_status lsched_add_user_reduce(lsched_builder* b, const lsched_user_op* user_op, lsched_region lower,
                                                lsched_region higher, lsched_region target, lsched_op* op);
/** Copies a region to another of this rank; counts and dtypes are equal. */
LSCHED_API lsched_status lsched_add_copy(lsched_builder* b, lsched_region source, lsched_region target, lsched_op* op);

/** `before` completes before a token reaches `after`.  Errors: ARGUMENT. */
LSCHED_API lsched_status lsched_add_dep(lsched_builder* b, lsched_op before, lsched_op after);

/** The op fires on its `tokens`-th incoming token: 1 = any of its deps, 0 = all of them (the default). An op fires once
 * a round; later tokens are absorbed.  Errors: ARGUMENT. */
LSCHED_API lsched_status lsched_set_need(lsched_builder* b, lsched_op op, uint32_t tokens);

/** Compiles, binds and connects. Consumes the builder, also on failure.  Collective, also for ranks whose builder has
 * an error.  Thread, Blocks, Memory: as lsched_allreduce_create; `inputs` and `outputs` hold one pointer per slot.
 * Outputs overlap with nothing, but in place: of the first input and the first output one lies within the other, and
 * each further input begins where the output of its number does (lsched_verify tells whether a schedule is right in
 * place).
 * Errors: the builder's first; CYCLE, BOUNDS, ARGUMENT (also memory that overlaps otherwise); UNMATCHED (sends
 * and receives of the world do not pair up in peer, tag, dtype and size; the diagnostic names one that is left over);
 * MISMATCH (ranks combine by different reductions, among others); the finding of a proof (lsched_set_verify). */
LSCHED_CHECKED lsched_status lsched_builder_commit(lsched_builder* builder, const void* const* inputs,
                                                   void* const* outputs, lsched_schedule** schedule,
                                                   lsched_diagnostic* diagnostic);

/** What lsched_builder_commit would run, as a schedule file (docs/reference/schedule_file.md); the texts of all ranks,
 * one after the other, are what lsched_verify, lsched_simulate and lsched_schedule_load take. The builder stays.
 * Room as lsched_schedule_print.  Thread, Blocks: as the builder's.
 * Errors: the builder's first; CYCLE, BOUNDS, ARGUMENT, as lsched_builder_commit. */
LSCHED_CHECKED lsched_status lsched_builder_print(const lsched_builder* builder, char* text, size_t bytes,
                                                  size_t* needed, lsched_diagnostic* diagnostic);

/** A schedule from text, as lsched_schedule_print and `lsched show` write it and docs/reference/schedule_file.md
 * describes it: this rank's own alone, or a whole world's (`lsched show --all`), of which each rank takes its own.
 * Compiles, binds and connects.  Collective, also for ranks whose text is bad.  `text` has `bytes` bytes, needs no NUL,
 * and is not kept.
 * A text does not say whether it was made for memory in place (an algorithm writes another schedule then): what it was
 * made for is what it has to be bound to, or results may be wrong.
 * Thread, Blocks, Memory: as lsched_builder_commit, with one pointer per `input` and per `output` buffer.
 * Errors: ARGUMENT (also a text with user-defined arithmetic, which text cannot bring), BOUNDS (the diagnostic names
 * line, column and reason); MISMATCH (another rank's text or another world's, or texts of different names); UNMATCHED;
 * UNSUPPORTED (another version of the text, or a partial schedule). */
LSCHED_CHECKED lsched_status lsched_schedule_load(lsched_world* world, const char* text, uint64_t bytes,
                                                  const void* const* inputs, void* const* outputs,
                                                  lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/* ---- Algorithms of your own ---------------------------------------------------------------------------------- */

/** Registers the algorithm of an algorithm file (docs/reference/algorithm_file.md) for the rest of the process: from
 * now on it has its name for `algorithm` in every desc, takes part in "auto" where its schedules are proved, and has a
 * partial form where that is proved. The variable LSCHED_ALGORITHM_FILES does the same when a world is opened. A
 * text that was registered before is accepted again. All ranks must register the same texts, before they create.
 * `text` has `bytes` bytes, needs no NUL, and is not kept.
 * Thread: any.  Blocks: never.  Errors: ARGUMENT (the diagnostic names line, column and reason); UNSUPPORTED (another
 * version of the form, or a collective that cannot be written so); STATE (another algorithm has that name). */
LSCHED_CHECKED lsched_status lsched_algorithm_load(const char* text, uint64_t bytes, lsched_diagnostic* diagnostic);

/* ---- Proofs ---------------------------------------------------------------------------------------------------- */

/* Whether the schedules of a whole world keep what they promise in every execution: whatever the order in which
 * messages arrive, at any eager limit, whoever calls first (docs/reference/verify.md). Nothing runs and no world is
 * needed. The verdict is `holds`: LSCHED_OK alone says only that there is one. */

/** What was counted and found out. The counts are complete where the world holds. */
typedef struct lsched_verification {
  size_t struct_size;
  int32_t holds; /* 1: proved; 0: it does not hold */
  int32_t ranks;
  const char* collective;       /* whose contents the outputs were held against; static; NULL: nothing was promised */
  const char* algorithm;        /* whose declared cost, too; static; NULL: no cost was promised */
  int32_t is_synchronising;     /* 1: no rank leaves a round before every rank has entered it, declared or not */
  int32_t is_eager_safe;        /* 1: with unlimited buffers every round ends (0 implies that it does not hold) */
  uint64_t messages;            /* of all ranks, in one round: with payload */
  uint64_t bytes;               /* of payload, if no contribution is null */
  uint64_t signals;             /* if every rank's own call counts */
  uint64_t signals_of_one;      /* if one rank's call counts */
  uint64_t hops;                /* rounds: the longest chain of messages and signals */
  uint64_t unexpected_messages; /* at the worst rank, at most, before the receives that they belong to are posted */
  uint64_t unexpected_bytes;
  uint64_t findings;  /* written: why it does not hold */
  uint64_t notes;     /* written after these: legal, but fragile */
  uint64_t count;     /* the promise, where there is one: what each rank contributes or gets; 0 if ranks differ */
  lsched_dtype dtype; /* 0: nothing is moved, or promised */
  lsched_reduction reduction; /* 0: nothing is combined, or adaptively, or by the user */
  int32_t root;               /* 0 where there is none */
  int32_t reserved;           /* 0 */
} lsched_verification;

/** One reason. */
typedef struct lsched_finding {
  const char* property; /* the kind: "form", "matching", "progress", "holding", "activation", "hazard", "contents",
                           "expression", "cost" or "synchronising"; static */
  int32_t rank;         /* where; -1: everywhere */
  int32_t peer;         /* the rank at the other end; -1: none */
  uint32_t op;          /* of `rank`; UINT32_MAX: none */
  uint32_t buffer;      /* of `rank`; UINT32_MAX: none */
  uint64_t begin, end;  /* the segment: elements [begin, end) of the buffer */
  char text[2048];      /* the explanation, with the ops and the ways that lead to it; one line, cut if it is longer */
} lsched_finding;

/** What is proved: the schedules of a text, or without one what the library itself would run, contents and cost. */
typedef struct lsched_verify_desc {
  size_t struct_size;
  const char* text;       /* schedule files (docs/reference/schedule_file.md) of all ranks, in any order */
  uint64_t bytes;         /* of text, which needs no NUL and is not kept */
  const char* collective; /* of `lsched list`; its contents are what the outputs of a text must hold. NULL, for a text:
                             the one that the schedules are named after ("allreduce/mine"), with its cost if they name
                             a registered algorithm; nothing, if there is none. `lsched_verification` says what was
                             promised: compare, or ask for it by `asked` */
  int32_t in_place;       /* 0 or 1; 1: inputs and outputs share memory, at the collective's offset, or, where there is
                             no collective, both begin together */
  int32_t ranks;          /* at most 2^20. Not looked at if there is a text, as are algorithm and activation */
  const char* algorithm;  /* one of the collective's; NULL or "auto": the one with the fewest hops */
  uint64_t count;         /* elements of a rank; 0 for a barrier, whose dtype and reduction are not looked at */
  lsched_dtype dtype;
  lsched_reduction reduction;
  const char* activation; /* of a partial collective; NULL for others */
  uint32_t asked;         /* of a text: LSCHED_ASKED_… of the members that its outputs are held against; what is not
                             asked is read off the text, so that it fits by itself. 0 without a text */
  int32_t root;           /* looked at if it is asked */
  uint64_t eager_bytes;   /* the largest message that may count on a buffer; 0: no message, or if there are slots, any.
                             Without buffers sends wait for their receives */
  uint32_t slots;         /* buffers from each rank to each other, used in turn; 0: as many as it takes, if eager_bytes
                             is not 0 */
  uint32_t reserved;      /* 0 */
} lsched_verify_desc;

/** Bits of lsched_verify_desc.asked: the text is held against that member of the desc. */
#define LSCHED_ASKED_REDUCTION 1u
#define LSCHED_ASKED_DTYPE 2u
#define LSCHED_ASKED_COUNT 4u
#define LSCHED_ASKED_ROOT 8u
#define LSCHED_ASKED_PROMISE 16u /* something is promised of the outputs at all; if not: ARGUMENT */

/** Proves the schedules of a world. lsched_schedule_print writes the text of what a builder made.
 * `findings` has room for `most_findings` of them and may be NULL if that is 0.
 * Thread: any, any number at once.  Blocks: until it is proved or refuted, linear in the number of ops; but the order
 * of a rank's k ops takes k^2/8 bytes (beyond 1 GiB: a finding), and partial schedules are looked at once for each
 * rank.  Memory: all the caller's; nothing is kept.
 * Errors: ARGUMENT (unknown collective, a rank that is missing or there twice, text that is not of the form, something
 * is asked that the collective does not have), BOUNDS,
 * UNSUPPORTED (another version of the text): the diagnostic names line, column and reason; CONSTRAINT (the algorithm
 * cannot do this world or count); NOMEM. */
LSCHED_CHECKED lsched_status lsched_verify(const lsched_verify_desc* desc, lsched_verification* verification,
                                           lsched_finding* findings, uint64_t most_findings,
                                           lsched_diagnostic* diagnostic);

/* ---- Simulation ------------------------------------------------------------------------------------------------ */

/* How long one round takes on a modelled machine (LogGOPS, docs/reference/simulate.md): the schedules themselves are
 * timed, by the rules of the engine; `lsched simulate` gives the same times. Nothing runs and no world is needed. */

/** What is simulated. Exactly one of `text`, `collective` and `sparse` is not NULL. */
typedef struct lsched_simulate_desc {
  size_t struct_size;
  const char* text;                 /* schedule files (docs/reference/schedule_file.md) of all ranks, in any order */
  uint64_t bytes;                   /* of text, which needs no NUL */
  const char* collective;           /* a name `lsched list` shows; a sparse one: see `sparse` */
  const char* algorithm;            /* of `collective`; NULL or "auto": the one with the fewest hops */
  const lsched_sparse_desc* sparse; /* a sparse allreduce; gradient and update are not looked at */
  int32_t ranks;                    /* of collective or sparse: 1 … 2^24. Not looked at if there is a text */
  int32_t root;                     /* the members from here to activation are of `collective` alone */
  uint64_t count; /* elements of a rank; 0 for a barrier, whose dtype and reduction are not looked at */
  lsched_dtype dtype;
  lsched_reduction reduction;
  const char* activation;    /* of a partial collective; NULL for others */
  int32_t initiator;         /* the rank whose call counts where a partial round has one candidate ("majority") */
  int32_t reserved;          /* 0 */
  uint64_t round;            /* 1 or more: a sparse allreduce does more in some rounds than in others */
  const uint64_t* starts_ns; /* one for each rank: when it begins, or calls. NULL: all at 0 */
  double L, o, g;            /* ns: latency of the wire, CPU time of a message at either end, gap between messages */
  double G, O, compute;      /* ns per byte: gap, CPU time of a message, a reduction or copy */
  uint64_t S;                /* bytes of the largest eager message; longer ones rendezvous */
} lsched_simulate_desc;

/** Fills in the defaults: round 1, and the machine of `lsched simulate` (LogGOPSim's: L 2500, o 1500, g 1000, G 6, O 0,
 * compute 0, S 65535). All else is zero.  Thread: any. Blocks: never. NULL is OK. */
#define lsched_simulate_desc_init(desc) lsched_simulate_desc_init_sized((desc), sizeof(lsched_simulate_desc))
/** What lsched_simulate_desc_init calls, with the size that the struct has in the caller's header. */
LSCHED_API void lsched_simulate_desc_init_sized(lsched_simulate_desc* desc, size_t bytes);

typedef struct lsched_simulation {
  size_t struct_size;
  int32_t ranks;
  int32_t active;    /* ranks that had called when the round took their contribution */
  uint64_t messages; /* of all ranks: with payload */
  uint64_t bytes;    /* of payload */
  uint64_t signals;
  uint64_t nic_waits; /* messages that had to wait for their receiver's network interface */
  uint64_t last_ps;   /* when the last rank has finished, in picoseconds */
} lsched_simulation;

/** Times one round. `finish_ps` receives when ranks 0 … most_ranks-1 have finished, as far as there are so many, in
 * picoseconds, and may be NULL if most_ranks is 0.
 * Thread: any, any number at once.  Blocks: until the round is timed: some 100 ns a message, and for the schedule of
 * each rank of a collective 10 us or more.  Memory: all the caller's; nothing is kept.
 * Errors: ARGUMENT (also an unknown collective, a time that is not from 0 to 1e12 or makes a message take no time at
 * all, a text that is not of the form); CONSTRAINT (the algorithm cannot do this world or count); BOUNDS, UNSUPPORTED
 * (another version of the text; more than 26 days, or 2^64 bytes); UNMATCHED (a message that nobody receives); STATE (a
 * rank waits forever: the diagnostic names it); NOMEM. */
LSCHED_CHECKED lsched_status lsched_simulate(const lsched_simulate_desc* desc, lsched_simulation* simulation,
                                             uint64_t* finish_ps, uint64_t most_ranks, lsched_diagnostic* diagnostic);

#ifdef __cplusplus
}
#endif

#endif
