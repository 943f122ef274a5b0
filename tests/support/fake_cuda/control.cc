#include "tests/support/fake_cuda/control.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/support/fake_cuda/process.h"
#include "tests/support/fake_cuda/worker.h"

#define FAKE_CUDA_DECLARE(name, answer, takes) extern "C" answer fake_cuda_##name takes;
namespace lsched::testing {
FAKE_CUDA_CONTROL(FAKE_CUDA_DECLARE)
}

using namespace fake_cuda;

namespace {

CUstream stream_at(process& p, CUstream handle) {
  const CUstream found = stream_of(p, handle);
  if (found == nullptr) misuse("a test names a stream that does not exist");
  return found;
}

/// Stops the driver when the process ends, even if work is still running. Then reports leaks.
__attribute__((destructor)) void leave() {
  process& p = the_process();
  if (p.id != getpid()) return;  // in a forked child, a thread of the parent may hold the lock
  const lock held(p.guard);
  const std::vector<std::string> lines = leaks_of(p);
  die(p, CUDA_ERROR_DEINITIALIZED);
  if (!p.settings.reports_leaks || lines.empty()) return;
  for (const std::string& line : lines) std::fprintf(stderr, "fake CUDA: leak: %s\n", line.c_str());
  std::fflush(nullptr);
  _exit(k_exit_of_leaks);
}

}  // namespace

void lsched::testing::fake_cuda_fail(const char* rules) {
  process& p = the_process();
  const lock held(p.guard);
  p.faults.add(rules);
}

void lsched::testing::fake_cuda_reset() {
  process& p = the_process();
  lock held(p.guard);
  p.is_held = true;
  p.changed.wait(held, [&] { return p.running == nullptr; });
  start_anew(p);
  p.changed.notify_all();
}

std::uint64_t lsched::testing::fake_cuda_calls(const char* function) {
  process& p = the_process();
  const lock held(p.guard);
  const auto found = p.calls.find(std::string_view(function));
  return found == p.calls.end() ? 0 : found->second;
}

std::size_t lsched::testing::fake_cuda_leaks(char* text, std::size_t size) {
  process& p = the_process();
  const lock held(p.guard);
  const std::vector<std::string> lines = leaks_of(p);
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  if (size != 0) std::snprintf(text, size, "%s", all.c_str());
  return lines.size();
}

void lsched::testing::fake_cuda_set_kernels(kernel_finder finder) {
  process& p = the_process();
  const lock held(p.guard);
  p.find_kernel = finder != nullptr ? finder : linked_kernels();
}

void lsched::testing::fake_cuda_hold() {
  process& p = the_process();
  lock held(p.guard);
  p.is_held = true;
  p.changed.wait(held, [&] { return p.running == nullptr; });
}

void lsched::testing::fake_cuda_go_on() {
  process& p = the_process();
  const lock held(p.guard);
  p.is_held = false;
  p.work_arrived.notify_all();
}

int lsched::testing::fake_cuda_step(CUstream stream, int any) {
  process& p = the_process();
  lock held(p.guard);
  if (!p.is_held) misuse("a test steps a worker without holding it");
  if (!p.has_worker) return 0;
  p.changed.wait(held, [&] { return p.step == nullptr; });
  step_request request;
  request.any = any != 0;
  request.stream = request.any ? nullptr : stream_at(p, stream);
  p.step = &request;
  p.work_arrived.notify_all();
  p.changed.wait(held, [&] { return request.answer.has_value(); });
  return *request.answer ? 1 : 0;
}

void lsched::testing::fake_cuda_hold_stream(CUstream stream, int is_held) {
  process& p = the_process();
  lock held(p.guard);
  const CUstream of = stream_at(p, stream);
  of->is_held = is_held != 0;
  p.changed.wait(held, [&] { return p.running != of; });
  p.work_arrived.notify_all();
}

std::size_t lsched::testing::fake_cuda_pending(CUstream stream) {
  process& p = the_process();
  const lock held(p.guard);
  return stream_at(p, stream)->queue.size();
}

int lsched::testing::fake_cuda_read(void* into, CUdeviceptr from, std::size_t size) {
  process& p = the_process();
  const lock held(p.guard);
  const std::byte* const bytes = p.memory.locate(from, size, 0);
  if (bytes != nullptr) std::memcpy(into, bytes, size);
  return bytes == nullptr ? 0 : 1;
}

int lsched::testing::fake_cuda_write(CUdeviceptr into, const void* from, std::size_t size) {
  process& p = the_process();
  const lock held(p.guard);
  std::byte* const bytes = p.memory.locate(into, size, 0);
  if (bytes != nullptr) std::memcpy(bytes, from, size);
  return bytes == nullptr ? 0 : 1;
}
