#include "offload/open/world_exchange.h"

#include <algorithm>
#include <cstring>

#include "offload/open/launch_exchange.h"

namespace lsched {
namespace {

std::string answer_with(std::int32_t code, std::int32_t culprit, const std::string& bytes) {
  const exchange_answer head{code, culprit, static_cast<std::uint32_t>(bytes.size())};
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + bytes;
}

}  // namespace

bool world_exchange::add(rank self, std::string_view request) {
  exchange_request read{};
  std::string& record = records_[static_cast<std::size_t>(self)];
  if (request.size() != sizeof read) return false;
  if (!record.empty()) return true;  // the rank has sent a request twice, and gets one answer
  std::memcpy(&read, request.data(), sizeof read);
  record.assign(reinterpret_cast<const char*>(read.record.data()), read.record.size());
  ++count_;
  if (!deadline_) deadline_ = clock::now() + std::chrono::milliseconds(read.limit_ms);
  return true;
}

std::optional<failure> world_exchange::find_failure() const {
  const auto first_absent = [&](auto&& condition) {
    rank absent = 0;
    while (static_cast<std::size_t>(absent) < records_.size() &&
           !(records_[static_cast<std::size_t>(absent)].empty() && condition(static_cast<std::size_t>(absent))))
      ++absent;
    return absent;
  };
  const auto ranks = static_cast<rank>(records_.size());
  if (const auto lost = first_absent([&](std::size_t of) { return bool{has_ended_[of]}; }); lost < ranks)
    return failure{status::peer, "rank " + std::to_string(lost) + " ended before all ranks had opened their world",
                   lost};
  if (clock::now() < *deadline_) return std::nullopt;
  const rank late = first_absent([](std::size_t) { return true; });
  return failure{status::timeout, "rank " + std::to_string(late) + " did not open its world in time", late};
}

std::optional<std::string> world_exchange::take_answer() {
  if (count_ == 0) return std::nullopt;
  std::string all;
  if (!failed_ && count_ < records_.size()) failed_ = find_failure();
  if (!failed_ && count_ < records_.size()) return std::nullopt;
  if (!failed_)
    for (const std::string& each : records_) all += each;
  std::ranges::fill(records_, "");
  count_ = 0;
  deadline_.reset();
  return failed_ ? answer_with(static_cast<std::int32_t>(failed_->code), failed_->peer, failed_->text)
                 : answer_with(0, k_no_rank, all);
}

}  // namespace lsched
