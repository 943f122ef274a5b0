// A schedule is the compiled, immutable program of one rank for one collective.
//
// A schedule is a value: it contains no pointers to user memory and no code. Ops are numbered in a topological order,
// so every dep goes from a lower to a higher number. Deps are stored as compressed sparse rows (CSR). In the library,
// only compile() creates schedules.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libsched/schedule/activation.h"
#include "ops/op.h"

namespace lsched {

/// Role of a buffer. The role determines who provides the buffer's memory.
enum class buffer_role : std::uint8_t {
  input,    ///< bound by the caller; in a partial schedule, captured from the application; only captures write inputs
  output,   ///< bound by the caller; in a partial schedule, owned by the instance
  scratch,  ///< owned by the instance
};

std::string_view name_of(buffer_role role);

/// Layout of a buffer whose elements are lists. A list has 0 to `room` items of the buffer's type. The length of a list
/// is determined during a round. Each list is one element, so counts and offsets of such a buffer are in lists.
///
/// A list that is not packed has memory for `room` items, and can be received before its length is known. Packed lists
/// are stored contiguously, so that one message can contain several lists. Before packed lists are received,
/// kernel::lay_out must set their lengths.
struct list_layout {
  std::uint64_t room = 0;     ///< maximum number of items of a list; 0: elements are not lists
  std::uint64_t total = 0;    ///< maximum number of items of all packed lists together; 0: lists are not packed
  std::uint64_t typical = 0;  ///< typical number of items of a list, for time models
  friend bool operator==(const list_layout&, const list_layout&) = default;
};

struct buffer {
  buffer_role role = buffer_role::scratch;
  memory_space space = memory_space::host;
  dtype type = dtype::u8;
  std::uint64_t count = 0;  ///< number of elements
  list_layout lists{};
  bool has_lists() const { return lists.room != 0; }
  bool is_packed() const { return lists.total != 0; }
  /// Returns the maximum number of items in `elements` elements. Each element may be a list of items. compile() ensures
  /// that the result is below 2^48.
  std::uint64_t most_items(std::uint64_t elements) const {
    const std::uint64_t items = has_lists() ? elements * lists.room : elements;
    return is_packed() ? std::min(items, lists.total) : items;
  }
  std::uint64_t bytes() const { return most_items(count) * size_of(type); }
  friend bool operator==(const buffer&, const buffer&) = default;
};

/// A guard is a condition under which an op moves or computes data in a round.
///
/// If the guard of an op is false in a round, the op is *void* in this round. A void op fires when it has its tokens,
/// and completes without any access to memory or messages. So guards do not affect which ops fire, and a proof that a
/// round ends is valid for all rounds. The send and the receive of a message must have the same guard. A guard depends
/// only on values that both ranks know before they exchange the message. These values are the round number, and the
/// lengths of lists that both ranks have set (kernel::lay_out).
struct guard {
  std::uint32_t every = 1;   ///< period in rounds, 1 to k_longest_period; the guard is true in one round per period
  std::uint32_t phase = 0;   ///< the first period begins this number of rounds before round 1; less than `every`
  bool skips_empty = false;  ///< the guard is false if the moved lists are empty; lengths must be set before receives
  friend bool operator==(const guard&, const guard&) = default;
};

inline constexpr std::uint32_t k_longest_period = 1 << 20;
inline constexpr std::size_t k_most_guards = 127;  ///< maximum per schedule, because op::guard has 7 bits

/// Location of a buffer: the buffer begins at element `begin` of the memory with the index `memory`.
struct placement {
  std::size_t memory = 0;
  std::uint64_t begin = 0;
};

class schedule {
 public:
  struct parts {
    std::string name;
    world place;
    std::vector<op> ops;
    std::vector<std::uint32_t> first;  ///< by op: position of its first successor in `next`; last: length of `next`
    std::vector<op_id> next;
    std::vector<op_id> roots;
    std::vector<buffer> buffers;
    std::vector<guard> guards;  ///< op::guard is the index in this vector plus 1
    std::vector<parameter_values>
        parameters;  ///< for each compute with parameters; op::tag is the index in this vector
    op_id exit = k_no_op;
    bool synchronising = false;  ///< declared: no rank's round ends before all ranks have entered the round
    bool holding = false;        ///< declared: payloads may stay in the sender's memory (builder::declare_holding)
    activation starts{};
    std::vector<std::uint32_t> lines{};  ///< by op: line of the algorithm file; 0 or no entry: unknown
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
  /// Returns the op's guard, or nullptr if the op has no guard.
  const guard* guard_of(const op& o) const { return o.guard == 0 ? nullptr : &parts_.guards[o.guard - std::size_t{1}]; }
  std::span<const parameter_values> parameters() const { return parts_.parameters; }
  /// Returns the parameter values of a compute. Returns zeros if the kernel has no parameters.
  const parameter_values& parameters_of(const op& o) const {
    static constexpr parameter_values k_none{};
    return row_of(o.what).has_parameters() ? parts_.parameters[o.tag] : k_none;
  }
  op_id exit() const { return parts_.exit; }
  /// Returns the line of the algorithm file from which the op was created, or 0 if the op is not from a file.
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

/// Returns the maximum number of bytes that a communication op moves. For other ops, returns the maximum size of one
/// operand, or 0 if the op has no operands.
std::uint64_t most_bytes(const schedule& program, const op& o);

/// Like most_bytes, but assumes that each list has the typical length, not the maximum length.
std::uint64_t typical_bytes(const schedule& program, const op& o);

/// Returns the operands of an op. Operands of functions are whole buffers.
operand_list operands_of(const op& o, std::span<const buffer> buffers);

/// Returns true if the op accesses device memory, so that a device must execute it. validate_op (op_rules.h) ensures
/// that such an op is a compute.
bool is_on_device(const op& o, std::span<const buffer> buffers);

std::size_t count_of(const schedule& program, buffer_role role);

/// Current version of the text form, which has one line for each op (docs/reference/schedule_file.md). schedule_file.h
/// declares the parser.
inline constexpr unsigned k_text_version = 3;
inline constexpr unsigned k_first_text_version = 2;  ///< oldest version that can be read
std::string to_text(const schedule& program, unsigned version = k_text_version);

/// Returns the graph of the schedule for Graphviz.
std::string to_dot(const schedule& program);

}  // namespace lsched
