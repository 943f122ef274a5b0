#include "tests/offload/cuda/life_of_a_world.h"

#include <algorithm>
#include <thread>

namespace lsched::testing {
namespace {

/// Calls `call`. If the call fails, calls `call` again. The second call must succeed, because a fault that is not
/// permanent happens only once, and a failed call changes nothing.
template <class Call>
lsched_status twice(const Call& call) {
  const lsched_status answer = call();
  return answer == LSCHED_OK ? answer : call();
}

}  // namespace

life_of_a_world::life_of_a_world(const fake_device& gpu) : gpu_(gpu) {
  std::array<lsched_world*, k_ranks> worlds{};
  const lsched_config config = test_config();
  diagnostic why;
  EXPECT_EQ(lsched_world_open_threads(k_ranks, &config, worlds.data(), &why), LSCHED_OK) << why.text;
  for (std::size_t r = 0; r < k_ranks; ++r) {
    rank_of_life& mine = ranks_[r];
    mine.world = worlds[r];
    mine.input = std::make_unique<user_buffer>(gpu, has_device(r), input_of(r));
    mine.output = std::make_unique<user_buffer>(gpu, has_device(r), floats(k_count, -1));
    mine.host_input = input_of(r);
    mine.host_output = floats(k_count, -1);
    if (has_device(r)) mine.stream = gpu.stream();
  }
  each([](rank_of_life& mine, std::size_t) {
    const answer made = create(mine, mine.host_input.data(), mine.host_output.data(), mine.of_host);
    EXPECT_EQ(made.code, LSCHED_OK) << made.words;
  });
}

life_of_a_world::~life_of_a_world() {
  for (const rank_of_life& mine : ranks_) {
    EXPECT_EQ(mine.world, nullptr) << "a world was left open";
    EXPECT_TRUE(mine.stream == nullptr || gpu_.cuda().cuStreamDestroy(mine.stream) == CUDA_SUCCESS);
  }
}

void life_of_a_world::forget_driver() {
  for (rank_of_life& mine : ranks_) {
    mine.input->forget();
    mine.output->forget();
    mine.stream = nullptr;
  }
}

void life_of_a_world::each(const std::function<void(rank_of_life&, std::size_t)>& body) {
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < k_ranks; ++r) threads.emplace_back([&, r] { body(ranks_[r], r); });
}

std::vector<answer> life_of_a_world::take(life_step step) {
  std::vector<answer> all(k_ranks);
  each([&](rank_of_life& mine, std::size_t r) {
    switch (step) {
      case life_step::attach: all[r] = has_device(r) ? attach(mine) : answer{}; break;
      case life_step::create: all[r] = create(mine, mine.input->data(), mine.output->data(), mine.schedule); break;
      case life_step::run: all[r] = run(mine); break;
      case life_step::stream: all[r] = has_device(r) ? run_in_stream(mine) : run(mine); break;
      case life_step::destroy: all[r] = destroy(mine); break;
      case life_step::close: all[r].code = lsched_world_close(std::exchange(mine.world, nullptr)); break;
    }
  });
  return all;
}

answer life_of_a_world::attach(rank_of_life& mine) {
  diagnostic why;
  lsched_cuda_config config;
  lsched_cuda_config_init(&config);
  config.device = 0;
  config.staging_bytes = 1 << 20;
  const lsched_status code = lsched_cuda_attach(mine.world, &config, &why);
  return {code, why.text, why.rank};
}

answer life_of_a_world::create(rank_of_life& mine, void* input, void* output, lsched_schedule*& made) {
  diagnostic why;
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = "allreduce",
                                    .input = input,
                                    .output = output,
                                    .count = k_count,
                                    .dtype = LSCHED_F32,
                                    .reduction = LSCHED_SUM,
                                    .segment_bytes = 1 << 20};
  const lsched_status code = lsched_collective_create(mine.world, &desc, &made, &why);
  return {code, why.text, why.rank};
}

answer life_of_a_world::run(rank_of_life& mine) const {
  if (mine.schedule == nullptr) return {};
  for (int round = 0; round < 2; ++round) {
    diagnostic why;
    const lsched_status code = lsched_run(mine.schedule, k_call_ns, &why);
    if (code != LSCHED_OK) return {code, why.text, why.rank};
  }
  return {};
}

// Runs two rounds. If this rank cannot start a round, it cancels the schedule, because the other ranks would wait for
// this rank.
answer life_of_a_world::run_in_stream(rank_of_life& mine) const {
  if (mine.schedule == nullptr) return {};
  lsched_ticket ticket{};
  for (int round = 0; round < 2; ++round) {
    lsched_status code = twice([&] { return lsched_start_on_stream(mine.schedule, mine.stream, &ticket); });
    if (code == LSCHED_OK) code = twice([&] { return lsched_wait_on_stream(ticket, mine.stream); });
    diagnostic why;
    if (code == LSCHED_OK) continue;
    if (ticket.schedule != nullptr && lsched_wait(ticket, 0, &why) == code) return {code, why.text, why.rank};
    (void)lsched_cancel(mine.schedule, &why);
    return {code, k_no_diagnostic};
  }
  diagnostic why;
  const lsched_status code = lsched_wait(ticket, k_call_ns, &why);
  return {code, why.text, why.rank};
}

answer life_of_a_world::destroy(rank_of_life& mine) {
  diagnostic why;
  EXPECT_EQ(lsched_schedule_destroy(mine.of_host, k_call_ns, &why), LSCHED_OK) << why.text;
  why = {};
  const lsched_status code = lsched_schedule_destroy(std::exchange(mine.schedule, nullptr), k_call_ns, &why);
  return {code, why.text, why.rank};
}

std::string life_of_a_world::add_up_host_memory() {
  std::array<std::string, k_ranks> all;
  const floats expected = sum();
  each([&](rank_of_life& mine, std::size_t r) {
    std::ranges::fill(mine.host_output, -1.f);
    diagnostic why;
    if (lsched_run(mine.of_host, k_call_ns, &why) != LSCHED_OK)
      all[r] = std::string(why.text) + "; ";
    else if (mine.host_output != expected)
      all[r] = "a wrong sum; ";
  });
  return all[0] + all[1] + all[2];
}

bool life_of_a_world::are_streams_free() const {
  return std::ranges::all_of(ranks_, [&](const rank_of_life& mine) {
    return mine.stream == nullptr || gpu_.fake().pending(mine.stream) == 0;
  });
}

std::string life_of_a_world::describe(std::size_t rank) const {
  std::array<char, 512> text{};
  EXPECT_EQ(lsched_world_describe(ranks_[rank].world, text.data(), text.size()), LSCHED_OK);
  return text.data();
}

floats life_of_a_world::input_of(std::size_t rank) {
  floats all(k_count);
  for (std::size_t i = 0; i < k_count; ++i) all[i] = static_cast<float>((rank + 1) * (i % 1000));
  return all;
}

floats life_of_a_world::sum() {
  floats all(k_count);
  for (std::size_t r = 0; r < k_ranks; ++r) {
    const floats one = input_of(r);
    for (std::size_t i = 0; i < k_count; ++i) all[i] += one[i];
  }
  return all;
}

}  // namespace lsched::testing
