// Examines managed memory: whether the library classifies it as host or device memory, and whether kernels and
// collectives over managed memory are right.
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <algorithm>

#include "bindings/c/lsched.h"
#include "offload/cuda/driver/pointers.h"
#include "tests/offload/cuda/exam/exam.h"

namespace lsched::exam {
namespace {

constexpr std::uint64_t k_count = 1 << 18, k_bytes = k_count * sizeof(float);

class managed_memory {
 public:
  explicit managed_memory(const gpu& on) : on_(on) {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const auto allocate = reinterpret_cast<PFN_cuMemAllocManaged_v6000>(dlsym(library, "cuMemAllocManaged"));
    if (allocate == nullptr) throw bench::failed("the driver has no managed memory");
    on.expect(allocate(&begin_, k_bytes, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  }
  ~managed_memory() { (void)on_.cuda().cuMemFree(begin_); }
  managed_memory(const managed_memory&) = delete;
  managed_memory& operator=(const managed_memory&) = delete;
  float* data() const { return reinterpret_cast<float*>(begin_); }

 private:
  const gpu& on_;
  CUdeviceptr begin_ = 0;
};

/// Sums both ranks' inputs by an allreduce of the library. Returns the error, or an empty text.
std::string add_up(lsched_world* world, const float* input, float* output) {
  lsched_diagnostic why{.struct_size = sizeof why};
  if (attach_first_device(world, &why) != LSCHED_OK) return why.text;
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = "allreduce",
                                    .input = input,
                                    .output = output,
                                    .count = k_count,
                                    .dtype = LSCHED_F32,
                                    .reduction = LSCHED_SUM};
  lsched_schedule* sum = nullptr;
  if (lsched_collective_create(world, &desc, &sum, &why) != LSCHED_OK) return why.text;
  constexpr std::uint64_t k_limit_ns = 5'000'000'000;
  const bool has_run = lsched_run(sum, k_limit_ns, &why) == LSCHED_OK;
  const bool has_ended = lsched_schedule_destroy(sum, k_limit_ns, &why) == LSCHED_OK;
  return has_run && has_ended ? "" : why.text;
}

std::string try_library(const std::array<std::unique_ptr<managed_memory>, 4>& memory) {
  std::array<lsched_world*, 2> worlds{};
  lsched_config config;
  lsched_config_init(&config);
  if (lsched_world_open_threads(2, &config, worlds.data(), nullptr) != LSCHED_OK) return "no world";
  std::array<std::string, 2> told;
  {
    std::vector<std::jthread> ranks;
    for (std::size_t r = 0; r < 2; ++r)
      ranks.emplace_back([&, r] { told[r] = add_up(worlds[r], memory[r]->data(), memory[2 + r]->data()); });
  }
  for (lsched_world* each : worlds) (void)lsched_world_close(each);
  return told[0].empty() ? told[1] : told[0];
}

}  // namespace

bool ask_managed_memory(const effort&) {
  const gpu on;
  const cuda_scope here(on.context());
  json line{{"concurrent access", on.attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)}};
  std::array<std::unique_ptr<managed_memory>, 4> memory;
  for (auto& each : memory) each = std::make_unique<managed_memory>(on);
  std::fill_n(memory[0]->data(), k_count, 3.0F);
  std::fill_n(memory[1]->data(), k_count, 39.0F);
  const auto space = cuda_space_of(on.cuda(), 0, reinterpret_cast<const std::byte*>(memory[0]->data()), k_bytes);
  line["the library takes it for"] = space.has_value() ? std::string(name_of(*space)) : space.error().text;
  const gpu_stream stream(on);
  on.launch(find_device_kernel(kernel::sum, dtype::f32).value(),
            {.a = memory[0]->data(), .b = memory[1]->data(), .c = memory[2]->data(), .count = k_count}, stream);
  on.synchronise(stream);
  const auto is_sum = [&](std::size_t which) {
    return std::count(memory[which]->data(), memory[which]->data() + k_count, 42.0F) ==
           static_cast<std::ptrdiff_t>(k_count);
  };
  const bool is_kernel_right = is_sum(2);
  line["kernel is right"] = is_kernel_right;
  std::fill_n(memory[2]->data(), k_count, 0.0F);
  const std::string why = try_library(memory);
  const bool is_allreduce_right = why.empty() && is_sum(2) && is_sum(3);
  line["allreduce is right"] = is_allreduce_right;
  if (!why.empty()) line["allreduce says"] = why;
  answer(on, "managed_memory", line);
  return is_kernel_right && is_allreduce_right;
}

}  // namespace lsched::exam
