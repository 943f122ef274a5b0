// Names and texts of the driver's results.
#pragma once

#include <cuda.h>

#include <optional>
#include <string>

namespace fake_cuda {

struct error_text {
  std::string name;   ///< for example "CUDA_ERROR_OUT_OF_MEMORY"
  std::string words;  ///< for example "out of memory"
};

/// Returns the name and the text of a result, or nullptr if the driver has no such result.
const error_text* text_of(CUresult answer);

/// Returns the result whose name or number is `text`, if there is one.
std::optional<CUresult> answer_of(const std::string& text);

}  // namespace fake_cuda
