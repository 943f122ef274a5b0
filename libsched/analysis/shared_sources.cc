#include "libsched/analysis/shared_sources.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "libsched/analysis/order.h"

namespace lsched {
namespace {

using region_key = std::tuple<std::uint16_t, std::uint64_t, std::uint64_t, dtype>;  ///< buffer, offset, count, type

/// Returns the sends whose source is in an input or output, by source region. Regions that only one op sends are left
/// out.
std::map<region_key, std::vector<op_id>> candidates_in(const schedule& program) {
  std::map<region_key, std::vector<op_id>> sends;
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& o = program.ops()[id];
    if (o.kind != op_kind::send || o.guard != 0) continue;
    const buffer& source = program.buffers()[o.a.buffer()];
    if (source.role == buffer_role::scratch || source.has_lists()) continue;
    sends[{o.a.buffer(), o.a.offset(), o.count, o.type}].push_back(id);
  }
  std::erase_if(sends, [](const auto& entry) { return entry.second.size() < 2; });
  return sends;
}

/// Returns all writes to outputs. An entry has the op and the region that the op writes.
std::vector<std::pair<op_id, operand>> output_writes_in(const schedule& program) {
  std::vector<std::pair<op_id, operand>> writes;
  for (op_id id = 0; id < program.ops().size(); ++id)
    for (const operand& part : operands_of(program.ops()[id], program.buffers()))
      if (part.is_written && program.buffers()[part.at.buffer()].role == buffer_role::output)
        writes.emplace_back(id, part);
  return writes;
}

/// Returns true if a written region overlaps the source of a send. Both regions have the type of the buffer, so their
/// element ranges can be compared.
bool overlaps(const operand& written, const op& reader) {
  const std::uint64_t begin = written.at.offset(), read = reader.a.offset();
  return written.at.buffer() == reader.a.buffer() && begin < read + reader.count && read < begin + written.count;
}

}  // namespace

/// Sends of the same region form a group if no write can come between them. If the region is in an output, every
/// overlapping write must come before each of these sends. If the region is in an input, no write to an output may come
/// before one of these sends, because an output may share the memory of the input.
std::vector<std::uint32_t> shared_sources(const schedule& program) {
  std::vector<std::uint32_t> numbers(program.ops().size(), 0);
  const auto candidates = candidates_in(program);
  if (program.is_partial() || candidates.empty() || numbers.size() > k_most_ordered_ops) return numbers;
  const local_order order(program);
  if (!order.waits_for_all()) return numbers;
  const auto writes = output_writes_in(program);
  std::uint32_t last = 0;
  for (const auto& [source, sends] : candidates) {
    std::vector<op_id> steady;
    const bool is_input = program.buffers()[std::get<0>(source)].role == buffer_role::input;
    std::ranges::copy_if(sends, std::back_inserter(steady), [&](op_id send) {
      return std::ranges::all_of(writes, [&](const auto& write) {
        const bool is_earlier = order.is_before(write.first, send);
        return is_input ? !is_earlier : is_earlier || !overlaps(write.second, program.ops()[send]);
      });
    });
    if (steady.size() < 2) continue;
    ++last;
    for (const op_id send : steady) numbers[send] = last;
  }
  return numbers;
}

}  // namespace lsched
