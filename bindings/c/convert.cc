// From one floating format to another.
#include "ops/elementwise/elementwise.h"

#include "bindings/c/words.h"
#include "bindings/c/world.h"

namespace lsched {
namespace {

/// nullptr if one of them is no floating dtype.
convert_fn find(lsched_dtype from, lsched_dtype to) {
  const auto input = read_shape(0, from);
  const auto output = read_shape(0, to);
  return input && output ? find_convert(input->type, output->type) : nullptr;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_convert(lsched_dtype from, const void* input, uint64_t count, double factor, lsched_dtype to,
                             void* output) {
  if (count > 0 && (input == nullptr || output == nullptr)) return LSCHED_ERR_ARGUMENT;
  return guarded(nullptr, [&] {
    const convert_fn convert = find(from, to);
    if (convert == nullptr) return LSCHED_ERR_ARGUMENT;
    if (count > 0) convert(input, count, factor, output);
    return LSCHED_OK;
  });
}

}  // extern "C"
