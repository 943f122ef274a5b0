// The objects of the C interface as Python has them. Memory is given as addresses: the package above keeps the objects
// that own it (libsched/_memory.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/src/calls.h"

namespace lsched::python {

/// A handle that is there until it was given back.
template <class Handle>
class owned {
 public:
  explicit owned(Handle* handle) : handle_(handle) {}

  /// Throws call_failure once it was given back, and in a process that was forked off.
  Handle* get() const {
    if (made_after_ != forks())
      throw call_failure(told(LSCHED_ERR_STATE, "this process was forked off a rank: the world is its parent's"));
    if (handle_ == nullptr) throw call_failure(told(LSCHED_ERR_STATE, "this object was closed before"));
    return handle_;
  }
  bool is_open() const { return handle_ != nullptr; }
  bool is_usable() const { return is_open() && made_after_ == forks(); }
  void forget() { handle_ = nullptr; }

 private:
  Handle* handle_;
  unsigned made_after_ = forks();
};

using address = std::uintptr_t;  ///< 0: none
inline void* at(address where) { return reinterpret_cast<void*>(where); }

struct world : owned<lsched_world> {
  using owned::owned;
};

struct schedule : owned<lsched_schedule> {
  using owned::owned;
};

struct mailbox : owned<lsched_mailbox> {
  using owned::owned;
};

/// A round. Keeps what the application must not lose until it is over: the schedule, and the round's memory.
struct ticket {
  lsched_ticket round{};
  nb::object of{}, keeps{};
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
