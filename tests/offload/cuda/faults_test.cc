// Injects an error, once or permanently, into every driver function that the library calls, in every step of a world's
// life. No rank may wait for a timeout. Errors must have a status and the driver's text. The application's streams must
// continue, sums of buffers in host memory must stay right, and all resources must be released.
#include <algorithm>
#include <map>
#include <set>

#include "tests/offload/cuda/life_of_a_world.h"
#include "tests/support/sampling.h"

namespace lsched::testing {
namespace {

#define LSCHED_CUDA_NAME(function, version) #function,
constexpr const char* k_functions[] = {LSCHED_CUDA_FUNCTIONS(LSCHED_CUDA_NAME)
                                           LSCHED_CUDA_OPTIONAL_FUNCTIONS(LSCHED_CUDA_NAME)};

constexpr int k_no_memory = 2, k_sticky = 700;

struct strike {
  life_step when;
  std::string function;
  std::uint64_t nth;  ///< index of the failing call, from 1, among the calls of `function` in the step
  int code;
  bool is_sticky() const { return code == k_sticky; }
  std::string rule() const {
    return function + ":" + std::to_string(nth) + ":" + std::to_string(code) + (is_sticky() ? ":sticky" : "");
  }
};

std::ostream& operator<<(std::ostream& out, const strike& one) {
  return out << one.rule() << " in " << name_of(one.when);
}

/// Returns whether the failing call releases a resource, or pushes a context in order to release a resource. In this
/// case a leak is expected.
bool gives_back(const strike& by) {
  const std::string& function = by.function;
  if (function == "cuCtxPushCurrent" && (by.nth > 2 || by.when >= life_step::destroy)) return true;
  return function.find("Free") != std::string::npos || function.find("Destroy") != std::string::npos ||
         function.find("Release") != std::string::npos || function.find("Unload") != std::string::npos ||
         function.find("Unregister") != std::string::npos || function.find("Unmap") != std::string::npos ||
         function.find("PopCurrent") != std::string::npos;
}

bool is_any_of(lsched_status code, std::initializer_list<lsched_status> all) {
  return std::ranges::find(all, code) != all.end();
}

/// Returns whether the result `what` of a rank in step `now` is permitted. The fault has happened in step `now` or
/// earlier.
bool is_proper(const strike& by, life_step now, bool has_device, const answer& what) {
  if (what.code == LSCHED_OK) return true;
  const bool is_explained = !what.words.empty();
  const bool is_meant = is_any_of(what.code, {LSCHED_ERR_NOMEM, LSCHED_ERR_UNSUPPORTED, LSCHED_ERR_ARGUMENT});
  switch (now) {
    case life_step::attach:
      if (by.code == k_no_memory) return is_explained && what.code == LSCHED_ERR_NOMEM;
      return is_explained && is_any_of(what.code, {LSCHED_ERR_NOMEM, LSCHED_ERR_UNSUPPORTED, LSCHED_ERR_DEVICE});
    case life_step::create:
      if (by.when == life_step::create && by.is_sticky()) return is_explained && what.code == LSCHED_ERR_DEVICE;
      if (by.when == life_step::create && by.code == k_no_memory) return is_explained && what.code == LSCHED_ERR_NOMEM;
      return is_explained && (is_meant || what.code == LSCHED_ERR_DEVICE);
    case life_step::run:
    case life_step::stream:
      if (what.code == LSCHED_ERR_DEVICE) return has_device && is_explained;
      if (what.words == life_of_a_world::k_no_diagnostic) return what.code == LSCHED_ERR_CANCELLED;
      return what.code == LSCHED_ERR_CANCELLED && what.peer >= 0 && is_explained;
    default: return false;
  }
}

class CudaFaults : public UnderTheFake {
 protected:
  using counts = std::map<std::string, std::uint64_t>;

  counts all_calls() const {
    counts all;
    for (const char* const function : k_functions) all[function] = fake().calls(function);
    return all;
  }

  /// Returns the number of calls of each function in each step of a life without faults.
  std::map<life_step, counts> calls_in_each_step() {
    std::map<life_step, counts> all;
    life_of_a_world life(gpu());
    for (const life_step step : k_life_steps) {
      const counts before = all_calls();
      for (const answer& one : life.take(step)) EXPECT_EQ(one.code, LSCHED_OK) << name_of(step) << ": " << one.words;
      for (const auto& [function, calls] : all_calls())
        if (const std::uint64_t more = calls - before.at(function); more != 0) all[step][function] = more;
    }
    return all;
  }

  std::vector<strike> all_strikes(life_step step) {
    std::vector<strike> all;
    const auto in_each_step = calls_in_each_step();
    for (const auto& [function, calls] : in_each_step.at(step))
      for (const std::uint64_t nth : std::set<std::uint64_t>{1, 2, calls})
        for (const int code : {k_no_memory, 1, 801, k_sticky})
          if (nth <= calls) all.push_back({step, function, nth, code});
    return all;
  }

  /// Runs one life of a world under the fault.
  void live(const strike& by) {
    SCOPED_TRACE(::testing::PrintToString(by));
    const auto begin = std::chrono::steady_clock::now();
    life_of_a_world life(gpu());
    bool is_well = true;
    for (const life_step step : k_life_steps) {
      if (step == by.when) fake().fail(by.rule().c_str());
      const std::vector<answer> answers = life.take(step);
      for (std::size_t r = 0; r < answers.size(); ++r) {
        const answer& told = answers[r];
        const bool is_named = told.code != LSCHED_ERR_DEVICE || told.words == life.k_no_diagnostic ||
                              told.words.find("CUDA_ERROR_") != std::string::npos;
        EXPECT_TRUE(is_named && is_proper(by, step, life.has_device(r), told))
            << name_of(step) << ", rank " << r << ": " << told.code << ", " << told.words;
        is_well = is_well && answers[r].code == LSCHED_OK;
      }
      look_after(step, by, is_well, life);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(sampled() ? 30 : 8));
    if (by.is_sticky()) life.forget_driver();
  }

  static void look_after(life_step step, const strike& by, bool is_well, life_of_a_world& life) {
    if (step == life_step::run && is_well && !by.is_sticky()) {
      for (std::size_t r = 0; r < life.k_ranks; ++r) EXPECT_TRUE(life.output(r) == life.sum()) << "rank " << r;
    }
    if (step == life_step::stream && !by.is_sticky()) {
      EXPECT_TRUE(wait_until([&] { return life.are_streams_free(); })) << "a stream waits forever";
    }
    if (step < life_step::destroy) {
      EXPECT_EQ(life.add_up_host_memory(), "") << "after " << name_of(step);
    }
  }

  void strike_all(life_step step) {
    const std::vector<strike> all = all_strikes(step);
    ASSERT_FALSE(all.empty());
    for (std::size_t i = 0; i < all.size() && !HasFailure(); i += stride(1, 13)) {
      alarm(100);
      begin_anew();
      live(all[i]);
      const bool may_leave = all[i].is_sticky() || gives_back(all[i]);
      if (!may_leave) {
        release();
        EXPECT_EQ(find_fake_cuda()->leaked(), "") << all[i];
      }
    }
    begin_anew();
  }
};

TEST_F(CudaFaults, StrikeWhileADeviceIsAttached) { strike_all(life_step::attach); }
TEST_F(CudaFaults, StrikeWhileAScheduleIsCreated) { strike_all(life_step::create); }
TEST_F(CudaFaults, StrikeInRounds) { strike_all(life_step::run); }
TEST_F(CudaFaults, StrikeInRoundsOfStreams) { strike_all(life_step::stream); }
TEST_F(CudaFaults, StrikeWhileAScheduleIsDestroyed) { strike_all(life_step::destroy); }
TEST_F(CudaFaults, StrikeWhileAWorldIsClosed) { strike_all(life_step::close); }

}  // namespace
}  // namespace lsched::testing
