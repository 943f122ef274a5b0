#include "microbench/sparse/sparse_figures_balance.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "collectives/sparse/steps/regions.h"
#include "libsched/schedule/geometry.h"
#include "microbench/baselines/gradient_source.h"
#include "microbench/baselines/lockstep.h"
#include "microbench/harness.h"

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

/// Items of a list in each of P regions.
void count_by_region(item_list list, std::span<const std::uint64_t> boundaries, numbers& counts) {
  std::uint64_t from = 0;
  for (std::size_t region = 0; region < counts.size(); ++region) {
    const std::uint64_t end = items_below(dtype::f32, list, from, boundaries[region + 1]);
    counts[region] = end - from;
    from = end;
  }
}

/// What the regions of a rule cost a rank in a round, in words: an allreduce of u64 by recursive doubling.
double counter_words_of(region_rule rule, sparse_problem problem) {
  problem.boundaries = rule == averaged ? boundary_rule::averaged : boundary_rule::pooled;
  double counters = 0;
  if (rule != equal) counters += static_cast<double>(position_bins(problem)) / problem.period;
  if (rule == drift) counters += static_cast<double>(drift_bins(problem));
  return counters * 2 * floor_log2(problem.place.size);
}

/// One world.
class balancing {
 public:
  balancing(const sparse_figures_options& options, double density, const std::string& generator, rank ranks)
      : problem_(figure_problem(options, density, ranks)),
        ranks_(problem_),
        source_({.kind = *gradient_kind_named(generator), .seed = options.seed, .count = options.n, .ranks = ranks}),
        size_(static_cast<std::size_t>(ranks)),
        gradients_(size_, std::vector<float>(options.n)),
        plan_(ranks) {
    const cut regions(options.n, size_);
    for (numbers& one : boundaries_) one.resize(size_ + 1);
    for (std::size_t i = 0; i <= size_; ++i) boundaries_[equal][i] = regions.begin(i);
    const balance_row like{.generator = generator,
                           .ranks = size_,
                           .n = options.n,
                           .k = most_items(problem_),
                           .density = density,
                           .rounds = options.iterations};
    for (std::size_t which = 0; which < k_regions.size(); ++which) {
      rows_.push_back(like);
      rows_.back().phase = "split", rows_.back().regions = k_regions[which], rows_.back().rule = "-";
      rows_.back().counter_words = counter_words_of(static_cast<region_rule>(which), problem_);
    }
    for (const region_rule which : {equal, drift})
      for (const gather_rule& how : k_gathers) {
        rows_.push_back(like);
        rows_.back().phase = "gather", rows_.back().regions = k_regions[which], rows_.back().rule = how.name;
      }
  }

  std::vector<balance_row> count(std::uint64_t rounds, const std::function<void(round_no)>& tell) {
    std::vector<const void*> pointers;
    for (const auto& one : gradients_) pointers.push_back(one.data());
    for (round_no round = 1; round <= rounds; ++round) {
      for (std::size_t r = 0; r < size_; ++r) source_.draw(static_cast<rank>(r), round, std::span(gradients_[r]));
      if (const auto why = ranks_.exchange(pointers)) throw failed(why->text);
      add_round(round);
      ranks_.settle();
      tell(round);
    }
    for (balance_row& row : rows_) {
      row.words_mean /= static_cast<double>(rounds - rounds / 2);
      row.balanced_rounds /= static_cast<double>(rounds);
    }
    compare();
    return rows_;
  }

 private:
  void add_round(round_no round) {
    if (ranks_.volume().looks) place_regions();
    std::ranges::copy(ranks_.boundaries(), boundaries_[drift].begin());
    for (std::size_t which = 0; which < k_regions.size(); ++which)
      add(rows_[which], round, most_received(boundaries_[which]));
    std::size_t row = k_regions.size();
    for (const region_rule which : {equal, drift})
      for (const gather_rule& how : k_gathers) add_gather(rows_[row++], round, boundaries_[which], how.rule);
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

  static void add(balance_row& row, round_no round, std::uint64_t items) {
    const double words = words_of(dtype::f32, items);
    if (round == 1) row.words_first = words;
    if (round > row.rounds / 2) row.words_mean += words;
    row.words_most = std::max(row.words_most, words);
  }

  std::uint64_t most_received(const numbers& boundaries) const {
    numbers received(size_), counts(size_);
    for (std::size_t r = 0; r < size_; ++r) {
      count_by_region(ranks_.selected(static_cast<rank>(r)), boundaries, counts);
      for (std::size_t owner = 0; owner < size_; ++owner) received[owner] += owner == r ? 0 : counts[owner];
    }
    return std::ranges::max(received);
  }

  void add_gather(balance_row& row, round_no round, const numbers& boundaries, balance_rule rule) {
    numbers kept(size_);
    count_by_region(ranks_.result(), boundaries, kept);
    plan_.make(kept, rule);
    std::uint64_t most = 0;
    for (rank r = 0; r < problem_.place.size; ++r) {
      const item_traffic moved = plan_.exchanged_by(r), gathered = plan_.gathered_by(r);
      most = std::max({most, moved.sent + gathered.sent, moved.received + gathered.received});
    }
    add(row, round, most);
    row.balanced_rounds += plan_.is_balanced() ? 1 : 0;
  }

  /// The library's own rules (drift, cost) are what it has counted itself; the plan is the last that was made.
  void check() {
    const round_volume& counted = ranks_.volume();
    phase_volume moved, gathered;
    for (rank r = 0; r < problem_.place.size; ++r) {
      moved.add(plan_.exchanged_by(r));
      gathered.add(plan_.gathered_by(r));
    }
    rows_[drift].violations += most_received(boundaries_[drift]) != counted.split.most_received ? 1U : 0U;
    rows_.back().violations +=
        moved.total != counted.balance.total || gathered.most_sent != counted.gather.most_sent ? 1U : 0U;
  }

  void compare() {
    const auto ratio = [](double naive, double it) { return it > 0 ? naive / it : 1; };
    for (balance_row& row : rows_) {
      const auto naive = std::ranges::find_if(rows_, [&](const balance_row& it) {
        return it.phase == row.phase &&
               (row.phase == "split" ? it.regions == "equal" : it.regions == row.regions && it.rule == "never");
      });
      row.naive_ratio_first = ratio(naive->words_first, row.words_first);
      row.naive_ratio = ratio(naive->words_mean, row.words_mean);
    }
  }

  sparse_problem problem_;
  lockstep ranks_;
  gradient_source source_;
  std::size_t size_;
  std::vector<std::vector<float>> gradients_;
  std::array<numbers, k_regions.size()> boundaries_;
  balance_plan plan_;
  std::vector<balance_row> rows_;
};

}  // namespace

std::vector<balance_row> count_balance(const sparse_figures_options& options, const tell_progress& tell) {
  std::vector<balance_row> all;
  for (const std::string& generator : options.generators)
    for (const double density : options.densities)
      for (const rank ranks : options.ranks) {
        const auto some = balancing(options, density, generator, ranks).count(options.iterations, [&](round_no round) {
          tell(text("%s, density %g, %d ranks, round %llu of %llu", generator.c_str(), density, ranks,
                    static_cast<unsigned long long>(round), static_cast<unsigned long long>(options.iterations)));
        });
        all.insert(all.end(), some.begin(), some.end());
      }
  return all;
}

nlohmann::json json_of(const balance_row& row) {
  return {{"bench", "sparse-figures"},
          {"figure", "balance"},
          {"phase", row.phase},
          {"regions", row.regions},
          {"rule", row.rule},
          {"generator", row.generator},
          {"ranks", row.ranks},
          {"n", row.n},
          {"k", row.k},
          {"density", row.density},
          {"words_first", row.words_first},
          {"words_mean", row.words_mean},
          {"words_most", row.words_most},
          {"counter_words", row.counter_words},
          {"balanced_rounds", row.balanced_rounds},
          {"naive_ratio_first", row.naive_ratio_first},
          {"naive_ratio", row.naive_ratio},
          {"iterations", row.rounds},
          {"violations", row.violations}};
}

}  // namespace lsched::bench
