// The parts of `lsched bench engine`: what takes time in one process. Each prints its table and its JSON lines.
#pragma once

#include <memory>

#include "microbench/report.h"

namespace lsched::bench {

struct runtime_closer {
  void operator()(lsched_world* runtime) const { (void)lsched_world_close(runtime); }
};
using runtime_handle = std::unique_ptr<lsched_world, runtime_closer>;

/// A world of this thread alone.
runtime_handle open_world_of_one(const lsched_config* config = nullptr);

/// Time per op of schedules without communication, beside oneTBB's flow graph, and of an allreduce of eight ranks in
/// one thread.
void measure_graphs(reporter& out);

/// Time to generate and compile an allreduce's schedules, and to bind one to other buffers.
void measure_commit(reporter& out);

/// One large reduction, inline and on a oneTBB worker.
void measure_lane(reporter& out);

/// Kernels that pass over vectors, beside what memory and arithmetic allow.
void measure_kernels(double cell_seconds, reporter& out);

/// What two cores can do with memory between them: the floors of collectives of two ranks.
void measure_limits(reporter& out);

}  // namespace lsched::bench
