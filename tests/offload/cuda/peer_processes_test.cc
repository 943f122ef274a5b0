// Device memory of ranks that are processes, which they read where it is: what cannot be opened, and what becomes of
// what was. In one process nothing is opened. Of the program of processes_test.cc.
#include <fcntl.h>
#include <sys/resource.h>

#include "tests/offload/cuda/process_ranks.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_elements = 1 << 20;  ///< more than the driver gives memory in: each buffer is an area

/// A sum of host memory that is there all the while.
class host_sum {
 public:
  explicit host_sum(lsched_world* world) : ranks_(lsched_size(world)) {
    const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                     .input = input_.data(),
                                     .output = output_.data(),
                                     .count = input_.size(),
                                     .dtype = LSCHED_F32,
                                     .reduction = LSCHED_SUM};
    diagnostic why;
    EXPECT_EQ(lsched_allreduce_create(world, &desc, &sum_, &why), LSCHED_OK) << why.text;
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

/// Two buffers of a rank, in memory of lsched_cuda_alloc or the host's, with their sum over all ranks.
class buffer_sum {
 public:
  buffer_sum(lsched_world* world, const fake_device& gpu, std::size_t elements, bool on_device = true)
      : world_(world),
        gpu_(gpu),
        self_(lsched_rank(world)),
        ranks_(lsched_size(world)),
        on_device_(on_device),
        elements_(elements) {
    input_.content = numbers_of(bytes(), self_);
    output_.content.resize(elements);
    for (buffer* const one : {&input_, &output_}) {
      one->place = one->content.data();
      if (on_device) {
        EXPECT_EQ(lsched_cuda_alloc(world, bytes(), &one->place), LSCHED_OK);
      }
    }
    if (on_device) {
      EXPECT_EQ(gpu.fake().write(address_of(input_), input_.content.data(), bytes()), 1);
    }
  }
  ~buffer_sum() {
    for (const buffer* const one : {&input_, &output_})
      if (on_device_) {
        EXPECT_EQ(lsched_cuda_free(world_, one->place), LSCHED_OK);
      }
  }
  buffer_sum(const buffer_sum&) = delete;
  buffer_sum& operator=(const buffer_sum&) = delete;

  void create() {
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = input_.place,
                                      .output = output_.place,
                                      .count = elements_,
                                      .dtype = LSCHED_F32,
                                      .reduction = LSCHED_SUM,
                                      .segment_bytes = 1 << 20};  // some ranks may have no device
    diagnostic why;
    ASSERT_EQ(lsched_collective_create(world_, &desc, &sum_, &why), LSCHED_OK) << why.text;
  }
  void destroy() {
    diagnostic why;
    EXPECT_EQ(lsched_schedule_destroy(std::exchange(sum_, nullptr), k_limit_ns, &why), LSCHED_OK) << why.text;
  }

  /// A round that a stream asks for and waits for. Rank 0 asks last.
  lsched_status run_in_stream(host_sum& meeting, diagnostic& why) {
    const CUstream stream = gpu_.stream();
    lsched_ticket ticket{};
    if (self_ == 0) meeting.expect_right();
    EXPECT_EQ(lsched_start_on_stream(sum_, stream, &ticket), LSCHED_OK);
    EXPECT_EQ(lsched_wait_on_stream(ticket, stream), LSCHED_OK);
    if (self_ != 0) meeting.expect_right();
    EXPECT_TRUE(comes_true([&] { return gpu_.fake().pending(stream) == 0; })) << "it waits for ever";
    const lsched_status code = lsched_wait(ticket, k_limit_ns, &why);
    EXPECT_EQ(gpu_.cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
    return code;
  }
  /// A whole life of a schedule over them.
  void expect_right() {
    create();
    diagnostic why;
    EXPECT_EQ(lsched_run(sum_, k_limit_ns, &why), LSCHED_OK) << why.text;
    destroy();
    floats expected(elements_);
    if (on_device_) {
      EXPECT_EQ(gpu_.fake().read(output_.content.data(), address_of(output_), bytes()), 1);
    }
    for (rank r = 0; r < ranks_; ++r) {
      const floats theirs = numbers_of(bytes(), r);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += theirs[i];
    }
    EXPECT_TRUE(output_.content == expected) << output_.content[0] << ", not " << expected[0];
  }

 private:
  struct buffer {
    floats content{};
    void* place = nullptr;
  };
  static CUdeviceptr address_of(const buffer& one) { return reinterpret_cast<CUdeviceptr>(one.place); }
  std::size_t bytes() const { return elements_ * sizeof(float); }

  lsched_world* world_;
  const fake_device& gpu_;
  rank self_, ranks_;
  bool on_device_;
  std::size_t elements_;
  buffer input_, output_;
  lsched_schedule* sum_ = nullptr;
};

// --- what cannot be opened -------------------------------------------------------------------------------------------

/// While it lives, the process can open no more descriptors.
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

/// Rank 0 cannot open what the others show it, once, or for want of descriptors as long as `still` lasts.
void fail_to_open(const rank_of_process& mine, const fake_device& gpu, const std::string& call) {
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
    if (still) sum.expect_right();  // is copied then
  }
  if (call == k_no_descriptors && !is_first) sum.expect_right();
  sum.expect_right();
}

TEST(CudaPeers, MemoryThatCannotBeOpenedFailsTheRoundOnAllRanks) {
  for (const char* const call :
       {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", k_no_descriptors})
    for (const rank ranks : {2, 3})
      EXPECT_EQ(run_as_ranks(ranks,
                             [&](rank) {
                               return with_driver([&](const fake_device& gpu) {
                                 const rank_of_process mine(true);
                                 fail_to_open(mine, gpu, call);
                                 EXPECT_GE(mine.messages_shown(), 2u) << "nothing is shown again";
                               });
                             }),
                "")
          << call << ", " << ranks << " ranks";
}

// --- attaching again -------------------------------------------------------------------------------------------------

/// The last rank attaches at the second try. Meanwhile the others look at what it shows.
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
  buffer_sum(mine.world(), gpu, k_in_the_first_area, !is_last).expect_right();
  if (is_last) {
    EXPECT_EQ(mine.attach(LSCHED_CUDA_PEERS_AUTO, why), LSCHED_OK) << why.text;
  }
  buffer_sum(mine.world(), gpu, k_in_the_first_area).expect_right();
  buffer_sum(mine.world(), gpu, k_elements).expect_right();
  EXPECT_GE(mine.messages_shown(), 2u);
}

TEST(CudaPeers, AttachThatFailsShowsNothing) {
  for (const rank ranks : {2, 3})
    EXPECT_EQ(
        run_as_ranks(ranks, [](rank) { return with_driver([](const fake_device& gpu) { attach_again(gpu, false); }); }),
        "");
}

// What hangs is never given back.
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

}  // namespace
}  // namespace lsched::testing
