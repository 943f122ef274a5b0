// The builder creates schedules. The caller appends ops, adds deps (dependencies), and calls compile().
//
// Not thread-safe. A builder stores its first error, so the caller needs to check for errors only once, at compile().
// After an error, functions return k_no_op, which all functions accept as an id.
//
// An op waits for all its deps, unless set_need() sets a smaller number. A fragment is a range of ops with an entry op
// and an exit op. Generators (functions that build schedules) connect fragments by deps between their entry and exit
// ops.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

using buffer_id = std::uint16_t;

class builder {
 public:
  explicit builder(world place, std::string name = {});

  // --- data ----------------------------------------------------------------------------------------------
  buffer_id input(dtype type, std::uint64_t count) { return declare(buffer_role::input, type, count); }
  buffer_id output(dtype type, std::uint64_t count) { return declare(buffer_role::output, type, count); }
  buffer_id scratch(dtype type, std::uint64_t count) { return declare(buffer_role::scratch, type, count); }
  buffer_id declare(buffer_role role, dtype type, std::uint64_t count, memory_space space = memory_space::host);
  /// Declares a buffer of `count` lists.
  buffer_id lists(buffer_role role, dtype type, std::uint64_t count, const list_layout& layout);

  /// Sets the unit to `elements` elements, at least 1. The builder then interprets all counts and offsets of buffers,
  /// regions and ops in units, so an algorithm cannot split a unit. Must be called before buffers are declared. Lists
  /// are supported only if a unit has one element.
  void set_unit(std::uint64_t elements) { unit_ = elements; }

  // --- ops: an op waits for all ops in `after`, unless set_need() sets a smaller number ----------------------
  using deps = std::initializer_list<op_id>;
  op_id nop(deps after = {});
  op_id send(rank to, std::uint32_t tag, region source, std::uint64_t count, deps after = {});
  op_id recv(rank from, std::uint32_t tag, region target, std::uint64_t count, deps after = {});
  /// Operands of a compute. The kernel's row (ops/kernel.h) lists the operands and parameters of the kernel.
  struct operands {
    region a{}, b{}, s{}, c{};
  };
  op_id compute(kernel what, const operands& of, std::uint64_t count, const parameter_values& with = {},
                deps after = {});

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
  /// Appends a call of a function of the instance (functions.h). The function reads the whole buffer `source`, and the
  /// whole buffer `by` unless `by` is k_no_buffer. It writes the whole buffer `target`.
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
  /// Appends a call op. The op waits until the application has called for the round. full_call() appends the second
  /// call op of a schedule (activation::has_full_call).
  op_id call(deps after = {});
  op_id full_call(deps after = {});
  /// Appends a call op that completes when the grace has passed. The grace begins when the op has its tokens.
  op_id grace_call(deps after = {});
  /// Appends a call op that stands for the call of rank `r`, and completes in rounds after the departure of `r`.
  op_id left_call(rank r, deps after = {});
  /// Appends a capture, which moves the application's pending contribution to `target`. `merge` combines a contribution
  /// that comes too late for a round with the next contribution.
  op_id capture(kernel merge, region target, std::uint64_t count, deps after = {});

  /// Adds a dep: in each round, `after` gets a token when `before` completes. Does nothing if either op is k_no_op, so
  /// generators can pass ops that may not exist, such as the send of the previous step.
  void dep(op_id before, op_id after);

  /// Makes the op fire when `need` of its deps have completed. If `need` is 0, the op waits for all its deps, as by
  /// default.
  void set_need(op_id id, std::uint32_t need);
  void any(op_id id) { set_need(id, 1); }

  /// Makes the op void in rounds in which the condition `when` is false. A void op moves no data and computes nothing.
  void set_guard(op_id id, const guard& when);
  /// Sets the guard of all payload ops and compute ops with ids from `first` to `end` - 1.
  void set_guard(op_id first, op_id end, const guard& when);

  /// Sets the line of the algorithm file for all ops that are appended from now on. Error texts contain this line.
  void set_line(std::uint32_t line) { line_ = line; }

  /// Sets a number that is added to the payload tags of all ops that are appended from now on. With different numbers,
  /// independent fragments do not share tags.
  void set_first_tag(std::uint32_t tag) { first_tag_ = tag; }

  /// A bucket is one of several independent fragments that run concurrently. `number` is the index of the bucket, and
  /// `of` is the number of buckets. Tags are assigned so that buckets never share tags, even if the buckets of
  /// different ranks have different numbers of tags. Offsets in inputs and outputs are relative to the start of the
  /// bucket. set_bucket() applies to all ops that are appended from now on.
  struct bucket {
    std::uint32_t number = 0, of = 1;
    std::uint32_t first_signal_tag = 0;
    std::uint64_t input_begin = 0, output_begin = 0;
  };
  void set_bucket(const bucket& which) { bucket_ = which; }

  /// Adds a dep from `entry` to every op without deps whose id is at least `first`.
  void set_entry(op_id first, op_id entry);

  /// Sets the exit op. A round ends when the exit op and every fired op have completed. If no exit is set, compile()
  /// uses the only op without successors. If there are several such ops, compile() appends a nop that depends on all of
  /// them.
  void set_exit(op_id id);

  /// Declares that no rank's round ends before all ranks have entered the round, as in allreduce, allgather and
  /// barrier. The engine then uses no flow control (credits). If the declaration is wrong, a fast rank can overwrite
  /// messages.
  void declare_synchronising() { parts_.synchronising = true; }

  /// Declares that a received payload may stay in the sender's memory until its reader (the op that reads the payload)
  /// has completed. The send completes only after the reader. So the reader must not depend, directly or through other
  /// ranks, on the completion of this send. Without the declaration, a payload is copied unless its reader can fire at
  /// once. The send then waits only for the receive. A wrong declaration can lead to deadlock.
  void declare_holding() { parts_.holding = true; }
  void set_activation(activation starts) { parts_.starts = starts; }
  void set_name(std::string name) { parts_.name = std::move(name); }

  /// Makes compile() fail with `why`. Does nothing if the builder already has an error.
  void refuse(failure why) {
    if (error() == nullptr) error_ = std::move(why);
  }

  world place() const { return parts_.place; }
  /// Returns the buffer, or an empty buffer if the id does not exist, which is possible after an error.
  const buffer& at(buffer_id id) const;
  std::size_t op_count() const { return parts_.ops.size(); }
  std::size_t buffer_count() const { return parts_.buffers.size(); }
  const failure* error() const { return error_.code == status::ok ? nullptr : &error_; }

  /// Checks all parts and returns the schedule. If the builder has an error, returns this error. Returns CYCLE if the
  /// deps form a cycle, and BOUNDS if a region exceeds its buffer. Returns ARGUMENT for each of these faults: a peer
  /// out of range, a message to this rank, a tag used twice, `need` above the in-degree, mixed dtypes, a reduction
  /// without a kernel, operands that overlap partially, a dep added twice, an input that an op other than a capture
  /// writes, a capture without an activation policy, device memory that an op other than a compute accesses.
  /// failure::op is the id that this builder returned for the op.
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

  schedule::parts parts_;  ///< buffers and ops in the order of declaration; without deps
  std::vector<std::pair<op_id, op_id>> deps_;
  std::uint64_t unit_ = 1;
  std::uint32_t first_tag_ = 0;
  std::uint32_t line_ = 0;
  bucket bucket_{};
  failure error_{status::ok, {}, k_no_rank, k_no_op};
};

}  // namespace lsched
