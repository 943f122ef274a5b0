// A collective as C callers ask for it: checked, and in the words of the generators.
#pragma once

#include <string>

#include "bindings/c/lsched.h"
#include "collectives/registry.h"

namespace lsched {

/// What is asked for, and the memory it is asked for; a null pointer where this rank has no such buffer.
struct collective_request {
  const collective* of = nullptr;
  shape data;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  /// In place, how many bytes after the output's beginning the input begins.
  std::int64_t aliasing_bytes = 0;
  user_kernel user{};  ///< of kernel::user
};

/// Reads the desc of a rank in a world of such nodes (shape::nodes). ARGUMENT for whatever is missing, out of range,
/// overlaps or does not belong to this collective.
result<collective_request> read_request(world place, const std::vector<rank>& nodes, lsched_collective_desc desc);

/// " in 3 tensors (123456)", or nothing.
std::string text_of_tensors(const shape& data);

/// All that ranks have to agree about, in words.
std::string agreement_of(const collective_request& asked, std::string_view algorithm);

}  // namespace lsched
