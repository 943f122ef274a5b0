// The schedules of all ranks of a world, in compressed form.
//
// Ranks whose schedules have the same ops, deps, needs and guards share a *shape*, which is stored once. The peer, the
// tag and the size of an op may differ between these ranks. Each of these three values is a *column*, which has a
// number for each rank of the shape. If one expression gives the right numbers for all these ranks, the column stores
// this expression. Otherwise the column stores a table of the numbers. Schedules are added one after the other. A
// schedule can be deleted after it was added. Recursive doubling among 2^20 ranks needs the memory of one schedule and
// 8 bytes per rank.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "libsched/schedule/geometry.h"
#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// The expression or table by which a column stores a number for each rank.
enum class column_form : std::uint8_t {
  same,    ///< the number is `value` for all ranks
  across,  ///< only for peers: virtual_of(peer) == (virtual_of(rank) xor `value`) (fold in geometry.h)
  ahead,   ///< only for peers: peer == rank + `value`, modulo the size of the world
  table,   ///< the numbers are in table `value` of the shape, in the order of membership::index
};

struct rank_column {
  std::uint32_t value = 0;
  column_form form = column_form::same;
  std::uint8_t fits = 0;  ///< bit mask of the forms that reproduce the numbers of all ranks so far; 0: only a table
};

/// An op of a shape, for all ranks of the shape.
struct packed_op {
  rank_column peer, tag;
  rank_column size;  ///< index of the op's size; packed_world::bytes_of returns the size in bytes
  std::uint32_t need = 0;
  std::uint32_t in_degree = 0;
  op_kind kind = op_kind::nop;
  std::uint8_t guard = 0;
};

class packed_shape {
 public:
  std::span<const packed_op> ops() const { return ops_; }
  std::span<const op_id> successors(op_id id) const { return first_->successors(id); }
  std::span<const op_id> roots() const { return first_->roots(); }
  op_id exit() const { return first_->exit(); }
  /// Returns the call ops, which wait for the application's call to start the round.
  std::span<const op_id> calls() const { return calls_; }
  const guard* guard_of(const op& what) const { return first_->guard_of(what); }
  bool is_partial() const { return first_->is_partial(); }
  std::size_t ranks() const { return ranks_; }

 private:
  friend class packed_world;
  schedule_ptr first_;  ///< schedule of the lowest rank of this shape
  std::vector<packed_op> ops_;
  std::vector<std::vector<std::uint32_t>> tables_;
  std::size_t ranks_ = 0;
  std::vector<op_id> calls_;
  std::vector<op_id> found_by_;  ///< hash table of communication ops; the key is kind, tag and expression of the peer
  unsigned forms_ = 0;           ///< bit mask of the column forms of all peers in found_by_
  std::vector<op_id> others_;    ///< for each rank: ops whose tag or peer is in a table, sorted by key
  std::size_t other_count_ = 0;  ///< number of entries of others_ for each rank
};

class packed_world {
 public:
  /// The shape of a rank, and the position of its numbers in tables.
  struct membership {
    std::uint32_t shape = 0;
    std::uint32_t index = 0;  ///< index of the rank among the ranks of the shape, in ascending order
  };

  explicit packed_world(rank size);

  /// Adds the schedule of the next rank, beginning with rank 0. Failures: ARGUMENT (the schedule belongs to another
  /// rank or world), UNSUPPORTED (more than 2^29 ops).
  std::optional<failure> add(const schedule_ptr& next);
  /// Completes the world after the last rank. Failures: ARGUMENT (a rank is missing).
  std::optional<failure> finish();

  /// Creates a packed world. The first function calls `generate` for each rank, and deletes each schedule before it
  /// generates the next schedule. The second function packs existing schedules. Failures: those of `generate`, add()
  /// and finish().
  static result<packed_world> of(rank size, const std::function<result<schedule_ptr>(world)>& generate);
  static result<packed_world> of(std::span<const schedule_ptr> ranks);

  rank size() const { return size_; }
  const activation& starts() const { return shapes_.front().first_->starts(); }
  std::span<const packed_shape> shapes() const { return shapes_; }
  membership member(rank r) const { return members_[static_cast<std::size_t>(r)]; }

  rank peer_of(const packed_shape& shape, const packed_op& what, rank self, std::uint32_t index) const {
    if (what.peer.form == column_form::table) return static_cast<rank>(shape.tables_[what.peer.value][index]);
    return peer_by(what.peer, self);
  }
  static std::uint32_t tag_of(const packed_shape& shape, const packed_op& what, std::uint32_t index) {
    return number_in(shape, what.tag, index);
  }
  static std::uint32_t size_number_of(const packed_shape& shape, const packed_op& what, std::uint32_t index) {
    return number_in(shape, what.size, index);
  }
  /// Returns the size in bytes that `size_number` stands for. `size_number` must be below size_count().
  std::uint64_t bytes_of(std::uint32_t size_number) const { return sizes_[size_number]; }
  std::size_t size_count() const { return sizes_.size(); }
  std::uint64_t longest_message() const { return longest_; }

  /// Returns the op of rank `who` with this kind, peer and tag, or k_no_op. The search takes constant time if peer and
  /// tag are stored as expressions. Otherwise it is a binary search.
  op_id find(rank who, op_kind kind, rank peer, std::uint32_t tag) const;

  std::size_t memory() const;

 private:
  static std::uint32_t number_in(const packed_shape& shape, const rank_column& from, std::uint32_t index) {
    return from.form == column_form::same ? from.value : shape.tables_[from.value][index];
  }
  rank_column peer_as(column_form form, rank self, rank peer) const;
  rank peer_by(const rank_column& expression, rank self) const {
    const auto value = static_cast<rank>(expression.value);
    if (expression.form == column_form::across) return folded_.real_of(folded_.virtual_of(self) ^ value);
    return expression.form == column_form::ahead ? ring_after(self, value, size_) : value;
  }
  std::uint32_t number_of(std::uint64_t bytes);
  void begin_shape(const schedule_ptr& first, std::uint64_t hash);
  void join(const schedule& next);
  void join_peers(rank_column& column, const op& first, rank self, rank peer);
  void join_numbers(rank_column& column, std::uint32_t number);
  template <class Earlier>
  void tabulate(rank_column& column, const Earlier& earlier, std::uint32_t next);
  void settle(packed_shape& shape) const;
  void sort_others(rank r);

  rank size_;
  fold folded_;
  std::vector<packed_shape> shapes_;
  std::vector<membership> members_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> shapes_by_hash_;
  std::vector<std::uint64_t> sizes_;
  std::unordered_map<std::uint64_t, std::uint32_t> number_of_size_;
  std::uint64_t longest_ = 0;
};

/// The state of one round, for all ranks of a shape. The state of an op consists of a token count, which saturates at
/// `need` + 1, and, if the op is a receive, of four flags. A state takes only as many bits as needed.
class packed_state {
 public:
  enum flag : std::uint64_t {
    fired = 1,
    arrived = 2,    ///< for a receive: the message has arrived; for a signal receive: the register satisfies the round
    announced = 4,  ///< rendezvous: the sender has announced the message and waits for the grant
    done = 8
  };

  explicit packed_state(const packed_shape& shape) {
    std::uint32_t end = 0;
    for (const packed_op& op : shape.ops()) {
      const bool is_receive = is_incoming(op.kind);
      const auto tokens = static_cast<std::uint32_t>(std::bit_width(std::min(op.in_degree, op.need + 1)));
      const std::uint32_t width = tokens + (is_receive ? k_flags : 0);
      if (end / 64 != (end + width - 1) / 64 && width != 0) end = (end + 63) / 64 * 64;  // no field spans two words
      fields_.push_back({end, static_cast<std::uint8_t>(tokens), is_receive});
      end += width;
    }
    words_ = (end + 63) / 64;
    bits_.resize(words_ * shape.ranks());
  }

  /// Returns true if the flag is set. Returns false for ops that are not receives.
  bool test(std::uint32_t index, op_id id, flag which) const {
    const field& op = fields_[id];
    return op.has_flags && (word(index, op) >> op.place % 64 & which) != 0;
  }
  void set(std::uint32_t index, op_id id, flag which) {
    const field& op = fields_[id];
    if (op.has_flags) word(index, op) |= static_cast<std::uint64_t>(which) << op.place % 64;
  }
  /// Adds a token. Returns the op's number of tokens, or any number above `need` if the op has more than `need`.
  std::uint32_t add_token(std::uint32_t index, op_id id) {
    const field& op = fields_[id];
    std::uint64_t& bits = word(index, op);
    const std::uint32_t shift = op.place % 64 + (op.has_flags ? k_flags : 0);
    const std::uint64_t most = (std::uint64_t{1} << op.tokens) - 1, tokens = bits >> shift & most;
    if (tokens == most) return ~0u;
    bits += std::uint64_t{1} << shift;
    return static_cast<std::uint32_t>(tokens) + 1;
  }
  const void* first_word(std::uint32_t index) const { return bits_.data() + index * words_; }
  std::size_t memory() const { return fields_.capacity() * sizeof(field) + bits_.capacity() * sizeof(bits_[0]); }

 private:
  static constexpr std::uint32_t k_flags = 4;
  struct field {
    std::uint32_t place = 0;
    std::uint8_t tokens = 0;  ///< number of bits of the token count
    bool has_flags = false;
  };
  std::uint64_t& word(std::uint32_t index, const field& op) { return bits_[index * words_ + op.place / 64]; }
  std::uint64_t word(std::uint32_t index, const field& op) const { return bits_[index * words_ + op.place / 64]; }

  std::vector<field> fields_;
  std::size_t words_ = 0;  ///< number of 64-bit words for each rank
  std::vector<std::uint64_t> bits_;
};

}  // namespace lsched
