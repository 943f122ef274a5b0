// A rank's device, implemented with CUDA. It has three streams. One stream copies to the host, and one stream copies to
// the device. The third stream is for arithmetic and for copies within the device. So two copies and a kernel can run
// concurrently (docs/inside/cuda.md).
#pragma once

#include <array>
#include <memory>
#include <string>

#include "libsched/engine/device.h"
#include "offload/cuda/cuda_memory.h"
#include "offload/cuda/driver/context.h"
#include "offload/cuda/driver/sparse_launch.h"
#include "offload/cuda/streams/job_queue.h"
#include "offload/cuda/streams/stream_gate.h"
#include "offload/gpu.h"

namespace lsched {

class cuda_device final : public device {
 public:
  static result<std::unique_ptr<device>> open(const cuda_driver& driver, std::int32_t number, const gpu_choice& which,
                                              endpoint& net);
  ~cuda_device() override;

  std::string name() const override;
  device_memory& memory() override { return *memory_; }
  status copy_at_once(std::byte* to, const std::byte* from, std::uint64_t bytes) override;
  status reserve(std::uint32_t jobs, std::uint64_t most_elements) override;
  void unreserve(std::uint32_t jobs) override { reserved_ -= jobs; }
  void submit(const device_job& job) override;
  std::size_t poll(std::span<std::uint64_t> out) override;
  bool arm() override;
  std::unique_ptr<round_gate> make_gate() override;
  status health() const override { return health_->code(); }
  std::string failure_words() const override { return health_->words(); }
  void drain() override;

 private:
  enum queue : std::size_t { down, up, work };

  cuda_device(std::unique_ptr<cuda_context> in, endpoint& net)
      : in_(std::move(in)),
        health_(std::make_unique<cuda_health>(*in_)),
        words_(std::make_unique<stream_words>(*in_)),
        bell_(gpu_bell::open(net.bell())) {}
  std::optional<failure> open_streams();
  std::optional<failure> try_streams();
  CUresult reserve_workspace(std::uint64_t bytes);
  bool is_device_memory(const std::byte* memory) const;
  queue queue_of(const device_job& job) const;
  CUresult begin(const device_job& job, CUstream in);
  CUresult copy(const device_job& job, CUstream in);
  CUresult copy_part(std::byte* to, const std::byte* from, std::uint64_t bytes);
  CUresult launch(const device_job& job, CUstream in);
  CUresult launch(const device_launch& next, CUstream in);
  CUresult launch(const sparse_job& job, CUstream in);
  void fail_unless_done(std::string_view call, CUresult answer);
  void note_hang();
  void keep_all();

  std::unique_ptr<cuda_context> in_;
  std::unique_ptr<cuda_health> health_;
  std::unique_ptr<stream_words> words_;
  gpu_bell& bell_;
  std::unique_ptr<cuda_memory> memory_;
  std::array<std::unique_ptr<job_queue>, 3> queues_;
  CUdeviceptr reserved_for_rest_ = 0;
  std::uint32_t reserved_ = 0;  ///< number of jobs for which resources are reserved
  /// Memory for data between the passes of a kernel. One workspace is enough, because the stream executes one kernel at
  /// a time.
  double* workspace_ = nullptr;
  std::uint64_t workspace_bytes_ = 0;
  CUevent copied_ = nullptr;  ///< event that copy_at_once() records after each part
  bool is_hung_ = false;
};

}  // namespace lsched
