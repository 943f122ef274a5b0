// Functions that an instance brings to its schedule: what a rank computes between messages, where that is more than the
// elementwise arithmetic of ops/kernel.h and depends on more than the op's operands.
//
// An op of such a kernel (is_function in ops/kernel.h) names its function by a number. The schedule says which memory
// the function reads and writes, and what becomes of contributions in it: whether it takes them apart, folds them,
// joins them, or derives numbers; verify goes by that. What it computes is between whoever wrote the generator and
// whoever wrote the functions. Functions may keep a state of their own from round to round, and are therefore never
// called at the same time, and always in the same order: verify demands that deps order all function ops of a rank.
//
// In a partial schedule the inputs of a function may be null; its output never is, since the function can make it from
// its state. The contributors of the output do not follow from the inputs: a message may hold lists of several ranks,
// or be left out. So the function that makes the result has an operand that holds all contributions, and the output
// has that operand's contributor count (collectives/sparse/sparse_allreduce.h).
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

/// Items that lie one behind the other.
struct item_run {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

/// Where the lists of a buffer are in the current round, and how many items each has.
class list_table {
 public:
  explicit list_table(const buffer& lists)
      : room_(lists.lists.room), total_(lists.lists.total), is_packed_(lists.is_packed()), numbers_(lists.count + 1) {}

  bool is_packed() const { return is_packed_; }

  /// Lists that are not packed lie elsewhere from now on: where each begins, and how many items it has room for; null:
  /// as the layout says. Numbers are read when they are needed.
  void place(const std::uint64_t* begins, const std::uint64_t* rooms) { begins_ = begins, rooms_ = rooms; }

  /// Where list `first` and the count-1 behind it lie. Of lists that are not packed, at most one has items.
  item_run run_of(std::uint64_t first, std::uint64_t count) const {
    if (is_packed_) return {numbers_[first], numbers_[first + count] - numbers_[first]};
    if (count == 0) return {};
    return {begins_ == nullptr ? first * room_ : begins_[first], numbers_[first]};
  }
  std::uint64_t length(std::uint64_t list) const { return run_of(list, 1).count; }

  /// Items that a list has room for, if it is not packed.
  std::uint64_t room(std::uint64_t list) const { return rooms_ == nullptr ? room_ : std::min(room_, rooms_[list]); }

  /// The same, of which as many may be filled as have room: what a message for those lists may bring.
  item_run target_of(std::uint64_t first, std::uint64_t count) const {
    const item_run run = run_of(first, count);
    return is_packed_ || count == 0 ? run : item_run{run.begin, room(first)};
  }

  /// List `list`, of a buffer that is not packed, has so many items now. False, and nothing has changed: no room.
  bool set_length(std::uint64_t list, std::uint64_t items) {
    const bool fits = items <= room(list);
    if (fits) numbers_[list] = items;
    return fits;
  }

  /// None has items.
  bool clear() { return std::ranges::fill(numbers_, 0), true; }

  /// All lists, from the first on. False: they have not room, each or together.
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
  std::vector<std::uint64_t> numbers_;  ///< packed: where each list begins, and the last one ends; else lengths
};

/// All of a buffer that a function reads: elements, or lists of items. Valid until the function returns.
struct function_input {
  const std::byte* data = nullptr;    ///< nullptr: it is null, as what a rank did not contribute to a partial round
  std::uint64_t count = 0;            ///< elements, or lists
  const list_table* lists = nullptr;  ///< nullptr: its elements are no lists
  std::size_t width = 1;              ///< bytes of an element, or of an item

  template <class Number>
  std::span<const Number> numbers() const {
    return {reinterpret_cast<const Number*>(data), static_cast<std::size_t>(count)};
  }
  const std::byte* items(std::uint64_t list) const { return data + lists->run_of(list, 1).begin * width; }
  std::uint64_t length(std::uint64_t list) const { return lists->length(list); }
};

/// All of a buffer that a function writes. Of lists it says itself how long each is.
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

/// What functions need of a device, for as long as their instance.
struct function_memory {
  std::uint64_t device_bytes = 0;
  const std::byte* contents = nullptr;  ///< of the device memory, in the beginning; as many bytes. nullptr: zeros
  std::uint64_t staging_bytes = 0;
};

class functions {
 public:
  virtual ~functions() = default;

  /// Runs function `number` in round `round`, on the thread that owns the engine. `by` has no elements where the op has
  /// no operand b. Anything but ok fails the instance. It does not block, and does not allocate.
  virtual status call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
                      const function_output& target) = 0;

  /// The application has bound memory to the instance's inputs and outputs, perhaps the same again: what functions
  /// remember of it no longer holds. No round runs. On a thread that owns the engine, as above.
  virtual void rebound() {}

  // --- where inputs and outputs are in device memory: functions that touch it leave that to the device ------------

  /// Whether they can.
  virtual bool use_devices() const { return false; }

  /// What they need for that. At commit, before anything else here is called.
  virtual function_memory memory_on_device() const { return {}; }
  virtual void use_device(std::byte* device, std::byte* staging) { (void)device, (void)staging; }

  /// Before call(), of an op that touches device memory: answers what the device has to do. When that has been done,
  /// call() follows, with the same arguments. What is answered stays as it is until then.
  virtual result<const sparse_job*> prepare(std::uint32_t number, round_no round, const function_input& source,
                                            const function_input& by, const function_output& target) {
    (void)number, (void)round, (void)source, (void)by, (void)target;
    return failure{status::internal, "the function does not use devices"};
  }
};

}  // namespace lsched
