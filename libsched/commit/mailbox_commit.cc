#include "libsched/commit/mailbox_commit.h"

namespace lsched {

mailbox_commit::mailbox_commit(engine& where, membership_ptr members, std::uint64_t number,
                               const std::optional<failure>& unable)
    : commitment(members, number, "a mailbox"), made_(std::make_unique<mailbox>(where, std::move(members))) {
  if (unable || made_->why())
    refuse(unable ? *unable : *made_->why());
  else
    record_.addresses[0] = made_->address();
}

std::optional<failure> mailbox_commit::conclude(const std::vector<commit_record>& all) {
  std::vector<member_address> addresses;
  for (const commit_record& one : all) addresses.push_back(one.addresses[0]);
  if (const status answer = made_->open(addresses); answer != status::ok)
    return failure{answer,
                   "the mailboxes of the world could not be connected: look for earlier errors of the other ranks"};
  return std::nullopt;
}

}  // namespace lsched
