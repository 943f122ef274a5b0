// The tokens and receives of a simulated round, in a few bits an op.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "libsched/simulate/packed_world.h"

namespace lsched {

/// The state of one round, of all ranks of a shape. An op has as many bits as its state needs: a count of tokens that
/// stops above `need`, and for a receive four flags.
class packed_state {
 public:
  enum flag : std::uint64_t {
    fired = 1,
    arrived = 2,    ///< a receive: its message is there; a call or a signal: its register satisfies the round
    announced = 4,  ///< rendezvous: a send waits for this receive
    done = 8
  };

  explicit packed_state(const packed_shape& shape) {
    std::uint32_t end = 0;
    for (const packed_op& op : shape.ops()) {
      const bool is_receive = op.kind == op_kind::recv || op.kind == op_kind::signal_recv;
      const auto tokens = static_cast<std::uint32_t>(std::bit_width(std::min(op.in_degree, op.need + 1)));
      const std::uint32_t width = tokens + (is_receive ? k_flags : 0);
      if (end / 64 != (end + width - 1) / 64 && width != 0) end = (end + 63) / 64 * 64;  // no field crosses a word
      fields_.push_back({end, static_cast<std::uint8_t>(tokens), is_receive});
      end += width;
    }
    words_ = (end + 63) / 64;
    bits_.resize(words_ * shape.ranks());
  }

  /// Whether the flag is set; false for an op that is no receive.
  bool test(std::uint32_t index, op_id id, flag which) const {
    const field& op = fields_[id];
    return op.has_flags && (word(index, op) >> op.place % 64 & which) != 0;
  }
  void set(std::uint32_t index, op_id id, flag which) {
    const field& op = fields_[id];
    if (op.has_flags) word(index, op) |= static_cast<std::uint64_t>(which) << op.place % 64;
  }
  /// Adds a token. Answers how many tokens the op has, or a number above its need.
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
    std::uint8_t tokens = 0;  ///< bits
    bool has_flags = false;
  };
  std::uint64_t& word(std::uint32_t index, const field& op) { return bits_[index * words_ + op.place / 64]; }
  std::uint64_t word(std::uint32_t index, const field& op) const { return bits_[index * words_ + op.place / 64]; }

  std::vector<field> fields_;
  std::size_t words_ = 0;  ///< of a rank
  std::vector<std::uint64_t> bits_;
};

}  // namespace lsched
