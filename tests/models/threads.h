// Threads as a system for the explorer. The threads run compiled code, and stop before each access to an atomic
// variable. The explorer chooses the order of all accesses.
//
// Each thread is a coroutine with its own small stack. The whole state consists of the stacks, the registers, the store
// buffers, and the arena, in which all shared objects are allocated. The state is an array of bytes, which can be saved
// and restored. Because of bytes that are no longer used, one state may look like two states. Two states never look
// like one state.
//
// The memory model is x86-TSO (Owens, Sarkar, Sewell 2009). A plain store is put into the FIFO store buffer of the
// thread, and reaches memory later. A load reads the thread's own buffer first. A locked instruction, and the entry
// into the kernel, wait until the buffer is empty. A sequentially consistent store is a locked instruction. Any weaker
// store is a plain store, and every load is a plain load. A store to a variable that is not atomic skips the store
// buffer and reaches memory at once. This is correct because only one thread at a time may use such a variable. (The
// thread sanitizer checks this rule in the unchanged program.)
//
// A thread sleeps by FUTEX_WAIT. Time stands still, so a timeout expires only if the thread is `impatient`. The
// deadline of an impatient thread may pass whenever the thread reads the clock or sleeps. A sleep with a timeout of at
// most a millisecond is a nap, which may end at any moment. A nap is in vain if it ends while no other move is
// possible. A thread's third nap in vain is a fault: if two naps have changed nothing, further naps will not either. A
// futex wake may reach any of the threads that sleep on the variable.
//
// This code requires x86-64 and glibc, because a switch between threads reads a jmp_buf.
#pragma once

#include <csetjmp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "tests/models/explorer.h"

namespace models {

using word = std::uint64_t;

enum class memory : std::uint8_t { sc, tso };

enum class patience : std::uint8_t { endless, impatient };

class threads final : public system {
 public:
  explicit threads(memory model = memory::tso);
  ~threads() override;
  threads(const threads&) = delete;
  threads& operator=(const threads&) = delete;

  /// Runs `job` with an arena_scope, so that allocations of `job` are part of the state.
  void set_up(const std::function<void()>& job);

  void add(std::string name, std::function<void()> body, patience waits = patience::endless);

  /// Allows the latest added thread to allocate up to `bytes` bytes.
  void give_memory(std::size_t bytes);

  /// Limits the number of early naps of each thread. An early nap ends while other moves are possible. If each nap
  /// rings a thread, the number of states is infinite without this limit.
  void limit_early_naps(std::uint64_t most) { early_naps_ = most; }

  /// Makes every nap a fault. If every event of a world rings the doorbell, a nap would hide a missing ring.
  void forbid_naps() { may_nap_ = false; }

  /// Counts sleeps of up to 50 ms as naps. A thread may then nap for ever, unless the final check finds a fault.
  void count_long_naps() { has_long_naps_ = true; }
  long longest_nap_ns() const { return has_long_naps_ ? 50'000'000 : 1'000'000; }

  /// Sets the name that a variable has in the path of a report.
  void name(const void* variable, std::string what) { names_[variable] = std::move(what); }

  /// Plants a fault: sequentially consistent stores to `variable` become plain stores.
  void weaken(const void* variable) { weakened_.insert(variable); }

  /// Sets the function that checks every state. `is_last` is true if no move is possible.
  void expect(std::function<std::string(bool is_last)> judge) { judge_ = std::move(judge); }

  /// Returns a text that lists the threads that have not finished.
  std::string unfinished() const;

  void save(std::vector<std::byte>& state) const override;
  void restore(std::span<const std::byte> state) override;
  void moves(std::vector<move>& out) const override;
  void make(move what) override;
  std::string describe(move what) const override;
  std::string fault(bool is_last) const override;

  // --- called by the threads, through the functions below ------------------------------------------------------------
  enum class access : std::uint8_t { alone, load, store, locked, point, wait, wake, asleep, clock, finished };
  void pause(access next, word* where, word value);
  void sleep(word* where, word value, bool is_nap);
  word read(const word* where) const;
  void write(word* where, word value);
  bool is_weakened(const void* variable) const { return weakened_.contains(variable); }
  void complain(std::string what);
  bool look_at_clock();
  void end(std::string_view name);

 private:
  struct buffered {
    word* where;
    word value;
  };
  struct control;
  struct thread;
  void start(thread& it);
  void resume(thread& it);
  [[noreturn]] static void enter(unsigned high, unsigned low);
  std::string name_of(const void* variable) const;
  void wake(const thread& by, std::size_t choice);
  bool is_still() const;
  bool is_at_rest(const thread& it) const;

  const memory model_;
  std::optional<std::uint64_t> early_naps_;
  bool may_nap_ = true;
  bool has_long_naps_ = false;
  std::vector<std::unique_ptr<thread>> threads_;
  thread* running_ = nullptr;
  std::map<const void*, std::string> names_;
  std::set<const void*> weakened_;
  std::function<std::string(bool)> judge_;
  std::string complaint_;
  std::jmp_buf back_;
};

// --- called by the explored code; outside of explored threads these functions act at once ------------------

word load(const word* where);
void store(word* where, word value);
void store_in_order(word* where, word value);

/// Returns the variable at `where`, for one atomic read-modify-write operation.
word& locked(word* where);

/// Marks a point at which another thread may run.
void point();

/// Stops a thread for ever. The buffered stores of the thread still reach memory.
void end_thread(std::string_view name);

/// Reports a fault unless `holds` is true. The explorer stops at the first fault.
void require(bool holds, const char* what);

/// The futex system call: FUTEX_WAIT and FUTEX_WAKE.
long futex(long number, word* where, int operation, long value, const void* timeout, const void*, int);

/// Returns whether the calling thread's deadline has passed.
bool is_expired();

}  // namespace models
