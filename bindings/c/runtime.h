// What stands behind the C handles: the composition root.
//
// A runtime is one rank's endpoint, engine, driver and (usually) progress thread, built from the bottom up and torn
// down in reverse. The C functions check arguments, call C++ and translate failures; they hold no logic of their own.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "bindings/c/lsched.h"
#include "collectives/schedule_cache.h"
#include "libsched/commit.h"
#include "libsched/shm_endpoint.h"
#include "offload/driver.h"
#include "offload/lane_choice.h"
#include "offload/progress_thread.h"
#include "sparse/coo_functions.h"
#include "sparse/sparse_functions.h"
#include "sparse/state.h"

namespace lsched {

/// Options after defaults, environment and checks.
struct runtime_options {
  bool wants_thread = true;
  idle_mode idle = idle_mode::automatic;
  std::optional<unsigned> core;
  lane_choice arithmetic;
  std::uint64_t region_bytes = 0;
  std::chrono::nanoseconds commit_timeout{};
  shm_options shm;
  selection choose_by;       ///< but for what is around
  rank ranks_per_node = 0;   ///< so many neighbours play a node; 0: real nodes
  std::string trace_prefix;  ///< where to write a trace of everything; empty: nowhere
};

/// Reads a caller's config (null: defaults and environment). ARGUMENT names the field that is wrong.
result<runtime_options> read_config(const lsched_config* config);

/// What a rank shares its machine with.
struct neighbourhood {
  unsigned ranks = 1;         ///< on this machine
  unsigned cores = 1;         ///< that they may use together
  rank ranks_per_core = 1;    ///< rounded up, on the machine of the world where it is worst; equal on all ranks
  std::vector<rank> nodes{};  ///< by rank of the world, a number that those who share memory share; empty: all do
};

/// A deadline that far from now; LSCHED_FOREVER is never.
driver::clock::time_point deadline_after(std::uint64_t timeout_ns);

/// Writes a failure where the caller wants it, and answers its code.
lsched_status report(lsched_diagnostic* diagnostic, const failure& why, round_no round = 0);

/// An ordinary schedule, if there is one, with the caller's memory: one pointer per input and per output. Where a
/// buffer that is not empty has none, the request carries that error.
commit_request bound(std::string agreement, result<schedule_ptr> program, const void* const* inputs,
                     void* const* outputs);

/// How every create ends: commits, and makes the handle. The request goes out even if this rank's arguments are bad,
/// since the others have to learn of it.
lsched_status commit(lsched_runtime* runtime, commit_request request, bool in_place, lsched_schedule** schedule,
                     lsched_diagnostic* diagnostic);

/// Turns a wait's answer into the caller's, with the reason where it is not ok. `it` is one of the schedule's.
lsched_status explain(const lsched_schedule& schedule, const instance& it, status answer, round_no round,
                      lsched_diagnostic* diagnostic);
lsched_status wait_for(const lsched_schedule& schedule, instance& it, round_no round, driver::clock::time_point until,
                       lsched_diagnostic* diagnostic);

/// Whether any output overlaps with an input, or another output: memory for such a sum, as lsched_rebind takes it.
bool has_overlaps(const coo_problem& of, const void* const* inputs, void* const* outputs);

/// What was wrong with a round of a sum of users' sparse vectors, in words; nothing: ok.
failure failure_of(const coo_verdict& verdict, const coo_problem& of);

/// What a partial schedule's offers are, and what its rounds make of them.
const buffer& contribution_of(const lsched_schedule& schedule);
const buffer& result_of(const lsched_schedule& schedule);

/// Copies as much of a text as there is room for, terminated; *needed (optional) = the room for all of it.
void copy_out(const std::string& whole, char* text, std::size_t bytes, std::size_t* needed);

/// What is answered where a schedule is missing or of the other kind.
lsched_status refuse(const lsched_schedule* schedule);

/// Runs a cold call. The only exceptions that can come up are the standard library's; none crosses the C interface.
template <class Call>
lsched_status guarded(lsched_diagnostic* diagnostic, Call&& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return report(diagnostic, {status::no_memory, "out of memory"});
  } catch (const std::exception& what) {
    return report(diagnostic, {status::internal, what.what()});
  }
}

}  // namespace lsched

struct lsched_runtime {
  /// `may_have_thread`: false where the transport forbids one.
  lsched_runtime(std::unique_ptr<lsched::endpoint> net, const lsched::runtime_options& options,
                 const lsched::neighbourhood& around, bool may_have_thread, std::string remark);
  ~lsched_runtime();

  /// Commits, waiting for all ranks up to the configured limit. One thread at a time.
  lsched::result<lsched::instance*> commit(const lsched::commit_request& request);

  lsched::world place() const { return net_->place(); }
  lsched::schedule_cache& schedules_made() { return cache_; }
  /// As in shape::nodes.
  const std::vector<lsched::rank>& nodes() const { return cache_.by().around.nodes; }
  bool has_thread() const { return thread_.has_value(); }
  bool wants_thread() const { return options_.wants_thread; }
  lsched::engine& engine() { return engine_; }
  lsched::driver& driver() { return driver_; }
  lsched::endpoint& net() { return *net_; }
  std::string describe() const;

  // Recording; one thread at a time. write_trace ends what start_trace has begun.
  void start_trace(std::uint64_t events);
  bool is_traced() const { return trace_ != nullptr; }
  std::optional<lsched::failure> write_trace(const std::string& path);

  std::atomic<std::uint64_t> schedules{0};

 private:
  /// Under the next number. BUSY: an older schedule has its place.
  lsched::result<lsched::instance*> commit_once(const lsched::commit_request& request);

  lsched::runtime_options options_;
  std::unique_ptr<lsched::endpoint> net_;
  lsched::schedule_cache cache_;
  std::unique_ptr<lsched::lane> lane_;
  lsched::engine engine_;
  lsched::driver driver_;
  std::unique_ptr<lsched::trace_buffer> trace_;
  std::optional<lsched::progress_thread> thread_;
  std::string remark_;
  std::mutex commit_guard_;
  bool is_out_of_step_ = false;  ///< a commit timed out: no later one can match
};

struct lsched_schedule {
  /// How far this rank has come with what all ranks do together (lsched_flush, lsched_model_sync): a call that ran into
  /// its timeout goes on here.
  struct meeting {
    enum class step : std::uint8_t { none, asked, called, taken } at = step::none;
    bool is_model_sync = false;
    lsched::round_no target = 0;   ///< the round of the schedule that comes next for all
    lsched_report told{};          ///< of a flush that has taken its result
    std::vector<std::byte> sum{};  ///< that result
  };

  lsched_runtime* runtime;
  lsched::instance* it;
  bool in_place = false;
  std::int64_t overlay_bytes = 0;         ///< in place, from the output's beginning to the input's
  std::vector<lsched::tensor> tensors{};  ///< of an ordinary adasum, at least one; of all others none
  bool looks_at_tensors = true;  ///< of an ordinary adasum: false where there is nothing to combine, or a mean to take
  lsched::round_no bound_after = 0;       ///< rounds that wrote to memory that was bound earlier
  lsched::instance* agreement = nullptr;  ///< of a partial one: by which ranks agree on a round
  lsched::instance* mean = nullptr;       ///< of a partial one, if asked for: through which weights are averaged
  lsched_divisor divisor = LSCHED_DIVIDE_BY_NONE;  ///< of a partial one
  std::vector<lsched::source_part> offered{};      ///< of a partial one: its buckets, of the offer that is being made
  std::vector<lsched::target_part> collected{};    ///< likewise, of the collect
  meeting met{};
  std::shared_ptr<lsched::sparse_state> residual{};     ///< of a sparse allreduce: what lives from round to round
  std::shared_ptr<lsched::judging_functions> sparse{};  ///< likewise: what judges its rounds
  std::shared_ptr<lsched::coo_functions> coo{};         ///< of a sum of users' sparse vectors: what judges its rounds
  bool is_partial() const { return it->program->is_partial(); }
};
