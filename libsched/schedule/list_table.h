// Where the lists of a buffer are in the current round, and how many items each has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

/// Items that lie one behind the other.
struct item_run {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

class list_table {
 public:
  /// `of` has lists.
  explicit list_table(const buffer& of);

  bool is_packed() const { return is_packed_; }

  /// Where list `first` and the count-1 behind it lie. Of lists that are not packed, at most one has items.
  item_run run_of(std::uint64_t first, std::uint64_t count) const;
  std::uint64_t length(std::uint64_t list) const { return run_of(list, 1).count; }

  /// List `list`, of a buffer that is not packed, has so many items now. False, and nothing has changed: no room.
  bool set_length(std::uint64_t list, std::uint64_t items);

  /// All lists, from the first on. False: they have not room, each or together.
  bool lay_out(std::span<const std::uint64_t> lengths);

 private:
  std::uint64_t room_, total_;
  bool is_packed_;
  std::vector<std::uint64_t> numbers_;  ///< packed: where each list begins, and the last one ends; else lengths
};

}  // namespace lsched
