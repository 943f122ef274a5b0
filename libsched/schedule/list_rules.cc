#include "libsched/schedule/list_rules.h"

#include <algorithm>

namespace lsched {
namespace {

class rules {
 public:
  rules(const op& what, std::span<const buffer> buffers) : what_(what), buffers_(buffers) {}

  std::string objection_to_regions() const {
    if (what_.kind == op_kind::compute) return objection_to_compute();
    if (is_payload(what_.kind)) return objection_to_message();
    return has_lists(what_.c) ? "it captures lists" : "";
  }

  std::string objection_to_guard(const guard& when) const {
    if (!is_payload(what_.kind) && what_.kind != op_kind::compute) return "only payload and computes have guards";
    if (!when.skips_empty) return {};
    if (what_.kind == op_kind::recv)
      return is_packed(what_.c) ? "" : "it skips empty lists of which it cannot know before that they are";
    const bool moves_lists = has_lists(what_.a) && (what_.kind == op_kind::send || what_.what == kernel::copy);
    return moves_lists ? "" : "it skips empty lists, but moves none";
  }

 private:
  bool has_lists(region at) const { return at.exists() && buffers_[at.buffer()].has_lists(); }
  bool is_packed(region at) const { return has_lists(at) && buffers_[at.buffer()].is_packed(); }

  bool is_whole() const {
    const bool begins = what_.a.offset() == 0 && what_.c.offset() == 0 && (!what_.b.exists() || what_.b.offset() == 0);
    return begins && what_.count == buffers_[what_.c.buffer()].count;
  }

  std::string objection_to_message() const {
    const region at = what_.kind == op_kind::send ? what_.a : what_.c;
    if (!has_lists(at) || is_packed(at) || what_.count <= 1) return {};
    return "lists that are not packed go one in a message";
  }

  std::string objection_to_compute() const {
    const bool from = has_lists(what_.a), to = has_lists(what_.c);
    if (is_function(what_.what)) return is_whole() ? "" : "a function reads and writes whole buffers";
    switch (what_.what) {
      case kernel::copy: return from == to ? "" : "it copies between lists and what are none";
      case kernel::measure: return from && !to ? "" : "it measures no lists, or into lists";
      case kernel::lay_out:
        if (from || !is_packed(what_.c)) return "it lays out no packed lists, or by lists";
        return what_.c.offset() == 0 && what_.count == buffers_[what_.c.buffer()].count
                   ? ""
                   : "packed lists are laid out all at once";
      default: break;
    }
    const auto regions = {what_.a, what_.b, what_.c, what_.s};
    return std::ranges::any_of(regions, [this](region at) { return has_lists(at); }) ? "it cannot compute with lists"
                                                                                     : "";
  }

  const op& what_;
  std::span<const buffer> buffers_;
};

}  // namespace

std::string objection_to_lists(const op& what, std::span<const buffer> buffers, const guard* when) {
  const rules all(what, buffers);
  std::string why = all.objection_to_regions();
  return why.empty() && when != nullptr ? all.objection_to_guard(*when) : why;
}

std::string objection_to_lists(std::span<const buffer> buffers, std::span<const guard> guards, bool is_synchronising,
                               bool is_partial) {
  const auto crosses = [](const buffer& it) { return it.has_lists() && it.role != buffer_role::scratch; };
  if (is_partial && std::ranges::any_of(buffers, crosses)) return "a partial schedule takes and gives no lists";
  if (!guards.empty() && !is_synchronising) return "guards are for synchronising schedules";
  return {};
}

}  // namespace lsched
