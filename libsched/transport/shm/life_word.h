// A word in shared memory by which others learn at once that a thread has ended, however that happened.
//
// The thread names the word to the kernel (set_robust_list(2), which is there for mutexes that outlive their owners).
// When the thread ends, the kernel marks the word and wakes a sleeper: before the memory of a killed process is given
// back, which takes a second for gigabytes, and before anybody could see that the process is gone. It takes no
// descriptor, and nobody has to look from time to time. A process that dumps core still runs, for the kernel.
#pragma once

#include <atomic>
#include <cstdint>

#include <linux/futex.h>

namespace lsched {

/// All zeroes: nobody holds it yet, or nobody does any more. Any process reads.
class life_word {
 public:
  bool is_held() const { return word_.load() != 0; }
  /// Whether the thread that held it has ended without letting go.
  bool has_ended() const { return (word_.load() & FUTEX_OWNER_DIED) != 0; }

  std::uint32_t value() const { return word_.load(); }

  /// Sleeps while the word is what was `seen`, until somebody calls wake(); may return for nothing.
  void await_change(std::uint32_t seen) const;
  void wake() const;

  /// Held by the calling thread while this lives; the thread holds no other, nor a robust mutex. Where a sandbox
  /// refuses set_robust_list(2), the word stays zero, because the kernel would not mark the word.
  class holder {
   public:
    explicit holder(life_word& word);
    ~holder();
    holder(const holder&) = delete;
    holder& operator=(const holder&) = delete;

   private:
    life_word& word_;
    robust_list entry_{};
    robust_list_head list_{};
    robust_list_head* before_ = nullptr;
  };

 private:
  std::atomic<std::uint32_t> word_;
};

}  // namespace lsched
