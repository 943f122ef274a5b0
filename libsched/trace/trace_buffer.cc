#include "libsched/trace/trace_buffer.h"

#include <algorithm>
#include <utility>

namespace lsched {

std::vector<trace_event> trace_buffer::events() const {
  std::vector<trace_event> all;
  std::map<std::pair<std::uint32_t, op_id>, std::size_t> begun;  // where in `all`; an op that begins again replaces
  std::uint64_t last = 0;
  for (const trace_event& it : notes_) {
    last = std::max({last, it.begin_ns, it.end_ns});
    const std::pair key(it.schedule, it.op);
    if (it.begin_ns != 0) {
      if (it.end_ns == 0) begun[key] = all.size();
      all.push_back(it);
    } else if (const auto found = begun.find(key); found != begun.end() && all[found->second].round == it.round) {
      all[found->second].end_ns = it.end_ns;
      begun.erase(found);
    }
  }
  for (const auto& [key, place] : begun)
    if (key.second == k_no_op || is_payload(all[place].kind)) all[place].end_ns = last;
  std::erase_if(all, [](const trace_event& it) { return it.end_ns == 0; });
  return all;
}

}  // namespace lsched
