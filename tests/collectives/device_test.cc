// Tests of schedules over device memory. Ranks have all, some or none of their buffers in device memory. The results
// must have the same bits as in a world in host memory. The host cannot access the device memory of these tests.
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "libsched/place/place.h"
#include "libsched/schedule/builder.h"
#include "libsched/schedule/schedule_file.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/sampling.h"

namespace lsched::testing {
namespace {

using bytes = std::vector<std::byte>;

/// The host memory of a rank's buffers, and the addresses of these buffers in the schedule.
struct rank_memory {
  std::vector<bytes> inputs, outputs;
  binding bound;
  caller_spaces spaces;
};

/// A world that runs the schedules of one generator.
class device_world {
 public:
  enum class places : std::uint8_t { host, device, mixed };

  device_world(const algorithm& how, rank size, const shape& data, places where, std::uint64_t seed)
      : world_(size, seed), memory_(static_cast<std::size_t>(size)), devices_(static_cast<std::size_t>(size)) {
    its_ = world_.commit([&](rank r) {
      const schedule_ptr program = *how.generate({r, size}, data, {});
      return commit_request{"device", placed(program, bind(*program, where, seed)), at(r).bound};
    });
  }
  ~device_world() {
    if (!its_.empty()) world_.remove(its_);
  }
  device_world(const device_world&) = delete;
  device_world& operator=(const device_world&) = delete;

  bool run() { return !its_.empty() && world_.run_round(its_); }

  /// Returns the contents of the outputs, ordered by rank and by the index of the output.
  std::vector<bytes> results() const {
    std::vector<bytes> all;
    for (std::size_t r = 0; r < memory_.size(); ++r)
      for (std::size_t i = 0; i < memory_[r].outputs.size(); ++i) {
        const std::byte* const place = memory_[r].bound.outputs[i];
        const std::byte* const seen = devices_[r] == nullptr ? place : devices_[r]->seen(place);
        all.emplace_back(seen, seen + memory_[r].outputs[i].size());
      }
    return all;
  }
  std::uint64_t jobs() const {
    std::uint64_t done = 0;
    for (const stepped_device* one : devices_) done += one == nullptr ? 0 : one->done();
    return done;
  }
  lockstep_world& world() { return world_; }
  stepped_device& device_of(rank r) { return *devices_[static_cast<std::size_t>(r)]; }
  const std::vector<instance*>& its() const { return its_; }

 private:
  rank_memory& at(rank r) { return memory_[static_cast<std::size_t>(r)]; }

  /// Returns whether a buffer is in device memory. In a mixed world, the ranks cycle through four choices: all buffers,
  /// the outputs, the inputs, or no buffers are in device memory.
  static bool is_on_device(places where, rank r, bool is_input) {
    if (where != places::mixed) return where == places::device;
    return r % 4 == 0 || (is_input ? r % 4 == 2 : r % 4 == 1);
  }

  const caller_spaces& bind(const schedule& program, places where, std::uint64_t seed) {
    const rank r = program.place().self;
    rank_memory& mine = at(r);
    for (const buffer& each : program.buffers()) {
      if (each.role == buffer_role::scratch) continue;
      const bool is_input = each.role == buffer_role::input, on_device = is_on_device(where, r, is_input);
      std::vector<bytes>& all = is_input ? mine.inputs : mine.outputs;
      all.emplace_back(each.bytes(), std::byte{0x5A});
      if (is_input) fill(all.back(), mix(seed + 1) ^ static_cast<std::uint64_t>(r));
      std::byte* place = all.back().data();
      if (on_device) place = on_device_of(r, all.back());
      is_input ? mine.bound.inputs.push_back(place) : mine.bound.outputs.push_back(place);
      (is_input ? mine.spaces.inputs : mine.spaces.outputs)
          .push_back(on_device ? memory_space::device : memory_space::host);
    }
    return mine.spaces;
  }

  /// Fills the buffer with numbers of a few bits, so that products and sums stay finite.
  static void fill(bytes& into, std::uint64_t seed) {
    for (std::size_t i = 0; i + sizeof(float) <= into.size(); i += sizeof(float)) {
      const float value = static_cast<float>(mix(seed + i) % 1000) / 64 - 7;
      std::memcpy(into.data() + i, &value, sizeof value);
    }
  }

  std::byte* on_device_of(rank r, const bytes& content) {
    stepped_device*& gpu = devices_[static_cast<std::size_t>(r)];
    if (gpu == nullptr) gpu = &world_.give_device(r);
    std::byte* const place = gpu->take(std::max<std::size_t>(content.size(), 1));
    if (!content.empty()) std::memcpy(gpu->seen(place), content.data(), content.size());
    return place;
  }

  lockstep_world world_;
  std::vector<rank_memory> memory_;
  std::vector<stepped_device*> devices_;  ///< devices, by rank; null if a rank has no device
  std::vector<instance*> its_;
};

class DeviceRounds : public ::testing::TestWithParam<algorithm> {};

TEST_P(DeviceRounds, have_the_bits_of_host_memory) {
  const algorithm& it = GetParam();
  const std::vector<rank> sizes = sampled() ? std::vector<rank>{3, 5} : std::vector<rank>{2, 3, 5, 6, 7, 8};
  const std::vector<std::uint64_t> counts{0, 1, 37, 5000};
  for (const rank size : sizes)
    for (const std::uint64_t count : counts)
      for (std::uint64_t seed = 1; seed <= (sampled() ? 1u : 3u); ++seed) {
        const shape data = typical_shape(*it.of, size, count, dtype::f32, kernel::sum);
        if (data.room != 0) GTEST_SKIP() << "lists must be in host memory";
        device_world host(it, size, data, device_world::places::host, seed);
        ASSERT_TRUE(host.run());
        for (const auto where : {device_world::places::device, device_world::places::mixed}) {
          device_world other(it, size, data, where, seed);
          for (int round = 0; round < 3; ++round) ASSERT_TRUE(other.run());
          ASSERT_TRUE(other.results() == host.results()) << size << " ranks, count " << count << ", seed " << seed;
          EXPECT_TRUE(other.jobs() > 0 || count == 0 || !it.of->moves_data);
        }
      }
}

using places = device_world::places;

const algorithm& recursive_doubling() { return *find("allreduce", "recursive_doubling"); }
shape thousand_floats() { return {.count = 1000, .type = dtype::f32, .what = kernel::sum}; }

TEST(DeviceMemory, cannot_be_touched_by_the_host) {
  const device_memory memory(4096);
  *memory.seen(memory.begin()) = std::byte{7};
  EXPECT_EQ(*memory.seen(memory.begin()), std::byte{7});
  EXPECT_DEATH(*memory.begin() = std::byte{8}, "");
}

TEST(DeviceFailure, ends_the_schedules_that_it_has_a_part_in_and_no_others) {
  device_world failing(recursive_doubling(), 3, thousand_floats(), places::device, 5);
  lockstep_world& world = failing.world();
  std::vector<bytes> input(3, bytes(4000)), output(3, bytes(4000));
  const auto others = world.commit([&](rank r) {
    const auto i = static_cast<std::size_t>(r);
    return commit_request{
        "host", recursive_doubling().generate({r, 3}, thousand_floats(), {}), {{input[i].data()}, {output[i].data()}}};
  });
  for (rank r = 0; r < 3; ++r) failing.device_of(r).hold(true);
  for (rank r = 0; r < 3; ++r) lockstep_world::start(world.at(r), *failing.its()[static_cast<std::size_t>(r)]);
  const instance& it = *failing.its()[1];  // rank 1 is an extra, whose first op is a send
  ASSERT_TRUE(world.run_until([&] { return it.jobs != 0; }));
  EXPECT_NE(world.at(1).describe_wait(it, nullptr).find("on the device"), std::string::npos);
  failing.device_of(1).fail();
  ASSERT_TRUE(world.run_until([&] { return it.verdict.load() != status::ok; }));
  EXPECT_EQ(it.verdict.load(), status::device);
  EXPECT_EQ(it.jobs, 0u);
  EXPECT_TRUE(world.run_round(others)) << "the failed device has no part in host memory";
  world.remove(others);
  for (rank r = 0; r < 3; ++r) world.at(r).cancel(*failing.its()[static_cast<std::size_t>(r)]);
  for (rank r = 0; r < 3; ++r) failing.device_of(r).hold(false);
  world.settle();
}

TEST(DeviceFailure, a_lack_of_memory_is_an_answer_and_nothing_remains) {
  for (int refused = 0; refused < 3; ++refused) {
    lockstep_world world(2, 9);
    const binding none{};
    for (rank r = 0; r < 2; ++r) world.give_device(r).refuse_after(r == 0 ? refused : 1000);
    const auto outcomes = world.try_commit([&](rank r) {
      const auto program = placed(*recursive_doubling().generate({r, 2}, thousand_floats(), {}),
                                  {{memory_space::device}, {memory_space::device}});
      return commit_request{"device", program, {{nullptr}, {nullptr}}};
    });
    ASSERT_EQ(outcomes.size(), 2u);
    for (const auto& one : outcomes) EXPECT_EQ(one.why.code, status::no_memory) << refused << ": " << one.why.text;
  }
}

TEST(DeviceFailure, a_rank_without_a_device_is_refused) {
  lockstep_world world(2, 9);
  const auto outcomes = world.try_commit([&](rank r) {
    const auto program = placed(*recursive_doubling().generate({r, 2}, thousand_floats(), {}),
                                {{memory_space::device}, {memory_space::device}});
    return commit_request{"device", program, {{nullptr}, {nullptr}}};
  });
  for (const auto& one : outcomes) EXPECT_EQ(one.why.code, status::unsupported) << one.why.text;
}

TEST(Placed, says_what_cannot_be_in_device_memory) {
  const caller_spaces on_device{{memory_space::device}, {memory_space::device}};
  const auto refusal = [&](const result<schedule_ptr>& made) {
    const auto answer = placed(*made, on_device);
    return answer ? failure{status::ok, ""} : answer.error();
  };
  shape own = thousand_floats();
  own.what = kernel::user;
  const failure arithmetic = refusal(recursive_doubling().generate({0, 3}, own, {}));
  const failure partial = refusal(find("partial_allreduce", "recursive_doubling")
                                      ->generate({0, 3}, thousand_floats(), {.policy = activation_policy::solo}));
  EXPECT_EQ(arithmetic.code, status::unsupported);
  EXPECT_NE(arithmetic.text.find("user-defined arithmetic"), std::string::npos) << arithmetic.text;
  EXPECT_EQ(partial.code, status::unsupported);
  EXPECT_NE(partial.text.find("partial"), std::string::npos) << partial.text;

  const auto program = recursive_doubling().generate({0, 3}, thousand_floats(), {});
  const schedule_ptr once = *placed(*program, on_device);
  EXPECT_EQ(*placed(once, on_device), once) << "the schedule is already placed";
  const auto read = parse_schedule(to_text(*once));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(**read, *once) << "the text must contain the placement";
  EXPECT_EQ(placed(once, {{memory_space::host}, {memory_space::device}}).error().code, status::argument);
  EXPECT_EQ(*placed(*program, {{memory_space::host}, {memory_space::host}}), *program)
      << "all buffers are in host memory already";
}

std::vector<algorithm> placeable() {
  std::vector<algorithm> all;
  std::ranges::copy_if(algorithms(), std::back_inserter(all), [](const algorithm& it) { return !it.of->activates; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(registry, DeviceRounds, ::testing::ValuesIn(placeable()), [](const auto& of) {
  return std::string(of.param.of->name) + "_" + std::string(of.param.name);
});

}  // namespace
}  // namespace lsched::testing
