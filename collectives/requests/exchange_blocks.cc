#include "collectives/requests/exchange_blocks.h"

#include <string>

#include "ops/counted.h"
#include "ops/rules.h"

namespace lsched {

result<std::vector<exchanged_block>> merged_blocks(const exchange_half& sent, const exchange_half& received,
                                                   rank self) {
  std::vector<exchanged_block> all;
  std::size_t taken = 0;
  const auto take_from_others = [&] {
    for (; taken < received.counts.size() && received.peer_of(taken) != self; ++taken)
      all.push_back({received.peer_of(taken), self, received.counts[taken]});
    return taken < received.counts.size();
  };
  const failure odd_number = argument(
      "this rank sends itself more or fewer blocks than this rank receives from itself: list the rank equally often in "
      "destinations and sources");
  for (std::size_t i = 0; i < sent.counts.size(); ++i) {
    if (sent.peer_of(i) == self) {
      if (!take_from_others()) return odd_number;
      if (const std::uint64_t count = received.counts[taken++]; count != sent.counts[i])
        return argument("this rank sends itself " + counted(sent.counts[i], "element") + " but receives " +
                        std::to_string(count));
    }
    all.push_back({self, sent.peer_of(i), sent.counts[i]});
  }
  if (take_from_others()) return odd_number;
  return all;
}

}  // namespace lsched
