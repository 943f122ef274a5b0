// Threads as a system: real compiled code, stopped before each access to an atomic, in every order there is.
//
// Each thread is a coroutine on a small stack of its own. Its state is what it has on that stack and in its registers;
// together with the arena, where everything the threads share is allocated, and the store buffers, that is the whole
// state: bytes that can be put back. What dead bytes contain may split one state into two, never merge two into one.
//
// Memory is x86-TSO (Owens, Sarkar, Sewell 2009): a plain store goes into the thread's FIFO buffer and reaches memory
// at some later moment; a load sees the own buffer first; a locked instruction, and the entry into the kernel, wait
// for the buffer to be empty. A sequentially consistent store is a locked instruction there, any weaker store a plain
// one, and every load a plain one. Plain variables are not delayed: they belong to one thread at a time, which the
// thread sanitizer checks on the real program.
//
// Sleep is FUTEX_WAIT, and time stands still: a timeout does not pass, unless the thread is `impatient`: then its
// deadline may pass whenever it looks at the clock or sleeps. A timeout of at most a millisecond is a nap, which may
// be over at any moment. One that is over while nothing else can happen is in vain; a third of one thread is a fault:
// what has not come of two never will. A waker chooses among the sleepers in every possible way.
//
// For x86-64 and glibc: switching looks into a jmp_buf.
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

  /// Runs in the arena: what it allocates is part of the state.
  void set_up(const std::function<void()>& job);

  void add(std::string name, std::function<void()> body, patience waits = patience::endless);

  /// The thread that was added last may allocate so many bytes.
  void give_memory(std::size_t bytes);

  /// Of each thread, so many naps are over before nothing else can happen. For worlds where each nap rings somebody:
  /// there, an endless number of them would be an endless number of states.
  void limit_early_naps(std::uint64_t most) { early_naps_ = most; }

  /// Where somebody rings for whatever happens: a nap is a fault, because it would hide that a ring is missing.
  void forbid_naps() { may_nap_ = false; }

  /// Sleeps of up to 50 ms are naps, too, which a thread may take for ever when all is as it should be.
  void count_long_naps() { has_long_naps_ = true; }
  long longest_nap_ns() const { return has_long_naps_ ? 50'000'000 : 1'000'000; }

  /// For the steps of a path.
  void name(const void* variable, std::string what) { names_[variable] = std::move(what); }

  /// Sabotage: sequentially consistent stores to this variable become plain ones.
  void weaken(const void* variable) { weakened_.insert(variable); }

  /// Asked in every state; `is_last`: nothing moves any more.
  void expect(std::function<std::string(bool is_last)> judge) { judge_ = std::move(judge); }

  /// For judges: who has not come to his end, as text.
  std::string unfinished() const;
  bool is_finished(std::string_view name) const;

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

// --- what the code under exploration calls; outside of a thread these act at once ----------------------------------

word load(const word* where);
void store(word* where, word value);
void store_in_order(word* where, word value);

/// The variable, for one read-modify-write.
word& locked(word* where);

/// Another thread may run here.
void point();

/// That thread stops where it is, for ever. Its stores reach memory.
void end_thread(std::string_view name);

/// Something is wrong: the path ends here.
void require(bool holds, const char* what);

/// The futex system call: FUTEX_WAIT and FUTEX_WAKE.
long futex(long number, word* where, int operation, long value, const void* timeout, const void*, int);

/// Whether the calling thread's deadline has passed.
bool is_expired();

}  // namespace models
