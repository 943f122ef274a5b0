// Which tensors of an adaptive sum are spoilt, as far as the result says it by itself.
#include <algorithm>
#include <cstring>

#include "bindings/c/runtime.h"

namespace lsched {
namespace {

/// Of a floating type: its exponent's bits, which are all set where a value is not finite, and those below.
struct float_bits {
  std::uint64_t exponent;
  std::uint64_t fraction;
};

constexpr float_bits bits_of(dtype type) {
  switch (type) {
    case dtype::f16: return {0x7C00, 0x03FF};
    case dtype::bf16: return {0x7F80, 0x007F};
    case dtype::f32: return {0x7F800000, 0x007FFFFF};
    default: return {0x7FF0000000000000, 0x000FFFFFFFFFFFFF};
  }
}

std::uint64_t element_at(const std::byte* place, std::uint64_t i, dtype type) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, place + i * size_of(type), size_of(type));  // little-endian, as every machine we run on
  return bits;
}

/// A coefficient that is NaN makes a tensor NaN from its first element to its last.
bool begins_with_nan(const std::byte* result, const tensor& it, dtype type) {
  const auto [exponent, fraction] = bits_of(type);
  const std::uint64_t bits = element_at(result, it.begin, type);
  return (bits & exponent) == exponent && (bits & fraction) != 0;
}

bool has_no_number(const std::byte* result, const tensor& it, dtype type) {
  const std::uint64_t exponent = bits_of(type).exponent;
  for (std::uint64_t i = it.begin; i < it.begin + it.count; ++i)
    if ((element_at(result, i, type) & exponent) == exponent) return true;
  return false;
}

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

std::uint64_t find_spoilt(const lsched_schedule& schedule, std::uint8_t* is_spoilt) {
  const std::size_t output = output_of(*schedule.instance->program);
  const std::byte* const result = schedule.instance->cells[output].home;
  const dtype type = schedule.instance->program->buffers()[output].type;
  const auto judge = schedule.looks_at_tensors ? begins_with_nan : has_no_number;
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < schedule.tensors.size(); ++i) {
    const bool verdict = schedule.tensors[i].count > 0 && judge(result, schedule.tensors[i], type);
    number += verdict ? 1 : 0;
    if (is_spoilt != nullptr) is_spoilt[i] = verdict ? 1 : 0;
  }
  return number;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_spoilt_tensors(const lsched_schedule* schedule, uint64_t tensor_count, uint8_t* is_spoilt,
                                    uint64_t* number) {
  if (schedule == nullptr || (is_spoilt == nullptr) != (tensor_count == 0)) return LSCHED_ERR_ARGUMENT;
  if (schedule->is_partial()) return LSCHED_ERR_UNSUPPORTED;
  if (schedule->tensors.empty()) return LSCHED_ERR_ARGUMENT;
  if (is_spoilt != nullptr && tensor_count != schedule->tensors.size()) return LSCHED_ERR_ARGUMENT;
  if (!has_result(*schedule)) return LSCHED_ERR_STATE;
  const std::uint64_t spoilt = find_spoilt(*schedule, is_spoilt);
  if (number != nullptr) *number = spoilt;
  return LSCHED_OK;
}

}  // extern "C"
