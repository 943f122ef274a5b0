// Measures the adaptive sum, libsched's sum and MPI's sum of the same size, in one run on the same buffers.
//
//  - adasum: an adaptive sum of the vector, as one tensor or as several tensors.
//  - sum: libsched's allreduce with the algorithm that "auto" selects.
//  - mpi: MPI_Allreduce with sums.
//
// In addition to a sum, an adaptive sum computes dot products and norms, and exchanges them between ranks. So the run
// also measures two operations, on all ranks at once:
//
//  - dot: one pass of dot_norms over (P-1)/P of two vectors, as in an adaptive sum of P ranks.
//  - exchange: an allreduce of three doubles.
//
// The variants take turns in blocks, so that a slow phase of the machine affects all variants. The results of each
// variant are checked. Sums are exact, and the adaptive sum of each tensor is known (adasum_answer.h). In place, the
// result of a round is the input of the next round. This is harmless for adaptive sums, because the adaptive sum of
// equal vectors is that vector. For sums, all inputs are zeroed after the first round.
#include <algorithm>
#include <cmath>

#include "microbench/adasum/adasum_answer.h"
#include "microbench/coll/coll.h"
#include "ops/adasum/adasum.h"

namespace lsched::bench {
namespace {

/// The buffers of a round. In place, input and output are the same buffer.
struct memory {
  const char* kind;  ///< "malloc" or "lsched_alloc"
  float* input = nullptr;
  float* output = nullptr;
  bool is_in_place() const { return input == output; }
};

double count_wrong(const float* output, const lsched_tensor& part, const cycle& wanted, double tolerance) {
  double wrong = 0;
  for (std::uint64_t i = part.begin; i < part.begin + part.count; ++i)
    wrong += std::fabs(output[i] - wanted[i % k_cycle]) <= tolerance ? 0 : 1;  // NaN counts as wrong
  return wrong;
}

node_ranks nodes_of(const team& ranks) {
  node_ranks nodes;
  for (int r = 0; r < ranks.size(); ++r) {
    lsched_node node{.struct_size = sizeof node};
    expect_ok(lsched_node_of(ranks.runtime(), r, &node), "lsched_node_of");
    nodes.resize(static_cast<std::size_t>(node.nodes));
    nodes[static_cast<std::size_t>(node.number)].push_back(r);
  }
  return nodes;
}

/// The cells of one size.
class contest {
 public:
  contest(team& ranks, const adasum_options& options, std::uint64_t bytes, bool with_mpi)
      : ranks_(ranks),
        nodes_(nodes_of(ranks)),
        options_(options),
        count_(bytes / sizeof(float)),
        sum_(k_allreduce, ranks.rank(), ranks.size(), bytes) {
    heap_[0].resize(count_), heap_[1].resize(count_);
    for (shared_floats* each : {&shared_[0], &shared_[1]}) *each = allocate_shared(ranks.runtime(), count_);
    for (const bool in_place : {false, true}) {
      const memory plain{"malloc", heap_[0].data(), heap_[in_place ? 0 : 1].data()};
      const memory mapped{"lsched_alloc", shared_[0].get(), shared_[in_place ? 0 : 1].get()};
      for (const memory& buffers : {plain, mapped}) add_ours(buffers);
      if (with_mpi) add_mpi(plain);
    }
    add_dot();
    schedules_.push_back(make_allreduce(ranks_.runtime(), sums_, exchanged_, 3));
    add({{"what", "exchange"}}, [made = schedules_.back().get()] { run(made); });
    for (cell& c : cells_) c.keys["bytes"] = bytes;
  }

  /// Returns a result for each kind of sum. Results of adaptive sums include comparisons. This function is collective.
  std::vector<result> measure(reporter& out) {
    turn_limits limits{.iterations = 100'000, .cell_ms = options_.cell_seconds * 1e3};
    take_turns(cells_, ranks_, limits, size_text(count_ * sizeof(float)), out);
    std::vector<result> all;
    for (const cell& c : cells_) all.push_back(result_of(c, ranks_));
    const double exchange = all.back().at("us_median");
    all.pop_back();
    const double dot = all.back().at("us_median");
    all.pop_back();
    out.say("%s: one pass of dot_norms over this rank's part takes %.2f us, an exchange of sums %.2f us",
            size_text(count_ * sizeof(float)).c_str(), dot, exchange);
    for (result& row : all) compare(row, all, dot, exchange);
    for (schedule_handle& each : schedules_) close(std::move(each));
    return all;
  }

 private:
  /// Adds comparisons to a row. In the formulas, `time` is the median of the row, and `sum` is the median of libsched's
  /// sum on the same buffers:
  ///
  ///  - of_mpi: time / median of MPI's fastest sum with the same in_place. Rows of MPI, and runs without MPI, lack this
  ///    key.
  ///  - of_sum: time / sum. Only rows of adaptive sums have this key.
  ///  - beyond_sum: (time - sum) / (dot + exchange). Only rows of adaptive sums have this key.
  static void compare(result& row, const std::vector<result>& all, double dot, double exchange) {
    double sum = 0, mpi = 0;
    for (const result& other : all) {
      if (other.at("in_place") != row.at("in_place")) continue;
      const double us = other.at("us_median");
      if (other.at("what") == "sum" && other.at("buffers") == row.at("buffers")) sum = us;
      if (other.at("what") == "mpi" && (mpi == 0 || us < mpi)) mpi = us;
    }
    const double us = row.at("us_median");
    if (row.at("what") != "mpi" && mpi > 0) row["of_mpi"] = us / mpi;
    if (row.at("what") != "adasum") return;
    row.update({{"us_sum", sum},
                {"us_dot", dot},
                {"us_exchange", exchange},
                {"beyond_sum", (us - sum) / (dot + exchange)},
                {"of_sum", us / sum}});
  }

  schedule_handle make(const memory& buffers, const char* algorithm, const std::vector<lsched_tensor>& tensors) {
    const bool adapts = !tensors.empty();
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = adapts ? "adasum" : "allreduce",
                                      .input = buffers.input,
                                      .output = buffers.output,
                                      .count = count_,
                                      .dtype = LSCHED_F32,
                                      .reduction = adapts ? lsched_reduction{} : LSCHED_SUM,
                                      .algorithm = algorithm,
                                      .tensors = adapts ? tensors.data() : nullptr,
                                      .tensor_count = tensors.size()};
    return created("lsched_collective_create", lsched_collective_create, ranks_.runtime(), &desc);
  }

  cell& add(result keys, std::function<void()> job) {
    return cells_.emplace_back(cell{.keys = std::move(keys), .run = std::move(job)});
  }

  /// Makes the cell fill its buffers before each block. The cell calls `errors` to count wrong results.
  void bind(cell& made, const memory& buffers, std::function<double()> errors) {
    made.in_place = buffers.is_in_place();
    made.keys.update({{"in_place", made.in_place}, {"buffers", buffers.kind}});
    made.fill = [this, buffers](std::uint64_t) {
      const cycle own = contribution_of(ranks_.rank());
      if (!buffers.is_in_place()) std::fill_n(buffers.output, count_, -1.0f);
      for (std::uint64_t i = 0; i < count_; ++i) buffers.input[i] = static_cast<float>(own[i % k_cycle]);
    };
    made.count_wrong = [check = std::move(errors)](std::uint64_t) { return check(); };
  }

  /// Makes the cell fill its buffers and check sums. In place, all rounds after the first round add zeros.
  void bind_sum(cell& made, const memory& buffers) {
    bind(made, buffers, [this, buffers] { return count_wrong(buffers.output, {0, count_}, sum_of(ranks_.size()), 0); });
    if (made.in_place) made.calm = [this, buffers] { std::fill_n(buffers.input, count_, 0.0f); };
  }

  /// Adds a cell for an adaptive sum of the tensors. Without tensors, adds a cell for a sum.
  void add_schedule(const memory& buffers, const char* algorithm, const std::vector<lsched_tensor>& tensors) {
    lsched_schedule* const schedule = schedules_.emplace_back(make(buffers, algorithm, tensors)).get();
    const std::string mode = algorithm_of(schedule);
    const bool adapts = !tensors.empty();
    cell& made = add({{"what", adapts ? "adasum" : "sum"}, {"mode", mode}, {"tensors", adapts ? tensors.size() : 1}},
                     [schedule] { run(schedule); });
    if (!adapts) return bind_sum(made, buffers);
    bind(made, buffers, [=, this] {
      double wrong = 0;
      for (const lsched_tensor& part : tensors)
        wrong += count_wrong(buffers.output, part, adaptive_sum_of(mode, nodes_, part), tolerance_of(ranks_.size()));
      return wrong;
    });
  }

  void add_ours(const memory& buffers) {
    add_schedule(buffers, "auto", {});
    for (const std::uint32_t number : options_.tensors) {
      std::vector<lsched_tensor> tensors;
      for (const std::uint64_t part : equal_parts(count_, number))
        tensors.push_back({tensors.empty() ? 0 : tensors.back().begin + tensors.back().count, part});
      for (const std::string& name : options_.algorithms) add_schedule(buffers, name.c_str(), tensors);
    }
  }

  /// Adds MPI's blocking form. If ranks share cores, also adds a form that yields.
  void add_mpi(const memory& buffers) {
    for (const mpi_form form : {mpi_form::blocking, mpi_form::yielding}) {
      if (form == mpi_form::yielding && !ranks_.is_oversubscribed()) continue;
      mpi_baseline* const baseline = mpi_baselines_
                                         .emplace_back(std::make_unique<mpi_baseline>(
                                             form, sum_, buffers.input, buffers.output, buffers.is_in_place()))
                                         .get();
      bind_sum(add({{"what", "mpi"}, {"mode", name_of(form)}, {"tensors", 1}}, [baseline] { baseline->run(); }),
               buffers);
    }
  }

  /// Adds the pass of dot_norms over (P-1)/P of the vector, as in an adaptive sum of P ranks.
  void add_dot() {
    const auto size = static_cast<std::uint64_t>(ranks_.size());
    add({{"what", "dot"}}, [this, part = count_ * (size - 1) / size, dot_norms = find_dot_norms(dtype::f32)] {
      dot_norms(heap_[0].data(), heap_[1].data(), part, sums_);
      keep(sums_);
    });
  }

  team& ranks_;
  const node_ranks nodes_;
  const adasum_options& options_;
  const std::uint64_t count_;
  const exercise sum_;
  std::vector<float> heap_[2];
  shared_floats shared_[2];
  std::vector<schedule_handle> schedules_;
  std::vector<std::unique_ptr<mpi_baseline>> mpi_baselines_;
  double sums_[3]{}, exchanged_[3]{};
  std::vector<cell> cells_;
};

}  // namespace

int run_adasum(lsched_world* runtime, const adasum_options& options) {
  team ranks(runtime);
  reporter out("adasum", options, ranks);
  const bool with_mpi = !mpi_if_measured(ranks, out).empty();
  for (const std::uint64_t bytes : options.sizes) {
    contest one(ranks, options, bytes, with_mpi);
    for (const result& row : one.measure(out)) {
      const std::string what = row.at("what"), mode = row.at("mode");
      out.add(row, {{"how", what == "adasum" ? mode : what + " " + mode}});
    }
  }
  out.print({column("size", "bytes"), column("adasum", "how"), column("tensors", "tensors"),
             column("in place", "in_place"), column("buffers", "buffers"), column("us", "us_median", 2),
             column("beyond", "beyond_sum", 2), column("/sum", "of_sum", 2), column("/MPI", "of_mpi", 2), k_wrong});
  out.say(
      "beyond: extra time of adasum over our sum on the same buffers, in dot passes and exchanges (target 1.3). /sum: "
      "relative to our sum (the paper: at most 1.45 of NCCL's). /MPI: relative to the fastest form of MPI_Allreduce. "
      "Medians over rounds of the slowest rank.");
  ranks.barrier();
  return out.finish();
}

}  // namespace lsched::bench
