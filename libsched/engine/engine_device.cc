// Runs the ops that a device executes.
#include <algorithm>
#include <string>

#include "libsched/engine/engine.h"
#include "libsched/place/place.h"
#include "libsched/transport/no_cancellation.h"

namespace lsched {
namespace {

/// Returns the length of the longest operand, over all ops that the device executes.
std::uint64_t most_device_elements(const schedule& program) {
  std::uint64_t most = 0;
  for (const op& o : program.ops())
    if (is_on_device(o, program.buffers()))
      for (const operand& part : operands_of(o, program.buffers())) most = std::max(most, part.count);
  return most;
}

bool is_elsewhere(const buffer& what) { return what.space != memory_space::host; }

}  // namespace

// --- commit and removal --------------------------------------------------------------------------------------------

std::optional<failure> engine::reserve_device(instance& inst) {
  const schedule& program = *inst.program;
  if (std::ranges::none_of(program.buffers(), is_elsewhere)) return std::nullopt;
  if (device_ == nullptr)
    return failure{status::unsupported,
                   "the schedule is for device memory, but this rank has no device: call lsched_cuda_attach first"};
  if (device_->health() != status::ok) return failure{status::device, device_->failure_words()};
  const auto jobs = static_cast<std::uint32_t>(
      std::ranges::count_if(program.ops(), [&](const op& o) { return is_on_device(o, program.buffers()); }));
  if (const status answer = device_->reserve(jobs, most_device_elements(program)); answer != status::ok)
    return failure{answer,
                   answer == status::device
                       ? device_->failure_words()
                       : "out of host memory for the " + std::to_string(jobs) +
                             " device jobs of the schedule: wait for outstanding rounds, or destroy other schedules"};
  inst.device = std::make_unique<device_state>();
  inst.device->most_jobs = jobs;
  const auto leaves_to_device = [](const bound_kernel& one) { return one.way == compute_way::device_function; };
  return std::ranges::any_of(inst.kernels, leaves_to_device) ? give_functions_memory(inst) : std::nullopt;
}

std::optional<failure> engine::give_functions_memory(instance& inst) {
  const function_memory wanted = inst.local->memory_on_device();
  std::byte* const on_device = own_on_device(inst, memory_space::device, wanted.device_bytes);
  std::byte* const staging = own_on_device(inst, memory_space::staging, wanted.staging_bytes);
  if (on_device == nullptr || staging == nullptr)
    return failure{status::no_memory, "no device memory left for the data of a sparse allreduce: free device memory"};
  const status copied = device_->copy_at_once(on_device, wanted.contents, wanted.device_bytes);
  if (copied != status::ok)
    return failure{copied,
                   copied == status::device ? device_->failure_words() : "out of memory for a copy to the device"};
  inst.local->use_device(on_device, staging);
  return std::nullopt;
}

std::byte* engine::own_on_device(instance& inst, memory_space space, std::uint64_t bytes) {
  std::byte* const place = device_->memory().allocate(space, std::max<std::uint64_t>(bytes, 1));
  if (place != nullptr) inst.device->owned.push_back(place);
  return place;
}

void engine::release_device(instance& inst) {
  if (inst.device == nullptr) return;
  device_state& mine = *inst.device;
  for (std::byte* place : std::exchange(mine.owned, {})) device_->memory().deallocate(place);
  for (const std::uint64_t where : std::exchange(mine.exposed, {}))
    if (where != 0) device_->memory().peers()->hide(where);
  mine.found.clear();
  if (mine.most_jobs == 0) return;
  if (device_peers* const peers = device_->memory().peers()) peers->forget_gone();
  device_->unreserve(std::exchange(mine.most_jobs, 0));
}

// --- rounds --------------------------------------------------------------------------------------------------------

// The dot products of adaptive sums are in staging or other host memory, whether an op reads them (operand s) or the
// device computes them.
outcome engine::compute_on_device(instance& inst, op_id id, const op& o) {
  if (!inst.device->is_left_out.empty() && inst.device->is_left_out[id]) return outcome::done;
  const bound_kernel& mine = inst.kernels[id];
  const auto operand = [&](region part, std::size_t width) {
    return part.exists() ? inst.cells[part.buffer()].data + part.offset() * width : nullptr;
  };
  const std::size_t width = size_of(o.type);
  const kernel_call call{.a = operand(o.a, width),
                         .b = operand(o.b, width),
                         .s = operand(o.s, sizeof(double)),
                         .c = inst.cells[o.c.buffer()].storage + o.c.offset() * mine.target_bytes,
                         .count = o.count,
                         .with = mine.with};
  return submit_to_device(inst, {.what = o.what, .type = o.type, .call = call, .cookie = cookie_of(inst, id)});
}

outcome engine::submit_to_device(instance& inst, const device_job& job) {
  device_->submit(job);
  ++counters_.device_jobs;
  ++inst.jobs, ++jobs_, ++device_jobs_;
  is_armed_ = false;
  return outcome::pending;
}

// An armed job or gate rings the doorbell only once. So the owner arms the doorbell again before each sleep.
void engine::arm_device() {
  if (is_armed_ || !has_device_work()) return;
  const no_cancellation during_calls;
  is_armed_ = device_jobs_ == 0 || device_->arm();
  for (instance* const one : gated_)
    if (waits_at_gate(*one) && !one->device->gate->arm(one->round + 1)) is_armed_ = false;
}

// If the device has failed, all instances that use the device must fail before their jobs are reported.
std::size_t engine::poll_device(std::span<std::uint64_t> ended) {
  const std::size_t count = device_->poll(ended);
  device_jobs_ -= count;
  if (count != 0) is_armed_ = false;
  if (device_->health() == status::ok) return count;
  for (const auto& inst : instances_)
    if (inst != nullptr && uses_device(*inst) && inst->phase != phase::closed) fail(*inst, status::device, k_no_rank);
  return count;
}

// Returns true if the device has to read a payload in memory of the transport or of a peer, but cannot access this
// memory.
bool engine::is_out_of_reach(const instance& inst, const op& receive, const arrival& news) const {
  if (inst.program->buffers()[receive.c.buffer()].space != memory_space::staging) return false;
  return !device_->memory().reaches(news.data, news.bytes);
}

// --- device memory that peers read directly ------------------------------------------------------------------------

bool engine::reads_device_memory_of(std::span<const rank> homes) const {
  device_peers* const peers = device_ == nullptr ? nullptr : device_->memory().peers();
  return peers != nullptr &&
         std::ranges::any_of(homes, [&](rank home) { return home != net_.place().self && peers->reads(home); });
}

// Marks the incoming edges whose payload this rank may read in the sender's device memory. Such a payload is not
// copied. So its reader must fire as soon as the payload arrives, unless the schedule declares that payloads may stay
// (builder::declare_holding).
void engine::find_device_readers(const instance& inst, std::span<edge_spec> edges) const {
  device_peers* const peers = uses_device(inst) ? device_->memory().peers() : nullptr;
  if (peers == nullptr) return;
  const auto ops = inst.program->ops();
  std::vector<bool> is_read_by_host(ops.size());
  for (const op& o : ops)
    for (const op_id receive : {o.releases_a, o.releases_b})
      if (o.kind == op_kind::compute && receive != k_no_op && !is_on_device(o, inst.program->buffers()))
        is_read_by_host[receive] = true;
  for (edge_spec& edge : edges) {
    const auto receive = static_cast<op_id>(edge.cookie);
    if (edge.outgoing || !edge.in_place || is_read_by_host[receive]) continue;
    const auto [reader, readers] = inst.payloads[receive];
    const bool fires_at_once = inst.program->is_holding() || (readers == 1 && ops[reader].need == 1);
    const bool is_staged = inst.program->buffers()[ops[receive].c.buffer()].space == memory_space::staging;
    edge.reads_device = is_staged && fires_at_once && peers->reads(edge.peer);
  }
}

// Exposes the bound device memory that peers can read. Memory that was already exposed stays exposed during this call.
// check_hazards (libsched/verify) counts the send as a reader of the exposed memory. So no op overwrites the memory too
// early.
void engine::expose_sources(instance& inst) {
  device_peers* const peers = uses_device(inst) && inst.is_linked ? device_->memory().peers() : nullptr;
  if (peers == nullptr) return;
  device_state& mine = *inst.device;
  const auto ops = inst.program->ops();
  mine.exposed.resize(ops.size());
  mine.found.resize(ops.size());
  mine.is_left_out.assign(ops.size(), false);
  for (op_id id = 0; id < ops.size(); ++id) {
    const std::uint64_t before = std::exchange(mine.exposed[id], expose_source(inst, id));
    if (before != 0) peers->hide(before);
    if (mine.exposed[id] != 0) mine.is_left_out[ops[id].releases_a] = true;
  }
}

/// Exposes the device memory that contains the payload of a send, so that the copy to staging memory can be skipped.
/// Returns the location by which peers find the memory, or 0 if the payload must be copied.
std::uint64_t engine::expose_source(const instance& inst, op_id id) const {
  const op& o = inst.program->ops()[id];
  const std::uint64_t bytes = o.count * size_of(o.type);
  if (o.kind != op_kind::send || o.releases_a == k_no_op || bytes < k_least_shown) return 0;
  if (!net_.areas().reads_device(inst.links[id])) return 0;
  const region from = inst.program->ops()[o.releases_a].a;
  return device_->memory().peers()->expose(inst.cells[from.buffer()].data + from.offset() * size_of(o.type), bytes);
}

// Maps a payload in the sender's device memory. If the mapping fails because the peer has just died, the instance fails
// with PEER, as on all other ranks. If the mapping fails for another reason, the instance fails with DEVICE, and the
// other ranks are notified.
outcome engine::map_exposed(instance& inst, op_id id, const op& o, const arrival& news) {
  const rank home = inst.members->home_of(o.peer);
  device_peers* const peers = uses_device(inst) ? device_->memory().peers() : nullptr;
  if (peers == nullptr || inst.pinned[id] == 0) return fail(inst, status::transport, o.peer), outcome::failed;
  auto& found = inst.device->found[id];
  found = peers->find_exposed(home, news.shown, news.bytes);  // the previous mapping is not used any more
  inst.cells[o.c.buffer()].data = found.get();
  if (found != nullptr) return outcome::done;
  if (net_.recorder().state_of(home) == rank_state::ending) return fail(inst, status::peer, o.peer), outcome::failed;
  inst.device->failure_words = "device memory of rank " + std::to_string(o.peer) + " cannot be read: ";
  fail(inst, status::device, o.peer);
  return outcome::failed;
}

// --- rounds in the order of streams --------------------------------------------------------------------------------

// Adds a gate, and releases the rounds that have already ended. Every operation that may throw comes before the
// assignment of the gate, because the engine uses the gate from then on.
status engine::add_gate(instance& inst) {
  if (inst.has_gate.load()) return status::state;
  auto made = device_->make_gate();
  if (made == nullptr) return device_->health() == status::ok ? status::no_memory : device_->health();
  made->release(inst.verdict.load() == status::ok ? inst.finished.load() : inst.called.load());
  if (inst.device == nullptr) inst.device = std::make_unique<device_state>();
  gated_.push_back(&inst);
  inst.device->gate = std::move(made);
  inst.has_gate.store(true);
  return status::ok;
}

bool engine::is_any_at_gate() const {
  return std::ranges::any_of(gated_, [](const instance* one) { return waits_at_gate(*one); });
}

bool engine::is_gate_open(instance& inst) {
  if (inst.device == nullptr || inst.device->gate == nullptr) return true;
  const status now = inst.device->gate->is_open(inst.round + 1);
  const bool has_come = now == status::pending && !inst.device->is_at_gate;
  if (has_come) is_armed_ = false;
  inst.device->is_at_gate = now == status::pending;
  if (now != status::ok && now != status::pending) fail(inst, now, k_no_rank);
  return now == status::ok;
}

// Returns true if the instance has a gate, the gate is open, and the application has called for the next round. The
// engine checks this at the end of each round, because one post can stand for several calls.
bool engine::may_begin_next(instance& inst) {
  return inst.has_gate.load() && inst.called.load() > inst.round && is_gate_open(inst);
}

bool engine::poll_gates() {
  bool moved = false;
  for (instance* const one : gated_) {
    if (!waits_at_gate(*one)) continue;
    look(*one);
    moved = moved || one->phase != phase::idle;
    advance(*one);
  }
  return moved;
}

}  // namespace lsched
