// Sends and receives whole messages over a stream socket, with a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "ops/status.h"

namespace lsched {

class timed_socket {
 public:
  using clock = std::chrono::steady_clock;

  /// Uses the socket `number`, which must stay open. `ended` is the failure if the peer has closed the socket, and
  /// `late` is the failure after a deadline. If `stop` is not -1, an input on the descriptor `stop` also ends each wait
  /// with CANCELLED.
  timed_socket(int number, failure ended, failure late, int stop = -1)
      : number_(number), stop_(stop), ended_(std::move(ended)), late_(std::move(late)) {}

  std::optional<failure> send(const void* from, std::size_t bytes, clock::time_point deadline) const;
  std::optional<failure> receive(void* into, std::size_t bytes, clock::time_point deadline) const;

 private:
  template <class Transfer>
  std::optional<failure> transfer(std::size_t bytes, short events, clock::time_point deadline, Transfer&& some) const;

  int number_, stop_;
  failure ended_, late_;
};

}  // namespace lsched
