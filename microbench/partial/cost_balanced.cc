// Rounds in which nobody is late: a partial allreduce beside what an application would do without it, the synchronous
// allreduce of the same size.
//
//     sync      lsched_run on malloc'd memory that stays as it is
//     copy      one memcpy of the gradient
//     fresh     both in one: the gradient is copied to the input, then lsched_run
//     partial   lsched_offer, lsched_collect_view
//
// All of them take turns in blocks, in which one schedule lives at a time. Where a rank may go on before all have come
// (solo, majority), the library's barrier stands between rounds, outside the timed part, and what came too late is
// withdrawn. Ranks do not leave a barrier at the same moment; therefore sync and fresh are measured with barriers, too,
// and compared with their like.
#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "microbench/engine/engine_time.h"
#include "microbench/partial/cost.h"
#include "microbench/partial/partial_call.h"

namespace lsched::bench {
namespace {

constexpr int k_blocks = 5;
constexpr std::uint64_t k_probe_rounds = 5;
constexpr std::uint64_t k_warm_up = 3;

/// A round, and what there is to be known about it.
struct round {
  std::function<void()> run;
  std::function<bool()> is_right;
  std::function<void()> afterwards;  ///< not timed, before the next barrier
  std::function<double()> contributors;
};

/// One way to spend a round, and what became of it.
struct way {
  std::string what;
  bool has_barrier = false;
  std::string algorithm{};
  std::uint64_t rounds = 0;  ///< of a block
  std::vector<double> us{};  ///< this rank's, a number per round
  double contributors = 0;   ///< over all rounds
  double turns = 0;          ///< of the progress thread on a core, likewise
  double wrong = 0;
};

double turns_of_engine() {
  const auto now = read_engine_time();
  return now ? static_cast<double>(now->turns) : 0;
}

void run_rounds(way& it, const round& how, team& ranks, std::uint64_t rounds) {
  const double turns = turns_of_engine();
  ranks.barrier();
  auto before = clock::now();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    if (it.has_barrier && i > 0) {
      ranks.barrier();
      before = clock::now();
    }
    how.run();
    const auto after = clock::now();
    it.us.push_back(ns_between(before, after) / 1e3);
    before = after;
    it.contributors += how.contributors();
    how.afterwards();
  }
  it.turns += turns_of_engine() - turns;
}

void checked_round(way& it, const round& how, team& ranks) {
  ranks.barrier();
  how.run();
  it.wrong += how.is_right() ? 0 : 1;
  how.afterwards();
}

/// The synchronous allreduce of ones.
class synchronous_call {
 public:
  synchronous_call(lsched_world* runtime, std::uint64_t bytes)
      : ones_(bytes / sizeof(float), 1.0f), input_(ones_), output_(ones_.size()) {
    const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                     .input = input_.data(),
                                     .output = output_.data(),
                                     .count = input_.size(),
                                     .dtype = LSCHED_F32,
                                     .reduction = LSCHED_SUM,
                                     .algorithm = nullptr};
    schedule_ = created("lsched_allreduce_create", lsched_allreduce_create, runtime, &desc);
  }

  void copy() {
    std::memcpy(input_.data(), ones_.data(), ones_.size() * sizeof(float));
    keep(input_.data());
  }
  void run() { expect_ok(lsched_run(schedule_.get(), k_patience_ns, &why_), "lsched_run", why_); }
  bool is_right(int ranks) const {
    return std::all_of(output_.begin(), output_.end(), [ranks](float it) { return it == static_cast<float>(ranks); });
  }
  std::string algorithm() const { return algorithm_of(schedule_.get()); }
  void end() { close(std::move(schedule_)); }

 private:
  std::vector<float> ones_, input_, output_;
  schedule_handle schedule_;
  lsched_diagnostic why_ = fresh_diagnostic();
};

/// What a schedule stands for, and how to make it. One lives at a time: whatever else is open is listened for, and
/// makes rounds dearer.
struct party {
  std::string what;
  std::vector<way> ways;
};

/// All ways of one size.
class contest {
 public:
  contest(team& ranks, const cost_options& options, std::uint64_t bytes)
      : ranks_(ranks), options_(options), bytes_(bytes) {
    parties_.push_back({"sync", {{"copy", false}, {"sync", false}, {"fresh", false}, {"sync", true}, {"fresh", true}}});
    parties_.push_back({"full", {{"full", false}, {"full", true}}});
    parties_.push_back({"solo", {{"solo", true}}});
    parties_.push_back({"majority", {{"majority", true}}});
  }

  void measure(const std::function<void(int block, const party&)>& tell) {
    for (int block = 0; block <= k_blocks; ++block)
      for (party& each : parties_) {
        tell(block, each);
        each.what == "sync" ? play_synchronous(each, block) : play_partial(each, block);
      }
  }

  const way& like(const std::string& what, bool has_barrier) const {
    for (const party& each : parties_)
      for (const way& it : each.ways)
        if (it.what == what && it.has_barrier == has_barrier) return it;
    throw failed("no such way to spend a round");
  }
  const std::vector<party>& parties() const { return parties_; }

 private:
  void play_synchronous(party& each, int block) {
    synchronous_call call(ranks_.runtime(), bytes_);
    for (way& it : each.ways) {
      it.algorithm = call.algorithm();
      const bool copies = it.what != "sync", runs = it.what != "copy";
      play(it, block,
           {.run =
                [&] {
                  if (copies) call.copy();
                  if (runs) call.run();
                },
            .is_right = [&] { return !runs || call.is_right(ranks_.size()); },
            .afterwards = [] {},
            .contributors = [] { return 0.0; }});
    }
    call.end();
  }

  void play_partial(party& each, int block) {
    partial_call call(ranks_.runtime(), each.what, bytes_);
    for (way& it : each.ways) {
      it.algorithm = call.algorithm();
      play(it, block,
           {.run = [&] { call.offer_and_collect(); },
            .is_right = [&] { return call.is_right(); },
            .afterwards =
                [&] {
                  if (each.what != "full") call.forget();
                },
            .contributors = [&] { return static_cast<double>(call.report().last.contributors); }});
    }
    call.end();
  }

  /// Block 0 finds out how many rounds the others are to have.
  void play(way& it, int block, const round& how) {
    for (std::uint64_t i = 0; i < k_warm_up; ++i) checked_round(it, how, ranks_);  // touches every page
    run_rounds(it, how, ranks_, block == 0 ? k_probe_rounds : it.rounds);
    checked_round(it, how, ranks_);
    if (block > 0) return;
    const double us = summarise(ranks_.combine(std::exchange(it.us, {}), LSCHED_MAX)).median;
    it.contributors = it.turns = 0;
    it.rounds = static_cast<std::uint64_t>(std::clamp(options_.cell_seconds * 1e6 / k_blocks / us, 2.0, 20'000.0));
  }

  team& ranks_;
  const cost_options& options_;
  const std::uint64_t bytes_;
  std::vector<party> parties_;
};

/// A way of a partial allreduce beside what it is compared with; the same on every rank. Times in us.
struct balanced_row {
  std::string policy, algorithm, algorithm_sync;
  bool has_barrier = false;
  std::uint64_t bytes = 0;
  summary partial, sync, fresh;
  double copy = 0;
  double contributors = 0;  ///< mean
  double turns = 0;         ///< mean, of the worst rank
  double wrong = 0;

  double ratio() const { return partial.median / (sync.median + copy); }
  double ratio_fresh() const { return partial.median / fresh.median; }
  double target() const { return bytes < 65536 ? 2.5 : 1.1; }
};

std::vector<balanced_row> rows_of(const contest& all, team& ranks, std::uint64_t bytes) {
  const auto slowest = [&](const way& it) { return summarise(ranks.combine(it.us, LSCHED_MAX)); };
  const auto wrong = [&](const way& it) { return ranks.combine(it.wrong, LSCHED_SUM); };
  // Nobody waits for anybody while copying: the slowest rank's is that of the slowest median.
  const double copy = ranks.combine(summarise(all.like("copy", false).us).median, LSCHED_MAX);
  std::vector<balanced_row> rows;
  for (const party& each : all.parties())
    for (const way& it : each.ways) {
      if (each.what == "sync") continue;
      const auto rounds = static_cast<double>(it.us.size());
      const way& sync = all.like("sync", it.has_barrier);
      const way& fresh = all.like("fresh", it.has_barrier);
      rows.push_back({.policy = it.what,
                      .algorithm = it.algorithm,
                      .algorithm_sync = sync.algorithm,
                      .has_barrier = it.has_barrier,
                      .bytes = bytes,
                      .partial = slowest(it),
                      .sync = slowest(sync),
                      .fresh = slowest(fresh),
                      .copy = copy,
                      .contributors = ranks.combine(it.contributors / rounds, LSCHED_SUM) / ranks.size(),
                      .turns = ranks.combine(it.turns / rounds, LSCHED_MAX),
                      .wrong = wrong(it) + wrong(sync) + wrong(fresh)});
    }
  return rows;
}

nlohmann::json json_of(const balanced_row& row, const team& ranks, const cost_options& options) {
  return {{"bench", "cost"},
          {"part", "balanced"},
          {"policy", row.policy},
          {"barrier", row.has_barrier},
          {"ranks", ranks.size()},
          {"bytes", row.bytes},
          {"us_min", row.partial.min},
          {"us_median", row.partial.median},
          {"us_p95", row.partial.p95},
          {"us_sync", row.sync.median},
          {"us_copy", row.copy},
          {"us_fresh", row.fresh.median},
          {"ratio", row.ratio()},
          {"ratio_fresh", row.ratio_fresh()},
          {"target", row.target()},
          {"contributors", row.contributors},
          {"turns_per_round", row.turns},
          {"algorithm", row.algorithm},
          {"algorithm_sync", row.algorithm_sync},
          {"rounds", row.partial.samples},
          {"wrong", static_cast<std::uint64_t>(row.wrong)},
          {"transport", options.transport},
          {"pinned", options.pin},
          {"oversubscribed", ranks.is_oversubscribed()}};
}

void add_line(table& lines, const balanced_row& row) {
  const auto us = [](double value) { return text("%.2f", value); };
  lines.add({size_text(row.bytes), row.policy, row.has_barrier ? "yes" : "no", us(row.partial.median),
             us(row.sync.median), us(row.copy), us(row.fresh.median), text("%.2f", row.ratio()),
             text("%.1f", row.target()), text("%.2f", row.ratio_fresh()), text("%.2f", row.contributors),
             text("%.2f", row.turns), row.algorithm, row.algorithm_sync, std::to_string(row.partial.samples),
             row.wrong > 0 ? text("%.0f WRONG", row.wrong) : "0"});
}

}  // namespace

double measure_balanced(team& ranks, const cost_options& options, reporter& out) {
  table lines({"size", "partial", "barrier", "us", "sync us", "copy us", "fresh us", "/(sync+copy)", "target", "/fresh",
               "contributors", "turns", "algorithm", "sync's", "rounds", "wrong"});
  double wrong = 0;
  for (const std::uint64_t bytes : options.sizes) {
    contest all(ranks, options, bytes);
    all.measure([&](int block, const party& each) {
      out.progress("balanced %s, block %d of %d, %s", size_text(bytes).c_str(), block, k_blocks, each.what.c_str());
    });
    for (const balanced_row& row : rows_of(all, ranks, bytes)) {
      wrong += row.wrong;
      add_line(lines, row);
      out.json(json_of(row, ranks, options));
    }
  }
  out.print(lines);
  out.say(
      "A round's time is its slowest rank's, medians over rounds. fresh: the gradient is copied to the input, then "
      "lsched_run. Where it says barrier, one stands between rounds, for sync and fresh too. "
      "turns: times that the progress thread was put on a core, per round, of the worst rank.");
  return wrong;
}

}  // namespace lsched::bench
