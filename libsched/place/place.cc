#include "libsched/place/place.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "libsched/schedule/builder.h"

namespace lsched {
namespace {

failure unsupported(const std::string& what) {
  return {status::unsupported, what + " in device memory: pass host memory"};
}

// --- memory spaces of buffers ----------------------------------------------------------------------------------------

class space_choice {
 public:
  space_choice(const schedule& program, const caller_spaces& where)
      : program_(program),
        most_read_there_(where.reads_peers && !program.is_holding() ? k_least_shown - 1 : k_most_read_from_staging) {
    std::size_t inputs = 0, outputs = 0;
    for (const buffer& each : program.buffers()) {
      buffers_.push_back(each);
      if (each.role == buffer_role::input) buffers_.back().space = where.inputs.at(inputs++);
      if (each.role == buffer_role::output) buffers_.back().space = where.outputs.at(outputs++);
    }
    find_landings();
  }

  std::vector<buffer> run() {
    while (spread()) continue;
    for (const op& o : program_.ops())
      if (is_on_device(o, buffers_) && !is_function(o.what)) stage_scratch_of(o);
    return std::move(buffers_);
  }

 private:
  bool is_scratch(region part) const { return buffers_[part.buffer()].role == buffer_role::scratch; }

  /// Marks the buffers that are written only by receives of short messages, and buffers that are never written. If the
  /// device only reads a marked buffer, the buffer stays in staging memory.
  void find_landings() {
    is_landing_.assign(buffers_.size(), true);
    for (const op& o : program_.ops())
      for (const operand& part : operands_of(o, program_.buffers()))
        if (part.is_written && (o.kind != op_kind::recv || most_bytes(program_, o) > most_read_there_))
          is_landing_[part.at.buffer()] = false;
  }

  static bool is_arithmetic(const op& o) {
    return o.kind == op_kind::compute && o.what != kernel::copy && !is_function(o.what);
  }

  /// For each arithmetic op with an operand in device memory, moves the op's scratch operands to device memory, too.
  /// Two kinds of operands are not moved: the dot products of an adaptive sum, and marked buffers that the op only
  /// reads (find_landings). Copies and functions are skipped, because their operands may be in different memory spaces.
  /// Returns false if nothing has changed.
  bool spread() {
    bool has_changed = false;
    for (const op& o : program_.ops()) {
      if (!is_arithmetic(o) || !is_on_device(o, buffers_)) continue;
      for (const operand& part : operands_of(o, program_.buffers())) {
        buffer& under = buffers_[part.at.buffer()];
        const bool stays = part.is_sums || (is_landing_[part.at.buffer()] && !part.is_written);
        if (stays || !is_scratch(part.at) || under.space == memory_space::device) continue;
        under.space = memory_space::device;
        has_changed = true;
      }
    }
    return has_changed;
  }

  void stage_scratch_of(const op& o) {
    for (const operand& part : operands_of(o, program_.buffers()))
      if (buffer& under = buffers_[part.at.buffer()]; is_scratch(part.at) && under.space == memory_space::host)
        under.space = memory_space::staging;
  }

  const schedule& program_;
  const std::uint64_t most_read_there_;
  std::vector<buffer> buffers_;
  std::vector<bool> is_landing_;  ///< by buffer: true if find_landings() has marked the buffer
};

// --- the placed schedule, with copies --------------------------------------------------------------------------------

/// A chain of ops that replaces one op of the program. `first` gets the deps of the replaced op. Ops that depended on
/// the replaced op depend on `last`.
struct chain {
  op_id first = k_no_op;
  op_id last = k_no_op;
};

class placer {
 public:
  placer(const schedule& program, const caller_spaces& where)
      : program_(program), made_(program.place(), program.name()), buffers_(space_choice(program, where).run()) {}

  result<schedule_ptr> run() {
    for (const op& o : program_.ops())
      if (o.kind == op_kind::compute && !row_of(o.what).is(trait::on_devices) && is_on_device(o, buffers_))
        return unsupported(o.what == kernel::user ? "user-defined arithmetic cannot run"
                                                  : std::string(name_of(o.what)) + " cannot run");
    for (const buffer& each : buffers_) declare(each);
    reserve_outgoing();
    for (op_id id = 0; id < program_.ops().size(); ++id) chains_.push_back(write(program_.ops()[id]));
    for (op_id id = 0; id < program_.ops().size(); ++id)
      for (const op_id next : program_.successors(id)) made_.dep(chains_[id].last, chains_[next].first);
    for (op_id id = 0; id < program_.ops().size(); ++id)
      if (program_.ops()[id].need != 0) made_.set_need(chains_[id].first, program_.ops()[id].need);
    made_.set_exit(chains_[program_.exit()].last);
    if (program_.is_synchronising()) made_.declare_synchronising();
    if (program_.is_holding()) made_.declare_holding();
    return made_.compile();
  }

 private:
  static constexpr std::size_t k_types = k_all_dtypes.size() + k_all_items.size();

  memory_space space_of(region part) const { return buffers_[part.buffer()].space; }

  void declare(const buffer& each) {
    if (each.has_lists())
      made_.lists(each.role, each.type, each.count, each.lists);
    else
      made_.declare(each.role, each.type, each.count, each.space);
  }

  /// Declares a staging buffer for each dtype. Messages from device memory are copied to these buffers and then sent.
  void reserve_outgoing() {
    std::array<std::optional<std::uint64_t>, k_types> elements{};
    for (const op& o : program_.ops())
      if (o.kind == op_kind::send && space_of(o.a) == memory_space::device) {
        std::optional<std::uint64_t>& so_far = elements[static_cast<std::size_t>(o.type)];
        so_far = so_far.value_or(0) + o.count;
      }
    for (std::size_t i = 0; i < k_types; ++i)
      if (elements[i]) outgoing_[i] = staging_place(static_cast<dtype>(i), *elements[i]);
  }

  /// Returns the next free region of the staging buffer for the dtype of `o`.
  region outgoing_place(const op& o) {
    region& next = outgoing_[static_cast<std::size_t>(o.type)];
    return std::exchange(next, region{next.buffer(), next.offset() + o.count});
  }

  region staging_place(dtype type, std::uint64_t count) {
    return {made_.declare(buffer_role::scratch, type, count, memory_space::staging), 0};
  }

  // --- ops -----------------------------------------------------------------------------------------------------------

  op_id append(const op& o) {
    const auto id = append_bare(o);
    if (o.guard != 0) made_.set_guard(id, *program_.guard_of(o));
    return id;
  }

  op_id append_bare(const op& o) {
    switch (o.kind) {
      case op_kind::nop: return made_.nop();
      case op_kind::send: return made_.send(o.peer, o.tag, o.a, o.count);
      case op_kind::recv: return made_.recv(o.peer, o.tag, o.c, o.count);
      case op_kind::signal_send: return made_.signal_send(o.peer, o.tag);
      case op_kind::signal_recv: return made_.signal_recv(o.peer, o.tag);
      case op_kind::capture: return made_.capture(o.what, o.c, o.count);
      case op_kind::compute: break;
    }
    return made_.compute(o.what, {.a = o.a, .b = o.b, .s = o.s, .c = o.c}, o.count, program_.parameters_of(o));
  }

  /// Appends a copy to a chain, with the guard of the op `whose`.
  void copy(chain& so_far, const op& whose, region from, region to, std::uint64_t count) {
    const op_id id = made_.copy(from, to, count);
    if (whose.guard != 0) made_.set_guard(id, *program_.guard_of(whose));
    link(so_far, id);
  }

  void link(chain& so_far, op_id id) {
    if (so_far.first == k_no_op) so_far.first = id;
    made_.dep(so_far.last, id);
    so_far.last = id;
  }

  chain write(const op& o) {
    if (o.kind == op_kind::send && space_of(o.a) == memory_space::device) return write_send(o);
    if (o.kind == op_kind::recv && space_of(o.c) == memory_space::device) return write_receive(o);
    if (o.kind == op_kind::compute && !is_function(o.what) && is_on_device(o, buffers_)) return write_compute(o);
    const op_id id = append(o);
    return {id, id};
  }

  chain write_send(op o) {
    chain made;
    const region from = std::exchange(o.a, outgoing_place(o));
    copy(made, o, from, o.a, o.count);
    link(made, append(o));
    return made;
  }

  chain write_receive(op o) {
    chain made;
    const region to = std::exchange(o.c, staging_place(o.type, o.count));
    link(made, append(o));
    copy(made, o, o.c, to, o.count);
    return made;
  }

  /// Appends a compute op that runs on the device. The device cannot access pageable host memory. So operands in host
  /// memory are first copied to staging memory, and a result for host memory is copied from staging memory. The dot
  /// products that an adaptive sum reads (operand s) stay in host memory, because the host reads them.
  chain write_compute(op o) {
    chain made;
    std::optional<operand> result;
    for (const operand& part : operands_of(o, program_.buffers())) {
      if (space_of(part.at) != memory_space::host || (part.is_sums && !part.is_written)) continue;
      o.*part.which = staging_place(part.type, part.count);
      if (part.is_written)
        result = part;
      else
        copy(made, o, part.at, o.*part.which, part.count);
    }
    link(made, append(o));
    if (result) copy(made, o, o.*result->which, result->at, result->count);
    return made;
  }

  const schedule& program_;
  builder made_;
  std::vector<buffer> buffers_;             ///< buffers of the program, with the chosen memory spaces
  std::array<region, k_types> outgoing_{};  ///< by dtype: next free region for outgoing messages
  std::vector<chain> chains_;               ///< by op of the program: the chain that replaces the op
};

// --- schedules that cannot be placed ---------------------------------------------------------------------------------

bool is_elsewhere(const buffer& each) { return each.space != memory_space::host; }

/// Returns true if the inputs and outputs of a placed schedule are in the memory spaces given by `where`.
bool fits(const schedule& program, const caller_spaces& where) {
  std::size_t inputs = 0, outputs = 0;
  return std::ranges::all_of(program.buffers(), [&](const buffer& each) {
    if (each.role == buffer_role::input) return each.space == where.inputs.at(inputs++);
    return each.role != buffer_role::output || each.space == where.outputs.at(outputs++);
  });
}

/// Returns a failure if the schedule cannot be placed. Inputs and outputs must not be lists, because lists stay in host
/// memory. A function may use lists together with buffers in device memory.
std::optional<failure> find_unsupported(const schedule& program, const caller_spaces& where) {
  if (program.is_partial()) return unsupported("a partial schedule cannot have buffers");
  const auto has_callers_lists = [](const buffer& each) {
    return each.has_lists() && each.role != buffer_role::scratch;
  };
  if (std::ranges::any_of(program.buffers(), has_callers_lists)) return unsupported("lists cannot be");
  if (std::ranges::none_of(program.ops(), [](const op& o) { return is_function(o.what); })) return std::nullopt;
  const auto is_host = [](memory_space space) { return space == memory_space::host; };
  if (std::ranges::any_of(where.inputs, is_host) || std::ranges::any_of(where.outputs, is_host))
    return unsupported("the operands of a sparse allreduce cannot be only partly");
  if (!where.has_device_functions) return unsupported("this sparse allreduce cannot use buffers");
  return std::nullopt;
}

}  // namespace

result<schedule_ptr> placed(schedule_ptr program, const caller_spaces& where) {
  if (std::ranges::any_of(program->buffers(), is_elsewhere)) {
    if (fits(*program, where)) return program;
    return failure{
        status::argument,
        "the schedule declares a buffer in host memory, but the call passes device memory for that buffer, or "
        "the reverse: pass memory as lsched_schedule_print shows the buffers"};
  }
  const auto is_device = [](memory_space space) { return space == memory_space::device; };
  if (std::ranges::none_of(where.inputs, is_device) && std::ranges::none_of(where.outputs, is_device)) return program;
  if (auto why = find_unsupported(*program, where)) return *why;
  return placer(*program, where).run();
}

}  // namespace lsched
