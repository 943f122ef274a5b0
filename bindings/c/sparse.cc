// Sparse allreduces of the C interface, sums of users' sparse vectors (coo), and access to the state that is kept
// between rounds.
#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/sparse/coo_allreduce.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_period = 64, k_reuse = 32;

std::optional<failure> validate_words(const lsched_sparse_desc& desc) {
  return first_broken(
      {{!is_within(desc.capacity, LSCHED_STRICT, LSCHED_DEFER), "capacity is not an lsched_capacity"},
       {!is_within(desc.boundaries, LSCHED_POOLED, LSCHED_AVERAGED), "boundaries is not an lsched_boundaries"},
       {!is_within(desc.balance, LSCHED_BALANCE_BY_COST, LSCHED_BALANCE_NEVER), "balance is not an lsched_balance"},
       {!is_within(desc.selection, LSCHED_EXACT, LSCHED_REUSED), "selection is not an lsched_selection"},
       {desc.selection != LSCHED_REUSED && desc.reuse != 0, "only LSCHED_REUSED uses reuse: leave it 0"},
       {!is_within(desc.nans, LSCHED_NAN_PROPAGATE, LSCHED_NAN_ERROR), "nans is not an lsched_nan_policy"}});
}

result<sparse_problem> read_problem(world place, const lsched_sparse_desc& desc) {
  const auto data = read_shape(desc.count, desc.dtype);
  if (!data) return data.error();
  if (auto why = validate_words(desc)) return *why;
  const sparse_problem problem{.count = desc.count,
                               .k = desc.k,
                               .place = place,
                               .type = data->type,
                               .capacity = static_cast<capacity_policy>(desc.capacity),
                               .boundaries = static_cast<boundary_rule>(desc.boundaries),
                               .period = desc.period == 0 ? k_period : desc.period,
                               .scale = desc.scale == 0 ? 1 : desc.scale,
                               .nans = static_cast<nan_policy>(desc.nans),
                               .balance = static_cast<balance_rule>(desc.balance),
                               .selection = static_cast<selection_rule>(desc.selection),
                               .reuse = desc.reuse == 0 ? k_reuse : desc.reuse,
                               .bucket = desc.bucket};
  if (auto why = validate(problem)) return std::move(*why);
  return problem;
}

result<const sparse_algorithm*> read_algorithm(const lsched_sparse_desc& desc, const sparse_problem& problem) {
  const std::string_view wanted = desc.algorithm == nullptr ? "auto" : desc.algorithm;
  const sparse_algorithm* const found = wanted == "auto" ? &choose_sparse(problem) : find_sparse(wanted);
  if (found == nullptr) {
    std::string names;
    for (const sparse_algorithm& one : sparse_algorithms()) names += ", " + std::string(one.name);
    return argument("there is no sparse allreduce \"" + std::string(wanted) + "\": choose auto" + names);
  }
  const bool is_plain = desc.capacity == LSCHED_STRICT && desc.period == 0 && desc.boundaries == LSCHED_POOLED &&
                        desc.balance == LSCHED_BALANCE_BY_COST && desc.selection == LSCHED_EXACT && desc.bucket == 0;
  if (!is_plain && wanted != "oktopk")
    return argument(
        "capacity, period, boundaries, balance, selection and bucket need algorithm \"oktopk\": set algorithm, "
        "or leave them 0");
  return found;
}

std::string agreement_of(const sparse_problem& problem, std::string_view algorithm) {
  const auto named = [](auto value, std::initializer_list<const char*> names) {
    return std::string(names.begin()[static_cast<std::size_t>(value)]);
  };
  std::string text = "sparse_allreduce " + std::string(algorithm) + " " + std::string(name_of(problem.type)) +
                     " count " + std::to_string(problem.count) + " k " + std::to_string(problem.k) + ", nans " +
                     named(problem.nans, {"propagate", "ignore", "error"});
  if (algorithm != "oktopk") return text;
  text += ", " + named(problem.capacity, {"strict", "defer"}) + ", " +
          named(problem.boundaries, {"pooled", "averaged"}) + " every " + std::to_string(problem.period) +
          ", balance " + named(problem.balance, {"cost", "published", "always", "never"}) + ", " +
          named(problem.selection, {"exact", "reused"});
  if (problem.selection == selection_rule::reused) text += " " + std::to_string(problem.reuse);
  return text + ", bucket " + std::to_string(problem.bucket);
}

/// The state of a sparse allreduce together with the functions that use this state, so that both have the same
/// lifetime.
struct local_part {
  explicit local_part(const sparse_problem& problem) : state(problem) {}
  sparse_state state;
  std::shared_ptr<sparse_functions> steps;
};

result<creation> describe(lsched_world& world, const result<lsched_sparse_desc>& desc) {
  if (!desc) return desc.error();
  auto request = read_request(world.place(), *desc);
  if (!request) return request.error();
  const auto* const gradient = static_cast<const std::byte*>(desc->gradient);
  auto* const update = static_cast<std::byte*>(desc->update);
  const std::uint64_t bytes = request->problem.count * size_of(request->problem.type);
  const memory_layout apart{};
  if (auto why = first_broken({{bytes > 0 && (gradient == nullptr || update == nullptr), "gradient or update is null"},
                               {!apart.fits({gradient, bytes}, {update, bytes}), "gradient and update overlap"}}))
    return *why;
  return creation{{std::move(request->agreement),
                   request->how->generate(request->problem),
                   {{gradient}, {update}},
                   {.local = request->steps}},
                  {.residual = std::move(request->state), .sparse = request->steps}};
}

// --- users' sparse vectors ---------------------------------------------------------------------------------

result<creation> describe(lsched_world& world, const result<lsched_coo_desc>& desc) {
  if (!desc) return desc.error();
  const auto data = read_shape(desc->count, desc->dtype);
  if (!data) return data.error();
  if (!is_within(desc->regions, LSCHED_EQUAL_REGIONS, LSCHED_BALANCED_REGIONS))
    return argument("regions is not an lsched_regions");
  const coo_problem problem{.count = desc->count,
                            .room = desc->room,
                            .result_room = desc->out_room,
                            .place = world.place(),
                            .type = data->type,
                            .is_balanced = desc->regions == LSCHED_BALANCED_REGIONS,
                            .has_dense = desc->dense != nullptr};
  if (auto why = validate(problem)) return std::move(*why);
  const std::array<const void*, 3> inputs{desc->indices, desc->values, desc->item_count};
  const std::array<void*, 4> outputs{desc->out_indices, desc->out_values, desc->out_count, desc->dense};
  const std::string agreement = "coo_allreduce " + std::string(name_of(problem.type)) + " count " +
                                std::to_string(problem.count) + " room " + std::to_string(problem.room) + " out_room " +
                                std::to_string(problem.result_room) + (problem.is_balanced ? " balanced" : "");
  auto made = bind_program(agreement, coo_schedule(problem), inputs.data(), outputs.data());
  if (!made) return made;
  if (made->extras.layout.in_place) return argument("an output overlaps with other memory");
  try {
    made->extras.coo = std::make_shared<coo_functions>(problem);
  } catch (const std::bad_alloc&) {
    return failure{status::no_memory, "out of memory for the items of room and out_room"};
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
    (buffers[b].has_lists() ? all.item_bytes_sent : all.other_bytes_sent) += one.bytes_sent;
    (buffers[b].has_lists() ? all.item_bytes_received : all.other_bytes_received) += one.bytes_received;
  }
  return all;
}

/// Copies the residual from the device to the host memory of the state. Does nothing if the residual is on the host.
status fetch_residual(const lsched_schedule& schedule, sparse_state& state) {
  if (state.residual_on_device() == nullptr) return status::ok;
  return schedule.world->process.copy_at_once(static_cast<std::byte*>(state.residual()), state.residual_on_device(),
                                              state.residual_bytes());
}

/// Calls `look` with the state if no round is outstanding, else returns STATE. For a partial schedule, this thread
/// holds the engine during the call, because any rank may start a round at any time.
template <class Look>
lsched_status between_rounds(const lsched_schedule* schedule, Look&& look) {
  if (schedule == nullptr || schedule->extras.residual == nullptr)
    return fail(status::argument, "schedule is null or has no residual");
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
    return fail(status::argument, "the room for the image is too small: *needed has the size");
  std::memcpy(room.image, whole.data(), whole.size());
  return LSCHED_OK;
}

lsched_status save_pending(const lsched_schedule* schedule, const image_room& room) {
  if (schedule == nullptr || !schedule->is_partial())
    return refuse(schedule, "only partial schedules have pending offers", kept_diagnostic());
  return guarded(kept_diagnostic(), [&] { return copy_image(schedule->session->save_pending(), room); });
}

lsched_status save_sparse(const lsched_schedule& schedule, sparse_state& state, const image_room& room) {
  const status fetched = room.image != nullptr ? fetch_residual(schedule, state) : status::ok;
  if (fetched != status::ok) return fail(fetched, "the residual could not be copied from the device");
  return copy_image(state.save(), room);
}

}  // namespace

result<sparse_choice> read_choice(world place, const lsched_sparse_desc& desc) {
  const auto problem = read_problem(place, desc);
  if (!problem) return problem.error();
  const auto how = read_algorithm(desc, *problem);
  if (!how) return how.error();
  return sparse_choice{*problem, *how};
}

result<sparse_request> read_request(world place, const lsched_sparse_desc& desc) {
  const auto chosen = read_choice(place, desc);
  if (!chosen) return chosen.error();
  auto [problem, how] = *chosen;
  std::string agreement = agreement_of(problem, how->name);
  std::shared_ptr<local_part> local;
  try {
    local = std::make_shared<local_part>(problem);
    if (desc.image != nullptr || desc.image_bytes > 0) {
      const std::size_t bytes = desc.image != nullptr ? desc.image_bytes : 0;
      if (auto why = local->state.load({static_cast<const std::byte*>(desc.image), bytes})) return std::move(*why);
      problem.rounds_before = local->state.rounds();
      agreement += ", from an image of round " + std::to_string(problem.rounds_before) + " with common hash " +
                   std::to_string(local->state.common_hash());
    }
    local->steps = how->functions(problem, local->state);
  } catch (const std::bad_alloc&) {
    return failure{status::no_memory, "out of memory for a residual of " + std::to_string(problem.count) +
                                          " elements and lists of " + std::to_string(problem.k)};
  }
  return sparse_request{{problem, how},
                        std::move(agreement),
                        std::shared_ptr<sparse_state>(local, &local->state),
                        std::shared_ptr<sparse_functions>(local, local->steps.get())};
}

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
  if (!has_items) return fail(status::argument, "schedule is null or not sparse");
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
    return fail(status::argument, "image is null, but bytes is not 0 or needed is null");
  if (what == LSCHED_STATE_PENDING) return save_pending(schedule, room);
  if (what == LSCHED_STATE_SPARSE)
    return between_rounds(schedule, [&](sparse_state& state) { return save_sparse(*schedule, state, room); });
  return fail(status::argument, "what is not an lsched_state");
}

}  // extern "C"
