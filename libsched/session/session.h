// A session runs a partial schedule for one rank: it offers contributions, collects results, and takes part in
// collective calls.
//
// No function here waits. A call that would have to wait returns PENDING and the round for which it waits. The caller
// waits for the end of that round and then calls again. In the library, the driver waits (offload/driver.h). Tests
// advance the engines of all ranks instead. A later call continues where the previous call stopped, even if the caller
// gave up the wait.
//
//     flush        agree on a round ── call for it ── wait ── collect the result ── wait until all ranks have collected
//     model_sync   agree on a round ── call for it ── wait ── drop all results ── mean of the weights
//
// To agree on a round, the ranks run a round of the instance `agreement`. This round waits for all remaining ranks and
// computes the maximum of one u64. Each rank contributes the last round that it has called for, captured a contribution
// for, or finished. The agreed round is the round after the maximum. When a rank enters the call, no rank has called
// for that round, and no rank has captured a contribution for that round. So all earlier offers are in that round or an
// earlier round.
//
// If the instance has fragments (partial_state::fragments), each contribution belongs to one fragment, and each result
// has one fragment. A flush calls for at least one round of each fragment.
//
// With replica groups, offers, collects and flushes go through a group_session. Then withdraw(), model_sync() and
// images of pending contributions do not exist, and skip() has no effect.
//
// Thread safety: as for an instance (instance.h), one thread at a time may offer, and one may collect. A collective
// call is both an offer and a collect.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "libsched/engine/engine.h"
#include "libsched/session/group_session.h"

namespace lsched {

/// The number by which results are divided when they are collected.
enum class divisor : std::uint8_t {
  none,
  ranks,         ///< size of the world in which the session was created, even after a move to another world
  contributors,  ///< number of contributors of the result; only with lag_policy::latest
  offers,        ///< sum of the weights of the offers in the result
};

/// The instances of one session, committed by all ranks in this order.
struct session_instances {
  instance* rounds = nullptr;     ///< instance that moves the contributions and results
  instance* agreement = nullptr;  ///< computes the maximum of one u64 in rounds that wait for all ranks (policy `full`)
  /// Sums the weights in rounds that wait for all ranks. If null, model_sync() returns UNSUPPORTED.
  instance* mean = nullptr;

  /// Creates the struct from two or three instances, in the order of the members. in_order() is the inverse.
  static session_instances of(std::span<instance* const> all) {
    return {all[0], all[1], all.size() > 2 ? all[2] : nullptr};
  }
  std::vector<instance*> in_order() const {
    std::vector<instance*> all{rounds, agreement};
    if (mean != nullptr) all.push_back(mean);
    return all;
  }
};

struct collect_report {
  delivered what{};            ///< the result; `from` == `to`: no new result; `null`: no rank contributed
  round_no round = 0;          ///< last round that is over; after a flush, equal on all ranks
  std::uint64_t fragment = 0;  ///< fragment of round `what.to`
};

struct [[nodiscard]] call_progress {
  status answer = status::ok;         ///< PENDING: call again once `round` of `awaited` is over
  const instance* awaited = nullptr;  ///< set if `answer` is PENDING or the error of a failed instance
  round_no round = 0;
  std::string_view reason{};   ///< static text, set if `answer` is STATE or UNSUPPORTED
  std::uint64_t again_ns = 0;  ///< set if `answer` is PENDING: latest time of the next call (steady clock); 0: no limit
};

class session {
 public:
  /// Creates a session on instances of the engine `runs`. `buckets` has the number of elements of each part of a
  /// contribution or result, for calls that take one pointer per part. If `buckets` is empty, there is one part.
  /// `ranks` is the number by which divisor::ranks divides; 0: the size of the present world.
  session(engine& runs, const session_instances& all, divisor by, std::span<const std::uint64_t> buckets = {},
          std::uint64_t ranks = 0);

  /// Makes the session one of replica groups. Must be called before any other call.
  void use_groups(std::shared_ptr<group_session> groups) { groups_ = std::move(groups); }
  /// Returns null unless the session is one of replica groups.
  group_session* groups() const { return groups_.get(); }

  const buffer& contribution_buffer() const {
    return all_.rounds->program->buffers()[all_.rounds->partial->input_buffer];
  }
  const buffer& result_buffer() const { return all_.rounds->program->buffers()[all_.rounds->partial->output_buffer]; }
  const instance& rounds() const { return *all_.rounds; }
  std::size_t number_of_parts() const { return offered_.size(); }
  bool averages_weights() const { return all_.mean != nullptr; }
  /// Returns true while a flush or model_sync is incomplete on this rank.
  bool is_in_common_call() const { return stage_ != stage::none; }

  /// Sets `*parts` to the parts of a contribution or result. `buckets` has the pointer to each part. `*parts` is valid
  /// until the next call of parts_of(). Returns ARGUMENT if the pointer to a non-empty part is null.
  status parts_of(const void* const* buckets, std::span<const source_part>* parts);
  status parts_of(void* const* buckets, std::span<const target_part>* parts);

  std::uint32_t number_of_fragments() const {
    return static_cast<std::uint32_t>(all_.rounds->partial->fragments.size());
  }

  /// A contribution and its weight. If the contribution is empty or the weight is 0, nothing is contributed.
  struct weighted {
    weighted(std::span<const source_part> parts = {}, std::uint64_t times = 1,
             std::optional<std::uint32_t> belongs_to = {})
        : contribution(parts), weight(times), fragment(belongs_to) {}
    std::span<const source_part> contribution;
    std::uint64_t weight;
    std::optional<std::uint32_t> fragment;  ///< empty: the fragment of the round for which the offer calls
  };
  /// Offers `one`. Then calls for the next round, and sets `*round` to the number of that round. If that round is not
  /// over yet, notifies the engine and sets `*is_posted`. Returns STATE after leave(), while a flush or model_sync is
  /// incomplete, or between prepare() and offer_prepared(). Only sums of dense vectors may have weights above 1. With
  /// replica groups, returns BUSY if too many offers have not been collected.
  status offer(const weighted& one, round_no* round, bool* is_posted);

  /// Returns the reason why offer() or a related function has returned STATE.
  const char* why_no_offer() const;

  /// Skips the finished rounds up to `last`, as if this rank had called for them. Sets `*skipped` to the number of
  /// skipped rounds. The next offer calls for a later round. Returns STATE after leave(), or while a flush or
  /// model_sync is incomplete.
  status skip(round_no last, std::uint64_t* skipped);

  /// Copies a bucket of a contribution, for applications that compute one bucket after the other. Once all buckets are
  /// copied, offer_prepared() offers the contribution and calls for a round. Returns ARGUMENT for an invalid bucket or
  /// null data. Returns STATE whenever skip() would return STATE.
  status prepare(std::uint32_t bucket, const void* data);
  status offer_prepared(std::uint64_t weight, round_no* round, bool* is_posted);

  /// save_pending() returns an image of the pending contribution, for machines of the same byte order. load_pending()
  /// adds such an image to the pending contribution. load_pending() returns ARGUMENT, VERSION or MISMATCH for an image
  /// that does not fit, and STATE whenever offer() would return STATE. After an error nothing has changed.
  std::vector<std::byte> save_pending() const;
  std::optional<failure> load_pending(std::span<const std::byte> image);

  /// Once `round` is over, collects and divides the first uncollected result. If `result` is empty, the result is
  /// dropped. If an incomplete flush has already taken the result of its round, collects that result. If the round's
  /// deadline has passed, starts the round.
  call_progress collect(round_no round, std::span<const target_part> result, collect_report* report);

  /// Does the same as collect(), but without a copy. Sets `*result` to the memory of the result, or to null if there is
  /// no result.
  call_progress collect_view(round_no round, const std::byte** result, collect_report* report);

  /// Discards the pending contribution, and sets `*offers` to the sum of the weights of its offers. Returns STATE while
  /// a flush or model_sync is incomplete.
  status withdraw(std::uint64_t* offers);

  /// Collective over all remaining ranks. Runs rounds of all fragments, after which all earlier offers of all ranks
  /// have been part of a result, and collects the first uncollected result. The first call allocates memory.
  call_progress flush(std::span<const target_part> result, collect_report* report);

  /// Collective over all remaining ranks. Replaces `weights` by their mean over these ranks, and drops pending
  /// contributions and uncollected results. `weights` must not change until the call is complete.
  /// `report->what.contributors` is the number of ranks in the mean.
  call_progress model_sync(void* weights, collect_report* report);

  /// Leaves the session. This rank then counts as having called in every round, without a contribution. A pending
  /// contribution is still sent. A second call has no effect.
  void leave();

  /// After leave(), returns OK once all ranks have left and no message of the session is in flight. A failed instance
  /// counts as finished.
  call_progress drain() const;

  const session_instances& all() const { return all_; }

  /// Replaces the instances by their successors (instance_options::predecessor) in the engine `runs`. Incomplete
  /// collective calls continue.
  void go_on_with(engine& runs, const session_instances& all) {
    engine_ = &runs;
    all_ = all;
  }

  /// Returns the number by which divisor::ranks divides.
  std::uint64_t ranks() const { return ranks_; }

  /// Returns the instances in the order in which the caller must remove them after drain(). The caller sets these
  /// pointers to null.
  std::array<instance**, 3> instances() { return {&all_.mean, &all_.agreement, &all_.rounds}; }

 private:
  enum class common_call : std::uint8_t { none, flush, model_sync };
  /// The progress of this rank in a collective call.
  enum class stage : std::uint8_t { none, asked, called, taken };

  std::vector<fragment_queues>& fragments() const { return all_.rounds->partial->fragments; }
  /// Returns the contributions of the fragment that the next call's round moves.
  contribution& next_contributions() const;
  bool has_left() const { return fragments().front().offers->has_left(); }
  contribution* prepared_contributions() const;
  std::size_t next_to_collect() const;
  template <class Take>
  auto take_next(const Take& take);
  call_progress validate(common_call wanted) const;
  status may_offer() const;
  call_progress progress_of(const group_session::wait& now) const;
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

  engine* engine_;
  session_instances all_;
  std::shared_ptr<group_session> groups_{};
  round_no auto_round_ = 0;                      ///< round for which auto_wait_ns_ was computed
  std::optional<std::uint64_t> auto_wait_ns_{};  ///< longest wait with deadline(auto); empty: no limit
  divisor divisor_;
  std::uint64_t ranks_;  ///< number by which divisor::ranks divides
  std::vector<source_part> offered_;
  std::vector<bool> prepared_;  ///< by bucket: true if prepare() has copied the bucket
  std::size_t collects_ = 0;    ///< fragment after the fragment of the last collected result
  std::vector<target_part> collected_;

  common_call call_ = common_call::none;
  stage stage_ = stage::none;
  round_no target_ = 0;            ///< the last round on which the ranks have agreed
  collect_report taken_{};         ///< report of a flush whose result is in sum_
  std::vector<std::byte> sum_{};   ///< result of the flush that taken_ describes
  std::vector<std::byte> view_{};  ///< divided result, for collect_view()
};

}  // namespace lsched
