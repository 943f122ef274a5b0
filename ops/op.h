// The op: one record of a schedule, and the types of its fields.
//
// An op refers to buffers by index, never by address. So a schedule can be compared, printed, verified, simulated and
// bound to new memory. The record fits in one cache line.
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

/// Kinds of ops.
///
/// A *signal* notifies a peer of a round number. It is not a message of length 0: each signal edge has a 64-bit
/// register at the receiver. The register holds the highest round that the sender has signaled. A signal_recv completes
/// in round t when its register holds at least t. If `peer` is this rank, the register holds the latest round that the
/// application has started. `capture` moves the application's pending contribution to region `c`. If no contribution is
/// pending, `capture` marks `c` as null.
enum class op_kind : std::uint8_t { nop, send, recv, compute, signal_send, signal_recv, capture };

/// Properties of a kind of op. For computes, the kernel's row lists the operands (ops/kernel.h).
struct kind_row {
  std::string_view name;
  bool reads_a = false;
  bool writes_c = false;
  bool is_outgoing = false;
  bool is_incoming = false;
  bool is_signal = false;
};

/// Rows of all kinds, in the order of op_kind.
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

/// The start of a region in a buffer: buffer index and offset in elements. The length is usually the op's count;
/// operands_of (schedule.h) returns the exact length.
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
/// | compute     | lower  | higher | sums | target  |      |     |  see below; the tag selects the parameters
/// | signal_send |        |        |      |         | to   | yes |
/// | signal_recv |        |        |      |         | from | yes |  from this rank: waits for the application's call
/// | capture     |        |        |      | target  |      |     |
///
/// A compute op writes region c (target). The op reads a (the operand of lower ranks), b (the operand of higher ranks)
/// and s (sums), if its kernel needs these operands. The kernel's row in ops/kernel.h lists the operands and the
/// parameters:
///
///   copy        c = a
///   reduction   c = a (op) b
///   dot_norms   c = the k_dot_sums dot products of a and b (ops/kernel.h)
///   adasum      c = x a + y b; x and y follow from the dot products in s
///   divide      c = a / divisor
///   measure     c = the lengths of the lists in a
///   lay_out     c = lists with the lengths in a, without values yet
///
/// An op whose kernel is a function of the instance (functions.h) reads the whole buffers of region a and, if present,
/// region b. It writes the whole buffer of region c. These buffers may have any type. operands_of (schedule.h) returns
/// all regions of an op.
struct op {
  op_kind kind = op_kind::nop;
  kernel what = kernel::none;
  dtype type = dtype::u8;
  bool in_place : 1 = false;   ///< recv: the payload may be read in the transport's memory (set by compile)
  std::uint8_t guard : 7 = 0;  ///< index of the op's guard (a condition on rounds, schedule.h) plus 1; 0: no guard
  rank peer = k_no_rank;
  std::uint32_t need = 0;  ///< number of dependencies that must complete before the op starts; 1: any, in-degree: all
  /// Communication op: distinguishes ops of the schedule with the same peer, direction and kind (payload or signal).
  /// Compute op whose kernel has parameters: index of the parameter values in schedule::parameters().
  std::uint32_t tag = 0;
  std::uint64_t count = 0;  ///< elements
  region a{}, b{}, c{}, s{};
  /// Set by compile. Compute op: the in-place recv whose payload this op reads as operand `a`. The payload is released
  /// after its last reader. Send: the op that copies the payload from device memory to staging memory for this send
  /// only. The engine skips the copy if the receiver reads the device memory directly.
  op_id releases_a = k_no_op;
  op_id releases_b = k_no_op;  ///< set by compile; compute op: as releases_a, for operand `b`
  friend bool operator==(const op&, const op&) = default;
};
static_assert(sizeof(op) <= 64);

/// A region that an op reads or writes, with the region's type and length.
struct operand {
  region op::*which = nullptr;
  region at{};
  dtype type = dtype::u8;
  std::uint64_t count = 0;  ///< elements
  bool is_written = false;
  bool is_sums = false;  ///< the operand holds the dot products of an adaptive sum (operand_type::sums)
};

/// The operands of an op, in the order of access: the op first reads a, b and s, then writes c. Absent operands are not
/// in the list.
class operand_list {
 public:
  constexpr void add(const operand& it) { all_[size_++] = it; }
  constexpr const operand* begin() const { return all_.data(); }
  constexpr const operand* end() const { return all_.data() + size_; }

 private:
  std::array<operand, 4> all_{};
  std::size_t size_ = 0;
};

/// Returns an error text if the op's kernel does not support the op's dtype or parameters, else an empty string.
std::string validate_kernel(const op& what, const parameter_values& with);

/// Returns the operands of an op. The kernel must not be a function of the instance (functions.h).
operand_list own_operands_of(const op& what);

/// Returns true if the regions of two operands overlap in a way that no kernel supports. Kernels support identical
/// regions if neither holds sums.
bool straddle(const operand& x, const operand& y);

/// Returns "region a", "region b", "region s" or "region c".
std::string name_of(region op::*which);

}  // namespace lsched
