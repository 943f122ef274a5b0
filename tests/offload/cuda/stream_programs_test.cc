// Random programs over streams. Each rank has several schedules, streams and events, and starts rounds before earlier
// rounds have ended. The order of steps differs from rank to rank wherever this is permitted. The results must equal
// the results of a sequential execution of the steps.
//
// The steps on the buffers of one schedule happen in program order: each step makes its stream wait for the previous
// step. If the previous step is a round, the stream waits for the round. Otherwise the stream waits for an event of the
// previous step's stream. All ranks start rounds in the same order.
#include <algorithm>
#include <memory>

#include "bindings/c/lsched_cuda.h"
#include "libsched/schedule/draw.h"
#include "tests/offload/cuda/under_the_fake.h"
#include "tests/offload/cuda/user_memory.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

using numbers = std::vector<std::int64_t>;

constexpr std::uint64_t k_count = 48;
constexpr std::size_t k_bytes = k_count * sizeof(std::int64_t);

enum class step_kind : std::uint8_t { bring, feed_back, round, take };

/// An operation on the buffers of one schedule. All ranks have the same steps.
struct step {
  step_kind kind;
  std::size_t schedule;
};

struct program {
  std::int32_t ranks;
  std::size_t schedules, streams;
  std::vector<step> steps;
};

program draw_program(std::uint64_t seed) {
  std::uint64_t draws = 0;
  const auto below = [&](std::uint64_t limit) { return mix(mix(seed) + ++draws) % limit; };
  program made{static_cast<std::int32_t>(1 + below(3)), 1 + below(3), 1 + below(4), {}};
  for (std::size_t k = 0; k < made.schedules; ++k) made.steps.push_back({step_kind::bring, k});
  for (std::uint64_t left = 5 + below(30); left > 0; --left)
    made.steps.push_back({static_cast<step_kind>(std::min<std::uint64_t>(below(6), 3)), below(made.schedules)});
  for (std::size_t k = 0; k < made.schedules; ++k) made.steps.push_back({step_kind::take, k});
  return made;
}

/// Returns the input that a rank writes in a step.
numbers brought_in(std::uint64_t seed, std::int32_t rank, std::size_t step) {
  numbers all(k_count);
  for (std::uint64_t i = 0; i < k_count; ++i)
    all[i] = static_cast<std::int64_t>(mix(seed * 31 + static_cast<std::uint64_t>(rank) * 7 + step * 1001 + i) % 1000);
  return all;
}

/// Returns the expected outputs of rank 0, in the order of the steps. The function executes the steps one after the
/// other. All ranks have the same outputs.
std::vector<numbers> oracle(const program& whole, std::uint64_t seed) {
  std::vector<std::vector<numbers>> inputs(whole.schedules), outputs(whole.schedules);
  for (auto* all : {&inputs, &outputs})
    for (auto& of : *all) of.assign(static_cast<std::size_t>(whole.ranks), numbers(k_count));
  std::vector<numbers> taken;
  for (std::size_t s = 0; s < whole.steps.size(); ++s) {
    const auto [kind, k] = whole.steps[s];
    numbers sum(k_count);
    for (const numbers& input : inputs[k])
      for (std::uint64_t i = 0; i < k_count; ++i) sum[i] += input[i];
    for (std::int32_t r = 0; r < whole.ranks; ++r) {
      numbers &input = inputs[k][static_cast<std::size_t>(r)], &output = outputs[k][static_cast<std::size_t>(r)];
      if (kind == step_kind::bring) input = brought_in(seed, r, s);
      if (kind == step_kind::feed_back) input = output;
      if (kind == step_kind::round) output = sum;
    }
    if (kind == step_kind::take) taken.push_back(outputs[k].front());
  }
  return taken;
}

CUdeviceptr address_of(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

/// A rank that executes a program.
class performer {
 public:
  performer(const fake_device& gpu, lsched_world* world, const program& whole, std::int32_t self, std::uint64_t seed)
      : gpu_(gpu), here_(gpu), whole_(whole), rank_(self), seed_(seed), draws_(static_cast<std::uint64_t>(self) << 32) {
    const std::size_t places = whole.steps.size();
    pinned_ = gpu.pinned<std::int64_t>(k_count * places);
    for (std::size_t i = 0; i < whole.streams; ++i) streams_.push_back(gpu.stream());
    for (std::size_t k = 0; k < whole.schedules; ++k) add_schedule(world);
  }
  ~performer() {
    diagnostic why;
    for (const one_schedule& each : all_) {
      EXPECT_EQ(lsched_schedule_destroy(each.schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(gpu_.cuda().cuEventDestroy(each.event), CUDA_SUCCESS);
      for (const CUdeviceptr memory : {each.input, each.output}) EXPECT_EQ(gpu_.cuda().cuMemFree(memory), CUDA_SUCCESS);
    }
    for (const CUstream stream : streams_) EXPECT_EQ(gpu_.cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
    EXPECT_EQ(gpu_.cuda().cuMemFreeHost(pinned_), CUDA_SUCCESS);
  }
  performer(const performer&) = delete;
  performer& operator=(const performer&) = delete;

  /// Executes the program. Returns the outputs that were copied, in the order of the steps.
  std::vector<numbers> run() {
    for (std::size_t s = 0; s < whole_.steps.size(); ++s) perform(s);
    for (const CUstream stream : streams_) EXPECT_EQ(gpu_.cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
    std::vector<numbers> taken;
    for (std::size_t s = 0; s < whole_.steps.size(); ++s)
      if (whole_.steps[s].kind == step_kind::take) taken.emplace_back(place_of(s), place_of(s) + k_count);
    return taken;
  }

 private:
  struct one_schedule {
    lsched_schedule* schedule;
    CUdeviceptr input, output;
    CUevent event;
    CUstream last = nullptr;  ///< stream of the last step, unless the last step is a round
    lsched_ticket round{};    ///< the last step, if the last step is a round
    bool has_step = false, is_round = false;
  };

  void add_schedule(lsched_world* world) {
    one_schedule made{nullptr, gpu_.memory(k_bytes), gpu_.memory(k_bytes), gpu_.event()};
    const numbers zeros(k_count);
    EXPECT_EQ(gpu_.fake().write(made.output, zeros.data(), k_bytes), 1);
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = reinterpret_cast<void*>(made.input),
                                      .output = reinterpret_cast<void*>(made.output),
                                      .count = k_count,
                                      .dtype = LSCHED_I64,
                                      .reduction = LSCHED_SUM};
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(world, &desc, &made.schedule, &why), LSCHED_OK) << why.text;
    all_.push_back(made);
  }

  std::int64_t* place_of(std::size_t step) const { return pinned_ + step * k_count; }
  std::uint64_t below(std::uint64_t limit) { return mix(mix(seed_ + 1) ^ ++draws_) % limit; }

  /// Makes the stream wait for the last step on the schedule's buffers.
  void follow(one_schedule& it, CUstream stream) {
    if (it.is_round) {
      EXPECT_EQ(lsched_wait_on_stream(it.round, stream), LSCHED_OK);
    } else if (it.has_step && it.last != stream) {
      EXPECT_EQ(gpu_.cuda().cuEventRecord(it.event, it.last), CUDA_SUCCESS);
      EXPECT_EQ(gpu_.cuda().cuStreamWaitEvent(stream, it.event, 0), CUDA_SUCCESS);
    }
  }

  void copy(CUdeviceptr to, CUdeviceptr from, CUstream stream) const {
    EXPECT_EQ(gpu_.cuda().cuMemcpyAsync(to, from, k_bytes, stream), CUDA_SUCCESS);
  }

  void start(one_schedule& it, CUstream stream) {
    lsched_ticket next{};
    lsched_status answer = lsched_start_on_stream(it.schedule, stream, &next);
    if (answer == LSCHED_ERR_BUSY) {
      EXPECT_EQ(lsched_wait(it.round, k_limit_ns, nullptr), LSCHED_OK);
      answer = lsched_start_on_stream(it.schedule, stream, &next);
    }
    EXPECT_EQ(answer, LSCHED_OK);
    it.round = next;
  }

  void perform(std::size_t s) {
    const auto [kind, k] = whole_.steps[s];
    one_schedule& it = all_[k];
    const CUstream stream = streams_[below(streams_.size())];
    const bool is_ahead = kind == step_kind::round && it.is_round;  // rounds of one schedule run in order in any case
    if (!is_ahead) follow(it, stream);
    if (kind == step_kind::bring) {
      std::ranges::copy(brought_in(seed_, rank_, s), place_of(s));
      copy(it.input, address_of(place_of(s)), stream);
    }
    if (kind == step_kind::feed_back) copy(it.input, it.output, stream);
    if (kind == step_kind::round) start(it, stream);
    if (kind == step_kind::take) copy(address_of(place_of(s)), it.output, stream);
    it.has_step = true;
    it.is_round = kind == step_kind::round;
    if (!it.is_round) it.last = stream;
  }

  const fake_device& gpu_;
  context_of_thread here_;
  const program& whole_;
  std::int32_t rank_;
  std::uint64_t seed_, draws_;
  std::int64_t* pinned_ = nullptr;
  std::vector<CUstream> streams_;
  std::vector<one_schedule> all_;
};

class StreamPrograms : public UnderTheFake {
 protected:
  /// Runs the programs of `number` seeds, each in a new world. In every third program, lsched_wait_on_stream waits on
  /// the host.
  void run(std::uint64_t first, std::uint64_t number) {
    for (std::uint64_t seed = first; seed < first + number && !HasFailure(); ++seed) {
      const program whole = draw_program(seed);
      const std::vector<numbers> expected = oracle(whole, seed);
      const world_of_threads world(whole.ranks);
      world.each([&](lsched_world* mine, std::int32_t r) {
        diagnostic why;
        lsched_cuda_config config;
        lsched_cuda_config_init(&config);
        config.device = 0;
        config.staging_bytes = 1 << 18;
        config.host_waits = seed % 3 == 0 ? 1 : 0;
        ASSERT_EQ(lsched_cuda_attach(mine, &config, &why), LSCHED_OK) << why.text;
        performer me(gpu(), mine, whole, r, seed);
        EXPECT_TRUE(me.run() == expected) << "seed " << seed << ", rank " << r;
      });
    }
  }
};

TEST_F(StreamPrograms, DoWhatTheirStepsDoOneAfterTheOther) { run(1, 300); }
TEST_F(StreamPrograms, SoakDoWhatTheirStepsDo) {
  alarm(3600);
  run(1000, 10'000);
}

}  // namespace
}  // namespace lsched::testing
