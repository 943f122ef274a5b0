#include "microbench/partial/partial_call.h"

#include <algorithm>
#include <span>

namespace lsched::bench {

partial_call::partial_call(lsched_world* runtime, const std::string& policy, std::uint64_t bytes, lsched_lag lag,
                           std::uint32_t buckets)
    : ones_(bytes / sizeof(float), 1.0f) {
  const std::vector<std::uint64_t> parts = equal_parts(ones_.size(), buckets);
  std::uint64_t begin = 0;
  for (const std::uint64_t part : parts) {
    given_.push_back(ones_.data() + begin);
    begin += part;
  }
  const lsched_partial_desc desc{.struct_size = sizeof desc,
                                 .count = ones_.size(),
                                 .buckets = buckets > 1 ? parts.data() : nullptr,
                                 .bucket_count = buckets > 1 ? buckets : 0,
                                 .dtype = LSCHED_F32,
                                 .reduction = LSCHED_SUM,
                                 .activation = policy.c_str(),
                                 .seed = k_seed,
                                 .lag = lag};
  schedule_ = created("lsched_partial_create", lsched_partial_create, runtime, &desc);
}

void partial_call::fill() { std::ranges::fill(ones_, 1.0f); }

void partial_call::offer() { expect_ok(lsched_offer(schedule_.get(), given_.data(), &ticket_), "lsched_offer"); }

void partial_call::collect(std::uint64_t round, std::uint64_t patience_ns) {
  const lsched_ticket ticket{schedule_.get(), round};
  expect_ok(lsched_collect(ticket, nullptr, patience_ns, &report_, &why_), "lsched_collect", why_);
  result_ = report_.result;
}

void partial_call::offer_and_copy() {
  copy_.resize(ones_.size());
  taken_.clear();
  for (const void* const bucket : given_)
    taken_.push_back(copy_.data() + (static_cast<const float*>(bucket) - ones_.data()));
  offer();
  expect_ok(lsched_collect(ticket_, taken_.data(), k_patience_ns, &report_, &why_), "lsched_collect", why_);
  result_ = copy_.data();
}

void partial_call::forget() { expect_ok(lsched_withdraw(schedule_.get(), nullptr), "lsched_withdraw"); }

void partial_call::leave_and_collect() {
  expect_ok(lsched_leave(schedule_.get()), "lsched_leave");
  collect(UINT64_MAX);
}

bool partial_call::is_right() {
  if (report_.from == report_.to || report_.has_result == 0) return false;
  const std::span elements(static_cast<const float*>(result_), ones_.size());
  const auto wanted = static_cast<float>(report_.offers);
  const bool all_are = std::ranges::all_of(elements, [wanted](float element) { return element == wanted; });
  std::ranges::fill(copy_, 0.0f);
  return all_are;
}

double partial_call::offers() const {
  return report_.has_result != 0 && !ones_.empty() ? *static_cast<const float*>(result_) : 0;
}

}  // namespace lsched::bench
