/** @file
 * Schedules over GPU memory, by CUDA. This header is C11, and also valid C++. Programs need no header and no library of
 * CUDA, because the driver is loaded at run time. Every build of libsched has these functions. If CUDA cannot be used,
 * they return LSCHED_ERR_UNSUPPORTED, and the diagnostic has the reason.
 *
 * Buffers. Once a rank has attached a device, buffers of its schedules may be in device memory. The create functions,
 * lsched_rebind and lsched_start_with recognise pointers to device memory. Results have the same bits as in host
 * memory. Some ranks of a schedule may use device memory while others use host memory. By default, pipelined algorithms
 * use segments of 4 MiB in device memory, and shorter segments in host memory. If both kinds of memory meet in such an
 * algorithm, all ranks must set the same segment_bytes (lsched_collective_desc). Otherwise the create function returns
 * MISMATCH. A rank can read a peer's device memory directly only if the peer attached its device before the rank
 * created the schedule. So attach the devices of all ranks before any rank creates a schedule.
 *
 * Limits. Device memory causes LSCHED_ERR_UNSUPPORTED for
 *   - contributions and results of partial schedules,
 *   - buffers of schedules with a capacity, and sparse vectors of lsched_coo_allreduce_create,
 *   - vectors of a sparse allreduce with LSCHED_REUSED, and one vector of a sparse allreduce if the other is in host
 *     memory,
 *   - buffers that a user_op combines.
 *
 * Device memory causes LSCHED_ERR_ARGUMENT for buffers of lsched_convert, and for arrays of counts, displacements,
 * ranks, buckets and tensors.
 *
 * Streams. lsched_start_on_stream lets a round begin when all earlier work in a stream is done. lsched_wait_on_stream
 * lets later work in a stream wait for the end of a round. The host waits for a round only in the cases that are stated
 * at lsched_wait_on_stream. A `stream` is a CUstream or a cudaStream_t of the attached device. NULL is the legacy
 * default stream, and CU_STREAM_PER_THREAD is the default stream of the calling thread. If streams wait for rounds of
 * several schedules, all ranks must request these rounds in the same order, as with blocking calls.
 *
 * Failures. If a device fails, its schedules fail. On the rank of the device the error is DEVICE with the driver's
 * text. On other ranks the error is CANCELLED, and the diagnostic names the rank of the device. Schedules over host
 * memory are not affected. If the driver does not let this rank read the device memory of a peer, only the schedule
 * that needed this memory fails. As long as the driver refuses, schedules that are created later copy their messages
 * through host memory.
 *
 * As with host memory, do not free memory while a schedule is bound to it. A child process must not use the device
 * after a fork.
 */
#ifndef LSCHED_CUDA_H
#define LSCHED_CUDA_H

#include "lsched.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Selects the device memory that ranks of one node read directly if they share a device. All other device memory goes
 * through pinned host memory. */
typedef enum lsched_cuda_peers {
  LSCHED_CUDA_PEERS_AUTO = 0,   /* memory of lsched_cuda_alloc, and device memory of the library */
  LSCHED_CUDA_PEERS_ALWAYS = 1, /* also other memory that CUDA can share between processes. If the owner frees the
                                   memory or dies while a rank reads, CUDA does not define the result. If the
                                   application frees such memory after other ranks have read it, the memory stays
                                   allocated. It becomes free when each of these ranks has destroyed the schedule, or
                                   has read other memory in a later round of the schedule */
  LSCHED_CUDA_PEERS_NEVER = 2   /* none */
} lsched_cuda_peers;

typedef struct lsched_cuda_config {
  size_t struct_size;
  int32_t device;         /* CUDA's index of the device; -1: the device of the caller's current context. If there is no
                             context, the index is the place of the rank among the ranks of the machine, modulo the
                             number of devices */
  int32_t host_waits;     /* 1: lsched_wait_on_stream waits on the host, even if streams can wait */
  int32_t peers;          /* an lsched_cuda_peers */
  uint64_t staging_bytes; /* size of each allocation of pinned memory for messages; 0: 64 MiB */
} lsched_cuda_config;

/** Fills in the defaults, or the values of LSCHED_CUDA_DEVICE (a number) and LSCHED_CUDA_STREAMS (auto, host).
 * Thread: any. Blocks: never. */
#define lsched_cuda_config_init(config) lsched_cuda_config_init_sized((config), sizeof(lsched_cuda_config))
/** The function behind lsched_cuda_config_init. `bytes` is the size of the struct in the caller's header. */
LSCHED_API void lsched_cuda_config_init_sized(lsched_cuda_config* config, size_t bytes);

/** Attaches a device. From now on, buffers of this rank may be in the memory of the device. This applies to `world` and
 * to all worlds that share its engine. Uses the device's primary context, as the CUDA run time does, and does not
 * change the caller's current context. If `config` is NULL, the defaults apply.
 * Thread: any, once for each world that was opened.
 * Blocks: while kernels are loaded (for seconds in the first call).
 * Memory: the device stays attached until the last world is closed. Closing the last world waits for the device, a few
 * seconds at most. If any stream of the device, even a stream of the application, is busy for more than two seconds,
 * lsched_world_close still returns OK. The library then frees the device's memory, streams and kernels only when the
 * process ends.
 * Errors: UNSUPPORTED (a build without CUDA, no driver, a driver that is too old, or no device); ARGUMENT (no such
 * device); STATE (a device is already attached); NOMEM; DEVICE. */
LSCHED_CHECKED lsched_status lsched_cuda_attach(lsched_world* world, const lsched_cuda_config* config,
                                                lsched_diagnostic* diagnostic);

/** Allocates device memory that ranks of the node can read directly. The memory is 256-byte aligned, and its contents
 * are unspecified.
 * Thread: any.
 * Blocks: for at most one step of the engine.
 * Memory: valid until lsched_cuda_free, or until the last world is closed.
 * Errors: STATE (no device is attached); NOMEM; ARGUMENT. */
LSCHED_CHECKED lsched_status lsched_cuda_alloc(lsched_world* world, uint64_t bytes, void** memory);
/** Frees memory of lsched_cuda_alloc. NULL is OK. No schedule may still be bound to the memory. A later attempt to bind
 * a schedule to this memory returns ARGUMENT.
 * Thread, Blocks: as lsched_cuda_alloc.
 * Errors: ARGUMENT (also for memory that is not from lsched_cuda_alloc, or was freed before). */
LSCHED_CHECKED lsched_status lsched_cuda_free(lsched_world* world, void* memory);

/** Requests the next round, which begins on this rank when all earlier work in `stream` is done. Up to 16 rounds may be
 * requested in advance, and run one after the other. (lsched_start ignores streams: buffers must be ready when
 * lsched_start is called, as for MPI.)
 * Thread: any, one call at a time for a schedule.
 * Blocks: for at most one step of the engine in the first stream call of a schedule; never in later calls.
 * Memory: the bound buffers belong to the schedule from the end of earlier work in the stream until the round has
 * ended.
 * Errors: BUSY (16 rounds are outstanding); STATE (no device is attached); UNSUPPORTED (a partial schedule, a schedule
 * whose memory comes with each round, no progress thread, or a stream that is being captured); CONSTRAINT (a stream of
 * another device); ARGUMENT; NOMEM; DEVICE. After an error nothing has changed. */
LSCHED_CHECKED lsched_status lsched_start_on_stream(lsched_schedule* schedule, void* stream, lsched_ticket* ticket);

/** Makes later work in `stream` wait until the round has ended on this rank. The round may also have been started by
 * lsched_start. If the round fails, the stream continues, and outputs are unspecified. So call lsched_test(ticket),
 * which returns the error, before the outputs are used.
 * Thread: any.
 * Blocks: as lsched_start_on_stream, with two exceptions. If streams of the device cannot wait, the call blocks until
 * the round has ended. The call also does so if the process already has the maximum number of waiting streams.
 * lsched_world_describe shows this maximum.
 * Errors: STATE (the round was not requested, or no device is attached); UNSUPPORTED (as lsched_start_on_stream);
 * CONSTRAINT; ARGUMENT; NOMEM; DEVICE. */
LSCHED_CHECKED lsched_status lsched_wait_on_stream(lsched_ticket ticket, void* stream);

#ifdef __cplusplus
}
#endif

#endif
