// Python objects for the handles of the C interface. Arrays are passed as addresses. The Python code of the package
// keeps the owners of arrays alive (libsched/_memory.py).
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

inline constexpr const char* k_in_use =
    "this object is in use by a call in another thread, or by a builder that was not committed: end that use first";

/// A handle of the C interface, with a count of the calls that use the handle. Copies share the handle and the count.
///
/// The count is atomic, because a call may end without the interpreter's lock. This happens if the caller has stopped
/// waiting for the call (interruptible()).
template <class Handle>
class owned {
  struct state {
    Handle* handle;
    std::atomic<unsigned> users{0};
    bool is_ending = false;
  };

 public:
  /// The use of a handle by a call. While a lease exists, the handle is not destroyed.
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

  /// Returns a lease. Throws call_failure if the object is closed, and in a child of fork().
  lease get() const {
    if (made_after_ != forks())
      throw call_failure(told(LSCHED_ERR_STATE,
                              "this process was forked from a rank, and the world belongs to the parent: call libsched "
                              "only in the parent"));
    if (!is_open()) throw call_failure(told(LSCHED_ERR_STATE, "this object is closed: create a new object"));
    return lease(state_);
  }
  bool is_open() const { return state_->handle != nullptr && !state_->is_ending; }
  bool is_usable() const { return is_open() && made_after_ == forks(); }

  /// Calls `end(handle)`, which destroys the handle. If `end` throws, the handle stays valid. Has no effect if the
  /// object is closed. Throws BUSY if a call uses the handle.
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

  /// Makes later calls of get() throw. The handle stays valid until finish(). Throws BUSY if a call uses the handle.
  void retire() {
    if (!is_open()) return;
    if (state_->users != 0) throw call_failure(told(LSCHED_ERR_BUSY, k_in_use));
    state_->is_ending = true;
  }
  /// Returns the handle, even after retire(). Returns nullptr if the handle was destroyed, and in a child of fork().
  Handle* kept() const { return made_after_ == forks() ? state_->handle : nullptr; }
  /// Calls `end(handle)` for a handle after retire().
  template <class End>
  void finish(End&& end) {
    if (state_->is_ending && kept() != nullptr) end(std::exchange(state_->handle, nullptr));
  }

 private:
  std::shared_ptr<state> state_;
  unsigned made_after_ = forks();
};

using address = std::uintptr_t;  ///< 0 means no address
inline void* at(address where) { return reinterpret_cast<void*>(where); }

/// A world. While Python refers to memory of the world, close() retires the handle instead of destroying it.
struct world : owned<lsched_world> {
  using owned::owned;
  std::size_t views = 0;
  mutable std::uint64_t commits = 0;  ///< number of collective calls in which this rank has taken part
};

/// Returns the handle for a collective call, and increments `commits`. The rank takes part in the call even if the
/// library refuses the arguments.
inline world::lease committing(const world& in) {
  const world::lease all = in.get();
  ++in.commits;
  return all;
}

/// The request of a sparse allreduce. The request owns the name of the algorithm.
class sparse_request : public lsched_sparse_desc {
 public:
  sparse_request() : lsched_sparse_desc{.struct_size = sizeof(lsched_sparse_desc)} {}
  sparse_request(const sparse_request&) = delete;
  sparse_request& operator=(const sparse_request&) = delete;

  void set_algorithm(std::optional<std::string> name) {
    name_ = std::move(name);
    algorithm = name_ ? name_->c_str() : nullptr;
  }

 private:
  std::optional<std::string> name_{};
};

using schedule = owned<lsched_schedule>;
using mailbox = owned<lsched_mailbox>;

/// A round, with a lease of its schedule for one call.
struct leased_round {
  schedule::lease of;
  lsched_ticket round;
  operator lsched_ticket() const { return round; }
};

/// A round. Keeps the schedule and the memory of the round alive.
struct ticket {
  lsched_ticket round{};
  nb::object of{}, keeps{};

  /// Returns the round and a lease of its schedule. Throws call_failure if the schedule was closed.
  leased_round use() const { return {nb::inst_ptr<schedule>(of)->get(), round}; }
};

/// Returns the handle as a number. The Python code of the package creates an object from this number.
template <class Handle>
address adopted(Handle* handle) {
  return reinterpret_cast<address>(handle);
}

/// Returns the text that `print(buffer, room, needed)` writes. `room` is the size of the buffer, and `*needed` receives
/// the size of the text.
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
