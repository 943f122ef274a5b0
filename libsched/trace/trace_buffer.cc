#include "libsched/trace/trace_buffer.h"

#include <algorithm>
#include <utility>

namespace lsched {

std::vector<trace_event> trace_buffer::events() const {
  std::vector<trace_event> all;
  std::map<std::pair<std::uint32_t, op_id>, std::size_t> begun;  // index in `all` of the op's last begin
  std::uint64_t last = 0;
  for (const trace_event& e : notes_) {
    last = std::max({last, e.begin_ns, e.end_ns});
    const std::pair key(e.schedule, e.op);
    if (e.begin_ns != 0) {
      if (e.end_ns == 0) begun[key] = all.size();
      all.push_back(e);
    } else if (const auto found = begun.find(key); found != begun.end() && all[found->second].round == e.round) {
      all[found->second].end_ns = e.end_ns;
      begun.erase(found);
    }
  }
  for (const auto& [key, place] : begun)
    if (key.second == k_no_op || is_payload(all[place].kind)) all[place].end_ns = last;
  std::erase_if(all, [](const trace_event& e) { return e.end_ns == 0; });
  return all;
}

}  // namespace lsched
