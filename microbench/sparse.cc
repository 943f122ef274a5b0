// Sparse allreduces beside each other, beside the plain allreduce of the same vector, and beside MPI's: what they move,
// and how long they take.
//
// Run by ranks, each algorithm has a residual and gets the same gradients. Words are what engines have moved, phase by
// phase; every rank's update has to be the same, bit for bit. Counted in one process, the same steps run without
// messages (microbench/sparse_count.h), for worlds of thousands.
#include <algorithm>
#include <bit>
#include <functional>
#include <nlohmann/json.hpp>

#include "bindings/c/runtime.h"
#include "collectives/registry.h"
#include "microbench/benchmarks.h"
#include "microbench/harness.h"
#include "microbench/plot.h"
#include "microbench/sparse_count.h"
#include "microbench/sparse_plot.h"
#include "microbench/sparse_row.h"
#include "microbench/sparse_variant.h"
#include "sparse/gradient_source.h"
#if LSCHED_HAVE_MPI
#include "microbench/mpi_rival.h"
#endif

namespace lsched::bench {
namespace {

constexpr double k_header_words = 4;

/// Words that a rank has sent and received so far: payload by buffer of lists, in the order of the schedule, of which
/// all ranks have as many (but in trees); and all else.
struct moved_words {
  std::vector<double> sent{}, received{};
  double other_sent = 0, other_received = 0;
};

/// Of schedules without lists, all is payload.
moved_words words_of(const lsched_schedule& schedule) {
  moved_words all;
  schedule.runtime->driver().with_engine([&] {
    const auto buffers = schedule.it->program->buffers();
    const bool has_lists = std::ranges::any_of(buffers, &buffer::has_lists);
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      const traffic& one = schedule.it->moved[b];
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
                 .seed = options.seed,
                 .count = options.n,
                 .ranks = ranks.size()}) {}

  sparse_row run(const std::string& algorithm, const sparse_variant& how) {
    sparse_row row = row_of(algorithm, how);
    schedule_handle schedule = algorithm == "dense" ? make_dense() : make(algorithm, how);
    std::vector<double> us;
    moved_words before = words_of(*schedule);
    for (round_no round = 1; round <= row.rounds; ++round) {
      source_.draw(ranks_.rank(), round, std::span(gradient_));
      out_.progress("%s %s, round %llu of %llu", algorithm.c_str(), how.policy.c_str(),
                    static_cast<unsigned long long>(round), static_cast<unsigned long long>(row.rounds));
      us.push_back(timed([&] { expect_ok(lsched_run(schedule.get(), k_patience_ns, nullptr), "lsched_run"); }));
      const moved_words now = words_of(*schedule);
      add_round(row, before, now);
      before = now;
      if (algorithm != "dense") check(row);
    }
    row.us_median = summarise(ranks_.combine(us, LSCHED_MAX)).median;
    combine(row);
    close(std::move(schedule));
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
      us.push_back(timed([&] { rival.run(); }));
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
            .bound_words = published_words(algorithm, problem)};
  }

  schedule_handle make(const std::string& algorithm, const sparse_variant& how) {
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
                                  .balance = static_cast<lsched_balance>(of.balance)};
    lsched_schedule* made = nullptr;
    lsched_diagnostic why = fresh_diagnostic();
    expect_ok(lsched_sparse_create(ranks_.runtime(), &desc, &made, &why), "lsched_sparse_create", why);
    return schedule_handle(made);
  }

  schedule_handle make_dense() {
    const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                     .input = gradient_.data(),
                                     .output = update_.data(),
                                     .count = options_.n,
                                     .dtype = LSCHED_F32,
                                     .reduction = LSCHED_SUM};
    lsched_schedule* made = nullptr;
    lsched_diagnostic why = fresh_diagnostic();
    expect_ok(lsched_allreduce_create(ranks_.runtime(), &desc, &made, &why), "lsched_allreduce_create", why);
    return schedule_handle(made);
  }

  double timed(const std::function<void()>& round) {
    ranks_.barrier();
    const auto before = clock::now();
    round();
    return ns_between(before, clock::now()) / 1e3;
  }

  static void add_round(sparse_row& row, const moved_words& before, const moved_words& now) {
    const double sent = sum_of(now.sent) - sum_of(before.sent),
                 received = sum_of(now.received) - sum_of(before.received);
    row.words_sent_max = std::max(row.words_sent_max, sent);
    row.words_recv_max = std::max(row.words_recv_max, received);
    row.words_meta_max =
        std::max({row.words_meta_max, now.other_sent - before.other_sent, now.other_received - before.other_received});
    row.over_bound += std::max(sent, received) > row.bound_words ? 1u : 0u;
    row.phase_words_max.resize(now.received.size());
    for (std::size_t b = 0; b < now.received.size(); ++b)
      row.phase_words_max[b] = std::max(row.phase_words_max[b], now.received[b] - before.received[b]);
  }

  /// All ranks have the same update, of as many elements as there may be.
  void check(sparse_row& row) {
    const double mine = digest_of(update_);
    const std::vector<double> least = ranks_.combine(std::vector<double>{mine, -mine}, LSCHED_MIN);
    row.violations += least[0] != -least[1] ? 1u : 0u;
    if (row.algorithm != "oktopk" && !row.algorithm.starts_with("gtopk")) return;
    const auto others = static_cast<std::uint64_t>(std::ranges::count(update_, 0.0f));
    row.violations += options_.n - others > row.k ? 1 : 0;
  }

  /// Of all ranks; and phases are those in which anything came.
  void combine(sparse_row& row) {
    const std::vector<double> most =
        ranks_.combine({row.words_sent_max, row.words_recv_max, row.words_meta_max}, LSCHED_MAX);
    row.words_sent_max = most[0], row.words_recv_max = most[1], row.words_meta_max = most[2];
    row.over_bound = static_cast<std::uint64_t>(ranks_.combine(static_cast<double>(row.over_bound), LSCHED_SUM));
    row.violations = static_cast<std::uint64_t>(ranks_.combine(static_cast<double>(row.violations), LSCHED_MAX));
    if (row.algorithm.starts_with("gtopk") || row.algorithm == "dense") row.phase_words_max.clear();  // not the same
    if (!row.phase_words_max.empty()) row.phase_words_max = ranks_.combine(row.phase_words_max, LSCHED_MAX);
    std::erase(row.phase_words_max, 0.0);
  }

  team& ranks_;
  const sparse_options& options_;
  reporter& out_;
  std::vector<float> gradient_, update_;
  gradient_source source_;
};

// ---- report -----------------------------------------------------------------------------------------------

table headings() {
  return table({"algorithm", "policy", "recv/k", "sent/k", "bound/k", "over", "meta words", "phases recv/k",
                "median us", "violations"});
}

void add_line(table& lines, const sparse_row& row) {
  const double k = static_cast<double>(std::max<std::uint64_t>(1, row.k));
  std::string phases;
  for (const double words : row.phase_words_max) phases += (phases.empty() ? "" : " + ") + text("%.2f", words / k);
  const bool is_mpi = row.algorithm == "mpi_allreduce";
  lines.add({row.algorithm, row.policy, is_mpi ? "" : text("%.2f", row.words_recv_max / k),
             is_mpi ? "" : text("%.2f", row.words_sent_max / k), is_mpi ? "" : text("%.2f", row.bound_words / k),
             std::to_string(row.over_bound), is_mpi ? "" : text("%.0f", row.words_meta_max), phases,
             text("%.1f", row.us_median),
             row.violations == 0 ? "0" : text("%llu WRONG", static_cast<unsigned long long>(row.violations))});
}

void explain(reporter& out, const sparse_options& options, std::uint64_t k) {
  out.say("n = %llu, k = %llu, generator %s, %llu rounds; words of 4 bytes, the most that any rank had in any round",
          static_cast<unsigned long long>(options.n), static_cast<unsigned long long>(k), options.generator.c_str(),
          static_cast<unsigned long long>(rounds_of(options)));
}

/// What a plain allreduce by the algorithm that moves least would, by its schedules.
sparse_row count_dense(const sparse_options& options) {
  const algorithm& how = *find("allreduce", "circulant");
  const sparse_variant nothing{"-", {.count = options.n, .place = {0, options.ranks}}};
  sparse_row row{.algorithm = "dense",
                 .policy = "-",
                 .generator = options.generator,
                 .ranks = static_cast<std::uint64_t>(options.ranks),
                 .n = options.n,
                 .k = variants_of(options, "topka").front().problem.k,
                 .rounds = 1,
                 .bound_words = published_words("dense", nothing.problem),
                 .is_counted = true};
  const rank last = options.ranks - 1;
  for (const rank r : {rank{0}, std::min(rank{1}, last), last}) {
    const auto program =
        how.generate({r, options.ranks}, {.count = options.n, .type = dtype::f32, .what = kernel::sum}, {});
    if (!program) throw failed(program.error().text);
    double sent = 0, received = 0, messages = 0;
    for (const op& it : (*program)->ops()) {
      if (it.kind == op_kind::send) sent += static_cast<double>(it.count), ++messages;
      if (it.kind == op_kind::recv) received += static_cast<double>(it.count);
    }
    row.words_sent_max = std::max(row.words_sent_max, sent);
    row.words_recv_max = std::max(row.words_recv_max, received);
    row.words_meta_max = std::max(row.words_meta_max, k_header_words * messages);
  }
  row.over_bound = std::max(row.words_sent_max, row.words_recv_max) > row.bound_words ? 1 : 0;
  return row;
}

}  // namespace

int run_sparse(lsched_runtime* runtime, const sparse_options& options) {
  team ranks(runtime);
  reporter out("sparse", options.json, ranks);
  if (!options.plot.empty()) on_root(ranks, [&] { expect_writable(options.plot); });
  out.introduce(ranks);
  if (options.pin) pin_application(ranks, out);
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
  bool is_drawn = true;
  if (!options.plot.empty()) on_root(ranks, [&] { is_drawn = plot_sparse(options.plot, rows, out); });
  return violations == 0 && !ranks.root_says(!is_drawn) ? 0 : 1;
}

int count_sparse_world(const sparse_options& asked) {
  sparse_options options = asked;
  options.rounds = rounds_of(asked);
  reporter out("sparse", options.json);
  if (!options.plot.empty()) expect_writable(options.plot);
  const std::vector<std::string> asked_for = algorithms_of(options);
  std::vector<std::string> sparse_ones;
  std::ranges::copy_if(asked_for, std::back_inserter(sparse_ones), [](const auto& it) { return it != "dense"; });
  std::vector<sparse_row> rows = count_sparse(options, sparse_ones, [&](std::uint64_t round) {
    out.progress("round %llu of %llu", static_cast<unsigned long long>(round),
                 static_cast<unsigned long long>(options.rounds));
  });
  if (sparse_ones.size() != asked_for.size()) rows.push_back(count_dense(options));
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
  const bool is_drawn = options.plot.empty() || plot_sparse(options.plot, rows, out);
  return violations == 0 && is_drawn ? 0 : 1;
}

}  // namespace lsched::bench
