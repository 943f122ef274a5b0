#include "libsched/pieces.h"

#include <algorithm>

namespace lsched {

piece_map::piece_map(const schedule& program) {
  cut(program);
  ops_.resize(program.ops().size());
  for (op_id id = 0; id < ops_.size(); ++id) {
    const op& it = program.ops()[id];
    const std::uint64_t count = max_count(program, it);
    ops_[id] = {pieces_of(program, it.a, count), pieces_of(program, it.b, count), pieces_of(program, it.c, count)};
  }
}

/// Where any op's region begins or ends.
void piece_map::cut(const schedule& program) {
  std::vector<std::vector<std::uint64_t>> cuts(program.buffers().size(), std::vector<std::uint64_t>{0});
  for (const op& it : program.ops()) {
    const std::uint64_t count = max_count(program, it);
    for (const region part : {it.a, it.b, it.c}) {
      if (!part.exists() || count == 0) continue;
      cuts[part.buffer()].push_back(part.offset());
      cuts[part.buffer()].push_back(part.offset() + count);
    }
  }
  for (std::size_t b = 0; b < cuts.size(); ++b) {
    std::ranges::sort(cuts[b]);
    const auto rest = std::ranges::unique(cuts[b]);
    cuts[b].erase(rest.begin(), rest.end());
    const std::uint64_t end = program.buffers()[b].count;
    if (cuts[b].size() > 1 && cuts[b].back() == end) cuts[b].pop_back();
    first_.push_back(count());
    begin_.insert(begin_.end(), cuts[b].begin(), cuts[b].end());
  }
  first_.push_back(count());
}

std::uint32_t piece_map::at(std::uint16_t buffer, std::uint64_t element) const {
  const piece_range all = of_buffer(buffer);
  return static_cast<std::uint32_t>(std::lower_bound(begin_.begin() + all.first, begin_.begin() + all.end, element) -
                                    begin_.begin());
}

piece_range piece_map::pieces_of(const schedule& program, region part, std::uint64_t count) const {
  if (!part.exists()) return {};
  const piece_range all = of_buffer(part.buffer());
  if (program.buffers()[part.buffer()].count == 0) return all;
  if (count == 0) return {};
  return {at(part.buffer(), part.offset()), at(part.buffer(), part.offset() + count)};
}

}  // namespace lsched
