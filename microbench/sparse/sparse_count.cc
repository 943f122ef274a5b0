#include "microbench/sparse/sparse_count.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "collectives/sparse/sparse_allreduce.h"
#include "libsched/schedule/geometry.h"
#include "microbench/baselines/gaussiank.h"
#include "microbench/baselines/gradient_source.h"
#include "microbench/baselines/lockstep.h"
#include "microbench/baselines/traffic.h"
#include "microbench/harness.h"
#include "microbench/sparse/sparse_variant.h"

namespace lsched::bench {
namespace {

constexpr double k_header_words = 4;

/// Messages that ranks send, or receive, whatever they carry: the most of those that differ. Guarded ones aside.
double most_messages(const sparse_algorithm& how, sparse_problem problem) {
  double most = 0;
  const rank last = problem.place.size - 1;
  for (const rank r : {rank{0}, std::min(rank{1}, last), last}) {
    problem.place.self = r;
    const auto program = how.generate(problem);
    if (!program) throw failed(program.error().text);
    double sent = 0, received = 0;
    for (const op& it : (*program)->ops()) {
      sent += it.kind == op_kind::send && it.guard == 0 ? 1 : 0;
      received += it.kind == op_kind::recv && it.guard == 0 ? 1 : 0;
    }
    most = std::max({most, sent, received});
  }
  return most;
}

/// What a row takes from each round.
class tally {
 public:
  tally(sparse_row& row, const sparse_problem& problem, double headers)
      : row_(row), word_(static_cast<double>(item_size(problem.type)) / 4), headers_(headers) {}

  /// Words.
  void add(double sent, double received, double metadata) {
    row_.words_sent_max = std::max(row_.words_sent_max, sent);
    row_.words_recv_max = std::max(row_.words_recv_max, received);
    row_.words_meta_max = std::max(row_.words_meta_max, metadata + headers_);
  }
  void add_phase(std::size_t phase, double words) {
    if (row_.phase_words_max.size() <= phase) row_.phase_words_max.resize(phase + 1);
    row_.phase_words_max[phase] = std::max(row_.phase_words_max[phase], words);
  }
  void add(const round_volume& round) {
    add(words(round.payload.most_sent), words(round.payload.most_received),
        static_cast<double>(std::max(round.metadata.most_sent, round.metadata.most_received)));
    end_round(words(std::max(round.payload.most_sent, round.payload.most_received)));
    add_phase(0, words(round.split.most_received));
    add_phase(1, words(round.balance.most_received));
    add_phase(2, words(round.gather.most_received));
    row_.over_bound += static_cast<std::uint64_t>(round.over_bound);
  }
  void add(const world_traffic& round) {
    double busiest = 0;
    for (const rank_traffic& one : round.ranks) {
      const double sent = static_cast<double>(one.sent_bytes) / 4,
                   received = static_cast<double>(one.received_bytes) / 4;
      add(sent, received, static_cast<double>(std::max(one.sent_metadata_bytes, one.received_metadata_bytes)) / 4);
      row_.over_bound += std::max(sent, received) > row_.bound_words ? 1u : 0u;
      busiest = std::max({busiest, sent, received});
    }
    end_round(busiest);
  }

 private:
  void end_round(double busiest) { row_.words_mean += busiest / static_cast<double>(row_.rounds); }
  double words(std::uint64_t items) const { return static_cast<double>(items) * word_; }

  sparse_row& row_;
  double word_;
  double headers_;
};

/// What ranks draw in a round, once for all that is counted of it.
class round_draws {
 public:
  round_draws(const gradient_options& drawn, const sparse_problem& of) : of_(of), vectors_of_(drawn) {
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
      sources_.emplace_back(drawn, of.type, of.k);
  }

  void begin(round_no round) { round_ = round, has_lists_ = has_vectors_ = false; }

  /// The k largest elements of each rank's gradient, which is drawn anew. Until the next round.
  std::span<const item_list> lists() {
    if (std::exchange(has_lists_, true)) return lists_;
    lists_.resize(static_cast<std::size_t>(of_.place.size));
    items_.resize(room() * lists_.size());
    std::vector<std::jthread> drawers;  // that is most of the work
    for (std::size_t i = 0; i < sources_.size(); ++i) drawers.emplace_back([this, i] { draw_lists(i); });
    drawers.clear();
    return lists_;
  }

  /// Pointers to each rank's gradient: n elements of f32 for each rank.
  std::span<const void* const> vectors() {
    if (std::exchange(has_vectors_, true)) return pointers_;
    vectors_.resize(static_cast<std::size_t>(of_.place.size));
    pointers_.clear();
    for (std::vector<float>& one : vectors_) {
      one.resize(of_.count);
      vectors_of_.draw(static_cast<rank>(pointers_.size()), round_, std::span(one));
      pointers_.push_back(one.data());
    }
    return pointers_;
  }

  void draw(rank of, std::span<float> to) { vectors_of_.draw(of, round_, to); }

 private:
  std::uint64_t room() const { return most_items(of_) * item_size(of_.type); }

  /// Those of every so many-th rank.
  void draw_lists(std::size_t part) {
    for (std::size_t r = part; r < lists_.size(); r += sources_.size()) {
      std::byte* const to = items_.data() + r * room();
      const item_list drawn = sources_[part].draw(static_cast<rank>(r), round_);
      if (drawn.count != 0) std::memcpy(to, drawn.items, drawn.count * item_size(of_.type));
      lists_[r] = {to, drawn.count};
    }
  }

  const sparse_problem of_;
  round_no round_ = 0;
  gradient_source vectors_of_;
  std::vector<list_source> sources_;  ///< one for each thread
  std::vector<std::byte> items_;
  std::vector<item_list> lists_;
  std::vector<std::vector<float>> vectors_;
  std::vector<const void*> pointers_;
  bool has_lists_ = false, has_vectors_ = false;
};

/// Counts one algorithm, round by round.
class counter {
 public:
  counter(const sparse_options& options, const std::string& algorithm, const sparse_variant& how)
      : problem_(how.problem),
        row_{.algorithm = algorithm,
             .policy = how.policy,
             .generator = options.generator,
             .ranks = static_cast<std::uint64_t>(options.ranks),
             .n = how.problem.count,
             .k = most_items(how.problem),
             .rounds = options.rounds,
             .bound_words = published_words(algorithm, how.problem),
             .is_counted = true},
        into_(row_, how.problem, most_messages(*find_sparse(algorithm), how.problem) * k_header_words) {}
  counter(const counter&) = delete;  // into_ is of this row_
  virtual ~counter() = default;

  virtual void count(round_draws& drawn) = 0;

  sparse_row finish() {
    row_.us_median = summarise(us_).median;
    return std::move(row_);
  }

 protected:
  template <class Steps>
  void timed(const Steps& steps) {
    const auto before = clock::now();
    steps();
    us_.push_back(ns_between(before, clock::now()) / 1e3);
  }

  const sparse_problem problem_;
  sparse_row row_;
  tally into_;

 private:
  std::vector<double> us_;
};

class counter_with_residuals : public counter {
 public:
  counter_with_residuals(const sparse_options& options, const std::string& algorithm, const sparse_variant& how)
      : counter(options, algorithm, how), ranks_(how.problem) {}

  void count(round_draws& drawn) override {
    const auto gradients = drawn.vectors();
    timed([&] { row_.violations += ranks_.run(gradients) ? 1u : 0u; });
    row_.violations += violations();
    into_.add(ranks_.volume());
  }

 private:
  /// A result is a list by index, where thresholds are exact of at most k items.
  std::uint64_t violations() const {
    const item_list result = ranks_.result();
    const bool is_exact = problem_.selection == selection_rule::exact;
    std::uint64_t found = is_exact && result.count > most_items(problem_) ? 1 : 0;
    std::uint32_t last = 0;
    for (std::uint64_t i = 0; i < result.count; ++i) {
      const std::uint32_t index = index_at(problem_.type, result.items, i);
      found += (i != 0 && index <= last) || index >= problem_.count ? 1 : 0;
      last = index;
    }
    return found;
  }

  lockstep ranks_;
};

class counter_of_lists : public counter {
 public:
  counter_of_lists(const sparse_options& options, const std::string& algorithm, const sparse_variant& how)
      : counter(options, algorithm, how), ranks_(how.problem) {
    if (how.problem.selection != selection_rule::exact)
      throw failed("reused thresholds are of residuals, which are kept for up to " + std::to_string(k_most_residuals) +
                   " ranks");
  }

  void count(round_draws& drawn) override {
    const auto lists = drawn.lists();
    timed([&] { ranks_.run([&](rank r, round_no) { return lists[static_cast<std::size_t>(r)]; }); });
    row_.violations += ranks_.result().count > most_items(problem_) ? 1u : 0u;
    into_.add(ranks_.volume());
  }

 private:
  list_lockstep ranks_;
};

class counter_of_baseline : public counter {
 public:
  using counter::counter;

  void count(round_draws& drawn) override {
    const auto lists = drawn.lists();
    timed([&] { into_.add(traffic_of(lists)); });
  }

 private:
  world_traffic traffic_of(std::span<const item_list> lists) const {
    if (row_.algorithm == "topkdsa") return traffic_of_topk_dsa(problem_, lists);
    if (row_.algorithm == "gtopk") return traffic_of_gtopk(problem_, lists, arrival_rule::exact);
    if (row_.algorithm == "gtopk_published") return traffic_of_gtopk(problem_, lists, arrival_rule::published);
    std::vector<std::uint64_t> lengths;
    for (const item_list& one : lists) lengths.push_back(one.count);
    return traffic_of_gathered_lists(problem_.type, lengths);
  }
};

/// Of what exceeds a guessed threshold; without residuals. Guesses take several passes over a vector, and each round is
/// like any other: of large worlds a few will do.
class counter_of_guesses : public counter {
 public:
  counter_of_guesses(const sparse_options& options, const std::string& algorithm, const sparse_variant& how)
      : counter(options, algorithm, how),
        guess_(how.problem),
        gradient_(how.problem.count),
        residual_(how.problem.count),
        items_(guess_.list_room() * item_size(how.problem.type)) {
    if (is_large()) row_.rounds = std::min(row_.rounds, k_rounds_of_large);
  }

  void count(round_draws& drawn) override {
    if (is_large() && ++rounds_ > k_rounds_of_large) return;
    timed([&] {
      std::vector<std::uint64_t> lengths;
      for (rank r = 0; r < problem_.place.size; ++r) lengths.push_back(select(r, drawn));
      into_.add(traffic_of_gathered_lists(problem_.type, lengths));
    });
  }

 private:
  static constexpr std::uint64_t k_rounds_of_large = 8;

  bool is_large() const { return problem_.place.size > k_most_residuals; }

  std::uint64_t select(rank of, round_draws& drawn) {
    drawn.draw(of, gradient_);
    std::ranges::fill(residual_, 0.0f);
    return guess_
        .select(reinterpret_cast<std::byte*>(residual_.data()), reinterpret_cast<const std::byte*>(gradient_.data()),
                items_.data())
        .count;
  }

  gaussiank guess_;
  std::uint64_t rounds_ = 0;
  std::vector<float> gradient_, residual_;
  std::vector<std::byte> items_;
};

std::unique_ptr<counter> counter_for(const sparse_options& options, const std::string& algorithm,
                                     const sparse_variant& how) {
  if (algorithm == "gaussiank") return std::make_unique<counter_of_guesses>(options, algorithm, how);
  if (algorithm != "oktopk") return std::make_unique<counter_of_baseline>(options, algorithm, how);
  if (how.problem.place.size <= k_most_residuals)
    return std::make_unique<counter_with_residuals>(options, algorithm, how);
  return std::make_unique<counter_of_lists>(options, algorithm, how);
}

gradient_options gradients_of(const sparse_options& options) {
  const auto kind = gradient_kind_named(options.generator);
  if (!kind) throw failed("there is no generator \"" + options.generator + "\"");
  return {.kind = *kind, .seed = k_seed, .count = options.n, .ranks = options.ranks, .has_integers = false};
}

}  // namespace

std::vector<sparse_row> count_sparse(const sparse_options& options, std::span<const std::string> algorithms,
                                     const std::function<void(std::uint64_t)>& tell) {
  std::vector<std::unique_ptr<counter>> counters;
  for (const std::string& algorithm : algorithms)
    for (const sparse_variant& how : variants_of(options, algorithm))
      counters.push_back(counter_for(options, algorithm, how));
  std::vector<sparse_row> rows;
  if (counters.empty()) return rows;
  round_draws drawn(gradients_of(options), variants_of(options, algorithms.front()).front().problem);
  for (round_no round = 1; round <= options.rounds; ++round) {
    drawn.begin(round);
    for (const auto& one : counters) one->count(drawn);
    tell(round);
  }
  for (const auto& one : counters) rows.push_back(one->finish());
  return rows;
}

}  // namespace lsched::bench
