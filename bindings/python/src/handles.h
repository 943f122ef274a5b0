// The objects of the C interface as Python has them. Memory is given as addresses: the package above keeps the objects
// that own it (libsched/_memory.py).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/src/calls.h"

namespace lsched::python {

inline constexpr const char* k_in_use = "in use: by a call in another thread, or by a builder that was not committed";

/// A handle that is there until it is given back, and how many calls use it. Copies share both.
///
/// Counts are changed without the interpreter's lock too: by a call that its caller has left (interruptible()).
template <class Handle>
class owned {
  struct state {
    Handle* handle;
    std::atomic<unsigned> users{0};
    bool is_ending = false;
  };

 public:
  /// The handle, for as long as a call needs it: meanwhile nobody gives it back.
  class lease {
   public:
    explicit lease(std::shared_ptr<state> of) : of_(std::move(of)) { ++of_->users; }
    lease(const lease& other) : lease(other.of_) {}
    lease& operator=(const lease&) = delete;
    ~lease() { --of_->users; }
    operator Handle*() const { return of_->handle; }

   private:
    std::shared_ptr<state> of_;
  };

  explicit owned(Handle* handle) : state_(std::make_shared<state>(handle)) {}

  /// Throws call_failure once it was given back, and in a process that was forked off.
  lease get() const {
    if (made_after_ != forks())
      throw call_failure(told(LSCHED_ERR_STATE, "this process was forked off a rank: the world is its parent's"));
    if (!is_open()) throw call_failure(told(LSCHED_ERR_STATE, "this object was closed before"));
    return lease(state_);
  }
  bool is_open() const { return state_->handle != nullptr && !state_->is_ending; }
  bool is_usable() const { return is_open() && made_after_ == forks(); }

  /// Calls `end(handle)`, which gives the handle back, or throws and has not. Nothing where that was done before.
  /// Throws BUSY while another thread is in a call.
  template <class End>
  void give_back(End&& end) {
    if (!is_open()) return;
    const lease mine = get();
    if (state_->users != 1) throw call_failure(told(LSCHED_ERR_BUSY, k_in_use));
    state_->is_ending = true;
    try {
      end(static_cast<Handle*>(mine));
    } catch (...) {
      state_->is_ending = false;
      throw;
    }
    state_->handle = nullptr;
  }

  /// Takes no more calls; finish() is what is left to do. Throws BUSY while another thread is in a call.
  void retire() {
    if (!is_open()) return;
    if (state_->users != 0) throw call_failure(told(LSCHED_ERR_BUSY, k_in_use));
    state_->is_ending = true;
  }
  /// The handle where it was not given back, retired or not; nullptr also in a process that was forked off.
  Handle* kept() const { return made_after_ == forks() ? state_->handle : nullptr; }
  /// Gives back what was retired.
  template <class End>
  void finish(End&& end) {
    if (state_->is_ending && kept() != nullptr) end(std::exchange(state_->handle, nullptr));
  }

 private:
  std::shared_ptr<state> state_;
  unsigned made_after_ = forks();
};

using address = std::uintptr_t;  ///< 0: none
inline void* at(address where) { return reinterpret_cast<void*>(where); }

/// Memory that was given to Python keeps a world that was closed.
struct world : owned<lsched_world> {
  using owned::owned;
  std::size_t views = 0;
  mutable std::uint64_t commits = 0;  ///< collective calls that this rank has taken part in
};

/// Returns the handle for a collective call, and counts the call: the rank takes part even if the library refuses.
inline world::lease committing(const world& in) {
  const world::lease all = in.get();
  ++in.commits;
  return all;
}

using schedule = owned<lsched_schedule>;
using mailbox = owned<lsched_mailbox>;

/// A round of a schedule that is there for as long as a call needs it.
struct leased_round {
  schedule::lease of;
  lsched_ticket round;
  operator lsched_ticket() const { return round; }
};

/// A round. Keeps what the application must not lose until it is over: the schedule, and the round's memory.
struct ticket {
  lsched_ticket round{};
  nb::object of{}, keeps{};

  /// Throws where the schedule is gone.
  leased_round use() const { return {nb::inst_ptr<schedule>(of)->get(), round}; }
};

/// A handle on its way into an object of the package.
template <class Handle>
address adopted(Handle* handle) {
  return reinterpret_cast<address>(handle);
}

/// The text of a call that fills in a buffer and says how much it needs.
template <class Print>
std::string printed(Print&& print) {
  std::string text(256, '\0');
  for (;;) {
    std::size_t needed = 0;
    const std::size_t room = text.size();
    expect(unlocked([&] { return print(text.data(), room, &needed); }));
    if (needed <= room) return text.substr(0, needed == 0 ? 0 : needed - 1);
    text.resize(needed + 256);
  }
}

void add_worlds(nb::module_& module);
void add_schedules(nb::module_& module);
void add_collectives(nb::module_& module);
void add_partial(nb::module_& module);
void add_messages(nb::module_& module);
void add_builder(nb::module_& module);
void add_analysis(nb::module_& module);
void add_memory(nb::module_& module);

}  // namespace lsched::python
