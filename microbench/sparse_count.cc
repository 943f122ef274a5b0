#include "microbench/sparse_count.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "collectives/sparse_allreduce.h"
#include "libsched/geometry.h"
#include "microbench/harness.h"
#include "microbench/sparse_variant.h"
#include "sparse/gaussiank.h"
#include "sparse/gradient_source.h"
#include "sparse/list_source.h"
#include "sparse/lockstep.h"
#include "sparse/rival_traffic.h"

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
    add_phase(0, words(round.split.most_received));
    add_phase(1, words(round.balance.most_received));
    add_phase(2, words(round.gather.most_received));
    row_.over_bound += static_cast<std::uint64_t>(round.over_bound);
  }
  void add(const world_traffic& round) {
    for (const rank_traffic& one : round.ranks) {
      const double sent = static_cast<double>(one.sent_bytes) / 4,
                   received = static_cast<double>(one.received_bytes) / 4;
      add(sent, received, static_cast<double>(std::max(one.sent_metadata_bytes, one.received_metadata_bytes)) / 4);
      row_.over_bound += std::max(sent, received) > row_.bound_words ? 1u : 0u;
    }
  }

 private:
  double words(std::uint64_t items) const { return static_cast<double>(items) * word_; }

  sparse_row& row_;
  double word_;
  double headers_;
};

class counting {
 public:
  counting(const sparse_options& options, std::string algorithm,
           const std::function<void(const std::string&, std::uint64_t)>& tell)
      : options_(options), algorithm_(std::move(algorithm)), tell_(tell) {
    const auto kind = gradient_kind_named(options.generator);
    if (!kind) throw failed("there is no generator \"" + options.generator + "\"");
    gradients_ = {
        .kind = *kind, .seed = options.seed, .count = options.n, .ranks = options.ranks, .has_integers = false};
  }

  sparse_row count(const sparse_problem& problem, const std::string& policy) {
    sparse_row row{.algorithm = algorithm_,
                   .policy = policy,
                   .generator = options_.generator,
                   .ranks = static_cast<std::uint64_t>(options_.ranks),
                   .n = problem.count,
                   .k = most_items(problem),
                   .rounds = options_.rounds,
                   .bound_words = published_words(algorithm_, problem),
                   .is_counted = true};
    tally into(row, problem, most_messages(*find_sparse(algorithm_), problem) * k_header_words);
    if (algorithm_ != "oktopk")
      count_rival(problem, row, into);
    else if (row.ranks <= k_most_residuals)
      count_with_residuals(problem, row, into);
    else
      count_lists(problem, row, into);
    row.us_median = summarise(us_).median;
    return row;
  }

 private:
  /// A result is a list of at most k items, and what it took is no longer in residuals.
  std::uint64_t violations_in(const lockstep& ranks, const sparse_problem& problem) const {
    const item_list result = ranks.result();
    std::uint64_t found = result.count > most_items(problem) ? 1 : 0;
    std::uint32_t last = 0;
    for (std::uint64_t i = 0; i < result.count; ++i) {
      std::uint32_t index = 0;
      std::memcpy(&index, result.items + i * item_size(problem.type), sizeof index);
      found += (i != 0 && index <= last) || index >= problem.count ? 1 : 0;
      last = index;
    }
    return found;
  }

  void count_with_residuals(const sparse_problem& problem, sparse_row& row, tally& into) {
    lockstep ranks(problem);
    gradient_source source(gradients_);
    std::vector<std::vector<float>> drawn(row.ranks, std::vector<float>(problem.count));
    std::vector<const void*> pointers;
    for (const auto& one : drawn) pointers.push_back(one.data());
    for (round_no round = 1; round <= row.rounds; ++round) {
      for (rank r = 0; r < problem.place.size; ++r)
        source.draw(r, round, std::span(drawn[static_cast<std::size_t>(r)]));
      const auto before = clock::now();
      if (const auto why = ranks.run(pointers)) ++row.violations;
      us_.push_back(ns_between(before, clock::now()) / 1e3);
      row.violations += violations_in(ranks, problem);
      into.add(ranks.volume());
      tell_(row.policy, round);
    }
  }

  void count_lists(const sparse_problem& problem, sparse_row& row, tally& into) {
    list_lockstep ranks(problem);
    list_source source(gradients_, problem.type, problem.k);
    for (round_no round = 1; round <= row.rounds; ++round) {
      const auto before = clock::now();
      ranks.run([&](rank r, round_no which) { return source.draw(r, which); });
      us_.push_back(ns_between(before, clock::now()) / 1e3);
      row.violations += ranks.result().count > most_items(problem) ? 1u : 0u;
      into.add(ranks.volume());
      tell_(row.policy, round);
    }
  }

  /// Lists of gradients drawn anew.
  void count_rival(const sparse_problem& problem, sparse_row& row, tally& into) {
    list_source source(gradients_, problem.type, problem.k);
    std::unique_ptr<gaussiank> guess;
    std::vector<float> gradient, residual;
    std::vector<std::byte> items;
    if (algorithm_ == "gaussiank") {
      guess = std::make_unique<gaussiank>(problem);
      gradient.resize(problem.count), residual.resize(problem.count);
      items.resize(guess->list_room() * item_size(problem.type));
    }
    gradient_source dense(gradients_);
    for (round_no round = 1; round <= row.rounds; ++round) {
      const auto before = clock::now();
      std::vector<std::uint64_t> lengths;
      topk_dsa_traffic blocks(problem);
      gtopk_traffic tree(problem, algorithm_ == "gtopk" ? arrival_rule::exact : arrival_rule::published);
      for (rank r = 0; r < problem.place.size; ++r) {
        if (guess != nullptr) {
          dense.draw(r, round, std::span(gradient));
          std::ranges::fill(residual, 0.0f);
          lengths.push_back(guess
                                ->select(reinterpret_cast<std::byte*>(residual.data()),
                                         reinterpret_cast<const std::byte*>(gradient.data()), items.data())
                                .count);
          continue;
        }
        const item_list list = source.draw(r, round);
        if (algorithm_ == "topka") lengths.push_back(list.count);
        if (algorithm_ == "topkdsa") blocks.add(r, list);
        if (algorithm_.starts_with("gtopk")) tree.add(list);
      }
      into.add(algorithm_ == "topkdsa"           ? blocks.finish()
               : algorithm_.starts_with("gtopk") ? tree.finish()
                                                 : traffic_of_gathered_lists(problem.type, lengths));
      us_.push_back(ns_between(before, clock::now()) / 1e3);
      tell_(row.policy, round);
    }
  }

  const sparse_options& options_;
  const std::string algorithm_;
  const std::function<void(const std::string&, std::uint64_t)>& tell_;
  gradient_options gradients_;
  std::vector<double> us_;
};

}  // namespace

std::vector<sparse_row> count_sparse(const sparse_options& options, const std::string& algorithm,
                                     const std::function<void(const std::string&, std::uint64_t)>& tell) {
  if (find_sparse(algorithm) == nullptr) return {};
  std::vector<sparse_row> rows;
  for (const sparse_variant& it : variants_of(options, algorithm))
    rows.push_back(counting(options, algorithm, tell).count(it.problem, it.policy));
  return rows;
}

}  // namespace lsched::bench
