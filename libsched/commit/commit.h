// A commit: a step that all members of a world make together, each once and in the same order. (docs/inside/worlds.md)
//
// Every rank reserves first, so that early messages find their place; then it shows the others a record of what it is
// about to commit, gathers theirs, and goes on only if all agree. A rank whose own arguments are bad still shows a
// record, with its error, so that every rank hears of it and none is left waiting.
//
//     made ── queued ── record posted ── all records gathered ── concluded: it stands, or why not
//                    └─────────────────────────────────────────── given up by some member
//
// If any member asks for a proof, more exchanges come before the conclusion: the texts in which the members describe
// their parts, page by page, and then each member's record once more, with the outcome of the member's proof.
//
// Nobody need wait for that: what a schedule_commit makes is there from the beginning, takes calls, and ends with a
// verdict if the ranks do not agree upon it.
//
// commit_queue.h moves commits through that; here is what a commit is. What is common to all is commitment; a schedule
// that a world's ranks are to run is a schedule_commit.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "libsched/commit/text_exchange.h"
#include "libsched/engine/engine.h"
#include "libsched/transport/membership.h"

namespace lsched {

/// What a rank tells the others. Plain bytes: they cross process and node borders.
struct commit_record {
  std::uint64_t number;  ///< in the world: catches ranks that commit in different orders
  std::int32_t code;     ///< this rank's own status of its arguments
  std::int16_t is_synchronising;
  std::int16_t asks_for_proof;
  std::uint64_t agreement_hash;  ///< of all of it
  std::uint64_t reductions;      ///< of a schedule: by which reduction the rank combines elements of each dtype
  member_address addresses[8];   ///< of this rank's ends of what is made
  char agreement[160];           ///< as much as there is room for
  char detail[320];              ///< the text that goes with an error, or what the kind of commit has to tell
};
static_assert(sizeof(commit_record) <= board::record_bytes);

class commitment {
 public:
  virtual ~commitment() = default;

  /// Nobody here wants what comes of it any more, though it has not ended. By the engine's owner.
  virtual void abandon() = 0;

  commitment(const commitment&) = delete;
  commitment& operator=(const commitment&) = delete;

  /// What is waited for. Any thread.
  const common_step& progress() const { return progress_; }

  /// Once it has ended.
  const failure& why() const { return why_; }
  /// Why this rank was refused, if so; does not change.
  const std::optional<failure>& refused() const { return refused_; }

 protected:
  /// `agreement`: what all ranks must have said, in words, such as "allreduce recursive_doubling sum f32 count 1000".
  commitment(membership_ptr members, std::uint64_t number, const std::string& agreement);

  /// This rank cannot: what the record tells the others. Before it is queued.
  void refuse(failure why);

  /// Returns the text that describes this rank's part, for the proof.
  virtual std::string describe_part() const { return {}; }
  /// Proves the commitment from the texts of all members, by rank. Returns the reason if the proof fails.
  virtual std::optional<failure> find_fault(std::span<const std::string>) const { return std::nullopt; }

  /// Whether all agree, and what follows from it: the records of all members, by rank.
  virtual std::optional<failure> conclude(const std::vector<commit_record>& all) = 0;
  /// It does not stand.
  virtual void withdraw(const failure& why) = 0;

  rank self() const { return members_->place().self; }

  const membership_ptr members_;
  commit_record record_{};

 private:
  friend class commit_queue;
  /// The step after an exchange.
  struct after_exchange {
    bool is_last = true;           ///< false: another exchange follows
    std::optional<failure> why{};  ///< after the last exchange: why the commit does not stand
  };

  /// Writes this rank's next record.
  void write_record(std::span<std::byte> record) const;
  /// Reads the records of all members, by rank.
  after_exchange read_records(std::span<const std::byte> records);
  after_exchange read_texts(std::span<const std::byte> records);
  void begin_proof(std::size_t members);
  void end_proof();

  void end(const std::optional<failure>& why);
  void end_as(const failure& why);
  void write_error(const failure& why);
  std::optional<failure> find_disagreement(const std::vector<commit_record>& all) const;

  common_step progress_;
  std::optional<failure> refused_{};
  std::optional<text_exchange> texts_{};  ///< while the texts for a proof are under way
  bool has_proved_ = false;               ///< this rank has ended its proof, with or without a fault
  std::optional<failure> fault_{};        ///< found by the proof
  failure why_{status::ok, {}, k_no_rank, k_no_op};
};

/// A partial schedule that is committed together with another one, and that follows from the agreement upon it.
struct companion {
  std::string purpose;  ///< for people
  schedule_ptr program;
  instance* predecessor = nullptr;  ///< as in instance_options
};

/// The proof of a schedule before the schedule stands: from the texts in which the ranks describe their parts, each
/// rank proves the whole world. All ranks have the functions, because one rank that asks is enough. The engine's owner
/// calls them. Texts of more than k_most_proof_bytes together are refused.
struct commit_proof {
  bool is_asked = false;  ///< this rank asks for the proof
  std::function<std::string()> describe_part{};
  std::function<std::optional<failure>(std::span<const std::string> parts)> find_fault{};
};

inline constexpr std::uint64_t k_most_proof_bytes = std::uint64_t{16} << 20;

/// What the ranks must agree on, in words. Only differences that matter belong in it.
struct commit_request {
  std::string agreement;
  result<schedule_ptr> program;  ///< or why this rank has none
  binding memory{};
  instance_options options{};
  std::vector<companion> companions{};  ///< at most two
  std::size_t flights = 1;              ///< instances of the program, for rounds that are under way together
  commit_proof proof{};
};

inline constexpr std::size_t k_most_flights = std::extent_v<decltype(commit_record::addresses)>;

/// The record also carries this rank's part of the world's edge_balance: whether every send has its receive, with the
/// same peer, tag, kind, dtype and capacity, every rank knows without another message. And it says by which reduction a
/// rank combines elements of each dtype, which the two ends of an edge cannot tell: ranks that know but one must mean
/// the same.
class schedule_commit final : public commitment {
 public:
  /// By the engine's owner. Reserves everything.
  schedule_commit(engine& where, membership_ptr members, std::uint64_t number, const commit_request& request);

  /// The instances, those of the request first, then its companions: whoever has asked for them removes them, also if
  /// the commit does not stand, when there are none here any more. None if this rank was refused.
  std::span<instance* const> made() const { return {made_.data(), count_}; }
  /// The first of them; null: there is none.
  instance* committed() const { return count_ == 0 ? nullptr : made_.front(); }

  void abandon() override;

 private:
  std::string describe_part() const override { return proof_.describe_part(); }
  std::optional<failure> find_fault(std::span<const std::string> parts) const override {
    return proof_.find_fault(parts);
  }
  std::optional<failure> conclude(const std::vector<commit_record>& all) override;
  void withdraw(const failure& why) override;

  std::optional<failure> reserve(const commit_request& request);
  std::optional<failure> add(schedule_ptr program, const binding& memory, const instance_options& options,
                             std::string label);
  void remove_orphans();

  engine& engine_;
  const commit_proof proof_;
  std::array<instance*, k_most_flights> made_{};
  std::size_t count_ = 0;
};

}  // namespace lsched
