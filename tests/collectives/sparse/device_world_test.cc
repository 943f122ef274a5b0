// Tests of sparse allreduces whose vectors are in device memory. In every round, updates and residuals must have the
// same bits as in a world in host memory. The host cannot access the device memory of these tests.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "collectives/sparse/sparse_allreduce.h"
#include "libsched/place/place.h"
#include "ops/elementwise/elementwise.h"
#include "ops/sparse/sparse.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/sampling.h"

namespace lsched::testing {
namespace {

using bytes = std::vector<std::byte>;
enum class places : std::uint8_t { host, device, mixed };

constexpr double k_infinity = std::numeric_limits<double>::infinity();

std::size_t wide(rank r) { return static_cast<std::size_t>(r); }

class vector_world {
 public:
  vector_world(std::string_view algorithm, const sparse_problem& problem, places where, std::uint64_t seed)
      : problem_(problem), where_(where), world_(problem.place.size, seed), ranks_(wide(problem.place.size)) {
    instances_ = world_.commit([&](rank r) { return request_of(algorithm, r); });
  }
  ~vector_world() {
    if (!instances_.empty()) world_.remove(instances_);
  }
  vector_world(const vector_world&) = delete;
  vector_world& operator=(const vector_world&) = delete;

  bool run(std::uint64_t seed) {
    for (rank r = 0; r < problem_.place.size; ++r) fill(at(r), mix(seed) + wide(r));
    return !instances_.empty() && world_.run_round(instances_);
  }

  bytes update(rank r) { return copy_of(at(r), at(r).update, problem_.count * size_of(problem_.type)); }
  bytes residual(rank r) {
    sparse_state& state = *at(r).state;
    const auto* const on_host = static_cast<const std::byte*>(state.residual());
    return copy_of(at(r), is_on_device(r) ? state.residual_on_device() : on_host, state.residual_bytes());
  }
  std::optional<std::uint32_t> refused(rank r, round_no round) { return at(r).steps->non_finite_element_of(round); }

  /// Returns the image of a rank's state, as a checkpoint stores it.
  bytes image(rank r) {
    const bytes now = residual(r);
    if (!now.empty()) std::memcpy(at(r).state->residual(), now.data(), now.size());
    return at(r).state->save();
  }
  /// Sets the images from which the ranks of the next world load their state.
  static void go_on_from(std::vector<bytes> images) { images_of_next = std::move(images); }

 private:
  struct member {
    stepped_device* gpu = nullptr;
    bytes memory{};
    std::byte *gradient = nullptr, *update = nullptr;
    std::unique_ptr<sparse_state> state{};
    std::shared_ptr<sparse_functions> steps{};
  };

  member& at(rank r) { return ranks_[wide(r)]; }
  bool is_on_device(rank r) const { return where_ == places::device || (where_ == places::mixed && r % 2 == 0); }

  commit_request request_of(std::string_view algorithm, rank r) {
    member& mine = at(r);
    sparse_problem problem = problem_;
    problem.place.self = r;
    const std::size_t vector = problem.count * size_of(problem.type);
    if (is_on_device(r)) mine.gpu = &world_.give_device(r);
    mine.memory.assign(2 * vector, std::byte{0x5A});
    mine.gradient = mine.gpu != nullptr ? mine.gpu->take(vector) : mine.memory.data();
    mine.update = mine.gpu != nullptr ? mine.gpu->take(vector) : mine.memory.data() + vector;
    mine.state = std::make_unique<sparse_state>(problem);
    if (wide(r) < images_of_next.size()) {
      EXPECT_FALSE(mine.state->load(images_of_next[wide(r)]));
    }
    problem.rounds_before = mine.state->rounds();
    const sparse_algorithm& how = *find_sparse(algorithm);
    mine.steps = how.functions(problem, *mine.state);
    caller_spaces spaces{{memory_space::host}, {memory_space::host}};
    if (mine.gpu != nullptr) spaces = {{memory_space::device}, {memory_space::device}};
    spaces.has_device_functions = mine.steps->use_devices();
    return {"sparse", placed(*how.generate(problem), spaces), {{mine.gradient}, {mine.update}}, {.local = mine.steps}};
  }

  static std::byte* seen(const member& mine, const std::byte* place) {
    return mine.gpu != nullptr ? mine.gpu->seen(place) : const_cast<std::byte*>(place);
  }
  static bytes copy_of(const member& mine, const std::byte* place, std::size_t size) {
    const std::byte* const from = seen(mine, place);
    return {from, from + size};
  }

  /// Fills the gradient with small numbers, many of them with equal magnitudes. A few values are non-finite or tiny.
  void fill(member& mine, std::uint64_t seed) const {
    std::byte* const into = seen(mine, mine.gradient);
    for (std::uint64_t i = 0; i < problem_.count; ++i) {
      const std::uint64_t drawn = mix(seed + i);
      double value = static_cast<double>(static_cast<std::int64_t>(drawn % 4001) - 2000) / 64;
      if (drawn >> 40 == 0) value = 0x1p-30;
      if (seed % 5 == 3 && drawn % 1009 == 0) value = drawn % 2 == 0 ? k_infinity : k_infinity - k_infinity;
      find_convert(dtype::f64, problem_.type)(&value, 1, 1, into + i * size_of(problem_.type));
    }
  }

  static inline std::vector<bytes> images_of_next;

  sparse_problem problem_;
  places where_;
  lockstep_world world_;
  std::vector<member> ranks_;
  std::vector<instance*> instances_;
};

void expect_same(vector_world& host, vector_world& other, rank size, round_no round) {
  for (rank r = 0; r < size; ++r) {
    ASSERT_EQ(host.update(r), other.update(r)) << "rank " << r << ", round " << round;
    ASSERT_EQ(host.residual(r), other.residual(r)) << "rank " << r << ", round " << round;
    ASSERT_EQ(host.refused(r, round), other.refused(r, round)) << "rank " << r << ", round " << round;
  }
}

class SparseOnDevices : public ::testing::TestWithParam<const char*> {};

TEST_P(SparseOnDevices, GivesTheBitsOfHostMemory) {
  const std::vector<rank> sizes = sampled() ? std::vector<rank>{1, 3} : std::vector<rank>{1, 2, 3, 5, 7};
  for (const rank size : sizes)
    for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
      for (const nan_policy nans : {nan_policy::propagate, nan_policy::ignore, nan_policy::error})
        for (const std::uint64_t k : {0u, 1u, 20u, 500u}) {
          sparse_problem problem{.count = 331, .k = k, .place = {0, size}, .type = type, .period = 2, .nans = nans};
          if (k == 20) problem.scale = 0.3;
          if (k == 20 && GetParam() == std::string_view("oktopk")) problem.capacity = capacity_policy::defer;
          SCOPED_TRACE(::testing::Message() << size << " ranks, " << name_of(type) << ", k " << k << ", nans "
                                            << static_cast<int>(nans));
          vector_world host(GetParam(), problem, places::host, 1), device(GetParam(), problem, places::device, k + 2),
              mixed(GetParam(), problem, places::mixed, k + 3);
          for (round_no round = 1; round <= 5; ++round) {
            const std::uint64_t seed = round + 100 * k;
            ASSERT_TRUE(host.run(seed) && device.run(seed) && mixed.run(seed));
            ASSERT_NO_FATAL_FAILURE(expect_same(host, device, size, round));
            ASSERT_NO_FATAL_FAILURE(expect_same(host, mixed, size, round));
          }
        }
}

TEST_P(SparseOnDevices, HasVectorsOfNoElementsAndOfOne) {
  for (const std::uint64_t count : {0u, 1u}) {
    const sparse_problem problem{.count = count, .k = 1, .place = {0, 3}};
    vector_world host(GetParam(), problem, places::host, 1), device(GetParam(), problem, places::device, 2);
    for (round_no round = 1; round <= 3; ++round) {
      ASSERT_TRUE(host.run(round) && device.run(round));
      ASSERT_NO_FATAL_FAILURE(expect_same(host, device, 3, round));
    }
  }
}

TEST_P(SparseOnDevices, GoesOnFromAnImage) {
  const sparse_problem problem{.count = 200, .k = 9, .place = {0, 3}, .period = 3};
  vector_world whole(GetParam(), problem, places::host, 1);
  std::vector<bytes> images;
  {
    vector_world first(GetParam(), problem, places::device, 2);
    for (round_no round = 1; round <= 4; ++round) ASSERT_TRUE(first.run(round) && whole.run(round));
    for (rank r = 0; r < 3; ++r) images.push_back(first.image(r));
  }
  vector_world::go_on_from(images);
  vector_world second(GetParam(), problem, places::mixed, 3);
  vector_world::go_on_from({});
  for (round_no round = 5; round <= 7; ++round) {
    ASSERT_TRUE(second.run(round) && whole.run(round));
    for (rank r = 0; r < 3; ++r) ASSERT_EQ(whole.update(r), second.update(r)) << "rank " << r << ", round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(algorithms, SparseOnDevices, ::testing::Values("oktopk", "topka"));

TEST(SparseOnDevice, SaysWhatIsUnsupported) {
  const sparse_problem problem{.count = 100, .k = 5, .place = {0, 3}, .selection = selection_rule::reused};
  const sparse_algorithm& how = *find_sparse("oktopk");
  sparse_state state(problem);
  const caller_spaces there{{memory_space::device}, {memory_space::device}, false,
                            how.functions(problem, state)->use_devices()};
  const auto reused = placed(*how.generate(problem), there);
  EXPECT_EQ(reused.error().code, status::unsupported);
  EXPECT_NE(reused.error().text.find("this sparse allreduce cannot use"), std::string::npos) << reused.error().text;
  const caller_spaces half{{memory_space::device}, {memory_space::host}, false, true};
  const auto split = placed(*how.generate(problem), half);
  EXPECT_EQ(split.error().code, status::unsupported);
  EXPECT_NE(split.error().text.find("cannot be only partly in device memory"), std::string::npos) << split.error().text;
}

}  // namespace
}  // namespace lsched::testing
