// Floating-point modes that the threads of an application may have.
#pragma once

#include <array>
#include <cfenv>
#include <cstdint>

#include "ops/float_mode.h"

namespace lsched::testing {

struct named_mode {
  const char* name;
  std::uint64_t control;
};

#if defined(__x86_64__)
inline constexpr std::array k_float_modes{named_mode{"flush results to zero", 0x1F80 | 0x8000},
                                          named_mode{"take subnormals for zero", 0x1F80 | 0x0040},
                                          named_mode{"round down", 0x1F80 | 0x2000},
                                          named_mode{"round up", 0x1F80 | 0x4000},
                                          named_mode{"round toward zero", 0x1F80 | 0x6000},
                                          named_mode{"all of these", 0x1F80 | 0x8000 | 0x0040 | 0x4000}};
#elif defined(__aarch64__)
inline constexpr std::array k_float_modes{named_mode{"flush to zero", 1u << 24}, named_mode{"round up", 1u << 22},
                                          named_mode{"round down", 2u << 22}, named_mode{"round toward zero", 3u << 22},
                                          named_mode{"all of these", 1u << 24 | 1u << 22}};
#else
inline constexpr std::array k_float_modes{named_mode{"round up", FE_UPWARD}, named_mode{"round down", FE_DOWNWARD},
                                          named_mode{"round toward zero", FE_TOWARDZERO}};
#endif

/// Sets the floating-point mode of the calling thread while the object exists.
class float_mode_of_caller {
 public:
  explicit float_mode_of_caller(std::uint64_t control) : before_(float_control::read()) {
    float_control::write(control);
  }
  ~float_mode_of_caller() { float_control::write(before_); }
  float_mode_of_caller(const float_mode_of_caller&) = delete;
  float_mode_of_caller& operator=(const float_mode_of_caller&) = delete;

 private:
  std::uint64_t before_;
};

}  // namespace lsched::testing
