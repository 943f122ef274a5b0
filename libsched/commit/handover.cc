#include "libsched/commit/handover.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "ops/hash.h"

namespace lsched {
namespace {

/// The progress of an instance on one member. It has the fields of last_result, but an offset in shared memory instead
/// of the data.
struct progress_record {
  round_no round;
  std::uint64_t place;     ///< offset of the result's storage in shared memory; 0: no rank shares this memory
  std::uint64_t has_data;  ///< 1: the storage contains a result
  round_totals totals;
};
/// The data of a member. A new member has zeros.
struct member_progress {
  std::uint64_t identity;  ///< hash of identity_of() the first instance
  std::uint64_t ranks;     ///< handover::ranks()
  std::uint64_t is_in_common_call;
  std::array<progress_record, handover::k_most> instances;
};
static_assert(sizeof(member_progress) <= sizeof(commit_record::detail));

member_progress progress_of(const commit_record& from) {
  member_progress all;
  std::memcpy(&all, from.detail, sizeof all);
  return all;
}
progress_record record_of(const commit_record& from, std::size_t index) { return progress_of(from).instances[index]; }
bool is_new(const commit_record& from) { return progress_of(from).identity == 0; }

/// Returns the label and the record id of an instance. The id distinguishes instances of worlds with the same name.
std::string identity_of(const instance& one) { return one.label + " (" + std::to_string(one.number_on_record) + ")"; }

std::uint64_t bytes_of_result(const instance& one) {
  return one.program->buffers()[one.partial->output_buffer].bytes();
}

/// Returns the text on which the members agree. New members do not know the identities of the instances.
std::string agreement_of(const engine& where, std::span<instance* const> from) {
  const bool has_new_members = from.empty() || !where.owns(*from.front());
  return has_new_members ? "carrying a partial schedule to another world" : "carrying " + identity_of(*from.front());
}

}  // namespace

handover::handover(engine& where, membership_ptr members, std::uint64_t number, const origin& of,
                   const std::optional<failure>& unable)
    : commitment(std::move(members), number, agreement_of(where, of.from)),
      engine_(where),
      from_(of.from.begin(), of.from.end()),
      ranks_(of.ranks),
      is_in_common_call_(of.is_in_common_call) {
  auto why = unable ? unable : write_progress();
  if (why) refuse(std::move(*why));
}

std::optional<failure> handover::write_progress() {
  member_progress mine{};
  if (!from_.empty()) {
    fnv_hash hash;
    hash.add(identity_of(*from_.front()));
    mine.identity = hash.value() | 1;
    mine.ranks = ranks_;
    mine.is_in_common_call = is_in_common_call_ ? 1 : 0;
  }
  for (std::size_t i = 0; i < from_.size(); ++i) {
    const instance& one = *from_[i];
    if (one.verdict.load() == status::ok)
      return failure{
          status::state,
          one.label +
              " has not failed, and only a failed schedule can be moved to another world: use the schedule in "
              "its present world"};
    const auto [round, data, totals] = last_result_of(one);
    const std::byte* const storage = data != nullptr ? data : one.cells[one.partial->output_buffer].storage;
    const std::uint64_t place = engine_.owns(one) ? engine_.net().memory().offset_of(storage) : 0;
    mine.instances[i] = {round, place, data != nullptr ? 1u : 0u, totals};
  }
  std::memcpy(record_.detail, &mine, sizeof mine);
  return std::nullopt;
}

std::optional<failure> handover::conclude(const std::vector<commit_record>& all) {
  if (auto why = compare(all)) return why;
  shares_memory_ = share_memory(all);
  for (std::size_t i = 0; i < k_most; ++i)
    if (auto why = take_over(i, all)) return why;
  if (transfers_.empty()) strip_instances();
  return std::nullopt;
}

// Compares the sessions of the members. A new member takes `ranks` from another member.
std::optional<failure> handover::compare(const std::vector<commit_record>& all) {
  const auto first = std::ranges::find_if_not(all, is_new);
  ranks_ = first == all.end() ? all.size() : progress_of(*first).ranks;
  for (auto other = first; other != all.end(); ++other)
    if (!is_new(*other) && progress_of(*other).identity != progress_of(*first).identity)
      return failure{status::mismatch,
                     "rank " + std::to_string(first - all.begin()) + " and rank " +
                         std::to_string(other - all.begin()) +
                         " carry different schedules: carry the schedules in the same order on all ranks",
                     static_cast<rank>(other - all.begin())};
  const auto calls = [](const commit_record& one) { return progress_of(one).is_in_common_call != 0; };
  const auto caller = std::ranges::find_if(all, calls);
  if (caller == all.end() || std::ranges::none_of(all, is_new)) return std::nullopt;
  return failure{status::state,
                 "rank " + std::to_string(caller - all.begin()) +
                     " has not completed lsched_flush or lsched_model_sync, and new ranks cannot take part in this "
                     "call: complete the call in a world without new ranks first",
                 static_cast<rank>(caller - all.begin())};
}

void handover::strip_instances() {
  for (instance* const one : from_)
    if (engine_.owns(*one)) engine_.strip(*one);
}

void handover::end_transfers(const std::vector<std::vector<std::byte>>& received) {
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    const transfer& one = transfers_[i];
    if (std::ranges::find(one.behind, self()) == one.behind.end()) continue;
    adopt_result(*one.of, {one.what.round, one.bytes == 0 ? nullptr : received[i].data(), one.what.totals});
  }
  strip_instances();
}

// Returns whether this member shares memory with all others. All members return the same value.
bool handover::share_memory(const std::vector<commit_record>& all) const {
  for (rank member = 0; member < static_cast<rank>(all.size()); ++member) {
    const std::uint64_t place = record_of(all[static_cast<std::size_t>(member)], 0).place;
    if (member == self()) continue;
    if (place == 0 || engine_.net().memory().memory_at(members_->home_of(member), place, 0) == nullptr) return false;
  }
  return true;
}

// If this member lacks the result of the last ended round, copies the result from a member that has ended this round.
// If the members do not share memory, records a transfer instead. The result is intact, because no member begins a
// round that could overwrite the result before all members have reached this commit.
std::optional<failure> handover::take_over(std::size_t index, const std::vector<commit_record>& all) {
  const auto round_of = [index](const commit_record& one) { return record_of(one, index).round; };
  const auto furthest = std::ranges::max_element(all, {}, round_of);
  const auto [round, place, has_data, totals] = record_of(*furthest, index);
  const auto is_behind = [&](const commit_record& one) { return !is_new(one) && round_of(one) != round; };
  rounds_[index] = round;
  for (const commit_record& one : all)
    if (is_behind(one) && round - round_of(one) > 1)
      return failure{status::internal, "the ranks are more than one round apart"};
  const auto at = static_cast<rank>(furthest - all.begin());
  if (!shares_memory_ && std::ranges::any_of(all, is_behind)) {
    transfer one{nullptr, {round, nullptr, totals}, at, {}, 0};
    if (index < from_.size()) one.of = from_[index], one.bytes = has_data == 0 ? 0 : bytes_of_result(*one.of);
    if (self() == at && one.of != nullptr) one.what = last_result_of(*one.of);
    for (rank member = 0; member < static_cast<rank>(all.size()); ++member)
      if (is_behind(all[static_cast<std::size_t>(member)])) one.behind.push_back(member);
    transfers_.push_back(std::move(one));
  }
  const bool is_abandoned = index >= from_.size();
  if (is_abandoned || !shares_memory_ || !is_behind(all[static_cast<std::size_t>(self())])) return std::nullopt;
  instance& mine = *from_[index];
  const rank owner = members_->home_of(at);
  const std::byte* const data =
      has_data == 0 ? nullptr : engine_.net().memory().memory_at(owner, place, bytes_of_result(mine));
  if (has_data != 0 && data == nullptr)
    return failure{status::transport, mine.label + ": the last result cannot be read from rank " +
                                          std::to_string(owner) +
                                          " (numbered as in the world of all ranks): open the world again"};
  adopt_result(mine, {round, data, totals});
  return std::nullopt;
}

}  // namespace lsched
