// Runs the ops that call functions of the instance (functions.h).
#include "libsched/engine/engine.h"

namespace lsched {

engine::function_operands engine::operands_of_function(instance& inst, op_id id, const op& o) {
  const auto source_of = [&](region at, segment_range op_segments::*operand) {
    if (!at.exists()) return function_input{};
    const buffer& under = inst.program->buffers()[at.buffer()];
    const std::byte* const data = segment_state_of(inst, operand, id).null ? nullptr : inst.cells[at.buffer()].data;
    return function_input{data, under.count, lists_of(inst.lists.get(), at), size_of(under.type)};
  };
  return {static_cast<std::uint32_t>(inst.kernels[id].with->front().integer()), source_of(o.a, &op_segments::a),
          source_of(o.b, &op_segments::b),
          function_output{inst.cells[o.c.buffer()].storage, o.count, lists_of(inst.lists.get(), o.c), size_of(o.type)}};
}

// Calls a function. The output is never null, and its contributors are those of operand b.
outcome engine::call_function(instance& inst, op_id id, const op& o) {
  const function_operands with = operands_of_function(inst, id, o);
  if (typical_bytes(*inst.program, o) >= k_long_bytes) begin_long();
  const status verdict = inst.local->call(with.number, inst.round, with.source, with.by, with.target);
  if (verdict != status::ok) return fail(inst, verdict, k_no_rank), outcome::failed;
  set_segment_state(inst, id,
                    {.tally = o.b.exists() ? segment_state_of(inst, &op_segments::b, id).tally : contributor_count{}});
  return combined(inst, o);
}

// Runs the host's part of a function and submits the device's part. The engine calls call_function() when the device
// job has ended.
outcome engine::prepare_function(instance& inst, op_id id, const op& o) {
  const function_operands with = operands_of_function(inst, id, o);
  if (typical_bytes(*inst.program, o) >= k_long_bytes) begin_long();
  const auto job = inst.local->prepare(with.number, inst.round, with.source, with.by, with.target);
  if (!job) return fail(inst, job.error().code, k_no_rank), outcome::failed;
  return submit_to_device(inst, {.what = o.what, .type = o.type, .sparse = *job, .cookie = cookie_of(inst, id)});
}

// Completes an op whose device job has ended. Returns false if the instance has failed.
bool engine::has_computed(instance& inst, op_id id) {
  const op& o = inst.program->ops()[id];
  const bool calls = inst.kernels[id].way == compute_way::device_function;
  return (calls ? call_function(inst, id, o) : combined(inst, o)) == outcome::done;
}

}  // namespace lsched
