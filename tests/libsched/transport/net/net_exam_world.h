// The world of the exam of transports (endpoint_exam.h) over the transport net, with all ranks in one thread.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "libsched/transport/net/net_endpoint.h"
#include "tests/conformance/endpoint_exam.h"
#include "tests/libsched/transport/net/net_sockets.h"

namespace lsched::testing {

class net_exam_world : public exam::exam_world {
 public:
  explicit net_exam_world(int family, bool is_encrypted = false) : family_(family), is_encrypted_(is_encrypted) {}
  std::vector<endpoint*> make(rank ranks) override {
    ends_.clear();
    std::vector<endpoint*> all;
    auto sockets = connect_all(ranks, family_, is_encrypted_);
    for (rank r = 0; r < ranks; ++r) {
      ends_.push_back(std::move(*net_endpoint::open({r, ranks}, std::move(sockets[static_cast<std::size_t>(r)]))));
      all.push_back(ends_.back().get());
    }
    return all;
  }
  std::uint64_t most_ahead() const override { return 3; }
  bool sees_both_ends() const override { return false; }
  bool settles_at_once() const override { return false; }

 private:
  const int family_;
  const bool is_encrypted_;
  std::vector<std::unique_ptr<net_endpoint>> ends_{};
};

}  // namespace lsched::testing
