// An endpoint uses awaited_links to track the links that wait for an event. This class is for transports whose links
// are in a table of this process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "libsched/transport/message.h"

namespace lsched {

/// `Table` maps a link_id to the state of a link. The state has these members:
///
///     edge_spec spec;                       the edge
///     wait wait_for = wait::nothing;        the awaited event; `wait` has the values `nothing` and `message`
///     bool is_due = false;                  the event has happened but was not reported yet
///     round_no round = 0;                   the round of the event
///     arrival incoming;                     the message, if `wait_for` is `message`
///
/// Only one thread at a time may use an object of this class. Only reserve() allocates memory.
template <class Table>
class awaited_links {
 public:
  using link_state = std::remove_reference_t<decltype(std::declval<Table&>()[link_id{}])>;
  using wait = decltype(link_state::wait_for);

  /// The table must outlive this object.
  explicit awaited_links(Table& table) : table_(table) {}

  /// Allocates memory for a total of `links` links.
  void reserve(std::size_t links) { due_.reserve(links); }

  /// Makes the link wait for an event. An event that the link awaited before is forgotten.
  void await(link_id link, wait awaited, round_no round) {
    if (table_[link].wait_for == wait::nothing) ++waiting_;
    table_[link].wait_for = awaited;
    table_[link].round = round;
  }

  /// Records that the awaited event has happened. take() will report the event.
  void satisfy(link_id link) {
    if (!std::exchange(table_[link].is_due, true)) due_.push_back(link);
  }

  /// Ends the wait of the link.
  void forget(link_id link) {
    link_state& state = table_[link];
    if (state.wait_for == wait::nothing) return;
    if (std::exchange(state.is_due, false)) std::erase(due_, link);
    state.wait_for = wait::nothing;
    --waiting_;
  }

  /// Returns whether any link waits, or has an event that was not reported.
  bool has_any() const { return waiting_ != 0; }
  /// Returns the number of links that wait, or have an event that was not reported.
  std::size_t waiting() const { return waiting_; }
  /// Returns the number of events that were not reported.
  std::size_t due() const { return due_.size(); }

  /// Writes completions to `out` and returns their number, as endpoint::poll() does.
  std::size_t take(std::span<completion> out) {
    const std::size_t found = std::min(due_.size(), out.size());
    for (std::size_t i = 0; i < found; ++i) {
      link_state& state = table_[due_[i]];
      out[i] = {state.spec.cookie, state.round, state.wait_for == wait::message ? state.incoming : arrival{}};
      state.is_due = false;
      forget(due_[i]);
    }
    due_.erase(due_.begin(), due_.begin() + static_cast<std::ptrdiff_t>(found));
    return found;
  }

 private:
  Table& table_;
  std::vector<link_id> due_;
  std::size_t waiting_ = 0;  ///< number of links that wait for an event, including those in due_
};

}  // namespace lsched
