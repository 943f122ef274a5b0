// The C interface of devices (lsched_cuda.h).
#include "bindings/c/lsched_cuda.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "bindings/environment.h"

namespace lsched {
namespace {

constexpr std::int32_t k_misspelt_device = -2, k_misspelt_streams = -1;
constexpr std::uint64_t k_staging_bytes = std::uint64_t{64} << 20;

lsched_cuda_config default_cuda_config() {
  const auto number = cuda_device_in_environment();
  const auto streams = cuda_streams_in_environment();
  return {.struct_size = sizeof(lsched_cuda_config),
          .device = !number ? k_misspelt_device : number->value_or(-1),
          .host_waits = !streams   ? k_misspelt_streams
                        : *streams ? 0
                                   : 1};
}

result<gpu_choice> read_cuda_config(const lsched_cuda_config* config) {
  const auto known = config == nullptr ? default_cuda_config() : read_struct(config, default_cuda_config());
  if (!known) return known.error();
  if (known->device == k_misspelt_device)
    if (const auto said = cuda_device_in_environment(); !said) return said.error();
  if (known->device < -1)
    return failure{status::argument, "device (lsched_cuda_config) is " + std::to_string(known->device) +
                                         ": use 0 or more, or -1 to choose automatically"};
  if (known->host_waits == k_misspelt_streams)
    if (const auto said = cuda_streams_in_environment(); !said) return said.error();
  if (known->host_waits != 0 && known->host_waits != 1)
    return failure{status::argument,
                   "host_waits (lsched_cuda_config) is " + std::to_string(known->host_waits) + ", neither 0 nor 1"};
  if (known->peers < LSCHED_CUDA_PEERS_AUTO || known->peers > LSCHED_CUDA_PEERS_NEVER)
    return failure{status::argument,
                   "peers (lsched_cuda_config) is not an LSCHED_CUDA_PEERS_ value: use AUTO, ALWAYS or NEVER"};
  return gpu_choice{.number = known->device,
                    .peers = known->peers == LSCHED_CUDA_PEERS_AUTO     ? peer_reads::own
                             : known->peers == LSCHED_CUDA_PEERS_ALWAYS ? peer_reads::always
                                                                        : peer_reads::never,
                    .streams_wait = known->host_waits == 0,
                    .staging_bytes = known->staging_bytes == 0 ? k_staging_bytes : known->staging_bytes};
}

// --- rounds in the order of streams --------------------------------------------------------------------------------

/// Returns OK if rounds of the schedule can run in the order of a stream. Otherwise reports the reason and returns the
/// status of the failure.
lsched_status may_use_streams(const lsched_schedule& schedule) {
  if (schedule.world->process.gpu() == nullptr)
    return fail(status::state, "no device is attached: call lsched_cuda_attach (in Python World.attach_cuda) first");
  const bool is_plain = !schedule.is_partial() && !schedule.is_started_with_memory();
  if (!schedule.world->process.has_thread())
    return fail(status::unsupported,
                "rounds in the order of a stream need a progress thread: open the world with LSCHED_PROGRESS_THREAD, "
                "and MPI with MPI_THREAD_MULTIPLE");
  if (!is_plain)
    return fail(status::unsupported,
                "a partial schedule, or a schedule with a capacity or depth, cannot follow a stream: synchronise the "
                "stream, and start the round from the host");
  return LSCHED_OK;
}

/// Makes the schedule's gate at the first call. The gate lets each round begin at its place in a stream. If two threads
/// call at the same time, the engine returns STATE to one of them, because the other thread has made the gate.
/// need_gate() then returns OK.
status need_gate(const lsched_schedule& schedule) {
  instance& runs = *schedule.instance;
  if (runs.has_gate.load()) return status::ok;
  status answer = status::internal;
  const auto add = [&] { answer = schedule.world->process.engine().add_gate(runs); };
  schedule.world->process.driver().with_engine(std::cref(add));
  return answer == status::state ? status::ok : answer;
}

/// If the schedule has failed, releases the streams that wait for its rounds. Must be called after every call of the
/// gate, because the schedule may have failed during that call.
void release_if_failed(const instance& runs) {
  if (runs.verdict.load() != status::ok) runs.device->gate->release(runs.called.load());
}

/// Reports the failure `answer` of a gate call to lsched_last_failure(), and returns the status of that failure.
lsched_status explain_gate(const lsched_schedule& schedule, status answer) {
  if (answer == status::busy)
    return fail(answer, "16 rounds of the schedule are outstanding: wait for one of them before the next start");
  if (answer == status::constraint)
    return fail(answer,
                "the stream belongs to another device than the attached device: pass a stream of the attached device");
  if (answer == status::unsupported)
    return fail(answer,
                "the stream is being captured in a CUDA graph, which cannot contain rounds: start the round before or "
                "after the capture");
  return explain_start(schedule, *schedule.instance, answer);
}

lsched_status start_on_stream(lsched_schedule& schedule, void* stream, lsched_ticket& ticket) {
  if (const lsched_status why = may_use_streams(schedule); why != LSCHED_OK) return why;
  if (const status why = need_gate(schedule); why != status::ok)
    return explain_start(schedule, *schedule.instance, why);
  round_no round = 0;
  const status answer = schedule.world->process.driver().start_behind(*schedule.instance, stream, &round);
  release_if_failed(*schedule.instance);
  if (answer == status::ok) ticket = {&schedule, round};
  return explain_gate(schedule, answer);
}

lsched_status wait_on_stream(const lsched_ticket& ticket, void* stream) {
  const lsched_schedule& schedule = *ticket.schedule;
  if (const lsched_status why = may_use_streams(schedule); why != LSCHED_OK) return why;
  instance& runs = *schedule.instance;
  if (ticket.round > runs.called.load())
    return fail(status::state, "the round of the ticket was not started: start the round first");
  if (const status why = need_gate(schedule); why != status::ok)
    return explain_start(schedule, *schedule.instance, why);
  const status answer = runs.device->gate->wait(stream, ticket.round);
  release_if_failed(runs);
  if (answer != status::pending) return explain_gate(schedule, answer);
  (void)schedule.world->process.driver().wait(runs, ticket.round, driver::clock::time_point::max());
  return LSCHED_OK;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

void lsched_cuda_config_init_sized(lsched_cuda_config* config, size_t bytes) {
  init_struct(config, bytes, default_cuda_config());
}

lsched_status lsched_cuda_attach(lsched_world* world, const lsched_cuda_config* config, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
    const auto which = read_cuda_config(config);
    if (!which) return report(diagnostic, which.error());
    if (const auto why = world->process.attach(*which)) return report(diagnostic, *why);
    return LSCHED_OK;
  });
}

lsched_status lsched_cuda_alloc(lsched_world* world, uint64_t bytes, void** memory) {
  if (world == nullptr || memory == nullptr) return fail(status::argument, "world or memory is null");
  return guarded(kept_diagnostic(), [&] {
    if (world->process.gpu() == nullptr)
      return fail(status::state, "no device is attached: call lsched_cuda_attach first");
    void* const made = world->process.allocate_on_device(bytes);
    if (made == nullptr)
      return fail(status::no_memory,
                  "the device does not have enough free memory for lsched_cuda_alloc: request fewer bytes, or free "
                  "device memory");
    *memory = made;
    return LSCHED_OK;
  });
}

lsched_status lsched_cuda_free(lsched_world* world, void* memory) {
  if (world == nullptr) return fail(status::argument, "world is null");
  if (memory == nullptr) return LSCHED_OK;
  if (world->process.gpu() == nullptr)
    return fail(status::argument, "the memory is not from lsched_cuda_alloc, because no device is attached");
  return guarded(kept_diagnostic(), [&] {
    const bool is_ours = world->process.deallocate_on_device(static_cast<std::byte*>(memory));
    return is_ours ? LSCHED_OK
                   : fail(status::argument,
                          "the memory is not from lsched_cuda_alloc of this process, or was freed: pass memory that is "
                          "still allocated");
  });
}

lsched_status lsched_start_on_stream(lsched_schedule* schedule, void* stream, lsched_ticket* ticket) {
  if (schedule == nullptr || ticket == nullptr) return fail(status::argument, "schedule or ticket is null");
  return guarded(kept_diagnostic(), [&] { return start_on_stream(*schedule, stream, *ticket); });
}

lsched_status lsched_wait_on_stream(lsched_ticket ticket, void* stream) {
  if (ticket.schedule == nullptr)
    return fail(status::argument, "the ticket names no schedule: pass a ticket that a start has filled in");
  return guarded(kept_diagnostic(), [&] { return wait_on_stream(ticket, stream); });
}

}  // extern "C"
