// Lists the leaks. A leak is an object or memory that the program did not release.
#include <algorithm>

#include "tests/support/fake_cuda/process.h"

namespace fake_cuda {
namespace {

std::string memory_line(const range& of) {
  const char* const what = of.kind == space::device    ? "device memory "
                           : of.kind == space::managed ? "managed memory "
                                                       : "host memory ";
  const char* const lacks = !of.origin.empty()             ? "closed"
                            : of.reservation != 0          ? "unmapped"
                            : of.kind == space::registered ? "unregistered"
                                                           : "freed";
  return what + std::string("not ") + lacks + ": " + std::to_string(of.size) + " bytes";
}

/// Returns one line for each range that still exists, in the order of allocation.
std::vector<std::string> memory_lines(const memory_map& memory) {
  std::vector<const range*> ranges;
  for (const auto& [start, of] : memory.all()) ranges.push_back(&of);
  std::sort(ranges.begin(), ranges.end(), [](const range* one, const range* other) { return one->id < other->id; });
  std::vector<std::string> lines;
  for (const range* const of : ranges) lines.push_back(memory_line(*of));
  return lines;
}

}  // namespace

std::vector<std::string> leaks_of(const process& p) {
  if (p.dead) return {};
  std::vector<std::string> lines;
  for (const auto& context : p.contexts)
    if (context->retained != 0)
      lines.push_back("context of device " + std::to_string(context->device) +
                      " not released: " + std::to_string(context->retained));
  const auto count = [&](std::size_t number, const char* what) {
    if (number != 0) lines.push_back(what + std::string(" not destroyed: ") + std::to_string(number));
  };
  count(p.streams.alive(), "streams");
  count(p.events.alive(), "events");
  count(p.modules.alive(), "modules");
  count(p.graphs.alive(), "graphs");
  for (std::string& line : memory_lines(p.memory)) lines.push_back(std::move(line));
  for (const auto& [id, of] : p.handles)
    lines.push_back("memory handle not released: " + std::to_string(of->size) + " bytes");
  for (const auto& [start, of] : p.reservations)
    lines.push_back("addresses not freed: " + std::to_string(of.size) + " bytes");
  return lines;
}

}  // namespace fake_cuda
