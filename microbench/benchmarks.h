// The benchmarks behind `lsched bench`: options and entry points. docs/reference/benchmarks.md says how to run and read
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

/// What all benchmarks are told.
struct output_options {
  bool pin = false;         ///< the application thread of rank r to core r
  std::string transport{};  ///< what the runtime talks through: a label for the results
  std::string plot{};       ///< a PNG; empty: none
  std::string json{};       ///< empty: no JSON lines; "-": to standard output; else a file
};

/// Latency of MPI_Allreduce, solo and majority under a linear skew: Fig. 8 and 9 of Li et al., PPoPP 2020.
struct fig9_options : output_options {
  /// Of solo and majority, exactly; not set: 64, fewer if they take too long.
  std::optional<std::uint64_t> iterations;
  std::vector<std::uint64_t> sizes{64, 512, 4096, 32768, 262144, 4194304};  ///< bytes, multiples of 4
  std::string only;           ///< "mpi", "solo", "majority"; empty: all three
  std::uint32_t buckets = 1;  ///< of solo and majority: their vectors are in so many, as equal as can be
};
int run_fig9(lsched_world* runtime, const fig9_options& options);

/// Latency and contributors of partial allreduces by policy, under ranks that come late, beside the simulator's.
struct partial_options : output_options {
  std::vector<std::string> policies;  ///< as lsched_partial_desc says them; empty: from solo to full
  std::string skew = "linear";        ///< one of partial_skews()
  double skew_ms = 0.2;               ///< mean delay, over ranks and rounds
  std::uint64_t rounds = 200;
  std::uint64_t bytes = 65536;  ///< a multiple of 4
  bool has_barrier = true;      ///< between rounds
  bool shows_arrivals = false;  ///< a table of when each rank called
};
std::span<const std::string_view> partial_skews();
int run_partial(lsched_world* runtime, const partial_options& options);

/// What partial rounds cost where nobody is late: rounds in step, offers alone, and processor time; and the processor
/// time of ranks that wait for one that is late.
struct cost_options : output_options {
  std::vector<std::uint64_t> sizes{8, 1024, 8192, 32768, 65536, 262144, 1048576, 4194304, 16777216};  ///< as coll's
  double cell_seconds = 0.2;  ///< for each way to spend a round
  double seconds = 1;         ///< of computing, for each size, and of being late
  std::string only;           ///< "balanced", "offer", "cpu", "idle"; empty: all four
};
int run_cost(lsched_world* runtime, const cost_options& options);

/// What takes time in one process: see microbench/engine/engine_parts.h. Makes worlds of its own.
struct engine_options : output_options {
  std::string only;           ///< one of engine_parts(); empty: all of them
  double cell_seconds = 0.2;  ///< of kernels: for each kernel, type and level of memory
};
std::vector<std::string> engine_parts();
int run_engine(const engine_options& options);

/// Latency of balanced collectives beside MPI's forms.
struct coll_options : output_options {
  std::vector<std::string> collectives{"allreduce"};                              ///< names of exercises()
  std::string algorithm = "auto";                                                 ///< "all": each that can
  std::string compared;                                                           ///< of "all": set against the others
  std::vector<std::uint64_t> sizes{8, 64, 1024, 8192, 65536, 1048576, 16777216};  ///< bytes, multiples of 4
  std::uint64_t iterations = 100000;                                              ///< at most, of each cell
  double cell_seconds = 0.5;                                                      ///< at most, for each cell
  double seconds = 150;      ///< for each collective, when there are many cells
  bool has_in_place = true;  ///< beside rounds with two buffers
};
int run_coll(lsched_world* runtime, const coll_options& options);

/// Messages between two ranks, and an alltoallv whose counts change, beside MPI's.
struct messages_options : output_options {
  std::vector<std::uint64_t> sizes{8, 1024, 65536, 1048576};  ///< bytes of a message, multiples of 4
  double cell_seconds = 0.5;
};
int run_messages(lsched_world* runtime, const messages_options& options);

/// The adaptive sum beside our sum and MPI's, and what it may cost beyond a sum.
struct adasum_options : output_options {
  std::vector<std::uint64_t> sizes{65536, 1048576, 16777216, 67108864};  ///< bytes, multiples of 4
  std::vector<std::uint32_t> tensors{1, 64};                             ///< of nearly equal lengths
  std::vector<std::string> algorithms{"auto"};                           ///< of adasum
  double cell_seconds = 0.5;
};
int run_adasum(lsched_world* runtime, const adasum_options& options);

/// Sparse allreduces: words, and time where there are ranks to run them.
struct sparse_options : output_options {
  std::int32_t ranks = 8;  ///< to be counted; else those of the runtime
  std::uint64_t n = 1 << 20;
  double density = 0.01;  ///< k of n
  std::string generator = "uniform";
  std::vector<std::string> algorithms{};  ///< empty: all
  std::string policy = "both";            ///< of oktopk: "strict", "defer", both of these, "reused", or "all"
  std::uint32_t period = 64;              ///< between looks at the boundaries
  std::uint32_t reuse = 32;               ///< of "reused": between looks for thresholds
  std::uint32_t bucket = 0;               ///< of the split's messages; 0: all at once
  std::uint64_t rounds = 0;               ///< 0: twice the period
  std::uint32_t buckets = 8;              ///< of denseovlp
  double compute_us = 0;                  ///< arithmetic in each round, by which gradients become ready
};
/// The values that these options take.
std::vector<std::string> sparse_generators();
std::vector<std::string> sparse_algorithm_names();
int run_sparse(lsched_world* runtime, const sparse_options& options);
/// In this process alone.
int count_sparse_world(const sparse_options& options);

/// Figures of the paper on Ok-Topk whose numbers are counts: all ranks in this process, no messages and no clock.
struct sparse_figures_options : output_options {
  std::string figure;                     ///< one of sparse_figure_names()
  std::vector<std::int32_t> ranks{};      ///< empty or 0, here and below: the figure's own
  std::uint64_t n = 0;                    ///< with generator "training" the nearest size that a model can have
  std::vector<double> densities{};        ///< k of n
  std::vector<std::string> generators{};  ///< of sparse_figure_generators(); "training" of threshold only
  std::uint64_t iterations = 0;
  std::uint64_t seed = 1;  ///< of gradients
};
std::vector<std::string> sparse_figure_names();
std::vector<std::string> sparse_figure_generators();
int run_sparse_figures(const sparse_figures_options& options);

/// Every algorithm of some collectives in this world, and the fastest of each size as rules of a tuning table.
struct tune_options {
  coll_options measured{.algorithm = "all", .cell_seconds = 0.1, .has_in_place = false};
  std::string table = "lsched-tuning.txt";  ///< rules for other worlds that it holds stay
  bool is_near = true;                      ///< all ranks share memory
};
int run_tune(lsched_world* runtime, const tune_options& options);

/// Computing while an allreduce is under way, for as long as it takes alone, beside MPI_Iallreduce.
struct overlap_options : output_options {
  std::vector<std::uint64_t> sizes{65536, 1048576};   ///< bytes, multiples of 4
  std::vector<std::string> devices{"core", "sleep"};  ///< that compute, of overlap_devices()
  double compute_us = 0;                              ///< how long computing takes; 0: as long as the allreduce alone
  double cell_seconds = 1;
  std::string remark;  ///< a sentence about this world, for the reader of the table
};
/// A runtime to measure with; open() closes that of the pass before, which has no schedules left. Collective.
struct overlap_pass {
  std::string progress;  ///< "thread", "caller" or "apart": a label for the results
  std::function<lsched_world*()> open;
  std::optional<unsigned> core{};  ///< of this rank's application thread from then on
};
/// "core": arithmetic; "sleep": a device that leaves the core.
std::span<const char* const> overlap_devices();
int run_overlap(const overlap_options& options, std::span<const overlap_pass> passes);

/// A GPU: what its driver's calls cost, how fast kernels and copies are, and allreduces over its memory beside copies
/// of the whole. One part of it; each is a process, or as many as it has ranks, so that none can end the others.
struct cuda_options : output_options {
  std::string part;         ///< one of cuda_parts()
  std::int32_t ranks = 2;   ///< of parts that have ranks
  bool as_threads = false;  ///< their ranks are threads of one process
  double seconds = 60;      ///< what does not fit is left out, and named
  bool quick = false;       ///< sizes and samples so small that numbers mean nothing
};
struct cuda_part {
  std::string_view name;
  bool has_ranks;
};
std::span<const cuda_part> cuda_parts();
/// What all parts answer where there is no GPU that can be used, after they have said why.
inline constexpr int k_exit_no_gpu = 77;
/// Parts without ranks, and ranks that are threads.
int run_cuda(const cuda_options& options);
/// Parts whose ranks are processes.
int run_cuda_ranks(lsched_world* world, const cuda_options& options);

}  // namespace lsched::bench
