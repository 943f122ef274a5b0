// Tests of sparse allreduces through the C interface over device memory. In every round the results must have the same
// bits as in host memory. Streams or the host start the rounds. The state is new or loaded from an image.
#include <cstring>
#include <random>

#include "bindings/c/lsched_cuda.h"
#include "tests/offload/cuda/user_memory.h"
#include "tests/support/sampling.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_count = 401, k_k = 20;
constexpr int k_rounds = 4;

floats gradient_of(std::int32_t self, int round) {
  std::mt19937 draw(static_cast<unsigned>(self * 100 + round));
  floats all(k_count);
  for (float& one : all) one = static_cast<float>(static_cast<int>(draw() % 8001) - 4000) / 128;
  return all;
}

/// A variant of a sparse allreduce.
struct way {
  const char* algorithm = "oktopk";
  bool on_device = false, in_streams = false, rebinds = false, is_saved = false;
};

class CudaSparse : public UnderTheFake {
 protected:
  /// Returns the updates of all rounds and the residual after the last round, of all ranks.
  std::vector<std::vector<floats>> run(std::int32_t ranks, const way& how) {
    const world_of_threads world(ranks);
    std::vector<std::vector<floats>> results(static_cast<std::size_t>(ranks));
    if (how.on_device) world.each([&](lsched_world* mine, std::int32_t) { attach(mine); });
    world.each([&](lsched_world* mine, std::int32_t r) {
      const context_of_thread here(gpu());
      one_rank(gpu(), mine, r, how, results[static_cast<std::size_t>(r)]).run();
    });
    return results;
  }

  /// Creates a schedule from an image and runs a round, in a world of one rank. Injects the fault `rule` before the
  /// round if `in_round` is set, and otherwise before the creation. Returns the statuses of the creation and of the
  /// round.
  std::pair<lsched_status, lsched_status> run_once_under(const std::string& rule, bool in_round) {
    std::pair<lsched_status, lsched_status> answers{LSCHED_OK, LSCHED_OK};
    const world_of_threads world(1);
    attach(world.at(0));
    user_buffer gradient(gpu(), true, gradient_of(0, 0)), update(gpu(), true, floats(k_count, -1));
    lsched_sparse_desc desc{.struct_size = sizeof desc,
                            .gradient = gradient.data(),
                            .update = update.data(),
                            .count = k_count,
                            .k = k_k,
                            .dtype = LSCHED_F32};
    const std::vector<std::byte> image = image_of(world.at(0), desc);
    desc.image = image.data();
    desc.image_bytes = image.size();
    lsched_schedule* made = nullptr;
    diagnostic why;
    if (!in_round) fake().fail(rule.c_str());
    answers.first = lsched_sparse_create(world.at(0), &desc, &made, &why);
    EXPECT_TRUE(answers.first == LSCHED_OK || !std::string(why.text).empty());
    if (in_round) fake().fail(rule.c_str());
    if (made != nullptr) answers.second = lsched_run(made, k_limit_ns, &why);
    (void)lsched_schedule_destroy(made, k_limit_ns, &why);
    if (answers.first != LSCHED_ERR_DEVICE && answers.second != LSCHED_ERR_DEVICE) return answers;
    gradient.forget(), update.forget();
    return answers;
  }

 private:
  static void attach(lsched_world* world) {
    diagnostic why;
    lsched_cuda_config config;
    lsched_cuda_config_init(&config);
    config.device = 0;
    config.staging_bytes = 1 << 20;
    EXPECT_EQ(lsched_cuda_attach(world, &config, &why), LSCHED_OK) << why.text;
  }

  /// Returns the image of a schedule before its first round.
  static std::vector<std::byte> image_of(lsched_world* world, const lsched_sparse_desc& desc) {
    diagnostic why;
    lsched_schedule* made = nullptr;
    EXPECT_EQ(lsched_sparse_create(world, &desc, &made, &why), LSCHED_OK) << why.text;
    std::size_t bytes = 0;
    EXPECT_EQ(lsched_schedule_save(made, LSCHED_STATE_SPARSE, nullptr, 0, &bytes), LSCHED_OK);
    std::vector<std::byte> image(bytes);
    EXPECT_EQ(lsched_schedule_save(made, LSCHED_STATE_SPARSE, image.data(), bytes, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, &why), LSCHED_OK) << why.text;
    return image;
  }

  class one_rank {
   public:
    one_rank(const fake_device& gpu, lsched_world* world, std::int32_t self, const way& how, std::vector<floats>& to)
        : gpu_(gpu), world_(world), self_(self), how_(how), results_(to) {}

    void run() {
      user_buffer gradient(gpu_, how_.on_device, gradient_of(self_, 0));
      user_buffer first(gpu_, how_.on_device, floats(k_count, -1)), second(gpu_, how_.on_device, floats(k_count, -1));
      create(gradient.data(), first.data());
      CUstream stream = how_.in_streams ? gpu_.stream() : nullptr;
      for (int round = 0; round < k_rounds && made_ != nullptr; ++round) {
        user_buffer& update = how_.rebinds && round % 2 == 1 ? second : first;
        write(gradient, gradient_of(self_, round));
        if (how_.rebinds) rebind(gradient.data(), update.data());
        how_.in_streams ? run_in(stream) : run_once();
        results_.push_back(update.content());
        if (how_.is_saved && round == 1) go_on_from_image(gradient.data(), update.data());
      }
      results_.push_back(residual());
      if (stream != nullptr) {
        EXPECT_EQ(gpu_.cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
      }
      destroy();
    }

   private:
    void create(const void* gradient, void* update, const std::vector<std::byte>& image = {}) {
      const lsched_sparse_desc desc{.struct_size = sizeof desc,
                                    .gradient = gradient,
                                    .update = update,
                                    .count = k_count,
                                    .k = k_k,
                                    .dtype = LSCHED_F32,
                                    .algorithm = how_.algorithm,
                                    .scale = 0.25,
                                    .image = image.empty() ? nullptr : image.data(),
                                    .image_bytes = image.size()};
      EXPECT_EQ(lsched_sparse_create(world_, &desc, &made_, &why_), LSCHED_OK) << why_.text;
    }
    void destroy() { EXPECT_EQ(lsched_schedule_destroy(made_, k_limit_ns, &why_), LSCHED_OK) << why_.text; }

    void write(user_buffer& to, const floats& content) const {
      const std::size_t bytes = content.size() * sizeof(float);
      if (!how_.on_device)
        std::memcpy(to.data(), content.data(), bytes);
      else
        EXPECT_EQ(gpu_.fake().write(reinterpret_cast<CUdeviceptr>(to.data()), content.data(), bytes), 1);
    }
    void rebind(const void* gradient, void* update) { EXPECT_EQ(lsched_rebind(made_, &gradient, &update), LSCHED_OK); }
    void run_once() { EXPECT_EQ(lsched_run(made_, k_limit_ns, &why_), LSCHED_OK) << why_.text; }
    void run_in(CUstream stream) {
      lsched_ticket round{};
      EXPECT_EQ(lsched_start_on_stream(made_, stream, &round), LSCHED_OK);
      EXPECT_EQ(lsched_wait_on_stream(round, stream), LSCHED_OK);
      EXPECT_EQ(gpu_.cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
    }

    void go_on_from_image(const void* gradient, void* update) {
      std::size_t bytes = 0;
      EXPECT_EQ(lsched_schedule_save(made_, LSCHED_STATE_SPARSE, nullptr, 0, &bytes), LSCHED_OK);
      std::vector<std::byte> image(bytes);
      EXPECT_EQ(lsched_schedule_save(made_, LSCHED_STATE_SPARSE, image.data(), bytes, nullptr), LSCHED_OK);
      destroy();
      create(gradient, update, image);
    }

    floats residual() const {
      void* at = nullptr;
      lsched_dtype type{};
      floats all(k_count);
      EXPECT_EQ(lsched_sparse_residual(made_, &at, &type), LSCHED_OK);
      if (!how_.on_device)
        std::memcpy(all.data(), at, k_count * sizeof(float));
      else
        EXPECT_EQ(gpu_.fake().read(all.data(), reinterpret_cast<CUdeviceptr>(at), k_count * sizeof(float)), 1);
      return all;
    }

    const fake_device& gpu_;
    lsched_world* world_;
    std::int32_t self_;
    way how_;
    std::vector<floats>& results_;
    lsched_schedule* made_ = nullptr;
    diagnostic why_;
  };
};

TEST_F(CudaSparse, AllreducesHaveTheBitsOfHostMemory) {
  for (const char* const algorithm : {"oktopk", "topka"})
    for (const std::int32_t ranks : {1, 3}) {
      if (sampled() && ranks == 1) continue;
      const auto expected = run(ranks, {algorithm});
      for (const way& how :
           sampled() ? std::vector<way>{{algorithm, true, true, true, true}}
                     : std::vector<way>{way{algorithm, true}, way{algorithm, true, true},
                                        way{algorithm, true, false, true}, way{algorithm, true, true, false, true}}) {
        EXPECT_TRUE(run(ranks, how) == expected)
            << algorithm << ", " << ranks << " ranks" << (how.in_streams ? ", in streams" : "")
            << (how.rebinds ? ", rebound" : "") << (how.is_saved ? ", from an image" : "");
      }
    }
}

/// Every failure of the driver, during the creation of a schedule or in a round, must lead to a specific status. No
/// call may hang or leak.
TEST_F(CudaSparse, FaultsHaveNames) {
  constexpr int k_sticky = 700;
  const auto is_named = [](lsched_status code) {
    return code == LSCHED_OK || code == LSCHED_ERR_NOMEM || code == LSCHED_ERR_DEVICE;
  };
  for (const std::string function : {"cuMemcpyAsync", "cuEventRecord", "cuEventQuery", "cuMemAlloc", "cuLaunchKernel"})
    for (const int code : {2, 1, 801, k_sticky})
      for (const bool in_round : {false, true}) {
        if (sampled() && code != 2 && code != k_sticky) continue;
        if (in_round && function == "cuMemcpyAsync") continue;  // rounds do not call this function
        SCOPED_TRACE(function + " answers " + std::to_string(code) + (in_round ? " in a round" : " at create"));
        begin_anew();
        const std::string rule = function + ":1:" + std::to_string(code) + (code == k_sticky ? ":sticky" : "");
        const auto answers = run_once_under(rule, in_round);
        EXPECT_TRUE(is_named(answers.first)) << answers.first;
        EXPECT_TRUE(is_named(answers.second)) << answers.second;
        EXPECT_TRUE(answers.first != LSCHED_OK || answers.second != LSCHED_OK || function == "cuMemAlloc")
            << "no fault";
      }
}

/// If a copy hangs during the creation of a schedule, the library stops using the device. Memory that the device may
/// still write is not released.
TEST_F(CudaSparse, ACopyThatHangsIsGivenUp) {
  const auto answers = run_once_under("cuEventQuery:1:hang", false);
  EXPECT_EQ(answers.first, LSCHED_ERR_DEVICE);
  begin_anew();
}

}  // namespace
}  // namespace lsched::testing
