#include "tests/offload/cuda/exam/exam.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "bindings/c/lsched_cuda.h"
#include "tests/support/wait_until.h"

namespace lsched::exam {

std::span<const part> parts() {
  static constexpr std::array k_all{part{"kernels", examine_kernels, 60},
                                    part{"selections", examine_selections, 30},
                                    part{"two_processes", ask_two_processes, 30},
                                    part{"stream_writes", ask_stream_writes, 10},
                                    part{"canary", ask_canary, 20},
                                    part{"unloaded_kernel", ask_unloaded_kernel, 10},
                                    part{"registrations", ask_registrations, 15},
                                    part{"host_function_tails", ask_host_function_tails, 15},
                                    part{"managed_memory", ask_managed_memory, 10}};
  return k_all;
}

void answer(const gpu& on, std::string_view part, json line) {
  json whole{{"exam", part}};
  if (on.is_fake()) whole["driver_is"] = "fake";
  whole.update(line);
  std::printf("%s\n", whole.dump().c_str());
  std::fflush(stdout);
}

json distribution(std::vector<double> us) {
  if (us.empty()) return {{"samples", 0}};
  std::ranges::sort(us);
  const auto at = [&us](double share) {
    return us[std::min(us.size() - 1, static_cast<std::size_t>(share * static_cast<double>(us.size())))];
  };
  return {{"samples", us.size()}, {"us_min", us.front()}, {"us", at(0.5)},      {"us_p90", at(0.9)},
          {"us_p99", at(0.99)},   {"us_p999", at(0.999)}, {"us_max", us.back()}};
}

std::uint64_t seen_at(const std::uint64_t* word) {
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
}

void show_at(std::uint64_t* word, std::uint64_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}

double us_until(const std::function<bool()>& holds, std::chrono::milliseconds limit) {
  const auto from = clock::now();
  while (!holds())
    if (clock::now() - from > limit) return -1;
  return std::chrono::duration<double, std::micro>(clock::now() - from).count();
}

shared_memory::shared_memory(std::uint64_t bytes) : file_(memfd_create("exam", MFD_CLOEXEC)), bytes_(bytes) {
  void* mapped = MAP_FAILED;
  if (file_ >= 0 && ftruncate(file_, static_cast<off_t>(bytes)) == 0)
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) throw bench::failed("cannot map shared memory");
  begin_ = static_cast<std::byte*>(mapped);
  std::memset(begin_, 0, bytes);  // touched pages are faster to register
}

shared_memory::~shared_memory() {
  munmap(begin_, bytes_);
  close(file_);
}

registration::registration(const gpu& on, std::byte* begin, std::uint64_t bytes) : on_(on), begin_(begin) {
  on.expect(on.cuda().cuMemHostRegister(begin, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
            "cuMemHostRegister");
}

registration::~registration() { (void)on_.cuda().cuMemHostUnregister(begin_); }

forked::forked(const std::function<bool()>& job) : process_(fork()) {
  if (process_ < 0) throw bench::failed("cannot start a process");
  if (process_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 1;
  try {
    status = job() ? 0 : 1;
  } catch (const bench::no_gpu&) {
    status = k_exit_no_gpu;
  } catch (const std::exception& why) {
    std::fprintf(stderr, "cuda_exam: %s\n", why.what());
  }
  _exit(status);
}

forked::~forked() {
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

bool forked::ends_well(double limit_s) {
  const auto limit = std::chrono::milliseconds(static_cast<std::int64_t>(limit_s * 1e3));
  if (!testing::wait_for_end(process_, limit)) return false;
  int status = 0;
  waitpid(std::exchange(process_, 0), &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == k_exit_no_gpu) throw bench::no_gpu("a process has found no GPU");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

timed_release::timed_release(std::uint64_t* word, std::uint64_t value, std::chrono::milliseconds after)
    : word_(word), value_(value), thread_([this, after](const std::stop_token& stop) {
        std::mutex guard;
        std::unique_lock lock(guard);
        std::condition_variable_any().wait_for(lock, stop, after, [] { return false; });
        if (is_released_.exchange(true)) return;
        was_late_ = !stop.stop_requested();
        show_at(word_, value_);
      }) {}

timed_release::~timed_release() { release(); }

void timed_release::release() {
  thread_.request_stop();
  if (!is_released_.exchange(true)) show_at(word_, value_);
}

lsched_status attach_first_device(lsched_world* world, lsched_diagnostic* why) {
  lsched_cuda_config config;
  lsched_cuda_config_init(&config);
  config.device = 0;
  return lsched_cuda_attach(world, &config, why);
}

void launch_nothing(const gpu& on, CUstream in) {
  on.launch(find_device_kernel(kernel::sum, dtype::f32).value(), {}, in);
}

}  // namespace lsched::exam
