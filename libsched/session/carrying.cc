#include "libsched/session/carrying.h"

#include <algorithm>
#include <utility>

namespace lsched {

std::optional<failure> carrying::validate(const membership& to) const {
  for (const rank home : to.homes())
    if (members().rank_of(home) == k_no_rank)
      return failure{status::argument,
                     "the other world has a rank that is not in the schedule's world: pass a world of its survivors"};
  return std::nullopt;
}

std::optional<failure> carrying::begin() const {
  const auto has_ended = [](const instance* one) { return one->finished.load() == k_last_round; };
  if (std::ranges::none_of(before_, has_ended)) return std::nullopt;
  return failure{status::state,
                 before_.front()->label + " has ended and cannot be carried, because all ranks have left the schedule"};
}

std::optional<failure> carrying::begin(const membership& to) {
  if (auto why = begin()) return why;
  const auto is_missing = [&](rank home) { return to.rank_of(home) == k_no_rank; };
  const auto missing = std::ranges::find_if(members().homes(), is_missing);
  if (missing != members().homes().end()) {
    for (instance* const one : before_) engine_.lose(*one, members().rank_of(*missing));
    return std::nullopt;
  }
  const auto is_well = [](const instance* one) { return one->verdict.load() == status::ok; };
  if (std::ranges::none_of(before_, is_well)) return std::nullopt;
  return failure{
      status::state,
      before_.front()->label +
          " has not failed, and only a failed schedule can be moved to another world: use the schedule in its "
          "present world"};
}

std::shared_ptr<handover> carrying::hand_over(engine& where, membership_ptr to, std::uint64_t number,
                                              const std::optional<failure>& unable) const {
  const handover::origin own{before_, session_.ranks(), session_.is_in_common_call()};
  return std::make_shared<handover>(where, std::move(to), number, own, unable);
}

void carrying::request(commit_request& wanted) const {
  wanted.options.predecessor = before_.front();
  for (std::size_t i = 0; i < wanted.companions.size(); ++i) wanted.companions[i].predecessor = before_[i + 1];
}

}  // namespace lsched
