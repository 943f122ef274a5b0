// The benchmarks of `lsched bench`: options and entry points. docs/reference/benchmarks.md describes how to run them
// and how to read their results.
//
// Every rank of a runtime calls an entry point with equal options, which the command line has validated. An entry point
// returns the exit status: 0, or 1 if a result was wrong. If every rank has the same error and the world stays usable,
// the entry point throws `agreed`. For all other errors, the entry point throws `failed`.
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

/// The options of all benchmarks.
struct output_options {
  bool pin = false;         ///< binds the application thread of rank r to core r
  std::string transport{};  ///< name of the transport, a label for the results
  std::string plot{};       ///< path of a PNG; empty: no plot
  std::string json{};       ///< path for JSON lines; "-": standard output; empty: no JSON
};

/// Latency of MPI_Allreduce and of solo and majority rounds, under a linear skew (Fig. 8 and 9 of Li et al., PPoPP
/// 2020).
struct fig9_options : output_options {
  /// Number of iterations of solo and majority. If not set: 64, or fewer if they take too long.
  std::optional<std::uint64_t> iterations;
  std::vector<std::uint64_t> sizes{64, 512, 4096, 32768, 262144, 4194304};  ///< bytes, multiples of 4
  std::string only;           ///< "mpi", "solo", "majority"; empty: all three
  std::uint32_t buckets = 1;  ///< number of nearly equal buckets of the vectors of solo and majority
};
int run_fig9(lsched_world* runtime, const fig9_options& options);

/// Latency and contributors of partial allreduces with late ranks, for each policy, and the times that the simulator
/// predicts.
struct partial_options : output_options {
  std::vector<std::string> policies;  ///< activations as in lsched_partial_desc; empty: from solo to full
  std::string skew = "linear";        ///< one of partial_skews()
  double skew_ms = 0.2;               ///< mean delay of a rank in a round
  std::uint64_t rounds = 200;
  std::uint64_t bytes = 65536;  ///< a multiple of 4
  bool has_barrier = true;      ///< true: a barrier separates the rounds
  bool shows_arrivals = false;  ///< prints a table of the time at which each rank called
};
std::span<const std::string_view> partial_skews();
int run_partial(lsched_world* runtime, const partial_options& options);

/// Costs of partial rounds. Without late ranks: latency of rounds, latency of lsched_offer alone, and processor time.
/// With a late rank: processor time of the waiting ranks.
struct cost_options : output_options {
  std::vector<std::uint64_t> sizes{8, 1024, 8192, 32768, 65536, 262144, 1048576, 4194304, 16777216};  ///< in bytes
  double cell_seconds = 0.2;  ///< time for each kind of round
  double seconds = 1;         ///< duration of the computation for each size, and delay of the late rank
  std::string only;           ///< "balanced", "offer", "cpu", "idle"; empty: all four
};
int run_cost(lsched_world* runtime, const cost_options& options);

/// Costs of the engine inside one process (microbench/engine/engine_parts.h). The benchmark creates its own worlds.
struct engine_options : output_options {
  std::string only;  ///< one of engine_parts(); empty: all parts
};
std::vector<std::string> engine_parts();
int run_engine(const engine_options& options);

/// Latency of balanced collectives, compared with MPI.
struct coll_options : output_options {
  std::vector<std::string> collectives{"allreduce"};                              ///< names of exercises()
  std::string algorithm = "auto";                                                 ///< "all": all algorithms
  std::string compared;                                                           ///< algorithm to compare with others
  std::vector<std::uint64_t> sizes{8, 64, 1024, 8192, 65536, 1048576, 16777216};  ///< bytes, multiples of 4
  std::uint64_t iterations = 100000;                                              ///< limit for each cell
  double cell_seconds = 0.5;                                                      ///< limit for each cell
  double seconds = 150;      ///< time for each collective if there are many cells
  bool has_in_place = true;  ///< true: also measures rounds in place
};
int run_coll(lsched_world* runtime, const coll_options& options);

/// Latency of adaptive sums, of libsched's sums and of MPI's sums, and the expected extra cost of an adaptive sum.
struct adasum_options : output_options {
  std::vector<std::uint64_t> sizes{65536, 1048576, 16777216, 67108864};  ///< bytes, multiples of 4
  std::vector<std::uint32_t> tensors{1, 64};                             ///< number of tensors, of nearly equal lengths
  std::vector<std::string> algorithms{"auto"};                           ///< algorithms of adasum
  double cell_seconds = 0.5;
};
int run_adasum(lsched_world* runtime, const adasum_options& options);

/// Sparse allreduces: the words that ranks send and receive. If the ranks are processes, also the times.
struct sparse_options : output_options {
  std::int32_t ranks = 8;  ///< number of ranks if words are counted in one process
  std::uint64_t n = 1 << 20;
  double density = 0.01;  ///< k / n
  std::string generator = "uniform";
  std::vector<std::string> algorithms{};  ///< empty: all algorithms
  std::string policy = "both";            ///< policy of oktopk: "strict", "defer", "both" (these two), "reused", "all"
  std::uint32_t period = 64;              ///< rounds between two updates of the boundaries
  std::uint32_t reuse = 32;               ///< for "reused": rounds between two updates of the thresholds
  std::uint32_t bucket = 0;               ///< number of lists that a rank sends before it waits; 0: all lists
  std::uint64_t rounds = 0;               ///< number of rounds; 0: two periods
  std::uint32_t buckets = 8;              ///< number of buckets of denseovlp
  double compute_us = 0;                  ///< duration of the computation of a round; gradients become ready meanwhile
};
/// Return the values that `generator` and `algorithms` accept.
std::vector<std::string> sparse_generators();
std::vector<std::string> sparse_algorithm_names();
int run_sparse(lsched_world* runtime, const sparse_options& options);
/// Counts the words in this process, without messages.
int count_sparse_world(const sparse_options& options);

/// Fig. 7 of the Ok-Topk paper, counted in words. All ranks are in this process, without messages and clocks.
struct balance_options : output_options {
  std::vector<std::int32_t> ranks{4, 8, 16, 32, 64};  ///< numbers of ranks
  std::uint64_t n = 1 << 17;                          ///< elements of a gradient
  double density = 0.01;                              ///< k / n
  std::string generator = "layered";                  ///< from sparse_generators()
  std::uint64_t iterations = 256;
  std::uint64_t seed = 1;  ///< seed of the gradients
};
int run_balance(const balance_options& options);

/// Measures every algorithm of some collectives in this world. Writes the fastest algorithm for each size as a rule of
/// a tuning table.
struct tune_options {
  coll_options measured{.algorithm = "all", .cell_seconds = 0.1, .has_in_place = false};
  std::string table = "lsched-tuning.txt";  ///< file; rules for other worlds in the file are kept
};
int run_tune(lsched_world* runtime, const tune_options& options);

/// Overlap of an allreduce with a computation of the same duration, compared with MPI_Iallreduce.
struct overlap_options : output_options {
  std::vector<std::uint64_t> sizes{65536, 1048576};   ///< bytes, multiples of 4
  std::vector<std::string> devices{"core", "sleep"};  ///< devices that compute, from overlap_devices()
  double compute_us = 0;                              ///< computation time; 0: as long as the allreduce alone
  double cell_seconds = 1;
  std::string note;  ///< a sentence about this world for the table
};
/// A configuration to measure. open() is collective. open() closes the runtime of the previous pass, and returns a new
/// runtime. The previous runtime must have no schedules.
struct overlap_pass {
  std::string progress;  ///< "thread", "caller" or "apart": a label for the results
  std::function<lsched_world*()> open;
  std::optional<unsigned> core{};  ///< core to which this pass and all later passes bind this rank's application thread
};
/// Returns the names of the devices. "core" computes on the core. "sleep" stands for a device that leaves the core
/// free.
std::span<const char* const> overlap_devices();
int run_overlap(const overlap_options& options, std::span<const overlap_pass> passes);

/// Measurements of a GPU: costs of driver calls, speed of kernels and copies, and allreduces of device memory. These
/// allreduces are compared with programs that copy the whole vector to the host. Each part runs in processes of its
/// own, so that a crash does not end the other parts.
struct cuda_options : output_options {
  std::string part;         ///< one of cuda_parts()
  std::int32_t ranks = 2;   ///< number of ranks, for parts that have ranks
  bool as_threads = false;  ///< runs the ranks as threads of one process
  double seconds = 60;      ///< time limit; later measurements are skipped, and their names are printed
  bool quick = false;       ///< uses small sizes and few samples: tests the program, measures nothing
};
struct cuda_part {
  std::string_view name;
  bool has_ranks;
};
std::span<const cuda_part> cuda_parts();
/// Exit status of every part if there is no usable GPU. The part prints the reason.
inline constexpr int k_exit_no_gpu = 77;
/// Runs a part without ranks, or a part whose ranks are threads.
int run_cuda(const cuda_options& options);
/// Runs a part whose ranks are processes.
int run_cuda_ranks(lsched_world* world, const cuda_options& options);

}  // namespace lsched::bench
