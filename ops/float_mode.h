// The floating-point mode of a thread, and the mode in which this library computes.
//
// A mode determines how results are rounded, whether subnormals become zero, and which exceptions trap. The application
// can change the mode of its threads at any time. For example, it can call fesetround, or a library that flushes
// subnormals to zero. A new thread inherits the mode of its creator. Equal operands give equal bits on all ranks only
// if the modes are equal. So the library computes in the default mode: round to nearest even, keep subnormals, trap
// nothing.
//
// The library sets the default mode in each step of the engine, for each piece of work of a helper thread, for each
// merge of contributions, and in each C call outside the data path. The library restores the default mode after each
// call of a reduction of the application.
#pragma once

#include <cstdint>
#if !defined(__x86_64__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace lsched {

/// The control bits of this thread, without the exception flags.
class float_control {
 public:
#if defined(__x86_64__)
  // MXCSR contains control bits and exception flags. Bits 0 to 5 are the flags. In the default mode all exceptions are
  // masked.
  static constexpr std::uint64_t k_default = 0x1F80;
  static std::uint64_t read() { return __builtin_ia32_stmxcsr() & ~k_flags; }
  static void write(std::uint64_t control) {
    __builtin_ia32_ldmxcsr(static_cast<unsigned>(control) | (__builtin_ia32_stmxcsr() & k_flags));
  }

 private:
  static constexpr unsigned k_flags = 0x3F;
#elif defined(__aarch64__)
  static constexpr std::uint64_t k_default = 0;
  static std::uint64_t read() {
    std::uint64_t control = 0;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    return control;
  }
  static void write(std::uint64_t control) { asm volatile("msr fpcr, %0" : : "r"(control)); }
#else
  static constexpr std::uint64_t k_default = FE_TONEAREST;
  static std::uint64_t read() { return static_cast<std::uint64_t>(std::fegetround()); }
  static void write(std::uint64_t control) { std::fesetround(static_cast<int>(control)); }
#endif
};

/// Switches this thread to the default mode while the object exists, and then restores the previous mode. Exception
/// flags that are raised meanwhile stay raised. The control register is written only if the current mode is not the
/// default mode.
class default_float_mode {
 public:
  default_float_mode() : before_(float_control::read()) { restore_default(before_); }
  ~default_float_mode() {
    if (before_ != float_control::k_default) [[unlikely]]
      float_control::write(before_);
  }
  default_float_mode(const default_float_mode&) = delete;
  default_float_mode& operator=(const default_float_mode&) = delete;

  /// Restores the default mode after a call of foreign code, which may have changed the mode.
  static void restore() { restore_default(float_control::read()); }

 private:
  static void restore_default(std::uint64_t now) {
    if (now != float_control::k_default) [[unlikely]]
      float_control::write(float_control::k_default);
  }

  const std::uint64_t before_;
};

}  // namespace lsched
