/** @file
 * The C interface of libsched: collective communication as schedules. This header is C11, and also valid C++.
 * docs/reference/glossary.md explains the terms, and names their counterparts in MPI and NCCL.
 *
 * Conventions:
 *  1. Status. Every function that can fail returns an lsched_status: LSCHED_OK (0), LSCHED_PENDING (positive, not an
 *     error) or an error (negative). Outputs are written on success only. A NULL handle or output causes
 *     LSCHED_ERR_ARGUMENT. Compilers warn if a status is ignored. Write `(void)` before a call to ignore its status.
 *  2. Arguments. The order is object, inputs, options, outputs, and last an optional lsched_diagnostic (NULL allowed)
 *     that receives the details of a failure. Functions without a diagnostic parameter keep the details for
 *     lsched_last_failure(). An open or create function that succeeds with a warning writes LSCHED_OK and the warning
 *     to the diagnostic. An open or create function that succeeds without a warning leaves the diagnostic unchanged. To
 *     recognise a warning, pass a diagnostic with an empty text: lsched_diagnostic why = {.struct_size = sizeof why}.
 *  3. Units. Counts are elements. Names with `_bytes` are bytes, and names with `_ns` are nanoseconds. Ranks are
 *     int32_t, counts and sizes have 64 bits. A timeout of LSCHED_FOREVER never expires, and a timeout of 0 makes one
 *     attempt.
 *  4. Structs. A struct that may grow begins with `struct_size`. Set it to sizeof(the struct), or call the _init
 *     function if the struct has one. The caller and the library may then be compiled with different headers of the
 *     same LSCHED_ABI. If the caller fills in the struct, members that lie beyond struct_size have their defaults (zero
 *     unless stated otherwise). Members that the library does not know must be zero, else the call returns
 *     LSCHED_ERR_VERSION. If the library fills in the struct, it writes nothing beyond struct_size, and zeroes the
 *     members that it does not know. A struct_size below the first published size or above 4096 causes
 *     LSCHED_ERR_ARGUMENT. A diagnostic with such a size is left unchanged. Structs without struct_size never change.
 *  5. Side effects. No function exits, aborts, forks, throws or installs a signal handler. The library prints log lines
 *     on standard error and nothing else. LSCHED_LOG sets the lowest level of these lines (default: warning).
 *  6. Reference. The comment of each function states which threads may call it (Thread) and how long it may block
 *     (Blocks). The comment also states the ownership and lifetime of memory (Memory), and the errors (Errors). The
 *     names of errors are given without the prefix LSCHED_ERR_. "Any" means any thread at any time. Calls on different
 *     worlds may run at the same time. Every function that starts a round, waits or commits can also return PEER,
 *     TRANSPORT and INTERNAL. The lists of errors omit these three. PEER means that a member of the world died, or
 *     closed the world while this rank needed that member. Over MPI, only deaths on this rank's node are noticed. If
 *     members died, the diagnostic names the member whose death this rank recorded first. If all members share memory,
 *     they share this record, and name the same member. Ranks of several hosts may record deaths in different orders,
 *     and then name different members. If a rank gets PEER and then ends, its end counts as a death, too.
 *     lsched_world_lost lists all members that are known to be lost.
 *  7. Collective functions. All ranks of the world call them, in the same order. A rank whose own arguments are invalid
 *     still takes part: every rank then returns an error that names this rank and the invalid argument. In two cases,
 *     the call instead returns at once. If the world or the builder is NULL, the other ranks wait until their commit
 *     timeout expires. If lsched_flush or lsched_model_sync returns an error, the other ranks wait until this rank
 *     calls again.
 *  8. Floating point. Arithmetic on the host runs in the default mode: round to nearest even, keep subnormals, trap
 *     nothing. The modes of the caller's threads (fesetround, flush to zero) do not change results, and no call changes
 *     a mode. Any call may raise exception flags (fetestexcept).
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

/* Marks functions whose status must be checked. */
#if (defined(__cplusplus) && __cplusplus >= 201703L) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define LSCHED_CHECKED [[nodiscard]] LSCHED_API
#elif defined(__GNUC__) && __GNUC__ >= 10 && !defined(__clang__) && !defined(__cplusplus)
#define LSCHED_CHECKED __extension__ [[nodiscard]] LSCHED_API /* GCC ignores casts to void with warn_unused_result */
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
/** The version of the binary interface. The version changes if the meaning or the layout of the interface changes.
 * Structs that only grow (convention 4) do not change the version. Opening a world compares the caller's version with
 * the library's. */
#define LSCHED_ABI 4

/** Returns the package version of the library, such as "0.1.0".
 * Thread: any. Blocks: never. Memory: static. */
LSCHED_API const char* lsched_version(void);

/* ---- Status -------------------------------------------------------------------------------------------------- */

typedef enum lsched_status {
  LSCHED_OK = 0,
  LSCHED_PENDING = 1,          /* not finished yet; not an error */
  LSCHED_ERR_ARGUMENT = -1,    /* an argument is null, negative or meaningless */
  LSCHED_ERR_BOUNDS = -2,      /* a region exceeds its buffer, or a round has more data than its memory can hold */
  LSCHED_ERR_STATE = -3,       /* the call does not fit the object's present state */
  LSCHED_ERR_CYCLE = -4,       /* the dependencies form a cycle */
  LSCHED_ERR_UNMATCHED = -5,   /* sends and receives of the ranks do not match */
  LSCHED_ERR_MISMATCH = -6,    /* ranks committed different requests, or equal requests in a different order */
  LSCHED_ERR_CONSTRAINT = -7,  /* the algorithm does not support this world, count, dtype or operation */
  LSCHED_ERR_UNSUPPORTED = -8, /* not offered by this build or transport */
  LSCHED_ERR_NOMEM = -9,
  LSCHED_ERR_TRANSPORT = -10, /* the transport failed */
  LSCHED_ERR_PEER = -11,      /* a rank died, or closed its world or schedule while others needed that rank */
  LSCHED_ERR_TIMEOUT = -12,
  LSCHED_ERR_BUSY = -13,       /* the object is still in use */
  LSCHED_ERR_VERSION = -14,    /* caller and library differ in LSCHED_ABI, or a struct has unknown members */
  LSCHED_ERR_INTERNAL = -15,   /* an invariant of the library is broken: please report */
  LSCHED_ERR_NOT_FINITE = -16, /* LSCHED_NAN_ERROR refused the result of a round */
  LSCHED_ERR_CANCELLED = -17,  /* a rank cancelled the schedule (lsched_cancel) */
  LSCHED_ERR_DEVICE = -18      /* a GPU or its driver failed */
} lsched_status;

/** Returns the name of a status, such as "LSCHED_ERR_PEER".
 * Thread: any. Blocks: never. Memory: static; never NULL. */
LSCHED_API const char* lsched_status_name(lsched_status status);

/** Returns the meaning of a status, in one sentence.
 * Thread: any. Blocks: never. Memory: static; never NULL. */
LSCHED_API const char* lsched_status_text(lsched_status status);

/** The details of a failure or a timeout, or the warning of a call that succeeded (status LSCHED_OK). A call that
 * succeeds without a warning leaves the struct unchanged. The caller owns the struct, and sets struct_size. */
typedef struct lsched_diagnostic {
  size_t struct_size;
  lsched_status status;
  int32_t rank;   /* the rank that caused the failure, or that the call waited for; -1: none */
  uint32_t op;    /* id of the op that the failure concerns; UINT32_MAX: none */
  uint64_t round; /* 0: none */
  char text[512]; /* one line, always terminated */
} lsched_diagnostic;

/** Returns the details of the calling thread's latest failure in a function without a diagnostic parameter, such as
 * lsched_start or lsched_world_close. The status is LSCHED_OK if no such function has failed in this thread.
 * Thread: any. Blocks: never.
 * Memory: owned by the thread. The next failure in this thread overwrites the details. */
LSCHED_API const lsched_diagnostic* lsched_last_failure(void);

/* ---- Data types and reductions -------------------------------------------------------------------------------- */

typedef enum lsched_dtype {
  LSCHED_DTYPE_NONE = 0, /* not set; functions that need a dtype refuse this value */
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

/** An elementwise reduction. Logical and bit operations take integers only. f16 and bf16 are combined in f32, and
 * rounded once per combination. The value 0 means no reduction. Functions that need a reduction refuse this value. */
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

/** The divisor of a result, for sums only. The sum is computed in the dtype, and may overflow before the division.
 * Every mean of this library is the exact quotient of sum and divisor, rounded once to the dtype. Integer quotients are
 * rounded to the nearest integer, half to even. So if all P ranks contribute x, and P * x is exact, the mean is x. */
typedef enum lsched_divisor {
  LSCHED_DIVIDE_BY_NONE = 0,
  LSCHED_DIVIDE_BY_RANKS,        /* the size of the world at create, as in Li et al. (PPoPP 2020) */
  LSCHED_DIVIDE_BY_CONTRIBUTORS, /* the number of contributors of the round; only for partial schedules with
                                    LSCHED_LATEST, because results of other schedules may cover several rounds */
  LSCHED_DIVIDE_BY_OFFERS        /* the sum of the weights of the offers that the result contains. The result is then
                                    the weighted mean. An lsched_offer has the weight 1. Only for partial schedules */
} lsched_divisor;

/** The function of an lsched_user_op: target = lower (op) higher for `count` elements, unit by unit. `count` is a
 * multiple of the unit. `lower` comes from lower ranks than `higher`. `target` may be equal to `lower` or `higher`, but
 * never overlaps them partly. Memory is aligned to the dtype, not to a whole unit.
 * The thread that drives the world calls the function while a round runs: a thread inside an lsched call, or the
 * progress thread. A world makes one such call at a time.
 * The function must return. It must not throw, jump out or call this library. The function runs in the default
 * floating-point mode (convention 8). If it changes the mode, the change ends with the call. */
typedef void (*lsched_combine)(const void* lower, const void* higher, void* target, uint64_t count, void* context);

/** A reduction that the caller defines. The reduction must be associative, and equal operands must give equal bits on
 * all ranks. The struct is copied when it is passed. The caller owns `context`, which must outlive the schedules that
 * use it. */
typedef struct lsched_user_op {
  size_t struct_size;
  lsched_combine combine;
  void* context;
  lsched_dtype dtype;     /* type of the elements */
  uint64_t unit;          /* number of elements that are never separated, at least 1; for a struct of 6 floats: 6 */
  int32_t is_commutative; /* 1: operands may be exchanged; 0: operands are combined in the order of ranks */
} lsched_user_op;

/** A timeout that never expires. */
#define LSCHED_FOREVER UINT64_MAX

/** One rank's handle of a world, which is an ordered set of ranks. */
typedef struct lsched_world lsched_world;
/** An ordinary schedule under construction (lsched_builder_create). */
typedef struct lsched_builder lsched_builder;
/** A persistent collective of one rank: created once, run any number of times. */
typedef struct lsched_schedule lsched_schedule;

/* ---- World ----------------------------------------------------------------------------------------------------- */

typedef enum lsched_progress_mode {
  LSCHED_PROGRESS_THREAD = 0, /* an auxiliary thread drives the engine while the application computes */
  LSCHED_PROGRESS_CALLER = 1  /* only threads inside lsched calls drive the engine */
} lsched_progress_mode;

typedef enum lsched_idle_mode {
  LSCHED_IDLE_AUTO = 0, /* an idle thread spins if each rank of this machine has a core, else yields and then sleeps.
                           While other programs use its core, the thread sleeps at once */
  LSCHED_IDLE_SPIN,
  LSCHED_IDLE_YIELD,
  LSCHED_IDLE_PARK
} lsched_idle_mode;

typedef enum lsched_lane_mode {
  LSCHED_LANE_AUTO = 0,    /* large computations also use cores that no rank of this machine needs. If there is no such
                              core, this mode is equal to INLINE */
  LSCHED_LANE_INLINE = -1, /* the thread that drives the world does all computations */
  LSCHED_LANE_TBB = -2     /* as AUTO, but with at least one oneTBB worker, even if no core is free */
} lsched_lane_mode;

typedef struct lsched_config {
  size_t struct_size;
  int32_t progress;           /* an lsched_progress_mode */
  int32_t idle;               /* an lsched_idle_mode */
  int32_t progress_core;      /* core of the progress thread; -1: a free core if there is one, otherwise chosen by the
                                 operating system */
  int32_t lane;               /* an lsched_lane_mode, or the number of oneTBB workers for large computations */
  uint64_t region_bytes;      /* size of this rank's region, at least 1 MiB. The region is the address space for memory
                                 of lsched_alloc and of the library. 0: the size of the machine's memory, or less. With
                                 0, all regions together have at most 64 TiB, or half of `ulimit -v` if that limit is
                                 set */
  uint64_t commit_timeout_ns; /* timeout of the collective create functions */
} lsched_config;

/** Fills in the defaults: progress thread, automatic idling and lane, 60 s for commits. Environment variables replace
 * these defaults: LSCHED_PROGRESS=thread|caller, LSCHED_IDLE=auto|spin|yield|park,
 * LSCHED_LANE=auto|inline|tbb|tbb:WORKERS, LSCHED_REGION=BYTES such as 64M. If a variable has another value, opening a
 * world fails with ARGUMENT. Under `lsched run` the launcher sets region_bytes.
 * Thread: any. Blocks: never. */
#define lsched_config_init(config) lsched_config_init_sized((config), sizeof(lsched_config))
/** The function behind lsched_config_init. `bytes` is the size of the struct in the caller's header. */
LSCHED_API void lsched_config_init_sized(lsched_config* config, size_t bytes);

/** Joins the world that `lsched run` prepared for this process, on one host or several. If a launcher with PMI-1, such
 * as MPICH's mpiexec, started this process, joins the world of the processes that this launcher started, unless this
 * process has loaded MPI. If no launcher started the process, or if LSCHED_WORLD=alone is set, opens a world of one
 * rank. If `config` is NULL, the defaults apply. A rank joins its world once, and cannot join again after it has closed
 * the world. When `lsched run` ends, the processes that have joined its world are killed (SIGKILL).
 * Thread: any, once per process and world.
 * Blocks: until all ranks have joined, at most LSCHED_START_TIMEOUT seconds if that variable is set, else
 * commit_timeout_ns.
 * Memory: the caller owns *world until lsched_world_close.
 * Errors: UNSUPPORTED if a launcher started the process as one of several, and this function cannot join the world of
 * these processes. Environment variables of PMI, PMIx, torchrun or a step of Slurm show such a launch. In this case use
 * lsched_world_open_mpi of lsched_mpi.h or lsched_world_open_with. UNSUPPORTED also for a oneTBB lane in a build
 * without oneTBB. STATE (this rank has joined before); VERSION; ARGUMENT; NOMEM; TRANSPORT (also if `lsched run` has
 * ended); TIMEOUT (under `lsched run`, names a rank that did not join); PEER (under `lsched run`, names a rank that
 * died before it joined). */
#define lsched_world_open(config, world, diagnostic) lsched_world_open_abi(LSCHED_ABI, (config), (world), (diagnostic))
/** The function behind lsched_world_open, with the LSCHED_ABI of the caller's header. */
LSCHED_CHECKED lsched_status lsched_world_open_abi(int abi, const lsched_config* config, lsched_world** world,
                                                   lsched_diagnostic* diagnostic);

/** The maximum of `bytes` in calls of an lsched_exchange. */
#define LSCHED_EXCHANGE_BYTES 256
/** An all-gather function that the caller of lsched_world_open_with provides. The function copies the `bytes` bytes at
 * `mine` of each rank r to all + r * bytes on all ranks, and blocks until `all` is complete. The function returns 0 on
 * success, and any other value on failure. On every rank, lsched_world_open_with calls the function at most four times,
 * in the thread that opens the world. */
typedef int (*lsched_exchange)(const void* mine, void* all, uint64_t bytes, void* context);

/** Joins a world of `size` ranks, as `rank`, under any launcher. The ranks find each other by `exchange`, for example
 * through a store, a pipe or PMI. Processes of one user in one process name space of a machine share memory. All other
 * ranks are connected by TCP: each rank listens on the interfaces of LSCHED_NET_INTERFACES, and connects to all other
 * ranks. Each connection is authenticated by a secret of the job, which rank 0 sends through `exchange`.
 * Thread: any.
 * Blocks: as long as the exchange blocks. With several hosts, also until all ranks are connected: at most
 * LSCHED_START_TIMEOUT seconds if that variable is set, else at most the lesser of 60 s and commit_timeout_ns.
 * Memory: as lsched_world_open; the caller owns `context`. With several hosts: two file descriptors per rank.
 * Errors: UNSUPPORTED (no network interface can be used); TIMEOUT (names a rank that could not be reached); MISMATCH
 * (the ranks differ in size or build); ARGUMENT; VERSION; NOMEM; TRANSPORT (the exchange failed). If one rank fails,
 * all ranks fail with its reason. Only `rank`, `size` and `exchange` are checked before the exchange: if one of them is
 * invalid, only this rank fails. */
#define lsched_world_open_with(rank, size, exchange, context, config, world, diagnostic) \
  lsched_world_open_with_abi(LSCHED_ABI, (rank), (size), (exchange), (context), (config), (world), (diagnostic))
/** The function behind lsched_world_open_with, with the LSCHED_ABI of the caller's header. */
LSCHED_CHECKED lsched_status lsched_world_open_with_abi(int abi, int32_t rank, int32_t size, lsched_exchange exchange,
                                                        void* context, const lsched_config* config,
                                                        lsched_world** world, lsched_diagnostic* diagnostic);

/** Opens a world of `ranks` ranks in this process. worlds[r] is the handle of rank r. Each handle may be used by any
 * number of threads.
 * Thread: any.
 * Blocks: never.
 * Memory: `worlds` is an array of `ranks` pointers. Each world is closed separately.
 * Errors: ARGUMENT, VERSION, NOMEM. */
#define lsched_world_open_threads(ranks, config, worlds, diagnostic) \
  lsched_world_open_threads_abi(LSCHED_ABI, (ranks), (config), (worlds), (diagnostic))
/** The function behind lsched_world_open_threads, with the LSCHED_ABI of the caller's header. */
LSCHED_CHECKED lsched_status lsched_world_open_threads_abi(int abi, int32_t ranks, const lsched_config* config,
                                                           lsched_world** worlds, lsched_diagnostic* diagnostic);

/** Splits a world: the ranks with equal `color` form a new world. In the new world, ranks are ordered by `key`, and
 * ranks with equal `key` by their rank in `world`. A rank with a negative color joins no new world: *made is NULL.
 * Collective over `world`: all ranks call their creates and splits in the same order.
 * A new world is used like a world that was opened. Its ranks are numbered from 0. Its schedules, errors and creates do
 * not affect `world`, which may be closed before the new world. A world and all worlds that are split from it share
 * engine, progress thread and memory. A new world needs about 5 KiB, and no thread or file descriptor.
 * Thread, Blocks: as lsched_collective_create.
 * Memory: the caller owns *made until lsched_world_close.
 * Errors: ARGUMENT, and as lsched_collective_create. */
LSCHED_CHECKED lsched_status lsched_split(lsched_world* world, int32_t color, int32_t key, lsched_world** made,
                                          lsched_diagnostic* diagnostic);

/** Creates a world of the `count` ranks in the list `ranks`, in the order of the list. Each of these ranks calls the
 * function with the same list and tag, and no other rank takes part. The tag distinguishes worlds of the same ranks
 * that are created at the same time. Other creates and splits of `world` may run at the same time.
 * Thread: any, one call with the same list and tag at a time.
 * Blocks: until all listed ranks have called, at most commit_timeout_ns.
 * Memory: as lsched_split.
 * Errors: PEER; NOMEM; ARGUMENT (no such rank, a rank is listed twice, or this rank is not listed); TIMEOUT (names a
 * rank that did not call with this list and tag; over MPI only the diagnostic of the first listed rank names such a
 * rank). After TIMEOUT no world has been created, and a later call may succeed. Between hosts, the other listed ranks
 * may have created the world nevertheless. For these ranks, this rank has then closed that world. */
LSCHED_CHECKED lsched_status lsched_split_ranks(lsched_world* world, const int32_t* ranks, int32_t count, int32_t tag,
                                                lsched_world** made, lsched_diagnostic* diagnostic);

/** Creates a world of the survivors after a death. The survivors are the members of `world` that neither died nor
 * closed the world. They keep their order. Collective over the survivors. A survivor that dies during the call is left
 * out as well. If any member is left out, everything that is outstanding in `world` ends with PEER on all survivors.
 * lsched_carry moves partial schedules to the new world. Ordinary schedules must be created again in the new world.
 * `world` stays open and must still be closed. docs/reference/shrink.md shows a training loop.
 * If new ranks were admitted (lsched_grow), returns the larger world at once, with its lost ranks. A later call for
 * `world` then returns STATE.
 * Thread: any, one call at a time.
 * Blocks: until all survivors have called, at most timeout_ns. Between hosts, at most commit_timeout_ns longer if all
 * survivors have called, but a survivor has not decided whether the new world exists.
 * Memory: as lsched_split.
 * Errors: TIMEOUT (names a living rank that did not call or did not decide; all callers get the same name, and the call
 * may be repeated); PEER (only the ranks on the other side of a network partition may continue);
 * UNSUPPORTED (MPI); ARGUMENT; NOMEM. */
LSCHED_CHECKED lsched_status lsched_shrink(lsched_world* world, uint64_t timeout_ns, lsched_world** survivors,
                                           lsched_diagnostic* diagnostic);

/** Lets `world` grow: processes that start later can join by lsched_world_join. Rank 0 listens for these processes on
 * the interfaces of LSCHED_NET_INTERFACES. When at least one new process has connected, all ranks open a larger world
 * with that process in the background, while the rounds of `world` go on. The ranks of `world` keep their numbers, and
 * the new ranks follow. lsched_grow returns the larger world. Collective over `world`, in the order of its creates.
 * `config` has the options of the larger worlds, as in lsched_world_open. If `file` is not NULL, rank 0 writes the text
 * of lsched_grow_text to this file, which only its user can read.
 * Thread: any. Blocks: as lsched_collective_create.
 * Memory: one more thread per rank until the world is closed, and a second one on rank 0. While both worlds are open,
 * each needs memory and file descriptors.
 * Errors: STATE (called before for this world); UNSUPPORTED (no network interface can be used, LSCHED_NET_ENCRYPT is
 * set, or a world has LSCHED_PROGRESS_CALLER); ARGUMENT (also if rank 0 cannot write `file`); NOMEM; and as
 * lsched_collective_create. Errors occur on all ranks, except for a NULL world and STATE. */
LSCHED_CHECKED lsched_status lsched_grow_begin(lsched_world* world, const lsched_config* config, const char* file,
                                               lsched_diagnostic* diagnostic);

/** Copies the text by which processes can join `world` to `text`, with a terminator, as much as fits into `bytes`
 * bytes. *needed (optional) receives the size of the whole text. The text contains a secret: each process that has the
 * text can join. The text is valid until `world` has grown, has shrunk or is closed, or until rank 0 has died.
 * Thread: any. Blocks: never.
 * Errors: STATE (lsched_grow_begin was not called); ARGUMENT (`world` or `text` is NULL). */
LSCHED_API lsched_status lsched_grow_text(const lsched_world* world, char* text, size_t bytes, size_t* needed);

/** Permits the admission of new ranks, and returns the larger world after their admission. Without new ranks, *grown is
 * NULL. Call this function often, for example once in each step of training: new ranks are admitted when all ranks have
 * called while the larger world is open. The permission stays until the next lsched_flush or lsched_model_sync. Do not
 * call the function while one of these calls is incomplete.
 * The admission ends all waits and schedules of all ranks in `world` with PEER, as a death does. A rank that gets PEER
 * calls lsched_shrink, which returns the larger world, too. Move each partial schedule to that world by lsched_carry,
 * while the new ranks call lsched_partial_join. If a rank dies afterwards, call lsched_shrink for the larger world. If
 * a rank dies before the admission, no rank is admitted. Call lsched_grow_begin for the larger world if it shall grow,
 * too.
 * Thread: any, not while another thread calls lsched_shrink or lsched_world_close.
 * Blocks: until new ranks are admitted, at most timeout_ns. With the timeout 0, does not block.
 * Memory: the caller owns *grown until lsched_world_close, and closes `world` after the last lsched_carry.
 * Errors: STATE (lsched_grow_begin was not called, or the larger world was returned before); ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_grow(lsched_world* world, uint64_t timeout_ns, lsched_world** grown,
                                         lsched_diagnostic* diagnostic);

/** Ends the growth of `world` on this rank, so that no new ranks are admitted any more. If new ranks were admitted
 * before, *grown is the larger world, as in lsched_grow, else NULL. Call this function on each rank before its training
 * ends. Otherwise the other ranks could go on in a larger world, and wait for this rank there.
 * Thread: as lsched_grow.
 * Blocks: until the ranks have decided about a pending admission, at most timeout_ns.
 * Memory: as lsched_grow.
 * Errors: STATE (the larger world was returned before); TIMEOUT (no decision yet); ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_grow_end(lsched_world* world, uint64_t timeout_ns, lsched_world** grown,
                                             lsched_diagnostic* diagnostic);

/** Joins a world that grows (lsched_grow_begin), as a new rank. `text` is the text of lsched_grow_text, or "@" and the
 * path of the file of lsched_grow_begin, which may not exist yet. *world is the larger world. Then join its partial
 * schedules by lsched_partial_join, in the order in which the other ranks carry the schedules. If the desc of a
 * schedule differs from that of the other ranks, close the world: the other ranks continue after lsched_shrink.
 * Thread: any.
 * Blocks: until this rank is admitted, at most timeout_ns. Failed attempts are repeated.
 * Memory: the caller owns *world until lsched_world_close.
 * Errors: TIMEOUT (with the reason of the last attempt); VERSION; UNSUPPORTED (LSCHED_NET_ENCRYPT is set); ARGUMENT
 * (also if the text is invalid); and as lsched_world_open. */
#define lsched_world_join(text, timeout_ns, config, world, diagnostic) \
  lsched_world_join_abi(LSCHED_ABI, (text), (timeout_ns), (config), (world), (diagnostic))
/** The function behind lsched_world_join, with the LSCHED_ABI of the caller's header. */
LSCHED_CHECKED lsched_status lsched_world_join_abi(int abi, const char* text, uint64_t timeout_ns,
                                                   const lsched_config* config, lsched_world** world,
                                                   lsched_diagnostic* diagnostic);

/** Lists the ranks of `world` that are known to be lost, in the order in which the losses were noticed. A rank that has
 * closed its world counts as lost once another rank has waited for that rank in vain. Over MPI a rank knows only of
 * losses on its own node. Before the call, *count is the capacity of `ranks`. After the call, *count is the number of
 * lost ranks. If the capacity is too small, `ranks` receives the ranks that were lost first.
 * Thread: any. Blocks: never.
 * Memory: the caller owns `ranks`, which may be NULL if *count is 0.
 * Errors: ARGUMENT (world or count is NULL, *count is negative, or *count is positive but ranks is NULL). */
LSCHED_API lsched_status lsched_world_lost(const lsched_world* world, int32_t* ranks, int32_t* count);

/** Translates a rank: returns the rank in `other` that corresponds to rank `rank` of `world`, or -1 if that rank is not
 * in `other`. Both worlds belong to the calling process.
 * Thread: any. Blocks: never. */
LSCHED_API int32_t lsched_rank_in(const lsched_world* world, int32_t rank, const lsched_world* other);

/** Closes a world. When the last of the worlds that share an engine (lsched_split) is closed, the progress thread ends.
 * NULL is OK.
 * Thread: any, once, with no other call on this world.
 * Blocks: for at most one step of the engine, until the progress thread has ended.
 * Memory: the handle becomes invalid. Closing the last world that shares the engine also frees memory of lsched_alloc,
 * except ordinary memory.
 * Errors: BUSY (schedules or mailboxes of the world exist; nothing has changed); STATE (ranks communicated through MPI,
 * and MPI_Finalize preceded this call; the world is closed nevertheless). */
LSCHED_CHECKED lsched_status lsched_world_close(lsched_world* world);

/** Returns the rank of this handle in the world, 0 … size-1, or -1 if `world` is NULL.
 * Thread: any. Blocks: never. */
LSCHED_API int32_t lsched_rank(const lsched_world* world);
/** Returns the number of ranks of the world, or 0 if `world` is NULL.
 * Thread: any. Blocks: never. */
LSCHED_API int32_t lsched_size(const lsched_world* world);

/** The node of a rank, and the rank's place on the node. A node is a set of ranks that share memory, or k neighbouring
 * ranks (LSCHED_RANKS_PER_NODE=k). Nodes are numbered from 0, in the order of their lowest ranks. Places on a node are
 * numbered from 0, in the order of the ranks. */
typedef struct lsched_node {
  size_t struct_size;
  int32_t number;
  int32_t place;       /* place of the rank, 0 … ranks-1 */
  int32_t ranks;       /* number of ranks on this node */
  int32_t nodes;       /* number of nodes in the world */
  int32_t least_ranks; /* number of ranks on the smallest node: places below this number exist on every node */
} lsched_node;

/** Fills in *node for any rank of the world. All ranks get the same result.
 * Thread: any. Blocks: never.
 * Errors: ARGUMENT (no such rank, a null pointer, or an invalid struct_size). */
LSCHED_CHECKED lsched_status lsched_node_of(const lsched_world* world, int32_t rank, lsched_node* node);

/** Makes one pass of the engine in the calling thread. *moved (optional) receives 1 if the pass made any progress, else
 * 0. If another thread drives the engine, the call returns at once.
 * Thread: any. Blocks: never.
 * Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_progress(lsched_world* world, int* moved);

/** Allocates memory that ranks of this node can read directly, so that large messages from this memory need no staging
 * copy. The memory is 64-byte aligned, has unspecified contents, and is left out of core dumps. A rank that shares
 * memory with no other rank gets ordinary memory, which is part of core dumps.
 * Thread: any. Blocks: never.
 * Memory: valid until lsched_free, or until the last world that shares the engine is closed. Ordinary memory is valid
 * until lsched_free.
 * Errors: NOMEM, ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_alloc(lsched_world* world, uint64_t bytes, void** memory);
/** Frees memory of lsched_alloc. No schedule may still be bound to the memory. NULL is OK.
 * Thread: any. Blocks: never.
 * Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_free(lsched_world* world, void* memory);

typedef struct lsched_stats {
  size_t struct_size;
  uint64_t rounds;        /* finished rounds of all schedules */
  uint64_t ops;           /* executed ops */
  uint64_t messages_sent; /* payload messages, null messages included */
  uint64_t nulls_sent;    /* null messages: messages without payload, because there was no contribution */
  uint64_t bytes_sent;    /* payload bytes, without headers of transports (MPI adds 64 bytes per message) */
  uint64_t signals_sent;
  uint64_t steps;                  /* passes of the engine */
  uint64_t device_jobs;            /* copies and kernels of schedules on the attached device (lsched_cuda.h) */
  uint64_t device_messages_shared; /* sent messages whose receivers read this rank's device memory directly */
} lsched_stats;

/** Returns the counters of the engine that serves this world, since the engine was started. All worlds that were split
 * from one world share its engine and its counters.
 * Thread: any.
 * Blocks: for at most one step of the engine.
 * Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_get_stats(lsched_world* world, lsched_stats* stats);

/** Writes one line about transport, ranks, progress thread and lane. The line is truncated to `bytes` and always
 * terminated.
 * Thread: any. Blocks: never.
 * Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_world_describe(lsched_world* world, char* text, size_t bytes);

/** Describes the schedules of this rank that wait now or have failed. The text has one line for each of these
 * schedules. Each line reads like a diagnostic of a timeout or failure. The text is empty if there is no such schedule.
 * *rank (optional) receives the rank that causes the wait or the failure, or -1 if no rank is known. *needed (optional)
 * receives the size of the text with its terminator. At most `bytes` bytes are written, including the terminator.
 * Thread: any.
 * Blocks: for at most one step of the engine.
 * Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_diagnose(lsched_world* world, int32_t* rank, char* text, size_t bytes,
                                             size_t* needed);

/** Starts to record all ops of this rank's schedules, with their times. This call reserves the memory: 48 bytes for
 * each of `events` events. An op is recorded as one or two events, and a round as two. Recording stops when the memory
 * is full. The file of lsched_trace_write then states that it is incomplete. LSCHED_TRACE=PREFIX in the environment
 * records every world from open to close into PREFIX.RANK.json.
 * Thread: any, one trace call at a time per world.
 * Blocks: for at most one step of the engine.
 * Memory: reserved until lsched_trace_write or lsched_world_close.
 * Errors: ARGUMENT (events is 0 or above 2^40); STATE (already recording); NOMEM. */
LSCHED_CHECKED lsched_status lsched_trace_start(lsched_world* world, uint64_t events);

/** Ends the recording and writes the events to the file `path`, which is replaced if it exists. The format is the JSON
 * of Perfetto and chrome://tracing. The file has the events of this rank only. `lsched trace FILE...` joins the files
 * of all ranks.
 * Thread: as lsched_trace_start.
 * Blocks: while the file is written.
 * Errors: STATE (not recording); ARGUMENT (the file cannot be opened; recording continues); TRANSPORT (the file cannot
 * be written); NOMEM. */
LSCHED_CHECKED lsched_status lsched_trace_write(lsched_world* world, const char* path, lsched_diagnostic* diagnostic);

/* ---- Ready-made schedules -------------------------------------------------------------------------------- */

/** A setting of a world, 0 or 1. A world that is split from another world begins with the settings of that world. */
typedef enum lsched_setting {
  /** 0 (the default): the collective create functions wait for the other ranks. 1: the create functions return at once,
   * as nonblocking collectives of MPI do, and the creates take place in the order of the calls. A split itself always
   * waits.
   * With 1, all calls on a schedule are allowed even before the ranks have agreed on its create. A round that is
   * started early does not begin before all ranks have called the create function. Two ranks may create schedules in
   * two worlds in opposite order. A create function still returns errors in its own arguments. If the ranks do not
   * agree, every later call on the schedule returns the error. commit_timeout_ns does not apply to such a create. */
  LSCHED_NONBLOCKING = 0,
  /** 1: each schedule is proved before it is committed. The default is 0, or 1 with LSCHED_VERIFY=1 in the environment.
   * Without a proof, a commit checks the schedule of each rank separately, and checks that sends and receives match.
   * With a proof, all ranks also exchange their schedules as text, and each rank proves all schedules as lsched_verify
   * does. A proved schedule has no deadlock and no race. Its outputs are those of the collective with which the
   * schedules' name begins (in "allreduce/mine": allreduce). If the setting is 1 on any rank, all ranks prove. If the
   * proof fails, all ranks refuse the schedule, and the diagnostic names the reason, the rank and the op. The status is
   * UNMATCHED (messages), CYCLE (ranks wait for each other) or ARGUMENT (all other reasons). The status is UNSUPPORTED
   * if all texts together exceed 16 MiB. The proof takes as much time and memory as lsched_verify. Rounds of other
   * schedules wait while a rank proves. A proof does not slow down the rounds of the schedule. */
  LSCHED_PROVED
} lsched_setting;

/** Changes a setting of a world for later creates.
 * Thread: any. Blocks: never.
 * Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_world_set(lsched_world* world, lsched_setting setting, int32_t value);

/** Waits until all ranks have called the create function of a schedule, or until the create has failed.
 * Thread: any number.
 * Blocks: at most timeout_ns.
 * Errors: ARGUMENT; TIMEOUT (names a rank that did not call the create function, but over MPI may name no rank; nothing
 * has changed, and the call may be repeated); CANCELLED; PEER; and the errors of the create function. */
LSCHED_CHECKED lsched_status lsched_create_wait(lsched_schedule* schedule, uint64_t timeout_ns,
                                                lsched_diagnostic* diagnostic);

/** Takes part in the next collective call of the other ranks, and makes that call fail on all ranks. A language binding
 * calls this function if the binding's own checks of the arguments have failed. Every rank returns `code`. The
 * diagnostics of the other ranks name this rank and the reason `text`. Later collective calls are not affected.
 * Collective, in the order of the world's creates.
 * Thread, Blocks: as lsched_collective_create.
 * Errors: always `code`, or ARGUMENT on all ranks if `code` is no error or `text` is NULL. */
LSCHED_API lsched_status lsched_refuse(lsched_world* world, lsched_status code, const char* text,
                                       lsched_diagnostic* diagnostic);

/** A part of a vector. An adaptive sum combines each such part separately. */
typedef struct lsched_tensor {
  uint64_t begin; /* index of the tensor's first element in the vector */
  uint64_t count; /* number of elements; may be 0 */
} lsched_tensor;

/** The request of lsched_collective_create. Members that a collective does not use must be zero. In the table, n is
 * `count`, or counts[rank] of this rank if `counts` is given. P is the number of ranks. Brackets enclose buffers that
 * only the root has.
 *
 *   collective            input        output                                  members used        in place
 *   allreduce             n            n: combined over all ranks              count reduction     input == output
 *   reduce                n            [n: combined over all ranks]            ... and root        at the root
 *   scan, exscan          n            n: combined over ranks 0 to r, or r-1   count reduction     input == output
 *   reduce_scatter_block  P * n        n: block r combined over all ranks      count reduction     input == output
 *   reduce_scatter        all blocks   counts[r]: block r, combined            counts reduction    input == output
 *   bcast                 [n]          n, at all others                        count root          one buffer per rank
 *   gather(v)             n            [all blocks]                            count(s) root       input in the output
 *   scatter(v)            [all blocks] n                                       count(s) root       output in the input
 *   allgather(v)          n            all blocks                              count(s)            input in the output
 *   alltoall              P * n        P * n: block s comes from rank s        count               input == output
 *   alltoallv             sum(counts)  sum(recv_counts)                        counts recv_counts  no
 *   neighbor_exchange     sum(counts)  sum(recv_counts)                        counts recv_counts  no
 *                                                                              destinations sources
 *   adasum                n            n: adaptive sum over all ranks          count tensors       input == output
 *   barrier               -            -                                       -                   -
 *
 * Blocks are contiguous and in the order of ranks. For neighbor_exchange they are in the order of `destinations` and
 * `sources`. In place, gather, allgather and scatter expect this rank's own block at its position in the larger buffer,
 * and do not move that block. exscan does not change the output of rank 0. A user_op that does not commute is applied
 * in the order of ranks. Other reductions are applied in an order that depends on the algorithm. All ranks that receive
 * a combined element receive the same bits.
 *
 * adasum (Maleki and others, MLSys 2021) requires a floating dtype and reduction 0. In each tensor of the result, the
 * orthogonal parts of the ranks' contributions are added up, and their parallel parts are averaged. A contribution of
 * zeros does not change the result. An element outside all tensors gets the value that some rank has contributed. An
 * element that is not finite makes its own tensor NaN on all ranks. Other tensors are not affected.
 * docs/reference/adasum.md defines the order of ranks. Algorithm "two_level" averages the contributions of each node,
 * and then combines these averages by adasum. In a world of one node, the result is the mean over all ranks. The
 * schedule's name and a warning of the create function report this. */
typedef struct lsched_collective_desc {
  size_t struct_size;
  const char* collective; /* a name from the table */
  const void* input;
  void* output;
  uint64_t count;
  /** Number of elements of each rank's block; all ranks pass equal arrays. For alltoallv: number of elements that this
   * rank sends to each rank. For neighbor_exchange: number of elements that this rank sends to each entry of
   * `destinations`. */
  const uint64_t* counts;
  /** For alltoallv: number of elements that this rank receives from each rank. For neighbor_exchange: number of
   * elements that this rank receives from each entry of `sources`. */
  const uint64_t* recv_counts;
  const int32_t* destinations; /* neighbor_exchange: ranks to which this rank sends blocks. The list may contain a rank
                                  repeatedly, and may contain this rank */
  const int32_t* sources;      /* neighbor_exchange: ranks that send blocks to this rank. The list may contain a rank
                                  repeatedly, and may contain this rank */
  int32_t destination_count;
  int32_t source_count;
  lsched_dtype dtype;
  lsched_reduction reduction;
  int32_t root;
  const char* algorithm;         /* a name that `lsched list` shows, the same on all ranks; NULL or "auto": chosen by
                                    the library */
  uint64_t segment_bytes;        /* segment size of pipelined algorithms; must be 0 for adasum; 0: chosen by the
                                    library */
  int32_t radix;                 /* radix of trees and of recursive multiplying; must be 0 for adasum; 0: chosen by the
                                    library */
  const lsched_user_op* user_op; /* the caller's reduction, or NULL. If given, `reduction` must be 0, and all counts
                                    must be multiples of user_op->unit */
  const lsched_tensor* tensors;  /* tensors of an adaptive sum, ascending and disjoint, the same on all ranks; NULL: one
                                    tensor */
  uint64_t tensor_count;
  /** For gatherv, scatterv, allgatherv and alltoallv: the maximum number of elements of any block, the same on all
   * ranks, or LSCHED_ANY_COUNT. If `capacity` is set, counts and recv_counts must be NULL. The caller then passes
   * memory and counts to each round (lsched_start_with), and each rank needs to know only its own counts. */
  uint64_t capacity;
  /** Number of rounds that may be outstanding at once, up to 8, the same on all ranks. 0 means 1. With a depth above 1
   * the caller passes memory to each round (lsched_start_with). That memory must be in place if the memory at create
   * was in place. */
  int32_t depth;
  lsched_divisor divisor; /* allreduce, reduce, reduce_scatter(_block): LSCHED_DIVIDE_BY_RANKS turns sums into means; 0:
                             no division */
  /** The meaning of the elements, such as "complex", if `dtype` does not express it. The library only compares this
   * text: if the text differs between ranks, the create function returns MISMATCH. NULL or "": no further meaning. */
  const char* elements;
} lsched_collective_desc;

/** As a capacity, this value means the maximum, 2^32 elements. */
#define LSCHED_ANY_COUNT UINT64_MAX

/** Creates a persistent collective, which can run any number of times. Collective.
 * Thread: any, one collective create at a time per world.
 * Blocks: until all ranks have committed, at most commit_timeout_ns. Never with LSCHED_NONBLOCKING.
 * Memory: the caller owns *schedule until lsched_schedule_destroy. The caller owns input and output, and must keep both
 * until the schedule is destroyed or lsched_rebind has bound other memory. While a round runs, the caller may neither
 * write to the input nor use the output. Arrays of counts and ranks are not needed after the call.
 * Errors: ARGUMENT (a null buffer with count > 0, no dtype or reduction, partly overlapping buffers, or an unknown
 * algorithm); CONSTRAINT (also if user_op does not commute and the named algorithm does not keep the order of ranks);
 * MISMATCH (a member that must be equal on all ranks differs); UNMATCHED (the two ends of a block have different
 * counts); PEER (names a rank that died); NOMEM; TIMEOUT (on all ranks; names a rank that did not call; the world stays
 * usable). Over MPI a TIMEOUT may name no rank. If rank 0 called after the timeout of other ranks, its call may return
 * OK, but the schedule is then cancelled. */
LSCHED_CHECKED lsched_status lsched_collective_create(lsched_world* world, const lsched_collective_desc* desc,
                                                      lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/* ---- Running --------------------------------------------------------------------------------------------- */

/** A ticket identifies a round of a schedule, as an MPI_Request does. A ticket is a small value and is never freed. */
typedef struct lsched_ticket {
  lsched_schedule* schedule;
  uint64_t round;
} lsched_ticket;

/** Starts the next round over the bound memory. Only one round may be outstanding. Schedules with a depth above 1 or a
 * capacity use lsched_start_with.
 * Thread: any, one at a time per schedule.
 * Blocks: never. Runs the ops that are ready.
 * Memory: the bound buffers belong to the schedule until the round has ended.
 * Errors: STATE (a round is outstanding; the schedule is partial: use lsched_offer; or the caller must pass memory to
 * each round: use lsched_start_with). */
LSCHED_CHECKED lsched_status lsched_start(lsched_schedule* schedule, lsched_ticket* ticket);

/** The sizes and positions of the blocks in one round of a schedule with a capacity. The input has one block (gatherv,
 * allgatherv), or one block for each rank (scatterv at the root, alltoallv). The output has one block (scatterv), or
 * one block from each rank (gatherv at the root, allgatherv, alltoallv). If this rank has no input or no output, the
 * members for that buffer are NULL. */
typedef struct lsched_counts {
  size_t struct_size;
  const uint64_t* send_counts;        /* number of elements of each block of the input */
  const uint64_t* send_displacements; /* offsets from the beginning of the input; NULL: blocks are contiguous */
  const uint64_t* recv_counts;        /* capacity of each block of the output, in elements; a received block may be
                                         shorter */
  const uint64_t* recv_displacements; /* offsets from the beginning of the output; NULL: blocks are contiguous. Blocks
                                         must not overlap */
  uint64_t* received;                 /* output array: receives the number of elements of each received block before the
                                         round ends; may be NULL */
} lsched_counts;

/** Starts the next round, t, over the memory that the caller passes. The call acts as lsched_rebind and lsched_start,
 * except that only round t - depth must have ended. The rounds may be waited for in any order.
 * `inputs` and `outputs` are in the order of the slots. A collective has at most one of each. If both are NULL, the
 * round uses the memory of round t - depth. `counts` is NULL except for schedules with a capacity. Only this function
 * can start rounds of such a schedule. No rank needs to know the counts of another rank, and counts may change in every
 * round.
 * Input and output must not overlap, with one exception. In a gatherv, scatterv or allgatherv, the block that a rank
 * sends to itself may have the same address in input and output. That block is then not copied.
 * Thread: any, one at a time per schedule.
 * Blocks: for at most one step of the engine.
 * Memory: buffers, counts, displacements and `received` belong to the schedule until the round has ended.
 * Errors: STATE (round t - depth is outstanding, or both inputs and outputs are NULL in one of the first `depth`
 * rounds); ARGUMENT (as lsched_rebind; counts or memory are missing, or are given for a buffer that this rank does not
 * have; or an array of lsched_counts is in device memory); BOUNDS (a count exceeds the capacity, or the block that this
 * rank sends to itself exceeds its recv_counts entry). After these errors no round was started, and nothing was sent.
 * If a received block exceeds its recv_counts entry, the round ends with BOUNDS on the receiver, and the diagnostic
 * names the sender. */
LSCHED_CHECKED lsched_status lsched_start_with(lsched_schedule* schedule, const void* const* inputs,
                                               void* const* outputs, const lsched_counts* counts,
                                               lsched_ticket* ticket);

/** Returns LSCHED_OK if the round has ended, else LSCHED_PENDING. Without a progress thread the call also drives the
 * engine.
 * Thread: any. Blocks: never.
 * Memory: as lsched_wait.
 * Errors: as lsched_wait, without TIMEOUT. */
LSCHED_CHECKED lsched_status lsched_test(lsched_ticket ticket);

/** Waits until the round has ended. The waiting thread drives the engine itself. The call may be repeated after
 * TIMEOUT.
 * Thread: any number.
 * Blocks: at most timeout_ns.
 * Memory: after TIMEOUT the buffers still belong to the schedule. After OK the buffers belong to the caller. After an
 * error that has ended the round (PEER, CANCELLED, BOUNDS, TRANSPORT, DEVICE) the buffers also belong to the caller. No
 * other rank reads or writes them. But over MPI, buffers of more than 16 KiB must not be freed after such an error
 * before the world is closed. The caller may overwrite them.
 * Errors: TIMEOUT (the diagnostic names the schedule, the round of the ticket, the ops that have not started, and the
 * ranks that these ops wait for); STATE (the round was not started); BOUNDS and NOT_FINITE (the data of the round was
 * refused); and the error with which the schedule has failed. */
LSCHED_CHECKED lsched_status lsched_wait(lsched_ticket ticket, uint64_t timeout_ns, lsched_diagnostic* diagnostic);

/** Starts a round and waits for its end. This is the fastest way to run a round, because the calling thread keeps the
 * engine between the start and the wait.
 * Thread, Blocks, Memory, Errors: as lsched_start and lsched_wait. After TIMEOUT the round is still outstanding, and
 * its ticket is {schedule, diagnostic->round}. */
LSCHED_CHECKED lsched_status lsched_run(lsched_schedule* schedule, uint64_t timeout_ns, lsched_diagnostic* diagnostic);

/** Binds a schedule to other memory. `inputs` and `outputs` are in the order of the slots. A collective has at most one
 * of each.
 * Thread: any, not while a round runs.
 * Blocks: never.
 * Memory: as at create.
 * Errors: STATE (a round is outstanding); ARGUMENT (an in-place schedule is given separate buffers or the reverse, the
 * offset between input and output differs from that at create, or an output overlaps with other memory); UNSUPPORTED (a
 * partial schedule, which owns its buffers, or a schedule that gets memory with each round); and the error with which
 * the schedule has failed. */
LSCHED_CHECKED lsched_status lsched_rebind(lsched_schedule* schedule, const void* const* inputs, void* const* outputs);

/** Cancels a schedule on all ranks, for example after a round has timed out. A round that a rank has finished stays
 * finished on that rank. Every other call on the schedule returns CANCELLED, and the diagnostic names the rank that
 * cancelled first. Other schedules and the world are not affected. A cancelled schedule can only be destroyed, except
 * that lsched_withdraw may be called on a partial schedule first. docs/reference/cancel.md has the details.
 * Thread: any, except inside a combine function. If other threads wait for the schedule, their calls return.
 * Blocks: until the engine is free and this rank's worker threads have finished the computations of the schedule. After
 * that, at most 100 ms for peers that read this rank's memory, and 2 s for jobs of this rank's device.
 * Memory: this rank's buffers belong to the caller again. No rank reads or writes these buffers any more.
 * Errors: BUSY (a peer, which is named, still reads a buffer: call again); UNSUPPORTED (MPI still moves a message of
 * more than 16 KiB, and the buffers stay in use until the world is closed); DEVICE (this rank's device hangs, and the
 * buffers stay in use until the device has finished its jobs). The schedule is cancelled in all these cases. */
LSCHED_CHECKED lsched_status lsched_cancel(lsched_schedule* schedule, lsched_diagnostic* diagnostic);

/** Destroys a schedule. NULL is OK. The call is local for an ordinary schedule, which must have no outstanding round,
 * and for a schedule that has failed or was cancelled. The call is collective for any other partial schedule. Unless
 * lsched_leave was called before, this rank leaves. Then this rank serves the other ranks until all ranks have left.
 * Thread: any, with no other call on this schedule.
 * Blocks: never (ordinary schedule); at most timeout_ns (partial schedule, or a schedule that still awaits the
 * agreement of the ranks: LSCHED_NONBLOCKING); as lsched_cancel (failed schedule).
 * Memory: the handle becomes invalid, and the buffers belong to the caller again.
 * Errors: BUSY (a round is outstanding: wait for it, or cancel the schedule; or the schedule has failed and a peer,
 * which is named, reads a buffer); TIMEOUT. After BUSY and TIMEOUT nothing has been destroyed, and the call may be
 * repeated. UNSUPPORTED and DEVICE (the schedule had failed; the schedule is destroyed, but its buffers stay in use as
 * described at lsched_cancel). */
LSCHED_CHECKED lsched_status lsched_schedule_destroy(lsched_schedule* schedule, uint64_t timeout_ns,
                                                     lsched_diagnostic* diagnostic);

typedef enum lsched_print_format {
  LSCHED_PRINT_TEXT = 0, /* the compiled schedule as a schedule file (docs/reference/schedule_file.md) */
  LSCHED_PRINT_DOT,      /* the compiled schedule as a graph for Graphviz */
  LSCHED_PRINT_STATS     /* lsched_partial_stats as one JSON object; zeros at the end of a histogram are omitted */
} lsched_print_format;

/** Writes the schedule of this rank, or its statistics, as text. *needed (optional) receives the size of the text with
 * its terminator. At most `bytes` bytes are written, including the terminator. A later text with statistics may be
 * longer.
 * Thread: any.
 * Blocks: never; LSCHED_PRINT_STATS: for at most one step of the engine.
 * Errors: ARGUMENT; STATE (statistics of an ordinary schedule). */
LSCHED_CHECKED lsched_status lsched_schedule_print(const lsched_schedule* schedule, lsched_print_format format,
                                                   char* text, size_t bytes, size_t* needed);

/** A part of the state that a schedule keeps between rounds. */
typedef enum lsched_state {
  LSCHED_STATE_PENDING = 0, /* the pending offers of a partial schedule: offers that are in no round yet */
  LSCHED_STATE_SPARSE       /* the residual, boundaries and thresholds of a sparse allreduce */
} lsched_state;

/** Saves a part of this rank's state for a checkpoint. *needed (optional) receives the size of the image. The image is
 * written only if `bytes` is at least that size. lsched_pending_load adds pending offers to a schedule, and
 * lsched_sparse_create continues from the state of a sparse allreduce.
 * A round may take pending offers at any time, so the image has the offers that are pending at the moment of the save.
 * The images of all ranks of a sparse allreduce belong together only if no round runs between the first save and the
 * last save. For partial schedules see lsched_sparse_residual.
 * Thread: any. LSCHED_STATE_PENDING: as lsched_offer. LSCHED_STATE_SPARSE: not while a round runs.
 * Blocks: never. LSCHED_STATE_SPARSE: as lsched_sparse_residual, and while device memory is copied.
 * Errors: ARGUMENT (too little room, or no sparse allreduce); DEVICE; STATE (an ordinary schedule has no pending
 * offers, or a round of a sparse allreduce is outstanding). */
LSCHED_CHECKED lsched_status lsched_schedule_save(const lsched_schedule* schedule, lsched_state what, void* image,
                                                  size_t bytes, size_t* needed);

/* ---- Adaptive sums: non-finite tensors ----------------------------------------------------------------------- */

/** Finds the non-finite tensors in the last result of an "adasum". is_non_finite[i] is 1 if tensor i is non-finite,
 * else 0, and *number (optional) is the number of such tensors. All ranks get the same result, and no message is sent.
 *   - If the algorithm combines tensors, a tensor is non-finite if it is NaN. Then some rank contributed a non-finite
 *     element, or an intermediate sum became non-finite (for f16, beyond 65504; docs/reference/adasum.md).
 *   - If the algorithm does not combine tensors, a tensor is non-finite if one of its elements is not finite. In a
 *     world of one rank, no algorithm combines tensors. In a world of one node, "two_level" combines no tensors,
 *     because it returns the mean.
 * If an element overflows in the last combination, only this element is infinite, and its tensor does not count as
 * non-finite. The function reads one element of each tensor, or all elements in the second case. A schedule whose desc
 * has no tensors has one tensor. `is_non_finite` is an array of `tensor_count` values. `tensor_count` must be the
 * number of tensors of the schedule. If `is_non_finite` is NULL and `tensor_count` is 0, the function only returns the
 * number.
 * Thread: any, but not while a round is started or memory is bound.
 * Blocks: never.
 * Memory: reads the bound output, so call this function before you change the output.
 * Errors: ARGUMENT (the schedule is not an "adasum", or has another number of tensors); STATE (a round is outstanding,
 * or no round has ended since the create or the last lsched_rebind); UNSUPPORTED (a partial schedule, a depth above 1,
 * or an output in device memory). */
LSCHED_CHECKED lsched_status lsched_non_finite_tensors(const lsched_schedule* schedule, uint64_t tensor_count,
                                                       uint8_t* is_non_finite, uint64_t* number);

/* ---- Messages -------------------------------------------------------------------------------------------------- */

/** A mailbox sends and receives messages between pairs of ranks of a world, outside schedules. Messages from one rank
 * to another arrive in the order in which they were posted. A receive takes the first message that matches its rank and
 * its tag. Messages that arrive before a matching receive was posted are kept in memory of the receiver's process.
 * docs/reference/messages.md has the details. */
typedef struct lsched_mailbox lsched_mailbox;
/** A posted send or receive. The handle becomes invalid when lsched_message_wait or lsched_message_test has reported
 * the end of the message. */
typedef struct lsched_message lsched_message;

/** Matches a message from any rank (lsched_receive_post). */
#define LSCHED_ANY_RANK (-1)
/** Matches a message with any tag (lsched_receive_post). */
#define LSCHED_ANY_TAG (-1)

/** The description of a message that has ended. */
typedef struct lsched_arrival {
  size_t struct_size;
  int32_t rank; /* the sender; for a message that this rank sent, the receiver */
  int32_t tag;
  uint64_t bytes; /* length of the message, even if that exceeds the receive's `room` */
} lsched_arrival;

/** Creates a mailbox. Collective: every rank of the world gets a mailbox. If creates do not wait (LSCHED_NONBLOCKING),
 * messages may be posted before the other ranks have created the mailbox. Messages of different mailboxes are
 * independent of each other.
 * Thread, Blocks, Errors: as lsched_collective_create.
 * Memory: the caller owns *mailbox until lsched_mailbox_destroy. A mailbox reserves about 17 KB for each other rank (48
 * KB over MPI). Only the pages that the mailbox uses occupy physical memory. */
LSCHED_CHECKED lsched_status lsched_mailbox_create(lsched_world* world, lsched_mailbox** mailbox,
                                                   lsched_diagnostic* diagnostic);

/** Posts a send of `bytes` bytes, 0 to 2^45, to rank `to`, which may be this rank. The send ends when `data` belongs to
 * the caller again. At that time a short message may still be in flight, but a long message has been read by the
 * receiver.
 * Thread: any.
 * Blocks: for at most one step of the engine.
 * Memory: `data` belongs to the message until the message has ended. The caller owns *message until the end of the
 * message is reported.
 * Errors: ARGUMENT (no such rank, a negative tag, or `data` is NULL); UNSUPPORTED (`data` is in device memory);
 * NOMEM. */
LSCHED_CHECKED lsched_status lsched_send_post(lsched_mailbox* mailbox, int32_t to, int32_t tag, const void* data,
                                              uint64_t bytes, lsched_message** message);

/** Posts a receive of a message of at most `room` bytes, from a rank or LSCHED_ANY_RANK, with a tag or LSCHED_ANY_TAG.
 * Thread, Blocks, Memory, Errors: as lsched_send_post. */
LSCHED_CHECKED lsched_status lsched_receive_post(lsched_mailbox* mailbox, int32_t from, int32_t tag, void* data,
                                                 uint64_t room, lsched_message** message);

/** Waits until a message has ended. Every status except TIMEOUT and ARGUMENT reports the end of the message: the handle
 * is released, *message becomes NULL, and *what (may be NULL) describes the message.
 * Thread: any, one at a time per message.
 * Blocks: at most timeout_ns.
 * Errors: TIMEOUT (names the other rank; nothing has changed: call again, or call lsched_message_cancel); BOUNDS (the
 * message is longer than the receive's `room`, and `data` is unchanged); PEER (the other rank, which is named, is lost
 * or has destroyed its mailbox); NOMEM (this message of the other rank arrived before its receive was posted, and was
 * dropped because no memory was left); and the errors of the create. */
LSCHED_CHECKED lsched_status lsched_message_wait(lsched_message** message, uint64_t timeout_ns, lsched_arrival* what,
                                                 lsched_diagnostic* diagnostic);

/** Acts as lsched_message_wait, but returns PENDING in place of TIMEOUT and does not wait.
 * Thread: as lsched_message_wait. Blocks: never. */
LSCHED_CHECKED lsched_status lsched_message_test(lsched_message** message, lsched_arrival* what);

/** Withdraws a message before its transfer begins. The handle is released, and *message becomes NULL.
 * Thread: as lsched_message_wait.
 * Blocks: as lsched_send_post.
 * Errors: BUSY (the transfer has begun or ended: call lsched_message_wait). */
LSCHED_CHECKED lsched_status lsched_message_cancel(lsched_message** message);

/** Destroys a mailbox. NULL is OK. The call is local: from now on, ranks that use the mailbox to send to this rank, or
 * to receive from this rank, get PEER. Messages that no receive has taken are lost.
 * Thread: any, with no other call on this mailbox.
 * Blocks: as lsched_send_post.
 * Errors: BUSY (a message is outstanding, its end was not reported yet, or the mailbox still transfers a message). */
LSCHED_CHECKED lsched_status lsched_mailbox_destroy(lsched_mailbox* mailbox);

/* ---- Sparse allreduces ----------------------------------------------------------------------------------------- */

/** The capacity for items (pairs of index and value) at the owner of a region. "oktopk" divides the vector into one
 * region per rank. The owner of a region adds up all items in that region. */
typedef enum lsched_capacity {
  LSCHED_STRICT = 0, /* capacity for all items: every rank sends exactly its k largest items */
  LSCHED_DEFER       /* a rank sends each owner at most about k / P items, the largest items first. The other items stay
                        in the rank's residual. With LSCHED_BALANCE_BY_COST or _ALWAYS a rank sends and receives at most
                        6 k (P-1)/P words for any gradients. If k is below some hundreds, a rank may exceed this bound
                        by 1 + log2 P items */
} lsched_capacity;

/** The method that sets the boundaries of the regions. */
typedef enum lsched_boundaries {
  LSCHED_POOLED = 0, /* quantiles of the items of all ranks together */
  LSCHED_AVERAGED    /* each rank computes quantiles of its own items, and these are averaged over the ranks, as in the
                        paper */
} lsched_boundaries;

/** The condition for a redistribution of the result's items. The redistribution makes the shares of the ranks equally
 * long. Afterwards, the shares are gathered. */
typedef enum lsched_balance {
  LSCHED_BALANCE_BY_COST = 0, /* if the redistribution reduces the number of words moved */
  LSCHED_BALANCE_PUBLISHED,   /* if an owner has more than four times the average number of items, as in the paper */
  LSCHED_BALANCE_ALWAYS,
  LSCHED_BALANCE_NEVER
} lsched_balance;

/** The treatment of NaN and infinities in gradients and sums. */
typedef enum lsched_nan_policy {
  LSCHED_NAN_PROPAGATE = 0, /* NaN and infinities count as the largest elements: they are sent, and all ranks see
                               them */
  LSCHED_NAN_IGNORE,        /* NaN stay in the residual until the caller overwrites these elements; infinities are
                               sent */
  LSCHED_NAN_ERROR          /* as LSCHED_NAN_PROPAGATE, but a round with a non-finite sum ends with NOT_FINITE on all
                               ranks */
} lsched_nan_policy;

/** The rule by which a rank selects the elements that it sends, and by which owners select the sums of the result. */
typedef enum lsched_selection {
  LSCHED_EXACT = 0, /* the k largest elements and sums, in every round */
  LSCHED_REUSED     /* as in the paper: the k largest in rounds 1, 1 + reuse, ... The k-th largest magnitude of such a
                       round is the threshold of the following rounds. Those rounds select all elements and sums whose
                       magnitude is not below the threshold, but at most 4 k elements of a rank. Rounds 1, 1 + reuse,
                       ... gather all sums, and so exceed the bound of LSCHED_DEFER */
} lsched_selection;

typedef struct lsched_sparse_desc {
  size_t struct_size;
  const void* gradient;  /* `count` elements; the library only reads them */
  void* update;          /* `count` elements; must not overlap the gradient */
  uint64_t count;        /* number of elements of the vector, up to 2^32 */
  uint64_t k;            /* maximum number of items that a rank sends; values above `count` mean `count`. sparseloco:
                            the rank sends k/count of each chunk, rounded, but at least one element if k > 0 */
  lsched_dtype dtype;    /* F16, BF16, F32 or F64 */
  const char* algorithm; /* "oktopk", "topka" or "sparseloco"; NULL or "auto": "oktopk" or "topka", by the
                            estimated time. The schedule's name contains the choice */
  double scale;          /* factor by which gradients are multiplied before they are added to the residual: 1, or the
                            learning rate; 0 means 1 */
  lsched_nan_policy nans;
  /* Members for "oktopk". They must be zero for other algorithms. */
  lsched_capacity capacity;
  uint32_t period; /* number of rounds between two updates of the regions' boundaries; 0 means 64 */
  lsched_boundaries boundaries;
  lsched_balance balance;
  lsched_selection selection;
  uint32_t reuse;  /* for LSCHED_REUSED: rounds between two updates of thresholds, 0 means 32; for LSCHED_EXACT: 0 */
  uint32_t bucket; /* number of lists that a rank sends to owners before it waits to receive the same number of lists;
                      0: all lists */
  /* An image that lsched_schedule_save has written in a world of the same number of ranks. The schedule continues from
   * that state. The create function only reads the image. NULL: the residual begins as zero. */
  const void* image;
  size_t image_bytes;
} lsched_sparse_desc;

/** Creates an allreduce of the largest elements, with error feedback (Li and Hoefler, PPoPP 2022, Algorithm 2). Each
 * round does the following on every rank:
 *
 *  1. residual += scale * gradient. The schedule owns the residual. Its dtype is f64 for F64, and f32 otherwise.
 *  2. The rank sends the k largest elements of the residual (by magnitude, then index). The values of an index are
 *     added up in rank order.
 *  3. update = result / P. All other elements of the update are zero. The update has the same bits on every rank.
 *  4. residual -= the items of this rank that are in the update.
 *
 * The result of "oktopk" is the k largest sums (but see lsched_selection). The result of "topka" is all sums. No
 * element is lost: an element that is not in the update is in the residual of some rank. After a round that fails, the
 * residual is the old residual + scale * gradient.
 *
 * "sparseloco" (arXiv 2508.15706) divides the vector into chunks of 4096 elements. Of each chunk the rank sends the
 * largest elements, each with an index of 12 bits and a value of 2 bits. The four values are two magnitudes with both
 * signs, which the rank chooses for each chunk. Elements below 2^-15 times the largest element of the chunk are left
 * out. The difference between an element and its value is exact and stays in the residual. The result is all sums. If
 * an element that is sent is not finite, all such elements of its chunk have the same magnitude. All messages of the
 * schedule have sizes that depend only on `count`, `k` and `dtype`. With count/k = 64, an element of the vector costs
 * 0.23 bits.
 *
 * With LSCHED_NAN_ERROR, a round ends with NOT_FINITE on all ranks if a sent element or a sum is not finite.
 * lsched_run, lsched_wait and lsched_test return NOT_FINITE, and the diagnostic names the first non-finite element. The
 * update is zero everywhere. On every rank, elements of the residual that are not finite, or would overflow if
 * converted to `dtype`, become zero. Nothing else changes. The schedule stays usable. Finite elements whose sum
 * overflows remain in the residuals, so the next round may end with NOT_FINITE too. Only the last such round is
 * remembered: lsched_test of an older ticket returns OK.
 *
 * Gradient and update are both in device memory (lsched_cuda.h), or both in host memory. The residual is in the same
 * kind of memory. Results have the same bits in both kinds. LSCHED_REUSED and "sparseloco" are UNSUPPORTED in device
 * memory.
 *
 * The schedule runs as any other schedule (lsched_start, lsched_wait, lsched_run, lsched_rebind). If every rank passes
 * an image of the same round, the new schedule continues from that round. With equal gradients, the old and the new
 * schedule then compute the same bits. docs/reference/sparse.md has the details. Collective.
 * Thread, Blocks: as lsched_collective_create.
 * Memory: as lsched_collective_create. The first round, and the first round after lsched_rebind, write the whole
 * update. Other rounds write only the elements that change, so the caller must not write to the update. Besides the
 * residual the schedule allocates a dense vector for sums, and lists of about 2 P k items (LSCHED_DEFER: a few times
 * k). Sums of F16 and BF16 are sent in `dtype`. The error of this rounding is lost, and a sum that overflows `dtype` is
 * infinite, even if the sum divided by P is not. Scale gradients accordingly.
 * Errors: ARGUMENT (also for a nonzero member that the algorithm does not use, and for an invalid image); VERSION (the
 * image is of another version); MISMATCH (the ranks differ in a member other than memory and scale, the ranks have
 * images of different rounds, or the image is of another dtype, count or number of ranks); and as
 * lsched_collective_create. */
LSCHED_CHECKED lsched_status lsched_sparse_create(lsched_world* world, const lsched_sparse_desc* desc,
                                                  lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/** Counters of the data that this rank has sent and received in all rounds, without headers of transports
 * (lsched_stats). */
typedef struct lsched_sparse_stats {
  size_t struct_size;
  uint64_t rounds;              /* finished rounds */
  uint64_t item_bytes_sent;     /* bytes of indices and values; a rank does not send the items of its own region */
  uint64_t item_bytes_received; /* bytes of indices and values */
  uint64_t other_bytes_sent;    /* bytes of counters, lengths and bitmaps; in partial schedules also the bytes of the
                                   messages that count contributors */
  uint64_t other_bytes_received;
  uint64_t messages_sent;     /* includes messages without bytes */
  uint64_t messages_received; /* includes messages without bytes */
} lsched_sparse_stats;

/** Returns the statistics of a sparse schedule.
 * Thread: any.
 * Blocks: for at most one step of the engine.
 * Errors: ARGUMENT (also if the schedule was created neither by lsched_sparse_create, nor by
 * lsched_coo_allreduce_create, nor by lsched_partial_create with `sparse`). */
LSCHED_CHECKED lsched_status lsched_sparse_get_stats(const lsched_schedule* schedule, lsched_sparse_stats* stats);

/** Returns the residual, which the caller may read and write between rounds. *residual points to `count` elements of
 * type *dtype. The residual is in device memory if the gradient is.
 * In a partial schedule any rank may start the next round, which then also changes the residual of this rank. So call
 * lsched_flush on all ranks, and then use or save the residual. No rank may offer again before all ranks have passed a
 * barrier or another lsched_flush.
 * After the failure of a round no further round can start, but the residual can still be saved.
 * Thread: any, not while a round runs.
 * Blocks: never; for at most one step of the engine if the schedule is partial.
 * Memory: the schedule owns the residual.
 * Errors: ARGUMENT; STATE (a round is outstanding). */
LSCHED_CHECKED lsched_status lsched_sparse_residual(const lsched_schedule* schedule, void** residual,
                                                    lsched_dtype* dtype);

/** The assignment of indices to owners. The owner of an index is the rank that adds up the values of this index. The
 * assignment affects time and memory, but not the sums. */
typedef enum lsched_regions {
  LSCHED_EQUAL_REGIONS = 0, /* all owners have equally many consecutive indices; an owner may have to store P * room
                               items */
  LSCHED_BALANCED_REGIONS   /* each round samples the indices of all ranks, and sets the boundaries so that no owner
                               gets more than about 2 * room items. In two more exchanges, each rank gets 2 P numbers,
                               and then one number, from each other rank. `count` is at most 2^32 */
} lsched_regions;

typedef struct lsched_coo_desc {
  size_t struct_size;
  const uint64_t* indices;    /* array of `room` indices, of which the first *item_count are valid; any order,
                                 repetitions allowed */
  const void* values;         /* array of the values that belong to `indices` */
  const uint64_t* item_count; /* number of valid items, at most `room`; read when a round begins */
  uint64_t room;
  uint64_t* out_indices; /* array for `out_room` indices of the result; the indices are ascending and distinct */
  void* out_values;      /* array of the values that belong to `out_indices` */
  uint64_t* out_count;   /* number of items of the result, written when a round ends */
  uint64_t out_room;     /* capacity of out_indices and out_values; the minimum of `count` and P * room always
                            suffices */
  void* dense;        /* NULL, or `count` elements that receive the result as a vector, with zeros at all other indices.
                         The first round, and the first round after lsched_rebind, write the whole vector. Other rounds
                         write only the elements that change, so the caller must not write to the vector */
  uint64_t count;     /* length of the vector: all indices are below `count`; up to P * 2^32. Does not affect the memory
                         of the schedule */
  lsched_dtype dtype; /* type of the values: F16, BF16, F32 or F64 */
  lsched_regions regions; /* 0: equal */
} lsched_coo_desc;

/** Creates the exact sum of sparse vectors that the ranks contribute, such as gradients of embeddings. No item is
 * selected or left out, so there is no residual. The result contains every index that any rank has given, even if the
 * sum of its values is zero. The value of an index is (v1 + v2 + … of rank 0, in the order of its items) + (v1 + v2 + …
 * of rank 1) + …, in rank order. F16 and BF16 are added up in f32, and rounded once at the end. The bits are the same
 * on every rank.
 *
 * A round ends with BOUNDS on all ranks if a rank has more than `room` items, or an index that is not below `count`. A
 * round also ends with BOUNDS if the result has more than `out_room` items. lsched_run, lsched_wait and lsched_test
 * return BOUNDS, and the diagnostic names the rank or the number of items. Such a round writes only *out_count: the
 * number of items of the result, or 0 if a rank's items were invalid. The schedule stays usable. Only the last such
 * round is remembered: lsched_test of an older ticket returns OK.
 *
 * For lsched_rebind the inputs are indices, values and item_count. The outputs are out_indices, out_values, out_count
 * and, if not NULL, dense. lsched_sparse_get_stats counts the data sent and received. Collective.
 * Thread, Blocks: as lsched_collective_create.
 * Memory: as lsched_collective_create. Outputs must not overlap each other or the inputs. The schedule allocates sums
 * (3 * out_room items), received lists (P * min(room, ceil(count / P)) items, or about 2 * room items if balanced), and
 * at least 16 * room bytes for this rank's items. An item is an index and an f32 or f64 value.
 * Errors: ARGUMENT; NOMEM; UNSUPPORTED (count exceeds P * 2^32, or 2^32 if balanced); CONSTRAINT (an integer dtype);
 * MISMATCH (the ranks differ in room, out_room, count, dtype or regions; dense is each rank's own choice); and as
 * lsched_collective_create. */
LSCHED_CHECKED lsched_status lsched_coo_allreduce_create(lsched_world* world, const lsched_coo_desc* desc,
                                                         lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/* ---- Floating formats ----------------------------------------------------------------------------------------- */

/** Converts between floating dtypes, which may be equal: output[i] = factor * input[i]. The product is computed in f64
 * and rounded to nearest even, subnormals included. A product that is too large becomes an infinity. If the factor is a
 * power of two, the result is rounded only once.
 * Thread: any.
 * Blocks: never.
 * Memory: the caller owns input and output, which have `count` elements each and must not overlap.
 * Errors: ARGUMENT (a null buffer with count > 0, a buffer in device memory (lsched_cuda.h), or a dtype that is not
 * floating). */
LSCHED_CHECKED lsched_status lsched_convert(lsched_dtype from, const void* input, uint64_t count, double factor,
                                            lsched_dtype to, void* output);

/* ---- Partial collectives: wait-avoiding rounds ----------------------------------------------------------- */

/* The activation decides when a round starts. Each rank executes its own part of the round. Except for "full" and
 * "deadline", the parts of all ranks begin when the round starts. All ranks draw the same random ranks from `seed`.
 *  - "full": A rank's call starts only that rank's part, so that no rank is left out.
 *  - "solo": The first call for a round starts the round.
 *  - "majority": One rank is drawn for each round, and the call of that rank starts the round. When the round starts,
 *    half of the ranks have called on average.
 *  - "first_of(M)": M ranks are drawn for each round, and the first of their calls starts the round.
 *  - "all_of(M)": M ranks are drawn for each round, and the last of their calls starts the round.
 *  - "quorum(K)": The K-th call for a round starts the round.
 *  - "quorum(K)+grace(T)": A round starts when all ranks have called, or T microseconds after the K-th call, where T is
 *    below 2^32. Rank 0 of the world measures T. With LSCHED_PROGRESS_CALLER, rank 0 notices the end of T only in calls
 *    that wait, and in lsched_progress.
 *  - "deadline(T)": As "full". But if a rank is in lsched_collect T microseconds after its call, this rank starts the
 *    parts of all ranks. "deadline(auto)" sets T to a fifth of the median time between two successive calls of the
 *    rank, over the last 64 calls. With fewer than 8 such times, there is no limit.
 * "+every(T)" may follow: rounds T, 2T, … wait for every rank's call, so that no rank falls further behind. A rank that
 * has left is not drawn, and no round waits for its call. */

/** The treatment of an old result that was not collected before the next result exists. */
typedef enum lsched_lag {
  LSCHED_LATEST = 0, /* the next result replaces the old result */
  LSCHED_ACCUMULATE, /* the old result is combined into the next result, so that no round is dropped */
  LSCHED_HISTORY     /* all results are kept, up to the limit `history`, and are collected one after the other. At the
                        limit, the newest kept result and the next result are combined */
} lsched_lag;

/** The rule f by which late contributions are multiplied. Let c be the call of the last offer in a contribution.
 *   - If a round r > c captures the contribution, the contribution is multiplied by f(r - c).
 *   - If an offer for call d > c joins the contribution before a capture, the contribution is first multiplied by
 *     f(d - c). From then on, d takes the place of c.
 * So f(a) = x^a multiplies an offer for call c by x^(r - c), where r is the round of the capture, or the last call that
 * has joined the contribution if that call is for a later round. Other rules multiply the factors of the parts of this
 * wait. With F fragments, each of these ages is divided by F and rounded down. lsched_carry keeps all calls.
 * lsched_schedule_save keeps factors, but no calls: loaded offers count as offers for the next call. Weights and
 * divisors are not multiplied, so a late offer draws a mean towards 0. */
typedef enum lsched_age {
  LSCHED_AGE_NONE = 0, /* f(a) = 1 */
  LSCHED_AGE_TABLE,    /* f(a) = age_factors[a]; beyond the table, the last factor */
  LSCHED_AGE_INVERSE   /* f(a) = 1 / (1 + a) */
} lsched_age;

/** Replica groups: G groups of `shards` ranks train one model. The ranks of `all` are ordered by group: rank
 * g * shards + s of `all` has shard s of group g. lsched_partial_create is called with the world of the ranks that have
 * the same shard, in which rank g is group g. All shards of a group are in a round, or none. The activation counts
 * groups, and so do the members `contributors` and `ranks` of reports. See docs/inside/groups.md. */
typedef struct lsched_groups {
  size_t struct_size;
  lsched_world* all; /* all ranks; open until the schedule is destroyed */
  int32_t shards;    /* ranks of a group */
  uint32_t staged;   /* offers of a rank that may wait for a collect: 1 … 16; 0: 2. Each needs memory for a
                        contribution and a result */
} lsched_groups;

typedef struct lsched_partial_desc {
  size_t struct_size;
  /** The name of the collective. Each line gives the numbers of elements of contribution and result. n is `count`, and
   * P is the number of ranks.
   *  - "allreduce", or NULL: n to n, reduced over all ranks.
   *  - "reduce_scatter_block": P * n to n, block r of all ranks, reduced.
   *  - "adasum": n to n, adaptive sum over all ranks, tensor by tensor.
   *  - "allgather": n to P * n, block r from rank r. The block is zero if rank r has contributed nothing. A `lag` other
   *    than LSCHED_LATEST combines results, and requires LSCHED_SUM.
   *  - "sparse_allreduce": n to n, gradient to update. Requires `sparse`. */
  const char* collective;
  uint64_t count;
  /** The numbers of elements of `bucket_count` parts (buckets) of the vector. These numbers add up to `count`. Only for
   * an allreduce, and the same on all ranks. The buckets are reduced at the same time. All buckets share one call, one
   * draw of ranks, one set of contributors and one report. NULL: the vector is one bucket. */
  const uint64_t* buckets;
  uint32_t bucket_count;
  lsched_dtype dtype;
  /** The reduction, which also combines late contributions with the next contribution of their rank. For an adasum this
   * member is 0 or LSCHED_SUM and only selects how late contributions are combined: by adasum or by a sum. Results of
   * several rounds of an adasum are added up. */
  lsched_reduction reduction;
  const char* activation;       /* text of an activation, from the list above */
  uint64_t seed;                /* seed of the draws, the same on all ranks */
  lsched_lag lag;               /* each rank's own choice */
  uint32_t history;             /* for LSCHED_HISTORY: maximum number of results that are kept, 1 … 60; otherwise 0 */
  lsched_divisor divisor;       /* each rank's own choice */
  const char* algorithm;        /* a name that `lsched list` shows; NULL or "auto": chosen by the library */
  int32_t averages_weights;     /* 1: allows lsched_model_sync, for sums of f32 and f64 only, and allocates six more
                                   vectors. The same on all ranks */
  const lsched_tensor* tensors; /* tensors of an adasum, as in lsched_collective_desc, but without gaps */
  uint64_t tensor_count;
  /** The request of a sparse_allreduce, NULL for other collectives. If `sparse` is given, NULL for `collective` means
   * "sparse_allreduce". sparse->gradient and sparse->update must be NULL, and sparse->count and sparse->dtype must be
   * equal to `count` and `dtype`. `algorithm` must be NULL, because sparse->algorithm names the algorithm. `reduction`
   * must be LSCHED_SUM. `divisor` must be 0, because an update is always divided by P. */
  const lsched_sparse_desc* sparse;
  const char* elements; /* meaning of the elements, as in lsched_collective_desc; NULL for a sparse_allreduce */
  /** Only for LSCHED_SUM of floating elements, not for an adasum or a sparse_allreduce. The same on all ranks. Needs
   * memory for one more contribution. A round that captures a late contribution makes one more pass over the data. */
  lsched_age age;
  uint32_t age_count; /* for LSCHED_AGE_TABLE: number of factors, at least 1; otherwise 0 */
  const double*
      age_factors; /* for LSCHED_AGE_TABLE: the factors of the ages 0, 1, …, finite and not negative. The first
                                is 1 */
  /** Replica groups, or NULL. Collective over `groups->all`; `count` may differ between shards. Only for an allreduce
   * with LSCHED_LATEST or LSCHED_ACCUMULATE, at most 64 groups, without `age`, averages_weights and deadline(T). All
   * shards of a group must make the same calls in the same order: offers, collects and flushes. lsched_collect returns
   * the results up to the round that has taken the offer of its ticket, and waits for this round. lsched_offer returns
   * BUSY if `staged` offers were not collected. lsched_skip has no effect. lsched_withdraw, lsched_leave,
   * lsched_model_sync, lsched_carry, lsched_partial_join and images of pending offers are UNSUPPORTED: flush before you
   * destroy the schedule. If a rank of `all` dies, the calls of all ranks return PEER. */
  const lsched_groups* groups;
  /** Fragments that take turns (Douillard and others, "Streaming DiLoCo", 2025): with F fragments of `count` elements
   * each, round t moves fragment (t - 1) mod F. All fragments share the calls, the draws and the numbers of the rounds.
   * lsched_offer contributes to the fragment of the round for which it calls, lsched_offer_fragment to any fragment.
   * The fragment of an offer in buckets is determined when its first bucket is copied. lsched_collect returns the
   * result of one fragment, report.fragment, and the fragments follow in turn. `lag` and `history` apply to each
   * fragment. So after lsched_flush, which runs at least one round of each fragment, collect with any ticket until no
   * result is new (report.from == report.to). Before that, make no offer, because a later round may combine or replace
   * the uncollected results. From 2 to 1024, the same on all ranks; 0 and 1: one fragment. Needs the memory of
   * contributions and results for each fragment. Not for a sparse_allreduce, replica groups or averages_weights. */
  uint32_t fragments;
} lsched_partial_desc;

/** A report about one round. All ranks whose last collected round is this round get the same bytes. */
typedef struct lsched_round_report {
  uint64_t round;
  uint64_t contributors; /* number of ranks that contributed; 0: the round has no result, except in a
                            sparse_allreduce */
  uint64_t offers;       /* sum of the weights of the offers that the round contains; the number of these offers
                            unless lsched_offer_weighted was called */
  uint64_t ranks;        /* size of the world in which the round ran */
} lsched_round_report;

/** A report about the result that a collect call returns on this rank. */
typedef struct lsched_report {
  size_t struct_size;
  lsched_round_report last; /* the report of round `to` */
  uint64_t from, to;        /* the result contains the rounds from + 1 to `to`, or with fragments only those of these
                               rounds that move `fragment`; from == to: no new round, the result is unchanged */
  uint64_t round;     /* the last round that is over: `to`, or a later round if the history has more results. After a
                         flush this number is the same on every rank, unless a rank leaves meanwhile */
  uint64_t offers;    /* sum of the weights of the offers that the result contains */
  uint64_t mine;      /* sum of the weights of this rank's offers that the rounds from + 1 to `to` contain */
  uint64_t staleness; /* maximum delay of the calls in `mine`. A call for round c whose contribution is in round
                         r has the delay r - c, but at least 0 */
  int32_t has_result; /* 0: the result is unchanged, because no rank contributed or there is no new round. In a
                         sparse_allreduce, 0 only means that there is no new round */
  const void* result; /* the result in the memory of the schedule, after an lsched_collect without `buckets`; NULL after
                         all other calls, and if has_result is 0 */
  double age_factor;  /* the smallest factor by which the rounds from + 1 to `to` have multiplied a contribution of this
                         rank when they captured it (lsched_age); 1 if no contribution was late */
  uint64_t groups;    /* with replica groups: bit g is set if group g is in round `to`, the same on all ranks; otherwise
                         0 */
  uint64_t fragment;  /* fragment of round `to` (lsched_partial_desc::fragments) */
} lsched_report;

/** Creates a partial collective, which need not wait for the slowest rank (Li et al., PPoPP 2020). The schedule owns
 * its buffers. The engine serves the schedule in the background as soon as the schedule exists. With any activation
 * except "full" a rank takes part in a round even without a call. The rank then contributes its pending offers. If no
 * offer is pending, the rank contributes nothing and its messages have no payload. Collective.
 * In a sparse allreduce a rank that has offered nothing sends from its residual (lsched_sparse_create), so that every
 * round has an update. A round with 0 contributors has an update that contains no new gradient.
 * lsched_sparse_get_stats, lsched_sparse_residual and lsched_schedule_save work on the schedule.
 * Thread, Blocks, Memory: as lsched_collective_create.
 * Errors: as lsched_collective_create; UNSUPPORTED (an activation other than "full" without a progress thread, unless
 * lsched_config asks for LSCHED_PROGRESS_CALLER). */
LSCHED_CHECKED lsched_status lsched_partial_create(lsched_world* world, const lsched_partial_desc* desc,
                                                   lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/* The vectors of contributions and results are passed as one pointer for each bucket. Buckets may lie in separate
 * memory. A schedule without buckets has one bucket, the whole vector. The pointer to an empty bucket may be NULL. */

/** Offers a contribution to the schedule, and calls for a round: the c-th call of a rank calls for round c. Let E be
 * the open round, the first round that is not over. A round captures a rank's pending offers when the rank's part of
 * the round begins.
 *   - If c < E, round c is over, and the contribution goes into the next round that captures it.
 *   - If c == E, this rank joins round E, and starts the round if the activation permits it.
 *   - If c > E, the call counts for round c later, but the contribution may already go into round E.
 * So a round, even with "full", may have fewer contributors than ranks, and may contain several offers of one rank. A
 * contribution that missed its round is combined with the rank's next contribution. Each contribution is counted
 * exactly once.
 * Thread: any, one at a time per schedule.
 * Blocks: never. Makes one pass over the data, or two if a round captures this rank's offers at the same time.
 * Memory: the buckets are copied, and belong to the caller again at return. NULL for `buckets` means a call without a
 * contribution, for example if the rank's gradients have overflowed or the rank has no data in this step. Earlier
 * offers that are pending still go into the round.
 * Errors: ARGUMENT (also a NULL pointer to a bucket that is not empty); UNSUPPORTED (device memory); STATE (an ordinary
 * schedule, after lsched_leave, or while lsched_flush or lsched_model_sync is incomplete). */
LSCHED_CHECKED lsched_status lsched_offer(lsched_schedule* schedule, const void* const* buckets, lsched_ticket* ticket);

/** Offers a contribution with a weight, for example the number of samples or tokens of the gradient. lsched_offer gives
 * the weight 1. The contribution is multiplied by the weight while it is copied, and reports count the weight in place
 * of the offer. So with LSCHED_DIVIDE_BY_OFFERS the result is the sum of weight * contribution, divided by the sum of
 * the weights. This also holds for contributions that are late, saved by lsched_schedule_save, or carried.
 *   - A call with weight 0 is a call without a contribution, as with NULL for `buckets`.
 *   - Integer elements wrap around. Floating elements are rounded to the dtype after the multiplication. In f16,
 *     products beyond 65504 become infinite: divide the weights by a common factor.
 *   - A sum of weights above 2^64-1 becomes 2^64-1.
 * Thread, Memory: as lsched_offer.
 * Blocks: as lsched_offer.
 * Errors: as lsched_offer; UNSUPPORTED (a weight above 1 for an adasum, a sparse_allreduce, or a reduction other than
 * LSCHED_SUM). */
LSCHED_CHECKED lsched_status lsched_offer_weighted(lsched_schedule* schedule, const void* const* buckets,
                                                   uint64_t weight, lsched_ticket* ticket);

/** Offers a contribution to one fragment (lsched_partial_desc::fragments), whose next round may not be the round for
 * which the offer calls. For example, a slow rank may call only for rounds of one fragment, but can offer the others.
 * The contribution stays pending until a round moves its fragment.
 * Thread, Memory: as lsched_offer.
 * Blocks: as lsched_offer.
 * Errors: as lsched_offer_weighted; ARGUMENT (no such fragment). */
LSCHED_CHECKED lsched_status lsched_offer_fragment(lsched_schedule* schedule, uint32_t fragment,
                                                   const void* const* buckets, uint64_t weight, lsched_ticket* ticket);

/** Copies one bucket of a contribution. Meanwhile, the application may still compute other buckets. The order of the
 * buckets is free. A second copy of a bucket replaces the first. When all buckets that are not empty have been copied,
 * call lsched_offer_end, which offers the contribution. lsched_withdraw discards an incomplete contribution.
 * Thread, Blocks, Memory: as lsched_offer.
 * Errors: as lsched_offer; ARGUMENT (no such bucket). */
LSCHED_CHECKED lsched_status lsched_offer_bucket(lsched_schedule* schedule, uint32_t index, const void* bucket);
/** Offers the contribution whose buckets lsched_offer_bucket has copied, and calls for the next round as lsched_offer
 * does.
 * Thread, Blocks: as lsched_offer.
 * Errors: as lsched_offer; STATE (a bucket is missing). Between the first lsched_offer_bucket and lsched_offer_end, the
 * functions lsched_offer, lsched_flush and lsched_model_sync return STATE. */
LSCHED_CHECKED lsched_status lsched_offer_end(lsched_schedule* schedule, lsched_ticket* ticket);
/** Acts as lsched_offer_end, but gives the contribution a weight, as lsched_offer_weighted does. A weight above 1 costs
 * one more pass over the data. The weight 0 discards the copied buckets.
 * Thread, Blocks: as lsched_offer.
 * Errors: as lsched_offer_end and lsched_offer_weighted. */
LSCHED_CHECKED lsched_status lsched_offer_end_weighted(lsched_schedule* schedule, uint64_t weight,
                                                       lsched_ticket* ticket);

/** Skips calls: treats the rounds up to `last` that are over as if this rank had called for them. The next lsched_offer
 * then calls for a later round. *skipped (optional) receives the number of these rounds. Contributions are not
 * affected.
 * A loop that ends with round N skips up to N - 1 before each offer. A late rank then joins the open round and does not
 * call for rounds that are over. No rank calls for a round after N. A rank may flush once round N is over on that rank.
 * Thread: as lsched_offer. Blocks: never.
 * Errors: as lsched_offer. */
LSCHED_CHECKED lsched_status lsched_skip(lsched_schedule* schedule, uint64_t last, uint64_t* skipped);

/** Adds the offers in an image of lsched_schedule_save to the pending offers of a schedule with the same dtype and
 * count. Loading does not count as a call. After an error nothing has changed.
 * Thread: as lsched_offer. Blocks: never.
 * Errors: ARGUMENT (an invalid image); VERSION; MISMATCH; and as lsched_offer. */
LSCHED_CHECKED lsched_status lsched_pending_load(lsched_schedule* schedule, const void* image, size_t bytes);

/** Waits until the ticket's round is over, and copies the result if it has not been collected yet. With LSCHED_HISTORY
 * each call copies the oldest result that is kept.
 * If `buckets` is NULL, the call copies nothing. report->result then points to the whole result in the memory of the
 * schedule, one bucket after the other. A schedule with a divisor first writes the quotient to separate memory. While
 * lsched_flush or lsched_model_sync is incomplete, report->result is NULL, and the data is dropped.
 * Thread: any, one at a time per schedule; another thread may offer meanwhile.
 * Blocks: at most timeout_ns.
 * Memory: `report` may be NULL. The caller may read report->result until the schedule ends, or until lsched_collect,
 * lsched_flush or lsched_model_sync returns a new result. The caller must not write to this memory: after the death of
 * a rank, other ranks may copy the result from this memory.
 * Errors: TIMEOUT (as lsched_wait); ARGUMENT (also a NULL pointer to a bucket that is not empty); UNSUPPORTED (device
 * memory); STATE (a ticket of an ordinary schedule). */
LSCHED_CHECKED lsched_status lsched_collect(lsched_ticket ticket, void* const* buckets, uint64_t timeout_ns,
                                            lsched_report* report, lsched_diagnostic* diagnostic);

/** Discards the pending offers of this rank. *offers (optional) receives the sum of the weights of these offers.
 * Thread: as lsched_offer. Blocks: never.
 * Errors: STATE (an ordinary schedule, or lsched_flush or lsched_model_sync is incomplete). */
LSCHED_CHECKED lsched_status lsched_withdraw(lsched_schedule* schedule, uint64_t* offers);

/** Runs a round that contains all earlier offers, and then acts as lsched_collect. With LSCHED_HISTORY the call copies
 * the oldest result, and the caller can collect the other results later. With fragments, collect the results of the
 * other fragments (lsched_partial_desc::fragments). Afterwards all ranks are at the same round. Collective over the
 * ranks that have not called lsched_leave. If a rank leaves meanwhile, its offers may be in the following rounds.
 * Thread: as lsched_offer and lsched_collect.
 * Blocks: at most timeout_ns. After TIMEOUT the call must be repeated. Until the repeated call returns OK, offers and
 * lsched_withdraw return STATE, but lsched_collect and lsched_leave are allowed.
 * Memory: `buckets` are written only if the call returns OK. NULL drops the data.
 * Errors: TIMEOUT; ARGUMENT (as lsched_collect); UNSUPPORTED (device memory); STATE (an ordinary schedule, after
 * lsched_leave, while lsched_model_sync is incomplete, or between lsched_offer_bucket and lsched_offer_end). */
LSCHED_CHECKED lsched_status lsched_flush(lsched_schedule* schedule, void* const* buckets, uint64_t timeout_ns,
                                          lsched_report* report, lsched_diagnostic* diagnostic);

/** Replaces `weights` by their mean over the participating ranks, with the same bits on all ranks. Pending offers and
 * uncollected results are dropped. Collective over the ranks that have not called lsched_leave. This is the periodic
 * synchronisation of Li et al. (PPoPP 2020). report->last.contributors is the number of ranks in the mean. The mean may
 * include a rank that leaves meanwhile.
 * Thread, Blocks: as lsched_flush.
 * Memory: `weights` has as many elements as a contribution, and must not change between a TIMEOUT and the next call.
 * Errors: as lsched_flush; UNSUPPORTED unless the schedule was created with averages_weights. */
LSCHED_CHECKED lsched_status lsched_model_sync(lsched_schedule* schedule, void* weights, uint64_t timeout_ns,
                                               lsched_report* report, lsched_diagnostic* diagnostic);

/** Leaves a partial schedule: from now on no round waits for a call of this rank, and no draw chooses this rank.
 * Pending offers are still sent. The rank keeps taking part in the rounds of the other ranks until
 * lsched_schedule_destroy. A second call is OK.
 * Thread: as lsched_offer. Blocks: never.
 * Errors: STATE (an ordinary schedule). */
LSCHED_CHECKED lsched_status lsched_leave(lsched_schedule* schedule);

/** Moves a partial schedule into the world `to`. This is one of two worlds:
 * - a world of some or all ranks of the schedule, made by lsched_shrink, lsched_split or lsched_split_ranks. Ranks
 *   outside `to` no longer belong to the schedule, and all outstanding waits end with PEER. If `to` has all ranks of
 *   the schedule, the schedule must have failed.
 * - a world that some or all ranks of the schedule have opened later, also with new ranks, which call
 *   lsched_partial_join. All outstanding waits in the old world end with CANCELLED, or with PEER after a death.
 * The handle and its tickets stay valid. Repeat the waits that ended with an error. Collective over `to`, in the order
 * of its creates.
 * Afterwards, every round that was over on any old member is over on all old members, with the same result. All other
 * offers of members are pending, and calls for rounds that are not over stay valid. A quorum or a number of drawn
 * ranks that exceeds the size of `to` is reduced to that size. Results are still divided by the number of ranks with
 * which the schedule was created. All old members must come from the same world.
 * Thread: any, while no other thread uses the schedule.
 * Blocks: as lsched_collective_create, also if the creates of `to` do not wait.
 * Memory: the schedule's old world may be closed once all its schedules have been carried or destroyed. If `to` was
 * opened later, the results of lsched_collect without a copy are valid until this call.
 * Errors: PEER (another rank has died: shrink the first world again, or shrink `to` if it was opened later);
 * UNSUPPORTED (an ordinary or sparse schedule, a reduce_scatter_block or an allgather); STATE (all ranks have left the
 * schedule; or `to` was made by lsched_shrink or a split, and has all ranks of a schedule that has not failed; or new
 * ranks join while lsched_flush or lsched_model_sync is incomplete on an old rank); BUSY (a rank still uses the memory
 * of another rank); ARGUMENT (`to` is the schedule's world; or `to` was made by lsched_shrink or a split, and has a
 * rank that is not in the schedule's world); MISMATCH (the members carry different schedules); and as
 * lsched_collective_create. All members return the same error, except for ARGUMENT. After an error no offer and no
 * result is lost. But the schedule may have ended in its old world. It must then be carried to another world. */
LSCHED_CHECKED lsched_status lsched_carry(lsched_schedule* schedule, lsched_world* to, lsched_diagnostic* diagnostic);

/** Joins a partial schedule that the other ranks of `world` move into `world` by lsched_carry. This rank was not in
 * their former world, so `world` was opened later. This rank takes part in the rounds after the last round R that any
 * rank has ended. The first offer of this rank calls for round R+1, and this rank has no results up to R. The state of
 * the application, such as the weights of a model, is not copied. After the call, let all ranks call lsched_flush, and
 * send the state and lsched_report::round from one old rank to the new ranks. If no rank carries a schedule, the call
 * creates the schedule. Collective over `world`, in the order of its creates.
 * `desc` must be equal to the desc with which the other ranks created the schedule.
 * Thread: any. Blocks: as lsched_collective_create.
 * Memory: as lsched_partial_create.
 * Errors: as lsched_carry and lsched_partial_create. All ranks of `world` return the same error. */
LSCHED_CHECKED lsched_status lsched_partial_join(lsched_world* world, const lsched_partial_desc* desc,
                                                 lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/** The number of bins of an lsched_histogram. */
#define LSCHED_HISTOGRAM_BINS 40
/** A histogram of values by powers of two. bins[0] is the number of zeros. bins[b] is the number of values from 2^(b-1)
 * to 2^b - 1. The last bin also includes all larger values. */
typedef struct lsched_histogram {
  uint64_t sum, max;
  uint64_t bins[LSCHED_HISTOGRAM_BINS];
} lsched_histogram;

/** The number of bins of lsched_partial_stats.contributors. */
#define LSCHED_CONTRIBUTOR_BINS 65
/** Statistics of one rank about the rounds that are over. A rank's part of a round begins with an op that captures the
 * rank's pending offers. This op is the rank's gate. */
typedef struct lsched_partial_stats {
  size_t struct_size;
  uint64_t rounds;
  /* Contributors by round, the same on every rank. contributors[n] is the number of rounds with n contributors. In a
   * world of more than 64 ranks, n is the number of contributors times 64 / ranks, rounded up. */
  uint64_t contributors_sum, contributors_min, contributors_max;
  uint64_t contributors[LSCHED_CONTRIBUTOR_BINS];
  lsched_histogram staleness; /* staleness in rounds, as in lsched_report; one value for each round with a contribution
                                 of this rank */
  /* This rank's calls compared with its gates. The three numbers add up to `rounds`. The histograms have the time
   * differences, except for calls that are about 1,000 rounds or more before or after their gate. */
  uint64_t in_time;               /* number of rounds for which this rank called before its gate */
  uint64_t late;                  /* number of rounds for which this rank called after its gate */
  uint64_t uncalled;              /* number of rounds for which this rank has not called; lsched_leave is no call */
  lsched_histogram early_ns;      /* for rounds in `in_time`: time from the call to the gate */
  lsched_histogram late_ns;       /* for rounds in `late`: time from the gate to the call */
  lsched_histogram completion_ns; /* time from the gate to the end of the round */
  /* Messages that this rank has sent, including messages of the open round. Bytes are payload without headers, as in
   * lsched_stats. */
  uint64_t messages_sent; /* null messages included */
  uint64_t nulls_sent;
  uint64_t bytes_sent;
  uint64_t bytes_saved; /* payload bytes that the null messages would have had with a contribution */
} lsched_partial_stats;

/** Returns the statistics of a partial schedule since its creation. Rounds of lsched_flush and lsched_model_sync are
 * included. The messages by which ranks agree on such a round are not included.
 * Thread: any.
 * Blocks: for at most one step of the engine.
 * Errors: ARGUMENT; STATE (an ordinary schedule). */
LSCHED_CHECKED lsched_status lsched_schedule_stats(const lsched_schedule* schedule, lsched_partial_stats* stats);

/* ---- Schedules by hand: create, describe, commit --------------------------------------------------------- */

typedef struct lsched_op {
  uint32_t id;
} lsched_op;
typedef struct lsched_slot {
  uint32_t id;
} lsched_slot;

/** `count` elements of a slot. The first is element `offset`. */
typedef struct lsched_region {
  lsched_slot slot;
  uint64_t offset;
  uint64_t count;
} lsched_region;

/** Creates an empty schedule of rank `rank` in a world of `ranks` ranks. No world needs to exist: a schedule of any
 * rank can be printed, and the text can be proved, simulated, drawn and loaded. `name` must be the same on all ranks.
 * NULL means "custom". The builder keeps the first error of its lsched_add_ and lsched_set_ functions, and commit
 * returns that error. So a sequence of these functions needs only one check, at commit. Each of these functions also
 * returns the first error, but compilers do not warn if this status is ignored.
 * Thread: any thread, but only one at a time for each builder. This holds for all builder functions.
 * Blocks: never. This holds for all builder functions except commit.
 * Memory: the caller owns *builder until commit or destroy.
 * Errors: ARGUMENT (also if `rank` is not below `ranks`). */
LSCHED_CHECKED lsched_status lsched_builder_create(int32_t rank, int32_t ranks, const char* name,
                                                   lsched_builder** builder);
/** Destroys a builder that will not be committed. NULL is OK. */
LSCHED_API void lsched_builder_destroy(lsched_builder* builder);

/** The use of a slot. */
typedef enum lsched_slot_use {
  LSCHED_INPUT = 0, /* memory of the caller, which the schedule only reads */
  LSCHED_OUTPUT,    /* memory of the caller, which the schedule writes */
  LSCHED_SCRATCH    /* memory of the schedule */
} lsched_slot_use;

/** Declares a buffer of `count` elements. lsched_builder_commit binds memory to inputs and outputs, in the order of
 * their declaration.
 * Errors: ARGUMENT (no such use, no dtype, or a count of 2^48 or more). */
LSCHED_API lsched_status lsched_add_slot(lsched_builder* b, lsched_slot_use use, lsched_dtype dtype, uint64_t count,
                                         lsched_slot* slot);

/** Adds an op that does nothing. The following applies to all add functions. `op` (optional) receives the new op. For
 * each peer and direction, a schedule may use a tag only once. A peer must be another rank: lsched_add_copy moves data
 * within a rank.
 * Errors: ARGUMENT (a slot that does not exist). Peers, bounds, dtypes and tags are checked at commit. */
LSCHED_API lsched_status lsched_add_nop(lsched_builder* b, lsched_op* op);
/** Adds an op that sends a region to rank `to`. */
LSCHED_API lsched_status lsched_add_send(lsched_builder* b, int32_t to, uint32_t tag, lsched_region source,
                                         lsched_op* op);
/** Adds an op that receives a region from rank `from`. */
LSCHED_API lsched_status lsched_add_recv(lsched_builder* b, int32_t from, uint32_t tag, lsched_region target,
                                         lsched_op* op);
/** Adds an op that computes target = lower (reduction) higher, elementwise. The three counts must be equal, and any two
 * regions must be equal or disjoint. Commit compares the reductions of ranks: if two ranks each use only one reduction
 * for a dtype, both reductions must be equal. A rank that combines no elements, or uses several reductions, is not
 * compared.
 * If user_op is not NULL, the op combines by that reduction of the caller, and `reduction` must be 0. All such ops of a
 * schedule must use the same user_op. Offsets and counts must be multiples of user_op->unit. */
LSCHED_API lsched_status lsched_add_reduce(lsched_builder* b, lsched_reduction reduction, const lsched_user_op* user_op,
                                           lsched_region lower, lsched_region higher, lsched_region target,
                                           lsched_op* op);
/** Adds an op that copies a region to another region of this rank. Counts and dtypes must be equal. */
LSCHED_API lsched_status lsched_add_copy(lsched_builder* b, lsched_region source, lsched_region target, lsched_op* op);

/** Adds a dependency: when `before` completes, it gives a token to `after`.
 * Errors: ARGUMENT. */
LSCHED_API lsched_status lsched_add_dep(lsched_builder* b, lsched_op before, lsched_op after);

/** Sets the number of incoming tokens (lsched_add_dep) at which an op starts. With 1, the op starts when any one of its
 * dependencies has completed. With 0 (the default), the op starts when all of its dependencies have completed. An op
 * starts once per round, and later tokens have no effect.
 * Errors: ARGUMENT. */
LSCHED_API lsched_status lsched_set_need(lsched_builder* b, lsched_op op, uint32_t tokens);

/** Compiles the schedule of a builder, binds it, and connects it with the schedules of the other ranks of `world`.
 * Consumes the builder, also on failure. Collective: ranks whose builder has an error must call, too.
 * Outputs must not overlap with other memory, except in place. In place, the first input lies within the first output,
 * or the first output lies within the first input. Each further input begins at the same address as the output with the
 * same index. (lsched_verify proves whether a schedule is correct in place.)
 * Thread, Blocks, Memory: as lsched_collective_create; `inputs` and `outputs` hold one pointer per slot.
 * Errors: the builder's first error; CYCLE; BOUNDS; ARGUMENT (also for other overlaps, and for a builder of another
 * rank or another number of ranks); UNMATCHED (sends and receives of the ranks do not match in peer, tag, dtype and
 * size; the diagnostic names an unmatched send or receive); MISMATCH (for example, ranks combine by different
 * reductions); the errors of a proof (LSCHED_PROVED); and as lsched_collective_create. */
LSCHED_CHECKED lsched_status lsched_builder_commit(lsched_builder* builder, lsched_world* world,
                                                   const void* const* inputs, void* const* outputs,
                                                   lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/** Writes a schedule file (docs/reference/schedule_file.md) with the schedule that lsched_builder_commit would run. The
 * builder stays valid. The concatenated texts of all ranks are input for lsched_verify, lsched_simulate and
 * lsched_schedule_load. `bytes` and `needed` are as for lsched_schedule_print.
 * Thread, Blocks: as lsched_builder_create.
 * Errors: the builder's first error; CYCLE, BOUNDS, ARGUMENT, as lsched_builder_commit. */
LSCHED_CHECKED lsched_status lsched_builder_print(const lsched_builder* builder, char* text, size_t bytes,
                                                  size_t* needed, lsched_diagnostic* diagnostic);

/** Compiles, binds and connects a schedule from a text. lsched_schedule_print and `lsched show` write such texts
 * (docs/reference/schedule_file.md). The text has the schedule of this rank, or the schedules of all ranks (`lsched
 * show --all`), from which each rank takes its own. Collective: ranks whose text is invalid must call, too.
 * Some algorithms have one schedule for memory in place and another schedule for separate memory. A text does not state
 * its kind of memory. If the bound memory is of the other kind, results may be wrong.
 * Thread, Blocks: as lsched_builder_commit.
 * Memory: as lsched_builder_commit, with one pointer per `input` and per `output` buffer. `text` has `bytes` bytes,
 * needs no NUL, and is not kept.
 * Errors: ARGUMENT (also a text with a user-defined reduction, which a text cannot contain); BOUNDS (the diagnostic
 * names line, column and reason); MISMATCH (the text of another rank or another world, or texts with different names);
 * UNMATCHED; UNSUPPORTED (another version of the text, or a partial schedule); and as lsched_collective_create. */
LSCHED_CHECKED lsched_status lsched_schedule_load(lsched_world* world, const char* text, uint64_t bytes,
                                                  const void* const* inputs, void* const* outputs,
                                                  lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/* ---- Algorithms of your own ---------------------------------------------------------------------------------- */

/** Registers the algorithm of an algorithm file (docs/reference/algorithm_file.md) for the rest of the process. The
 * name of the algorithm is then valid for `algorithm` in every desc. "auto" can choose the algorithm if a proof of its
 * schedules succeeds. Partial collectives can use the algorithm if a proof of its partial form succeeds.
 * LSCHED_ALGORITHM_FILES in the environment registers files when a world is opened. All ranks must register the same
 * texts before they create schedules. Registering a text again has no effect.
 * Thread: any. Blocks: never.
 * Memory: `text` has `bytes` bytes, needs no NUL, and is not kept.
 * Errors: ARGUMENT (the diagnostic names line, column and reason); UNSUPPORTED (another version of the format, or a
 * collective that the format does not cover); STATE (another algorithm has that name). */
LSCHED_CHECKED lsched_status lsched_algorithm_load(const char* text, uint64_t bytes, lsched_diagnostic* diagnostic);

/* ---- Proofs ---------------------------------------------------------------------------------------------------- */

/* A proof covers the schedules of all ranks of a world in every execution (docs/reference/verify.md). Messages may
 * arrive in any order, the eager limit may have any value, and any rank may call first. Nothing runs, and no
 * lsched_world is needed. The member `holds` is 1 if the proof succeeds. The status LSCHED_OK only means that the proof
 * has an outcome. */

/** The outcome of a proof. The counts are complete only if `holds` is 1. */
typedef struct lsched_verification {
  size_t struct_size;
  int32_t holds; /* 1: the proof succeeded; 0: the proof failed, and findings have the reasons */
  int32_t ranks;
  const char* collective;       /* name of the collective that defined the expected contents of outputs, a static
                                   string; NULL: contents were not checked */
  const char* algorithm;        /* name of the algorithm whose declared cost was checked, a static string; NULL: cost
                                   was not checked */
  int32_t is_synchronising;     /* 1: no rank ends a round before every rank has begun the round, even if the schedule
                                   does not declare this */
  int32_t is_eager_safe;        /* 1: with unlimited buffers every round ends; 0 implies that `holds` is 0 */
  uint64_t messages;            /* number of payload messages of all ranks in one round */
  uint64_t bytes;               /* payload bytes of all ranks in one round, if every rank contributes */
  uint64_t signals;             /* number of signals (messages without data) in a round if every rank calls */
  uint64_t signals_of_one;      /* number of signals if only as many ranks call as the round needs */
  uint64_t hops;                /* length of the longest chain of dependent messages and signals */
  uint64_t unexpected_messages; /* upper bound for the number of messages that arrive at any one rank before their
                                   receives are posted */
  uint64_t unexpected_bytes;    /* bytes of these messages */
  uint64_t findings;            /* number of findings written: reasons why the proof failed */
  uint64_t notes;               /* number of notes written after the findings: properties that are legal, but fragile */
  uint64_t count;     /* number of elements that each rank contributes or receives, if contents were checked; 0 if ranks
                         differ */
  lsched_dtype dtype; /* dtype of the data; 0: no data is moved, or contents were not checked */
  lsched_reduction reduction; /* reduction of the data; 0: data is not combined, or is combined by an adaptive sum or a
                                 user_op */
  int32_t root;               /* the root; 0 if there is no root */
  int32_t reserved;           /* 0 */
} lsched_verification;

/** One reason why a proof failed, or one note. */
typedef struct lsched_finding {
  const char* property; /* the kind: "form", "matching", "progress", "holding", "activation", "hazard", "contents",
                           "expression", "cost" or "synchronising"; static */
  int32_t rank;         /* the rank; -1: all ranks */
  int32_t peer;         /* the rank at the other end; -1: none */
  uint32_t op;          /* op of `rank`; UINT32_MAX: none */
  uint32_t buffer;      /* buffer of `rank`; UINT32_MAX: none */
  uint64_t begin, end;  /* elements [begin, end) of the buffer */
  char text[2048];      /* the explanation, with the ops that lead to the fault; one line, truncated to this size */
} lsched_finding;

/** The request of lsched_verify. Either `text` has the schedules to prove, or the library provides the schedules of a
 * collective. In the second case, contents and cost are always checked. */
typedef struct lsched_verify_desc {
  size_t struct_size;
  const char* text; /* schedule files (docs/reference/schedule_file.md) of all ranks, in any order; NULL: none */
  uint64_t bytes;   /* size of `text`, which needs no NUL and is not needed after the call */
  /** A collective that `lsched list` shows. The outputs of a text must have the contents that this collective defines.
   * NULL, for a text: the name of the schedules selects the collective (in "allreduce/mine": allreduce), and the cost
   * is also checked if the name selects a registered algorithm. Contents are not checked if the name selects no
   * collective, or if the contents depend on data that schedules do not contain (such as the tensors of an adasum). So
   * compare lsched_verification.collective with the collective that you expect, or set LSCHED_REQUIRE_PROMISE in
   * `required`. */
  const char* collective;
  int32_t in_place;      /* 0 or 1; 1: inputs and outputs share memory. The collective defines where they overlap;
                            without a collective, both begin at the same address */
  int32_t ranks;         /* number of ranks, at most 2^20. If `text` is given, `ranks`, `algorithm` and `activation` are
                            ignored */
  const char* algorithm; /* an algorithm of the collective; NULL or "auto": the algorithm with the fewest hops */
  uint64_t count;        /* elements of a rank; 0 for a barrier, which ignores dtype and reduction */
  lsched_dtype dtype;
  lsched_reduction reduction;
  const char* activation; /* for a partial collective; otherwise NULL */
  uint32_t required; /* for a text: LSCHED_REQUIRE_… bits. The outputs of the text are checked against the members of
                           this desc that the bits name. Other members are taken from the text. Without a text: 0 */
  int32_t root;      /* used if LSCHED_REQUIRE_ROOT is set */
  uint64_t eager_bytes; /* maximum size of messages that may be sent into a buffer of the receiver. The send of a longer
                           message waits for its receive. 0: all sends wait or, if `slots` is not 0, every message may
                           use a buffer */
  uint32_t slots;       /* number of buffers for each pair of sender and receiver, used in turn; 0: unlimited if
                           eager_bytes is not 0 */
  uint32_t reserved;    /* 0 */
} lsched_verify_desc;

/** Bits of lsched_verify_desc.required. Each bit requires that the text agrees with the member of the desc that the bit
 * names. */
#define LSCHED_REQUIRE_REDUCTION 1u
#define LSCHED_REQUIRE_DTYPE 2u
#define LSCHED_REQUIRE_COUNT 4u
#define LSCHED_REQUIRE_ROOT 8u
#define LSCHED_REQUIRE_PROMISE 16u /* if contents cannot be checked, lsched_verify returns ARGUMENT */

/** Proves the schedules of all ranks of a world. lsched_schedule_print and lsched_builder_print write texts of
 * schedules. `findings` is an array of `most_findings` elements for findings and notes, and may be NULL if
 * `most_findings` is 0.
 * Thread: any, any number at once.
 * Blocks: until the proof has succeeded or failed. The time is linear in the number of ops. A rank with k ops needs
 * k^2/8 bytes of memory for the order of its ops. If this memory exceeds 1 GiB, the proof fails with a finding. A
 * partial schedule is examined once for each rank.
 * Memory: the caller owns all memory, and the library needs none of it after the call.
 * Errors: ARGUMENT (an unknown collective, a rank that is missing or duplicate, an invalid text, or a bit of `required`
 * for a member that the collective does not have), BOUNDS and UNSUPPORTED (another version of the text): the diagnostic
 * names line, column and reason. CONSTRAINT (the algorithm does not support this world or count); NOMEM. */
LSCHED_CHECKED lsched_status lsched_verify(const lsched_verify_desc* desc, lsched_verification* verification,
                                           lsched_finding* findings, uint64_t most_findings,
                                           lsched_diagnostic* diagnostic);

/* ---- Simulation ------------------------------------------------------------------------------------------------ */

/* A simulation computes how long one round takes on a modelled machine (LogGOPS, docs/reference/simulate.md). The
 * simulation applies the rules of the engine to the schedules themselves. `lsched simulate` gives the same times.
 * Nothing runs, and no lsched_world is needed. */

/** The parameters of a machine. */
typedef struct lsched_machine {
  double L, o, g;       /* in ns: latency of the wire, CPU time of a message at either end, gap between messages */
  double G, O, compute; /* in ns per byte: gap, CPU time of a message, time of a reduction or copy */
  uint64_t S;           /* maximum size of an eager message in bytes; longer messages use a rendezvous */
} lsched_machine;

/** The initialiser of the default machine. `lsched simulate` and LogGOPSim use the same default machine. */
#define LSCHED_DEFAULT_MACHINE \
  { 2500, 1500, 1000, 6, 0, 0, 65535 }

/** The request of lsched_simulate. Exactly one of `text`, `collective` and `sparse` is not NULL. */
typedef struct lsched_simulate_desc {
  size_t struct_size;
  const char* text;                 /* schedule files (docs/reference/schedule_file.md) of all ranks, in any order */
  uint64_t bytes;                   /* size of `text`, which needs no NUL */
  const char* collective;           /* a collective that `lsched list` shows, but not a sparse one (see `sparse`) */
  const char* algorithm;            /* algorithm of `collective`; NULL or "auto": the algorithm with the fewest hops */
  const lsched_sparse_desc* sparse; /* a sparse allreduce; gradient and update are ignored */
  int32_t ranks;                    /* number of ranks for `collective` or `sparse`: 1 … 2^24. Ignored if `text` is
                                       given */
  int32_t root;                     /* the members from `root` to `activation` apply to `collective` only */
  uint64_t count;                   /* elements of a rank; 0 for a barrier, which ignores dtype and reduction */
  lsched_dtype dtype;
  lsched_reduction reduction;
  const char* activation;    /* for a partial collective; otherwise NULL */
  int32_t initiator;         /* the rank whose call starts the round if the activation draws one rank ("majority") */
  int32_t reserved;          /* 0 */
  uint64_t round;            /* round number, at least 1; a sparse allreduce does more work in some rounds than in
                                others */
  const uint64_t* starts_ns; /* the time at which each rank begins or calls for the round; NULL: all times are 0 */
  const lsched_machine* machine; /* the machine; NULL: LSCHED_DEFAULT_MACHINE */
} lsched_simulate_desc;

typedef struct lsched_simulation {
  size_t struct_size;
  int32_t ranks;
  int32_t active;    /* number of ranks that had called when the round captured their contribution */
  uint64_t messages; /* number of payload messages of all ranks */
  uint64_t bytes;    /* payload bytes of all ranks */
  uint64_t signals;
  uint64_t nic_waits; /* number of messages that had to wait for their receiver's network interface */
  uint64_t last_ps;   /* time at which the last rank has finished, in picoseconds */
} lsched_simulation;

/** Simulates one round. `finish_ps` receives the times in picoseconds at which ranks 0 … most_ranks-1 finish the round.
 * Elements beyond the last rank are not written. `finish_ps` may be NULL if most_ranks is 0.
 * Thread: any, any number at once.
 * Blocks: until the round is simulated: about 100 ns per message, and for a `collective` at least 10 us for the
 * schedule of each rank.
 * Memory: the caller owns all memory, and the library needs none of it after the call.
 * Errors: ARGUMENT (also an unknown collective, an invalid text, a time below 0 or above 1e12 ns, or parameters with
 * which a message takes no time at all); CONSTRAINT (the algorithm does not support this world or count); BOUNDS;
 * UNSUPPORTED (another version of the text, or a round that takes more than 26 days or sends more than 2^64 bytes);
 * UNMATCHED (a message without a receive); STATE (a rank waits forever, and the diagnostic names it); NOMEM. */
LSCHED_CHECKED lsched_status lsched_simulate(const lsched_simulate_desc* desc, lsched_simulation* simulation,
                                             uint64_t* finish_ps, uint64_t most_ranks, lsched_diagnostic* diagnostic);

#ifdef __cplusplus
}
#endif

#endif
