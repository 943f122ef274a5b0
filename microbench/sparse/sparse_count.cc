#include "microbench/sparse/sparse_row.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "collectives/sparse/sparse_allreduce.h"
#include "libsched/schedule/geometry.h"
#include "collectives/baselines/gaussiank.h"
#include "microbench/lockstep/gradient_source.h"
#include "microbench/lockstep/lockstep.h"
#include "microbench/lockstep/traffic.h"

namespace lsched::bench {
namespace {

/// Returns the maximum number of messages that a rank sends or receives. Messages that are not sent in every round are
/// not counted. Only the first two ranks and the last rank are examined, because all other ranks are like one of these.
double most_messages(const sparse_algorithm& how, sparse_problem problem) {
  double most = 0;
  const rank last = problem.place.size - 1;
  for (const rank r : {rank{0}, std::min(rank{1}, last), last}) {
    problem.place.self = r;
    const auto program = how.generate(problem);
    if (!program) throw failed(program.error().text);
    double sent = 0, received = 0;
    for (const op& o : (*program)->ops()) {
      sent += o.kind == op_kind::send && o.guard == 0 ? 1 : 0;
      received += o.kind == op_kind::recv && o.guard == 0 ? 1 : 0;
    }
    most = std::max({most, sent, received});
  }
  return most;
}

/// The gradients of all ranks in a round. Each gradient is drawn once for all algorithms.
class round_draws {
 public:
  round_draws(const gradient_options& drawn, const sparse_problem& problem) : problem_(problem), vectors_of_(drawn) {
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
      sources_.emplace_back(drawn, problem.type, problem.k);
  }

  void begin(round_no round) { round_ = round, has_lists_ = has_vectors_ = false; }

  /// Returns a list of the k largest elements of each rank's gradient. The lists are valid until the next round.
  std::span<const item_list> lists() {
    if (std::exchange(has_lists_, true)) return lists_;
    lists_.resize(static_cast<std::size_t>(problem_.place.size));
    items_.resize(room() * lists_.size());
    std::vector<std::jthread> drawers;  // drawing is most of the work
    for (std::size_t i = 0; i < sources_.size(); ++i) drawers.emplace_back([this, i] { draw_lists(i); });
    drawers.clear();
    return lists_;
  }

  /// Returns pointers to the gradients of all ranks, each with n elements of f32.
  std::span<const void* const> vectors() {
    if (std::exchange(has_vectors_, true)) return pointers_;
    vectors_.resize(static_cast<std::size_t>(problem_.place.size));
    pointers_.clear();
    for (std::vector<float>& one : vectors_) {
      one.resize(problem_.count);
      vectors_of_.draw(static_cast<rank>(pointers_.size()), round_, std::span(one));
      pointers_.push_back(one.data());
    }
    return pointers_;
  }

  void draw(rank r, std::span<float> to) { vectors_of_.draw(r, round_, to); }

 private:
  std::uint64_t room() const { return most_items(problem_) * item_size(problem_.type); }

  /// Draws the lists of ranks `part`, `part` + n, `part` + 2 n and so on, where n is the number of threads.
  void draw_lists(std::size_t part) {
    for (std::size_t r = part; r < lists_.size(); r += sources_.size()) {
      std::byte* const to = items_.data() + r * room();
      const item_list drawn = sources_[part].draw(static_cast<rank>(r), round_);
      if (drawn.count != 0) std::memcpy(to, drawn.items, drawn.count * item_size(problem_.type));
      lists_[r] = {to, drawn.count};
    }
  }

  const sparse_problem problem_;
  round_no round_ = 0;
  gradient_source vectors_of_;
  std::vector<list_source> sources_;  ///< one per thread
  std::vector<std::byte> items_;
  std::vector<item_list> lists_;
  std::vector<std::vector<float>> vectors_;
  std::vector<const void*> pointers_;
  bool has_lists_ = false, has_vectors_ = false;
};

/// The counts of one algorithm.
class counter {
 public:
  counter(const sparse_options& options, const std::string& algorithm, const sparse_variant& how)
      : row(row_of(options, algorithm, how)),
        problem_(how.problem),
        headers_(most_messages(*find_sparse(algorithm), how.problem) * k_header_words) {
    row.is_counted = true;
    row.compute_us = 0;
  }

  template <class Steps>
  void timed(const Steps& steps) {
    us_.push_back(us_of(steps));
  }

  /// Adds the traffic of all ranks in a round.
  void add(const world_traffic& round) {
    double busiest = 0;
    for (const rank_traffic& one : round.ranks) {
      const double sent = static_cast<double>(one.sent_bytes) / 4,
                   received = static_cast<double>(one.received_bytes) / 4;
      add(sent, received, std::max(one.sent_metadata_bytes, one.received_metadata_bytes) / 4);
      row.compare(sent, received);
      busiest = std::max({busiest, sent, received});
    }
    end_round(busiest);
  }
  /// Adds a round of Ok-Topk. `round` already has the number of ranks that exceeded the bound.
  void add(const round_volume& round) {
    const auto words = [this](std::uint64_t items) {
      return static_cast<double>(items * item_size(problem_.type)) / 4;
    };
    const double sent = words(round.payload.most_sent), received = words(round.payload.most_received);
    row.over_bound += static_cast<std::uint64_t>(round.over_bound);
    add(sent, received, std::max(round.metadata.most_sent, round.metadata.most_received));
    end_round(std::max(sent, received));
    row.add_phase(0, words(round.split.most_received));
    row.add_phase(1, words(round.balance.most_received));
    row.add_phase(2, words(round.gather.most_received));
  }

  sparse_row finish() {
    row.us_median = summarise(us_).median;
    return std::move(row);
  }

  sparse_row row;

 private:
  void add(double sent, double received, std::uint64_t metadata_words) {
    row.add(sent, received, static_cast<double>(metadata_words) + headers_);
  }
  void end_round(double busiest) { row.words_mean += busiest / static_cast<double>(row.rounds); }

  sparse_problem problem_;
  double headers_;  ///< words of message headers of a rank in a round
  std::vector<double> us_;
};

/// A function that runs one round of an algorithm on `drawn`, and adds the counts to `into`.
using count_round = std::function<void(round_draws& drawn, counter& into)>;

/// Returns the number of violations of a result. Its indices must ascend. With exact thresholds it must have at most k
/// items.
std::uint64_t violations_of(const item_list& list, const sparse_problem& problem) {
  const bool is_exact = problem.selection == selection_rule::exact;
  std::uint64_t found = is_exact && list.count > most_items(problem) ? 1 : 0;
  std::uint32_t last = 0;
  for (std::uint64_t i = 0; i < list.count; ++i) {
    std::uint32_t index = 0;
    std::memcpy(&index, list.items + i * item_size(problem.type), sizeof index);
    found += (i != 0 && index <= last) || index >= problem.count ? 1 : 0;
    last = index;
  }
  return found;
}

count_round with_residuals(const sparse_problem& problem) {
  return [problem, ranks = std::make_shared<lockstep>(problem)](round_draws& drawn, counter& into) {
    const auto gradients = drawn.vectors();
    into.timed([&] { into.row.violations += ranks->run(gradients) ? 1u : 0u; });
    into.row.violations += violations_of(ranks->result(), problem);
    into.add(ranks->volume());
  };
}

count_round of_lists(const sparse_problem& problem) {
  if (problem.selection != selection_rule::exact)
    throw failed("reused thresholds need residuals, which are kept for up to " + std::to_string(k_most_residuals) +
                 " ranks");
  return [problem, ranks = std::make_shared<list_lockstep>(problem)](round_draws& drawn, counter& into) {
    const auto lists = drawn.lists();
    into.timed([&] { ranks->run([&](rank r, round_no) { return lists[static_cast<std::size_t>(r)]; }); });
    into.row.violations += ranks->result().count > most_items(problem) ? 1u : 0u;
    into.add(ranks->volume());
  };
}

world_traffic traffic_of(std::span<const item_list> lists, const std::string& algorithm,
                         const sparse_problem& problem) {
  if (algorithm == "topkdsa") return traffic_of_topk_dsa(problem, lists);
  if (algorithm == "gtopk") return traffic_of_gtopk(problem, lists, arrival_rule::exact);
  if (algorithm == "gtopk_published") return traffic_of_gtopk(problem, lists, arrival_rule::published);
  std::vector<std::uint64_t> lengths;
  for (const item_list& one : lists) lengths.push_back(one.count);
  return traffic_of_gathered_lists(problem.type, lengths);
}

count_round of_baseline(const sparse_problem& problem) {
  return [problem](round_draws& drawn, counter& into) {
    const auto lists = drawn.lists();
    into.timed([&] { into.add(traffic_of(lists, into.row.algorithm, problem)); });
  };
}

/// Counts Gaussiank, which guesses the threshold, without residuals. A guess needs several passes over a vector. All
/// rounds are alike, so a few rounds suffice in large worlds.
count_round of_guesses(const sparse_problem& problem, sparse_row& row) {
  constexpr std::uint64_t k_rounds_of_large = 8;
  if (problem.place.size > k_most_residuals) row.rounds = std::min(row.rounds, k_rounds_of_large);
  const auto guess = std::make_shared<gaussiank>(problem);
  const std::size_t room = guess->list_room() * item_size(problem.type);
  return [=, rounds = row.rounds, items = std::vector<std::byte>(room), gradient = std::vector<float>(problem.count),
          residual = std::vector<float>(problem.count)](round_draws& drawn, counter& into) mutable {
    if (rounds == 0) return;
    --rounds;
    into.timed([&] {
      std::vector<std::uint64_t> lengths;
      for (rank r = 0; r < problem.place.size; ++r) {
        drawn.draw(r, gradient);
        std::ranges::fill(residual, 0.0f);
        const auto selected = guess->select(reinterpret_cast<std::byte*>(residual.data()),
                                            reinterpret_cast<const std::byte*>(gradient.data()), items.data());
        lengths.push_back(selected.count);
      }
      into.add(traffic_of_gathered_lists(problem.type, lengths));
    });
  };
}

count_round count_of(const sparse_problem& problem, sparse_row& row) {
  if (row.algorithm == "gaussiank") return of_guesses(problem, row);
  if (row.algorithm != "oktopk") return of_baseline(problem);
  return problem.place.size <= k_most_residuals ? with_residuals(problem) : of_lists(problem);
}

gradient_options gradients_of(const sparse_options& options) {
  const auto kind = gradient_kind_named(options.generator);
  if (!kind) throw failed("there is no generator \"" + options.generator + "\"");
  return {.kind = *kind, .seed = k_seed, .count = options.n, .ranks = options.ranks, .has_integers = false};
}

}  // namespace

std::vector<sparse_row> count_sparse(const sparse_options& options, std::span<const std::string> algorithms,
                                     const std::function<void(std::uint64_t)>& tell) {
  std::vector<counter> counters;
  std::vector<count_round> counts;
  for (const std::string& algorithm : algorithms)
    for (const sparse_variant& how : variants_of(options, algorithm)) {
      counter& one = counters.emplace_back(options, algorithm, how);
      counts.push_back(count_of(how.problem, one.row));
    }
  std::vector<sparse_row> rows;
  if (counters.empty()) return rows;
  round_draws drawn(gradients_of(options), variants_of(options, algorithms.front()).front().problem);
  for (round_no round = 1; round <= rounds_of(options); ++round) {
    drawn.begin(round);
    for (std::size_t i = 0; i < counters.size(); ++i) counts[i](drawn, counters[i]);
    tell(round);
  }
  for (counter& one : counters) rows.push_back(one.finish());
  return rows;
}

}  // namespace lsched::bench
