// A doorbell that streams ring: by a host function behind what they do. One may still be on its way when the doorbell
// is gone, so what it is given lives as long as the process, and is used again once nothing is on its way.
#pragma once

#include <mutex>

#include "libsched/transport/doorbell.h"
#include "offload/cuda/driver/context.h"

namespace lsched {

class gpu_bell {
 public:
  /// For as long as close() was not called.
  static gpu_bell& open(doorbell& bell);

  /// From now on nothing rings.
  void close();

  /// Once the stream has come so far, the owner of the doorbell is woken if he sleeps. False: he is not.
  bool ring_behind(const cuda_driver& driver, CUstream stream);

 private:
  static void CUDA_CB run(void* bell);

  std::mutex guard_;
  doorbell* bell_ = nullptr;  ///< null: it is closed
  std::size_t on_their_way_ = 0;
};

}  // namespace lsched
