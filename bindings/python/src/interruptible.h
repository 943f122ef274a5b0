// Runs calls of the library that block without a timeout, so that a signal handler of Python can end the wait.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "bindings/python/src/calls.h"

namespace lsched::python {

/// Runs a call in a new thread. The calling thread waits and checks for signals. Both threads own this object.
class call_in_thread : public std::enable_shared_from_this<call_in_thread> {
 public:
  using attempt = std::function<lsched_status(lsched_diagnostic*)>;

  /// Runs `call` without the interpreter's lock and waits for its end. Must be called only once. If a signal handler
  /// raises, make() throws and `call` continues. If `call` succeeds nevertheless, `undo` is called to destroy the
  /// result of `call`.
  void make(attempt call, std::function<void()> undo);

  /// Runs `question` in the waiting thread, which has the interpreter's lock. `call` uses this function to call Python.
  /// Returns false if the waiting thread has stopped waiting.
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

/// Returns the handle that `call(handle*, diagnostic*)` creates. `call` must own all objects that it uses, because
/// `call` may outlive its caller. In that case `end` destroys the handle.
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
