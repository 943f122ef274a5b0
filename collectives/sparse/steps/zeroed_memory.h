// Zeroed memory whose pages are allocated at first access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace lsched {

/// A block of zeroed memory, aligned to 64 bytes. For a large block, the system allocates each page at its first
/// access. The constructor throws std::bad_alloc.
class zeroed_memory {
 public:
  explicit zeroed_memory(std::size_t bytes) : base_(std::calloc(bytes + k_alignment, 1)) {
    if (base_ == nullptr) throw std::bad_alloc();
    void* from = base_.get();
    std::size_t space = bytes + k_alignment;
    data_ = static_cast<std::byte*>(std::align(k_alignment, bytes, from, space));
  }

  std::byte* data() const { return data_; }

 private:
  static constexpr std::size_t k_alignment = 64;
  struct release {
    void operator()(void* base) const { std::free(base); }
  };

  std::unique_ptr<void, release> base_;
  std::byte* data_ = nullptr;
};

}  // namespace lsched
