#include <nanobind/stl/optional.h>

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "bindings/python/src/handles.h"
#include "bindings/python/src/interruptible.h"

namespace lsched::python {
namespace {

using limit = std::optional<double>;

/// A posted message. Keeps the mailbox, and the memory of the message, alive until the message has ended. The
/// destructor cancels a receive whose data does not move yet. All other messages continue without this object (as
/// orphans).
struct message {
  message();
  message(message&& other) noexcept  // used when a message is posted
      : handle(std::exchange(other.handle, nullptr)),
        is_sent(other.is_sent),
        of(std::move(other.of)),
        keeps(std::move(other.keeps)),
        place(std::exchange(other.place, {})) {
    **place = this;
  }
  message& operator=(message&&) = delete;
  ~message();

  lsched_message* handle = nullptr;  ///< null after the end; set to null by a wait, without the interpreter's lock
  bool is_sent = false;
  std::int32_t rank = -1, tag = -1;  ///< peer and tag of the ended message
  std::uint64_t bytes = 0;
  std::exception_ptr failure{};  ///< the error with which the message has ended
  bool is_in_use = false;        ///< true while a thread has the turn (see class turn)
  bool is_over = false;          ///< true once the message has ended and its outcome is known
  nb::object of{}, keeps{};
  std::optional<std::list<message*>::iterator> place{};  ///< place in messages(); empty after a move

  void end(const lsched_arrival& what) {
    rank = what.rank, tag = what.tag, bytes = what.bytes;
    is_over = true;
    keeps.reset();
  }
  void tell() const {
    if (failure) std::rethrow_exception(failure);
  }
};

/// A turn is the right to call the library with a message. Only one thread at a time has the turn.
class turn {
 public:
  explicit turn(message& of) : of_(of) {}
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;
  ~turn() {
    if (!is_mine_) return;
    const std::lock_guard hold(lock());
    of_.is_in_use = false;
    is_over().notify_all();
  }

  /// Waits for the turn. Returns true if the thread got the turn before the timeout.
  bool take(std::uint64_t timeout_ns) {
    if (is_mine_) return true;
    std::unique_lock hold(lock());
    is_mine_ = is_over().wait_for(hold, std::chrono::nanoseconds(timeout_ns), [this] { return !of_.is_in_use; });
    of_.is_in_use = true;
    return is_mine_;
  }

 private:
  // Returns the mutex of all messages. One mutex suffices, because two threads hardly ever use the same message. The
  // mutex is never destroyed, because a thread may wait for the mutex when the process ends.
  static std::mutex& lock() {
    static auto* const all = new std::mutex;
    return *all;
  }
  static std::condition_variable& is_over() {
    static auto* const all = new std::condition_variable;
    return *all;
  }

  message& of_;
  bool is_mine_ = false;
};

/// An orphan is a message that has not ended, but has lost its Python object. The struct keeps the objects that the
/// message needs until its end. The interpreter's lock protects the list of orphans. The list is never destroyed,
/// because its destructor could run after the end of the interpreter.
struct orphan {
  lsched_message* handle;
  nb::object of, keeps;
};
std::vector<orphan>& orphans() {
  static auto* const all = new std::vector<orphan>;
  return *all;
}

/// Removes the orphans that have ended, and the orphans whose mailbox was destroyed.
void look_after_orphans() {
  std::vector<orphan> over;  // destroyed last, because destructors of kept objects may run any code
  std::erase_if(orphans(), [&](orphan& one) {
    const mailbox& box = *nb::inst_ptr<mailbox>(one.of);
    if (box.is_usable()) (void)lsched_message_test(&one.handle, nullptr);
    const bool is_over = one.handle == nullptr || box.kept() == nullptr;
    if (is_over) over.push_back(std::move(one));
    return is_over;
  });
}

/// Returns the list of messages that have a Python object. As with the list of orphans, the interpreter's lock protects
/// the list, and the list is never destroyed.
std::list<message*>& messages() {
  static auto* const all = new std::list<message*>;
  return *all;
}

message::message() : place(messages().insert(messages().end(), this)) {}

message::~message() {
  if (place) messages().erase(*place);
  if (handle == nullptr) return;
  const bool is_usable = nb::inst_ptr<mailbox>(of)->is_usable();
  if (is_usable && !is_sent && lsched_message_cancel(&handle) == LSCHED_OK) return;
  orphans().push_back({handle, std::move(of), std::move(keeps)});
}

/// Creates a mailbox. If `waits` is true, waits until all ranks have created the mailbox.
address create(const world& in, bool waits) {
  return adopted(interruptible(
      [waits, all = committing(in)](lsched_mailbox** made, lsched_diagnostic* why) {
        if (waits) (void)lsched_world_set(all, LSCHED_NONBLOCKING, 0);
        const lsched_status code = lsched_mailbox_create(all, made, why);
        (void)lsched_world_set(all, LSCHED_NONBLOCKING, 1);
        return code;
      },
      lsched_mailbox_destroy));
}

void destroy(mailbox& of) {
  look_after_orphans();
  of.give_back([](lsched_mailbox* one) { expect(unlocked([one] { return lsched_mailbox_destroy(one); })); });
}

template <class Post>
message posted(nb::handle_t<mailbox> self, nb::object keeps, Post&& post) {
  message made;
  if (!orphans().empty()) look_after_orphans();
  const auto box = nb::inst_ptr<mailbox>(self)->get();
  expect(unlocked([&] { return post(box, &made.handle); }));
  made.of = nb::borrow(self);
  made.keeps = std::move(keeps);
  return made;
}

message send(nb::handle_t<mailbox> self, std::int32_t to, std::int32_t tag, address data, std::uint64_t bytes,
             nb::object keeps) {
  message made = posted(self, std::move(keeps), [&](lsched_mailbox* box, lsched_message** handle) {
    return lsched_send_post(box, to, tag, at(data), bytes, handle);
  });
  made.is_sent = true;
  return made;
}

message receive(nb::handle_t<mailbox> self, std::int32_t from, std::int32_t tag, address data, std::uint64_t room,
                nb::object keeps) {
  return posted(self, std::move(keeps), [&](lsched_mailbox* box, lsched_message** handle) {
    return lsched_receive_post(box, from, tag, at(data), room, handle);
  });
}

/// Calls `call(arrival*)`, which waits for or tests the message. If the message has ended, stores its outcome.
template <class Call>
void ended_by(message& of, Call&& call) {
  lsched_arrival what{.struct_size = sizeof what};
  try {
    call(&what);
  } catch (...) {
    if (of.handle == nullptr && !of.is_over) {
      of.failure = std::current_exception();
      of.end(what);
    }
    throw;
  }
  if (of.handle == nullptr && !of.is_over) of.end(what);
}

void wait_for(message& of, limit timeout) {
  if (of.is_over) return of.tell();
  const auto box = nb::inst_ptr<mailbox>(of.of)->get();
  turn mine(of);
  ended_by(of, [&](lsched_arrival* what) {
    wait(nanoseconds(timeout), [&](std::uint64_t slice, lsched_diagnostic* why) {
      if (!mine.take(slice)) {
        *why = told(LSCHED_ERR_TIMEOUT,
                    "another thread waits for this message, which is still in flight: call wait() again later");
        return LSCHED_ERR_TIMEOUT;
      }
      return of.handle == nullptr ? LSCHED_OK : lsched_message_wait(&of.handle, slice, what, why);
    });
  });
  of.tell();
}

bool test(message& of) {
  if (of.is_over) return of.tell(), true;
  const auto box = nb::inst_ptr<mailbox>(of.of)->get();
  turn mine(of);
  if (!mine.take(0)) return false;
  if (!of.is_over) ended_by(of, [&](lsched_arrival* what) { expect(lsched_message_test(&of.handle, what)); });
  return of.is_over;
}

void cancel(message& of) {
  if (of.is_over) return;
  const auto box = nb::inst_ptr<mailbox>(of.of)->get();
  turn mine(of);
  if (!mine.take(0))
    throw call_failure(
        told(LSCHED_ERR_BUSY, "another thread waits for this message: call cancel() after that wait() has returned"));
  if (of.is_over) return;
  expect(unlocked([&] { return lsched_message_cancel(&of.handle); }));
  of.failure = std::make_exception_ptr(call_failure(told(LSCHED_ERR_CANCELLED, "this rank has cancelled the message")));
  of.end({});
}

/// Cancels the message unless its data moves already. Later waits for a cancelled message raise Cancelled.
void give_up(message& of) {
  if (of.is_over) return;
  const auto box = nb::inst_ptr<mailbox>(of.of)->get();
  turn mine(of);
  if (!unlocked([&] { return mine.take(slice_ns.load()); }) || of.is_over) return;
  if (unlocked([&] { return lsched_message_cancel(&of.handle); }) != LSCHED_OK) return;
  of.failure = std::make_exception_ptr(call_failure(
      told(LSCHED_ERR_CANCELLED, "this rank closed the mailbox after an error, before the message had ended")));
  of.end({});
}

/// Calls give_up() for all messages of the mailbox, so that the mailbox can be destroyed.
void give_up_all(nb::handle_t<mailbox> self) {
  if (!nb::inst_ptr<mailbox>(self)->is_usable()) return;
  std::vector<nb::object> owners;  // keep the messages alive, which other threads may drop during the waits
  for (message* one : messages())
    if (one->of.is(self)) owners.push_back(nb::find(*one));
  for (const nb::object& one : owners) give_up(*nb::inst_ptr<message>(one));
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const message* const mine = nb::inst_ptr<message>(self);
  if (mine->handle != nullptr) return 0;  // a message in flight is not garbage
  Py_VISIT(mine->of.ptr());
  Py_VISIT(mine->keeps.ptr());
  return 0;
}

int clear(PyObject* self) {
  message* const mine = nb::inst_ptr<message>(self);
  if (mine->handle != nullptr) return 0;
  mine->of.reset();
  mine->keeps.reset();
  return 0;
}

PyType_Slot message_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

}  // namespace

void add_messages(nb::module_& module) {
  module.def("mailbox", create);
  nb::class_<mailbox>(module, "Mailbox", nb::dynamic_attr(), nb::is_weak_referenceable())
      .def("__init__",
           [](mailbox* made, address handle) { new (made) mailbox(static_cast<lsched_mailbox*>(at(handle))); })
      .def_prop_ro("is_open", &mailbox::is_open)
      .def("_destroy", destroy)
      .def("_give_up_messages", give_up_all)
      .def("_send", send)
      .def("_receive", receive);
  nb::class_<message>(module, "Message", nb::type_slots(message_slots), "A posted send or receive.")
      .def_prop_ro("is_pending", [](const message& of) { return !of.is_over; })
      .def_ro("rank", &message::rank,
              "Rank that the message came from, or was sent to; -1 before the message has ended.")
      .def_ro("tag", &message::tag, "Tag of the received message; -1 before the message has ended.")
      .def_ro("bytes", &message::bytes, "Bytes of the received message.")
      .def("wait", wait_for, nb::arg("timeout") = nb::none(),
           "Waits until the message has ended, at most `timeout` seconds (None: forever).\n\n"
           "Raises Timeout, which changes nothing, and BoundsError if the message was longer than the array.")
      .def("test", test, "Returns true if the message has ended. Does not block.")
      .def("cancel", cancel,
           "Withdraws the message. Later calls of wait() and test() raise Cancelled. Raises Busy if its transfer has "
           "begun: wait() for the message then.");
}

}  // namespace lsched::python
