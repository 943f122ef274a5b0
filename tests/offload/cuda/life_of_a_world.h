// A world under the fake driver. A test takes the world step by step from its opening to its closing, so that a fault
// can strike in each step. Two ranks have buffers in device memory, and one rank has buffers in host memory. The ranks
// sum these buffers, in rounds that the host starts and in rounds that streams start. In addition, all ranks sum
// buffers in host memory.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/c/lsched_cuda.h"
#include "tests/offload/cuda/user_memory.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {

enum class life_step : std::uint8_t { attach, create, run, stream, destroy, close };
inline constexpr std::array k_life_steps{life_step::attach, life_step::create,  life_step::run,
                                         life_step::stream, life_step::destroy, life_step::close};
inline const char* name_of(life_step step) {
  constexpr std::array names{"attach", "create", "run", "stream", "destroy", "close"};
  return names[static_cast<std::size_t>(step)];
}

/// The result of a call on one rank.
struct answer {
  lsched_status code = LSCHED_OK;
  std::string words{};
  std::int32_t peer = -1;
};

class life_of_a_world {
 public:
  static constexpr std::int32_t k_ranks = 3;
  static constexpr const char* k_no_diagnostic = "asking for a round";  ///< `words` of calls that have no diagnostic
  static constexpr std::uint64_t k_call_ns = 10'000'000'000;
  static constexpr std::size_t k_count = 20'000;

  explicit life_of_a_world(const fake_device& gpu);
  ~life_of_a_world();
  life_of_a_world(const life_of_a_world&) = delete;
  life_of_a_world& operator=(const life_of_a_world&) = delete;

  /// Performs the step on all ranks. Returns the result of each rank.
  std::vector<answer> take(life_step step);

  /// Runs the sum of the buffers in host memory. Returns the error, or an empty text if the sum is right on all ranks.
  std::string add_up_host_memory();

  bool has_device(std::size_t rank) const { return rank != k_ranks - 1; }
  const floats& output(std::size_t rank) { return ranks_[rank].output->content(); }
  static floats sum();
  /// Returns whether the application's streams have no pending work.
  bool are_streams_free() const;
  /// Drops the application's resources without releasing them. A test needs this if the driver no longer releases
  /// anything.
  void forget_driver();
  /// Returns the text of lsched_world_describe.
  std::string describe(std::size_t rank) const;
  lsched_world* world(std::size_t rank) const { return ranks_[rank].world; }
  lsched_schedule*& schedule(std::size_t rank) { return ranks_[rank].schedule; }
  CUstream stream(std::size_t rank) const { return ranks_[rank].stream; }

 private:
  struct rank_of_life {
    lsched_world* world = nullptr;
    std::unique_ptr<user_buffer> input, output;
    CUstream stream = nullptr;
    lsched_schedule* schedule = nullptr;
    lsched_schedule* of_host = nullptr;
    floats host_input{}, host_output{};
  };
  void each(const std::function<void(rank_of_life&, std::size_t)>& body);
  static answer attach(rank_of_life& mine);
  static answer create(rank_of_life& mine, void* input, void* output, lsched_schedule*& made);
  answer run(rank_of_life& mine) const;
  answer run_in_stream(rank_of_life& mine) const;
  static answer destroy(rank_of_life& mine);
  static floats input_of(std::size_t rank);

  const fake_device& gpu_;
  std::vector<rank_of_life> ranks_{k_ranks};
};

}  // namespace lsched::testing
