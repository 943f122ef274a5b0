// The lists of an instance whose schedule has buffers of lists. The state consists of the lengths of the lists in the
// open round, and of the user's arrays.
//
// Functions produce all lists, so lists are never null. This is true even in partial schedules: if a rank does not
// contribute, its lists come from its residual.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "libsched/engine/binding.h"
#include "libsched/engine/cell.h"
#include "libsched/schedule/functions.h"
#include "libsched/schedule/schedule.h"

namespace lsched {

class list_state {
 public:
  /// Returns an error unless the binding has an element for each input and each output that contains lists.
  static std::optional<failure> validate(const schedule& program, const binding& memory);

  /// Reserves a table for each of the program's buffers of lists. The program must outlive this object.
  explicit list_state(const schedule& program);

  /// Sets the user's arrays. The binding must be valid.
  void bind(const binding& memory);

  /// Reads the lengths of the user's input lists at the beginning of a round. Returns false if a list exceeds its
  /// capacity.
  bool read_lengths();

  /// Writes the lengths of the output lists to the user's arrays at the end of a round.
  void write_lengths() const;

  bool has_lists(region at) const { return tables_[at.buffer()].has_value(); }
  list_table& at(region place) { return *tables_[place.buffer()]; }
  const list_table& at(region place) const { return *tables_[place.buffer()]; }

  /// Sets the lengths of lists after a payload of `bytes` bytes has arrived. Returns false if the lists exceed their
  /// capacity. Also returns false if kernel `lay_out` has set another length before.
  bool set_lengths(const op& receive, std::uint64_t bytes);

  /// Empties the list that a void receive (guard in schedule.h) would have filled.
  void clear_unreceived(const op& receive);

  /// Returns true if the op computes with lists or with their lengths.
  bool concerns(const op& compute) const;

  /// Runs an op that concerns lists. Returns false if the lists exceed the capacity of the target. Also returns false
  /// if kernel `lay_out` has set other lengths before.
  bool compute(const op& o, std::span<const cell> cells);

 private:
  bool copy(const op& o, std::span<const cell> cells);

  /// The index of a buffer, and the user's lists in this buffer.
  struct bound_lists {
    std::uint16_t buffer = k_no_buffer;
    list_binding at{};
  };

  const schedule* program_;
  std::vector<std::optional<list_table>> tables_;  ///< tables, indexed by buffer; empty for a buffer without lists
  std::vector<bound_lists> bound_;
};

/// Returns the position of a region's items in the buffer. `lists` may be null.
inline item_run run_of(const list_state* lists, region part, std::uint64_t count) {
  if (lists == nullptr || !lists->has_lists(part)) return {part.offset(), count};
  return lists->at(part).run_of(part.offset(), count);
}

/// Returns the position at which the items of an incoming message are stored, and the maximum number of these items.
/// `lists` may be null.
inline item_run target_of(const list_state* lists, region part, std::uint64_t count) {
  if (lists == nullptr || !lists->has_lists(part)) return {part.offset(), count};
  return lists->at(part).target_of(part.offset(), count);
}

/// Returns the lists of the region's buffer, or null. `lists` may be null.
inline list_table* lists_of(list_state* lists, region at) {
  return lists == nullptr || !lists->has_lists(at) ? nullptr : &lists->at(at);
}

}  // namespace lsched
