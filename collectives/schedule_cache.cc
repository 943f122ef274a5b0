#include "collectives/schedule_cache.h"

#include <algorithm>

namespace lsched {

result<cached_schedule> schedule_cache::get(std::string_view collective, std::string_view wanted, const shape& data,
                                            const activation& starts) {
  {
    const std::lock_guard held(guard_);
    const auto found = std::ranges::find_if(entries_, [&](const entry& e) {
      return e.collective == collective && e.wanted == wanted && e.data == data && e.starts == starts;
    });
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
      return found->made;
    }
  }
  auto chosen = select(collective, wanted, place_, data, starts, by_);
  if (!chosen) return chosen.error();
  auto program = chosen->how->generate(place_, chosen->data, starts);
  if (!program) return program.error();
  cached_schedule made{std::move(*chosen), std::move(*program)};
  keep({std::string(collective), std::string(wanted), data, starts, made});
  return made;
}

void schedule_cache::keep(entry one) {
  const std::size_t ops = one.made.program->ops().size();
  if (ops > k_most_ops) return;
  const std::lock_guard held(guard_);
  entries_.push_front(std::move(one));
  ops_ += ops;
  while (entries_.size() > k_most_entries || ops_ > k_most_ops) {
    ops_ -= entries_.back().made.program->ops().size();
    entries_.pop_back();
  }
}

}  // namespace lsched
