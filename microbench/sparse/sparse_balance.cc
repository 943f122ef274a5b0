#include "microbench/sparse/sparse_balance.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "collectives/sparse/steps/regions.h"
#include "libsched/schedule/geometry.h"
#include "microbench/lockstep/gradient_source.h"
#include "microbench/lockstep/lockstep.h"

namespace lsched::bench {
namespace {

using numbers = std::vector<std::uint64_t>;

constexpr std::array k_regions{"equal", "averaged", "pooled", "drift"};
enum region_rule : std::size_t { equal, averaged, pooled, drift };

struct gather_rule {
  const char* name;
  balance_rule rule;
};
constexpr std::array<gather_rule, 3> k_gathers{
    {{"never", balance_rule::never}, {"published", balance_rule::published}, {"cost", balance_rule::cost}}};

/// Writes to `counts` how many items of a list are in each of the P regions.
void count_by_region(item_list list, std::span<const std::uint64_t> boundaries, numbers& counts) {
  std::uint64_t from = 0;
  for (std::size_t region = 0; region < counts.size(); ++region) {
    const std::uint64_t end = items_below(dtype::f32, list, from, boundaries[region + 1]);
    counts[region] = end - from;
    from = end;
  }
}

/// Returns the number of 4-byte words that a rank sends in a round, on average, to determine the regions by `rule`. The
/// ranks add up u64 counters by recursive doubling.
double counter_words_of(region_rule rule, sparse_problem problem) {
  problem.boundaries = rule == averaged ? boundary_rule::averaged : boundary_rule::pooled;
  double counters = 0;
  if (rule != equal) counters += static_cast<double>(position_bins(problem)) / problem.period;
  if (rule == drift) counters += static_cast<double>(drift_bins(problem));
  return counters * 2 * floor_log2(problem.place.size);
}

/// Returns the number of elements that a rank selects, at least 1.
std::uint64_t k_of(const balance_options& options) {
  const auto k = static_cast<std::uint64_t>(std::llround(options.density * static_cast<double>(options.n)));
  return std::max<std::uint64_t>(1, k);
}

/// The numbers of 4-byte words that the busiest rank of a round moves with a rule. `first` is the number in round 1, in
/// which residuals are zero. `sum` is the sum over the later half of all rounds. `most` is the maximum over all rounds.
struct balance_counts {
  double first = 0, sum = 0, most = 0;
  std::uint64_t balanced_rounds = 0;
  std::uint64_t violations = 0;

  void add(round_no round, std::uint64_t rounds, std::uint64_t items) {
    const double words = words_of(dtype::f32, items);
    if (round == 1) first = words;
    if (round > rounds / 2) sum += words;
    most = std::max(most, words);
  }
};

/// Runs Ok-Topk in one world, and counts the words of all rules.
class balancing {
 public:
  balancing(const balance_options& options, rank ranks)
      : problem_({.count = options.n, .k = k_of(options), .place = {0, ranks}}),
        ranks_(problem_),
        source_({.kind = *gradient_kind_named(options.generator),
                 .seed = options.seed,
                 .count = options.n,
                 .ranks = ranks}),
        size_(static_cast<std::size_t>(ranks)),
        gradients_(size_, std::vector<float>(options.n)),
        plan_(ranks) {
    const cut regions(options.n, size_);
    for (numbers& one : boundaries_) one.resize(size_ + 1);
    for (std::size_t i = 0; i <= size_; ++i) boundaries_[equal][i] = regions.begin(i);
    const result like{{"figure", "balance"},  {"generator", options.generator},  {"ranks", size_},
                      {"n", options.n},       {"k", most_items(problem_)},       {"density", options.density},
                      {"counter_words", 0.0}, {"iterations", options.iterations}};
    const auto add = [&](const char* phase, region_rule which, const char* rule) -> result& {
      rows_.push_back(like);
      rows_.back().update({{"phase", phase}, {"regions", k_regions[which]}, {"rule", rule}});
      return rows_.back();
    };
    for (const region_rule which : {equal, averaged, pooled, drift})
      add("split", which, "-")["counter_words"] = counter_words_of(which, problem_);
    for (const region_rule which : {equal, drift})
      for (const gather_rule& how : k_gathers) add("gather", which, how.name);
    counts_.resize(rows_.size());
  }

  std::vector<result> count(std::uint64_t rounds, const std::function<void(round_no)>& tell) {
    std::vector<const void*> pointers;
    for (const auto& one : gradients_) pointers.push_back(one.data());
    for (round_no round = 1; round <= rounds; ++round) {
      for (std::size_t r = 0; r < size_; ++r) source_.draw(static_cast<rank>(r), round, std::span(gradients_[r]));
      if (const auto why = ranks_.exchange(pointers)) throw failed(why->text);
      add_round(round, rounds);
      ranks_.settle();
      tell(round);
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const balance_counts& own = counts_[i];
      rows_[i].update({{"words_first", own.first},
                       {"words_mean", own.sum / static_cast<double>(rounds - rounds / 2)},
                       {"words_most", own.most},
                       {"balanced_rounds", static_cast<double>(own.balanced_rounds) / static_cast<double>(rounds)},
                       {"violations", own.violations}});
    }
    for (result& row : rows_) compare(row);
    return rows_;
  }

 private:
  void add_round(round_no round, std::uint64_t rounds) {
    if (ranks_.volume().looks) place_regions();
    std::ranges::copy(ranks_.boundaries(), boundaries_[drift].begin());
    auto next = counts_.begin();
    for (const numbers& boundaries : boundaries_) next++->add(round, rounds, most_received(boundaries));
    for (const region_rule regions : {equal, drift})
      for (const gather_rule& how : k_gathers) {
        next->add(round, rounds, most_gathered(boundaries_[regions], how.rule));
        next++->balanced_rounds += plan_.is_balanced() ? 1U : 0U;
      }
    check();
  }

  void place_regions() {
    for (const auto& [which, rule] :
         {std::pair(averaged, boundary_rule::averaged), std::pair(pooled, boundary_rule::pooled)}) {
      sparse_problem problem = problem_;
      problem.boundaries = rule;
      numbers own(position_bins(problem)), sums(own.size());
      for (std::size_t r = 0; r < size_; ++r) {
        count_positions(problem, ranks_.selected(static_cast<rank>(r)), own);
        for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
      }
      place_boundaries(problem, sums, boundaries_[which]);
    }
  }

  std::uint64_t most_received(const numbers& boundaries) const {
    numbers received(size_), counts(size_);
    for (std::size_t r = 0; r < size_; ++r) {
      count_by_region(ranks_.selected(static_cast<rank>(r)), boundaries, counts);
      for (std::size_t owner = 0; owner < size_; ++owner) received[owner] += owner == r ? 0 : counts[owner];
    }
    return std::ranges::max(received);
  }

  std::uint64_t most_gathered(const numbers& boundaries, balance_rule rule) {
    numbers kept(size_);
    count_by_region(ranks_.result(), boundaries, kept);
    plan_.make(kept, rule);
    std::uint64_t most = 0;
    for (rank r = 0; r < problem_.place.size; ++r) {
      const item_traffic moved = plan_.exchanged_by(r), gathered = plan_.gathered_by(r);
      most = std::max({most, moved.sent + gathered.sent, moved.received + gathered.received});
    }
    return most;
  }

  /// Compares the counts of the library's own rules (drift, cost) with the counts of the lockstep. Must be called right
  /// after the last rule, because the plan of that rule is used.
  void check() {
    const round_volume& counted = ranks_.volume();
    phase_volume moved, gathered;
    for (rank r = 0; r < problem_.place.size; ++r) {
      moved.add(plan_.exchanged_by(r));
      gathered.add(plan_.gathered_by(r));
    }
    counts_[drift].violations += most_received(boundaries_[drift]) != counted.split.most_received ? 1U : 0U;
    counts_.back().violations +=
        moved.total != counted.balance.total || gathered.most_sent != counted.gather.most_sent ? 1U : 0U;
  }

  /// Adds a column to the row: the number of words that the naive rule moves, divided by the number of words that this
  /// rule moves. For phase `split`, the naive rule has equal regions. For phase `gather`, the naive rule has the
  /// regions of this rule, and never balances shares.
  void compare(result& row) const {
    const bool is_split = row.at("phase") == "split";
    const result& naive = *std::ranges::find_if(rows_, [&](const result& other) {
      return other.at("phase") == row.at("phase") &&
             (is_split ? other.at("regions") == "equal"
                       : other.at("regions") == row.at("regions") && other.at("rule") == "never");
    });
    const auto ratio = [&](const char* key) {
      const double words = row.at(key);
      return words > 0 ? naive.at(key).get<double>() / words : 1;
    };
    row.update({{"naive_ratio_first", ratio("words_first")}, {"naive_ratio", ratio("words_mean")}});
  }

  sparse_problem problem_;
  lockstep ranks_;
  gradient_source source_;
  std::size_t size_;
  std::vector<std::vector<float>> gradients_;
  std::array<numbers, k_regions.size()> boundaries_;
  balance_plan plan_;
  std::vector<result> rows_;
  std::vector<balance_counts> counts_;  ///< one element for each row
};

}  // namespace

std::vector<result> count_balance(const balance_options& options, const std::function<void(const std::string&)>& tell) {
  std::vector<result> all;
  for (const rank ranks : options.ranks) {
    const auto some = balancing(options, ranks).count(options.iterations, [&](round_no round) {
      tell(text("%d ranks, round %zu of %zu", ranks, std::size_t{round}, std::size_t{options.iterations}));
    });
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

namespace {

/// Returns the range of time ratios that the paper reports for its own rules with 16, 32 and 64 ranks. Returns "" for
/// all other rows.
const char* paper_ratio(const result& row) {
  if (row.at("ranks") != 16 && row.at("ranks") != 32 && row.at("ranks") != 64) return "";
  if (row.at("phase") == "split") return row.at("regions") == "averaged" ? "1.13-1.75" : "";
  return row.at("rule") == "published" && row.at("regions") == "equal" ? "1.12-1.43" : "";
}

}  // namespace

int run_balance(const balance_options& options) {
  reporter out("sparse-figures", options);
  const auto tell = [&](const std::string& stage) { out.progress("%s", stage.c_str()); };
  for (const result& row : count_balance(options, tell)) out.add(row, {{"paper", paper_ratio(row)}});
  out.say("%s, n = %zu, d = %g; words of 4 bytes of a round's busiest rank, mean of rounds %zu to %zu, with residuals",
          options.generator.c_str(), std::size_t{options.n}, options.density, std::size_t{options.iterations / 2 + 1},
          std::size_t{options.iterations});
  out.say("split: received; gather: sent or received, including pieces of balancing");
  out.print({column("phase", "phase"), column("ranks", "ranks"), column("regions", "regions"),
             column("balance", "rule"), per_k("words/k", "words_mean"), column("naive/this", "naive_ratio", 2),
             column("paper, time", "paper"), column("violations", "violations")});
  out.say("paper: speed-up of split, and of the iterations that balance, on 16 to 64 GPUs, growing with their number");
  return out.finish();
}

}  // namespace lsched::bench
