// Latency of balanced collectives (float, sum), beside MPI's in the same run.
#include <algorithm>

#include "microbench/benchmarks.h"
#include "microbench/coll/coll_sweep.h"
#include "microbench/harness.h"
#if LSCHED_HAVE_MPI
#include "microbench/coll/mpi_rival.h"
#endif

namespace lsched::bench {
namespace {

/// Says what MPI rows there will be.
rivals introduce_mpi(const team& ranks, [[maybe_unused]] const coll_options& options, reporter& out) {
  rivals how;
#if LSCHED_HAVE_MPI
  const std::string why_not = why_no_mpi(ranks.size());
  how.with_mpi = why_not.empty();
  if (how.with_mpi) {
    how.mpi = mpi_name();
    out.say("MPI rows: %s", mpi_description().c_str());
    for (const std::string& name : options.collectives)
      if (!has_form(mpi_form::persistent, exercise_named(name)))
        out.say("MPI rows: no persistent %s in this MPI, or none that works", name.c_str());
  }
#else
  static_cast<void>(ranks);
  const std::string why_not = "MPI is not in this build";
#endif
  if (how.with_mpi) return how;
  out.say("MPI rows: none, %s", why_not.c_str());
  return how;
}

void explain(const team& ranks, const rivals& how, bool mpi_is_wrong, reporter& out) {
  out.say(
      "Ours: blocking = lsched_run, persistent = lsched_start + lsched_wait; a schedule is persistent by nature, so "
      "there is no third form. A round's time is its slowest rank's. \"/best MPI\": the row's median over that of "
      "MPI's fastest form, in place or not; below 1 the row is faster.");
  if (ranks.is_oversubscribed() && how.with_mpi)
    out.say(
        "Oversubscribed: forms of MPI that spin wait for the scheduler; those that yield give the core up between "
        "tests.");
  if (mpi_is_wrong) out.say("Rows of MPI that are WRONG do not count as its best.");
}

}  // namespace

int run_coll(lsched_world* runtime, const coll_options& options) {
  team ranks(runtime);
  reporter out("coll", options.json, ranks);
  out.introduce(ranks);
  const rivals how = introduce_mpi(ranks, options, out);
  if (options.pin) pin_application(ranks, out);

  std::vector<coll_row> rows;
  bool is_right = true;
  for (const std::string& name : options.collectives)
    is_right = sweep(exercise_named(name), ranks, options, how, out, rows) && is_right;
  const auto is_wrong_mpi = [](const coll_row& row) { return row.wrong > 0 && row.impl == "mpi"; };
  explain(ranks, how, std::any_of(rows.begin(), rows.end(), is_wrong_mpi), out);
  if (!is_right) out.say("WRONG: results of libsched; see the table");
  return is_right ? 0 : 1;
}

}  // namespace lsched::bench
