// Counts the words of sparse allreduces in one process, without messages.
//
// The items of Ok-Topk depend on the gradients, so the steps of all ranks run (lockstep.h). All other words are counted
// in the schedules, with lists of their typical length. Tests compare both counts with the traffic of engines.
#include <algorithm>
#include <deque>
#include <functional>

#include "collectives/registry.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "microbench/lockstep/gradient_source.h"
#include "microbench/lockstep/lockstep.h"
#include "microbench/lockstep/schedule_volume.h"
#include "microbench/sparse/sparse_row.h"

namespace lsched::bench {
namespace {

constexpr std::uint64_t k_most_elements = std::uint64_t{1} << 29;  ///< maximum total of all ranks; limits the memory

/// Returns the schedule of a rank for one bucket.
using generator = std::function<lsched::result<schedule_ptr>(rank, std::uint64_t bucket)>;

/// The numbers of words that the busiest rank sends and receives in a round. Metadata includes the headers of messages.
struct most_words {
  double sent = 0, received = 0, metadata = 0;
};

/// Examines the schedules of the first two ranks and of the last rank, because all other ranks are like one of these.
most_words words_of(const generator& generate, rank ranks, std::uint64_t buckets) {
  const auto words = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 4; };
  most_words most;
  for (const rank r : {rank{0}, std::min(rank{1}, ranks - 1), ranks - 1}) {
    most_words all;
    for (std::uint64_t bucket = 0; bucket < buckets; ++bucket) {
      const auto program = generate(r, bucket);
      if (!program) throw failed(program.error().text);
      const auto [sent, received] = volume_of(**program);
      all.sent += words(sent.payload);
      all.received += words(received.payload);
      all.metadata += words(std::max(sent.metadata, received.metadata)) +
                      k_header_words * static_cast<double>(std::max(sent.messages, received.messages));
    }
    most = {std::max(most.sent, all.sent), std::max(most.received, all.received),
            std::max(most.metadata, all.metadata)};
  }
  return most;
}

generator generator_of(const sparse_algorithm& how, const sparse_problem& problem) {
  return [&how, problem](rank r, std::uint64_t) {
    sparse_problem mine = problem;
    mine.place.self = r;
    return how.generate(mine);
  };
}

/// Returns the schedules of plain allreduces by "circulant", the algorithm with the smallest number of words.
generator dense_generator(const sparse_options& options, const std::string& algorithm) {
  const lsched::algorithm& how = *find("allreduce", "circulant");
  return [&how, buckets = buckets_of(options, algorithm), ranks = options.ranks](rank r, std::uint64_t bucket) {
    return how.generate({r, ranks}, {.count = buckets.size(bucket), .type = dtype::f32, .what = kernel::sum}, {});
  };
}

/// Returns the number of violations of a result. The indices of a result must ascend. With exact thresholds, a result
/// must have at most k items.
std::uint64_t violations_of(const item_list& list, const sparse_problem& problem) {
  const bool is_exact = problem.selection == selection_rule::exact;
  std::uint64_t found = is_exact && list.count > most_items(problem) ? 1 : 0;
  for (std::uint64_t i = 0; i < list.count; ++i) {
    const std::uint32_t index = index_at(problem.type, list.items, i);
    found += index >= problem.count || (i != 0 && index <= index_at(problem.type, list.items, i - 1)) ? 1u : 0u;
  }
  return found;
}

/// A variant of Ok-Topk on all ranks.
class counted_oktopk {
 public:
  counted_oktopk(const sparse_problem& problem, sparse_row& row) : problem_(problem), row_(row), ranks_(problem) {
    row.words_meta_max = words_of(generator_of(*find_sparse("oktopk"), problem), problem.place.size, 1).metadata;
  }

  void run(std::span<const void* const> gradients) {
    us_.push_back(us_of([&] { row_.violations += ranks_.run(gradients) ? 1u : 0u; }));
    row_.violations += violations_of(ranks_.result(), problem_);
    const round_volume& volume = ranks_.volume();
    const auto words = [this](std::uint64_t items) { return lsched::words_of(problem_.type, items); };
    const double sent = words(volume.payload.most_sent), received = words(volume.payload.most_received);
    row_.add(sent, received, 0);
    row_.words_mean += std::max(sent, received) / static_cast<double>(row_.rounds);
    row_.over_bound += static_cast<std::uint64_t>(volume.over_bound);
    row_.add_phase(0, words(volume.split.most_received));
    row_.add_phase(1, words(volume.balance.most_received));
    row_.add_phase(2, words(volume.gather.most_received));
    row_.us_median = summarise(us_).median;
  }

 private:
  sparse_problem problem_;
  sparse_row& row_;
  lockstep ranks_;
  std::vector<double> us_;
};

void expect_memory(const sparse_options& options) {
  if (options.n <= k_most_elements / static_cast<std::uint64_t>(options.ranks)) return;
  throw failed(
      text("cannot count %d ranks of %zu elements: all ranks together may have %zu elements. "
           "Reduce --ranks or --count",
           options.ranks, std::size_t{options.n}, std::size_t{k_most_elements}));
}

/// Runs all variants on the same gradients.
void count_oktopk(const sparse_options& options, std::deque<counted_oktopk>& variants, reporter& out) {
  gradient_source source(
      {.kind = *gradient_kind_named(options.generator), .seed = k_seed, .count = options.n, .ranks = options.ranks});
  std::vector<std::vector<float>> gradients(static_cast<std::size_t>(options.ranks), std::vector<float>(options.n));
  std::vector<const void*> pointers;
  for (const auto& one : gradients) pointers.push_back(one.data());
  for (round_no round = 1; round <= rounds_of(options); ++round) {
    out.progress("round %zu of %zu", std::size_t{round}, std::size_t{rounds_of(options)});
    for (std::size_t r = 0; r < gradients.size(); ++r)
      source.draw(static_cast<rank>(r), round, std::span(gradients[r]));
    for (counted_oktopk& one : variants) one.run(pointers);
  }
}

}  // namespace

int count_sparse_world(const sparse_options& options) {
  reporter out("sparse", options);
  std::deque<sparse_row> rows;
  std::deque<counted_oktopk> variants;
  for (const std::string& algorithm : algorithms_of(options))
    for (const sparse_variant& how : variants_of(options, algorithm)) {
      sparse_row& row = rows.emplace_back(row_of(options, algorithm, how));
      row.is_counted = true;
      row.compute_us = 0;
      if (algorithm == "oktopk") {
        expect_memory(options);
        variants.emplace_back(how.problem, row);
        continue;
      }
      const most_words most = words_of(is_dense(algorithm) ? dense_generator(options, algorithm)
                                                           : generator_of(*find_sparse(algorithm), how.problem),
                                       options.ranks, row.buckets);
      row.rounds = 1;
      row.add(most.sent, most.received, most.metadata);
      row.words_mean = std::max(most.sent, most.received);
    }
  if (!variants.empty()) count_oktopk(options, variants, out);
  out.say("%d ranks counted in this process, without messages; times are totals of all ranks", options.ranks);
  report_rows(options, {rows.begin(), rows.end()}, out);
  return out.finish();
}

}  // namespace lsched::bench
