#include "collectives/sparse/functions/coo_functions.h"

#include "collectives/sparse/protocol/coo_steps.h"

namespace lsched {

coo_functions::coo_functions(const coo_problem& of)
    : steps_(of),
      room_(sum_room(of)),
      lengths_(static_cast<std::size_t>(of.place.size)),
      lists_(static_cast<std::size_t>(of.place.size)) {}

status coo_functions::call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
                           const function_output& target) {
  switch (static_cast<coo_step>(number)) {
    case coo_step::see_indices: indices_ = source.numbers<std::uint64_t>().data(); break;
    case coo_step::see_values: values_ = source.data; break;
    case coo_step::sample:
      sort(source);
      steps_.sample(target.numbers<std::uint64_t>());
      break;
    case coo_step::take:
      if (problem().is_balanced)
        steps_.set_boundaries(by.numbers<std::uint64_t>());
      else
        sort(source);
      steps_.take(target.data, lengths_);
      return target.lists->lay_out(lengths_) ? status::ok : status::bounds;
    case coo_step::sum:
      gather(source);
      items_ = steps_.sum(lists_, target.data);
      return target.lists->set_length(0, std::min(items_, room_)) ? status::ok : status::bounds;
    case coo_step::tally: {
      const auto tally = target.numbers<std::uint64_t>();
      tally[0] = items_, tally[1] = static_cast<std::uint64_t>(flaw_);
      break;
    }
    case coo_step::plan: plan(round, by, target.numbers<std::uint64_t>()); break;
    case coo_step::keep:
      if (verdict_.flaw != coo_flaw::none) (void)target.lists->set_length(0, 0);
      break;
    case coo_step::give_indices:
      gather(source);
      steps_.give_indices(lists_, target.numbers<std::uint64_t>().data());
      break;
    case coo_step::give_values: steps_.give_values(lists_, target.data); break;
    case coo_step::give_count: target.numbers<std::uint64_t>()[0] = verdict_.items; break;
    case coo_step::give_dense:
      if (verdict_.flaw == coo_flaw::none) steps_.give_dense(lists_, target.data);
      break;
    default: return status::internal;
  }
  return status::ok;
}

void coo_functions::sort(const function_input& number) {
  flaw_ = steps_.sort(indices_, values_, number.numbers<std::uint64_t>()[0]);
}

void coo_functions::gather(const function_input& from) {
  for (std::uint64_t i = 0; i < lists_.size(); ++i) lists_[i] = {from.items(i), from.length(i)};
}

void coo_functions::plan(round_no round, const function_input& tallies, std::span<std::uint64_t> lengths) {
  verdict_ = steps_.judge(tallies.numbers<std::uint64_t>());
  const bool is_good = verdict_.flaw == coo_flaw::none;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    lengths[i] = is_good ? tallies.numbers<std::uint64_t>()[i * k_coo_tally] : 0;
  if (is_good) return;
  bad_flaw_.store(verdict_.flaw);
  bad_culprit_.store(verdict_.culprit);
  bad_items_.store(verdict_.items);
  bad_round_.store(round);
}

coo_verdict coo_functions::verdict_of(round_no round) const {
  if (bad_round_.load() != round) return {};
  return {bad_flaw_.load(), bad_culprit_.load(), bad_items_.load()};
}

}  // namespace lsched
