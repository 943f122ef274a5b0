// A life word is a word in shared memory. It shows without delay that a thread has ended, for any reason.
//
// The thread registers the word with the kernel by set_robust_list(2), as if the word were a robust mutex. When the
// thread ends, the kernel marks the word and wakes a sleeper. The kernel does this before it frees the memory of a
// killed process. Freeing gigabytes can take a second. The word needs no file descriptor and no polling. While a
// process dumps core, its threads count as running.
#pragma once

#include <atomic>
#include <cstdint>

#include <linux/futex.h>

namespace lsched {

/// A value of 0 means that no thread holds the word. Any process that maps the word may read it.
class life_word {
 public:
  bool is_held() const { return word_.load() != 0; }
  /// Returns true if the thread that held the word has ended without releasing it.
  bool has_ended() const { return (word_.load() & FUTEX_OWNER_DIED) != 0; }

  std::uint32_t value() const { return word_.load(); }

  /// Sleeps until wake() is called or the holder ends. Returns at once if the word differs from `seen`. May return
  /// spuriously.
  void await_change(std::uint32_t seen) const;
  void wake() const;

  /// Makes the calling thread hold the word during the lifetime of this object. The thread must not hold another life
  /// word or a robust mutex. If a sandbox refuses set_robust_list(2), the word stays zero.
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
