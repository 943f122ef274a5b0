// A gate between streams and the rounds of an instance (libsched/engine/round_gate.h), implemented with CUDA. ask()
// records an event in the stream, and the round begins when the event has completed. A stream that waits for the end of
// a round waits until a word in memory has reached a value.
#pragma once

#include <array>
#include <memory>

#include "libsched/engine/round_gate.h"
#include "offload/cuda/driver/health.h"
#include "offload/cuda/streams/gpu_bell.h"
#include "offload/cuda/streams/stream_words.h"

namespace lsched {

class stream_gate final : public round_gate {
 public:
  /// Returns null if no memory is left. All arguments must outlive the gate.
  static std::unique_ptr<stream_gate> open(const cuda_context& in, cuda_health& health, stream_words& words,
                                           gpu_bell& bell);
  ~stream_gate() override;

  status ask(void* stream, round_no round) override;
  status wait(void* stream, round_no round) override;
  status is_open(round_no round) override;
  bool arm(round_no round) override;
  void release(round_no round) override;

 private:
  /// The event of a round, in use from ask() until the end of the round.
  struct entry {
    CUevent passed = nullptr;
    round_no round = 0;     ///< last round for which ask() has used this entry
    bool is_armed = false;  ///< the bell will ring when the event completes
  };

  stream_gate(const cuda_context& in, cuda_health& health, stream_words& words, gpu_bell& bell)
      : in_(in), health_(health), words_(words), bell_(bell) {}
  bool reserve();
  status find_owner(void* stream) const;
  status validate(const cuda_scope& here, CUstream stream) const;
  entry& entry_of(round_no round) { return entries_[round % entries_.size()]; }

  const cuda_context& in_;
  cuda_health& health_;  ///< used by the engine's owner only
  stream_words& words_;
  gpu_bell& bell_;
  CUstream ringing_ = nullptr;  ///< stream of the host functions that ring the bell
  std::array<entry, k_most_ahead> entries_{};
  stream_word end_;  ///< a word whose value is base + (number of the last round that has ended)
};

}  // namespace lsched
