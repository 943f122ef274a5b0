// The C interface to devices.
#include "bindings/c/lsched_cuda.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "bindings/environment.h"

namespace lsched {
namespace {

constexpr std::int32_t k_misspelt_device = -2;
constexpr std::uint64_t k_staging_bytes = std::uint64_t{64} << 20;

lsched_cuda_config default_cuda_config() {
  lsched_cuda_config config{.struct_size = sizeof(lsched_cuda_config), .device = -1, .staging_bytes = 0};
  const auto number = number_in_environment("LSCHED_CUDA_DEVICE", 0);
  config.device = !number ? k_misspelt_device : number->value_or(-1);
  return config;
}

result<gpu_choice> read_cuda_config(const lsched_cuda_config* config) {
  const auto known = config == nullptr ? default_cuda_config() : read_struct(config, default_cuda_config());
  if (!known) return known.error();
  if (known->device < -1)
    return failure{status::argument, "device (lsched_cuda_config or LSCHED_CUDA_DEVICE) is no number from 0 on"};
  return gpu_choice{.number = known->device,
                    .staging_bytes = known->staging_bytes == 0 ? k_staging_bytes : known->staging_bytes};
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

}  // extern "C"
