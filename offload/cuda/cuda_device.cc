#include "offload/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "offload/cuda/driver/pointers.h"
#include "offload/cuda/driver/sparse_launch.h"
#include "offload/cuda/rest.h"
#include "offload/cuda/streams/canary.h"
#include "ops/adasum/adasum.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;

constexpr auto k_longest_drain = 2s;
constexpr auto k_nap = 50us;

CUdeviceptr address_of(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

}  // namespace

// --- opening and closing -------------------------------------------------------------------------------------------

result<std::unique_ptr<device>> cuda_device::open(const cuda_driver& driver, std::int32_t number,
                                                  const gpu_choice& which, endpoint& net) {
  auto in = cuda_context::open(driver, number);
  if (!in) return in.error();
  std::unique_ptr<cuda_device> made(new cuda_device(std::move(*in), net));
  const auto reserved = reserve_for_rest(*made->in_);
  if (!reserved) return reserved.error();
  made->reserved_for_rest_ = *reserved;
  made->memory_ = std::make_unique<cuda_memory>(*made->in_, *made->health_, net, which.staging_bytes, which.peers);
  if (auto why = made->open_streams()) return *why;
  if (which.streams_wait)
    if (auto why = made->try_streams()) return *why;
  made->memory_->show_first_area();  // must be last: peers may now open the area, and it is exposed only once
  if (made->health() != status::ok) return failure{made->health(), made->failure_words()};
  return std::unique_ptr<device>(std::move(made));
}

std::optional<failure> cuda_device::open_streams() {
  const cuda_scope here(*in_);
  if (!here.is_entered()) return failure_of(in_->driver(), "cuCtxPushCurrent", here.answer());
  for (auto& one : queues_) {
    auto opened = job_queue::open(*in_);
    if (!opened) return opened.error();
    one = std::move(*opened);
  }
  const CUresult answer = in_->driver().cuEventCreate(&copied_, CU_EVENT_DISABLE_TIMING);
  if (answer != CUDA_SUCCESS) return failure_of(in_->driver(), "cuEventCreate", answer);
  return std::nullopt;
}

std::optional<failure> cuda_device::try_streams() {
  const auto alone = words_->limit().begin_trial();
  const canary_song heard = most_waiting_streams(*in_, *words_, queues_[work]->stream());
  is_hung_ = heard.hangs;
  if (heard.hangs)
    return failure{status::device,
                   in_->name() + " does not execute kernels and copies in time: check the device with nvidia-smi"};
  if (status_of(heard.answer) == status::device)
    return failure_of(in_->driver(), "the test of streams failed", heard.answer);
  words_->limit().lower(heard.most_waiting);
  words_->let_streams_wait();
  return std::nullopt;
}

// To free memory, the driver waits until all streams of the device are idle, including streams of other code in this
// process.
cuda_device::~cuda_device() {
  bell_.close();
  if (is_hung_ || !comes_to_rest(*in_, reserved_for_rest_, k_longest_drain)) {
    keep_all();
    return;
  }
  const cuda_scope here(*in_);
  if (here.is_entered() && copied_ != nullptr) (void)in_->driver().cuEventDestroy(copied_);
}

// Marks the device as hung. A hung device may still access all memory that its jobs have used.
void cuda_device::note_hang() {
  is_hung_ = true;
  memory_->peers()->keep_all();
}

// Until the process ends, keeps all resources that a hung device may still access, so that their memory is not reused.
void cuda_device::keep_all() {
  struct hung_device {
    std::unique_ptr<cuda_context> in;
    std::unique_ptr<cuda_health> health;
    std::unique_ptr<stream_words> words;
    std::unique_ptr<cuda_memory> memory;
    std::array<std::unique_ptr<job_queue>, 3> queues;
  };
  static std::mutex guard;
  static auto& all = *new std::vector<hung_device>;
  if (memory_ != nullptr) memory_->keep_all();
  words_->forget_streams();
  const std::lock_guard lock(guard);
  all.push_back({std::move(in_), std::move(health_), std::move(words_), std::move(memory_), std::move(queues_)});
}

std::string cuda_device::name() const {
  const std::string description = memory_->description();
  const std::size_t most = words_->most_waiting();
  return in_->name() + " (device " + std::to_string(in_->number()) + ")" +
         (most == 0 ? ", streams do not wait" : ", up to " + std::to_string(most) + " streams wait") +
         (description.empty() ? "" : "; " + description);
}

// --- cold ----------------------------------------------------------------------------------------------------------

status cuda_device::reserve(std::uint32_t jobs, std::uint64_t most_elements) {
  const cuda_scope here(*in_);
  const auto sums = find_device_kernel(kernel::dot_norms, dtype::f32);
  CUresult answer = here.answer();
  const std::uint64_t of_sums = sums ? sums->workspace_bytes(most_elements) : 0;
  if (answer == CUDA_SUCCESS) answer = reserve_workspace(std::max(of_sums, selection_workspace_bytes(most_elements)));
  for (std::size_t i = 0; i < queues_.size() && answer == CUDA_SUCCESS; ++i)
    answer = queues_[i]->reserve(std::size_t{reserved_} + jobs);
  if (answer == CUDA_SUCCESS) reserved_ += jobs;
  const status told = status_of(answer);
  (void)health_->note("memory and events for jobs could not be reserved", answer);
  if (!health_->is_well()) return status::device;
  return told == status::ok ? told : status::no_memory;
}

// The copy follows all work that is already in the stream. A long copy is done in parts, so that each part takes much
// less than the time limit.
status cuda_device::copy_at_once(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  constexpr std::uint64_t k_part = std::uint64_t{64} << 20;
  const cuda_scope here(*in_);
  CUresult answer = here.answer();
  for (std::uint64_t done = 0; done < bytes && answer == CUDA_SUCCESS; done += k_part)
    answer = copy_part(to + done, from == nullptr ? nullptr : from + done, std::min(k_part, bytes - done));
  if (answer == CUDA_ERROR_OUT_OF_MEMORY) return status::no_memory;
  if (answer == CUDA_ERROR_NOT_READY) note_hang();
  fail_unless_done("memory could not be copied", answer);
  return health_->code();
}

CUresult cuda_device::copy_part(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  const CUstream in = queues_[work]->stream();
  CUresult answer = from == nullptr ? launch(launch_of_clearing(to, bytes), in)
                                    : in_->driver().cuMemcpyAsync(address_of(to), address_of(from), bytes, in);
  if (answer == CUDA_SUCCESS) answer = in_->driver().cuEventRecord(copied_, in);
  const auto deadline = std::chrono::steady_clock::now() + k_longest_drain;
  while (answer == CUDA_SUCCESS) {
    answer = in_->driver().cuEventQuery(copied_);
    if (answer != CUDA_ERROR_NOT_READY || std::chrono::steady_clock::now() > deadline) return answer;
    std::this_thread::sleep_for(k_nap);
    answer = CUDA_SUCCESS;
  }
  return answer;
}

// The old, smaller workspace stays allocated, because kernels in flight may still use it.
CUresult cuda_device::reserve_workspace(std::uint64_t bytes) {
  if (bytes <= workspace_bytes_) return CUDA_SUCCESS;
  std::byte* const made = memory_->allocate(memory_space::device, bytes);
  if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  workspace_ = reinterpret_cast<double*>(made);
  workspace_bytes_ = bytes;
  return CUDA_SUCCESS;
}

// --- jobs ----------------------------------------------------------------------------------------------------------

// Memory that is not staging memory must be device memory: placement (libsched/place) ensures that jobs use no other
// memory.
bool cuda_device::is_device_memory(const std::byte* memory) const { return !memory_->is_staging(memory); }

cuda_device::queue cuda_device::queue_of(const device_job& job) const {
  if (job.what != kernel::copy || job.sparse != nullptr) return work;
  if (!is_device_memory(job.call.c)) return down;
  return is_device_memory(job.call.a) ? work : up;
}

// If a job cannot start, the device has failed. poll() still reports the end of the job.
void cuda_device::submit(const device_job& job) {
  job_queue& into = *queues_[queue_of(job)];
  const cuda_scope here(*in_);
  into.add_job(job.cookie);
  fail_unless_done("cuCtxPushCurrent", here.answer());
  if (!here.is_entered()) return;
  if (health_->is_well()) fail_unless_done(name_of(job.what), begin(job, into.stream()));
  fail_unless_done("cuEventRecord", into.mark_end());
}

void cuda_device::fail_unless_done(std::string_view call, CUresult answer) {
  if (answer != CUDA_SUCCESS) health_->fail(call, answer);
}

CUresult cuda_device::begin(const device_job& job, CUstream in) {
  if (job.sparse != nullptr) return launch(*job.sparse, in);
  return job.what == kernel::copy ? copy(job, in) : launch(job, in);
}

CUresult cuda_device::copy(const device_job& job, CUstream in) {
  const std::uint64_t bytes = job.call.count * size_of(job.type);
  if (bytes == 0 || job.call.a == job.call.c) return CUDA_SUCCESS;
  return in_->driver().cuMemcpyAsync(address_of(job.call.c), address_of(job.call.a), bytes, in);
}

// The host computes the coefficients of an adaptive sum, so that all ranks have the same bits.
CUresult cuda_device::launch(const device_job& job, CUstream in) {
  const kernel_call& call = job.call;
  const auto found = find_device_kernel(job.what, job.type);
  if (!found) return CUDA_ERROR_NOT_SUPPORTED;
  if (call.count == 0 && !found->has_two_passes()) return CUDA_SUCCESS;
  device_arguments with{.a = call.a, .b = call.b, .c = call.c, .workspace = workspace_, .count = call.count};
  if (job.what == kernel::divide) with.divisor = call.with->front().integer();
  if (job.what == kernel::adasum) {
    std::array<double, k_dot_sums> sums;
    std::memcpy(sums.data(), call.s, sizeof sums);
    const auto [x, y] = adasum_coefficients_of(sums.data());
    with.x = x, with.y = y;
  }
  const CUresult answer = launch({found->first, found->grid_of_first(call.count), with}, in);
  if (answer != CUDA_SUCCESS || !found->has_two_passes()) return answer;
  return launch({found->second, found->grid_of_second(call.count), with}, in);
}

CUresult cuda_device::launch(const device_launch& next, CUstream in) {
  device_arguments copied = next.with;
  std::array<void*, 1> parameters{&copied};
  return in_->driver().cuLaunchKernel(in_->function(next.function), next.grid.blocks, 1, 1, next.grid.threads, 1, 1, 0,
                                      in, parameters.data(), nullptr);
}

// If nothing is to be selected, the host sets the number of found items to 0.
CUresult cuda_device::launch(const sparse_job& job, CUstream in) {
  launch_list all;
  if (const auto* const selects = std::get_if<sparse_selection>(&job)) {
    if (selects->count == 0 || selects->k == 0) *selects->found = 0;
    all = launches_of(*selects, workspace_);
  } else {
    all = launches_of(std::get<sparse_settlement>(job));
  }
  CUresult answer = CUDA_SUCCESS;
  for (const device_launch& next : all.all())
    if (answer == CUDA_SUCCESS) answer = launch(next, in);
  return answer;
}

// If a query fails for the first time, the failure is recorded, and the next poll() repeats the query. If the query
// fails again, the CUDA context executes nothing any more, so the job counts as ended. Even if the device has failed, a
// job whose query does not fail is still awaited.
std::size_t cuda_device::poll(std::span<std::uint64_t> out) {
  std::size_t count = 0;
  const bool had_failed = !health_->is_well();
  const cuda_scope here(*in_);
  for (const auto& one : queues_) {
    while (count < out.size() && one->size() != 0) {
      const CUresult answer = here.is_entered() ? one->take_ended(&out[count]) : here.answer();
      if (answer == CUDA_ERROR_NOT_READY) break;
      if (answer != CUDA_SUCCESS) {
        health_->fail("the GPU failed while kernels and copies were running", answer);
        if (!had_failed) break;
        out[count] = one->take_any();
      }
      ++count;
    }
  }
  return count;
}

bool cuda_device::arm() {
  const cuda_scope here(*in_);
  return here.is_entered() &&
         std::ranges::all_of(queues_, [this](const auto& one) { return one->size() == 0 || one->arm(bell_); });
}

std::unique_ptr<round_gate> cuda_device::make_gate() { return stream_gate::open(*in_, *health_, *words_, bell_); }

void cuda_device::drain() {
  const auto deadline = std::chrono::steady_clock::now() + k_longest_drain;
  const auto is_idle = [&] { return std::ranges::all_of(queues_, [](const auto& one) { return one->size() == 0; }); };
  for (std::array<std::uint64_t, 16> ended; !is_idle();) {
    if (poll(ended) != 0) continue;
    if (std::chrono::steady_clock::now() > deadline) {
      note_hang();
      return;
    }
    std::this_thread::sleep_for(k_nap);
  }
}

}  // namespace lsched
