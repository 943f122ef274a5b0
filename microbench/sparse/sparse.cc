// Sparse allreduces beside each other, beside the plain allreduce of the same vector, and beside MPI's: what they move,
// and how long they take.
//
// Run by ranks, each algorithm has a residual and gets the same gradients. Words are what engines have moved, phase by
// phase; every rank's update has to be the same, bit for bit. A gradient becomes ready from its end to its beginning,
// as backpropagation makes it: all but DenseOvlp wait for all of it, which starts on each bucket as it is there.
// Counted in one process, the same steps run without messages (sparse_count.h), for worlds of thousands.
#include <algorithm>
#include <bit>
#include <functional>
#include <nlohmann/json.hpp>

#include "bindings/c/world.h"
#include "collectives/registry.h"
#include "microbench/baselines/gradient_source.h"
#include "microbench/benchmarks.h"
#include "microbench/computing.h"
#include "microbench/harness.h"
#include "microbench/sparse/sparse_count.h"
#include "microbench/sparse/sparse_row.h"
#include "microbench/sparse/sparse_variant.h"
#if LSCHED_HAVE_MPI
#include "microbench/coll/mpi_rival.h"
#endif

namespace lsched::bench {
namespace {

constexpr double k_header_words = 4;
constexpr int k_exact_ranks = 64;  ///< whose drawn integers have sums that f32 can hold

/// Words that a rank has sent and received so far: payload by buffer of lists, in the order of the schedule, of which
/// all ranks have as many (but in trees); and all else.
struct moved_words {
  std::vector<double> sent{}, received{};
  double other_sent = 0, other_received = 0;
};

using schedules = std::vector<schedule_handle>;

/// Adds those of one schedule. Where there are no lists, all is payload.
void add_words(moved_words& all, const lsched_schedule& it) {
  it.world->process.driver().with_engine([&] {
    const auto buffers = it.instance->program->buffers();
    const bool has_lists = std::ranges::any_of(buffers, &buffer::has_lists);
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      const traffic& one = it.instance->moved[b];
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

moved_words words_of(const schedules& of) {
  moved_words all;
  for (const schedule_handle& it : of) add_words(all, *it);
  return all;
}

double sum_of(const std::vector<double>& all) {
  double sum = 0;
  for (const double it : all) sum += it;
  return sum;
}

/// The same for equal updates, and most likely for no others.
double digest_of(const std::vector<float>& update) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const float it : update) hash = (hash ^ std::bit_cast<std::uint32_t>(it)) * 0x100000001b3;
  return static_cast<double>(hash >> 12);
}

/// Of denseovlp, that of each bucket in whole blocks.
double bound_of(const std::string& algorithm, sparse_problem problem, const sparse_options& options) {
  const cut buckets = buckets_of(options, algorithm);
  double words = 0;
  for (std::uint64_t i = 0; i < bucket_count(options, algorithm); ++i) {
    problem.count = buckets.size(i);
    words += published_words(algorithm, problem);
  }
  return words;
}

/// One algorithm, run by all ranks.
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
    sparse_row row = row_of(algorithm, how);
    schedules all = is_dense(algorithm) ? make_dense(algorithm) : make(algorithm, how);
    std::vector<double> us, words;
    moved_words before = words_of(all);
    for (round_no round = 1; round <= row.rounds; ++round) {
      source_.draw(ranks_.rank(), round, std::span(gradient_));
      out_.progress("%s %s, round %llu of %llu", algorithm.c_str(), how.policy.c_str(),
                    static_cast<unsigned long long>(round), static_cast<unsigned long long>(row.rounds));
      us.push_back(timed([&] { run_round(all); }));
      const moved_words now = words_of(all);
      words.push_back(add_round(row, before, now));
      before = now;
      if (!is_dense(algorithm)) check(row);
    }
    row.us_median = summarise(ranks_.combine(us, LSCHED_MAX)).median;
    if (is_dense(algorithm)) check_sums(row, all);
    row.words_mean = sum_of(ranks_.combine(words, LSCHED_MAX)) / static_cast<double>(row.rounds);
    combine(row);
    for (schedule_handle& it : all) close(std::move(it));
    return row;
  }

#if LSCHED_HAVE_MPI
  sparse_row run_mpi() {
    sparse_row row = row_of("mpi_allreduce", variants_of(options_, "topka").front());
    const exercise what(exercise_named("allreduce"), ranks_.rank(), ranks_.size(), options_.n * sizeof(float));
    mpi_rival rival(ranks_.is_oversubscribed() ? mpi_form::yielding : mpi_form::blocking, what, gradient_.data(),
                    update_.data(), false);
    std::vector<double> us;
    for (round_no round = 1; round <= row.rounds; ++round) {
      source_.draw(ranks_.rank(), round, std::span(gradient_));  // as the others: what is in caches is the same
      us.push_back(timed([&] {
        compute(steps_);
        rival.run();
      }));
    }
    row.us_median = summarise(ranks_.combine(us, LSCHED_MAX)).median;
    return row;
  }
#endif

 private:
  sparse_row row_of(const std::string& algorithm, const sparse_variant& how) const {
    sparse_problem problem = how.problem;
    problem.place.size = ranks_.size();
    return {.algorithm = algorithm,
            .policy = how.policy,
            .generator = options_.generator,
            .ranks = static_cast<std::uint64_t>(ranks_.size()),
            .n = problem.count,
            .k = most_items(problem),
            .rounds = rounds_of(options_),
            .bound_words = bound_of(algorithm, problem, options_),
            .buckets = bucket_count(options_, algorithm),
            .compute_us = options_.compute_us};
  }

  schedules make(const std::string& algorithm, const sparse_variant& how) {
    const bool is_ours = algorithm == "oktopk";
    const sparse_problem& of = how.problem;
    const lsched_sparse_desc desc{.struct_size = sizeof desc,
                                  .gradient = gradient_.data(),
                                  .update = update_.data(),
                                  .count = of.count,
                                  .k = of.k,
                                  .dtype = LSCHED_F32,
                                  .algorithm = algorithm.c_str(),
                                  .capacity = static_cast<lsched_capacity>(of.capacity),
                                  .period = is_ours ? of.period : 0,
                                  .boundaries = static_cast<lsched_boundaries>(of.boundaries),
                                  .balance = static_cast<lsched_balance>(of.balance),
                                  .selection = static_cast<lsched_selection>(of.selection),
                                  .reuse = of.selection == selection_rule::reused ? of.reuse : 0,
                                  .bucket = of.bucket};
    schedules all;
    all.push_back(created("lsched_sparse_create", lsched_sparse_create, ranks_.runtime(), &desc));
    return all;
  }

  /// One for each bucket.
  schedules make_dense(const std::string& algorithm) {
    const cut buckets = buckets_of(options_, algorithm);
    schedules all;
    for (std::uint64_t i = 0; i < bucket_count(options_, algorithm); ++i) {
      const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                       .input = gradient_.data() + buckets.begin(i),
                                       .output = update_.data() + buckets.begin(i),
                                       .count = buckets.size(i),
                                       .dtype = LSCHED_F32,
                                       .reduction = LSCHED_SUM};
      all.push_back(created("lsched_allreduce_create", lsched_allreduce_create, ranks_.runtime(), &desc));
    }
    return all;
  }

  /// From the last bucket to the first: what it takes to make it ready, and its start. Then all are awaited.
  void run_round(const schedules& all) const {
    if (all.size() == 1) {
      compute(steps_);
      expect_ok(lsched_run(all.front().get(), k_patience_ns, nullptr), "lsched_run");
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

  double timed(const std::function<void()>& round) {
    ranks_.barrier();
    const auto before = clock::now();
    round();
    return ns_between(before, clock::now()) / 1e3;
  }

  /// Answers what this rank has sent or received, whichever is more.
  static double add_round(sparse_row& row, const moved_words& before, const moved_words& now) {
    const double sent = sum_of(now.sent) - sum_of(before.sent),
                 received = sum_of(now.received) - sum_of(before.received);
    row.words_sent_max = std::max(row.words_sent_max, sent);
    row.words_recv_max = std::max(row.words_recv_max, received);
    row.words_meta_max =
        std::max({row.words_meta_max, now.other_sent - before.other_sent, now.other_received - before.other_received});
    if (!is_dense(row.algorithm)) row.over_bound += std::max(sent, received) > row.bound_words ? 1u : 0u;
    row.phase_words_max.resize(now.received.size());
    for (std::size_t b = 0; b < now.received.size(); ++b)
      row.phase_words_max[b] = std::max(row.phase_words_max[b], now.received[b] - before.received[b]);
    return std::max(sent, received);
  }

  /// All ranks have the same update, of as many elements as there may be (of reused thresholds, any number).
  void check(sparse_row& row) {
    const double mine = digest_of(update_);
    const std::vector<double> least = ranks_.combine(std::vector<double>{mine, -mine}, LSCHED_MIN);
    row.violations += least[0] != -least[1] ? 1u : 0u;
    if ((row.algorithm != "oktopk" || row.policy == "reused") && !row.algorithm.starts_with("gtopk")) return;
    const auto others = static_cast<std::uint64_t>(std::ranges::count(update_, 0.0f));
    row.violations += options_.n - others > row.k ? 1 : 0;
  }

  /// Of integers, which no order of sums changes: one round more, not counted, that all ranks can foretell.
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

  /// Of all ranks; and phases are those in which anything came.
  void combine(sparse_row& row) {
    const std::vector<double> most =
        ranks_.combine({row.words_sent_max, row.words_recv_max, row.words_meta_max}, LSCHED_MAX);
    row.words_sent_max = most[0], row.words_recv_max = most[1], row.words_meta_max = most[2];
    row.over_bound = static_cast<std::uint64_t>(ranks_.combine(static_cast<double>(row.over_bound), LSCHED_SUM));
    row.violations = static_cast<std::uint64_t>(ranks_.combine(static_cast<double>(row.violations), LSCHED_MAX));
    if (row.algorithm.starts_with("gtopk") || is_dense(row.algorithm)) row.phase_words_max.clear();  // not the same
    if (!row.phase_words_max.empty()) row.phase_words_max = ranks_.combine(row.phase_words_max, LSCHED_MAX);
    std::erase(row.phase_words_max, 0.0);
  }

  team& ranks_;
  const sparse_options& options_;
  reporter& out_;
  std::vector<float> gradient_, update_;
  gradient_source source_;
  std::uint64_t steps_;  ///< of computing, in a round
};

// ---- report -----------------------------------------------------------------------------------------------

table headings() {
  return table({"algorithm", "policy", "recv/k", "sent/k", "mean/k", "bound/k", "over", "meta words", "phases recv/k",
                "median us", "violations"});
}

void add_line(table& lines, const sparse_row& row) {
  const double k = static_cast<double>(std::max<std::uint64_t>(1, row.k));
  std::string phases;
  for (const double words : row.phase_words_max) phases += (phases.empty() ? "" : " + ") + text("%.2f", words / k);
  const bool is_mpi = row.algorithm == "mpi_allreduce";
  lines.add({row.algorithm, row.policy, is_mpi ? "" : text("%.2f", row.words_recv_max / k),
             is_mpi ? "" : text("%.2f", row.words_sent_max / k), is_mpi ? "" : text("%.2f", row.words_mean / k),
             is_mpi ? "" : text("%.2f", row.bound_words / k), std::to_string(row.over_bound),
             is_mpi ? "" : text("%.0f", row.words_meta_max), phases, text("%.1f", row.us_median),
             row.violations == 0 ? "0" : text("%llu WRONG", static_cast<unsigned long long>(row.violations))});
}

void explain(reporter& out, const sparse_options& options, std::uint64_t k) {
  out.say(
      "n = %llu, k = %llu, generator %s, %llu rounds; words of 4 bytes, the most that any rank had in any "
      "round; mean: of the busiest rank, over all rounds",
      static_cast<unsigned long long>(options.n), static_cast<unsigned long long>(k), options.generator.c_str(),
      static_cast<unsigned long long>(rounds_of(options)));
}

/// What plain allreduces by the algorithm that moves least would, by their schedules.
sparse_row count_dense(const sparse_options& options, const std::string& algorithm) {
  const lsched::algorithm& how = *find("allreduce", "circulant");
  const cut buckets = buckets_of(options, algorithm);
  sparse_row row{.algorithm = algorithm,
                 .policy = "-",
                 .generator = options.generator,
                 .ranks = static_cast<std::uint64_t>(options.ranks),
                 .n = options.n,
                 .k = variants_of(options, "topka").front().problem.k,
                 .rounds = 1,
                 .bound_words = bound_of(algorithm, {.count = options.n, .place = {0, options.ranks}}, options),
                 .is_counted = true,
                 .buckets = bucket_count(options, algorithm)};
  const rank last = options.ranks - 1;
  for (const rank r : {rank{0}, std::min(rank{1}, last), last}) {
    double sent = 0, received = 0, messages = 0;
    for (std::uint64_t i = 0; i < row.buckets; ++i) {
      const auto program =
          how.generate({r, options.ranks}, {.count = buckets.size(i), .type = dtype::f32, .what = kernel::sum}, {});
      if (!program) throw failed(program.error().text);
      for (const op& it : (*program)->ops()) {
        if (it.kind == op_kind::send) sent += static_cast<double>(it.count), ++messages;
        if (it.kind == op_kind::recv) received += static_cast<double>(it.count);
      }
    }
    row.words_sent_max = std::max(row.words_sent_max, sent);
    row.words_recv_max = std::max(row.words_recv_max, received);
    row.words_meta_max = std::max(row.words_meta_max, k_header_words * messages);
  }
  row.words_mean = std::max(row.words_sent_max, row.words_recv_max);
  return row;
}

}  // namespace

int run_sparse(lsched_world* runtime, const sparse_options& options) {
  team ranks(runtime);
  reporter out("sparse", options.json, ranks);
  out.introduce(ranks);
  contest one(ranks, options, out);
  std::vector<sparse_row> rows;
  for (const std::string& algorithm : algorithms_of(options))
    for (const sparse_variant& how : variants_of(options, algorithm)) rows.push_back(one.run(algorithm, how));
#if LSCHED_HAVE_MPI
  if (const std::string why_not = why_no_mpi(ranks.size()); why_not.empty())
    rows.push_back(one.run_mpi());
  else
    out.say("MPI row: none, %s", why_not.c_str());
#endif
  table lines = headings();
  std::uint64_t violations = 0;
  for (const sparse_row& row : rows) {
    out.json(json_of(row));
    add_line(lines, row);
    violations += row.violations;
  }
  explain(out, options, rows.front().k);
  out.print(lines);
  return violations == 0 ? 0 : 1;
}

int count_sparse_world(const sparse_options& asked) {
  constexpr rank k_most_ranks = 16384;  // a round takes time by the square of them
  if (asked.ranks > k_most_ranks)
    throw failed("a world of " + std::to_string(asked.ranks) + " ranks is not counted, but of " +
                 std::to_string(k_most_ranks) + " at most");
  sparse_options options = asked;
  options.rounds = rounds_of(asked);
  reporter out("sparse", options.json);
  const std::vector<std::string> asked_for = algorithms_of(options);
  std::vector<std::string> sparse_ones;
  std::ranges::copy_if(asked_for, std::back_inserter(sparse_ones), std::not_fn(is_dense));
  std::vector<sparse_row> rows = count_sparse(options, sparse_ones, [&](std::uint64_t round) {
    out.progress("round %llu of %llu", static_cast<unsigned long long>(round),
                 static_cast<unsigned long long>(options.rounds));
  });
  for (const std::string& algorithm : asked_for)
    if (is_dense(algorithm)) rows.push_back(count_dense(options, algorithm));
  std::uint64_t violations = 0;
  table lines = headings();
  for (const sparse_row& row : rows) {
    out.json(json_of(row));
    add_line(lines, row);
    violations += row.violations;
  }
  explain(out, options, rows.empty() ? 0 : rows.front().k);
  out.say("%d ranks counted in this process: no messages; times are those of all ranks one after the other",
          options.ranks);
  out.print(lines);
  return violations == 0 ? 0 : 1;
}

}  // namespace lsched::bench
