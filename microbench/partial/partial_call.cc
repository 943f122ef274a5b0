#include "microbench/partial/partial_call.h"

#include <algorithm>

namespace lsched::bench {

partial_call::partial_call(lsched_world* runtime, const std::string& policy, std::uint64_t bytes, lsched_lag lag)
    : ones_(bytes / sizeof(float), 1.0f) {
  const lsched_partial_desc desc{.struct_size = sizeof desc,
                                 .count = ones_.size(),
                                 .dtype = LSCHED_F32,
                                 .reduction = LSCHED_SUM,
                                 .activation = policy.c_str(),
                                 .seed = 1,
                                 .lag = lag,
                                 .history = 0,
                                 .algorithm = nullptr};
  schedule_ = created("lsched_partial_create", lsched_partial_create, runtime, &desc);
}

void partial_call::offer() { expect_ok(lsched_offer(schedule_.get(), ones_.data(), &ticket_), "lsched_offer"); }

void partial_call::collect() {
  expect_ok(lsched_collect_view(ticket_, &result_, k_patience_ns, &report_, &why_), "lsched_collect_view", why_);
}

void partial_call::collect(std::uint64_t round) {
  const lsched_ticket ticket{schedule_.get(), round};
  expect_ok(lsched_collect_view(ticket, &result_, k_patience_ns, &report_, &why_), "lsched_collect_view", why_);
}

void partial_call::forget() { expect_ok(lsched_withdraw(schedule_.get(), nullptr), "lsched_withdraw"); }

void partial_call::leave_and_collect() {
  expect_ok(lsched_leave(schedule_.get()), "lsched_leave");
  collect(UINT64_MAX);
}

bool partial_call::is_right() const {
  if (report_.from == report_.to || report_.has_result == 0) return false;
  const auto wanted = static_cast<float>(report_.offers);
  const auto* const first = static_cast<const float*>(result_);
  return std::all_of(first, first + ones_.size(), [wanted](float it) { return it == wanted; });
}

}  // namespace lsched::bench
