#include "offload/cuda/streams/stream_words.h"

#include <new>

namespace lsched {

stream_words::~stream_words() {
  forget_streams();
  const cuda_scope here(in_);
  if (!here.is_entered()) return;
  for (void* area : areas_) (void)in_.driver().cuMemFreeHost(area);
}

bool stream_words::add_area() {
  const cuda_scope here(in_);
  if (!here.is_entered()) return false;
  void* area = nullptr;
  constexpr unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  if (in_.driver().cuMemHostAlloc(&area, k_words_of_area * k_word_bytes, flags) != CUDA_SUCCESS) return false;
  areas_.push_back(area);
  for (std::size_t i = 0; i < k_words_of_area; ++i)
    free_.push_back(new (static_cast<std::byte*>(area) + i * k_word_bytes) std::atomic<std::uint64_t>(0));
  return true;
}

void stream_words::forget_streams() {
  const std::lock_guard lock(guard_);
  for (const void* area : areas_) limit_->forget(area, k_words_of_area * k_word_bytes);
}

stream_word stream_words::take() {
  const std::lock_guard lock(guard_);
  if (free_.empty() && !add_area()) return {};
  std::atomic<std::uint64_t>* const word = free_.back();
  free_.pop_back();
  return {word, word->load()};
}

void stream_words::give_back(std::atomic<std::uint64_t>* word) {
  const std::lock_guard lock(guard_);
  free_.push_back(word);
}

void stream_words::raise(std::atomic<std::uint64_t>& word, std::uint64_t value) {
  std::uint64_t now = word.load();
  while (now < value && !word.compare_exchange_weak(now, value)) continue;
}

}  // namespace lsched
