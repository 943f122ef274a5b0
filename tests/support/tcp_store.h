// Exchanges bytes among processes that know only an address, such as the processes that torchrun starts. A server on
// the loopback device collects the bytes of all ranks and sends them to every rank. The server is a thread of the
// process that starts the ranks.
#pragma once

#include <cstdint>
#include <thread>

#include "ops/base.h"

namespace lsched::testing {

class tcp_store {
 public:
  /// Starts the server, which serves exchanges among `ranks` ranks until the object is destroyed.
  explicit tcp_store(rank ranks);
  ~tcp_store();
  tcp_store(const tcp_store&) = delete;
  tcp_store& operator=(const tcp_store&) = delete;

  /// The connection of a rank to the server. Any process may open it. The connection stays open between exchanges.
  class client {
   public:
    client(const tcp_store& of, rank self);
    ~client();
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    /// Returns 0, or a positive number after an error. The static overload has the type lsched_exchange. The `context`
    /// of the static overload is a client.
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
