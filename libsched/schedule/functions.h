// Functions that an instance adds to its schedule. They compute between messages, go beyond the elementwise arithmetic
// of ops/kernel.h, and depend on more than the op's operands.
//
// An op of such a kernel (is_function in ops/kernel.h) names its function by a number. The schedule declares which
// memory the function reads and writes, and how the function treats contributions: it splits them, folds them, joins
// them, or derives numbers. verify relies on this declaration. The computation itself is an agreement between the
// generator and the functions. Functions may keep state from round to round. So they are never called concurrently, and
// always in the same order. verify requires that deps order all function ops of a rank.
//
// In a partial schedule the inputs of a function may be null. The output is never null, since the function can compute
// it from its state. The contributors of the output do not follow from the inputs, because a message may hold lists of
// several ranks, or be left out. So the function that computes the result has an operand b that holds all
// contributions, and the output has the contributor count of that operand (collectives/sparse/sparse_allreduce.h).
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

/// A range of consecutive items.
struct item_run {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

/// Positions and lengths of the lists of a buffer in the current round.
class list_table {
 public:
  explicit list_table(const buffer& lists)
      : room_(lists.lists.room), total_(lists.lists.total), is_packed_(lists.is_packed()), numbers_(lists.count + 1) {}

  bool is_packed() const { return is_packed_; }

  /// Sets the start and the room of each list, for lists that are not packed. nullptr stands for the values of the
  /// layout. The arrays are read at every use, so they must stay valid.
  void place(const std::uint64_t* begins, const std::uint64_t* rooms) { begins_ = begins, rooms_ = rooms; }

  /// Returns the items of the `count` lists from `first` on. If lists are not packed, `count` is at most 1.
  item_run run_of(std::uint64_t first, std::uint64_t count) const {
    if (is_packed_) return {numbers_[first], numbers_[first + count] - numbers_[first]};
    if (count == 0) return {};
    return {begins_ == nullptr ? first * room_ : begins_[first], numbers_[first]};
  }
  std::uint64_t length(std::uint64_t list) const { return run_of(list, 1).count; }

  /// Returns the number of items for which a list has room, if lists are not packed.
  std::uint64_t room(std::uint64_t list) const { return rooms_ == nullptr ? room_ : std::min(room_, rooms_[list]); }

  /// Returns the items that a message for these lists may fill. A list that is not packed may be filled up to its room.
  item_run target_of(std::uint64_t first, std::uint64_t count) const {
    const item_run run = run_of(first, count);
    return is_packed_ || count == 0 ? run : item_run{run.begin, room(first)};
  }

  /// Sets the length of a list that is not packed. Returns false, and changes nothing, if there is not enough room.
  bool set_length(std::uint64_t list, std::uint64_t items) {
    const bool fits = items <= room(list);
    if (fits) numbers_[list] = items;
    return fits;
  }

  /// Sets all lengths to 0. Always returns true.
  bool clear() { return std::ranges::fill(numbers_, 0), true; }

  /// Sets the lengths of all lists, from the first on. Returns false, and changes nothing, if a list exceeds its room
  /// or all lists together exceed the total.
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
  std::vector<std::uint64_t> numbers_;  ///< packed: start of each list, and the end of the last; else lengths
};

/// A whole buffer that a function reads: elements, or lists of items. Valid until the function returns.
struct function_input {
  const std::byte* data = nullptr;    ///< nullptr: null, like the contribution of an absent rank
  std::uint64_t count = 0;            ///< elements, or lists
  const list_table* lists = nullptr;  ///< nullptr: elements are not lists
  std::size_t width = 1;              ///< bytes of an element, or of an item

  template <class Number>
  std::span<const Number> numbers() const {
    return {reinterpret_cast<const Number*>(data), static_cast<std::size_t>(count)};
  }
  const std::byte* items(std::uint64_t list) const { return data + lists->run_of(list, 1).begin * width; }
  std::uint64_t length(std::uint64_t list) const { return lists->length(list); }
};

/// A whole buffer that a function writes. If the elements are lists, the function sets their lengths.
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
  const std::byte* contents = nullptr;  ///< initial content of the device memory, device_bytes; nullptr: zeros
  std::uint64_t staging_bytes = 0;
};

class functions {
 public:
  virtual ~functions() = default;

  /// Runs function `number` in round `round`, on the thread that owns the engine. `by` has no elements if the op has no
  /// operand b. Any status but ok fails the instance. Must not block and must not allocate.
  virtual status call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
                      const function_output& target) = 0;

  /// Called when the application has bound memory to the instance's inputs and outputs, possibly the same memory.
  /// Functions must forget all facts about the content of that memory. Called on the thread that owns the engine, while
  /// no round runs.
  virtual void rebound() {}

  // --- inputs and outputs in device memory: functions leave the work on them to the device ------------------------

  /// Returns true if the functions support inputs and outputs in device memory.
  virtual bool use_devices() const { return false; }

  /// Returns the memory that the functions need for a device. At commit, use_device() then passes the memory to the
  /// functions, before the first call of prepare() or call().
  virtual function_memory memory_on_device() const { return {}; }
  virtual void use_device(std::byte* device, std::byte* staging) { (void)device, (void)staging; }

  /// Called before call() for an op that accesses device memory. Returns the job for the device. When the job is done,
  /// call() follows with the same arguments. The job must not change until then.
  virtual result<const sparse_job*> prepare(std::uint32_t number, round_no round, const function_input& source,
                                            const function_input& by, const function_output& target) {
    (void)number, (void)round, (void)source, (void)by, (void)target;
    return failure{status::internal, "the function does not use devices"};
  }
};

}  // namespace lsched
