// What a thread does between two looks at a word that another core is about to write.
#pragma once

namespace lsched {

/// Lets the core rest for some ten nanoseconds, so that its other hardware thread gets on. Nothing on processors that
/// are not known here: who spins looks more often then.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` is over at once on most cores
#endif
}

}  // namespace lsched
