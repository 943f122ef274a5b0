// Takes over the state of a failed partial instance (docs/reference/shrink.md).
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "libsched/engine/engine.h"

namespace lsched {

engine::last_result engine::last_result_of(const instance& inst) {
  const delivery::slot& newest = inst.results->newest();
  const delivered& what = newest.what;
  return {counted(inst, inst.finished.load()), newest.data, {what.contributors, what.last_offers, what.ranks}};
}

// This rank must have captured its contribution for the round, because otherwise no rank could have ended the round.
void engine::adopt(instance& inst, const last_result& theirs) {
  const std::uint64_t bytes = inst.program->buffers()[inst.output_buffer].bytes();
  if (theirs.data != nullptr && bytes > 0) std::memcpy(inst.cells[inst.output_buffer].storage, theirs.data, bytes);
  publish_result(inst, theirs.totals, theirs.data == nullptr);
  inst.cells[inst.output_buffer].storage = inst.results->writing();
  inst.finished.store(inst.round);
}

// During the failed round, the result buffer may have exchanged its memory with a scratch buffer.
void engine::strip(instance& inst) {
  if (inst.round > 0) inst.results->write_at(inst.cells[inst.output_buffer].storage);
  std::vector<std::byte*> kept = inst.offers->memory();
  std::ranges::copy(inst.results->memory(), std::back_inserter(kept));
  for (std::byte* const place : inst.owned)
    if (std::ranges::find(kept, place) == kept.end()) net_.memory().deallocate(place);
  inst.owned = std::move(kept);
}

void engine::take_over(instance& heir, instance& from) {
  if (from.captured) from.offers->give_back(*std::exchange(from.captured, std::nullopt));
  std::ranges::copy(std::exchange(from.owned, {}), std::back_inserter(heir.owned));
  heir.offers = std::move(from.offers);
  heir.results = std::move(from.results);
  heir.stats = std::move(from.stats);
  heir.rounds_before = counted(from, from.finished.load());
  call_for(heir, called_of(from));
}

}  // namespace lsched
