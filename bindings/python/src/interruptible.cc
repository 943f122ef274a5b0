#include "bindings/python/src/interruptible.h"

#include <chrono>
#include <thread>
#include <utility>

namespace lsched::python {

/// Waits at most slice_ns. If the call has passed a function to ask(), runs that function. Returns true if the call is
/// over.
bool call_in_thread::wait_for_news() {
  const bool has_come = unlocked([this] {
    std::unique_lock hold(lock_);
    return news_.wait_for(hold, std::chrono::nanoseconds(slice_ns.load()), [this] { return is_over_ || question_; });
  });
  if (!has_come || !question_) return has_come;
  question_();
  const std::lock_guard hold(lock_);
  question_ = nullptr;
  news_.notify_all();
  return is_over_;
}

void call_in_thread::leave() {
  const std::lock_guard hold(lock_);
  is_left_ = true;
  question_ = nullptr;
  news_.notify_all();
  if (is_over_ && code_ >= 0) undo_();
}

bool call_in_thread::ask(std::function<void()> question) {
  std::unique_lock hold(lock_);
  if (is_left_) return false;
  question_ = std::move(question);
  news_.notify_all();
  // wait_for instead of wait: GCC 12 compiles wait to a symbol of GLIBCXX_3.4.30, so the wheel would need a newer
  // system.
  while (question_) news_.wait_for(hold, std::chrono::hours(1));
  return !is_left_;
}

void call_in_thread::make(attempt call, std::function<void()> undo) {
  undo_ = std::move(undo);
  std::thread([self = shared_from_this(), call = std::move(call)]() mutable {
    lsched_diagnostic why{.struct_size = sizeof why};
    const lsched_status code = call(&why);
    call = nullptr;  // destroys the objects that the call owns
    const std::lock_guard hold(self->lock_);
    self->code_ = code;
    self->why_ = why;
    self->is_over_ = true;
    if (self->is_left_ && code >= 0) self->undo_();
    self->news_.notify_all();
  }).detach();
  while (!wait_for_news()) {
    if (PyErr_CheckSignals() == 0) continue;
    leave();
    throw nb::python_error();
  }
  expect(code_, why_);
}

}  // namespace lsched::python
