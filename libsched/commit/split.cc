#include "libsched/commit/split.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lsched {

std::vector<rank> ranks_of_colour(std::int32_t colour, const std::vector<split_choice>& all) {
  std::vector<rank> those;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].colour == colour) those.push_back(static_cast<rank>(r));
  std::ranges::stable_sort(those, {}, [&](rank r) { return all[static_cast<std::size_t>(r)].key; });
  return those;
}

split_commit::split_commit(endpoint& net, membership_ptr parent, std::uint64_t number,
                           const result<split_choice>& choice)
    : commitment(std::move(parent), number, "a split of the world"), choice_(choice ? *choice : split_choice{}) {
  std::memcpy(record_.detail, &choice_, sizeof choice_);
  if (!choice) refuse(choice.error());
  if (!choice || choice_.colour < 0) return;
  auto opened = net.open_board(members_->homes().size());
  if (!opened) {
    refuse(opened.error());
  } else {
    board_ = std::move(*opened);
    record_.addresses[0] = board_->address();
  }
}

std::optional<failure> split_commit::conclude(const std::vector<commit_record>& all) {
  if (choice_.colour < 0) return std::nullopt;
  std::vector<split_choice> choices(all.size());
  for (std::size_t r = 0; r < all.size(); ++r) std::memcpy(&choices[r], all[r].detail, sizeof choices[r]);
  const std::vector<rank> ranks = ranks_of_colour(choice_.colour, choices);
  std::vector<rank> homes;
  std::vector<member_address> addresses;
  for (const rank r : ranks) {
    homes.push_back(members_->home_of(r));
    addresses.push_back(all[static_cast<std::size_t>(r)].addresses[0]);
  }
  if (const status answer = board_->join(homes, addresses); answer != status::ok)
    return failure{answer,
                   "the ranks of the new world could not be connected: look for earlier errors of the other ranks"};
  if (!is_wanted_) return board_.reset(), std::nullopt;
  const auto self_there = static_cast<rank>(std::ranges::find(ranks, self()) - ranks.begin());
  const std::string& name = members_->name();
  made_ = std::make_shared<const membership>(std::move(homes), self_there,
                                             (name.empty() ? "" : name + ".") + std::to_string(record_.number));
  return std::nullopt;
}

}  // namespace lsched
