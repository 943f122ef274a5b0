// Runs every collective, every dtype and every algorithm through the C interface, with device memory on all ranks or on
// some. The results must have the same bits as in host memory.
#include <algorithm>
#include <cstring>
#include <random>

#include "bindings/c/lsched_cuda.h"
#include "bindings/c/words.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "tests/offload/cuda/user_memory.h"
#include "tests/support/c_request.h"
#include "tests/support/sampling.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

/// The parameters of a collective that all ranks run.
struct wanted {
  const collective& of;
  dtype type;
  std::string algorithm;
  shape data;
  rank size;

  std::string name() const {
    return std::string(of.name) + "/" + algorithm + " " + std::string(name_of(type)) + " P=" + std::to_string(size);
  }
  std::size_t bytes(std::optional<std::uint64_t> elements) const { return elements.value_or(0) * size_of(type); }
};

bool is_float(dtype type) {
  return type == dtype::f16 || type == dtype::bf16 || type == dtype::f32 || type == dtype::f64;
}

/// Returns `bytes` bytes that hold small numbers of the collective's type. Sums of these numbers are exact. The vector
/// of floats is only a container of the bytes.
floats numbers_of(const wanted& what, std::size_t bytes, rank self) {
  std::mt19937 draw(static_cast<unsigned>(self) + 7);
  floats memory((bytes + sizeof(float) - 1) / sizeof(float));
  const std::uint64_t count = bytes / size_of(what.type);
  floats drawn(count);
  for (float& one : drawn) one = static_cast<float>(draw() % 9) - 2;
  if (count == 0) return memory;
  if (is_float(what.type) && what.type != dtype::f32) {
    EXPECT_EQ(lsched_convert(LSCHED_F32, drawn.data(), count, 1, number_of(what.type), memory.data()), LSCHED_OK);
  } else if (what.type == dtype::f32) {
    memory = drawn;
  } else {
    for (float& one : memory) {
      const auto bits = static_cast<std::uint32_t>(draw());
      std::memcpy(&one, &bits, sizeof one);
    }
  }
  return memory;
}

class CudaCollectives : public UnderTheFake {
 protected:
  /// A world in which some ranks have a device and keep their buffers in device memory.
  struct world_with_devices {
    std::unique_ptr<world_of_threads> world;
    std::vector<bool> on_device;
  };
  static world_with_devices open(rank size, const std::vector<bool>& on_device) {
    world_with_devices made{std::make_unique<world_of_threads>(size), on_device};
    made.world->each([&](lsched_world* mine, std::int32_t r) {
      if (!on_device[static_cast<std::size_t>(r)]) return;
      lsched_cuda_config config;
      lsched_cuda_config_init(&config);
      config.device = 0;
      config.staging_bytes = 1 << 20;
      diagnostic why;
      EXPECT_EQ(lsched_cuda_attach(mine, &config, &why), LSCHED_OK) << why.text;
    });
    return made;
  }

  /// Runs two rounds of the collective. Returns the outputs of all ranks.
  std::vector<floats> run(const world_with_devices& in, const wanted& what) {
    std::vector<floats> results(static_cast<std::size_t>(what.size));
    in.world->each([&](lsched_world* mine, std::int32_t r) {
      const context_of_thread here(gpu());
      const auto self = static_cast<std::size_t>(r);
      const extents elements = what.of.extents_of({r, what.size}, what.data);
      const std::size_t bytes = what.bytes(elements.output);
      user_buffer input(gpu(), in.on_device[self], numbers_of(what, what.bytes(elements.input), r));
      user_buffer output(gpu(), in.on_device[self], floats((bytes + 3) / 4, 0));
      c_request request(what.of, {r, what.size}, what.data, what.algorithm);
      if (what.of.moves_data) request.desc.dtype = number_of(what.type);
      request.desc.input = input.data();
      request.desc.output = output.data();
      lsched_schedule* made = nullptr;
      diagnostic why;
      EXPECT_EQ(lsched_collective_create(mine, &request.desc, &made, &why), LSCHED_OK) << what.name() << why.text;
      for (int round = 0; round < 2 && made != nullptr; ++round)
        EXPECT_EQ(lsched_run(made, k_limit_ns, &why), LSCHED_OK) << what.name() << why.text;
      EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, &why), LSCHED_OK) << why.text;
      results[self] = output.content();
    });
    return results;
  }

  static bool are_same(const std::vector<floats>& one, const std::vector<floats>& other) {
    return std::ranges::equal(one, other, [](const floats& x, const floats& y) {
      return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
    });
  }

  /// Runs the collectives in worlds of `size` ranks in which all, some or no ranks use device memory, and compares the
  /// results.
  void compare(rank size, const std::vector<wanted>& all) {
    const auto ranks = static_cast<std::size_t>(size);
    std::vector<bool> some(ranks, false);
    for (std::size_t r = 0; r < ranks; r += 2) some[r] = true;
    const auto host = open(size, std::vector<bool>(ranks, false));
    const auto device = open(size, std::vector<bool>(ranks, true));
    const auto mixed = open(size, some);
    for (const wanted& what : all) {
      const auto expected = run(host, what);
      EXPECT_TRUE(are_same(run(device, what), expected)) << what.name() << ": all on the device";
      EXPECT_TRUE(are_same(run(mixed, what), expected)) << what.name() << ": some on the device";
      if (HasFailure()) return;
    }
  }
};

std::optional<wanted> make(const collective& of, dtype type, const std::string& algorithm, rank size) {
  if (of.activates || !of.moves_data || (of.adapts && !is_float(type))) return std::nullopt;
  constexpr std::uint64_t k_count = 700;
  return wanted{of, type, algorithm, typical_shape(of, size, k_count, type, of.reduces ? kernel::sum : kernel::none),
                size};
}

TEST_F(CudaCollectives, OfEveryDtypeHaveTheBitsOfHostMemory) {
  std::uint64_t number = 0;
  for (const rank size : {2, 3, 5}) {
    std::vector<wanted> all;
    for (const collective* const of : collectives())
      for (const dtype type :
           {dtype::i8, dtype::u8, dtype::i32, dtype::i64, dtype::u64, dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
        if (auto one = make(*of, type, "auto", size); one && number++ % stride(1, 11) == 0) all.push_back(*one);
    compare(size, all);
  }
}

TEST_F(CudaCollectives, OfEveryAlgorithmHaveTheBitsOfHostMemory) {
  std::uint64_t number = 0;
  for (const rank size : {2, 3, 5}) {
    std::vector<wanted> all;
    for (const algorithm& it : algorithms()) {
      auto one = make(*it.of, dtype::f32, std::string(it.name), size);
      if (!one || validate(it, {0, size}, one->data)) continue;
      if (number++ % stride(1, 7) == 0) all.push_back(*one);
    }
    compare(size, all);
  }
}

}  // namespace
}  // namespace lsched::testing
