// What the engine reserves for an instance at commit, and gives back at its removal.
#include <algorithm>

#include "libsched/analysis/shared_sources.h"
#include "libsched/engine/engine.h"

namespace lsched {
namespace {

/// Why the application's arithmetic cannot do this op. Late offers cannot be merged by it, since it need not commute.
std::optional<failure> validate_user(const op& what, op_id id, const user_kernel& user) {
  const auto refused = [id](std::string why) {
    return failure{status::argument, "op " + std::to_string(id) + " asks for user-defined arithmetic" + why, k_no_rank,
                   id};
  };
  if (user.run == nullptr) return refused(", but there is none");
  if (what.kind == op_kind::capture) return refused(", and partial schedules have none");
  const auto is_whole = [&](std::uint64_t elements) { return elements % user.unit == 0; };
  const bool is_aligned = is_whole(what.a.offset()) && is_whole(what.b.offset()) && is_whole(what.c.offset());
  const bool has_whole_count = is_whole(what.count);
  if (user.unit != 1 && !(is_aligned && has_whole_count))
    return refused(" on other than whole units of " + std::to_string(user.unit) + " elements");
  return std::nullopt;
}

}  // namespace

// --- commit and removal -------------------------------------------------------------------------------------------

result<instance*> engine::add(schedule_ptr program, const binding& memory, const instance_options& options) {
  auto it = std::make_unique<instance>();
  it->program = std::move(program);
  it->id = next_id_++;
  it->label = it->program->name() + " #" + std::to_string(it->id);
  const auto hole = std::find(instances_.begin(), instances_.end(), nullptr);
  it->index = static_cast<std::uint32_t>(hole - instances_.begin());
  if (auto why = reserve(*it, memory, options)) {
    net_.detach(it->id);
    release_memory(*it);
    return *why;
  }
  if (hole == instances_.end()) instances_.emplace_back();
  ++live_;
  if (trace_ != nullptr) trace_->set_name(it->id, it->label);
  return (instances_[it->index] = std::move(it)).get();
}

std::optional<failure> engine::reserve(instance& it, const binding& memory, const instance_options& options) {
  const schedule& program = *it.program;
  const std::size_t ops = program.ops().size();
  it.counts.resize(ops);
  it.completed.resize(ops);
  it.ready.resize(ops);
  it.links.resize(ops, k_no_link);
  it.payloads.resize(ops);
  it.held.resize(ops);
  for (op_id id = 0; id < ops; ++id)
    for (const op_id receive : {program.ops()[id].releases_a, program.ops()[id].releases_b})
      if (receive != k_no_op) it.payloads[receive] = {id, it.payloads[receive].readers + 1};
  it.cells.resize(program.buffers().size());
  it.moved.resize(program.buffers().size());
  if (auto why = reserve_lists(it, memory)) return why;
  for (rank r = 0; r < program.place().size; ++r) it.present.push_back(r);
  if (auto why = find_kernels(it, options)) return why;

  const std::vector<edge_spec> edges = edges_of(it);
  auto links = net_.attach(it.id, !program.is_synchronising(), edges);
  if (!links) return links.error();
  for (std::size_t i = 0; i < edges.size(); ++i) it.links[static_cast<op_id>(edges[i].cookie)] = (*links)[i];

  std::vector<bool> stays_in_place(program.buffers().size());
  for (const op& what : program.ops())
    if (what.kind == op_kind::recv && what.in_place && net_.receives_in_place() && program.is_holding())
      stays_in_place[what.c.buffer()] = true;
  for (std::size_t b = 0; b < it.cells.size(); ++b) {
    if (program.buffers()[b].role != buffer_role::scratch || stays_in_place[b]) continue;
    it.cells[b].home = own(it, program.buffers()[b].bytes());
    it.cells[b].data = it.cells[b].home;  // a schedule by hand may read what was never written
    it.cells[b].exchangeable = true;
    if (it.cells[b].home == nullptr) return failure{status::no_memory, "no memory left for scratch buffers"};
  }
  if (program.is_partial()) return reserve_partial(it, options);
  set_binding(it, memory);
  return std::nullopt;
}

std::byte* engine::own(instance& it, std::uint64_t bytes) {
  std::byte* place = net_.allocate(std::max<std::uint64_t>(bytes, 1));
  if (place != nullptr) it.owned.push_back(place);
  return place;
}

std::optional<failure> engine::find_kernels(instance& it, const instance_options& options) {
  it.local = options.local;
  it.user = options.user;
  const auto ops = it.program->ops();
  it.kernels.resize(ops.size());
  for (op_id id = 0; id < ops.size(); ++id) {
    const op& what = ops[id];
    if (what.what == kernel::user)
      if (auto why = validate_user(what, id, options.user)) return why;
    if (what.kind == op_kind::signal_recv && what.peer != it.program->place().self) it.signal_receives.push_back(id);
    if (what.kind != op_kind::compute) continue;
    if (is_function(what.what) && options.local == nullptr)
      return failure{status::argument, "op " + std::to_string(id) + " calls a function, but there are none", k_no_rank,
                     id};
    const kernel_row& row = row_of(what.what);
    it.kernels[id] = {.run = find(what.what, what.type, it.program->buffers()[what.c.buffer()].space),
                      .with = &it.program->parameters_of(what),
                      .way = is_function(what.what)                          ? compute_way::function
                             : !it.lists.empty() && is_about_lists(it, what) ? compute_way::lists
                                                                             : compute_way::kernel,
                      .null = row.null,
                      .is_elementwise = row.is(trait::elementwise) && what.what != kernel::user,
                      .target_bytes = static_cast<std::uint8_t>(size_of(row.c.type_in(what.type)))};
  }
  return std::nullopt;
}

std::vector<edge_spec> engine::edges_of(const instance& it) const {
  const schedule& program = *it.program;
  const std::vector<std::uint32_t> sources = shared_sources(program);
  std::vector<edge_spec> edges;
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& what = program.ops()[id];
    if (!is_communication(what.kind) || what.peer == program.place().self) continue;
    edge_spec edge{.outgoing = what.kind == op_kind::send || what.kind == op_kind::signal_send,
                   .signal = is_signal(what.kind),
                   .source = sources[id],
                   .peer = what.peer,
                   .tag = what.tag,
                   .cookie = cookie_of(it, id)};
    if (!edge.signal) edge.capacity = most_bytes(program, what);
    if (what.kind == op_kind::recv) edge.in_place = what.in_place && net_.receives_in_place();
    if (what.kind == op_kind::send)
      edge.foreign = !program.is_partial() && program.buffers()[what.a.buffer()].role != buffer_role::scratch;
    edges.push_back(edge);
  }
  return edges;
}

void engine::set_binding(instance& it, const binding& memory) {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  for (std::size_t b = 0; b < it.cells.size(); ++b) {
    const buffer_role role = it.program->buffers()[b].role;
    if (role == buffer_role::input) it.cells[b].data = memory.inputs.at(inputs++);
    if (role == buffer_role::output) it.cells[b].data = it.cells[b].home = memory.outputs.at(outputs++);
  }
  bind_lengths(it, memory);
}

status engine::open(instance& it) {
  if (const status answer = net_.link(it.id); answer != status::ok) return answer;
  if (it.program->is_partial()) begin_round(it);
  advance(it);
  net_.flush();
  return status::ok;
}

status engine::bind(instance& it, const binding& memory) {
  if (it.program->is_partial()) return status::unsupported;
  if (it.phase != phase::idle || it.called.load() != it.finished.load()) return status::state;
  if (validate_lengths(*it.program, memory)) return status::argument;
  set_binding(it, memory);
  if (it.local != nullptr) it.local->rebound();
  return status::ok;
}

status engine::remove(instance& it) {
  const bool quiet = it.phase == phase::closed || it.phase == phase::failed ||
                     (it.phase == phase::idle && it.called.load() == it.finished.load());
  if (!quiet || it.jobs != 0 || it.posted.load()) return status::busy;
  net_.detach(it.id);
  release_memory(it);
  instances_[it.index].reset();
  --live_;
  return status::ok;
}

void engine::release_memory(instance& it) {
  for (std::byte* place : it.owned) net_.deallocate(place);
  it.owned.clear();
}

}  // namespace lsched
