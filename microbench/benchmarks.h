// The benchmarks behind `lsched bench`: options and entry points. docs/benchmarks.md says how to run and read
// them.
//
// Each is called by every rank of a runtime with equal options, which the command line has checked, and answers the
// exit status: 0, or 1 if a result was wrong. Failures are thrown: `agreed` if every rank meets the same one and can
// leave in order, else `failed`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/c/lsched.h"

namespace lsched::bench {

/// Latency of MPI_Allreduce, solo and majority under a linear skew: Fig. 8 and 9 of Li et al., PPoPP 2020.
struct fig9_options {
  /// Of solo and majority, exactly; not set: 64, fewer if they take too long.
  std::optional<std::uint64_t> iterations;
  std::uint64_t seed = 1;                                                   ///< of majority's draws
  std::vector<std::uint64_t> sizes{64, 512, 4096, 32768, 262144, 4194304};  ///< bytes, multiples of 4
  std::string only;                ///< "mpi", "solo", "majority"; empty: all three
  std::string algorithm = "auto";  ///< of solo and majority
  std::uint32_t buckets = 1;       ///< likewise: their vectors are in so many, as equal as can be
  double skew_ms = 1;
  double mpi_seconds = 60;  ///< of all MPI rows together; at least 5 iterations a size
  std::string plot;         ///< a PNG; empty: none
  std::string transport;    ///< what the runtime talks through: a label for the results
  std::string json;
};
int run_fig9(lsched_world* runtime, const fig9_options& options);

/// Latency and contributors of partial allreduces by policy, under ranks that come late, beside the simulator's.
struct partial_options {
  std::vector<std::string> policies;  ///< as lsched_partial_desc says them; empty: from solo to full
  std::string skew = "linear";        ///< one of partial_skews()
  double skew_ms = 0.2;               ///< mean delay, over ranks and rounds
  std::uint64_t rounds = 200;
  std::uint64_t seed = 1;       ///< of draws and delays
  std::uint64_t bytes = 65536;  ///< a multiple of 4
  std::string algorithm = "auto";
  std::uint32_t buckets = 1;    ///< the vectors are in so many, as equal as can be
  bool has_barrier = true;      ///< between rounds
  bool shows_arrivals = false;  ///< a table of when each rank called
  std::string plot;             ///< a PNG; empty: none
  std::string transport;        ///< what the runtime talks through: a label for the results
  std::string json;
};
std::span<const std::string_view> partial_skews();
int run_partial(lsched_world* runtime, const partial_options& options);

/// What partial rounds cost where nobody is late: rounds in step, offers alone, and processor time.
struct cost_options {
  std::vector<std::uint64_t> sizes{8, 1024, 8192, 32768, 65536, 262144, 1048576, 4194304, 16777216};  ///< as coll's
  std::string algorithm = "auto";  ///< of the synchronous allreduce too
  double cell_seconds = 0.2;       ///< for each way to spend a round
  double seconds = 1;              ///< of computing, for each size
  std::string only;                ///< "balanced", "offer", "cpu"; empty: all three
  bool pin = false;                ///< as coll's
  std::string transport;           ///< likewise
  std::string json;
};
int run_cost(lsched_world* runtime, const cost_options& options);

/// Processor time of ranks that wait for a late one.
struct idle_options {
  double seconds = 5;
  std::string json;
};
int run_idle(lsched_world* runtime, const idle_options& options);

/// Time per op of schedules without communication, beside oneTBB's flow graph, and of an allreduce of eight ranks in
/// one thread. Makes worlds of its own.
struct engine_options {
  std::uint64_t rounds = 2000;  ///< of each side and graph
  std::string json;
};
int run_engine(const engine_options& options);

/// Time to generate and compile an allreduce's schedules, and to bind one to other buffers. Talks to nobody.
struct commit_options {
  std::int32_t ranks = 64;
  std::uint64_t count = 262144;  ///< floats
  std::uint64_t rounds = 1000;   ///< of each
  std::string json;
};
int run_commit(const commit_options& options);

/// What two cores can do with memory between them: the floors of collectives of two ranks.
struct limits_options {
  std::vector<std::uint64_t> sizes{8192, 65536, 1048576, 16777216};  ///< bytes, multiples of 4
  std::uint64_t bytes_moved = std::uint64_t{1} << 30;                ///< of each size and phase, at most
  std::string json;
};
int run_limits(const limits_options& options);

/// Kernels that pass over vectors, beside what memory and arithmetic allow. One thread, no world.
struct kernels_options {
  double cell_seconds = 0.2;  ///< for each kernel, type and level of memory
  std::string json;
};
int run_kernels(const kernels_options& options);

/// Latency of balanced collectives beside MPI's forms.
struct coll_options {
  std::vector<std::string> collectives{"allreduce"};                              ///< names of exercises()
  std::string algorithm = "auto";                                                 ///< "all": each that can
  std::vector<std::uint64_t> sizes{8, 64, 1024, 8192, 65536, 1048576, 16777216};  ///< bytes, multiples of 4
  std::uint64_t iterations = 100000;                                              ///< at most, of each cell
  double cell_seconds = 0.5;                                                      ///< at most, for each cell
  double seconds = 150;           ///< for each collective, when there are many cells
  std::string in_place = "both";  ///< or "no", "only"
  std::string only;               ///< "libsched" or "mpi"; empty: both
  bool pin = false;               ///< the application thread of rank r to core r
  std::string transport;          ///< what the runtime talks through: a label for the results
  std::string plot;               ///< a PNG; empty: none
  std::string json;
};
int run_coll(lsched_world* runtime, const coll_options& options);

/// The adaptive sum beside our sum and MPI's, and what it may cost beyond a sum.
struct adasum_options {
  std::vector<std::uint64_t> sizes{65536, 1048576, 16777216, 67108864};  ///< bytes, multiples of 4
  std::vector<std::uint32_t> tensors{1, 64};                             ///< of nearly equal lengths
  std::vector<std::string> algorithms{"auto"};                           ///< of adasum
  std::string in_place = "both";                                         ///< as coll's
  double cell_seconds = 0.5;
  bool pin = false;       ///< as coll's
  std::string transport;  ///< likewise
  std::string plot;       ///< a PNG; empty: none
  std::string json;
};
int run_adasum(lsched_world* runtime, const adasum_options& options);

/// Sparse allreduces: words, and time where there are ranks to run them.
struct sparse_options {
  std::int32_t ranks = 8;  ///< to be counted; else those of the runtime
  std::uint64_t n = 1 << 20;
  double density = 0.01;  ///< k of n
  std::string generator = "uniform";
  std::vector<std::string> algorithms{};  ///< empty: all
  std::string policy = "both";            ///< of oktopk: "strict", "defer", both of these, "reused", or "all"
  std::string boundaries = "pooled";      ///< or "averaged"
  std::string balance = "cost";           ///< or "published", "always", "never"
  std::uint32_t period = 64;              ///< between looks at the boundaries
  std::uint32_t reuse = 32;               ///< of "reused": between looks for thresholds
  std::uint32_t bucket = 0;               ///< of the split's messages; 0: all at once
  std::uint64_t rounds = 0;               ///< 0: twice the period
  std::uint32_t buckets = 8;              ///< of denseovlp
  double compute_us = 0;                  ///< arithmetic in each round, by which gradients become ready
  std::uint64_t seed = 1;
  bool pin = false;       ///< as coll's
  std::string transport;  ///< likewise
  std::string plot;       ///< a PNG; empty: none
  std::string json;
};
/// What they may be.
std::vector<std::string> sparse_generators();
std::vector<std::string> sparse_algorithm_names();
int run_sparse(lsched_world* runtime, const sparse_options& options);
/// In this process alone.
int count_sparse_world(const sparse_options& options);

/// Figures of the paper on Ok-Topk whose numbers are counts: all ranks in this process, no messages and no clock.
struct sparse_figures_options {
  std::string figure;                     ///< one of sparse_figure_names()
  std::vector<std::int32_t> ranks{};      ///< empty: as the figure has it; likewise what follows
  std::uint64_t n = 0;                    ///< 0 likewise; with generator "training" the nearest that a model can have
  std::vector<double> densities{};        ///< k of n
  std::vector<std::string> generators{};  ///< of sparse_figure_generators(); "training" of threshold only
  std::uint64_t iterations = 0;
  std::uint64_t seed = 1;
  std::string plot;  ///< a PNG; empty: none
  std::string json;
};
std::vector<std::string> sparse_figure_names();
std::vector<std::string> sparse_figure_generators();
int run_sparse_figures(const sparse_figures_options& options);

/// Every algorithm of some collectives in this world, and the fastest of each size as rules of a tuning table.
struct tune_options {
  coll_options measured{.algorithm = "all", .cell_seconds = 0.1, .in_place = "no", .only = "libsched"};
  std::string table = "lsched-tuning.txt";  ///< rules for other worlds that it holds stay
  bool is_near = true;                      ///< all ranks share memory
  std::string json;
};
int run_tune(lsched_world* runtime, const tune_options& options);

/// Computing while a collective is under way, beside MPI's non-blocking forms.
struct overlap_options {
  std::string collective = "allreduce";
  std::string algorithm = "auto";
  std::vector<std::uint64_t> sizes{65536, 1048576, 16777216};  ///< bytes, multiples of 4
  double compute_us = 0;                                       ///< 0: as long as the collective takes alone
  double cell_seconds = 1;
  bool pin = false;       ///< as coll's
  std::string transport;  ///< likewise
  std::string remark;     ///< a sentence about this world, for the reader of the table
  std::string json;
};
/// A runtime to measure with; open() ends the one of the pass before, whose schedules are gone. Collective.
struct overlap_pass {
  std::string progress;  ///< "thread" or "caller": a label for the results
  std::function<lsched_world*()> open;
};
int run_overlap(const overlap_options& options, std::span<const overlap_pass> passes);

/// Solo rounds while the other rank computes, with and without progress threads. Makes worlds of its own: two
/// ranks in this process.
struct async_options {
  double seconds = 2;          ///< of computing
  std::uint64_t count = 1024;  ///< floats
  std::string json;
};
int run_async(const async_options& options);

}  // namespace lsched::bench
