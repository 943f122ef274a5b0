#include "libsched/analysis/segments.h"

#include <algorithm>

namespace lsched {

segment_map::segment_map(const schedule& program) {
  cut(program);
  ops_.resize(program.ops().size());
  for (op_id id = 0; id < ops_.size(); ++id) {
    for (const operand& part : operands_of(program.ops()[id], program.buffers())) {
      segment_range& all = part.which == &op::a   ? ops_[id].a
                           : part.which == &op::b ? ops_[id].b
                           : part.which == &op::c ? ops_[id].c
                                                  : ops_[id].s;
      all = segments_of(program, part);
    }
  }
}

/// Cuts every buffer at the start and at the end of each region that an op uses.
void segment_map::cut(const schedule& program) {
  std::vector<std::vector<std::uint64_t>> cuts(program.buffers().size(), std::vector<std::uint64_t>{0});
  for (const op& o : program.ops()) {
    for (const operand& part : operands_of(o, program.buffers())) {
      if (part.count == 0) continue;
      cuts[part.at.buffer()].push_back(part.at.offset());
      cuts[part.at.buffer()].push_back(part.at.offset() + part.count);
    }
  }
  for (std::size_t b = 0; b < cuts.size(); ++b) {
    std::ranges::sort(cuts[b]);
    cuts[b].erase(std::unique(cuts[b].begin(), cuts[b].end()), cuts[b].end());
    const std::uint64_t end = program.buffers()[b].count;
    if (cuts[b].size() > 1 && cuts[b].back() == end) cuts[b].pop_back();
    first_.push_back(count());
    begin_.insert(begin_.end(), cuts[b].begin(), cuts[b].end());
  }
  first_.push_back(count());
}

std::uint32_t segment_map::at(std::uint16_t buffer, std::uint64_t element) const {
  const segment_range all = of_buffer(buffer);
  return static_cast<std::uint32_t>(std::lower_bound(begin_.begin() + all.first, begin_.begin() + all.end, element) -
                                    begin_.begin());
}

segment_range segment_map::segments_of(const schedule& program, const operand& part) const {
  const region from = part.at;
  if (program.buffers()[from.buffer()].count == 0) return of_buffer(from.buffer());
  if (part.count == 0) return {};
  return {at(from.buffer(), from.offset()), at(from.buffer(), from.offset() + part.count)};
}

}  // namespace lsched
