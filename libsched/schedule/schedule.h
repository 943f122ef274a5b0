// A schedule: the compiled, immutable program of one rank for one collective.
//
// It is a value: no pointers to user memory, no behaviour, no knowledge of which collective it is. Ops are
// numbered in a topological order of their deps (every dep goes from a lower to a higher number), edges are
// kept as compressed sparse rows, roots and exit are explicit. Only compile() makes one.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libsched/schedule/activation.h"
#include "ops/op.h"

namespace lsched {

/// Who provides a buffer's memory.
enum class buffer_role : std::uint8_t {
  input,    ///< bound by the caller (or captured from the application); only read
  output,   ///< bound by the caller (or owned by a partial instance)
  scratch,  ///< owned by the instance
};

std::string_view name_of(buffer_role role);

/// Of a buffer whose elements are lists: each of 0 to `room` items of the buffer's type, how many is known only when an
/// op fires. Counts and offsets are of lists, as of any other elements.
///
/// Either every list has `room` places of its own; it can be received without its length being known. Or lists are
/// packed one behind the other, so that several go in one message; kernel::lay_out says before how long each is.
struct list_layout {
  std::uint64_t room = 0;     ///< 0: elements are no lists
  std::uint64_t total = 0;    ///< items, at most, of all lists together where they are packed; 0: they are not
  std::uint64_t typical = 0;  ///< items of a list, for models of time
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
  /// Items, at most, of so many elements. Below 2^48, as compile() sees to.
  std::uint64_t most_items(std::uint64_t elements) const {
    const std::uint64_t items = has_lists() ? elements * lists.room : elements;
    return is_packed() ? std::min(items, lists.total) : items;
  }
  std::uint64_t bytes() const { return most_items(count) * size_of(type); }
  friend bool operator==(const buffer&, const buffer&) = default;
};

/// In which rounds an op does anything.
///
/// An op whose guard does not hold in a round is *void* in it: it fires when its tokens say so, touches nothing, moves
/// nothing, and completes. So tokens flow as ever, and whatever can be said of a round in which all guards hold, that
/// it ends above all, can be said of every round. Both ends of an edge have the same guard, and it depends on what both
/// know beforehand: the number of the round, and lengths that are laid out at both.
struct guard {
  std::uint32_t every = 1;   ///< only in every so many-th round; up to k_longest_period
  std::uint32_t phase = 0;   ///< rounds of the period that were over before round 1; less than `every`
  bool skips_empty = false;  ///< only if the lists that the op moves have items; those it receives are laid out
  friend bool operator==(const guard&, const guard&) = default;
};

inline constexpr std::uint32_t k_longest_period = 1 << 20;
inline constexpr std::size_t k_most_guards = 127;  ///< of a schedule; what op::guard can hold

/// Where a buffer lies: from element `begin` of a memory on.
struct placement {
  std::size_t memory = 0;
  std::uint64_t begin = 0;
};

class schedule {
 public:
  /// The parts, as compile() fills them in.
  struct parts {
    std::string name;
    world place;
    std::vector<op> ops;
    std::vector<std::uint32_t> first;  ///< ops.size()+1 offsets into next
    std::vector<op_id> next;
    std::vector<op_id> roots;
    std::vector<buffer> buffers;
    std::vector<guard> guards;  ///< op::guard is a number from 1 on
    std::vector<parameter_values>
        parameters;  ///< op::tag of a compute that has parameters is an index, in the order of ops
    op_id exit = k_no_op;
    bool synchronising = false;  ///< declared: every rank's entry happens before every rank's exit
    bool holding = false;        ///< declared: an in-place payload may wait for its reader, however long
    activation starts{};
    std::vector<std::uint32_t> lines{};  ///< by op: of the text that it was written in; 0, or none: of no text
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
  /// The op's guard; nullptr: it has none.
  const guard* guard_of(const op& o) const { return o.guard == 0 ? nullptr : &parts_.guards[o.guard - std::size_t{1}]; }
  /// The parameters of all computes that have some.
  std::span<const parameter_values> parameters() const { return parts_.parameters; }
  /// The compute's parameters; zeros where its kernel has none.
  const parameter_values& parameters_of(const op& o) const {
    static constexpr parameter_values k_none{};
    return row_of(o.what).has_parameters() ? parts_.parameters[o.tag] : k_none;
  }
  op_id exit() const { return parts_.exit; }
  /// The line of an algorithm file that the op comes from; 0: it comes from none.
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

/// In what is said of an op: ", line 12", or nothing.
inline std::string words_for_line(std::uint32_t line) { return line == 0 ? "" : ", line " + std::to_string(line); }

/// Bytes that an op moves, or reads of a vector, at most; 0 for ops without data.
std::uint64_t most_bytes(const schedule& program, const op& o);

/// Likewise, but of lists of typical length.
std::uint64_t typical_bytes(const schedule& program, const op& o);

/// What an op touches. Its buffers exist, or are left out.
operand_list operands_of(const op& o, std::span<const buffer> buffers);

/// Whether a device carries the op out, for it touches device memory: a compute then (validate_op in op_rules.h).
bool is_on_device(const op& o, std::span<const buffer> buffers);

/// Number of buffers of one role, in the order the builder declared them.
std::size_t count_of(const schedule& program, buffer_role role);

/// The text form, versioned, one line an op; docs/reference/schedule_file.md describes it, schedule_file.h reads it.
inline constexpr unsigned k_text_version = 3;
inline constexpr unsigned k_first_text_version = 2;  ///< that is read
std::string to_text(const schedule& program, unsigned version = k_text_version);

/// Graphviz.
std::string to_dot(const schedule& program);

}  // namespace lsched
