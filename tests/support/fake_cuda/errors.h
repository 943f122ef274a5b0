// Names and texts of the driver's results.
#pragma once

#include <cuda.h>

#include <optional>
#include <string>

namespace fake_cuda {

struct error_text {
  std::string name;   ///< CUDA_ERROR_OUT_OF_MEMORY
  std::string words;  ///< out of memory
};

/// Returns nullptr if the driver has no such result.
const error_text* text_of(CUresult answer);

/// Returns the result with this name or number.
std::optional<CUresult> answer_of(const std::string& text);

}  // namespace fake_cuda
