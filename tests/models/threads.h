// Threads as a system: real compiled code, stopped before each access to an atomic, in every possible order.
//
// Each thread is a coroutine with its own small stack. The whole state consists of the stacks, the registers, the store
// buffers, and the arena, in which all shared objects are allocated. The state is bytes, which can be saved and
// restored. Dead bytes may split one state into two, but they never merge two states into one.
//
// The memory model is x86-TSO (Owens, Sarkar, Sewell 2009). A plain store goes into the thread's FIFO store buffer and
// reaches memory later. A load reads the thread's own buffer first. A locked instruction, and the entry into the
// kernel, wait until the buffer is empty. A sequentially consistent store is a locked instruction, any weaker store is
// a plain store, and every load is a plain load. Variables that are not atomic are not delayed. They belong to one
// thread at a time, which the thread sanitizer checks on the real program.
//
// A sleep is FUTEX_WAIT, and time stands still. A timeout expires only if the thread is `impatient`. Then its deadline
// may pass whenever the thread reads the clock or sleeps. A sleep with a timeout of at most a millisecond is a nap,
// which may end at any moment. A nap that ends while no other move is possible is in vain. A third such nap of one
// thread is a fault, because two naps have changed nothing and further naps never will. A waker may choose any of the
// sleepers.
//
// Requires x86-64 and glibc, because a switch between threads reads a jmp_buf.
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

  /// Runs `job` in the arena, so that its allocations are part of the state.
  void set_up(const std::function<void()>& job);

  void add(std::string name, std::function<void()> body, patience waits = patience::endless);

  /// Lets the thread that was added last allocate up to `bytes` bytes.
  void give_memory(std::size_t bytes);

  /// Limits the naps of each thread that end while other moves are possible. This is for worlds in which each nap rings
  /// a thread, because unlimited naps would have unlimited states there.
  void limit_early_naps(std::uint64_t most) { early_naps_ = most; }

  /// Makes every nap a fault. This is for worlds in which every event rings, because a nap would hide a missing ring.
  void forbid_naps() { may_nap_ = false; }

  /// Counts sleeps of up to 50 ms as naps. A thread may nap for ever if the final check has no fault.
  void count_long_naps() { has_long_naps_ = true; }
  long longest_nap_ns() const { return has_long_naps_ ? 50'000'000 : 1'000'000; }

  /// Sets the name of a variable in the steps of a path.
  void name(const void* variable, std::string what) { names_[variable] = std::move(what); }

  /// Sabotage: turns sequentially consistent stores to this variable into plain stores.
  void weaken(const void* variable) { weakened_.insert(variable); }

  /// Sets the check of every state. `is_last`: no move is left.
  void expect(std::function<std::string(bool is_last)> judge) { judge_ = std::move(judge); }

  /// Returns the threads that are not finished as text, for checks.
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

// --- called by the explored code; outside of a thread these act at once --------------------------------------------

word load(const word* where);
void store(word* where, word value);
void store_in_order(word* where, word value);

/// Returns the variable for one read-modify-write.
word& locked(word* where);

/// Marks a point at which another thread may run.
void point();

/// Stops a thread for ever. Its buffered stores reach memory.
void end_thread(std::string_view name);

/// Reports a fault unless `holds`. The path ends with a fault.
void require(bool holds, const char* what);

/// The futex system call: FUTEX_WAIT and FUTEX_WAKE.
long futex(long number, word* where, int operation, long value, const void* timeout, const void*, int);

/// Returns whether the calling thread's deadline has passed.
bool is_expired();

}  // namespace models
