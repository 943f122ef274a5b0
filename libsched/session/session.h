// A partial schedule as one rank uses it: what the rank offers and collects, and the calls that all ranks make
// together.
//
// A session is above the engine and below whoever waits. No function here waits: a call that has to answers PENDING and
// names the round it needs. The caller waits for that round in its own way (the product by the driver, tests by
// stepping all ranks) and calls again; a caller that gives up may do so, too, and the same call goes on from where it
// was.
//
//     flush        agree on a round ── call for it ── wait ── take the result ── wait until all ranks have taken theirs
//     model_sync   agree on a round ── call for it ── wait ── drop all results ── mean of the weights
//
// To agree, every rank that has not left says how far it has come, in a round of an instance of their own (`agreement`,
// activation full, maximum of one u64); the round after the largest number is one that nobody has called for, and whose
// contribution no rank had given before it came here. So everything that was offered is in that round or before it.
//
// Registers and hand-overs are those of instance.h, and so are the threads: one at a time offers, one at a
// time collects, and the calls that all ranks make together are both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libsched/engine/engine.h"

namespace lsched {

/// What results are divided by when they are collected.
enum class divisor : std::uint8_t {
  none,
  ranks,         ///< the size of the world that the session was made in, also after it has gone on in a smaller one
  contributors,  ///< of the round; lag_policy::latest only
  offers,        ///< that are in the result
};

/// The instances of one session, committed by all ranks in this order.
struct session_instances {
  instance* rounds = nullptr;     ///< whose contributions and results these are
  instance* agreement = nullptr;  ///< activation full: the maximum of one u64
  instance* mean = nullptr;       ///< activation full: the sum of weights; null: model_sync is UNSUPPORTED

  /// From two or three instances, in that order; and the other way round.
  static session_instances of(std::span<instance* const> all) {
    return {all[0], all[1], all.size() > 2 ? all[2] : nullptr};
  }
  std::vector<instance*> in_order() const {
    std::vector<instance*> all{rounds, agreement};
    if (mean != nullptr) all.push_back(mean);
    return all;
  }
};

/// What a collect has delivered.
struct collect_report {
  delivered what{};    ///< `from` == `to`: nothing new. Null: there is no result
  round_no round = 0;  ///< the last round that is over; of a flush the same on all ranks
};

/// How far a call has come.
struct [[nodiscard]] call_progress {
  status answer = status::ok;         ///< PENDING: call again once `round` of `awaited` is over
  const instance* awaited = nullptr;  ///< of PENDING and of a failed instance's verdict
  round_no round = 0;
  std::string_view reason{};   ///< of STATE and UNSUPPORTED, for people; static
  std::uint64_t again_ns = 0;  ///< of PENDING: call again then at the latest, by the steady clock; 0: no matter when
};

class session {
 public:
  /// `engine` runs the instances. `buckets`: elements of each part that contributions and results are cut into, for the
  /// calls that take one pointer a part; empty: one part.
  session(engine& runs, const session_instances& all, divisor by, std::span<const std::uint64_t> buckets = {});

  const buffer& contribution_buffer() const { return all_.rounds->program->buffers()[all_.rounds->input_buffer]; }
  const buffer& result_buffer() const { return all_.rounds->program->buffers()[all_.rounds->output_buffer]; }
  const instance& rounds() const { return *all_.rounds; }
  /// That a contribution and a result are cut into.
  std::size_t number_of_parts() const { return offered_.size(); }
  bool averages_weights() const { return all_.mean != nullptr; }
  /// In the middle of flush or model_sync.
  bool is_in_common_call() const { return stage_ != stage::none; }

  /// The parts of a contribution or a result, one pointer each; until the next call. ARGUMENT: a part that is not empty
  /// has none.
  status parts_of(const void* const* buckets, std::span<const source_part>* parts);
  status parts_of(void* const* buckets, std::span<const target_part>* parts);

  /// Deposits a contribution, or none, and calls for the next round, *round. Posts to the engine if that round is not
  /// over yet: *is_posted. STATE after leave(), or in the middle of flush or model_sync.
  status offer(std::span<const source_part> contribution, round_no* round, bool* is_posted);

  /// Returns why an offer, or a call beside offers, was refused with STATE.
  const char* why_no_offer() const;

  /// The rounds up to `last` that are over count as called for; *skipped = the number of these rounds. The next offer
  /// calls for a round after them. STATE as offer().
  status skip(round_no last, std::uint64_t* skipped);

  /// Takes over a bucket of a contribution that is put together while others of it are still computed; offer_prepared()
  /// deposits the whole and calls, once it has all of them. ARGUMENT: no such bucket, or no data. STATE as offer().
  status prepare(std::uint32_t bucket, const void* data);
  status offer_prepared(round_no* round, bool* is_posted);

  /// What is pending, as bytes for a machine of the same byte order; and what was pending when such an image was made,
  /// beside what is. ARGUMENT, VERSION, MISMATCH: nothing has changed. STATE as offer().
  std::vector<std::byte> save_pending() const;
  std::optional<failure> load_pending(std::span<const std::byte> image);

  /// Once `round` is over: the first result that was not collected, divided. Without parts it is dropped. In the middle
  /// of a flush that has taken its result, that one.
  /// With a deadline that has passed, starts the round.
  call_progress collect(round_no round, std::span<const target_part> result, collect_report* report);

  /// The same where it lies; *result is null where there is none.
  call_progress collect_view(round_no round, const std::byte** result, collect_report* report);

  /// Takes back what is pending; *offers = how many offers that were. STATE in the middle of flush or model_sync.
  status withdraw(std::uint64_t* offers);

  /// With all ranks that have not left: a round in which everything is that was offered before, and its result.
  /// Allocates at the first call.
  call_progress flush(std::span<const target_part> result, collect_report* report);

  /// With all ranks that have not left: replaces `weights` by their mean; what was pending or not collected is dropped.
  /// `weights` must not change until the call is done. `report->what.contributors`: whose weights are in the mean.
  call_progress model_sync(void* weights, collect_report* report);

  /// From now on this rank counts as having called in every round, with nothing to contribute; what is pending is still
  /// sent. Calling it twice is OK.
  void leave();

  /// After leave(): whether all ranks have left, and no message of the session is under way any more. A failed instance
  /// is over, too.
  call_progress drain() const;

  const session_instances& all() const { return all_; }

  /// From now on these are its instances, which go on from those that it had (instance_options::predecessor). Calls
  /// that have not come to their end go on, too.
  void go_on_with(const session_instances& all) { all_ = all; }

  /// The instances in the order in which they are removed, after drain(). Whoever removes one makes it null.
  std::array<instance**, 3> instances() { return {&all_.mean, &all_.agreement, &all_.rounds}; }

 private:
  /// The calls that all ranks make together.
  enum class common_call : std::uint8_t { none, flush, model_sync };
  /// How far this rank has come with one.
  enum class stage : std::uint8_t { none, asked, called, taken };

  call_progress validate(common_call wanted) const;
  status may_offer() const;
  bool call_next(round_no* round);
  void call(instance& one, round_no round);
  void say(round_no round);
  call_progress hear(round_no& furthest);
  call_progress make_common_round();
  collect_report report_of(const std::optional<delivered>& got) const;
  std::uint64_t divisor_of(const delivered& got) const;
  const std::byte* divided(const delivery::loan& result);
  void divide(const delivered& got, std::span<const target_part> result) const;
  std::optional<delivered> take(std::span<const target_part> into);
  collect_report hand_out(std::span<const target_part> into);
  static call_progress await(const instance& one, round_no round);
  call_progress await_own(round_no round);
  std::optional<std::uint64_t> longest_wait_ns(round_no round);

  engine& engine_;
  session_instances all_;
  round_no auto_round_ = 0;                      ///< the round that auto_wait_ns_ is of
  std::optional<std::uint64_t> auto_wait_ns_{};  ///< of deadline(auto)
  divisor divisor_;
  std::uint64_t ranks_;  ///< of the world that the session was made in
  std::vector<source_part> offered_;
  std::vector<bool> prepared_;  ///< by bucket, of a contribution that is put together
  std::vector<target_part> collected_;

  common_call call_ = common_call::none;
  stage stage_ = stage::none;
  round_no target_ = 0;            ///< the common round
  collect_report taken_{};         ///< of a flush that has taken its result
  std::vector<std::byte> sum_{};   ///< that result
  std::vector<std::byte> view_{};  ///< a result that has been divided
};

}  // namespace lsched
