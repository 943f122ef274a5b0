// A meeting place for processes that a launcher like torchrun has started: a server on the loopback device that brings
// each rank's bytes to all. The server is a thread of the process that starts them.
#pragma once

#include <cstdint>
#include <thread>

#include "ops/base.h"

namespace lsched::testing {

class tcp_store {
 public:
  /// Serves exchanges of so many ranks until it is destroyed.
  explicit tcp_store(rank ranks);
  ~tcp_store();
  tcp_store(const tcp_store&) = delete;
  tcp_store& operator=(const tcp_store&) = delete;

  /// A rank's end of it, in any process. Kept open from one exchange to the next.
  class client {
   public:
    client(const tcp_store& of, rank self);
    ~client();
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    /// 0, or what has failed. As an lsched_exchange, of a client.
    int exchange(const void* mine, void* all, std::uint64_t bytes);
    static int exchange(const void* mine, void* all, std::uint64_t bytes, void* context) {
      return static_cast<client*>(context)->exchange(mine, all, bytes);
    }

   private:
    const rank ranks_;
    int socket_;
  };

 private:
  void serve(int listener) const;

  const rank ranks_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::thread server_;
};

}  // namespace lsched::testing
