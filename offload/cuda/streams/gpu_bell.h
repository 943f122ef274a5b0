// A gpu_bell lets streams ring a doorbell (libsched/transport/doorbell.h) by host functions (cuLaunchHostFunc). A host
// function may still be in flight when the doorbell is destroyed. So a gpu_bell lives as long as the process, and is
// reused when none of its host functions is in flight.
#pragma once

#include <mutex>

#include "libsched/transport/doorbell.h"
#include "offload/cuda/driver/context.h"

namespace lsched {

class gpu_bell {
 public:
  /// Returns a gpu_bell for the doorbell `bell`, valid until close().
  static gpu_bell& open(doorbell& bell);

  /// Detaches the doorbell, so that host functions in flight have no effect.
  void close();

  /// Makes the doorbell ring when all work that is now in the stream has completed. Does not wait. Returns false if the
  /// driver refuses.
  bool ring_behind(const cuda_driver& driver, CUstream stream);

 private:
  static void CUDA_CB run(void* bell);

  std::mutex guard_;
  doorbell* bell_ = nullptr;  ///< null if closed
  std::size_t on_their_way_ = 0;
};

}  // namespace lsched
