// Which tensors of an adaptive sum are not finite, as far as the result says it by itself.
#include "ops/adasum/non_finite.h"

#include <algorithm>

#include "bindings/c/world.h"

namespace lsched {
namespace {

/// An adaptive sum has one output.
std::size_t output_of(const schedule& program) {
  const auto& buffers = program.buffers();
  const auto found = std::ranges::find(buffers, buffer_role::output, &buffer::role);
  return static_cast<std::size_t>(found - buffers.begin());
}

/// Between rounds, with one behind it that wrote to the memory which is bound now.
bool has_result(const lsched_schedule& schedule) {
  const round_no finished = schedule.instance->finished.load();
  return finished > schedule.bound_after && finished == schedule.instance->called.load();
}

/// A coefficient that is NaN makes a tensor NaN from its first element to its last.
std::uint64_t find_in_result(const lsched_schedule& schedule, std::uint8_t* is_non_finite) {
  const std::size_t output = output_of(*schedule.instance->program);
  const non_finite_rule rule =
      schedule.looks_at_tensors ? non_finite_rule::first_element_nan : non_finite_rule::any_element;
  return find_non_finite(schedule.instance->cells[output].storage, schedule.instance->program->buffers()[output].type,
                         schedule.tensors, rule, is_non_finite);
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_non_finite_tensors(const lsched_schedule* schedule, uint64_t tensor_count, uint8_t* is_non_finite,
                                        uint64_t* number) {
  if (schedule == nullptr || (is_non_finite == nullptr) != (tensor_count == 0)) return LSCHED_ERR_ARGUMENT;
  if (schedule->is_partial()) return LSCHED_ERR_UNSUPPORTED;
  if (schedule->tensors.empty()) return LSCHED_ERR_ARGUMENT;
  if (is_non_finite != nullptr && tensor_count != schedule->tensors.size()) return LSCHED_ERR_ARGUMENT;
  if (!has_result(*schedule)) return LSCHED_ERR_STATE;
  const std::uint64_t found = find_in_result(*schedule, is_non_finite);
  if (number != nullptr) *number = found;
  return LSCHED_OK;
}

}  // extern "C"
