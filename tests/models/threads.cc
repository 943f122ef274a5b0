#include "tests/models/threads.h"

#include <linux/futex.h>
#include <ucontext.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "tests/models/arena.h"

namespace models {
namespace {

constexpr std::size_t k_stack_bytes = 16 * 1024;
constexpr std::size_t k_least_room = 2 * 1024;
constexpr std::size_t k_buffered_stores = 4;
constexpr std::uint64_t k_naps_in_vain = 2;

/// The system to which the running thread belongs. Null if the explorer did not start the running thread.
threads* g_here = nullptr;

// The bits of a move. Bits 0-7: index of the thread. Bit 8 means that the thread's oldest buffered store reaches
// memory. Bit 9 means that the thread's deadline passes. Bit 10 means that the thread's nap ends. Bits 16-31: index of
// the sleeping thread that this thread wakes.
constexpr system::move k_drain = 1u << 8;
constexpr system::move k_expires = 1u << 9;
constexpr system::move k_nap_ends = 1u << 10;
constexpr std::size_t thread_of(system::move what) { return what & 0xff; }
constexpr std::size_t choice_of(system::move what) { return what >> 16; }

}  // namespace

/// The saved state of a thread, except its stack.
struct threads::control {
  access next = access::alone;
  word* where = nullptr;
  word value = 0;
  std::byte* low = nullptr;  ///< low end of the used part of the stack
  std::uint64_t stores = 0;
  std::array<buffered, k_buffered_stores> store{};
  std::uint64_t expired = 0;
  std::uint64_t naps = 0;        ///< 1 if the current sleep of the thread is a nap
  std::uint64_t early_naps = 0;  ///< number of naps that ended early; counted only if a limit is set
  std::uint64_t naps_in_vain = 0;
  __jmp_buf registers;
};

struct threads::thread {
  std::string name;
  std::function<void()> body;
  patience waits = patience::endless;
  control now{};
  std::span<std::byte> memory{};  ///< part of the arena from which the thread allocates
  std::jmp_buf context;
  alignas(64) std::byte stack[k_stack_bytes];

  std::byte* top() { return stack + sizeof stack; }
  std::span<const std::byte> in_use() const {
    return {now.low, static_cast<std::size_t>(stack + sizeof stack - now.low)};
  }
};

threads::threads(memory model) : model_(model) { empty_arena(); }
threads::~threads() = default;

void threads::set_up(const std::function<void()>& job) {
  const arena_scope opened;
  job();
}

void threads::add(std::string name, std::function<void()> body, patience waits) {
  auto it = std::make_unique<thread>();
  it->name = std::move(name);
  it->body = std::move(body);
  it->waits = waits;
  threads_.push_back(std::move(it));
  start(*threads_.back());
}

void threads::give_memory(std::size_t bytes) {
  set_up([&] { threads_.back()->memory = {static_cast<std::byte*>(operator new(bytes)), bytes}; });
}

// --- switching -----------------------------------------------------------------------------------------------------

// The first function on a thread's stack. makecontext passes the address of the thread as two integers.
void threads::enter(unsigned high, unsigned low) {
  auto* const it = reinterpret_cast<thread*>(std::uintptr_t{high} << 32 | low);
  threads* const here = g_here;
  here->pause(access::alone, nullptr, 0);
  it->body();
  here->pause(access::finished, nullptr, 0);
  std::abort();
}

void threads::start(thread& it) {
  ucontext_t fresh;
  getcontext(&fresh);
  fresh.uc_stack.ss_sp = it.stack;
  fresh.uc_stack.ss_size = sizeof it.stack;
  fresh.uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(&it);
  makecontext(&fresh, reinterpret_cast<void (*)()>(&threads::enter), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address));
  g_here = this;
  running_ = &it;
  if (_setjmp(back_) == 0) setcontext(&fresh);
  g_here = nullptr;
  running_ = nullptr;
}

// Continues a thread. First clears the unused part of the stack, so that new stack frames always begin with the same
// bytes.
void threads::resume(thread& it) {
  std::memset(it.stack, 0, static_cast<std::size_t>(it.now.low - it.stack));
  std::memcpy(it.context[0].__jmpbuf, it.now.registers, sizeof it.now.registers);
  g_here = this;
  running_ = &it;
  allocate_from(it.memory);
  if (_setjmp(back_) == 0) _longjmp(it.context, 1);
  allocate_from({});
  g_here = nullptr;
  running_ = nullptr;
}

// Stops the running thread before its next access. Returns when the explorer has chosen this access as the next move.
[[gnu::noinline]] void threads::pause(access next, word* where, word value) {
  thread& it = *running_;
  std::byte* stack_pointer;
  asm("mov %%rsp, %0" : "=r"(stack_pointer));
  it.now.next = next;
  it.now.where = where;
  it.now.value = value;
  it.now.low = stack_pointer;
  if (stack_pointer < it.stack + k_least_room) std::abort();
  if (_setjmp(it.context) == 0) {
    std::memcpy(it.now.registers, it.context[0].__jmpbuf, sizeof it.now.registers);
    _longjmp(back_, 1);
  }
}

void threads::sleep(word* where, word value, bool is_nap) {
  running_->now.naps = is_nap ? 1 : 0;
  pause(access::wait, where, value);
  running_->now.naps = 0;
}

// --- the state -------------------------------------------------------------------------------------------------------

void threads::save(std::vector<std::byte>& state) const {
  const auto append = [&](const void* from, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    state.insert(state.end(), begin, begin + bytes);
  };
  for (const auto& it : threads_) {
    append(&it->now, sizeof it->now);
    if (it->now.next != access::finished) append(it->in_use().data(), it->in_use().size());
  }
  append(arena().data(), arena().size());
}

void threads::restore(std::span<const std::byte> state) {
  const auto take = [&](void* to, std::size_t bytes) {
    std::memcpy(to, state.data(), bytes);
    state = state.subspan(bytes);
  };
  complaint_.clear();
  for (const auto& it : threads_) {
    take(&it->now, sizeof it->now);
    if (it->now.next != access::finished) take(it->now.low, it->in_use().size());
  }
  take(arena().data(), arena().size());
}

// --- moves -----------------------------------------------------------------------------------------------------------

// Lists the possible moves. If a thread is not yet at an access, its next steps do not affect other threads. The list
// then contains only the move of this thread.
void threads::moves(std::vector<move>& out) const {
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (threads_[i]->now.next == access::alone) return out.push_back(static_cast<move>(i));
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const thread& it = *threads_[i];
    const control& now = it.now;
    const auto self = static_cast<move>(i);
    if (now.stores > 0) out.push_back(self | k_drain);
    switch (now.next) {
      case access::alone:
      case access::finished: break;
      case access::point:
      case access::load: out.push_back(self); break;
      case access::store:
        if (now.stores < k_buffered_stores) out.push_back(self);
        break;
      case access::locked:
      case access::wait:
        if (now.stores == 0) out.push_back(self);
        break;
      case access::asleep:
        if (it.waits == patience::impatient) out.push_back(self | k_expires);
        if (now.naps != 0 && (!early_naps_ || now.early_naps < *early_naps_ || is_still()) && !is_at_rest(it))
          out.push_back(self | k_nap_ends);
        break;
      case access::clock:
        out.push_back(self);
        out.push_back(self | k_expires);
        break;
      case access::wake: {
        if (now.stores > 0) break;
        move sleepers = 0;
        for (const auto& other : threads_)
          if (other->now.next == access::asleep && other->now.where == now.where) ++sleepers;
        const move choices = now.value == 1 && sleepers > 1 ? sleepers : 1;
        for (move choice = 0; choice < choices; ++choice) out.push_back(self | choice << 16);
      }
    }
  }
}

void threads::make(move what) {
  thread& it = *threads_[thread_of(what)];
  control& now = it.now;
  if ((what & k_drain) != 0) {
    *now.store[0].where = now.store[0].value;
    std::copy(now.store.begin() + 1, now.store.end(), now.store.begin());
    now.store.back() = {};
    --now.stores;
    return;
  }
  if ((what & k_expires) != 0) now.expired = 1;
  if ((what & k_nap_ends) != 0 && !is_still() && early_naps_) ++now.early_naps;
  if ((what & k_nap_ends) != 0 && is_still() && ++now.naps_in_vain > k_naps_in_vain)
    return complain(it.name + " naps repeatedly without progress");
  if (now.next == access::wake) wake(it, choice_of(what));
  if (now.next == access::wait && static_cast<std::uint32_t>(*now.where) == static_cast<std::uint32_t>(now.value)) {
    now.next = access::asleep;
    if (now.naps != 0 && !may_nap_) complain(it.name + " naps although its bell rings");
    return;
  }
  resume(it);
}

// Wakes all threads that sleep on the word, or only the sleeping thread with the index `choice`. A woken thread
// continues when the explorer chooses a move of that thread.
void threads::wake(const thread& by, std::size_t choice) {
  std::size_t number = 0;
  for (const auto& other : threads_) {
    if (other->now.next != access::asleep || other->now.where != by.now.where) continue;
    if (by.now.value != 1 || number++ == choice) other->now.next = access::alone;
  }
}

// Returns whether no move except the end of a nap is possible.
bool threads::is_still() const {
  for (const auto& it : threads_) {
    const bool sleeps = it->now.next == access::asleep && it->waits == patience::endless;
    if (it->now.stores > 0 || (it->now.next != access::finished && !sleeps)) return false;
  }
  return true;
}

// Returns whether the thread may stay asleep. This is the case if it has napped in vain as often as permitted, and the
// final check finds no fault.
bool threads::is_at_rest(const thread& it) const {
  return has_long_naps_ && it.now.naps_in_vain == k_naps_in_vain && is_still() && judge_ && judge_(true).empty();
}

word threads::read(const word* where) const {
  const control& now = running_->now;
  for (std::size_t i = now.stores; i > 0; --i)
    if (now.store[i - 1].where == where) return now.store[i - 1].value;
  return *where;
}

void threads::write(word* where, word value) {
  control& now = running_->now;
  if (model_ == memory::sc)
    *where = value;
  else
    now.store[now.stores++] = {where, value};
}

bool threads::look_at_clock() {
  if (running_->waits == patience::impatient && running_->now.expired == 0) pause(access::clock, nullptr, 0);
  return running_->now.expired != 0;
}

void threads::end(std::string_view name) {
  for (const auto& it : threads_) {
    if (it->name != name) continue;
    for (std::size_t i = 0; i < it->now.stores; ++i) *it->now.store[i].where = it->now.store[i].value;
    it->now = {.next = access::finished};
  }
}

// --- words -----------------------------------------------------------------------------------------------------------

void threads::complain(std::string what) {
  if (complaint_.empty()) complaint_ = std::move(what);
}

std::string threads::fault(bool is_last) const {
  if (!complaint_.empty()) return complaint_;
  return judge_ ? judge_(is_last) : std::string();
}

std::string threads::unfinished() const {
  std::string text;
  for (const auto& it : threads_)
    if (it->now.next != access::finished)
      text += (text.empty() ? "" : ", ") + it->name + (it->now.next == access::asleep ? " sleeps" : " is stuck");
  return text;
}

std::string threads::name_of(const void* variable) const {
  const auto found = names_.find(variable);
  if (found != names_.end()) return found->second;
  return "variable " + std::to_string(static_cast<const std::byte*>(variable) - arena().data());
}

std::string threads::describe(move what) const {
  const thread& it = *threads_[thread_of(what)];
  const control& now = it.now;
  if ((what & k_drain) != 0)
    return it.name + ": its store " + name_of(now.store[0].where) + " := " + std::to_string(now.store[0].value) +
           " reaches memory";
  switch (now.next) {
    case access::alone:
    case access::point: return it.name + ": continues";
    case access::load: {
      word value = *now.where;
      for (std::size_t i = 0; i < now.stores; ++i)
        if (now.store[i].where == now.where) value = now.store[i].value;
      return it.name + ": reads " + name_of(now.where) + " = " + std::to_string(value);
    }
    case access::store: return it.name + ": stores " + name_of(now.where) + " := " + std::to_string(now.value);
    case access::locked: return it.name + ": changes " + name_of(now.where) + ", " + std::to_string(*now.where);
    case access::wait:
      return it.name + ": sleeps on " + name_of(now.where) + " unless it is no longer " + std::to_string(now.value);
    case access::wake: return it.name + ": wakes sleepers on " + name_of(now.where);
    case access::asleep: return it.name + ((what & k_nap_ends) != 0 ? ": its nap is over" : ": its sleep runs out");
    case access::clock: return it.name + ((what & k_expires) != 0 ? ": its deadline has passed" : ": has time left");
    case access::finished: break;
  }
  return it.name;
}

// --- called by the explored code -------------------------------------------------------------------------------------

word load(const word* where) {
  if (g_here == nullptr) return *where;
  g_here->pause(threads::access::load, const_cast<word*>(where), 0);
  return g_here->read(where);
}

void store(word* where, word value) {
  if (g_here == nullptr) {
    *where = value;
    return;
  }
  g_here->pause(threads::access::store, where, value);
  g_here->write(where, value);
}

void store_in_order(word* where, word value) {
  if (g_here != nullptr && g_here->is_weakened(where)) return store(where, value);
  locked(where) = value;
}

word& locked(word* where) {
  if (g_here != nullptr) g_here->pause(threads::access::locked, where, 0);
  return *where;
}

void point() {
  if (g_here != nullptr) g_here->pause(threads::access::point, nullptr, 0);
}

void end_thread(std::string_view name) {
  if (g_here != nullptr) g_here->end(name);
}

void require(bool holds, const char* what) {
  if (!holds && g_here != nullptr) g_here->complain(what);
}

bool is_expired() { return g_here != nullptr && g_here->look_at_clock(); }

long futex(long, word* where, int operation, long value, const void* timeout, const void*, int) {
  if (g_here == nullptr) return 0;
  if (operation == FUTEX_WAIT) {
    const auto* limit = static_cast<const timespec*>(timeout);
    const bool is_nap = limit != nullptr && limit->tv_sec == 0 && limit->tv_nsec <= g_here->longest_nap_ns();
    g_here->sleep(where, static_cast<word>(value), is_nap);
  } else {
    g_here->pause(threads::access::wake, where, static_cast<word>(value));
  }
  return 0;
}

}  // namespace models
