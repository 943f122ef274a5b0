// The adaptive sum beside the sum: ours of the same size, and MPI's, in one run on the same buffers.
//
//     adasum     the vector as one tensor, or as many
//     sum        lsched's allreduce by whatever algorithm is chosen for it
//     mpi        MPI_Allreduce of sums
//
// What an adaptive sum has to do beyond a sum is to take dot products and norms and to exchange them. So two more
// things are measured in the same run, by all ranks at once:
//
//     dot        one pass of dot_norms over two vectors as long as the rank's part: half the vector with two ranks
//     exchange   an allreduce of three doubles
//
// All of them take turns in blocks, so that a slow phase of the machine hits all. Each is checked: sums are exact, and
// of adaptive ones it is known what must come of each tensor (adasum_answer.h). In place, rounds that follow
// work on what the first has made: adaptive sums of equal vectors are these vectors again; sums go on with zeros.
#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "microbench/adasum/adasum_answer.h"
#include "microbench/adasum/adasum_plot.h"
#include "microbench/benchmarks.h"
#include "microbench/harness.h"
#include "microbench/plot.h"
#include "ops/adasum/adasum.h"
#if LSCHED_HAVE_MPI
#include "microbench/coll/mpi_rival.h"
#endif

namespace lsched::bench {
namespace {

constexpr int k_blocks = 5;
constexpr std::uint64_t k_most_rounds = 20'000;  // of a block

/// The two buffers of a round, or one.
struct memory {
  std::string kind;  ///< "malloc" or "lsched_alloc"
  float* input = nullptr;
  float* output = nullptr;
  std::uint64_t count = 0;
  bool is_in_place() const { return input == output; }
};

/// One thing that takes a round's time, and what was measured of it.
struct cell {
  adasum_row row{};
  memory at{};
  bool calms = false;                    ///< rounds in place go on with zeros
  std::vector<lsched_tensor> tensors{};  ///< of an adaptive sum
  bool is_checked = true;
  std::function<void()> run{};
  std::uint64_t rounds = 1;  ///< of a block
  std::vector<double> us{};
  double wrong = 0;
};

// ---- what is summed ----

void fill(const memory& at, const team& ranks) {
  const cycle mine = contribution_of(ranks.rank());
  if (!at.is_in_place()) std::fill_n(at.output, at.count, -1.0f);
  for (std::uint64_t i = 0; i < at.count; ++i) at.input[i] = static_cast<float>(mine[i % k_cycle]);
}

double count_wrong(const memory& in, const lsched_tensor& at, const cycle& wanted, double tolerance) {
  double wrong = 0;
  for (std::uint64_t i = at.begin; i < at.begin + at.count; ++i)
    wrong += std::fabs(in.output[i] - wanted[i % k_cycle]) <= tolerance ? 0 : 1;  // NaN is as wrong as any
  return wrong;
}

node_ranks nodes_of(const team& ranks) {
  node_ranks nodes;
  for (int r = 0; r < ranks.size(); ++r) {
    lsched_node it{.struct_size = sizeof it};
    expect_ok(lsched_node_of(ranks.runtime(), r, &it), "lsched_node_of");
    nodes.resize(static_cast<std::size_t>(it.nodes));
    nodes[static_cast<std::size_t>(it.number)].push_back(r);
  }
  return nodes;
}

// ---- the cells of one size ----

class contest {
 public:
  contest(team& ranks, const adasum_options& options, std::uint64_t bytes, bool with_mpi)
      : ranks_(ranks), nodes_(nodes_of(ranks)), options_(options), count_(bytes / sizeof(float)) {
    heap_[0].resize(count_), heap_[1].resize(count_);
    shared_.push_back(allocate_shared(ranks.runtime(), count_));
    shared_.push_back(allocate_shared(ranks.runtime(), count_));
    for (const bool in_place : {false, true}) {
      const memory plain{"malloc", heap_[0].data(), in_place ? heap_[0].data() : heap_[1].data(), count_};
      const memory mapped{"lsched_alloc", shared_[0].get(), in_place ? shared_[0].get() : shared_[1].get(), count_};
      for (const memory& at : {plain, mapped}) add_ours(at);
      if (with_mpi) add_mpi(plain);
    }
    add_dot();
    add_exchange();
  }

  void measure(const std::function<void(int, const cell&)>& tell) {
    for (cell& it : cells_) warm_up(it);
    for (int block = 1; block <= k_blocks; ++block)
      for (cell& it : cells_) {
        tell(block, it);
        run_block(it);
      }
  }

  /// All ranks together, with what rows are compared with. Collective.
  std::vector<adasum_row> rows() {
    double dot = 0, exchange = 0;
    std::vector<adasum_row> all;
    for (cell& it : cells_) {
      it.row.us = summarise(ranks_.combine(it.us, LSCHED_MAX));
      it.row.wrong = ranks_.combine(it.wrong, LSCHED_SUM);
      if (it.row.what == "dot") dot = it.row.us.median;
      if (it.row.what == "exchange") exchange = it.row.us.median;
      all.push_back(it.row);
    }
    for (adasum_row& it : all) {
      it.dot_us = dot, it.exchange_us = exchange;
      for (const adasum_row& other : all) {
        if (other.in_place != it.in_place) continue;
        if (other.what == "sum" && other.buffers == it.buffers) it.sum_us = other.us.median;
        if (other.what == "mpi" && (it.mpi_us == 0 || other.us.median < it.mpi_us)) it.mpi_us = other.us.median;
      }
    }
    std::erase_if(all, [](const adasum_row& it) { return it.what == "dot" || it.what == "exchange"; });
    return all;
  }

  void end() {
    for (schedule_handle& it : schedules_) close(std::move(it));
  }

 private:
  schedule_handle make(const memory& at, const char* collective, const char* algorithm,
                       const std::vector<lsched_tensor>& tensors) {
    const bool adapts = std::string_view(collective) == "adasum";
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = collective,
                                      .input = at.input,
                                      .output = at.output,
                                      .count = at.count,
                                      .dtype = LSCHED_F32,
                                      .reduction = adapts ? lsched_reduction{} : LSCHED_SUM,
                                      .algorithm = algorithm,
                                      .tensors = tensors.empty() ? nullptr : tensors.data(),
                                      .tensor_count = tensors.size()};
    return created("lsched_collective_create", lsched_collective_create, ranks_.runtime(), &desc);
  }

  /// Of tensors an adaptive sum, of none a sum.
  void add_schedule(const memory& at, const std::vector<lsched_tensor>& tensors, schedule_handle made) {
    lsched_schedule* const schedule = schedules_.emplace_back(std::move(made)).get();
    const bool adapts = !tensors.empty();
    cells_.push_back({.row = {.what = adapts ? "adasum" : "sum",
                              .mode = algorithm_of(schedule),
                              .buffers = at.kind,
                              .in_place = at.is_in_place(),
                              .tensors = adapts ? static_cast<std::uint32_t>(tensors.size()) : 1,
                              .bytes = at.count * sizeof(float)},
                      .at = at,
                      .calms = !adapts,
                      .tensors = tensors,
                      .run = [schedule] { expect_ok(lsched_run(schedule, k_patience_ns, nullptr), "lsched_run"); }});
  }

  void add_ours(const memory& at) {
    add_schedule(at, {}, make(at, "allreduce", "auto", {}));
    for (const std::uint32_t number : options_.tensors) {
      std::vector<lsched_tensor> tensors;
      for (const std::uint64_t part : equal_parts(at.count, number))
        tensors.push_back({tensors.empty() ? 0 : tensors.back().begin + tensors.back().count, part});
      for (const std::string& name : options_.algorithms)
        add_schedule(at, tensors, make(at, "adasum", name.c_str(), tensors));
    }
  }

#if LSCHED_HAVE_MPI
  void add_mpi(const memory& at) {
    const exercise& what = *exercises_.emplace_back(std::make_unique<exercise>(
        exercise_named("allreduce"), ranks_.rank(), ranks_.size(), at.count * sizeof(float)));
    for (const mpi_form form : k_mpi_forms) {
      const bool is_plain = form == mpi_form::blocking || (ranks_.is_oversubscribed() && form == mpi_form::yielding);
      if (!is_plain) continue;
      auto& rival =
          *rivals_.emplace_back(std::make_unique<mpi_rival>(form, what, at.input, at.output, at.is_in_place()));
      cells_.push_back({.row = {.what = "mpi",
                                .mode = name_of(form),
                                .buffers = at.kind,
                                .in_place = at.is_in_place(),
                                .tensors = 1,
                                .bytes = at.count * sizeof(float)},
                        .at = at,
                        .calms = true,
                        .run = [&rival] { rival.run(); }});
    }
  }
#else
  void add_mpi(const memory&) {}
#endif

  /// Over memory that adaptive sums work on, too: half of it with two ranks.
  void add_dot() {
    const auto size = static_cast<std::uint64_t>(ranks_.size());
    const std::uint64_t part = count_ * (size - 1) / size;
    cells_.push_back({.row = {.what = "dot", .bytes = part * sizeof(float)}, .is_checked = false, .run = [this, part] {
                        static const dot_norms_fn dot_norms = find_dot_norms(dtype::f32);
                        dot_norms(heap_[0].data(), heap_[1].data(), part, sums_);
                        keep(sums_);
                      }});
  }

  void add_exchange() {
    const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                     .input = sums_,
                                     .output = exchanged_,
                                     .count = 3,
                                     .dtype = LSCHED_F64,
                                     .reduction = LSCHED_SUM};
    schedules_.push_back(created("lsched_allreduce_create", lsched_allreduce_create, ranks_.runtime(), &desc));
    cells_.push_back({.row = {.what = "exchange"}, .is_checked = false, .run = [made = schedules_.back().get()] {
                        expect_ok(lsched_run(made, k_patience_ns, nullptr), "lsched_run");
                      }});
  }

  // ---- rounds ----

  void time_rounds(cell& it, std::uint64_t rounds, std::vector<double>& us) {
    ranks_.barrier();
    auto before = clock::now();
    for (std::uint64_t i = 0; i < rounds; ++i) {
      it.run();
      const auto after = clock::now();
      us.push_back(ns_between(before, after) / 1e3);
      before = after;
    }
  }

  double count_wrong(const cell& it) const {
    if (it.tensors.empty()) return bench::count_wrong(it.at, {0, it.at.count}, sum_of(ranks_.size()), 0);
    double wrong = 0;
    for (const lsched_tensor& at : it.tensors)
      wrong += bench::count_wrong(it.at, at, adaptive_sum_of(it.row.mode, nodes_, at), tolerance_of(ranks_.size()));
    return wrong;
  }

  void checked_round(cell& it) {
    fill(it.at, ranks_);
    std::vector<double> us;
    time_rounds(it, 1, us);
    it.wrong += count_wrong(it);
    if (!it.calms || !it.at.is_in_place()) return;
    std::fill_n(it.at.input, it.at.count, 0.0f);
  }

  /// Touches every page, and finds out how many rounds a block may have.
  void warm_up(cell& it) {
    if (it.is_checked) checked_round(it);
    std::vector<double> us;
    time_rounds(it, 3, us);
    const double slowest = ranks_.combine(*std::min_element(us.begin(), us.end()), LSCHED_MAX);
    const double rounds = options_.cell_seconds * 1e6 / k_blocks / std::max(slowest, 0.01);
    it.rounds = static_cast<std::uint64_t>(std::clamp(rounds, 1.0, static_cast<double>(k_most_rounds)));
  }

  void run_block(cell& it) {
    if (it.is_checked) checked_round(it);
    std::vector<double> first;
    time_rounds(it, 1, first);  // its data have just been written
    time_rounds(it, it.rounds, it.us);
    if (it.is_checked && !it.at.is_in_place()) it.wrong += count_wrong(it);
  }

  team& ranks_;
  const node_ranks nodes_;
  const adasum_options& options_;
  const std::uint64_t count_;
  std::vector<float> heap_[2];
  std::vector<shared_floats> shared_;
  std::vector<schedule_handle> schedules_;
#if LSCHED_HAVE_MPI
  std::vector<std::unique_ptr<exercise>> exercises_;
  std::vector<std::unique_ptr<mpi_rival>> rivals_;
#endif
  double sums_[3]{}, exchanged_[3]{};
  std::vector<cell> cells_;
};

// ---- report ----

nlohmann::json json_of(const adasum_row& row, const team& ranks, const adasum_options& options) {
  nlohmann::json line{{"bench", "adasum"},
                      {"what", row.what},
                      {"mode", row.mode},
                      {"ranks", ranks.size()},
                      {"bytes", row.bytes},
                      {"us_median", row.us.median},
                      {"us_min", row.us.min},
                      {"us_p95", row.us.p95},
                      {"tensors", row.tensors},
                      {"in_place", row.in_place},
                      {"buffers", row.buffers},
                      {"rounds", row.us.samples},
                      {"wrong", static_cast<std::uint64_t>(row.wrong)},
                      {"transport", options.transport},
                      {"pinned", options.pin},
                      {"oversubscribed", ranks.is_oversubscribed()}};
  if (row.what != "adasum") return line;
  line.update({{"us_sum", row.sum_us},
               {"us_dot", row.dot_us},
               {"us_exchange", row.exchange_us},
               {"beyond_sum", row.beyond_sum()},
               {"of_sum", row.of_sum()}});
  if (row.mpi_us > 0) line["of_mpi"] = row.of_mpi();
  return line;
}

void add_line(table& lines, const adasum_row& row) {
  const bool adapts = row.what == "adasum";
  lines.add({size_text(row.bytes), row.what, row.mode, std::to_string(row.tensors), row.in_place ? "yes" : "no",
             row.buffers, text("%.2f", row.us.min), text("%.2f", row.us.median), text("%.2f", row.us.p95),
             adapts ? text("%.2f", row.beyond_sum()) : "", adapts ? text("%.2f", row.of_sum()) : "",
             row.mpi_us > 0 && row.what != "mpi" ? text("%.2f", row.of_mpi()) : "", std::to_string(row.us.samples),
             row.wrong > 0 ? text("%.0f WRONG", row.wrong) : "0"});
}

bool introduce_mpi(const team& ranks, reporter& out) {
#if LSCHED_HAVE_MPI
  const std::string why_not = why_no_mpi(ranks.size());
  if (why_not.empty()) out.say("MPI rows: %s", mpi_description().c_str());
#else
  static_cast<void>(ranks);
  const std::string why_not = "MPI is not in this build";
#endif
  if (!why_not.empty()) out.say("MPI rows: none, %s", why_not.c_str());
  return why_not.empty();
}

}  // namespace

int run_adasum(lsched_world* runtime, const adasum_options& options) {
  team ranks(runtime);
  reporter out("adasum", options.json, ranks);
  if (!options.plot.empty()) on_root(ranks, [&] { expect_writable(options.plot); });
  out.introduce(ranks);
  const bool with_mpi = introduce_mpi(ranks, out);
  if (options.pin) pin_application(ranks, out);

  table lines({"size", "what", "mode", "tensors", "in place", "buffers", "min us", "median us", "p95 us", "beyond sum",
               "/sum", "/MPI", "rounds", "wrong"});
  std::vector<adasum_row> all;
  double wrong = 0;
  for (const std::uint64_t bytes : options.sizes) {
    contest one(ranks, options, bytes, with_mpi);
    one.measure([&](int block, const cell& it) {
      out.progress("%s, block %d of %d, %s %s", size_text(bytes).c_str(), block, k_blocks, it.row.what.c_str(),
                   it.row.mode.c_str());
    });
    const std::vector<adasum_row> rows = one.rows();
    for (const adasum_row& row : rows) {
      add_line(lines, row);
      out.json(json_of(row, ranks, options));
      wrong += row.what == "mpi" ? 0 : row.wrong;
    }
    out.say("%s: one pass of dot_norms over this rank's part takes %.2f us, an exchange of sums %.2f us",
            size_text(bytes).c_str(), rows.front().dot_us, rows.front().exchange_us);
    all.insert(all.end(), rows.begin(), rows.end());
    one.end();
  }
  out.print(lines);
  out.say(
      "beyond sum: what adasum takes longer than our sum on the same buffers, in dot passes and exchanges (target "
      "1.3). "
      "/sum: of our sum (the paper: at most 1.45 of NCCL's). /MPI: of MPI_Allreduce's fastest form. Medians over "
      "rounds "
      "of the slowest rank.");
  bool is_drawn = true;
  if (!options.plot.empty()) on_root(ranks, [&] { is_drawn = plot_adasum(options.plot, all, ranks.size(), out); });
  return wrong == 0 && !ranks.root_says(!is_drawn) ? 0 : 1;
}

}  // namespace lsched::bench
