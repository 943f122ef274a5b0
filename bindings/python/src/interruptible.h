// Calls that block without a timeout of their own, and all the same end where a signal handler of Python's raises.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "bindings/python/src/calls.h"

namespace lsched::python {

/// A call in a thread of its own, beside the thread that wants it to be made. Held by both.
class beside {
 public:
  /// Wants `call(diagnostic*)` to be made. Where its caller has left by then, `undo` gives back what a call that went
  /// well has made. Neither has the interpreter's lock.
  using attempt = std::function<lsched_status(lsched_diagnostic*)>;
  static void make(const std::shared_ptr<beside>& self, attempt call, std::function<void()> undo);

  /// By the call: has `question` answered by the thread that waits, which has the interpreter's lock. Returns whether
  /// it was.
  bool ask(std::function<void()> question);

 private:
  void begin(const std::shared_ptr<beside>& self, attempt call, std::function<void()> undo);
  bool wait_for_news();
  void leave();

  std::mutex lock_;
  std::condition_variable news_;
  std::function<void()> question_;
  bool is_over_ = false, is_left_ = false;
  lsched_status code_ = LSCHED_OK;
  lsched_diagnostic why_;
  std::function<void()> undo_;
};

/// Answers the handle that `call(handle*, diagnostic*)` makes. The call must own what it uses: after a signal it goes
/// on without its caller, and `end` gives back what it makes.
template <class Handle, class Call>
Handle* interruptible(Call&& call, lsched_status (*end)(Handle*),
                      const std::shared_ptr<beside>& thread = std::make_shared<beside>()) {
  auto made = std::make_shared<Handle*>(nullptr);
  beside::make(
      thread, [made, call](lsched_diagnostic* why) { return call(made.get(), why); },
      [made, end] {
        if (*made != nullptr) (void)end(*made);
      });
  return *made;
}

}  // namespace lsched::python
