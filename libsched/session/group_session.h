// A group_session runs the rounds of replica groups on one rank (group_log.h). It stands between the application and
// two instances: `control` carries the log, and `rounds` adds up the contributions of the shard world.
//
//     offer    (application)  copies the contribution to a staging buffer, and increments staged_
//     advance  (engine)       applies entries of the log; if a data round begins: gives the taken offers to `rounds`,
//                             and calls; if the round has ended here: marks its end in the log; if the round is final:
//                             adds its result to the open account
//     collect  (application)  takes the accounts up to the round that has taken its offer
//
// Each rank of a group must change its weights by the same rounds at the same step, although the ranks learn of a round
// at different times. So results are kept in accounts. An account ends with a round that has taken offers of the own
// group, or with a flush. The c-th collect of a rank returns the accounts up to the round that has taken offer c,
// and no later account. This round is a function of the log, so all shards of a group get the same rounds.
//
// An application may have at most `staged` offers that it has not collected. Then a staging buffer is free again before
// it is reused, because collect() returns only final rounds. For the same reason at most staged + 1 accounts are closed
// and not taken, one of them by a flush.
//
// Thread safety: one thread at a time may offer, and one may collect. The engine's owner calls the functions of
// engine_task.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libsched/engine/engine.h"
#include "libsched/session/group_log.h"

namespace lsched {

struct group_options {
  group_shape shape{};
  activation starts{};  ///< counts groups in place of ranks
  lag_policy lag = lag_policy::latest;
  std::uint32_t staged = 0;  ///< offers that the application may have without a collect; at least 1
};

class group_session final : public engine_task {
 public:
  /// Results of `control` that the engine keeps. At most two rounds end in a step.
  static constexpr lag_rule k_control_lag{lag_policy::history, 8};

  /// `control` must keep its results separately (k_control_lag), and `rounds` must have the activation `full` and keep
  /// its latest result. The caller passes the object to engine::carry_on(), and to engine::drop() before its end.
  group_session(engine& runs, instance& control, instance& rounds, const group_options& how);

  const instance& control() const { return *control_; }
  /// Returns the instance that the caller must remove after drain(), in addition to the instances of the session.
  instance** removable_control() { return &control_; }

  // --- application ------------------------------------------------------------------------------------------------

  /// Returns the error of a failed instance, STATE after leave(), during a flush or for an incomplete prepared
  /// contribution, BUSY if too many offers have not been collected, and OK otherwise.
  status may_offer() const;
  const char* why_no_offer() const;

  /// Offers a contribution, and sets `*ticket` to the number of offers. If `weight` is 0 or `parts` is empty, the call
  /// counts as an offer without a contribution.
  status offer(std::span<const source_part> parts, std::uint64_t weight, round_no* ticket);
  /// Copies a part of a contribution. After all parts, commit() offers the contribution.
  status prepare(std::uint64_t begin, const source_part& one);
  status commit(std::uint64_t weight, round_no* ticket);

  /// The progress of a wait: PENDING until `round` of control() has ended; `reason` is static text.
  struct wait {
    status answer = status::ok;
    const instance* failed = nullptr;  ///< set if `answer` is the error of an instance
    round_no round = 0;
    const char* reason = "";
  };
  /// Returns OK once the round that has taken an offer is final.
  wait await(round_no ticket) const;
  /// Copies the result up to that round to `into`. Returns nothing if this result has been collected. await() must have
  /// returned OK.
  std::optional<delivered> collect(round_no ticket, std::span<const target_part> into);

  /// Begins a flush, or continues it. Returns OK once a round that all ranks have requested is final.
  wait flush();
  /// Copies the result up to the round of the flush to `into`, and ends the flush.
  delivered end_flush(std::span<const target_part> into);

  /// The last result that was collected, and its participation.
  const delivered& collected() const { return collected_; }

  /// Makes this rank leave both instances in the next step of the engine.
  void leave();

  /// Describes what a collect or flush of this rank waits for, and sets `*waits_for` to the rank to blame. Only the
  /// engine's owner may call this function.
  std::string describe_wait(rank* waits_for) const;

  // --- engine -----------------------------------------------------------------------------------------------------

  bool advance() override;
  bool is_over() const override { return false; }
  bool is_idle() const override { return true; }
  void lose(rank) override {}
  std::string describe_wait(const membership&, rank*) const override { return {}; }

 private:
  /// A contribution that no final round has taken.
  struct staged_offer {
    std::vector<std::byte> data{};
    std::uint64_t weight = 0;  ///< 0: the offer has no contribution
    round_no call = 0;         ///< round for which the offer was made
  };
  /// The sum of the results, or the latest result, of successive rounds.
  struct account {
    std::vector<std::byte> data{};
    delivered what{};           ///< what.to is 0 if the account is empty
    std::uint64_t tickets = 0;  ///< number of own offers that the rounds up to what.to have taken
  };

  staged_offer& slot_of(std::uint64_t ticket) { return offers_[ticket % offers_.size()]; }
  account& account_at(std::uint64_t number) { return accounts_[number % accounts_.size()]; }
  const account& account_at(std::uint64_t number) const { return accounts_[number % accounts_.size()]; }
  status verdict() const;
  void stage(std::uint64_t weight, round_no* ticket);
  wait pending(round_no applied) const;
  delivered take(std::uint64_t last, std::span<const target_part> into);
  void add(account& into, const delivered& what, const std::byte* data) const;

  bool apply_entries();
  void begin_round();
  bool end_round();
  void expose();
  bool contribute();

  engine& engine_;
  instance* control_;
  instance* rounds_;
  const rank self_, group_;
  const lag_policy lag_;
  const combiner how_;  ///< arithmetic of results

  // --- variables that two threads access ---
  std::atomic<std::uint64_t> staged_{0};        ///< offers of the application; the engine reads it
  std::atomic<std::uint64_t> flushes_{0};       ///< flushes that the application has begun; the engine reads it
  std::atomic<bool> leaves_{false};             ///< set by the application
  std::atomic<std::uint64_t> taken_ticket_{0};  ///< own offers whose results were collected
  std::atomic<std::uint64_t> closed_{0};        ///< accounts that the application may take
  std::atomic<std::uint64_t> flushed_{0};       ///< flushes whose round is final
  std::atomic<round_no> applied_{0};            ///< last entry that the log contains
  std::atomic<round_no> begun_{0};              ///< last data round that has begun
  std::atomic<bool> is_uneven_{false};          ///< the shards of a group have made different numbers of offers
  std::atomic<bool> is_broken_{false};          ///< entries were lost
  std::vector<staged_offer> offers_;
  std::vector<account> accounts_;

  // --- application ---
  bool is_prepared_ = false;
  std::atomic<bool> is_flushing_{false};
  std::uint64_t taken_ = 0;  ///< accounts that were taken
  delivered collected_{};

  // --- engine's owner ---
  group_log log_;
  std::vector<std::uint64_t> entry_, news_;
  /// The data round that has begun last: its groups, the own offers up to it, and whether it was begun by a flush.
  std::uint64_t members_ = 0, given_ = 0;
  bool is_flush_ = false;
  delivery::loan result_{};  ///< result of the round that has ended last on this rank
  std::uint64_t noted_offers_ = 0, noted_flushes_ = 0;
  round_no noted_ends_ = 0, ended_ = 0, exposed_ = 0;
  bool has_left_ = false, has_failed_ = false;
};

}  // namespace lsched
