// A schedule: the compiled, immutable program of one rank for one collective.
//
// A schedule is a value. It has no pointers to user memory and no behaviour, and does not depend on the collective that
// it implements. Ops are numbered in a topological order of their deps (every dep goes from a lower to a higher
// number). Edges are stored as compressed sparse rows. Roots and exit are explicit. Only compile() creates schedules.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libsched/schedule/activation.h"
#include "ops/op.h"

namespace lsched {

/// Provider of a buffer's memory.
enum class buffer_role : std::uint8_t {
  input,    ///< bound by the caller (or captured from the application); only read
  output,   ///< bound by the caller (or owned by a partial instance)
  scratch,  ///< owned by the instance
};

std::string_view name_of(buffer_role role);

/// Layout of a buffer whose elements are lists. A list has 0 to `room` items of the buffer's type, and its length is
/// known only when an op fires. Counts and offsets are in lists, as for any other elements.
///
/// A list that is not packed has `room` places of its own, and can be received before its length is known. Packed lists
/// lie one behind the other, so that a message can carry several. kernel::lay_out sets their lengths beforehand.
struct list_layout {
  std::uint64_t room = 0;     ///< greatest number of items of a list; 0: elements are not lists
  std::uint64_t total = 0;    ///< greatest number of items of all packed lists together; 0: lists are not packed
  std::uint64_t typical = 0;  ///< typical number of items of a list, for models of time
  friend bool operator==(const list_layout&, const list_layout&) = default;
};

struct buffer {
  buffer_role role = buffer_role::scratch;
  memory_space space = memory_space::host;
  dtype type = dtype::u8;
  std::uint64_t count = 0;  ///< elements
  list_layout lists{};
  bool has_lists() const { return lists.room != 0; }
  bool is_packed() const { return lists.total != 0; }
  /// Returns the greatest number of items in `elements` elements. compile() ensures that it is below 2^48.
  std::uint64_t most_items(std::uint64_t elements) const {
    const std::uint64_t items = has_lists() ? elements * lists.room : elements;
    return is_packed() ? std::min(items, lists.total) : items;
  }
  std::uint64_t bytes() const { return most_items(count) * size_of(type); }
  friend bool operator==(const buffer&, const buffer&) = default;
};

/// Condition under which an op moves data in a round.
///
/// An op whose guard does not hold in a round is *void* in this round. A void op fires when it has its tokens, accesses
/// no memory, moves nothing, and completes. So tokens flow as in a round in which all guards hold. Every property of
/// such a round, above all that it ends, then holds for every round. Both ends of an edge have the same guard. A guard
/// depends only on values that both ends know beforehand: the round number, and lengths that are laid out at both ends.
struct guard {
  std::uint32_t every = 1;   ///< period in rounds, 1 to k_longest_period; the guard holds once per period
  std::uint32_t phase = 0;   ///< rounds of the first period that lie before round 1; less than `every`
  bool skips_empty = false;  ///< holds only if the lists that the op moves have items; received lists are laid out
  friend bool operator==(const guard&, const guard&) = default;
};

inline constexpr std::uint32_t k_longest_period = 1 << 20;
inline constexpr std::size_t k_most_guards = 127;  ///< per schedule; the range of op::guard

/// Location of a buffer: from element `begin` of memory number `memory` on.
struct placement {
  std::size_t memory = 0;
  std::uint64_t begin = 0;
};

class schedule {
 public:
  /// The content, which compile() fills in.
  struct parts {
    std::string name;
    world place;
    std::vector<op> ops;
    std::vector<std::uint32_t> first;  ///< ops.size()+1 offsets into next
    std::vector<op_id> next;
    std::vector<op_id> roots;
    std::vector<buffer> buffers;
    std::vector<guard> guards;  ///< op::guard counts from 1
    std::vector<parameter_values>
        parameters;  ///< in the order of ops; op::tag of a compute with parameters is the index
    op_id exit = k_no_op;
    bool synchronising = false;  ///< declared: every rank's entry happens before every rank's exit
    bool holding = false;        ///< declared: an in-place payload may wait for its reader without limit
    activation starts{};
    std::vector<std::uint32_t> lines{};  ///< by op: line of the algorithm file; 0 or no entry: not from a file
    std::uint32_t line_of(op_id id) const { return id < lines.size() ? lines[id] : 0; }
    friend bool operator==(const parts&, const parts&) = default;
  };
  explicit schedule(parts content) : parts_(std::move(content)) {}

  const parts& content() const { return parts_; }
  const std::string& name() const { return parts_.name; }
  world place() const { return parts_.place; }
  std::span<const op> ops() const { return parts_.ops; }
  std::span<const op_id> successors(op_id id) const {
    return std::span(parts_.next).subspan(parts_.first[id], parts_.first[id + 1] - parts_.first[id]);
  }
  std::size_t dep_count() const { return parts_.next.size(); }
  std::span<const op_id> roots() const { return parts_.roots; }
  std::span<const buffer> buffers() const { return parts_.buffers; }
  std::span<const guard> guards() const { return parts_.guards; }
  /// Returns the op's guard, or nullptr.
  const guard* guard_of(const op& o) const { return o.guard == 0 ? nullptr : &parts_.guards[o.guard - std::size_t{1}]; }
  /// Returns the parameters of all computes that have parameters.
  std::span<const parameter_values> parameters() const { return parts_.parameters; }
  /// Returns the compute's parameters, or zeros if its kernel takes no parameters.
  const parameter_values& parameters_of(const op& o) const {
    static constexpr parameter_values k_none{};
    return row_of(o.what).has_parameters() ? parts_.parameters[o.tag] : k_none;
  }
  op_id exit() const { return parts_.exit; }
  /// Returns the line of the algorithm file that describes the op, or 0.
  std::uint32_t line_of(op_id id) const { return parts_.line_of(id); }
  bool is_synchronising() const { return parts_.synchronising; }
  bool is_holding() const { return parts_.holding; }
  const activation& starts() const { return parts_.starts; }
  bool is_partial() const { return parts_.starts.policy != activation_policy::none; }

  friend bool operator==(const schedule& x, const schedule& y) { return x.parts_ == y.parts_; }

 private:
  parts parts_;
};

using schedule_ptr = std::shared_ptr<const schedule>;

/// Returns ", line 12" for messages about an op, or an empty text for line 0.
inline std::string words_for_line(std::uint32_t line) { return line == 0 ? "" : ", line " + std::to_string(line); }

/// Returns the greatest number of bytes that an op moves, or reads of a vector. Returns 0 for ops without data.
std::uint64_t most_bytes(const schedule& program, const op& o);

/// Returns the bytes that an op moves, or reads of a vector, if lists have their typical length.
std::uint64_t typical_bytes(const schedule& program, const op& o);

/// Returns the operands of an op. Operands of a function cover their whole buffers.
operand_list operands_of(const op& o, std::span<const buffer> buffers);

/// Returns true if the op accesses device memory, so that a device carries it out. validate_op (op_rules.h) ensures
/// that such an op is a compute.
bool is_on_device(const op& o, std::span<const buffer> buffers);

/// Returns the number of buffers of one role.
std::size_t count_of(const schedule& program, buffer_role role);

/// Version of the text form, which has one line per op. docs/reference/schedule_file.md describes the text form, and
/// schedule_file.h reads it.
inline constexpr unsigned k_text_version = 3;
inline constexpr unsigned k_first_text_version = 2;  ///< oldest version that can be read
std::string to_text(const schedule& program, unsigned version = k_text_version);

/// Returns the graph of the schedule for Graphviz.
std::string to_dot(const schedule& program);

}  // namespace lsched
