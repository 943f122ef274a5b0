// Tests of device memory that ranks in other processes read in place. The tests cover memory that cannot be opened, and
// the closing of opened memory. The ranks are processes, because ranks of one process do not open each other's memory.
// This file belongs to the same program as processes_test.cc.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <vector>

#include "tests/offload/cuda/process_ranks.h"
#include "tests/support/shared_object.h"

namespace lsched::testing {
namespace {

/// Number of elements. A buffer is larger than the driver's granularity, so that each buffer has its own area.
constexpr std::uint64_t k_elements = 1 << 20;

/// An allreduce over host memory. The allreduce exists during a whole test.
class host_sum {
 public:
  explicit host_sum(lsched_world* world) : ranks_(lsched_size(world)) {
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = input_.data(),
                                      .output = output_.data(),
                                      .count = input_.size(),
                                      .dtype = LSCHED_F32,
                                      .reduction = LSCHED_SUM};
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(world, &desc, &sum_, &why), LSCHED_OK) << why.text;
  }
  ~host_sum() { EXPECT_EQ(lsched_schedule_destroy(sum_, k_limit_ns, nullptr), LSCHED_OK); }
  host_sum(const host_sum&) = delete;
  host_sum& operator=(const host_sum&) = delete;

  void expect_right() {
    diagnostic why;
    EXPECT_EQ(lsched_run(sum_, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(output_[0], static_cast<float>(ranks_));
  }

 private:
  rank ranks_;
  floats input_ = floats(1000, 1), output_ = floats(1000);
  lsched_schedule* sum_ = nullptr;
};

enum class memory_of : std::uint8_t { host, library, application };

/// The input and the output of a rank, and an allreduce over the buffers of all ranks.
class buffer_sum {
 public:
  buffer_sum(lsched_world* world, const fake_device& gpu, std::size_t elements, memory_of whose = memory_of::library)
      : world_(world),
        gpu_(gpu),
        self_(lsched_rank(world)),
        ranks_(lsched_size(world)),
        whose_(whose),
        numbers_(numbers_of(elements * sizeof(float), self_)),
        result_(elements) {
    take_memory();
  }
  ~buffer_sum() { give_back(input_), give_back(output_); }
  buffer_sum(const buffer_sum&) = delete;
  buffer_sum& operator=(const buffer_sum&) = delete;

  void create() {
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = input_,
                                      .output = output_,
                                      .count = numbers_.size(),
                                      .dtype = LSCHED_F32,
                                      .reduction = LSCHED_SUM,
                                      .segment_bytes = 1 << 20};  // needed because some ranks may have no device
    diagnostic why;
    ASSERT_EQ(lsched_collective_create(world_, &desc, &sum_, &why), LSCHED_OK) << why.text;
  }
  void destroy() {
    diagnostic why;
    EXPECT_EQ(lsched_schedule_destroy(std::exchange(sum_, nullptr), k_limit_ns, &why), LSCHED_OK) << why.text;
  }
  lsched_status run(diagnostic& why) { return lsched_run(sum_, k_limit_ns, &why); }

  /// Runs a round that a stream starts and waits for. Rank 0 starts last.
  lsched_status run_in_stream(host_sum& meeting, diagnostic& why) {
    const CUstream stream = gpu_.stream();
    lsched_ticket ticket{};
    if (self_ == 0) meeting.expect_right();
    EXPECT_EQ(lsched_start_on_stream(sum_, stream, &ticket), LSCHED_OK);
    EXPECT_EQ(lsched_wait_on_stream(ticket, stream), LSCHED_OK);
    if (self_ != 0) meeting.expect_right();
    EXPECT_TRUE(wait_until([&] { return gpu_.fake().pending(stream) == 0; })) << "the stream waits forever";
    const lsched_status code = lsched_wait(ticket, k_limit_ns, &why);
    EXPECT_EQ(gpu_.cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
    return code;
  }
  void expect_right_round() {
    diagnostic why;
    EXPECT_EQ(run(why), LSCHED_OK) << why.text;
    floats expected(numbers_.size());
    if (whose_ != memory_of::host) {
      EXPECT_EQ(gpu_.fake().read(result_.data(), address_of(output_), bytes()), 1);
    }
    for (rank r = 0; r < ranks_; ++r) {
      const floats theirs = numbers_of(bytes(), r);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += theirs[i];
    }
    EXPECT_TRUE(result_ == expected) << result_[0] << ", not " << expected[0];
  }
  /// Creates the schedule, runs a round, and destroys the schedule.
  void expect_right() {
    create();
    expect_right_round();
    destroy();
  }
  /// Rebinds the schedule to other memory, and frees the old memory.
  void rebind() {
    void *const input = input_, *const output = output_;
    take_memory();
    EXPECT_EQ(lsched_rebind(sum_, &input_, &output_), LSCHED_OK);
    give_back(input), give_back(output);
  }

 private:
  static CUdeviceptr address_of(void* place) { return reinterpret_cast<CUdeviceptr>(place); }
  std::size_t bytes() const { return numbers_.size() * sizeof(float); }

  void take_memory() {
    input_ = numbers_.data(), output_ = result_.data();
    if (whose_ == memory_of::host) return;
    for (void** const one : {&input_, &output_}) {
      if (whose_ == memory_of::application) *one = reinterpret_cast<void*>(gpu_.memory(bytes()));
      if (whose_ == memory_of::library) {
        EXPECT_EQ(lsched_cuda_alloc(world_, bytes(), one), LSCHED_OK);
      }
    }
    EXPECT_EQ(gpu_.fake().write(address_of(input_), numbers_.data(), bytes()), 1);
  }
  void give_back(void* place) const {
    const bool is_given_back =
        whose_ == memory_of::host || (whose_ == memory_of::library && lsched_cuda_free(world_, place) == LSCHED_OK) ||
        (whose_ == memory_of::application && gpu_.cuda().cuMemFree(address_of(place)) == CUDA_SUCCESS);
    EXPECT_TRUE(is_given_back);
  }

  lsched_world* world_;
  const fake_device& gpu_;
  rank self_, ranks_;
  memory_of whose_;
  floats numbers_, result_;
  void *input_ = nullptr, *output_ = nullptr;
  lsched_schedule* sum_ = nullptr;
};

/// Calls `life` in each of `ranks` processes, each with its own driver. All resources must be released.
std::string live_as_ranks(rank ranks, const std::function<void(const fake_device&)>& life, rank killed = k_no_rank) {
  return run_as_ranks(
      ranks, [&](rank) { return with_driver(life); }, killed);
}

// --- memory that cannot be opened ------------------------------------------------------------------------------------

/// A scope in which the process cannot open more file descriptors.
class no_descriptors {
 public:
  no_descriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    const rlimit now{static_cast<rlim_t>(next), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~no_descriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  no_descriptors(const no_descriptors&) = delete;
  no_descriptors& operator=(const no_descriptors&) = delete;

 private:
  rlimit before_{};
};

constexpr const char* k_no_descriptors = "pidfd_getfd";

/// Returns the calls that fail on rank 0, one call in each run. In the run of pidfd_getfd, the process has no free file
/// descriptors. Builds with sanitizers omit this run. The undefined behaviour sanitizer needs a pipe to check the type
/// of an object, and reports valid objects if it cannot open the pipe.
std::vector<const char*> calls_that_fail() {
  std::vector<const char*> calls = {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap",
                                    "cuMemSetAccess"};
#ifndef __SANITIZE_ADDRESS__
  calls.push_back(k_no_descriptors);
#endif
  return calls;
}

/// Rank 0 cannot open the memory of the other ranks. If `call` is k_no_descriptors, opening fails as long as `still`
/// exists. In all other cases, the call fails once.
void fail_to_open(const fake_device& gpu, const std::string& call) {
  const rank_of_process mine(true);
  const bool is_first = lsched_rank(mine.world()) == 0;
  host_sum of_host(mine.world());
  buffer_sum sum(mine.world(), gpu, k_elements);
  sum.create();
  {
    std::optional<no_descriptors> still;
    if (is_first && call == k_no_descriptors) still.emplace();
    if (is_first && call != k_no_descriptors) gpu.fake().fail((call + ":1:2").c_str());
    diagnostic why;
    EXPECT_EQ(sum.run_in_stream(of_host, why), is_first ? LSCHED_ERR_DEVICE : LSCHED_ERR_CANCELLED) << why.text;
    if (is_first) {
      EXPECT_TRUE(why.says("device memory of rank") && why.says(call)) << why.text;
    } else {
      EXPECT_EQ(why.rank, 0) << why.text;
    }
    of_host.expect_right();
    sum.destroy();
    if (still) sum.expect_right();  // without free descriptors, memory of peers is copied
  }
  if (call == k_no_descriptors && !is_first) sum.expect_right();
  sum.expect_right();
  EXPECT_GE(mine.messages_read_directly(), 2u) << "no buffer was published again";
}

TEST(CudaPeers, MemoryThatCannotBeOpenedFailsTheRoundOnAllRanks) {
  for (const char* const call : calls_that_fail())
    for (const rank ranks : {2, 3})
      EXPECT_EQ(live_as_ranks(ranks, [&](const fake_device& gpu) { fail_to_open(gpu, call); }), "")
          << call << ", " << ranks << " ranks";
}

// --- attaching again -------------------------------------------------------------------------------------------------

/// The first attempt of the last rank to attach its device fails, and the second succeeds. Between the attempts, all
/// ranks run a round. In this round, the other ranks must not use memory that the failed attempt exposed.
void attach_again(const fake_device& gpu, bool hangs) {
  rank_of_process mine(false);
  const bool is_last = lsched_rank(mine.world()) == lsched_size(mine.world()) - 1;
  diagnostic why;
  if (is_last) {
    hangs ? gpu.fake().hold() : gpu.fake().fail("cuStreamCreateWithPriority:1:2");
    EXPECT_EQ(mine.attach(LSCHED_CUDA_PEERS_AUTO, why), hangs ? LSCHED_ERR_DEVICE : LSCHED_ERR_NOMEM) << why.text;
    gpu.fake().go_on();
  } else {
    EXPECT_EQ(mine.attach(LSCHED_CUDA_PEERS_AUTO, why), LSCHED_OK) << why.text;
  }
  constexpr std::size_t k_in_the_first_area = 100'000;
  buffer_sum(mine.world(), gpu, k_in_the_first_area, is_last ? memory_of::host : memory_of::library).expect_right();
  if (is_last) {
    EXPECT_EQ(mine.attach(LSCHED_CUDA_PEERS_AUTO, why), LSCHED_OK) << why.text;
  }
  buffer_sum(mine.world(), gpu, k_in_the_first_area).expect_right();
  buffer_sum(mine.world(), gpu, k_elements).expect_right();
  EXPECT_GE(mine.messages_read_directly(), 2u);
}

TEST(CudaPeers, AttachThatFailsShowsNothing) {
  for (const rank ranks : {2, 3})
    EXPECT_EQ(
        run_as_ranks(ranks, [](rank) { return with_driver([](const fake_device& gpu) { attach_again(gpu, false); }); }),
        "");
}

// A device that hangs never releases its memory. Therefore this test does not check for leaks.
TEST(CudaPeers, AttachToADeviceThatHangsShowsNothing) {
  EXPECT_EQ(run_as_ranks(2,
                         [](rank) {
                           const fake_device gpu;
                           if (!gpu.is_there()) return 2;
                           attach_again(gpu, true);
                           return ::testing::Test::HasFailure() ? 1 : 0;
                         }),
            "");
}

// --- the closing of opened memory ------------------------------------------------------------------------------------

constexpr std::size_t k_short = 100'000;  ///< number of elements for which a buffer is read in place

/// Returns the number of allocations that this process has open and that applications in other processes have made.
std::uint64_t open_imports(const fake_device& gpu) {
  return gpu.fake().calls("cuIpcOpenMemHandle") - gpu.fake().calls("cuIpcCloseMemHandle");
}

/// Returns the number of areas that this process has mapped and that the library in other processes has allocated.
std::uint64_t mapped_imports(const fake_device& gpu) {
  return gpu.fake().calls("cuMemImportFromShareableHandle") - gpu.fake().calls("cuMemUnmap");
}

/// Sums many buffers, one after the other. Their number exceeds the number of buffers that a rank can expose at a time.
void sum_many_buffers(const fake_device& gpu) {
  const rank_of_process mine(true, LSCHED_CUDA_PEERS_ALWAYS);
  for (int i = 0; i < 80; ++i) {
    const std::uint64_t before = mine.messages_read_directly();
    buffer_sum(mine.world(), gpu, k_short, memory_of::application).expect_right();
    EXPECT_GT(mine.messages_read_directly(), before) << "number " << i << " is not published";
  }
  EXPECT_GE(gpu.fake().calls("cuIpcOpenMemHandle"), 80u);
  EXPECT_TRUE(wait_until([&] { return open_imports(gpu) == 0; }));
}

TEST(CudaPeers, MemoryOfApplicationsIsClosedWithTheLastScheduleThatReadsIt) {
  for (const rank ranks : {2, 3}) EXPECT_EQ(live_as_ranks(ranks, sum_many_buffers), "");
}

void rebind_many_times(const fake_device& gpu) {
  const rank_of_process mine(true, LSCHED_CUDA_PEERS_ALWAYS);
  buffer_sum sum(mine.world(), gpu, k_short, memory_of::application);
  sum.create();
  sum.expect_right_round();
  const std::uint64_t at_a_time = open_imports(gpu);
  for (int i = 0; i < 80; ++i) {
    sum.rebind();
    sum.expect_right_round();
  }
  EXPECT_TRUE(wait_until([&] { return open_imports(gpu) <= at_a_time; }));
  EXPECT_GT(mine.messages_read_directly(), 80u);
  sum.destroy();
}

TEST(CudaPeers, MemoryOfApplicationsIsClosedOnceOtherMemoryIsRead) {
  EXPECT_EQ(live_as_ranks(2, rebind_many_times), "");
}

/// Closes opened memory while a stream of the application has pending work. The driver waits for this work before it
/// closes the memory.
void close_beside_a_stream(const fake_device& gpu) {
  const rank_of_process mine(true, LSCHED_CUDA_PEERS_ALWAYS);
  buffer_sum first(mine.world(), gpu, k_short, memory_of::application);
  buffer_sum second(mine.world(), gpu, k_short, memory_of::application);
  first.create();
  first.expect_right_round();
  EXPECT_GE(open_imports(gpu), 1u);
  const CUstream stream = gpu.stream();
  const CUevent event = gpu.event();
  gpu.fake().hold_stream(stream, 1);
  EXPECT_EQ(gpu.cuda().cuEventRecord(event, stream), CUDA_SUCCESS);
  first.destroy();
  second.expect_right();
  gpu.fake().hold_stream(stream, 0);
  EXPECT_TRUE(wait_until([&] { return open_imports(gpu) == 0; }));
  EXPECT_EQ(gpu.cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(gpu.cuda().cuEventDestroy(event), CUDA_SUCCESS);
}

TEST(CudaPeers, RoundsDoNotWaitForWhatIsClosed) { EXPECT_EQ(live_as_ranks(2, close_beside_a_stream), ""); }

constexpr rank k_killed = 1;

void outlive_a_peer(const fake_device& gpu) {
  const rank_of_process mine(true);
  buffer_sum sum(mine.world(), gpu, k_elements);
  sum.create();
  sum.expect_right_round();
  if (lsched_rank(mine.world()) == k_killed) raise(SIGKILL);
  EXPECT_GE(mapped_imports(gpu), 2u) << "no memory was read in place";
  diagnostic why;
  EXPECT_EQ(sum.run(why), LSCHED_ERR_PEER) << why.text;
  sum.destroy();
  EXPECT_TRUE(wait_until([&] { return mapped_imports(gpu) == 0; }));
}

TEST(CudaPeers, MemoryOfARankThatIsKilledIsClosed) { EXPECT_EQ(live_as_ranks(2, outlive_a_peer, k_killed), ""); }

/// Rank 0 destroys its schedule after the other rank has closed its world.
void close_in_turn(const fake_device& gpu, std::atomic<bool>& has_closed) {
  {
    const rank_of_process mine(true);
    const bool is_first = lsched_rank(mine.world()) == 0;
    buffer_sum sum(mine.world(), gpu, k_elements);
    sum.create();
    sum.expect_right_round();
    if (is_first) {
      EXPECT_GE(mapped_imports(gpu), 2u) << "no memory was read in place";
      EXPECT_TRUE(wait_until([&] { return has_closed.load(); }));
    }
    sum.destroy();
    if (is_first) {
      EXPECT_TRUE(wait_until([&] { return mapped_imports(gpu) == 0; }));
    }
  }
  has_closed = true;
}

TEST(CudaPeers, MemoryOfARankThatHasClosedIsClosed) {
  const shared_object<std::atomic<bool>> has_closed;
  EXPECT_EQ(live_as_ranks(2, [&](const fake_device& gpu) { close_in_turn(gpu, *has_closed); }), "");
}

}  // namespace
}  // namespace lsched::testing
