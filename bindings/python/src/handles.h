// Python objects for the handles of the C interface. Memory is passed as addresses. The package keeps the owners of the
// memory alive (libsched/_memory.py).
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

/// A handle of the C interface, and the number of calls that use it. Copies share both.
///
/// The number is atomic, because a call that its caller has left (interruptible()) ends without the interpreter's lock.
template <class Handle>
class owned {
  struct state {
    Handle* handle;
    std::atomic<unsigned> users{0};
    bool is_ending = false;
  };

 public:
  /// The use of a handle by a call. While a lease exists, the handle is not given back.
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

  /// Returns a lease. Throws call_failure if the handle was given back, and in a forked child.
  lease get() const {
    if (made_after_ != forks())
      throw call_failure(
          told(LSCHED_ERR_STATE, "this process was forked from a rank: the world belongs to the parent process"));
    if (!is_open()) throw call_failure(told(LSCHED_ERR_STATE, "this object is closed"));
    return lease(state_);
  }
  bool is_open() const { return state_->handle != nullptr && !state_->is_ending; }
  bool is_usable() const { return is_open() && made_after_ == forks(); }

  /// Calls `end(handle)`, which gives the handle back. If `end` throws, the handle stays valid. Has no effect on a
  /// handle that was given back before. Throws BUSY while another thread is in a call.
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

  /// Refuses all later calls. The handle lives until finish(). Throws BUSY while another thread is in a call.
  void retire() {
    if (!is_open()) return;
    if (state_->users != 0) throw call_failure(told(LSCHED_ERR_BUSY, k_in_use));
    state_->is_ending = true;
  }
  /// Returns the handle, retired or not. Returns nullptr if the handle was given back, and in a forked child.
  Handle* kept() const { return made_after_ == forks() ? state_->handle : nullptr; }
  /// Gives back a retired handle.
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

/// A world. While Python refers to memory of the world, a closed world is retired and not given back.
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

/// A round whose schedule is leased for a call.
struct leased_round {
  schedule::lease of;
  lsched_ticket round;
  operator lsched_ticket() const { return round; }
};

/// A round. Keeps the schedule and the memory of the round alive.
struct ticket {
  lsched_ticket round{};
  nb::object of{}, keeps{};

  /// Returns the round with a lease of its schedule. Throws call_failure if the schedule was closed.
  leased_round use() const { return {nb::inst_ptr<schedule>(of)->get(), round}; }
};

/// Returns the handle as a number, from which the package makes an object.
template <class Handle>
address adopted(Handle* handle) {
  return reinterpret_cast<address>(handle);
}

/// Returns the text that `print(buffer, room, needed)` writes. `needed` receives the size that the text needs.
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
