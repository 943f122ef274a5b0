// An announcement is a commit by which rank 0 of a world sends a few bytes to all members.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "libsched/commit/commit.h"

namespace lsched {

class announcement final : public commitment {
 public:
  static constexpr std::size_t k_bytes = sizeof(commit_record::detail);
  using data = std::array<std::byte, k_bytes>;

  /// Creates the commit. The data of all ranks except rank 0 is ignored. If `unable` is set, the commit fails on all
  /// ranks with this reason. `purpose` must be equal on all ranks.
  announcement(membership_ptr members, std::uint64_t number, const std::string& purpose, const data& mine,
               const std::optional<failure>& unable)
      : commitment(std::move(members), number, purpose) {
    std::memcpy(record_.detail, mine.data(), mine.size());
    if (unable) refuse(*unable);
  }

  /// Returns the data of rank 0 after success.
  const data& announced() const { return announced_; }

  void abandon() override {}

 private:
  std::optional<failure> conclude(const std::vector<commit_record>& all) override {
    std::memcpy(announced_.data(), all.front().detail, announced_.size());
    return std::nullopt;
  }
  void withdraw(const failure&) override {}

  data announced_{};
};

}  // namespace lsched
