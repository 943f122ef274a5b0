#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>

#include "bindings/c/lsched_cuda.h"
#include "bindings/python/src/handles.h"

namespace lsched::python {
namespace {

using addresses = std::vector<address>;
using limit = std::optional<double>;

const void* const* inputs_of(const addresses& all) { return reinterpret_cast<const void* const*>(all.data()); }
void* const* outputs_of(const addresses& all) {
  return reinterpret_cast<void* const*>(const_cast<address*>(all.data()));
}

void create_wait(const schedule& of, limit timeout) {
  wait(nanoseconds(timeout),
       [all = of.get()](std::uint64_t slice, lsched_diagnostic* why) { return lsched_create_wait(all, slice, why); });
}

/// Returns the address of a CUstream. `stream` is a number, or a stream object that libsched._streams supports.
address handle_of(nb::handle stream) {
  if (address handle = 0; nb::try_cast(stream, handle, false)) return handle;
  return nb::cast<address>(nb::module_::import_("libsched._streams").attr("stream_handle")(stream));
}

ticket start(nb::handle_t<schedule> self) {
  const schedule& of = *nb::inst_ptr<schedule>(self);
  ticket made;
  expect(unlocked([&, one = of.get()] { return lsched_start(one, &made.round); }));
  made.of = nb::borrow(self);
  return made;
}

ticket start_behind(nb::handle_t<schedule> self, address stream) {
  const schedule& of = *nb::inst_ptr<schedule>(self);
  ticket made;
  const lsched_status code =
      unlocked([&, one = of.get()] { return lsched_start_on_stream(one, at(stream), &made.round); });
  expect(code);
  made.of = nb::borrow(self);
  return made;
}

ticket start_on_stream(nb::handle_t<schedule> self, nb::handle stream) { return start_behind(self, handle_of(stream)); }

/// Starts a round over the given memory. `counts` holds addresses of arrays of 64-bit integers, in the order of
/// lsched_counts. An address is 0 if there is no array.
ticket start_with(nb::handle_t<schedule> self, const std::optional<addresses>& inputs,
                  const std::optional<addresses>& outputs, const std::optional<std::array<address, 5>>& counts,
                  nb::object keeps) {
  const schedule& of = *nb::inst_ptr<schedule>(self);
  ticket made;
  lsched_counts with{.struct_size = sizeof with};
  if (counts) {
    with.send_counts = static_cast<const std::uint64_t*>(at((*counts)[0]));
    with.send_displacements = static_cast<const std::uint64_t*>(at((*counts)[1]));
    with.recv_counts = static_cast<const std::uint64_t*>(at((*counts)[2]));
    with.recv_displacements = static_cast<const std::uint64_t*>(at((*counts)[3]));
    with.received = static_cast<std::uint64_t*>(at((*counts)[4]));
  }
  expect(unlocked([&, one = of.get()] {
    return lsched_start_with(one, inputs ? inputs_of(*inputs) : nullptr, outputs ? outputs_of(*outputs) : nullptr,
                             counts ? &with : nullptr, &made.round);
  }));
  made.of = nb::borrow(self);
  made.keeps = std::move(keeps);
  return made;
}

/// Runs a round in slices (see wait()). Slices call lsched_run until a round was started, and then lsched_wait. If
/// lsched_run returns TIMEOUT with a round number, this round was started. If it returns TIMEOUT without a round
/// number, no round was started, because the ranks did not agree on the schedule in time.
void run(const schedule& of, limit timeout) {
  const schedule::lease one = of.get();
  lsched_ticket round{};
  wait(nanoseconds(timeout), [&](std::uint64_t slice, lsched_diagnostic* why) {
    if (round.schedule != nullptr) return lsched_wait(round, slice, why);
    const lsched_status code = lsched_run(one, slice, why);
    if (code == LSCHED_ERR_TIMEOUT && why->round != 0) round = {one, why->round};
    return code;
  });
}

void rebind(const schedule& of, const addresses& inputs, const addresses& outputs) {
  expect(lsched_rebind(of.get(), inputs_of(inputs), outputs_of(outputs)));
}

/// Rebinds one input and one output, starts a round, and waits at most slice_ns. Returns None if the round has ended.
/// Otherwise returns the ticket of the round, and the caller must wait for the round.
nb::object run_at(nb::handle_t<schedule> self, address input, address output, limit timeout) {
  const void* const from = at(input);
  void* const to = at(output);
  const schedule::lease of = nb::inst_ptr<schedule>(self)->get();
  expect(lsched_rebind(of, &from, &to));
  lsched_diagnostic why{.struct_size = sizeof why};
  const std::uint64_t slice = std::min(nanoseconds(timeout), slice_ns.load());
  const lsched_status code = unlocked([&] { return lsched_run(of, slice, &why); });
  if (code != LSCHED_ERR_TIMEOUT || why.round == 0) return expect(code, why), nb::none();
  ticket started;
  started.round = {of, why.round};
  started.of = nb::borrow(self);
  return nb::cast(std::move(started));
}

/// Rebinds one input and one output, and starts a round.
ticket start_at(nb::handle_t<schedule> self, address input, address output, nb::object keeps) {
  const void* const from = at(input);
  void* const to = at(output);
  const schedule& of = *nb::inst_ptr<schedule>(self);
  expect(lsched_rebind(of.get(), &from, &to));
  ticket made = start(self);
  made.keeps = std::move(keeps);
  return made;
}

/// Rebinds the schedule unless `is_bound` is true. Then starts a round that begins after the work in the stream.
ticket start_at_on_stream(nb::handle_t<schedule> self, address input, address output, bool is_bound, address stream,
                          nb::object keeps) {
  const void* const from = at(input);
  void* const to = at(output);
  const schedule& of = *nb::inst_ptr<schedule>(self);
  if (!is_bound) expect(lsched_rebind(of.get(), &from, &to));
  ticket made = start_behind(self, stream);
  made.keeps = std::move(keeps);
  return made;
}

void cancel(const schedule& of) {
  blocking([one = of.get()](lsched_diagnostic* why) { return lsched_cancel(one, why); });
}

/// Destroys the schedule. If lsched_schedule_destroy returns UNSUPPORTED or DEVICE, the library has freed the schedule
/// nevertheless, so the handle must not be used again.
void destroy(schedule& of, limit timeout) {
  std::optional<call_failure> freed;
  of.give_back([&](lsched_schedule* one) {
    try {
      wait(nanoseconds(timeout),
           [one](std::uint64_t slice, lsched_diagnostic* why) { return lsched_schedule_destroy(one, slice, why); });
    } catch (const call_failure& failed) {
      if (failed.why.status != LSCHED_ERR_UNSUPPORTED && failed.why.status != LSCHED_ERR_DEVICE) throw;
      freed = failed;
    }
  });
  if (freed) throw call_failure(*freed);
}

template <lsched_print_format Format>
std::string print(const schedule& of) {
  return printed([one = of.get()](char* to, std::size_t room, std::size_t* needed) {
    return lsched_schedule_print(one, Format, to, room, needed);
  });
}

std::vector<bool> non_finite_tensors(const schedule& of, std::uint64_t tensors) {
  std::vector<std::uint8_t> flags(tensors);
  expect(lsched_non_finite_tensors(of.get(), tensors, flags.data(), nullptr));
  return {flags.begin(), flags.end()};
}

address load(const world& in, const std::string& text, const addresses& inputs, const addresses& outputs) {
  lsched_schedule* made = nullptr;
  blocking([&, all = committing(in)](lsched_diagnostic* why) {
    return lsched_schedule_load(all, text.data(), text.size(), inputs_of(inputs), outputs_of(outputs), &made, why);
  });
  return adopted(made);
}

// --- rounds ------------------------------------------------------------------------------------------------------

void wait_for(const ticket& of, limit timeout) {
  wait(nanoseconds(timeout),
       [round = of.use()](std::uint64_t slice, lsched_diagnostic* why) { return lsched_wait(round, slice, why); });
}

bool test(const ticket& of) {
  const lsched_status code = lsched_test(of.use());
  expect(code);
  return code == LSCHED_OK;
}

void wait_on_stream(const ticket& of, nb::handle stream) {
  const address handle = handle_of(stream);
  const lsched_status code = unlocked([&, round = of.use()] { return lsched_wait_on_stream(round, at(handle)); });
  expect(code);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const ticket* const mine = nb::inst_ptr<ticket>(self);
  Py_VISIT(mine->of.ptr());  // not `keeps`, because no garbage collection may free the memory of a round
  return 0;
}

int clear(PyObject* self) {
  ticket* const mine = nb::inst_ptr<ticket>(self);
  mine->of.reset();
  return 0;
}

PyType_Slot ticket_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

}  // namespace

void add_schedules(nb::module_& module) {
  const auto forever = nb::arg("timeout") = nb::none();
  nb::class_<schedule>(module, "Schedule", nb::dynamic_attr(), nb::is_weak_referenceable())
      .def("__init__",
           [](schedule* made, address handle) { new (made) schedule(static_cast<lsched_schedule*>(at(handle))); })
      .def_prop_ro("is_open", &schedule::is_open)
      .def("_create_wait", create_wait)
      .def("start", start,
           "Starts the next round, and returns its Ticket. Does not block.\n\n"
           "The bound arrays belong to the schedule until the round has ended.\n"
           "Raises StateError while a round is outstanding.")
      .def("start_on_stream", start_on_stream, nb::arg("stream"),
           "Starts the next round after the work that is in a stream now, and returns its Ticket. Does not block.\n\n"
           "stream: a stream of the attached device, as an address (0: the legacy default stream), or any object with\n"
           "__cuda_stream__, .cuda_stream (torch) or .ptr (cupy). After that point of the stream, the bound arrays\n"
           "belong to the schedule until the round has ended. Raises Busy if 16 rounds are outstanding, StateError\n"
           "if no device is attached, ArgumentError for a stream of another device. Raises Unsupported for a partial\n"
           "schedule, for a schedule whose arrays come with each round, and for a stream that is being captured.")
      .def("_start_with", start_with)
      .def("run", run, forever,
           "Starts the next round and waits for its end, at most `timeout` seconds (None: forever).\n\n"
           "Other threads of Python run meanwhile, and Ctrl-C ends the wait. The round is then still outstanding, as\n"
           "after a Timeout: cancel() the schedule, or wait() for a ticket of an earlier start().")
      .def("_rebind", rebind)
      .def("_run_at", run_at)
      .def("_start_at", start_at, nb::arg(), nb::arg(), nb::arg().none())
      .def("_start_at_on_stream", start_at_on_stream, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def("cancel", cancel,
           "Gives the schedule up, on all ranks. Rounds that have ended stay ended, and every other call raises "
           "Cancelled.\n\n"
           "The arrays belong to the application again. Blocks for at most 0.1 s. Raises Busy if a peer still reads an "
           "array.")
      .def("_destroy", destroy)
      .def("_text", print<LSCHED_PRINT_TEXT>)
      .def("_dot", print<LSCHED_PRINT_DOT>)
      .def("_statistics", print<LSCHED_PRINT_STATS>)
      .def("_non_finite_tensors", non_finite_tensors);
  nb::class_<ticket>(module, "Ticket", nb::type_slots(ticket_slots), "A round that was started.")
      .def_prop_ro(
          "round", [](const ticket& of) { return of.round.round; }, "Number of the round, from 1.")
      .def_prop_ro(
          "schedule", [](const ticket& of) { return of.of; }, "The schedule that was started.")
      .def("wait", wait_for, forever,
           "Waits for the end of the round, at most `timeout` seconds (None: forever). Any thread, any number of "
           "times.\n\n"
           "Raises Timeout, which names the missing ranks and does not change the round.")
      .def("wait_on_stream", wait_on_stream, nb::arg("stream"),
           "Makes later work in a stream wait for the end of the round. `stream` is as in start_on_stream().\n\n"
           "Does not block, unless streams cannot wait (World.attach_cuda: host_waits) or too many streams wait. Then\n"
           "blocks until the round has ended, without a reaction to Ctrl-C. If the round fails, the stream continues "
           "with\n"
           "unspecified outputs, and test() raises the error. Raises the errors of start_on_stream().")
      .def("test", test, "Returns true if the round has ended. Does not block. Raises the error of a failed round.");
  module.def("load", load);
}

}  // namespace lsched::python
