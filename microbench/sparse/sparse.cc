// Compares sparse allreduces, libsched's plain allreduce of the same vector, and MPI_Allreduce. Compares the data that
// these algorithms move, and their times.
//
// In a world of processes, each algorithm has a residual, and all algorithms get the same gradients. Words are the data
// that the engines have moved in each phase. The update must have the same bits on every rank. As in backpropagation, a
// gradient becomes ready from its end to its beginning. DenseOvlp starts each bucket when the bucket is ready. All
// other algorithms wait for the whole gradient. For large worlds, sparse_count.cc counts words without messages.
#include <algorithm>
#include <bit>
#include <numeric>

#include "bindings/c/world.h"
#include "microbench/lockstep/gradient_source.h"
#include "microbench/coll/mpi_baseline.h"
#include "microbench/sparse/sparse_row.h"
#include "ops/hash.h"

namespace lsched::bench {
namespace {

constexpr int k_exact_ranks = 64;  ///< maximum number of ranks for which sums of integers are exact in f32

/// The words that a rank has sent and received so far. Payload is counted separately for each buffer that holds lists,
/// in the order of the schedule. Except in tree algorithms, all ranks have the same number of such buffers.
struct moved_words {
  std::vector<double> sent{}, received{};
  double other_sent = 0, other_received = 0;
};

using schedules = std::vector<schedule_handle>;

/// Adds the words of one schedule. If the schedule has no buffers of lists, all words are payload.
void add_words(moved_words& all, const lsched_schedule& schedule) {
  schedule.world->process.driver().with_engine([&] {
    const auto buffers = schedule.instance->program->buffers();
    const bool has_lists = std::ranges::any_of(buffers, &buffer::has_lists);
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      const traffic& one = schedule.instance->moved[b];
      const double sent = static_cast<double>(one.bytes_sent) / 4,
                   received = static_cast<double>(one.bytes_received) / 4;
      const double headers_out = k_header_words * static_cast<double>(one.messages_sent);
      const double headers_in = k_header_words * static_cast<double>(one.messages_received);
      const bool is_payload = !has_lists || buffers[b].has_lists();
      if (is_payload) all.sent.push_back(sent), all.received.push_back(received);
      all.other_sent += headers_out + (is_payload ? 0 : sent);
      all.other_received += headers_in + (is_payload ? 0 : received);
    }
  });
}

moved_words words_of(const schedules& all_schedules) {
  moved_words all;
  for (const schedule_handle& schedule : all_schedules) add_words(all, *schedule);
  return all;
}

double sum_of(const std::vector<double>& all) { return std::accumulate(all.begin(), all.end(), 0.0); }

/// Returns a hash of an update. Equal updates have equal hashes.
double digest_of(const std::vector<float>& update) {
  fnv_hash hash;
  for (const float element : update) hash.add(std::uint64_t{std::bit_cast<std::uint32_t>(element)});
  return static_cast<double>(hash.value() >> 12);
}

/// Runs the algorithms one after the other on all ranks, and fills their rows.
class contest {
 public:
  contest(team& ranks, const sparse_options& options, reporter& out)
      : ranks_(ranks),
        options_(options),
        out_(out),
        gradient_(options.n),
        update_(options.n),
        source_({.kind = *gradient_kind_named(options.generator),
                 .seed = k_seed,
                 .count = options.n,
                 .ranks = ranks.size()}),
        steps_(options.compute_us > 0 ? steps_for(ranks, options.compute_us) : 0) {}

  sparse_row run(const std::string& algorithm, const sparse_variant& how) {
    sparse_row row = row_of(options_, algorithm, how);
    schedules all = is_dense(algorithm) ? make_dense(algorithm) : make(algorithm, how);
    std::vector<double> us, words;
    moved_words before = words_of(all);
    for (round_no round = 1; round <= row.rounds; ++round) {
      source_.draw(ranks_.rank(), round, std::span(gradient_));
      out_.progress("%s %s, round %zu of %zu", algorithm.c_str(), how.policy.c_str(), std::size_t{round},
                    std::size_t{row.rounds});
      ranks_.barrier();
      us.push_back(us_of([&] { run_round(all); }));
      const moved_words now = words_of(all);
      words.push_back(add_round(row, before, now));
      before = now;
      if (!is_dense(algorithm)) check(row);
    }
    row.us_median = summarise(ranks_.combine(us, LSCHED_MAX)).median;
    if (is_dense(algorithm)) check_sums(row, all);
    row.words_mean = sum_of(ranks_.combine(words, LSCHED_MAX)) / static_cast<double>(row.rounds);
    combine(row);
    for (schedule_handle& schedule : all) close(std::move(schedule));
    return row;
  }

  sparse_row run_mpi() {
    sparse_row row = row_of(options_, "mpi_allreduce", variants_of(options_, "topka").front());
    const exercise sum(k_allreduce, ranks_.rank(), ranks_.size(), options_.n * sizeof(float));
    mpi_baseline baseline(ranks_.is_oversubscribed() ? mpi_form::yielding : mpi_form::blocking, sum, gradient_.data(),
                          update_.data(), false);
    std::vector<double> us;
    for (round_no round = 1; round <= row.rounds; ++round) {
      source_.draw(ranks_.rank(), round, std::span(gradient_));  // so that caches have the same contents in all rounds
      ranks_.barrier();
      us.push_back(us_of([&] {
        compute(steps_);
        baseline.run();
      }));
    }
    row.us_median = summarise(ranks_.combine(us, LSCHED_MAX)).median;
    return row;
  }

 private:
  schedules make(const std::string& algorithm, const sparse_variant& how) {
    const bool is_ours = algorithm == "oktopk";
    const sparse_problem& problem = how.problem;
    const lsched_sparse_desc desc{.struct_size = sizeof desc,
                                  .gradient = gradient_.data(),
                                  .update = update_.data(),
                                  .count = problem.count,
                                  .k = problem.k,
                                  .dtype = LSCHED_F32,
                                  .algorithm = algorithm.c_str(),
                                  .capacity = static_cast<lsched_capacity>(problem.capacity),
                                  .period = is_ours ? problem.period : 0,
                                  .boundaries = static_cast<lsched_boundaries>(problem.boundaries),
                                  .balance = static_cast<lsched_balance>(problem.balance),
                                  .selection = static_cast<lsched_selection>(problem.selection),
                                  .reuse = problem.selection == selection_rule::reused ? problem.reuse : 0,
                                  .bucket = problem.bucket};
    schedules all;
    all.push_back(created("lsched_sparse_create", lsched_sparse_create, ranks_.runtime(), &desc));
    return all;
  }

  /// Creates one schedule for each bucket.
  schedules make_dense(const std::string& algorithm) {
    const cut buckets = buckets_of(options_, algorithm);
    schedules all;
    for (std::uint64_t i = 0; i < bucket_count(options_, algorithm); ++i) {
      const std::uint64_t begin = buckets.begin(i);
      all.push_back(
          make_allreduce(ranks_.runtime(), gradient_.data() + begin, update_.data() + begin, buckets.size(i)));
    }
    return all;
  }

  /// For each bucket, from the last to the first, computes the gradient and starts the allreduce. Then waits for all
  /// allreduces.
  void run_round(const schedules& all) const {
    if (all.size() == 1) {
      compute(steps_);
      bench::run(all.front().get());
      return;
    }
    std::vector<lsched_ticket> started(all.size());
    for (std::size_t i = all.size(); i-- > 0;) {
      compute(steps_ / all.size());
      expect_ok(lsched_start(all[i].get(), &started[i]), "lsched_start");
    }
    for (std::size_t i = all.size(); i-- > 0;)
      expect_ok(lsched_wait(started[i], k_patience_ns, nullptr), "lsched_wait");
  }

  /// Adds the words of a round to the row. Returns max(words sent, words received).
  static double add_round(sparse_row& row, const moved_words& before, const moved_words& now) {
    const double sent = sum_of(now.sent) - sum_of(before.sent),
                 received = sum_of(now.received) - sum_of(before.received);
    if (!is_dense(row.algorithm)) row.compare(sent, received);
    row.add(sent, received, std::max(now.other_sent - before.other_sent, now.other_received - before.other_received));
    for (std::size_t b = 0; b < now.received.size(); ++b) row.add_phase(b, now.received[b] - before.received[b]);
    return std::max(sent, received);
  }

  /// Checks that all ranks have the same update. For oktopk without reused thresholds and for gtopk, also checks that
  /// the update has at most k elements.
  void check(sparse_row& row) {
    const double own = digest_of(update_);
    const std::vector<double> least = ranks_.combine(std::vector<double>{own, -own}, LSCHED_MIN);
    row.violations += least[0] != -least[1] ? 1u : 0u;
    if ((row.algorithm != "oktopk" || row.policy == "reused") && !row.algorithm.starts_with("gtopk")) return;
    const auto others = static_cast<std::uint64_t>(std::ranges::count(update_, 0.0f));
    row.violations += options_.n - others > row.k ? 1 : 0;
  }

  /// Checks the sums in an additional round that is neither timed nor counted. The gradients of this round are
  /// integers, so each rank can compute the expected sums, in any order of additions.
  void check_sums(sparse_row& row, const schedules& all) {
    if (ranks_.size() > k_exact_ranks) return;
    gradient_options integers = source_.options();
    integers.has_integers = true;
    gradient_source source(integers);
    std::vector<float> wanted(options_.n);
    for (int r = 0; r < ranks_.size(); ++r) {
      source.draw(r, 1, std::span(gradient_));
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += gradient_[i];
    }
    source.draw(ranks_.rank(), 1, std::span(gradient_));
    std::ranges::fill(update_, -0.5f);
    run_round(all);
    row.violations += update_ == wanted ? 0u : 1u;
  }

  /// Combines the numbers of all ranks. Drops phases in which no rank received words.
  void combine(sparse_row& row) {
    const std::vector<double> most =
        ranks_.combine({row.words_sent_max, row.words_recv_max, row.words_meta_max}, LSCHED_MAX);
    row.words_sent_max = most[0], row.words_recv_max = most[1], row.words_meta_max = most[2];
    row.over_bound = static_cast<std::uint64_t>(ranks_.combine(static_cast<double>(row.over_bound), LSCHED_SUM));
    row.violations = static_cast<std::uint64_t>(ranks_.combine(static_cast<double>(row.violations), LSCHED_MAX));
    // The phases of these algorithms differ by rank.
    if (row.algorithm.starts_with("gtopk") || is_dense(row.algorithm)) row.phase_words_max.clear();
    if (!row.phase_words_max.empty()) row.phase_words_max = ranks_.combine(row.phase_words_max, LSCHED_MAX);
    std::erase(row.phase_words_max, 0.0);
  }

  team& ranks_;
  const sparse_options& options_;
  reporter& out_;
  std::vector<float> gradient_, update_;
  gradient_source source_;
  std::uint64_t steps_;  ///< steps of compute() in a round
};

}  // namespace

int run_sparse(lsched_world* runtime, const sparse_options& options) {
  team ranks(runtime);
  reporter out("sparse", options, ranks);
  contest one(ranks, options, out);
  std::vector<sparse_row> rows;
  for (const std::string& algorithm : algorithms_of(options))
    for (const sparse_variant& how : variants_of(options, algorithm)) rows.push_back(one.run(algorithm, how));
  if (!mpi_if_measured(ranks, out).empty()) rows.push_back(one.run_mpi());
  report_rows(options, rows, out);
  return out.finish();
}

}  // namespace lsched::bench
