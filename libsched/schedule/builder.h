// The only way to make a schedule: append ops, add deps, compile.
//
// One thread. A builder keeps its first error, so a chain of adds may be checked once, at compile. Ids handed
// out after an error are k_no_op and harmless.
//
// `need` defaults to "all". A fragment is nothing but a range of ops with an entry and an exit op; generators
// compose by adding deps between them.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// A buffer of the schedule under construction.
using buffer_id = std::uint16_t;

class builder {
 public:
  explicit builder(world place, std::string name = {});

  // --- data ----------------------------------------------------------------------------------------------
  buffer_id input(dtype type, std::uint64_t count) { return declare(buffer_role::input, type, count); }
  buffer_id output(dtype type, std::uint64_t count) { return declare(buffer_role::output, type, count); }
  buffer_id scratch(dtype type, std::uint64_t count) { return declare(buffer_role::scratch, type, count); }
  buffer_id declare(buffer_role role, dtype type, std::uint64_t count, memory_space space = memory_space::host);
  /// A buffer of `count` lists.
  buffer_id lists(buffer_role role, dtype type, std::uint64_t count, const list_layout& layout);

  /// From now on every count and every offset, in buffers, regions and ops, is of so many elements that belong
  /// together; room and total of lists are of items as ever. So an algorithm that knows nothing of them never cuts
  /// between two of them. At least 1; before anything else.
  void set_unit(std::uint64_t elements) { unit_ = elements; }

  // --- ops: `after` are deps, all of which the op waits for unless set_need says otherwise -----------------
  using deps = std::initializer_list<op_id>;
  op_id nop(deps after = {});
  op_id send(rank to, std::uint32_t tag, region source, std::uint64_t count, deps after = {});
  op_id recv(rank from, std::uint32_t tag, region target, std::uint64_t count, deps after = {});
  /// What any kernel computes, of the operands and parameters that its row has (ops/kernel.h).
  struct operands {
    region a{}, b{}, s{}, c{};
  };
  op_id compute(kernel what, const operands& of, std::uint64_t count, const parameter_values& with = {},
                deps after = {});

  // The same, in the words of generators.
  op_id reduce(kernel what, region lower, region higher, region target, std::uint64_t count, deps after = {});
  op_id copy(region source, region target, std::uint64_t count, deps after = {}) {
    return compute(kernel::copy, {.a = source, .c = target}, count, {}, after);
  }
  op_id measure(region source, region lengths, std::uint64_t count, deps after = {}) {
    return compute(kernel::measure, {.a = source, .c = lengths}, count, {}, after);
  }
  op_id lay_out(region lengths, buffer_id target, deps after = {}) {
    return compute(kernel::lay_out, {.a = lengths, .c = {target, 0}}, at(target).count, {}, after);
  }
  /// A function of the instance's (functions.h), which reads all of `source` and `by`, or of `source` alone
  /// (k_no_buffer), and writes all of `target`.
  op_id apply(kernel what, std::uint32_t function, buffer_id source, buffer_id by, buffer_id target, deps after = {});
  op_id divide(region source, region target, std::uint64_t count, std::uint64_t divisor, deps after = {}) {
    return compute(kernel::divide, {.a = source, .c = target}, count, {divisor}, after);
  }
  op_id dot_norms(region lower, region higher, region sums, std::uint64_t count, deps after = {}) {
    return compute(kernel::dot_norms, {.a = lower, .b = higher, .c = sums}, count, {}, after);
  }
  op_id adasum(region lower, region higher, region sums, region target, std::uint64_t count, deps after = {}) {
    return compute(kernel::adasum, {.a = lower, .b = higher, .s = sums, .c = target}, count, {}, after);
  }
  op_id signal_send(rank to, std::uint32_t tag, deps after = {});
  op_id signal_recv(rank from, std::uint32_t tag, deps after = {});
  /// The application's own call; and as it counts in rounds that wait for everybody (activation::full_every).
  op_id call(deps after = {});
  op_id full_call(deps after = {});
  /// `merge` is how offers that missed their round are combined with later ones.
  op_id capture(kernel merge, region target, std::uint64_t count, deps after = {});

  /// `before` must complete in a round before a token reaches `after`. k_no_op on either side is ignored, so a
  /// generator can add "the previous step's send, if there was one" without an if.
  void dep(op_id before, op_id after);

  /// The op fires on its `need`-th token; 0 restores the default, "all".
  void set_need(op_id id, std::uint32_t need);
  void any(op_id id) { set_need(id, 1); }

  /// The op is void in rounds in which `when` does not hold.
  void set_guard(op_id id, const guard& when);
  /// The same of those of the ops first … end-1 that move or compute, so that a fragment is void as one.
  void set_guard(op_id first, op_id end, const guard& when);

  /// From now on ops come from this line of the text that they are written in, for who reads what is wrong with them.
  void set_line(std::uint32_t line) { line_ = line; }

  /// From now on the tags of payload are counted from here, so that fragments need not know of each other.
  void set_first_tag(std::uint32_t tag) { first_tag_ = tag; }

  /// From now on ops belong to one of several buckets side by side, fragments that know nothing of each other. Buckets
  /// do not share tags, and no rank needs to know how many tags another rank's buckets use. Offsets of inputs and
  /// outputs are counted from where the bucket begins.
  struct bucket {
    std::uint32_t number = 0, of = 1;
    std::uint32_t first_signal_tag = 0;
    std::uint64_t input_begin = 0, output_begin = 0;
  };
  void set_bucket(const bucket& which) { bucket_ = which; }

  /// Of the ops from `first` on, those that wait for nothing wait for `entry` from now on.
  void set_entry(op_id first, op_id entry);

  /// The op whose completion, with that of every fired op, ends a round. Default: a nop after all leaves.
  void set_exit(op_id id);

  /// Declares that every rank's entry happens before every rank's exit (allreduce, allgather, barrier).
  /// The engine then needs no credits. A wrong declaration lets a fast rank overwrite messages.
  void declare_synchronising() { parts_.synchronising = true; }

  /// Declares that no rank's send may be waited for, directly or through others, by the reader of the payload that
  /// the send's receiver holds back in turn. A received payload may then stay where the sender has it until its reader
  /// fires, and the send completes only then. Without it a payload stays only if its reader can fire at once, and is
  /// copied otherwise, so that a send never waits for more than its receive. Wrong declarations deadlock.
  void declare_holding() { parts_.holding = true; }
  void set_activation(activation starts) { parts_.starts = starts; }
  void set_name(std::string name) { parts_.name = std::move(name); }

  /// Makes compile() fail so, unless something else is wrong already.
  void refuse(failure why) {
    if (error() == nullptr) error_ = std::move(why);
  }

  world place() const { return parts_.place; }
  /// An empty buffer where there is no such id, as after an error.
  const buffer& at(buffer_id id) const;
  std::size_t op_count() const { return parts_.ops.size(); }
  std::size_t buffer_count() const { return parts_.buffers.size(); }
  const failure* error() const { return error_.code == status::ok ? nullptr : &error_; }

  /// Checks and freezes. Errors: the first one met while building; CYCLE; BOUNDS (a region or bound leaves
  /// its buffer); ARGUMENT (peer out of range, self-message, tag used twice, need above the in-degree, mixed
  /// dtypes, reduction without a kernel, operands that overlap in part, a dep added twice, a write to an input
  /// other than by capture, a capture without an activation policy, an op of the host in device memory). The failure's
  /// op is the number handed out here.
  result<schedule_ptr> compile() const;

 private:
  friend class compiler;
  op_id append(const op& added, deps after);
  bool exists(op_id id, std::string_view call);
  void fail(status code, std::string text, op_id where = k_no_op, rank peer = k_no_rank);
  void refuse_kernel(const std::string& why);
  std::uint32_t tag_in_bucket(std::uint32_t tag) const { return (first_tag_ + tag) * bucket_.of + bucket_.number; }
  region in_bucket(region part) const;
  std::uint64_t widened(std::uint64_t units);
  void widen();

  schedule::parts parts_;  ///< as they were declared and appended; no edges
  std::vector<std::pair<op_id, op_id>> deps_;
  std::uint64_t unit_ = 1;
  std::uint32_t first_tag_ = 0;
  std::uint32_t line_ = 0;
  bucket bucket_{};
  failure error_{status::ok, {}, k_no_rank, k_no_op};
};

}  // namespace lsched
