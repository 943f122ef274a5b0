// Reserves the resources of an instance at commit, and frees them at its removal.
#include <algorithm>
#include <utility>

#include "libsched/analysis/shared_sources.h"
#include "libsched/engine/engine.h"
#include "libsched/schedule/round.h"
#include "ops/float_mode.h"

namespace lsched {
namespace {

/// Returns the reason why user-defined arithmetic cannot execute this op. Captures do not support user-defined
/// arithmetic, because only a commutative reduction can merge late offers.
std::optional<failure> validate_user(const op& o, op_id id, const user_kernel& user) {
  const auto refused = [id](std::string why) {
    return failure{status::argument, "op " + std::to_string(id) + " cannot combine data with a user_op, because " + why,
                   k_no_rank, id};
  };
  if (user.run == nullptr) return refused("the call passes no user_op: pass the user_op");
  if (o.kind == op_kind::capture)
    return refused("partial schedules do not support user_ops: choose a built-in reduction");
  const auto is_whole = [&](std::uint64_t elements) { return elements % user.unit == 0; };
  const bool is_aligned = is_whole(o.a.offset()) && is_whole(o.b.offset()) && is_whole(o.c.offset());
  const bool has_whole_count = is_whole(o.count);
  if (user.unit != 1 && !(is_aligned && has_whole_count))
    return refused("the regions of the op are not whole units of " + std::to_string(user.unit) + " elements");
  return std::nullopt;
}

}  // namespace

// --- commit and removal -------------------------------------------------------------------------------------------

result<instance*> engine::add(schedule_ptr program, const binding& memory, const instance_options& options,
                              instance_identity whose) {
  auto inst = std::make_unique<instance>();
  inst->program = std::move(program);
  inst->id = next_id_++;
  if (whose.members == nullptr) whose = {home_, inst->id};
  inst->members = whose.members;
  inst->number_on_record =
      std::uint64_t{whose.members->number()} << 32 | ((whose.number << 3 | whose.part) & 0xffffffff);
  const std::string& world = whose.members->name();
  inst->label = std::move(whose.label);
  if (inst->label.empty())
    inst->label = inst->program->name() + " #" + (world.empty() ? "" : world + ".") + std::to_string(whose.number);
  if (free_places_.empty()) {
    free_places_.push_back(static_cast<std::uint32_t>(instances_.size()));
    instances_.emplace_back();
  }
  closing_.reserve(instances_.size());
  timed_.reserve(instances_.size());
  inst->index = free_places_.back();
  if (auto why = reserve(*inst, memory, options)) {
    net_.detach(inst->id);
    release_memory(*inst);
    return *why;
  }
  free_places_.pop_back();
  ++live_;
  partial_ += inst->program->is_partial() ? 1u : 0u;
  if (inst->partial != nullptr && inst->partial->grace != k_no_op) timed_.push_back(inst.get());
  if (trace_ != nullptr) trace_->set_name(schedule_in_trace(inst->number_on_record), inst->label);
  return (instances_[inst->index] = std::move(inst)).get();
}

std::optional<failure> engine::reserve(instance& inst, const binding& memory, const instance_options& options) {
  const schedule& program = *inst.program;
  const std::size_t ops = program.ops().size();
  inst.counts.resize(ops);
  inst.completed.resize(ops);
  inst.ready.resize(ops);
  inst.links.resize(ops, k_no_link);
  inst.payloads.resize(ops);
  inst.pinned.resize(ops);
  for (op_id id = 0; id < ops; ++id)
    for (const op_id receive : {program.ops()[id].releases_a, program.ops()[id].releases_b})
      if (receive != k_no_op && program.ops()[id].kind == op_kind::compute)
        inst.payloads[receive] = {id, inst.payloads[receive].readers + 1};
  inst.cells.resize(program.buffers().size());
  inst.moved.resize(program.buffers().size());
  if (std::ranges::any_of(program.buffers(), &buffer::has_lists)) {
    if (auto why = list_state::validate(program, memory)) return why;
    inst.lists = std::make_unique<list_state>(program);
  }
  for (rank r = 0; r < program.place().size; ++r) inst.present.push_back(r);
  if (auto why = find_kernels(inst, options)) return why;
  if (auto why = reserve_device(inst)) return why;

  const std::vector<edge_spec> edges = edges_of(inst);
  auto links = net_.attach(inst.id, inst.members->homes(), !program.is_synchronising(), edges);
  if (!links) return links.error();
  inst.entered = net_.recorder().put_on_record(inst.id, inst.number_on_record, inst.label);
  for (std::size_t i = 0; i < edges.size(); ++i) inst.links[static_cast<op_id>(edges[i].cookie)] = (*links)[i];

  std::vector<bool> stays_in_place(program.buffers().size());
  for (const op& o : program.ops())
    if (o.kind == op_kind::recv && o.in_place && program.is_holding()) stays_in_place[o.c.buffer()] = true;
  for (std::size_t b = 0; b < inst.cells.size(); ++b) {
    const buffer& what = program.buffers()[b];
    const bool is_host = what.space == memory_space::host;
    if (what.role != buffer_role::scratch || (stays_in_place[b] && is_host)) continue;
    inst.cells[b].storage = is_host ? own(inst, what.bytes()) : own_on_device(inst, what.space, what.bytes());
    inst.cells[b].data = inst.cells[b].storage;  // a user's schedule may read the buffer before writing it
    inst.cells[b].exchangeable = true;
    if (inst.cells[b].storage == nullptr && !is_host && device_->health() != status::ok)
      return failure{status::device, device_->failure_words()};
    if (inst.cells[b].storage == nullptr)
      return failure{status::no_memory, "no memory left for scratch buffers: set a larger LSCHED_REGION"};
  }
  if (program.is_partial()) return reserve_partial(inst, options);
  set_binding(inst, memory);
  return std::nullopt;
}

std::byte* engine::own(instance& inst, std::uint64_t bytes) {
  std::byte* place = net_.memory().allocate(std::max<std::uint64_t>(bytes, 1));
  if (place != nullptr) inst.owned.push_back(place);
  return place;
}

compute_way engine::way_of(const instance& inst, const op& o) {
  const bool is_devices = is_on_device(o, inst.program->buffers());
  if (is_function(o.what)) return is_devices ? compute_way::device_function : compute_way::function;
  if (is_devices) return compute_way::device;
  return inst.lists != nullptr && inst.lists->concerns(o) ? compute_way::lists : compute_way::kernel;
}

std::optional<failure> engine::find_kernels(instance& inst, const instance_options& options) {
  inst.local = options.local;
  inst.user = options.user;
  if (inst.user.run != nullptr) has_cancellation_points_ = true;
  const auto ops = inst.program->ops();
  inst.kernels.resize(ops.size());
  for (op_id id = 0; id < ops.size(); ++id) {
    const op& o = ops[id];
    if (o.what == kernel::user)
      if (auto why = validate_user(o, id, options.user)) return why;
    if (o.kind == op_kind::signal_recv && !is_call(o, inst.program->place().self)) inst.signal_receives.push_back(id);
    if (o.kind != op_kind::compute) continue;
    if (is_function(o.what) && options.local == nullptr)
      return failure{
          status::argument,
          "op " + std::to_string(id) +
              " needs the functions of a sparse allreduce, which this schedule lacks: create the schedule with "
              "lsched_sparse_create, lsched_coo_allreduce_create or lsched_partial_create",
          k_no_rank, id};
    const kernel_row& row = row_of(o.what);
    inst.kernels[id] = {.run = find(o.what, o.type),
                        .with = &inst.program->parameters_of(o),
                        .way = way_of(inst, o),
                        .null = row.null,
                        .is_elementwise = row.is(trait::elementwise),
                        .target_bytes = static_cast<std::uint8_t>(size_of(row.c.type_in(o.type)))};
  }
  return std::nullopt;
}

std::vector<edge_spec> engine::edges_of(const instance& inst) const {
  const schedule& program = *inst.program;
  const std::vector<std::uint32_t> sources = shared_sources(program);
  std::vector<edge_spec> edges;
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& o = program.ops()[id];
    if (!has_edge(o, program.place().self)) continue;
    edge_spec edge{.outgoing = is_outgoing(o.kind),
                   .signal = is_signal(o.kind),
                   .source = sources[id],
                   .peer = inst.members->home_of(o.peer),
                   .tag = o.tag,
                   .cookie = cookie_of(inst, id)};
    if (!edge.signal) edge.capacity = most_bytes(program, o);
    if (o.kind == op_kind::recv) edge.in_place = o.in_place;
    if (o.kind == op_kind::send) {
      const buffer& source = program.buffers()[o.a.buffer()];
      const bool is_staging = source.space == memory_space::staging;  // memory of the transport or device
      edge.foreign = !program.is_partial() && (source.role != buffer_role::scratch || is_staging);
      edge.grows = edge.foreign && (source.has_lists() || is_staging);
    }
    edges.push_back(edge);
  }
  find_device_readers(inst, edges);
  return edges;
}

void engine::set_binding(instance& inst, const binding& memory) {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  for (std::size_t b = 0; b < inst.cells.size(); ++b) {
    const buffer_role role = inst.program->buffers()[b].role;
    if (role == buffer_role::input) inst.cells[b].data = memory.inputs.at(inputs++);
    if (role == buffer_role::output) inst.cells[b].data = inst.cells[b].storage = memory.outputs.at(outputs++);
  }
  if (inst.lists != nullptr) inst.lists->bind(memory);
}

status engine::link(instance& inst, std::span<const member_address> all) {
  const status answer = net_.link(inst.id, all);
  if (answer != status::ok) return answer;
  inst.is_linked = true;
  expose_sources(inst);
  return answer;
}

void engine::open(instance& inst) {
  const default_float_mode here;
  inst.has_settled = true;
  if (inst.partial != nullptr && inst.partial->predecessor != nullptr)
    take_over(inst, *std::exchange(inst.partial->predecessor, nullptr));
  if (inst.phase == phase::failed) return net_.abandon(inst.id);  // a rank has already cancelled the instance
  inst.phase = phase::idle;
  if (inst.program->is_partial()) begin_round(inst);
  look(inst);
  advance(inst);
  net_.flush();
}

void engine::refuse(instance& inst, const failure& why) {
  inst.has_settled = true;
  if (inst.phase == phase::failed) return;
  inst.refusal = why;
  fail(inst, why.code, why.peer);
}

status engine::bind(instance& inst, const binding& memory) {
  if (inst.program->is_partial()) return status::unsupported;
  if (const status failed = inst.verdict.load(); failed != status::ok) return failed;
  const bool may_wait = inst.phase == phase::idle || inst.phase == phase::committing;
  if (!may_wait || inst.called.load() != inst.finished.load()) return status::state;
  if (list_state::validate(*inst.program, memory)) return status::argument;
  set_binding(inst, memory);
  expose_sources(inst);
  if (inst.local != nullptr) inst.local->rebound();
  return status::ok;
}

status engine::remove(instance& inst) {
  const bool quiet = inst.phase == phase::closed || inst.phase == phase::failed ||
                     (inst.phase == phase::idle && inst.called.load() == inst.finished.load());
  if (!quiet || (inst.jobs != 0 && !has_left_jobs(inst)) || inst.posted.load()) return status::busy;
  if (!inst.has_settled || inst.jobs != 0) {
    inst.is_orphan = true;
    // An instance that is removed before its commit settles (orphan) takes over no state, even if the commit succeeds
    // later.
    if (inst.partial != nullptr) inst.partial->predecessor = nullptr;
    return status::ok;
  }
  rank reader = k_no_rank;
  const status readers = inst.phase == phase::failed ? check_readers(inst, &reader) : status::ok;
  if (readers == status::pending) return status::busy;
  if (readers == status::unsupported) {  // the memory is leaked, because the transport may still write to it
    inst.owned.clear();
    if (inst.device != nullptr) inst.device->owned.clear(), inst.device->exposed.clear();
  }
  net_.detach(inst.id);
  release_memory(inst);
  partial_ -= inst.program->is_partial() ? 1u : 0u;
  std::erase(gated_, &inst);
  std::erase(timed_, &inst);
  std::erase(closing_, &inst);
  free_places_.push_back(inst.index);
  instances_[inst.index].reset();
  --live_;
  return status::ok;
}

std::uint64_t engine::add_sink(message_sink& more) {
  auto place = std::ranges::find(sinks_, nullptr);
  if (place == sinks_.end()) place = sinks_.insert(place, nullptr);
  *place = &more;
  closing_sinks_.reserve(sinks_.size());
  return k_sink_cookie | static_cast<std::uint64_t>(place - sinks_.begin()) << 32;
}

void engine::drop_sink(const message_sink& gone) {
  for (message_sink*& one : sinks_)
    if (one == &gone) one = nullptr;
  std::erase_if(closing_sinks_, [&gone](const closing_sink& one) { return one.sink == &gone; });
}

void engine::release_memory(instance& inst) {
  for (std::byte* place : inst.owned) net_.memory().deallocate(place);
  inst.owned.clear();
  release_device(inst);
}

}  // namespace lsched
