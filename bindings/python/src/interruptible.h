// Calls that block without a timeout of their own, and all the same end where a signal handler of Python's raises.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "bindings/python/src/calls.h"

namespace lsched::python {

/// A call in a thread of its own, while the thread that wants the call waits and looks at signals. Both threads own it.
class call_in_thread : public std::enable_shared_from_this<call_in_thread> {
 public:
  using attempt = std::function<lsched_status(lsched_diagnostic*)>;

  /// Makes `call` and waits for its end; once only. After a signal the call goes on without its caller, and `undo`
  /// gives back what a call that went well has made. Neither has the interpreter's lock.
  void make(attempt call, std::function<void()> undo);

  /// By the call: has `question` answered by the thread that waits, which has the interpreter's lock. Returns whether
  /// that thread still waits.
  bool ask(std::function<void()> question);

 private:
  bool wait_for_news();
  void leave();

  std::mutex lock_;
  std::condition_variable news_;
  std::function<void()> question_, undo_;
  bool is_over_ = false, is_left_ = false;
  lsched_status code_ = LSCHED_OK;
  lsched_diagnostic why_;
};

/// Answers the handle that `call(handle*, diagnostic*)` makes. The call must own what it uses, since it may outlive its
/// caller; `end` gives back what it then makes.
template <class Handle, class Call>
Handle* interruptible(Call&& call, lsched_status (*end)(Handle*),
                      const std::shared_ptr<call_in_thread>& thread = std::make_shared<call_in_thread>()) {
  auto made = std::make_shared<Handle*>(nullptr);
  thread->make([made, call](lsched_diagnostic* why) { return call(made.get(), why); },
               [made, end] {
                 if (*made != nullptr) (void)end(*made);
               });
  return *made;
}

}  // namespace lsched::python
