// The parts of `lsched bench engine`, which measure work inside one process. Each part prints its table and JSON lines.
#pragma once

#include <memory>

#include "microbench/report.h"

namespace lsched::bench {

struct runtime_closer {
  void operator()(lsched_world* runtime) const { (void)lsched_world_close(runtime); }
};
using runtime_handle = std::unique_ptr<lsched_world, runtime_closer>;

/// Opens a world with this thread as the only rank.
runtime_handle open_world_of_one(const lsched_config* config = nullptr);

/// Measures the time per op of schedules without communication, compared with oneTBB's flow graph. Also measures the
/// time per op of an allreduce of eight ranks in one thread.
void measure_graphs(reporter& out);

/// Measures the time to generate and compile the schedules of an allreduce, and the time to bind a schedule to other
/// buffers.
void measure_commit(reporter& out);

/// Measures one large reduction, in the calling thread and with the help of a oneTBB worker.
void measure_lane(reporter& out);

/// Measures how fast two cores copy and add in shared memory. The durations are lower bounds for collectives of two
/// ranks.
void measure_limits(reporter& out);

}  // namespace lsched::bench
