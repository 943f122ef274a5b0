#include "tests/support/fake_cuda/options.h"

#include <cstdlib>

#include "ops/number_text.h"
#include "tests/support/fake_cuda/misuse.h"

namespace fake_cuda {
namespace {

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const std::string text = variable(name);
  return text.empty() ? otherwise : number_in(text, name);
}

}  // namespace

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = text.find(at);
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return words;
}

std::uint64_t number_in(const std::string& text, const char* where) {
  const auto number = lsched::parse_number<std::uint64_t>(text);
  if (!number) misuse(std::string(where) + ": " + text + " is not a number");
  return *number;
}

options read_options() {
  options read;
  read.version = static_cast<int>(number_of("FAKE_CUDA_VERSION", 13000));
  read.devices = static_cast<int>(number_of("FAKE_CUDA_DEVICES", 2));
  read.seed = number_of("FAKE_CUDA_SEED", 1);
  read.has_one_queue = number_of("FAKE_CUDA_ONE_QUEUE", 0) != 0;
  read.reports_leaks = number_of("FAKE_CUDA_LEAKS", 0) != 0;
  read.faults = variable("FAKE_CUDA_FAIL");
  for (const std::string& name : split(variable("FAKE_CUDA_MISSING"), ',')) read.missing.insert(name);
  constexpr const char* attributes = "FAKE_CUDA_ATTRIBUTES";
  for (const std::string& rule : split(variable(attributes), ',')) {
    const std::vector<std::string> words = split(rule, ':');
    if (words.size() != 2) misuse(std::string(attributes) + ": " + rule + " is not attribute:value");
    read.attributes[static_cast<int>(number_in(words[0], attributes))] =
        static_cast<int>(number_in(words[1], attributes));
  }
  return read;
}

}  // namespace fake_cuda
