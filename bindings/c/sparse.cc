// Sparse allreduces of the C interface, sums of users' sparse vectors (coo), and access to the state that is kept
// between rounds.
#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/requests/agreement.h"
#include "collectives/sparse/coo_allreduce.h"

namespace lsched {
namespace {

result<creation> describe(lsched_world& world, const result<lsched_sparse_desc>& desc) {
  if (!desc) return desc.error();
  const auto request = read_sparse(world.place(), *desc);
  if (!request) return request.error();
  auto made = plan(*request);
  if (!made) return made.error();
  if (auto why = validate_vectors(*request)) return *why;
  return creation{{std::move(made->agreement),
                   made->how->generate(made->problem),
                   {{request->gradient}, {static_cast<std::byte*>(desc->update)}},
                   {.local = made->steps}},
                  {.residual = std::move(made->state), .sparse = made->steps}};
}

// --- users' sparse vectors ---------------------------------------------------------------------------------

result<creation> describe(lsched_world& world, const result<lsched_coo_desc>& desc) {
  if (!desc) return desc.error();
  const auto type = read_dtype(desc->dtype);
  if (!type) return type.error();
  if (auto why = validate_count(desc->count)) return std::move(*why);
  if (!is_within(desc->regions, LSCHED_EQUAL_REGIONS, LSCHED_BALANCED_REGIONS))
    return argument("regions is not an lsched_regions: use LSCHED_EQUAL_REGIONS or LSCHED_BALANCED_REGIONS");
  const coo_problem problem{.count = desc->count,
                            .room = desc->room,
                            .result_room = desc->out_room,
                            .place = world.place(),
                            .type = *type,
                            .is_balanced = desc->regions == LSCHED_BALANCED_REGIONS,
                            .has_dense = desc->dense != nullptr};
  if (auto why = validate(problem)) return std::move(*why);
  const std::array<const void*, 3> inputs{desc->indices, desc->values, desc->item_count};
  const std::array<void*, 4> outputs{desc->out_indices, desc->out_values, desc->out_count, desc->dense};
  auto made = bind_program(agreement_of(problem), coo_schedule(problem), inputs.data(), outputs.data());
  if (!made) return made;
  if (made->extras.layout.in_place)
    return argument("an output overlaps with other memory: pass separate memory for each input and output");
  try {
    made->extras.coo = std::make_shared<coo_functions>(problem);
  } catch (const std::bad_alloc&) {
    return failure{status::no_memory,
                   "out of memory for lists of room and out_room items: set smaller values of room and out_room"};
  }
  made->request.options.local = made->extras.coo;
  return made;
}

// --- state between rounds ----------------------------------------------------------------------------------

round_no rounds_of(const instance& inst) {
  const round_no finished = inst.finished.load();
  return finished == k_last_round ? inst.round : finished;
}

lsched_sparse_stats stats_of(const lsched_schedule& schedule) {
  lsched_sparse_stats all{.rounds = rounds_of(*schedule.instance)};
  const auto buffers = schedule.instance->program->buffers();
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const traffic& one = schedule.instance->moved[b];
    all.messages_sent += one.messages_sent;
    all.messages_received += one.messages_received;
    (holds_items(buffers[b]) ? all.item_bytes_sent : all.other_bytes_sent) += one.bytes_sent;
    (holds_items(buffers[b]) ? all.item_bytes_received : all.other_bytes_received) += one.bytes_received;
  }
  return all;
}

/// Copies the residual from the device to the host memory of the state. Does nothing if the residual is on the host.
status fetch_residual(const lsched_schedule& schedule, sparse_state& state) {
  if (state.residual_on_device() == nullptr) return status::ok;
  return schedule.world->process.copy_at_once(static_cast<std::byte*>(state.residual()), state.residual_on_device(),
                                              state.residual_bytes());
}

/// Calls `look` with the state if no round is outstanding, else returns STATE. For a partial schedule, this thread owns
/// the engine during the call, because any rank may start a round at any time.
template <class Look>
lsched_status between_rounds(const lsched_schedule* schedule, Look&& look) {
  if (schedule == nullptr || schedule->extras.residual == nullptr)
    return fail(status::argument,
                "schedule is null or has no residual: only schedules from lsched_sparse_create have a residual");
  const auto answer_of = [&] {
    if (!is_between_rounds(*schedule->instance))
      return fail(status::state, "a round is outstanding: wait for the round before you read the residual");
    return guarded(kept_diagnostic(), [&] { return look(*schedule->extras.residual); });
  };
  if (!schedule->is_partial()) return answer_of();
  lsched_status answer = LSCHED_ERR_STATE;
  schedule->world->process.driver().with_engine([&] { answer = answer_of(); });
  return answer;
}

/// The caller's memory for an image, and the size that the image needs.
struct image_room {
  void* image;
  std::size_t bytes;
  std::size_t* needed;
};

lsched_status copy_image(const std::vector<std::byte>& whole, const image_room& room) {
  if (room.needed != nullptr) *room.needed = whole.size();
  if (room.image == nullptr) return LSCHED_OK;
  if (room.bytes < whole.size())
    return fail(status::argument, "the memory for the image has too few bytes: *needed contains the required size");
  std::memcpy(room.image, whole.data(), whole.size());
  return LSCHED_OK;
}

lsched_status save_pending(const lsched_schedule* schedule, const image_room& room) {
  if (schedule == nullptr || !schedule->is_partial())
    return refuse(
        schedule,
        "only partial schedules have pending offers: use LSCHED_STATE_PENDING only with lsched_partial_create",
        kept_diagnostic());
  if (schedule->has_groups())
    return fail(status::unsupported,
                "replica groups have no images of pending offers: call lsched_flush before the save");
  return guarded(kept_diagnostic(), [&] { return copy_image(schedule->session->save_pending(), room); });
}

lsched_status save_sparse(const lsched_schedule& schedule, sparse_state& state, const image_room& room) {
  const status fetched = room.image != nullptr ? fetch_residual(schedule, state) : status::ok;
  if (fetched != status::ok) return fail(fetched, "the residual could not be copied from the device");
  return copy_image(state.save(), room);
}

}  // namespace

}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_sparse_create(lsched_world* world, const lsched_sparse_desc* desc, lsched_schedule** schedule,
                                   lsched_diagnostic* diagnostic) {
  return create(world, schedule, diagnostic, [&](lsched_world& w) { return describe(w, read_struct(desc)); });
}

lsched_status lsched_coo_allreduce_create(lsched_world* world, const lsched_coo_desc* desc, lsched_schedule** schedule,
                                          lsched_diagnostic* diagnostic) {
  return create(world, schedule, diagnostic, [&](lsched_world& w) { return describe(w, read_struct(desc)); });
}

lsched_status lsched_sparse_get_stats(const lsched_schedule* schedule, lsched_sparse_stats* stats) {
  const bool has_items =
      schedule != nullptr && (schedule->extras.residual != nullptr || schedule->extras.coo != nullptr);
  if (!has_items)
    return fail(status::argument,
                "schedule is null or not sparse: only sparse and coo schedules have these statistics");
  if (!is_there(stats)) return report(kept_diagnostic(), refusal_of(stats));
  schedule->world->process.driver().with_engine([&] { write_struct(stats, stats_of(*schedule)); });
  return LSCHED_OK;
}

lsched_status lsched_sparse_residual(const lsched_schedule* schedule, void** residual, lsched_dtype* dtype) {
  if (residual == nullptr || dtype == nullptr) return fail(status::argument, "residual or dtype is null");
  return between_rounds(schedule, [&](sparse_state& state) {
    *residual = state.residual_on_device() != nullptr ? state.residual_on_device() : state.residual();
    *dtype = number_of(state.residual_type());
    return LSCHED_OK;
  });
}

lsched_status lsched_schedule_save(const lsched_schedule* schedule, lsched_state what, void* image, size_t bytes,
                                   size_t* needed) {
  const image_room room{image, bytes, needed};
  if (image == nullptr && (needed == nullptr || bytes > 0))
    return fail(status::argument,
                "image is null, so the call can return only the size: pass bytes = 0 and a pointer as `needed`, or "
                "pass memory as `image`");
  if (what == LSCHED_STATE_PENDING) return save_pending(schedule, room);
  if (what == LSCHED_STATE_SPARSE)
    return between_rounds(schedule, [&](sparse_state& state) { return save_sparse(*schedule, state, room); });
  return fail(status::argument,
              "the argument \"what\" is not an lsched_state: use LSCHED_STATE_PENDING or LSCHED_STATE_SPARSE");
}

}  // extern "C"
