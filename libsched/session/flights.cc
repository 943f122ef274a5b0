#include "libsched/session/flights.h"

namespace lsched {

flights::flights(std::span<instance* const> all) : all_(all.size()), first_(all.front()) {
  for (std::size_t i = 0; i < all.size(); ++i) all_[i].runs = all[i];
}

status flights::may_start() const {
  const instance& runs = *all_[next_].runs;
  if (const status verdict = runs.verdict.load(); verdict != status::ok) return verdict;
  return runs.called.load() == runs.finished.load() ? status::ok : status::state;
}

round_no flights::count_start(round_no round) {
  const round_no number = (round - 1) * depth() + next_ + 1;
  next_ = (next_ + 1) % depth();
  return number;
}

awaited_round flights::find(round_no round) const {
  if (depth() == 1 || round == 0) return {*first_, uncounted(*first_, round), round};
  const instance* const runs = all_[(round - 1) % depth()].runs;
  if (runs == nullptr) return {*first_, k_last_round, round};
  return {*runs, (round - 1) / depth() + 1, round};
}

bool flights::has_result() const {
  const round_no finished = first_->finished.load();
  return finished > bound_after_ && finished == first_->called.load();
}

std::vector<instance**> flights::in_order_of_removal() {
  std::vector<instance**> all;
  for (auto each = all_.rbegin(); each != all_.rend(); ++each) all.push_back(&each->runs);
  return all;
}

}  // namespace lsched
