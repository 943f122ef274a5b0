// A schedule: the compiled, immutable program of one rank for one collective.
//
// It is a value: no pointers to user memory, no behaviour, no knowledge of which collective it is. Ops are
// numbered in a topological order of their deps (every dep goes from a lower to a higher number), edges are
// kept as compressed sparse rows, roots and exit are explicit. Only compile() makes one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libsched/activation.h"
#include "ops/op.h"

namespace lsched {

/// Who provides a buffer's memory.
enum class buffer_role : std::uint8_t {
  input,    ///< bound by the caller (or captured from the application); only read
  output,   ///< bound by the caller (or owned by a partial instance)
  scratch,  ///< owned by the instance
};

std::string_view name_of(buffer_role role);

struct buffer {
  buffer_role role = buffer_role::scratch;
  memory_space space = memory_space::host;
  dtype type = dtype::u8;
  std::uint64_t count = 0;  ///< elements
  std::uint64_t bytes() const { return count * size_of(type); }
  friend bool operator==(const buffer&, const buffer&) = default;
};

/// A number known only at fire time: slot of the instance's arena, never above `bound`.
struct late_extent {
  std::uint32_t slot = 0;
  std::uint64_t bound = 0;
  friend bool operator==(const late_extent&, const late_extent&) = default;
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
    std::vector<late_extent> lates;
    std::uint32_t slots = 0;
    op_id exit = k_no_op;
    bool synchronising = false;  ///< declared: every rank's entry happens before every rank's exit
    bool holding = false;        ///< declared: an in-place payload may wait for its reader, however long
    activation starts{};
    friend bool operator==(const parts&, const parts&) = default;
  };
  explicit schedule(parts content) : parts_(std::move(content)) {}

  const std::string& name() const { return parts_.name; }
  world place() const { return parts_.place; }
  std::span<const op> ops() const { return parts_.ops; }
  std::span<const op_id> successors(op_id id) const {
    return std::span(parts_.next).subspan(parts_.first[id], parts_.first[id + 1] - parts_.first[id]);
  }
  std::size_t dep_count() const { return parts_.next.size(); }
  std::span<const op_id> roots() const { return parts_.roots; }
  std::span<const buffer> buffers() const { return parts_.buffers; }
  std::span<const late_extent> lates() const { return parts_.lates; }
  std::uint32_t slots() const { return parts_.slots; }
  op_id exit() const { return parts_.exit; }
  bool is_synchronising() const { return parts_.synchronising; }
  bool is_holding() const { return parts_.holding; }
  const activation& starts() const { return parts_.starts; }
  bool is_partial() const { return parts_.starts.policy != activation_policy::none; }

  friend bool operator==(const schedule& x, const schedule& y) { return x.parts_ == y.parts_; }

 private:
  parts parts_;
};

using schedule_ptr = std::shared_ptr<const schedule>;

/// Most elements an op can move or touch: its immediate count, or the bound of its late extent.
std::uint64_t max_count(const schedule& program, const op& what);

/// What an op touches.
operand_list operands_of(const schedule& program, const op& what);

/// Number of buffers of one role, in the order the builder declared them.
std::size_t count_of(const schedule& program, buffer_role role);

/// Equal for equal schedules; used to detect ranks that compiled different programs on purpose or by accident.
std::uint64_t hash_of(const schedule& program);

/// The text form, versioned, one line an op; docs/schedule_file.md describes it, schedule_file.h reads it.
std::string to_text(const schedule& program);

/// Graphviz.
std::string to_dot(const schedule& program);

}  // namespace lsched
