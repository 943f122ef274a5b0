#include "tests/support/promised_outputs.h"

namespace lsched::testing {
namespace {

std::int64_t promised(const promised_range& it, std::uint64_t element, const std::vector<numbers>& inputs) {
  const std::uint64_t from = it.input_begin + element - it.begin;
  if (it.what == promised_content::moved) return inputs[static_cast<std::size_t>(it.source)].at(from);
  std::int64_t sum = 0;
  for (const rank r : it.among) sum += inputs[static_cast<std::size_t>(r)].at(from);
  for (std::size_t r = 0; it.among.empty() && r < inputs.size(); ++r) sum += inputs[r].at(from);
  return sum;
}

}  // namespace

std::string broken_promise(const postcondition& promise, const std::vector<numbers>& inputs,
                           const std::vector<numbers>& outputs) {
  for (const promised_range& it : promise.ranges)
    for (std::uint64_t i = it.begin; it.what != promised_content::nothing && i < it.end; ++i) {
      const std::int64_t wanted = promised(it, i, inputs);
      const std::int64_t found = outputs[static_cast<std::size_t>(it.holder)].at(i);
      if (found != wanted)
        return "rank " + std::to_string(it.holder) + ", output element " + std::to_string(i) + ": " +
               std::to_string(found) + ", not " + std::to_string(wanted);
    }
  return {};
}

}  // namespace lsched::testing
