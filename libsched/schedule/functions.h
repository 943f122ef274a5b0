// Functions of an instance: computations that the elementwise kernels of ops/kernel.h do not provide. Unlike a kernel,
// a function may depend on state in addition to the op's operands.
//
// An op calls a function if its kernel is `split`, `fold`, `join` or `derive` (is_function in ops/kernel.h). The op
// identifies the function by a number. The schedule contains only the kernel and the buffers that the function reads
// and writes. The kernel defines how the function treats contributions, and the verifier relies on this definition. The
// generator of the schedule and the functions must agree on the actual computation. Functions may keep state from round
// to round. So the functions of an instance are never called concurrently, and are called in the same order in each
// round. The verifier requires that the deps put all function ops of a rank into one order.
//
// In a partial schedule (in which ranks may be absent), inputs of a function can be null. The output is never null,
// because the function can compute the output from its state. Operand a does not determine the contributors of the
// output. The reason is that a message can contain lists of several ranks, and that a guard can skip a message. So the
// function that computes the result has an operand b that contains all contributions. The output gets the number of
// contributors of b (collectives/sparse/sparse_allreduce.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libsched/schedule/schedule.h"
#include "ops/sparse_job.h"
#include "ops/status.h"

namespace lsched {

struct item_run {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

/// Positions and lengths of the lists of items in a buffer (list_layout), in the current round.
class list_table {
 public:
  explicit list_table(const buffer& lists)
      : room_(lists.lists.room), total_(lists.lists.total), is_packed_(lists.is_packed()), numbers_(lists.count + 1) {}

  bool is_packed() const { return is_packed_; }

  /// Sets the start and the capacity (`rooms`) of each list. The lists must not be packed. If a pointer is null, the
  /// buffer's layout is used instead. The arrays are not copied, so they must stay valid.
  void place(const std::uint64_t* begins, const std::uint64_t* rooms) { begins_ = begins, rooms_ = rooms; }

  /// Returns the range of the items of `count` consecutive lists, beginning with list `first`. If lists are not packed,
  /// `count` must be at most 1.
  item_run run_of(std::uint64_t first, std::uint64_t count) const {
    if (is_packed_) return {numbers_[first], numbers_[first + count] - numbers_[first]};
    if (count == 0) return {};
    return {begins_ == nullptr ? first * room_ : begins_[first], numbers_[first]};
  }
  std::uint64_t length(std::uint64_t list) const { return run_of(list, 1).count; }

  /// Returns the capacity of a list, in items. The lists must not be packed.
  std::uint64_t room(std::uint64_t list) const { return rooms_ == nullptr ? room_ : std::min(room_, rooms_[list]); }

  /// Returns the range of items that a message for these lists may fill. A list that is not packed may be filled up to
  /// its capacity.
  item_run target_of(std::uint64_t first, std::uint64_t count) const {
    const item_run run = run_of(first, count);
    return is_packed_ || count == 0 ? run : item_run{run.begin, room(first)};
  }

  /// Sets the length of a list that is not packed. Returns false, and changes nothing, if `items` exceeds the capacity.
  bool set_length(std::uint64_t list, std::uint64_t items) {
    const bool fits = items <= room(list);
    if (fits) numbers_[list] = items;
    return fits;
  }

  /// Sets all lengths to 0. Returns true.
  bool clear() { return std::ranges::fill(numbers_, 0), true; }

  /// Sets the lengths of all lists, beginning with the first list. Returns false, and changes nothing, if a length
  /// exceeds the capacity of a list, or if the sum of the lengths exceeds the total capacity of packed lists.
  bool lay_out(std::span<const std::uint64_t> lengths) {
    std::uint64_t end = 0;
    for (const std::uint64_t length : lengths) {
      if (length > room_ || (is_packed_ && length > total_ - end)) return false;
      end += length;
    }
    end = 0;
    for (std::size_t i = 0; i < lengths.size(); end += lengths[i++]) numbers_[i] = is_packed_ ? end : lengths[i];
    if (is_packed_) numbers_[lengths.size()] = end;
    return true;
  }

 private:
  std::uint64_t room_, total_;
  bool is_packed_;
  const std::uint64_t* begins_ = nullptr;
  const std::uint64_t* rooms_ = nullptr;
  std::vector<std::uint64_t> numbers_;  ///< packed: start of each list, and end of the last list; not packed: lengths
};

/// A buffer that a function reads. The buffer contains elements or lists of items. The pointers are valid until the
/// function returns.
struct function_input {
  const std::byte* data = nullptr;    ///< nullptr: the operand is null (all contributors are absent)
  std::uint64_t count = 0;            ///< number of elements or lists
  const list_table* lists = nullptr;  ///< nullptr: the buffer contains elements
  std::size_t width = 1;              ///< bytes of one element or item

  template <class Number>
  std::span<const Number> numbers() const {
    return {reinterpret_cast<const Number*>(data), static_cast<std::size_t>(count)};
  }
  const std::byte* items(std::uint64_t list) const { return data + lists->run_of(list, 1).begin * width; }
  std::uint64_t length(std::uint64_t list) const { return lists->length(list); }
};

/// A buffer that a function writes. The members have the same meaning as in function_input. If the buffer contains
/// lists, the function must set their lengths.
struct function_output {
  std::byte* data = nullptr;
  std::uint64_t count = 0;
  list_table* lists = nullptr;
  std::size_t width = 1;

  template <class Number>
  std::span<Number> numbers() const {
    return {reinterpret_cast<Number*>(data), static_cast<std::size_t>(count)};
  }
};

/// Memory that functions need for a device, for the lifetime of their instance.
struct function_memory {
  std::uint64_t device_bytes = 0;
  const std::byte* contents = nullptr;  ///< initial content of the device memory (device_bytes bytes); nullptr: zeros
  std::uint64_t staging_bytes = 0;
};

class functions {
 public:
  virtual ~functions() = default;

  /// Runs function number `number` in round `round`, on the engine's owner thread. If the op has no operand b, `by` has
  /// no elements. If the result is not `ok`, the instance fails. Must not block and must not allocate.
  virtual status call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
                      const function_output& target) = 0;

  /// Called after the application has bound memory, possibly the same as before, to the instance's inputs and outputs.
  /// The functions must then assume nothing about the content of this memory. Called on the engine's owner thread,
  /// while no round runs.
  virtual void rebound() {}

  // --- inputs and outputs in device memory: the device processes them, not the functions ---------------------------

  /// Returns true if the functions support inputs and outputs in device memory.
  virtual bool use_devices() const { return false; }

  /// Returns the amount of memory that the functions need for a device. When the instance is created (commit), the
  /// engine allocates this memory and passes it to the functions by use_device(), before the first prepare() or call().
  virtual function_memory memory_on_device() const { return {}; }
  virtual void use_device(std::byte* device, std::byte* staging) { (void)device, (void)staging; }

  /// Returns the job for the device. Called by the engine for each function op that accesses device memory. When the
  /// device has finished the job, the engine calls call() with the same arguments. The job must not change before that
  /// call.
  virtual result<const sparse_job*> prepare(std::uint32_t number, round_no round, const function_input& source,
                                            const function_input& by, const function_output& target) {
    (void)number, (void)round, (void)source, (void)by, (void)target;
    return failure{status::internal, "this function of the schedule cannot run on a device: pass host memory"};
  }
};

}  // namespace lsched
