// The driver's answers by name.
#pragma once

#include <cuda.h>

#include <optional>
#include <string>

namespace fake_cuda {

struct error_text {
  std::string name;   ///< CUDA_ERROR_OUT_OF_MEMORY
  std::string words;  ///< out of memory
};

/// nullptr: none of the driver's answers.
const error_text* text_of(CUresult answer);

/// Of a name, or of a number.
std::optional<CUresult> answer_of(const std::string& text);

}  // namespace fake_cuda
