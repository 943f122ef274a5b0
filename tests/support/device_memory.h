// Simulated device memory. Each byte has two addresses. The test passes the first address to the library. If the host
// accesses this address, the process crashes. The simulated device accesses the byte at the second address.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace lsched::testing {

class device_memory {
 public:
  explicit device_memory(std::size_t bytes) : bytes_(bytes) {
    const int file = memfd_create("device", 0);
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(bytes)), 0);
    given_ = map(file, PROT_NONE);
    seen_ = map(file, PROT_READ | PROT_WRITE);
    close(file);
  }
  ~device_memory() {
    munmap(given_, bytes_);
    munmap(seen_, bytes_);
  }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;

  std::byte* begin() const { return given_; }
  bool holds(const std::byte* place) const { return place >= given_ && place < given_ + bytes_; }
  /// Returns the address at which the simulated device accesses `place`. For memory that is not simulated device
  /// memory, returns `place`.
  std::byte* seen(const std::byte* place) const {
    return holds(place) ? seen_ + (place - given_) : const_cast<std::byte*>(place);
  }

 private:
  std::byte* map(int file, int protection) const {
    void* const place = mmap(nullptr, bytes_, protection, MAP_SHARED, file, 0);
    EXPECT_NE(place, MAP_FAILED);
    return static_cast<std::byte*>(place);
  }

  std::size_t bytes_;
  std::byte* given_;
  std::byte* seen_;
};

}  // namespace lsched::testing
