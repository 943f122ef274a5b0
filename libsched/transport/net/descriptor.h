// The ownership of a file descriptor.
#pragma once

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace lsched {

class descriptor {
 public:
  descriptor() = default;
  /// Takes ownership of `number`. If `number` is -1, the object owns no descriptor.
  explicit descriptor(int number) : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() { reset(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void reset() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

/// Calls `make`, and returns the descriptor whose number `make` has returned. If the process has reached its limit of
/// descriptors, raises the soft limit to the hard limit, and calls `make` again.
template <class Make>
descriptor make_descriptor(Make make) {
  descriptor made(make());
  rlimit limit{};
  if (made || errno != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) return made;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  return descriptor(make());
}

}  // namespace lsched
