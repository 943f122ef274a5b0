#include "libsched/schedule/list_table.h"

namespace lsched {

list_table::list_table(const buffer& of)
    : room_(of.lists.room), total_(of.lists.total), is_packed_(of.is_packed()), numbers_(of.count + 1) {}

item_run list_table::run_of(std::uint64_t first, std::uint64_t count) const {
  if (is_packed_) return {numbers_[first], numbers_[first + count] - numbers_[first]};
  return {first * room_, count == 0 ? 0 : numbers_[first]};
}

bool list_table::set_length(std::uint64_t list, std::uint64_t items) {
  if (items > room_) return false;
  numbers_[list] = items;
  return true;
}

bool list_table::lay_out(std::span<const std::uint64_t> lengths) {
  std::uint64_t end = 0;
  for (const std::uint64_t length : lengths) {
    if (length > room_ || (is_packed_ && length > total_ - end)) return false;
    end += length;
  }
  end = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    numbers_[i] = is_packed_ ? end : lengths[i];
    end += lengths[i];
  }
  if (is_packed_) numbers_[lengths.size()] = end;
  return true;
}

}  // namespace lsched
