/** @file
 * libsched over GPU memory, by CUDA. C11, also valid C++; needs no header and no library of CUDA's: the driver is found
 * when it is asked for. Every build of libsched has these functions; where CUDA cannot be used they answer
 * LSCHED_ERR_UNSUPPORTED, and the diagnostic says why.
 *
 * Once a rank has attached a device, buffers of its schedules may lie in device memory, which is recognised wherever a
 * pointer is given: at every create, lsched_rebind and lsched_start_with. Results have the bits that they have in host
 * memory. Some ranks of a schedule may have device memory and others none; but where an algorithm has segments, those
 * of device memory are 4 MiB long and others shorter: where a vector is cut at all, all such ranks have to say
 * segment_bytes (lsched_collective_desc, lsched_allreduce_desc), or the create answers MISMATCH. Ranks read device
 * memory of those that have attached before they create a schedule: so all best attach before any creates.
 *
 * Not in device memory: contributions and results of partial schedules, lists with a capacity, sparse vectors of the
 * application's own (lsched_coo_allreduce_create), vectors of a sparse allreduce with LSCHED_REUSED or only one of the
 * two, and buffers that the application's own arithmetic combines: LSCHED_ERR_UNSUPPORTED. Nor arrays of counts,
 * displacements, ranks, buckets and tensors, nor what lsched_convert is given: LSCHED_ERR_ARGUMENT.
 *
 * Streams. lsched_start_on_stream and lsched_wait_on_stream put a round into the order of a stream: it begins when the
 * stream comes there, and the stream goes on when it has ended. Neither call waits for a round, but as said below. A
 * `stream` is a CUstream or a cudaStream_t of the attached device; NULL is the legacy default stream, and
 * CU_STREAM_PER_THREAD that of the calling thread. On every rank rounds of several schedules that streams wait for are
 * to be asked for in the same order, as with blocking calls.
 *
 * A device that fails takes its schedules with it: DEVICE on this rank, in the driver's words, and CANCELLED, naming
 * it, on the others. Schedules over host memory go on. A peer's device memory that the driver does not let this rank
 * read takes its own schedule alone: one that is created anew has its messages copied, as long as that is so.
 *
 * Memory that is freed while a schedule is bound to it is the same mistake as in host memory. A process that forks must
 * not use the device in the child.
 */
#ifndef LSCHED_CUDA_H
#define LSCHED_CUDA_H

#include "lsched.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Whose device memory ranks of a node read where it is, on the device that they share, instead of through pinned host
 * memory. */
typedef enum lsched_cuda_peers {
  LSCHED_CUDA_PEERS_AUTO = 0,   /* what lsched_cuda_alloc has given, and the library's own */
  LSCHED_CUDA_PEERS_ALWAYS = 1, /* also other memory, if CUDA can share it between processes: CUDA leaves open what
                                   becomes of readers when its owner frees it, or dies, meanwhile. What the application
                                   frees stays on the device until each rank that has read it has destroyed that
                                   schedule, or has read other memory in its place in a later round */
  LSCHED_CUDA_PEERS_NEVER = 2
} lsched_cuda_peers;

typedef struct lsched_cuda_config {
  size_t struct_size;
  int32_t device;         /* CUDA's number; -1: that of the caller's current context, or else the place among the ranks
                             of the machine, modulo devices */
  int32_t host_waits;     /* 1: lsched_wait_on_stream waits in the host, whatever streams can */
  int32_t peers;          /* lsched_cuda_peers */
  uint64_t staging_bytes; /* pinned memory for messages that is reserved at a time; 0: 64 MiB */
} lsched_cuda_config;

/** Fills in the defaults, or what LSCHED_CUDA_DEVICE (a number) and LSCHED_CUDA_STREAMS (auto, host) say. */
#define lsched_cuda_config_init(config) lsched_cuda_config_init_sized((config), sizeof(lsched_cuda_config))
/** What lsched_cuda_config_init calls, with the size that the struct has in the caller's header. */
LSCHED_API void lsched_cuda_config_init_sized(lsched_cuda_config* config, size_t bytes);

/** From now on buffers of this process's rank may lie in the memory of a device: in `world`, and in all worlds that
 * have come of the one that was opened. Uses the device's primary context, as CUDA's run time does; whatever context
 * the caller has stays current. NULL config: the defaults.
 * Thread: any, once for each world that was opened.  Blocks: while kernels are loaded (seconds, the first time).
 * Memory: until the last world is closed, which waits for the device, a few seconds at most. If any stream of the
 * device is busy for longer than two, the application's own included, what is the device's is not given back: close
 * answers OK, and memory, streams and kernels stay until the process ends.
 * Errors: UNSUPPORTED (a build without CUDA, no driver, too old a one, no device), ARGUMENT (no such device), STATE
 * (attached already), NOMEM, DEVICE. */
LSCHED_CHECKED lsched_status lsched_cuda_attach(lsched_world* world, const lsched_cuda_config* config,
                                                lsched_diagnostic* diagnostic);

/** Device memory that ranks of the node read where it is. Contents unspecified, 256-byte aligned.
 * Thread: any.  Blocks: while the engine does a step.  Memory: until lsched_cuda_free, or until the last world is
 * closed. Errors: STATE (no device was attached), NOMEM, ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_cuda_alloc(lsched_world* world, uint64_t bytes, void** memory);
/** NULL is OK. No schedule may be bound to the memory any more; none can be from then on (ARGUMENT).  Thread, blocks:
 * as above.
 * Errors: ARGUMENT (also memory that lsched_cuda_alloc has not given, or that was freed before). */
LSCHED_CHECKED lsched_status lsched_cuda_free(lsched_world* world, void* memory);

/** Asks for the next round: it begins on this rank when all that was put into `stream` so far has been done. Up to 16
 * rounds may be asked for ahead; they run one after the other. (lsched_start knows no streams: its buffers must be
 * ready, as for MPI.)
 * Thread: any, one call at a time for a schedule.  Blocks: the first call of a schedule, here or of
 * lsched_wait_on_stream, while the engine does a step; the others never.  Memory: from that place in the stream on the
 * bound buffers are the schedule's, until the round has ended.
 * Errors: BUSY (16 rounds are outstanding), STATE (no device was attached), UNSUPPORTED (a partial schedule, one whose
 * memory comes with each round, no progress thread, or a stream that is being captured), CONSTRAINT (a stream of
 * another device), ARGUMENT, NOMEM, DEVICE; nothing has changed. */
LSCHED_CHECKED lsched_status lsched_start_on_stream(lsched_schedule* schedule, void* stream, lsched_ticket* ticket);

/** Whatever is put into `stream` from now on is done after the round has ended on this rank; a round that was started
 * by lsched_start will do, too. If the round fails, the stream goes on, and outputs are unspecified:
 * lsched_test(ticket) says why; ask before relying on them.
 * Thread: any.  Blocks: as lsched_start_on_stream, except where streams of the device cannot wait, or as many wait as
 * may at a time, for all ranks of the process: then until the round has ended. lsched_world_describe says how many may.
 * Errors: STATE (the round was not asked for, or no device was attached), UNSUPPORTED (as above), CONSTRAINT, ARGUMENT,
 * NOMEM, DEVICE. */
LSCHED_CHECKED lsched_status lsched_wait_on_stream(lsched_ticket ticket, void* stream);

typedef struct lsched_cuda_stats {
  size_t struct_size;
  uint64_t jobs;           /* copies and kernels of schedules */
  uint64_t messages_shown; /* messages sent whose receiver reads this rank's device memory itself */
} lsched_cuda_stats;

/** Counters of this rank since open.  Thread: any. Blocks: for at most one step of the engine. Errors: ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_cuda_get_stats(lsched_world* world, lsched_cuda_stats* stats);

#ifdef __cplusplus
}
#endif

#endif
