// One rank's part of a collective while it is being written: ops that follow the entry or one another, and the exit.
#pragma once

#include "collectives/algorithm/algorithm.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

class rank_part {
 public:
  using deps = builder::deps;

  /// Both outlive it.
  rank_part(builder& to, const shape& data, op_id entry) : to_(to), data_(data), entry_(entry), exit_(to.nop()) {}

  const shape& data() const { return data_; }
  rank self() const { return to_.place().self; }
  rank size() const { return to_.place().size; }
  op_id entry() const { return entry_; }
  /// At `distance` on the ring of all ranks; 0 <= distance < size.
  rank after(rank distance) const;
  rank before(rank distance) const;

  // --- ops: `when` are those that complete before, k_no_op being none; without any, it is the entry ------------------
  op_id send(rank peer, std::uint32_t tag, region from, std::uint64_t count, deps when = {}) {
    return ordered(to_.send(peer, tag, from, count), when);
  }
  op_id recv(rank peer, std::uint32_t tag, region target, std::uint64_t count, deps when = {}) {
    return ordered(to_.recv(peer, tag, target, count), when);
  }
  op_id copy(region from, region target, std::uint64_t count, deps when = {}) {
    return ordered(to_.copy(from, target, count), when);
  }
  op_id reduce(region lower, region higher, region target, std::uint64_t count, deps when = {}) {
    return ordered(to_.reduce(data_.what, lower, higher, target, count), when);
  }
  op_id signal_send(rank peer, std::uint32_t tag, deps when = {}) { return ordered(to_.signal_send(peer, tag), when); }
  /// Its register may be raised at any time.
  op_id signal_recv(rank peer, std::uint32_t tag) { return to_.signal_recv(peer, tag); }
  op_id nop(deps when = {}) { return ordered(to_.nop(), when); }

  /// `what`, which has been written already, waits for one op more.
  void order(op_id earlier, op_id what) { to_.dep(earlier, what); }
  /// The exit waits for it.
  void end(op_id last);

  buffer_id scratch(std::uint64_t count) { return to_.scratch(data_.type, count); }

  /// All of it; `holding` as in fragment.
  fragment finish(bool holding);

 private:
  op_id ordered(op_id what, deps when);

  builder& to_;
  const shape& data_;
  const op_id entry_;
  const op_id exit_;
  bool has_end_ = false;
};

/// `count` elements in a number of portions of nearly equal length, the longer ones first: blocks of a vector, or the
/// messages that a block goes in.
class portions {
 public:
  /// `number` may be 0 if `count` is.
  constexpr portions(std::uint64_t count, std::uint64_t number)
      : count_(count), number_(number), runs_(count, number == 0 ? 1 : number) {}

  constexpr std::uint64_t number() const { return number_; }
  constexpr std::uint64_t begin(std::uint64_t i) const { return runs_.begin(i); }
  constexpr std::uint64_t length(std::uint64_t i) const { return runs_.size(i); }
  /// How many are not empty.
  constexpr std::uint64_t filled() const { return count_ < number_ ? count_ : number_; }

 private:
  std::uint64_t count_;
  std::uint64_t number_;
  cut runs_;
};

/// How many messages a pipelined algorithm makes of so many elements, none of nothing: segments of `data.segment`, or
/// of 128 KiB, but never more than 64 of them.
std::uint64_t pieces_of(const shape& data, std::uint64_t count);

}  // namespace lsched
