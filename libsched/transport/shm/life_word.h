// A word in shared memory that shows immediately that a thread has ended, for any reason.
//
// The thread registers the word with the kernel by set_robust_list(2), which is meant for mutexes that outlive their
// owners. When the thread ends, the kernel marks the word and wakes a sleeper. The kernel does so before it frees the
// memory of a killed process, which takes a second for gigabytes, and before the process disappears. The word needs no
// descriptor and no polling. A process that dumps core still counts as running.
#pragma once

#include <atomic>
#include <cstdint>

#include <linux/futex.h>

namespace lsched {

/// The word. All zeros: no thread holds the word. Any process may read the word.
class life_word {
 public:
  bool is_held() const { return word_.load() != 0; }
  /// Returns whether the thread that held the word has ended without releasing it.
  bool has_ended() const { return (word_.load() & FUTEX_OWNER_DIED) != 0; }

  std::uint32_t value() const { return word_.load(); }

  /// Sleeps while the word equals `seen`, until a call of wake(). May return spuriously.
  void await_change(std::uint32_t seen) const;
  void wake() const;

  /// Makes the calling thread hold the word during the lifetime of this object. The thread may hold no other life word
  /// and no robust mutex. If a sandbox refuses set_robust_list(2), the word stays zero, because the kernel would not
  /// mark the word.
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
