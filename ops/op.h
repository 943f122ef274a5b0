// The op: one record of a schedule, and the types of its fields.
//
// An op refers to buffers by number, never by address, so a schedule can be compared, printed, proved,
// simulated and bound to new memory. The record is one cache line.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ops/base.h"
#include "ops/kernel.h"

namespace lsched {

/// What an op does when it fires.
///
/// A *signal* is a kind of send/recv pair, never a length: a signal edge is a monotone 64-bit register at the
/// receiver, "the highest round known active". signal_recv is satisfied in round t iff its register holds at
/// least t; with peer == self the register is the application's own call. `capture` takes what the application
/// has offered so far into the op's buffer `c`, or makes that buffer null.
enum class op_kind : std::uint8_t { nop, send, recv, compute, signal_send, signal_recv, capture };

/// What every op of a kind has. The operands of a compute are in the row of its kernel instead (ops/kernel.h).
struct kind_row {
  std::string_view name;
  bool reads_a = false;
  bool writes_c = false;
  bool is_outgoing = false;  ///< its peer is a rank that it sends to
  bool is_incoming = false;  ///< its peer is a rank that it hears from
  bool is_signal = false;
};

/// In the order of op_kind.
inline constexpr std::array<kind_row, 7> k_kinds{{
    {.name = "nop"},
    {.name = "send", .reads_a = true, .is_outgoing = true},
    {.name = "recv", .writes_c = true, .is_incoming = true},
    {.name = "compute"},
    {.name = "signal_send", .is_outgoing = true, .is_signal = true},
    {.name = "signal_recv", .is_incoming = true, .is_signal = true},
    {.name = "capture", .writes_c = true},
}};

constexpr const kind_row& row_of(op_kind kind) { return k_kinds[static_cast<std::size_t>(kind)]; }
constexpr std::string_view name_of(op_kind kind) { return row_of(kind).name; }
constexpr bool is_outgoing(op_kind kind) { return row_of(kind).is_outgoing; }
constexpr bool is_incoming(op_kind kind) { return row_of(kind).is_incoming; }
constexpr bool is_communication(op_kind kind) { return is_outgoing(kind) || is_incoming(kind); }
constexpr bool is_signal(op_kind kind) { return row_of(kind).is_signal; }
constexpr bool is_payload(op_kind kind) { return is_communication(kind) && !is_signal(kind); }

inline constexpr std::uint16_t k_no_buffer = 0xffff;
inline constexpr std::uint64_t k_max_count = (std::uint64_t{1} << 48) - 1;

/// A place in a buffer: buffer number and offset in elements. How far it reaches is the op's count.
class region {
 public:
  constexpr region() = default;
  constexpr region(std::uint16_t buffer, std::uint64_t offset) : bits_(offset << 16 | buffer) {}

  constexpr std::uint16_t buffer() const { return static_cast<std::uint16_t>(bits_); }
  constexpr std::uint64_t offset() const { return bits_ >> 16; }
  constexpr bool exists() const { return buffer() != k_no_buffer; }
  friend constexpr bool operator==(region, region) = default;

 private:
  std::uint64_t bits_ = k_no_buffer;
};

/// | kind        | a      | b      | s    | c       | peer | tag |
/// |-------------|--------|--------|------|---------|------|-----|
/// | nop         |        |        |      |         |      |     |
/// | send        | source |        |      |         | to   | yes |
/// | recv        |        |        |      | target  | from | yes |
/// | compute     | lower  | higher | sums | target  |      |     |  as below; the tag is where its parameters are
/// | signal_send |        |        |      |         | to   | yes |
/// | signal_recv |        |        |      |         | from | yes |  from == self: the application's call
/// | capture     |        |        |      | target  |      |     |
///
/// Which operands and parameters a compute has is in its kernel's row (ops/kernel.h): c is what the kernel makes of a
/// and b, in which s takes part if it exists. A copy is c = a; a reduction c = a (op) b;
/// dot_norms makes the k_dot_sums sums of a and b; adasum is c = x a + y b, where x and y follow from such sums, s;
/// divide is c = a / divisor. measure and lay_out connect lists of the op's type with their lengths. A function reads
/// all of the buffers of a and, if it exists, b, of any type, and writes all of c's. operands_of (schedule.h) says so
/// to whoever goes through regions.
struct op {
  op_kind kind = op_kind::nop;
  kernel what = kernel::none;
  dtype type = dtype::u8;
  bool in_place : 1 = false;   ///< recv: the payload may stay where the transport has it (set by compile)
  std::uint8_t guard : 7 = 0;  ///< number of the schedule's guard that it has (schedule.h)
  rank peer = k_no_rank;
  std::uint32_t need = 0;  ///< incoming tokens it waits for: in-degree = all, 1 = any, between = quorum
  /// Of send and recv: unique per (peer, direction, payload or signal) within a schedule. Of a compute whose kernel has
  /// parameters: index of their values in the schedule's side array.
  std::uint32_t tag = 0;
  std::uint64_t count = 0;  ///< elements
  region a{}, b{}, c{}, s{};
  /// Set by compile. Of a compute: the in-place recv whose payload `a` is. Of a send: the copy from device memory that
  /// makes its source for it alone, and that is not needed where the receiver reads device memory.
  op_id releases_a = k_no_op;
  op_id releases_b = k_no_op;  ///< of a compute, likewise
  friend bool operator==(const op&, const op&) = default;
};
static_assert(sizeof(op) <= 64);

/// One region that an op reads or writes, with its type and length.
struct operand {
  region op::*which = nullptr;
  region at{};
  dtype type = dtype::u8;
  std::uint64_t count = 0;  ///< elements
  bool is_written = false;
  bool is_sums = false;  ///< in memory of their own
};

/// What an op touches: reads a, b and s first, then writes c; only regions that exist.
class operand_list {
 public:
  constexpr void add(const operand& it) { all_[size_++] = it; }
  constexpr const operand* begin() const { return all_.data(); }
  constexpr const operand* end() const { return all_.data() + size_; }

 private:
  std::array<operand, 4> all_{};
  std::size_t size_ = 0;
};

/// The error if the op's kernel does not support its dtype or parameters; an empty string if it does.
std::string validate_kernel(const op& what, const parameter_values& with);

/// The operands of an op that calls no function.
operand_list own_operands_of(const op& what);

/// Whether two regions of one buffer overlap without being the same, or lie over sums: no kernel takes such operands.
bool straddle(const operand& x, const operand& y);

/// "region a", and so on.
std::string name_of(region op::*which);

}  // namespace lsched
