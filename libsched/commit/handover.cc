#include "libsched/commit/handover.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

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
using progress_records = std::array<progress_record, handover::k_most>;
static_assert(sizeof(progress_records) <= sizeof(commit_record::detail));

progress_record record_of(const commit_record& from, std::size_t index) {
  progress_records all;
  std::memcpy(&all, from.detail, sizeof all);
  return all[index];
}

/// Returns the label and the record id of an instance. The id distinguishes instances of worlds with the same name.
std::string identity_of(const instance& one) { return one.label + " (" + std::to_string(one.number_on_record) + ")"; }

std::uint64_t bytes_of_result(const instance& one) {
  return one.program->buffers()[one.partial->output_buffer].bytes();
}

}  // namespace

handover::handover(engine& where, membership_ptr members, std::uint64_t number, std::span<instance* const> from,
                   const std::optional<failure>& unable)
    : commitment(std::move(members), number, "carrying " + identity_of(*from.front())),
      engine_(where),
      from_(from.begin(), from.end()) {
  auto why = unable ? unable : tell();
  if (why) refuse(std::move(*why));
}

std::optional<failure> handover::tell() {
  progress_records mine{};
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
    mine[i] = {round, engine_.net().memory().offset_of(storage), data != nullptr ? 1u : 0u, totals};
  }
  std::memcpy(record_.detail, &mine, sizeof mine);
  return std::nullopt;
}

std::optional<failure> handover::conclude(const std::vector<commit_record>& all) {
  shares_memory_ = share_memory(all);
  for (std::size_t i = 0; i < from_.size(); ++i)
    if (auto why = take_over(*from_[i], i, all)) return why;
  if (!transfers_.empty()) return std::nullopt;
  for (instance* const one : from_) engine_.strip(*one);
  return std::nullopt;
}

void handover::end_transfers(const std::vector<std::vector<std::byte>>& received) {
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    const transfer& one = transfers_[i];
    if (std::ranges::find(one.behind, self()) == one.behind.end()) continue;
    adopt_result(*one.of, {one.what.round, one.bytes == 0 ? nullptr : received[i].data(), one.what.totals});
  }
  for (instance* const one : from_) engine_.strip(*one);
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
std::optional<failure> handover::take_over(instance& mine, std::size_t index, const std::vector<commit_record>& all) {
  const auto round_of = [index](const commit_record& one) { return record_of(one, index).round; };
  const auto furthest = std::ranges::max_element(all, {}, round_of);
  const auto last = std::ranges::min_element(all, {}, round_of);
  const auto [round, place, has_data, totals] = record_of(*furthest, index);
  if (round - round_of(*last) > 1)
    return failure{status::internal, mine.label + ": the ranks are more than one round apart"};
  const auto at = static_cast<rank>(furthest - all.begin());
  if (!shares_memory_ && round != round_of(*last)) {
    transfer one{&mine, {round, nullptr, totals}, at, {}, has_data == 0 ? 0 : bytes_of_result(mine)};
    if (self() == at) one.what = last_result_of(mine);
    for (rank member = 0; member < static_cast<rank>(all.size()); ++member)
      if (round_of(all[static_cast<std::size_t>(member)]) != round) one.behind.push_back(member);
    transfers_.push_back(std::move(one));
  }
  if (!shares_memory_ || round_of(all[static_cast<std::size_t>(self())]) == round) return std::nullopt;
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
