#include "libsched/analysis/shared_sources.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace lsched {
namespace {

using region_key = std::tuple<std::uint16_t, std::uint64_t, std::uint64_t, dtype>;  ///< buffer, offset, count, type

class source_finder {
 public:
  explicit source_finder(const schedule& program) : program_(program), before_(program.ops().size()) {
    for (op_id id = 0; id < before_.size(); ++id)
      for (const op_id after : program.successors(id)) before_[after].push_back(id);
  }

  std::vector<std::uint32_t> find() {
    std::vector<std::uint32_t> numbers(before_.size(), 0);
    if (program_.is_partial() || !waits_for_all()) return numbers;
    std::uint32_t last = 0;
    const auto all = candidates();
    if (takes_too_long(all)) return numbers;
    for (const auto& [where, sends] : all) {
      if (sends.size() < 2) continue;
      std::vector<op_id> steady;
      for (const op_id id : sends)
        if (is_steady(id)) steady.push_back(id);
      if (steady.size() < 2) continue;
      ++last;
      for (const op_id id : steady) numbers[id] = last;
    }
    return numbers;
  }

 private:
  /// Then what is before an op by deps has completed whenever it fires.
  bool waits_for_all() const {
    for (op_id id = 0; id < before_.size(); ++id)
      if (program_.ops()[id].need != before_[id].size()) return false;
    return true;
  }

  /// Each candidate may look at all ops.
  bool takes_too_long(const std::map<region_key, std::vector<op_id>>& all) const {
    constexpr std::size_t k_most_work = std::size_t{1} << 24;
    std::size_t sends = 0;
    for (const auto& [where, same] : all) sends += same.size() > 1 ? same.size() : 0;
    return sends > k_most_work / std::max<std::size_t>(before_.size(), 1);
  }

  std::map<region_key, std::vector<op_id>> candidates() const {
    std::map<region_key, std::vector<op_id>> sends;
    for (op_id id = 0; id < before_.size(); ++id) {
      const op& what = program_.ops()[id];
      if (what.kind != op_kind::send || what.guard != 0 || role_of(what.a) == buffer_role::scratch ||
          program_.buffers()[what.a.buffer()].has_lists())
        continue;
      sends[{what.a.buffer(), what.a.offset(), what.count, what.type}].push_back(id);
    }
    return sends;
  }

  /// Whether no write comes between such sends: all writes to an output's region are before each of them; and an input
  /// is not written, unless it is an output's memory too, and then by nothing that is before one of them.
  bool is_steady(op_id send) {
    const op& what = program_.ops()[send];
    const std::vector<bool>& earlier = ancestors_of(send);
    const bool is_input = role_of(what.a) == buffer_role::input;
    for (op_id id = 0; id < before_.size(); ++id) {
      for (const operand& part : operands_of(program_.ops()[id], program_.buffers())) {
        if (!part.is_written || role_of(part.at) != buffer_role::output) continue;
        if (is_input ? earlier[id] : overlaps(part, what) && !earlier[id]) return false;
      }
    }
    return true;
  }

  /// Both are of the buffer's type.
  bool overlaps(const operand& written, const op& reader) const {
    const std::uint64_t begin = written.at.offset(), read = reader.a.offset();
    return written.at.buffer() == reader.a.buffer() && begin < read + reader.count && read < begin + written.count;
  }

  /// Sends of one region often wait for the same ops: their ancestors are found once.
  const std::vector<bool>& ancestors_of(op_id id) {
    if (!ancestors_.empty() && before_[id] == their_before_) return ancestors_;
    their_before_ = before_[id];
    ancestors_.assign(before_.size(), false);
    std::vector<op_id> left = before_[id];
    while (!left.empty()) {
      const op_id next = left.back();
      left.pop_back();
      if (ancestors_[next]) continue;
      ancestors_[next] = true;
      left.insert(left.end(), before_[next].begin(), before_[next].end());
    }
    return ancestors_;
  }

  buffer_role role_of(region where) const { return program_.buffers()[where.buffer()].role; }

  const schedule& program_;
  std::vector<std::vector<op_id>> before_;  ///< by op
  std::vector<bool> ancestors_;
  std::vector<op_id> their_before_;
};

}  // namespace

std::vector<std::uint32_t> shared_sources(const schedule& program) { return source_finder(program).find(); }

}  // namespace lsched
