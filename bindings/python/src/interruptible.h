// Calls that block without a timeout, but return if a signal handler of Python raises.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "bindings/python/src/calls.h"

namespace lsched::python {

/// Runs a call in a new thread, while the calling thread waits and checks for signals. Both threads own the object.
class call_in_thread : public std::enable_shared_from_this<call_in_thread> {
 public:
  using attempt = std::function<lsched_status(lsched_diagnostic*)>;

  /// Runs `call` without the interpreter's lock and waits for its end. Must be used once only. If a signal handler
  /// raises, make() throws and `call` continues. If `call` then succeeds, `undo` gives back its result.
  void make(attempt call, std::function<void()> undo);

  /// Runs `question` in the waiting thread, which has the interpreter's lock. `call` uses this function. Returns false
  /// if that thread does not wait any more.
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

/// Returns the handle that `call(handle*, diagnostic*)` makes. `call` must own all objects that it uses, because it may
/// outlive its caller. In that case `end` gives the handle back.
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
