// The tags that a rank has chosen for incoming messages. MPI matches messages by sender and tag, so an instance needs
// only one range of tags for all peers.
#pragma once

#include <map>
#include <optional>

namespace lsched {

namespace mpi_edge {
inline constexpr int k_control_tag = 0, k_board_tag = 1, k_first_payload_tag = 2;
}

class mpi_tags {
 public:
  struct range {
    int first = 0;
    int count = 0;
  };

  mpi_tags(int first, int last) : first_(first), last_(last), next_(first) {}

  /// Allocates `count` consecutive unused tags, or returns nothing if no such range is left. The search is cyclic, so
  /// that freed tags are reused late.
  std::optional<range> allocate(int count) {
    if (count == 0) return range{};
    for (int turn = 0; turn < 2; ++turn, next_ = first_)
      if (const auto found = find_from(next_, count)) {
        used_.emplace(found->first, count);
        next_ = found->first + count;
        return found;
      }
    return std::nullopt;
  }

  void deallocate(const range& given) {
    if (given.count != 0) used_.erase(given.first);
  }

 private:
  /// Returns the first `count` consecutive unused tags at or after `begin`, or nothing.
  std::optional<range> find_from(int begin, int count) const {
    auto used = used_.upper_bound(begin);
    if (used != used_.begin()) {
      const auto& [first, length] = *std::prev(used);
      if (first + length > begin) begin = first + length;
    }
    for (; used != used_.end() && used->first - begin < count; ++used) begin = used->first + used->second;
    if (begin > last_ || last_ - begin < count - 1) return std::nullopt;
    return range{begin, count};
  }

  const int first_, last_;
  int next_;
  std::map<int, int> used_;  ///< number of tags in a used range, indexed by its first tag
};

}  // namespace lsched
