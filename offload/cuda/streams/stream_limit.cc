#include "offload/cuda/streams/stream_limit.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>

namespace lsched {
namespace {

/// Returns an id for this thread's per-thread default stream. The id is odd, so it differs from all handles.
std::uintptr_t number_of_thread() {
  static std::atomic<std::uintptr_t> next{3};
  thread_local const std::uintptr_t mine = next.fetch_add(2);
  return mine;
}

/// Returns the id of a stream. Null and CU_STREAM_LEGACY are the same stream.
std::uintptr_t number_of(CUstream stream) {
  if (stream == CU_STREAM_PER_THREAD) return number_of_thread();
  return stream == CU_STREAM_LEGACY ? 0 : reinterpret_cast<std::uintptr_t>(stream);
}

}  // namespace

std::shared_ptr<stream_limit> stream_limit::of_device(std::int32_t number) {
  static std::mutex guard;
  static std::map<std::int32_t, std::weak_ptr<stream_limit>> all;
  const std::lock_guard lock(guard);
  std::weak_ptr<stream_limit>& known = all[number];
  std::shared_ptr<stream_limit> found = known.lock();
  if (found == nullptr) known = found = std::make_shared<stream_limit>();
  return found;
}

void stream_limit::lower(std::size_t streams) {
  const std::lock_guard lock(guard_);
  most_.store(std::min(most_.load(), streams));
}

template <class Condition>
void stream_limit::erase_if(const Condition& is_over) {
  number_ =
      static_cast<std::size_t>(std::remove_if(waits_.begin(), waits_.begin() + number_, is_over) - waits_.begin());
}

bool stream_limit::may_wait(CUstream stream, const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  const std::uintptr_t mine = number_of(stream);
  const std::lock_guard lock(guard_);
  erase_if([](const wait& one) { return one.word->load() >= one.value; });
  std::array<std::uintptr_t, k_most_tried> waiting;  // at most k_most_tried streams are ever admitted
  std::size_t streams = 0;
  for (wait& one : std::span(waits_).first(number_)) {
    const bool is_known =
        std::find(waiting.begin(), waiting.begin() + streams, one.stream) != waiting.begin() + streams;
    if (!is_known) waiting[streams++] = one.stream;
    if (one.stream != mine || one.word != &word) continue;
    one.value = std::max(one.value, value);
    return true;
  }
  const bool waits_already = std::find(waiting.begin(), waiting.begin() + streams, mine) != waiting.begin() + streams;
  if ((!waits_already && streams >= most_.load()) || number_ == waits_.size()) return false;
  waits_[number_++] = {mine, &word, value};
  return true;
}

void stream_limit::forget(const void* memory, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(guard_);
  erase_if([&](const wait& one) {
    const auto* const place = reinterpret_cast<const std::byte*>(one.word);
    return !std::less<>()(place, begin) && std::less<>()(place, begin + bytes);
  });
}

}  // namespace lsched
