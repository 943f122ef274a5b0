// Measures rounds without late ranks. Compares a partial allreduce with a synchronous allreduce of the same size, which
// an application would use instead.
//
//  - sync: lsched_run on malloc'd memory that does not change.
//  - copy: one memcpy of the gradient.
//  - fresh: a memcpy of the gradient to the input, and then lsched_run.
//  - partial: lsched_offer, and then lsched_collect without a copy.
//
// Only one schedule exists at a time, because the engine polls every open schedule, and this slows down the rounds.
// With solo and majority a rank can continue before all ranks have called. Therefore a barrier of the library separates
// the rounds of solo and majority, outside the timed part, and late contributions are withdrawn. Ranks do not leave a
// barrier at the same moment. Therefore sync and fresh are measured both with and without barriers, and rows with
// barriers are compared only with each other.
#include <algorithm>
#include <cstring>

#include "microbench/partial/cost.h"
#include "microbench/partial/partial_call.h"
#include "microbench/rounds.h"

namespace lsched::bench {
namespace {

class contest {
 public:
  contest(team& ranks, std::uint64_t bytes)
      : ranks_(ranks), bytes_(bytes), ones_(bytes / sizeof(float), 1.0f), input_(ones_), output_(ones_.size()) {
    add_synchronous("copy", false, true, false);
    for (const bool has_barriers : {false, true}) {
      add_synchronous("sync", has_barriers, false, true);
      add_synchronous("fresh", has_barriers, true, true);
      add_partial("full", has_barriers);
    }
    add_partial("solo", true);
    add_partial("majority", true);
  }

  /// Returns a result for each variant of the partial allreduce, with the times of sync, copy and fresh. This function
  /// is collective.
  std::vector<result> measure(const cost_options& options, reporter& out) {
    turn_limits limits{.cell_ms = options.cell_seconds * 1e3};
    take_turns(cells_, ranks_, limits, "balanced " + size_text(bytes_), out);
    std::vector<result> all, rows;
    for (const cell& c : cells_) all.push_back(with_means(result_of(c, ranks_), all.size()));
    const auto find = [&](const char* policy, bool has_barriers) -> const result& {
      return *std::ranges::find_if(
          all, [&](const result& row) { return row.at("policy") == policy && row.at("barrier") == has_barriers; });
    };
    for (result row : all) {
      if (row.at("is_partial") == false) continue;
      const result &sync = find("sync", row.at("barrier")), &fresh = find("fresh", row.at("barrier"));
      const double us = row.at("us_median"), us_sync = sync.at("us_median"), us_fresh = fresh.at("us_median");
      const double us_copy = find("copy", false).at("us_median");
      row.update({{"us_sync", us_sync},
                  {"us_copy", us_copy},
                  {"us_fresh", us_fresh},
                  {"ratio", us / (us_sync + us_copy)},
                  {"ratio_fresh", us / us_fresh},
                  {"target", bytes_ < 65536 ? 2.5 : 1.1},
                  {"algorithm_sync", sync.at("algorithm")},
                  {"wrong",
                   row.at("wrong").get<double>() + sync.at("wrong").get<double>() + fresh.at("wrong").get<double>()}});
      row.erase("is_partial");
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  /// The counters of a cell over all its rounds.
  struct counts {
    double rounds = 0, contributors = 0, turns = 0;
    std::string algorithm{};
  };

  cell& add(const char* policy, bool has_barriers, bool is_partial) {
    counts_.push_back(std::make_unique<counts>());
    cell& made = cells_.emplace_back();
    made.keys = {{"part", "balanced"},
                 {"policy", policy},
                 {"barrier", has_barriers},
                 {"bytes", bytes_},
                 {"is_partial", is_partial}};
    made.has_barriers = has_barriers;
    return made;
  }

  result with_means(result row, std::size_t index) {
    const counts& own = *counts_[index];
    row["contributors"] = ranks_.combine(own.contributors / own.rounds, LSCHED_SUM) / ranks_.size();
    row["turns_per_round"] = ranks_.combine(own.turns / own.rounds, LSCHED_MAX);
    row["algorithm"] = own.algorithm;
    return row;
  }

  void add_synchronous(const char* policy, bool has_barriers, bool copies, bool runs) {
    cell& made = add(policy, has_barriers, false);
    counts& own = *counts_.back();
    made.open = [&] {
      schedule_ = make_allreduce(ranks_.runtime(), input_.data(), output_.data(), input_.size());
      own.algorithm = algorithm_of(schedule_.get());
    };
    made.close = [&] { close(std::move(schedule_)); };
    made.run = [=, this] {
      if (copies) std::memcpy(input_.data(), ones_.data(), ones_.size() * sizeof(float));
      keep(input_.data());
      if (runs) run(schedule_.get());
    };
    made.after_round = [&] { ++own.rounds; };
    if (runs)
      made.count_wrong = [&](std::uint64_t) {
        return std::ranges::count(output_, static_cast<float>(ranks_.size())) == std::ssize(output_) ? 0 : 1;
      };
  }

  void add_partial(const char* policy, bool has_barriers) {
    cell& made = add(policy, has_barriers, true);
    counts& own = *counts_.back();
    const bool may_be_late = std::string_view(policy) != "full";
    made.open = [=, this, &own] {
      call_ = std::make_unique<partial_call>(ranks_.runtime(), policy, bytes_);
      own.algorithm = call_->algorithm();
      own.turns -= turns_of_engine();
    };
    made.close = [&] {
      own.turns += turns_of_engine();
      call_->end();
    };
    made.run = [&] { call_->offer_and_collect(); };
    made.after_round = [=, this, &own] {
      ++own.rounds;
      own.contributors += static_cast<double>(call_->report().last.contributors);
      if (may_be_late) call_->forget();
    };
    made.count_wrong = [&](std::uint64_t) { return call_->is_right() ? 0 : 1; };
  }

  static double turns_of_engine() { return static_cast<double>(read_engine_time().value_or(engine_time{}).turns); }

  team& ranks_;
  const std::uint64_t bytes_;
  std::vector<float> ones_, input_, output_;
  schedule_handle schedule_;            ///< schedule of the current cell
  std::unique_ptr<partial_call> call_;  ///< call of the current cell
  std::vector<std::unique_ptr<counts>> counts_;
  std::vector<cell> cells_;
};

}  // namespace

void measure_balanced(team& ranks, const cost_options& options, reporter& out) {
  for (const std::uint64_t bytes : options.sizes) {
    contest all(ranks, bytes);
    for (result& row : all.measure(options, out)) out.add(std::move(row));
  }
  out.print({column("size", "bytes"), column("partial", "policy"), column("barrier", "barrier"),
             column("us", "us_median", 2), column("sync us", "us_sync", 2), column("copy us", "us_copy", 2),
             column("fresh us", "us_fresh", 2), column("/(sync+copy)", "ratio", 2), column("target", "target", 1),
             column("/fresh", "ratio_fresh", 2), k_wrong});
  out.say(
      "The time of a round is that of its slowest rank, median over rounds. fresh: the gradient is copied to the "
      "input, then lsched_run. barrier: a barrier between rounds, also for sync and fresh.");
}

}  // namespace lsched::bench
