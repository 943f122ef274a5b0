#include "tests/support/fake_cuda/faults.h"

#include "tests/support/fake_cuda/errors.h"
#include "tests/support/fake_cuda/misuse.h"
#include "tests/support/fake_cuda/options.h"

namespace fake_cuda {

void fault_plan::add(std::string_view rules) {
  for (const std::string& text : split(rules, ',')) {
    const std::vector<std::string> words = split(text, ':');
    const bool is_sticky = words.size() == 4 && words[3] == "sticky";
    if (words.size() < 3 || words.size() > 4 || (words.size() == 4 && !is_sticky))
      misuse("a fault is function:n:code[:sticky], not " + text);
    const bool hangs = words[2] == "hang";
    const std::optional<CUresult> code = hangs ? CUDA_ERROR_UNKNOWN : answer_of(words[2]);
    const std::uint64_t nth = number_in(words[1], "a fault");
    if (!code || nth == 0 || (hangs && is_sticky)) misuse("there is no fault " + text);
    rules_.push_back({words[0], nth, {*code, hangs, is_sticky}});
  }
}

std::optional<fault> fault_plan::on_call(std::string_view function) {
  std::optional<fault> due;
  for (rule& one : rules_)
    if (one.function == function && one.left != 0 && --one.left == 0) due = one.what;
  return due;
}

}  // namespace fake_cuda
