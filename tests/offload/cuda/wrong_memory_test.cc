// Tests that pass device memory to calls that do not support it. Each call must return an error, and change nothing.
#include <array>

#include "bindings/c/lsched_cuda.h"
#include "tests/offload/cuda/user_memory.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_count = 100;

class WrongMemory : public UnderTheFake {
 protected:
  static void attach(lsched_world* world, std::int32_t device = 0, std::uint64_t staging_bytes = 1 << 20) {
    lsched_cuda_config config;
    lsched_cuda_config_init(&config);
    config.device = device;
    config.staging_bytes = staging_bytes;
    diagnostic why;
    EXPECT_EQ(lsched_cuda_attach(world, &config, &why), LSCHED_OK) << why.text;
  }
  static lsched_collective_desc sum_of(const void* input, void* output) {
    return {.struct_size = sizeof(lsched_collective_desc),
            .collective = "allreduce",
            .input = input,
            .output = output,
            .count = k_count,
            .dtype = LSCHED_F32,
            .reduction = LSCHED_SUM};
  }
  static void expect_refused(lsched_world* world, const lsched_collective_desc& desc, lsched_status code,
                             const std::string& words) {
    lsched_schedule* made = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(world, &desc, &made, &why), code) << why.text;
    EXPECT_TRUE(why.says(words)) << why.text;
    EXPECT_EQ(made, nullptr);
  }
};

TEST_F(WrongMemory, OfAnotherDevice) {
  const world_of_threads world(1);
  attach(world.at(0), 1);
  user_buffer input(gpu(), true, floats(k_count)), output(gpu(), true, floats(k_count));
  expect_refused(world.at(0), sum_of(input.data(), output.data()), LSCHED_ERR_CONSTRAINT, "device 0");
}

TEST_F(WrongMemory, OfTwoDevicesInOneSchedule) {
  const world_of_threads world(1);
  attach(world.at(0), 0);
  user_buffer here(gpu(), true, floats(k_count));
  const fake_device other(1);
  user_buffer there(other, true, floats(k_count));
  expect_refused(world.at(0), sum_of(here.data(), there.data()), LSCHED_ERR_CONSTRAINT, "device 1");
}

TEST_F(WrongMemory, ThatWasFreed) {
  const world_of_threads world(1);
  attach(world.at(0));
  user_buffer output(gpu(), true, floats(k_count));
  const CUdeviceptr freed = gpu().memory(k_count * sizeof(float));
  EXPECT_EQ(cuda().cuMemFree(freed), CUDA_SUCCESS);
  expect_refused(world.at(0), sum_of(reinterpret_cast<void*>(freed), output.data()), LSCHED_ERR_ARGUMENT, "freed");
}

TEST_F(WrongMemory, ThatTheLibraryHasTakenBack) {
  const world_of_threads world(1);
  attach(world.at(0));
  user_buffer output(gpu(), true, floats(k_count));
  std::array<void*, 2> given{};
  for (void*& one : given) ASSERT_EQ(lsched_cuda_alloc(world.at(0), k_count * sizeof(float), &one), LSCHED_OK);
  const auto right = sum_of(given[1], output.data());
  lsched_schedule* made = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_collective_create(world.at(0), &right, &made, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_cuda_free(world.at(0), given[0]), LSCHED_OK);
  expect_refused(world.at(0), sum_of(given[0], output.data()), LSCHED_ERR_ARGUMENT, "freed");
  void* const results = output.data();
  EXPECT_EQ(lsched_rebind(made, &given[0], &results), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_run(made, k_limit_ns, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_cuda_free(world.at(0), given[1]), LSCHED_OK);
}

TEST_F(WrongMemory, LongerThanThePieceThatWasGiven) {
  const world_of_threads world(1);
  attach(world.at(0));
  user_buffer output(gpu(), true, floats(k_count));
  std::array<void*, 2> given{};  // two adjacent allocations
  for (void*& one : given) ASSERT_EQ(lsched_cuda_alloc(world.at(0), k_count / 2 * sizeof(float), &one), LSCHED_OK);
  expect_refused(world.at(0), sum_of(given[0], output.data()), LSCHED_ERR_ARGUMENT, "exceeds the end of the ");
  for (void* const one : given) EXPECT_EQ(lsched_cuda_free(world.at(0), one), LSCHED_OK);
}

// A second free of the same memory must fail, because a schedule may use the memory by then.
TEST_F(WrongMemory, FreedOnceMore) {
  constexpr std::uint64_t k_many = 300'000;
  const world_of_threads world(2);
  for (const std::int32_t r : {0, 1}) attach(world.at(r));
  world.each([&](lsched_world* mine, std::int32_t) {
    const context_of_thread here(gpu());
    user_buffer input(gpu(), true, floats(k_many, 1)), output(gpu(), true, floats(k_many));
    void* freed = nullptr;
    ASSERT_EQ(lsched_cuda_alloc(mine, 1, &freed), LSCHED_OK);
    EXPECT_EQ(lsched_cuda_free(mine, freed), LSCHED_OK);
    auto desc = sum_of(input.data(), output.data());
    desc.count = k_many;
    desc.algorithm = "recursive_doubling";
    lsched_schedule* sum = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_collective_create(mine, &desc, &sum, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_cuda_free(mine, freed), LSCHED_ERR_ARGUMENT) << "the memory was freed before";
    void* other = nullptr;  // gets the same memory if the second free has released it
    ASSERT_EQ(lsched_cuda_alloc(mine, k_many * sizeof(float), &other), LSCHED_OK);
    EXPECT_NE(other, freed) << "the schedule still uses the freed memory";
    EXPECT_EQ(lsched_cuda_free(mine, other), LSCHED_OK);
    EXPECT_EQ(lsched_run(sum, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_TRUE(output.content() == floats(k_many, 2));
    EXPECT_EQ(lsched_schedule_destroy(sum, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
}

TEST_F(WrongMemory, MoreThanThereCanBe) {
  const world_of_threads world(1);
  attach(world.at(0));
  for (const std::uint64_t less : {0u, 1u, 254u, 255u, 256u, 1u << 20, (2u << 20) - 1, 2u << 20, 1u << 31}) {
    void* memory = nullptr;
    EXPECT_EQ(lsched_cuda_alloc(world.at(0), UINT64_MAX - less, &memory), LSCHED_ERR_NOMEM) << less;
    EXPECT_EQ(memory, nullptr);
  }
}

TEST_F(WrongMemory, MoreStagingThanThereCanBe) {
  const world_of_threads world(2);
  for (const std::int32_t r : {0, 1}) attach(world.at(r), 0, UINT64_MAX);
  world.each([&](lsched_world* mine, std::int32_t) {
    const context_of_thread here(gpu());
    user_buffer input(gpu(), true, floats(k_count)), output(gpu(), true, floats(k_count));
    expect_refused(mine, sum_of(input.data(), output.data()), LSCHED_ERR_NOMEM, "memory");
  });
}

TEST_F(WrongMemory, LongerThanItsAllocation) {
  const world_of_threads world(1);
  attach(world.at(0));
  user_buffer output(gpu(), true, floats(k_count));
  const CUdeviceptr shorter = gpu().memory(k_count);
  expect_refused(world.at(0), sum_of(reinterpret_cast<void*>(shorter), output.data()), LSCHED_ERR_ARGUMENT,
                 "exceeds the end of the ");
  EXPECT_EQ(cuda().cuMemFree(shorter), CUDA_SUCCESS);
}

TEST_F(WrongMemory, WithArithmeticOfTheApplication) {
  lsched_user_op op{.struct_size = sizeof op,
                    .combine = [](const void*, const void*, void*, std::uint64_t, void*) {},
                    .dtype = LSCHED_F32,
                    .unit = 1};
  auto desc = sum_of(nullptr, nullptr);
  desc.reduction = lsched_reduction{};
  desc.user_op = &op;
  const world_of_threads two(2);
  two.each([&](lsched_world* mine, std::int32_t r) {
    const context_of_thread here(gpu());
    attach(mine);
    user_buffer in(gpu(), r == 0, floats(k_count)), out(gpu(), r == 0, floats(k_count));
    auto own = desc;
    own.input = in.data(), own.output = out.data();
    expect_refused(mine, own, LSCHED_ERR_UNSUPPORTED, "");
  });
}

/// The vectors of a sparse allreduce must both be in device memory or both in host memory. Reused thresholds need host
/// memory.
TEST_F(WrongMemory, OfSparseVectors) {
  const world_of_threads world(1);
  attach(world.at(0));
  user_buffer there(gpu(), true, floats(k_count));
  floats here(k_count);
  user_buffer other(gpu(), true, floats(k_count));
  const auto refuse = [&](const void* gradient, void* update, lsched_selection selection) {
    const lsched_sparse_desc desc{.struct_size = sizeof desc,
                                  .gradient = gradient,
                                  .update = update,
                                  .count = k_count,
                                  .k = 10,
                                  .dtype = LSCHED_F32,
                                  .algorithm = "oktopk",
                                  .selection = selection};
    lsched_schedule* made = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_sparse_create(world.at(0), &desc, &made, &why), LSCHED_ERR_UNSUPPORTED) << why.text;
    EXPECT_EQ(made, nullptr);
  };
  refuse(there.data(), here.data(), LSCHED_EXACT);
  refuse(here.data(), there.data(), LSCHED_EXACT);
  refuse(there.data(), other.data(), LSCHED_REUSED);
}

TEST_F(WrongMemory, OfLists) {
  const world_of_threads world(1);
  attach(world.at(0));
  user_buffer on_device(gpu(), true, floats(k_count));
  floats input(k_count), output(k_count);
  lsched_collective_desc desc{
      .struct_size = sizeof desc, .collective = "alltoallv", .dtype = LSCHED_F32, .capacity = k_count};
  lsched_schedule* lists = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_collective_create(world.at(0), &desc, &lists, &why), LSCHED_OK) << why.text;
  const std::uint64_t all = k_count;
  const lsched_counts counts{.struct_size = sizeof counts, .send_counts = &all, .recv_counts = &all};
  const auto start = [&](const void* from, void* to) {
    lsched_ticket ticket{};
    const lsched_status code = lsched_start_with(lists, &from, &to, &counts, &ticket);
    return code == LSCHED_OK ? lsched_wait(ticket, k_limit_ns, nullptr) : code;
  };
  EXPECT_EQ(start(on_device.data(), output.data()), LSCHED_ERR_UNSUPPORTED);
  EXPECT_EQ(start(input.data(), on_device.data()), LSCHED_ERR_UNSUPPORTED);
  input[k_count - 1] = 7;
  EXPECT_EQ(start(input.data(), output.data()), LSCHED_OK);
  EXPECT_EQ(output, input);
  EXPECT_EQ(lsched_schedule_destroy(lists, k_limit_ns, nullptr), LSCHED_OK);
}

TEST_F(WrongMemory, OfCountsOfARound) {
  const world_of_threads world(1);  // without an attached device
  user_buffer on_device(gpu(), true, floats(k_count));
  auto* const there = static_cast<std::uint64_t*>(on_device.data());
  floats input(k_count, 7), output(k_count);
  lsched_collective_desc desc{
      .struct_size = sizeof desc, .collective = "alltoallv", .dtype = LSCHED_F32, .capacity = k_count};
  lsched_schedule* lists = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_collective_create(world.at(0), &desc, &lists, &why), LSCHED_OK) << why.text;
  const std::uint64_t all = k_count, begin = 0;
  std::uint64_t received = 0;
  const lsched_counts right{sizeof right, &all, &begin, &all, &begin, &received};
  lsched_ticket ticket{};
  const auto start = [&](const lsched_counts& counts) {
    const void* const from = input.data();
    void* const to = output.data();
    return lsched_start_with(lists, &from, &to, &counts, &ticket);
  };
  for (auto member : {&lsched_counts::send_counts, &lsched_counts::send_displacements, &lsched_counts::recv_counts,
                      &lsched_counts::recv_displacements}) {
    lsched_counts wrong = right;
    wrong.*member = there;
    EXPECT_EQ(start(wrong), LSCHED_ERR_ARGUMENT);
  }
  lsched_counts wrong = right;
  wrong.received = there;
  EXPECT_EQ(start(wrong), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(ticket.schedule, nullptr);
  ASSERT_EQ(start(right), LSCHED_OK) << "the refused round has not started";
  EXPECT_EQ(lsched_wait(ticket, k_limit_ns, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(ticket.round, 1u);
  EXPECT_EQ(received, all);
  EXPECT_EQ(output, input);
  EXPECT_EQ(lsched_schedule_destroy(lists, k_limit_ns, nullptr), LSCHED_OK);
}

TEST_F(WrongMemory, OfArraysThatACreateReads) {
  const world_of_threads two(2);  // the creation must fail also on the rank whose arrays are right
  user_buffer on_device(gpu(), true, floats(k_count));
  const void* const there = on_device.data();
  const auto expect_named = [](lsched_status answer, const diagnostic& why, std::int32_t r, const std::string& array) {
    EXPECT_EQ(answer, LSCHED_ERR_ARGUMENT) << array;
    EXPECT_TRUE(why.says("rank 0") || r == 0) << why.text;
    EXPECT_TRUE(why.says(array + " is in device memory, but the host reads this array")) << why.text;
  };
  const std::array<std::uint64_t, 2> counts{k_count / 2, k_count / 2};
  const std::array<std::int32_t, 2> ranks{0, 1};
  const lsched_tensor whole{0, k_count};
  const lsched_collective_desc exchange{.struct_size = sizeof exchange,
                                        .collective = "alltoallv",
                                        .counts = counts.data(),
                                        .recv_counts = counts.data(),
                                        .dtype = LSCHED_F32};
  auto neighbors = exchange, adasum = sum_of(nullptr, nullptr);
  neighbors.collective = "neighbor_exchange", neighbors.destinations = neighbors.sources = ranks.data();
  neighbors.destination_count = neighbors.source_count = 2;
  adasum.collective = "adasum", adasum.reduction = lsched_reduction{};
  adasum.tensors = &whole, adasum.tensor_count = 1;
  const auto create = [&](const lsched_collective_desc& desc, auto member, const std::string& name) {
    two.each([&](lsched_world* mine, std::int32_t r) {
      floats input(k_count), output(k_count);
      auto own = desc;
      own.input = input.data(), own.output = output.data();
      if (r == 0) own.*member = static_cast<std::remove_reference_t<decltype(own.*member)>>(there);
      lsched_schedule* made = nullptr;
      diagnostic why;
      expect_named(lsched_collective_create(mine, &own, &made, &why), why, r, name);
      EXPECT_EQ(made, nullptr);
    });
  };
  create(exchange, &lsched_collective_desc::counts, "counts");
  create(exchange, &lsched_collective_desc::recv_counts, "recv_counts");
  create(neighbors, &lsched_collective_desc::destinations, "destinations");
  create(neighbors, &lsched_collective_desc::sources, "sources");
  create(adasum, &lsched_collective_desc::tensors, "tensors");
  two.each([&](lsched_world* mine, std::int32_t r) {
    lsched_partial_desc desc{.struct_size = sizeof desc,
                             .count = k_count,
                             .buckets = r == 0 ? static_cast<const std::uint64_t*>(there) : counts.data(),
                             .bucket_count = 2,
                             .dtype = LSCHED_F32,
                             .reduction = LSCHED_SUM,
                             .activation = "solo"};
    lsched_schedule* made = nullptr;
    diagnostic why;
    expect_named(lsched_partial_create(mine, &desc, &made, &why), why, r, "buckets");
    desc.collective = "adasum", desc.buckets = nullptr, desc.bucket_count = 0;
    desc.tensors = r == 0 ? static_cast<const lsched_tensor*>(there) : &whole, desc.tensor_count = 1;
    expect_named(lsched_partial_create(mine, &desc, &made, &why), why, r, "tensors");
    EXPECT_EQ(made, nullptr);
  });
  lsched_world* made = nullptr;
  diagnostic why;
  expect_named(lsched_split_ranks(two.at(0), static_cast<const std::int32_t*>(there), 2, 0, &made, &why), why, 0,
               "ranks");
  EXPECT_EQ(made, nullptr);
}

TEST_F(WrongMemory, ThatIsConverted) {
  user_buffer on_device(gpu(), true, floats(k_count));
  floats host(k_count, 3);
  EXPECT_EQ(lsched_convert(LSCHED_F32, on_device.data(), k_count, 1, LSCHED_F32, host.data()), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_convert(LSCHED_F32, host.data(), k_count, 1, LSCHED_F32, on_device.data()), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(host, floats(k_count, 3));
  EXPECT_EQ(on_device.content(), floats(k_count));
}

TEST_F(WrongMemory, OfMessages) {
  const world_of_threads world(1);
  user_buffer on_device(gpu(), true, floats(k_count));  // without an attached device
  lsched_mailbox* mailbox = nullptr;
  ASSERT_EQ(lsched_mailbox_create(world.at(0), &mailbox, nullptr), LSCHED_OK);
  lsched_message* message = nullptr;
  EXPECT_EQ(lsched_send_post(mailbox, 0, 1, on_device.data(), 8, &message), LSCHED_ERR_UNSUPPORTED);
  EXPECT_EQ(lsched_receive_post(mailbox, 0, 1, on_device.data(), 8, &message), LSCHED_ERR_UNSUPPORTED);
  EXPECT_EQ(message, nullptr);
  EXPECT_EQ(lsched_mailbox_destroy(mailbox), LSCHED_OK);
}

TEST_F(WrongMemory, OfPartialSchedules) {
  const world_of_threads world(1);
  user_buffer on_device(gpu(), true, floats(k_count));
  const std::array<std::uint64_t, 2> buckets{40, 60};
  lsched_partial_desc desc{.struct_size = sizeof desc,
                           .count = k_count,
                           .buckets = buckets.data(),
                           .bucket_count = 2,
                           .dtype = LSCHED_F32,
                           .reduction = LSCHED_SUM,
                           .activation = "solo",
                           .averages_weights = 1};
  lsched_schedule* partial = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_partial_create(world.at(0), &desc, &partial, &why), LSCHED_OK) << why.text;
  floats host(k_count, 3);
  void* const there = on_device.data();
  std::array<void*, 2> mixed{host.data(), there};
  lsched_ticket ticket{};
  EXPECT_EQ(lsched_offer(partial, mixed.data(), &ticket), LSCHED_ERR_UNSUPPORTED);
  EXPECT_EQ(lsched_offer_bucket(partial, 1, there), LSCHED_ERR_UNSUPPORTED);
  const std::array<const void*, 2> given{host.data(), host.data() + buckets[0]};
  ASSERT_EQ(lsched_offer(partial, given.data(), &ticket), LSCHED_OK);
  EXPECT_EQ(lsched_collect(ticket, mixed.data(), k_limit_ns, nullptr, &why), LSCHED_ERR_UNSUPPORTED);
  EXPECT_TRUE(why.says("device memory")) << why.text;
  EXPECT_EQ(lsched_flush(partial, mixed.data(), k_limit_ns, nullptr, &why), LSCHED_ERR_UNSUPPORTED);
  EXPECT_EQ(lsched_model_sync(partial, there, k_limit_ns, nullptr, &why), LSCHED_ERR_UNSUPPORTED);
  floats result(k_count);
  const std::array<void*, 2> taken{result.data(), result.data() + buckets[0]};
  EXPECT_EQ(lsched_collect(ticket, taken.data(), k_limit_ns, nullptr, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(result, host);
  EXPECT_EQ(lsched_schedule_destroy(partial, k_limit_ns, &why), LSCHED_OK) << why.text;
}

TEST_F(WrongMemory, AStreamThatIsCaptured) {
  const auto begin = LSCHED_CUDA_FUNCTION(cuStreamBeginCapture, 10010);
  const auto end = LSCHED_CUDA_FUNCTION(cuStreamEndCapture, 10000);
  const auto destroy = LSCHED_CUDA_FUNCTION(cuGraphDestroy, 10000);
  const world_of_threads world(1);
  attach(world.at(0));
  user_buffer input(gpu(), true, floats(k_count, 2)), output(gpu(), true, floats(k_count));
  const auto desc = sum_of(input.data(), output.data());
  lsched_schedule* sum = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_collective_create(world.at(0), &desc, &sum, &why), LSCHED_OK) << why.text;
  const CUstream stream = gpu().stream(CU_STREAM_DEFAULT);
  ASSERT_EQ(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  lsched_ticket ticket{};
  for (const CUstream each : {stream, CUstream{nullptr}})  // the default stream would wait for the captured stream
    EXPECT_EQ(lsched_start_on_stream(sum, each, &ticket), LSCHED_ERR_UNSUPPORTED);
  EXPECT_EQ(lsched_run(sum, k_limit_ns, &why), LSCHED_OK) << "rounds beside a capture: " << why.text;
  ASSERT_EQ(lsched_start(sum, &ticket), LSCHED_OK);
  for (const CUstream each : {stream, CUstream{nullptr}})
    EXPECT_EQ(lsched_wait_on_stream(ticket, each), LSCHED_ERR_UNSUPPORTED);
  EXPECT_EQ(lsched_wait(ticket, k_limit_ns, &why), LSCHED_OK) << why.text;
  CUgraph graph = nullptr;
  EXPECT_EQ(end(stream, &graph), CUDA_SUCCESS) << "the library ended the capture";
  EXPECT_EQ(destroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(lsched_schedule_destroy(sum, k_limit_ns, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
}

}  // namespace
}  // namespace lsched::testing
