// A commit is a collective step by which all members of a world create an object, such as the instances of a schedule.
// All members make the same commits in the same order. See docs/inside/worlds.md.
//
// Every rank first reserves its resources, because messages of faster ranks can arrive early. The rank then publishes a
// record of the commit, gathers the records of all members, and proceeds only if all records agree. A rank with invalid
// arguments publishes a record with its error, so that the other ranks do not wait for this rank.
//
//     created ── queued ── record posted ── all records gathered ── concluded: success or failure
//                    └─────────────────────────────────────────── given up by some member
//
// If any member asks for a proof, more exchanges precede the conclusion. First the members exchange the texts that
// describe their parts, page by page. Then each member publishes its record once more, with the outcome of its proof.
//
// No thread has to wait for a commit. The instances of a schedule_commit exist from the beginning, accept calls, and
// fail if the ranks do not agree.
//
// commit_queue.h runs commits through these states. The class commitment is the base of all commits, and
// schedule_commit commits a schedule that the world's ranks will run.
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

/// The record that a rank publishes to the other members. It consists of plain bytes, because it crosses process and
/// node boundaries.
struct commit_record {
  std::uint64_t number;  ///< sequence number of the commit in the world; detects ranks that commit in different orders
  std::int32_t code;     ///< this rank's own error, or OK
  std::int16_t is_synchronising;
  std::int16_t asks_for_proof;
  std::uint64_t agreement_hash;  ///< hash of the whole agreement
  std::uint64_t reductions;      ///< the reductions that the rank applies to each dtype; 0: none
  member_address addresses[8];   ///< addresses of this rank's part of the objects that the commit creates
  char agreement[160];           ///< text of the agreement, possibly truncated
  char detail[320];              ///< text of the error, or data that only one kind of commit uses
};
static_assert(sizeof(commit_record) <= board::record_bytes);

class commitment {
 public:
  virtual ~commitment() = default;

  /// Abandons an unfinished commit whose outcome this rank no longer needs. The commit frees its objects when it ends.
  /// Only the engine's owner may call this function.
  virtual void abandon() = 0;

  commitment(const commitment&) = delete;
  commitment& operator=(const commitment&) = delete;

  /// Returns the progress object on which threads wait. Any thread may call this function.
  const common_step& progress() const { return progress_; }

  /// Returns the error. The commit must have ended.
  const failure& why() const { return why_; }
  /// Returns the reason if this rank's part was refused. The reason does not change after the record is posted.
  const std::optional<failure>& refused() const { return refused_; }

 protected:
  /// Creates a commit. `agreement` is a text that must be equal on all ranks, such as "allreduce recursive_doubling sum
  /// f32 count 1000".
  commitment(membership_ptr members, std::uint64_t number, const std::string& agreement);

  /// Refuses this rank's part. Other ranks read the reason in the record. Call this before the record is posted.
  void refuse(failure why);

  /// Returns a text that describes this rank's part. The other ranks need this text for the proof.
  virtual std::string describe_part() const { return {}; }
  /// Proves the commitment from the texts of all members, indexed by rank. Returns the reason if the proof fails.
  virtual std::optional<failure> find_fault(std::span<const std::string>) const { return std::nullopt; }

  /// Concludes the commit from the records of all members, indexed by rank. Returns the reason if the records do not
  /// agree.
  virtual std::optional<failure> conclude(const std::vector<commit_record>& all) = 0;
  /// Undoes this rank's part, because the commit has failed.
  virtual void withdraw(const failure& why) = 0;

  rank self() const { return members_->place().self; }

  const membership_ptr members_;
  commit_record record_{};

 private:
  friend class commit_queue;
  struct after_exchange {
    bool is_last = true;           ///< if false, another exchange follows
    std::optional<failure> why{};  ///< after the last exchange: the error, if the commit has failed
  };

  void write_record(std::span<std::byte> record) const;
  /// Reads the records of all members, indexed by rank.
  after_exchange read_records(std::span<const std::byte> records);
  after_exchange read_texts(std::span<const std::byte> records);
  void begin_proof(std::size_t members);
  void end_proof();

  void end(const std::optional<failure>& why);
  void write_error(const failure& why);
  std::optional<failure> find_disagreement(const std::vector<commit_record>& all) const;

  common_step progress_;
  std::optional<failure> refused_{};
  std::optional<text_exchange> texts_{};  ///< set while the texts for a proof are exchanged
  bool has_proved_ = false;               ///< this rank's proof has ended, whether or not it found a fault
  std::optional<failure> fault_{};        ///< fault that the proof has found
  failure why_{status::ok, {}, k_no_rank, k_no_op};
};

/// A partial schedule that is committed together with the main schedule of a request. Ranks that agree on the main
/// schedule also agree on the companion.
struct companion {
  std::string purpose;
  schedule_ptr program;
  // As in instance_options:
  instance* predecessor = nullptr;
  round_no rounds_before = 0;
};

/// The proof that a schedule is correct, during its commit. Each rank describes its part of the schedule in a text.
/// Each rank then verifies the schedules of all ranks from these texts. All ranks must set both functions, because all
/// ranks take part if one rank asks for a proof. The engine's owner calls the functions. The proof fails if all texts
/// together exceed k_most_proof_bytes.
struct commit_proof {
  bool is_asked = false;  ///< this rank asks for the proof
  std::function<std::string()> describe_part{};
  std::function<std::optional<failure>(std::span<const std::string> parts)> find_fault{};
};

inline constexpr std::uint64_t k_most_proof_bytes = std::uint64_t{16} << 20;

/// A request to commit a schedule. `agreement` must be equal on all ranks.
struct commit_request {
  std::string agreement;
  result<schedule_ptr> program;  ///< the schedule, or the reason why this rank could not create it
  binding memory{};
  instance_options options{};
  std::vector<companion> companions{};  ///< at most two
  std::size_t flights = 1;              ///< number of instances of the program, for concurrent rounds
  commit_proof proof{};
};

inline constexpr std::size_t k_most_flights = std::extent_v<decltype(commit_record::addresses)>;

/// The commit of a schedule. The record also contains this rank's part of the world's edge_balance
/// (analysis/edge_balance.h). From the sum of these parts, each rank finds out whether every send has a receive with
/// the same peer, tag, kind, dtype and capacity.
///
/// The record also has the reductions that a rank applies to each dtype, because edge_balance does not compare
/// reductions. Two ranks that each apply a single reduction to a dtype must apply the same reduction.
class schedule_commit final : public commitment {
 public:
  /// Reserves all resources. Only the engine's owner may call the constructor.
  schedule_commit(engine& where, membership_ptr members, std::uint64_t number, const commit_request& request);

  /// Returns the instances of the request, followed by the instances of its companions. The list is empty if this
  /// rank's part was refused, and after the commit has failed. Even if the commit fails, the requester must remove the
  /// instances that were in the list.
  std::span<instance* const> made() const { return {made_.data(), count_}; }
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
