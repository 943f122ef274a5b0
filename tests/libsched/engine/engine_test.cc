// Tests of the engine over inproc, the strictest transport, with all ranks in one thread. The tests cover the results
// of ordinary schedules, and their start, end and failure. The data path must not allocate memory. Tests of partial
// schedules are in engine_partial_test.cc.
#include "libsched/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <span>

#include "collectives/allreduce/allreduce.h"
#include "collectives/rooted/rooted.h"
#include "libsched/schedule/draw.h"
#include "tests/libsched/allocation_count.h"
#include "tests/support/generators.h"
#include "tests/support/list_gather.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/sampling.h"

// --- operator new and delete of this program ---------------------------------------------------------------

namespace lsched::testing {
namespace {
std::atomic<bool> g_counts{false};
std::atomic<std::uint64_t> g_allocations{0}, g_bytes{0};
std::atomic<std::int64_t> g_aligned{0};
constexpr int k_endless = -1;
thread_local int t_left = k_endless;  // number of allocations of this thread that succeed before one fails

void* take(std::size_t bytes, std::size_t alignment) {
  if (g_counts.load()) ++g_allocations, g_bytes += bytes;
  if (alignment >= 64) ++g_aligned;
  const std::size_t wanted = std::max<std::size_t>(bytes, 1);
  return alignment == 0 ? std::malloc(wanted)
                        : std::aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment);
}

void give(void* memory, std::size_t alignment) {
  if (memory != nullptr && alignment >= 64) --g_aligned;
  std::free(memory);
}

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* memory = t_left == 0 ? nullptr : take(bytes, alignment);
  if (t_left > 0) --t_left;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

counting_allocations::counting_allocations() : before_(g_allocations.load()), bytes_before_(g_bytes.load()) {
  g_counts.store(true);
}
counting_allocations::~counting_allocations() { g_counts.store(false); }
std::uint64_t counting_allocations::count() const { return g_allocations.load() - before_; }
std::uint64_t counting_allocations::bytes() const { return g_bytes.load() - bytes_before_; }
failing_allocations::failing_allocations(int after) { t_left = after; }
failing_allocations::~failing_allocations() { t_left = k_endless; }
std::int64_t aligned_allocations() { return g_aligned.load(); }

}  // namespace lsched::testing

void* operator new(std::size_t bytes) { return lsched::testing::take_or_throw(bytes, 0); }
void* operator new[](std::size_t bytes) { return lsched::testing::take_or_throw(bytes, 0); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return lsched::testing::take(bytes, 0); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return lsched::testing::take(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t to) {
  return lsched::testing::take_or_throw(bytes, static_cast<std::size_t>(to));
}
void* operator new[](std::size_t bytes, std::align_val_t to) {
  return lsched::testing::take_or_throw(bytes, static_cast<std::size_t>(to));
}
void* operator new(std::size_t bytes, std::align_val_t to, const std::nothrow_t&) noexcept {
  return lsched::testing::take(bytes, static_cast<std::size_t>(to));
}
void* operator new[](std::size_t bytes, std::align_val_t to, const std::nothrow_t&) noexcept {
  return lsched::testing::take(bytes, static_cast<std::size_t>(to));
}
void operator delete(void* memory) noexcept { lsched::testing::give(memory, 0); }
void operator delete[](void* memory) noexcept { lsched::testing::give(memory, 0); }
void operator delete(void* memory, std::size_t) noexcept { lsched::testing::give(memory, 0); }
void operator delete[](void* memory, std::size_t) noexcept { lsched::testing::give(memory, 0); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { lsched::testing::give(memory, 0); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { lsched::testing::give(memory, 0); }
void operator delete(void* memory, std::align_val_t to) noexcept {
  lsched::testing::give(memory, static_cast<std::size_t>(to));
}
void operator delete[](void* memory, std::align_val_t to) noexcept {
  lsched::testing::give(memory, static_cast<std::size_t>(to));
}
void operator delete(void* memory, std::size_t, std::align_val_t to) noexcept {
  lsched::testing::give(memory, static_cast<std::size_t>(to));
}
void operator delete[](void* memory, std::size_t, std::align_val_t to) noexcept {
  lsched::testing::give(memory, static_cast<std::size_t>(to));
}
void operator delete(void* memory, std::align_val_t to, const std::nothrow_t&) noexcept {
  lsched::testing::give(memory, static_cast<std::size_t>(to));
}
void operator delete[](void* memory, std::align_val_t to, const std::nothrow_t&) noexcept {
  lsched::testing::give(memory, static_cast<std::size_t>(to));
}

namespace lsched {
namespace {

using testing::counting_allocations;
using testing::k_list_room;
using testing::k_list_total;
using testing::list_gather_world;
using testing::lockstep_world;

constexpr rank k_most_ranks = 33;

std::size_t index(rank r) { return static_cast<std::size_t>(r); }

template <class T>
const std::byte* bytes_of(const std::vector<T>& from) {
  return reinterpret_cast<const std::byte*>(from.data());
}
template <class T>
std::byte* bytes_of(std::vector<T>& from) {
  return reinterpret_cast<std::byte*>(from.data());
}

std::string text_of(const shape& data) {
  return std::string(name_of(data.what)) + " " + std::string(name_of(data.type)) + " " + std::to_string(data.count);
}

/// An allreduce of elements of type T on all ranks of a world, with the buffers of all ranks.
template <class T>
struct allreduce_bench {
  allreduce_bench(lockstep_world& world, const shape& data) : world_(world), data_(data) {
    inputs.assign(index(world.size()), std::vector<T>(data.count));
    outputs = inputs;
    its = world.commit([&](rank r) {
      return commit_request{"allreduce " + text_of(data_), allreduce_recursive_doubling({r, world_.size()}, data_),
                            memory(r)};
    });
  }
  binding memory(rank r) {
    std::byte* output = bytes_of(data_.in_place ? inputs[index(r)] : outputs[index(r)]);
    return {{bytes_of(inputs[index(r)])}, {output}};
  }
  const std::vector<T>& result(rank r) const { return data_.in_place ? inputs[index(r)] : outputs[index(r)]; }
  bool is_committed() const { return !its.empty(); }

  std::vector<std::vector<T>> inputs, outputs;
  std::vector<instance*> its;

 private:
  lockstep_world& world_;
  shape data_;
};

// --- allreduce -----------------------------------------------------------------------------------------------------

void check_integers(lockstep_world& world, std::uint64_t count, int rounds, bool in_place) {
  allreduce_bench<std::int64_t> bench(world, {count, dtype::i64, kernel::sum, in_place});
  ASSERT_TRUE(bench.is_committed());
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::int64_t> sum(count);
    for (auto& input : bench.inputs)
      for (std::size_t i = 0; i < count; ++i)
        sum[i] += input[i] = static_cast<std::int64_t>(world.draw_below(1u << 30)) - (1 << 29);
    ASSERT_TRUE(world.run_round(bench.its));
    for (rank r = 0; r < world.size(); ++r) ASSERT_EQ(bench.result(r), sum) << "rank " << r << "; " << world.describe();
  }
  world.remove(bench.its);
}

// All ranks must have the same bits as rank 0. The error must be within a bound that holds for any order of additions.
// There are P - 1 roundings. The error of each is at most half a unit in the last place of the sum of magnitudes.
template <class T>
void check_floats(lockstep_world& world, std::uint64_t count, dtype type) {
  allreduce_bench<T> bench(world, {count, type, kernel::sum, false});
  ASSERT_TRUE(bench.is_committed());
  std::vector<long double> sum(count);
  std::vector<long double> magnitude(count);
  for (auto& input : bench.inputs)
    for (std::size_t i = 0; i < count; ++i) {
      input[i] = static_cast<T>(std::ldexp(static_cast<double>(world.draw() >> 11), -53)) - T(0.5);
      sum[i] += static_cast<long double>(input[i]);
      magnitude[i] += std::fabs(static_cast<long double>(input[i]));
    }
  ASSERT_TRUE(world.run_round(bench.its));
  for (std::size_t i = 0; i < count; ++i) {
    const auto error = std::fabs(static_cast<long double>(bench.result(0)[i]) - sum[i]);
    ASSERT_LE(error, magnitude[i] * static_cast<long double>(world.size()) *
                         static_cast<long double>(std::numeric_limits<T>::epsilon()));
  }
  for (rank r = 1; r < world.size() && count > 0; ++r)
    ASSERT_EQ(std::memcmp(bench.result(r).data(), bench.result(0).data(), count * sizeof(T)), 0)
        << "rank " << r << "; " << world.describe();
  world.remove(bench.its);
}

TEST(engine, allreduce_is_exact_for_integers_and_the_same_bits_for_floats) {
  for (rank size = 1; size <= k_most_ranks; size += testing::sampled() ? 4 : 1)
    for (const std::uint64_t seed : {1u, 2u}) {
      lockstep_world world(size, seed * 1000 + static_cast<std::uint64_t>(size));
      for (const std::uint64_t count : testing::counts_for(size)) {
        check_integers(world, count, 3, false);
        check_floats<float>(world, count, dtype::f32);
        check_floats<double>(world, count, dtype::f64);
        if (HasFatalFailure() || HasNonfatalFailure()) return;
      }
      EXPECT_EQ(world.net().edges(), 0u);
    }
}

TEST(engine, allreduce_in_place) {
  for (rank size = 1; size <= k_most_ranks; size += testing::sampled() ? 4 : 1) {
    lockstep_world world(size, 77 + static_cast<std::uint64_t>(size));
    for (const std::uint64_t count : {0u, 1u, 100u}) check_integers(world, count, 5, true);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// --- every dtype and reduction, compared with separate arithmetic on small integers --------------------------

void encode(dtype type, double value, std::byte* into) {
  const auto put = [&](auto number) { std::memcpy(into, &number, sizeof number); };
  switch (type) {
    case dtype::i8: return put(static_cast<std::int8_t>(value));
    case dtype::u8: return put(static_cast<std::uint8_t>(value));
    case dtype::i32: return put(static_cast<std::int32_t>(value));
    case dtype::i64: return put(static_cast<std::int64_t>(value));
    case dtype::u64: return put(static_cast<std::uint64_t>(value));
    case dtype::bf16:
      return put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    case dtype::f32: return put(static_cast<float>(value));
    case dtype::f64: return put(value);
    default: break;  // f16
  }
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1), or 0
  const auto mantissa = static_cast<std::uint16_t>((2 * fraction - 1) * 1024);
  const auto biased = static_cast<std::uint16_t>((exponent - 1 + 15) << 10);
  put(static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | (value == 0 ? 0 : biased | mantissa)));
}

double decode(dtype type, const std::byte* from) {
  const auto get = [&]<class T>(T number) {
    std::memcpy(&number, from, sizeof number);
    return number;
  };
  switch (type) {
    case dtype::i8: return get(std::int8_t{});
    case dtype::u8: return get(std::uint8_t{});
    case dtype::i32: return get(std::int32_t{});
    case dtype::i64: return static_cast<double>(get(std::int64_t{}));
    case dtype::u64: return static_cast<double>(get(std::uint64_t{}));
    case dtype::bf16:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(get(std::uint16_t{})) << 16));
    case dtype::f32: return static_cast<double>(get(float{}));
    case dtype::f64: return get(double{});
    default: break;  // f16
  }
  const std::uint16_t bits = get(std::uint16_t{});
  const int exponent = (bits >> 10) & 31;
  const double magnitude = exponent == 0 ? 0 : std::ldexp(1 + (bits & 1023) / 1024.0, exponent - 15);
  return bits >> 15 != 0 ? -magnitude : magnitude;
}

std::int64_t combine(kernel what, std::int64_t x, std::int64_t y) {
  switch (what) {
    case kernel::sum: return x + y;
    case kernel::prod: return x * y;
    case kernel::min: return std::min(x, y);
    case kernel::max: return std::max(x, y);
    case kernel::land: return (x != 0 && y != 0) ? 1 : 0;
    case kernel::lor: return (x != 0 || y != 0) ? 1 : 0;
    case kernel::lxor: return ((x != 0) != (y != 0)) ? 1 : 0;
    case kernel::band: return x & y;
    case kernel::bor: return x | y;
    case kernel::bxor: return x ^ y;
    default: return 0;
  }
}

// The values are small, so every type represents every intermediate result exactly. Therefore the order of the
// operations does not matter.
void check_reduction(lockstep_world& world, kernel what, dtype type, bool in_place) {
  constexpr std::uint64_t count = 19;
  const shape data{count, type, what, in_place};
  const bool has_sign = type != dtype::u8 && type != dtype::u64;
  std::vector<std::vector<std::byte>> inputs(index(world.size()), std::vector<std::byte>(count * size_of(type)));
  auto outputs = inputs;
  const auto its = world.commit([&](rank r) {
    return commit_request{text_of(data),
                          allreduce_recursive_doubling({r, world.size()}, data),
                          {{inputs[index(r)].data()}, {(in_place ? inputs : outputs)[index(r)].data()}}};
  });
  ASSERT_FALSE(its.empty());
  std::vector<std::int64_t> expected(count);
  for (std::size_t r = 0; r < inputs.size(); ++r)
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = has_sign ? static_cast<std::int64_t>(world.draw_below(5)) - 2
                                  : static_cast<std::int64_t>(world.draw_below(4));
      encode(type, static_cast<double>(value), inputs[r].data() + i * size_of(type));
      expected[i] = r == 0 ? value : combine(what, expected[i], value);
    }
  ASSERT_TRUE(world.run_round(its));
  for (const auto& output : in_place ? inputs : outputs)
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(decode(type, output.data() + i * size_of(type)), static_cast<double>(expected[i]))
          << text_of(data) << ", element " << i;
  world.remove(its);
}

TEST(engine, allreduce_of_every_dtype_with_every_reduction) {
  for (const rank size : {3, 5}) {
    lockstep_world world(size, 5);
    for (const kernel what : k_all_reductions)
      for (const dtype type : k_all_dtypes)
        for (const bool in_place : {false, true})
          if (supports(what, type)) check_reduction(world, what, type, in_place);
  }
}

TEST(engine, means_are_sums_divided_in_every_dtype) {
  for (const dtype type : k_all_dtypes) {
    constexpr std::size_t count = 6;
    constexpr double sums[count] = {0, 7, 21, 77, 105, 126}, means[count] = {0, 1, 3, 11, 15, 18};
    builder b({0, 1});
    const buffer_id in = b.input(type, count), out = b.output(type, count);
    b.divide({in, 0}, {out, 0}, count, 7);
    std::vector<std::byte> sum(count * size_of(type)), mean(sum.size());
    for (std::size_t i = 0; i < count; ++i) encode(type, sums[i], sum.data() + i * size_of(type));
    lockstep_world world(1, 5);
    const auto its = world.commit([&](rank) {
      return commit_request{"mean", b.compile(), {{sum.data()}, {mean.data()}}};
    });
    ASSERT_FALSE(its.empty());
    ASSERT_TRUE(world.run_round(its));
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(decode(type, mean.data() + i * size_of(type)), means[i]) << name_of(type) << ", element " << i;
    world.remove(its);
  }
}

// --- rounds ----------------------------------------------------------------------------------------------------------

TEST(engine, rebinding_moves_the_schedule_to_other_memory) {
  for (const rank size : {3, 6}) {
    lockstep_world world(size, 9);
    allreduce_bench<std::int64_t> bench(world, {7, dtype::i64, kernel::sum, false});
    ASSERT_TRUE(bench.is_committed());
    for (std::int64_t round = 1; round < 6; ++round) {
      std::vector<std::vector<std::int64_t>> old = std::exchange(bench.outputs, {});
      bench.outputs.assign(index(size), std::vector<std::int64_t>(7));
      auto moved = std::exchange(bench.inputs, {});
      for (rank r = 0; r < size; ++r) bench.inputs.emplace_back(7, round * (r + 1));
      for (rank r = 0; r < size; ++r) ASSERT_EQ(world.at(r).bind(*bench.its[index(r)], bench.memory(r)), status::ok);
      const auto untouched = old;
      ASSERT_TRUE(world.run_round(bench.its));
      for (rank r = 0; r < size; ++r)
        EXPECT_EQ(bench.result(r), std::vector<std::int64_t>(7, round * size * (size + 1) / 2));
      EXPECT_EQ(old, untouched);
    }
    world.remove(bench.its);
  }
}

TEST(engine, a_running_schedule_is_neither_rebound_nor_removed) {
  lockstep_world world(3, 4);
  allreduce_bench<std::int64_t> bench(world, {5, dtype::i64, kernel::sum, false});
  ASSERT_TRUE(bench.is_committed());
  lockstep_world::start(world.at(0), *bench.its[0]);
  EXPECT_EQ(world.at(0).bind(*bench.its[0], bench.memory(0)), status::state);  // the called round has not begun
  world.settle();
  EXPECT_EQ(world.at(0).bind(*bench.its[0], bench.memory(0)), status::state);
  EXPECT_EQ(world.at(0).remove(*bench.its[0]), status::busy);
  for (const rank r : {1, 2}) lockstep_world::start(world.at(r), *bench.its[index(r)]);
  ASSERT_TRUE(
      world.run_until([&] { return std::ranges::all_of(bench.its, [](auto* it) { return it->finished == 1; }); }));
  EXPECT_EQ(world.at(0).bind(*bench.its[0], bench.memory(0)), status::ok);
  world.remove(bench.its);
}

TEST(engine, nobody_leaves_a_barrier_before_everybody_has_entered) {
  for (rank size = 1; size <= k_most_ranks; size += testing::sampled() ? 4 : 1) {
    lockstep_world world(size, 100 + static_cast<std::uint64_t>(size));
    const auto its = world.commit([&](rank r) { return commit_request{"barrier", barrier_dissemination({r, size})}; });
    ASSERT_FALSE(its.empty());
    for (round_no round = 1; round <= 6; ++round) {
      const auto last = static_cast<rank>(world.draw_below(static_cast<std::uint64_t>(size)));
      for (rank r = 0; r < size; ++r)
        if (r != last) lockstep_world::start(world.at(r), *its[index(r)]);
      world.settle();
      for (rank r = 0; r < size; ++r)
        ASSERT_EQ(its[index(r)]->finished, round - 1) << "rank " << r << "; " << world.describe();
      lockstep_world::start(world.at(last), *its[index(last)]);
      ASSERT_TRUE(
          world.run_until([&] { return std::ranges::all_of(its, [&](auto* it) { return it->finished == round; }); }));
    }
    world.remove(its);
  }
}

TEST(engine, ranks_of_different_speed_stay_within_one_round_of_a_synchronising_schedule) {
  for (const rank size : {3, 5, 8, 13}) {
    lockstep_world world(size, 21);
    world.set_pace(size - 1, 30);
    allreduce_bench<std::int64_t> bench(world, {3, dtype::i64, kernel::sum, false});
    ASSERT_TRUE(bench.is_committed());
    constexpr round_no rounds = 20;
    const auto is_done = [&] {
      round_no first = k_last_round;
      round_no last = 0;
      for (rank r = 0; r < size; ++r) {
        instance& it = *bench.its[index(r)];
        first = std::min(first, it.finished.load());
        last = std::max(last, it.finished.load());
        if (it.finished == it.called && it.finished < rounds) {
          bench.inputs[index(r)].assign(3, static_cast<std::int64_t>(it.finished + 1));
          if (it.finished > 0) {
            EXPECT_EQ(bench.result(r)[2], static_cast<std::int64_t>(it.finished) * size);
          }
          lockstep_world::start(world.at(r), it);
        }
      }
      EXPECT_LE(last - first, 1u);
      return first == rounds;
    };
    ASSERT_TRUE(world.run_until(is_done));
    world.remove(bench.its);
  }
}

// --- schedules that the test writes with a builder ---------------------------------------------------------

// Ranks 1 … 4 send to rank 0. As soon as `need` of these messages have arrived, rank 0 sends to rank 1.
result<schedule_ptr> quorum_schedule(rank self, std::uint32_t need) {
  builder to({self, 5}, "quorum");
  const buffer_id data = to.input(dtype::i64, 1);
  const buffer_id landing = to.output(dtype::i64, 4);
  if (self != 0) {
    to.send(0, 0, {data, 0}, 1);
    if (self == 1) to.recv(0, 1, {landing, 0}, 1);
    return to.compile();
  }
  const op_id enough = to.nop();
  for (rank r = 1; r < 5; ++r) to.dep(to.recv(r, 0, {landing, static_cast<std::uint64_t>(r - 1)}, 1), enough);
  to.set_need(enough, need);
  to.send(1, 1, {data, 0}, 1, {enough});
  return to.compile();
}

TEST(engine, an_op_fires_on_exactly_the_token_it_needs) {
  for (std::uint32_t need = 1; need <= 4; ++need)
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      lockstep_world world(5, seed);
      std::vector<std::vector<std::int64_t>> data(5, std::vector<std::int64_t>(1, 7)),
          landing(5, std::vector<std::int64_t>(4));
      const auto its = world.commit([&](rank r) {
        return commit_request{
            "quorum", quorum_schedule(r, need), {{bytes_of(data[index(r)])}, {bytes_of(landing[index(r)])}}};
      });
      ASSERT_FALSE(its.empty());
      for (round_no round = 1; round <= 3; ++round) {
        lockstep_world::start(world.at(0), *its[0]);
        for (rank r = 1; r < static_cast<rank>(need); ++r) lockstep_world::start(world.at(r), *its[index(r)]);
        world.settle();
        ASSERT_EQ(its[1]->finished, round - 1) << "answered after " << need - 1 << " of " << need;
        lockstep_world::start(world.at(static_cast<rank>(need)), *its[need]);
        ASSERT_TRUE(world.run_until([&] { return its[1]->finished == round; }));
        world.settle();
        EXPECT_EQ(its[0]->finished, need == 4 ? round : round - 1);  // rank 0's round ends only when all receives that
                                                                     // have fired are complete
        for (rank r = static_cast<rank>(need) + 1; r < 5; ++r) lockstep_world::start(world.at(r), *its[index(r)]);
        ASSERT_TRUE(
            world.run_until([&] { return std::ranges::all_of(its, [&](auto* it) { return it->finished == round; }); }));
      }
      EXPECT_EQ(landing[0], std::vector<std::int64_t>(4, 7));
      world.remove(its);
    }
}

constexpr std::uint64_t k_bound = 100;

// Rank 0 sends a list, and rank 1 sends exactly the received items back.
result<schedule_ptr> echo_schedule(rank self) {
  builder to({self, 2}, "echo");
  const buffer_id data = to.lists(buffer_role::input, dtype::i32, 1, {.room = k_bound});
  const buffer_id landing = to.lists(buffer_role::output, dtype::i32, 1, {.room = k_bound});
  if (self == 0) {
    to.send(1, 0, {data, 0}, 1);
    to.recv(1, 0, {landing, 0}, 1);
  } else {
    to.send(0, 0, {landing, 0}, 1, {to.recv(0, 0, {landing, 0}, 1)});
  }
  to.declare_synchronising();
  return to.compile();
}

struct echo_bench {
  explicit echo_bench(std::uint64_t seed) : world(2, seed) {
    for (std::size_t i = 0; i < k_bound; ++i) data[i] = static_cast<std::int32_t>(i) + 1;
    its = world.commit([&](rank r) {
      return commit_request{"echo", echo_schedule(r),
                            binding{{bytes_of(data)},
                                    {bytes_of(landing[index(r)])},
                                    {{.counts = &given[index(r)]}},
                                    {{.received = &taken[index(r)]}}}};
    });
  }
  lockstep_world world;
  std::vector<std::int32_t> data = std::vector<std::int32_t>(k_bound);
  std::vector<std::vector<std::int32_t>> landing{data, data};
  std::array<std::uint64_t, 2> given{};
  std::array<std::uint64_t, 2> taken{};
  std::vector<instance*> its;
};

TEST(engine, messages_are_as_long_as_their_list_is_when_they_fire) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    echo_bench echo(seed);
    ASSERT_FALSE(echo.its.empty());
    const std::uint64_t before = echo.world.at(0).counters().bytes_sent;
    std::uint64_t sum = 0;
    for (const std::uint64_t elements :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{57}, k_bound, std::uint64_t{0}, std::uint64_t{3}}) {
      for (auto& landing : echo.landing) std::ranges::fill(landing, -1);
      echo.given[0] = elements;
      sum += elements;
      ASSERT_TRUE(echo.world.run_round(echo.its));
      EXPECT_EQ(echo.taken, (std::array{elements, elements}));
      for (const auto& landing : echo.landing)
        for (std::size_t i = 0; i < k_bound; ++i)
          ASSERT_EQ(landing[i], i < elements ? echo.data[i] : -1) << i << " of " << elements;
    }
    EXPECT_EQ(echo.world.at(0).counters().bytes_sent - before, sum * sizeof(std::int32_t));
    echo.world.remove(echo.its);
  }
}

TEST(engine, a_list_beyond_its_room_fails_the_schedule_and_sends_nothing) {
  echo_bench echo(1);
  ASSERT_FALSE(echo.its.empty());
  echo.given[0] = k_bound + 1;
  for (const rank r : {0, 1}) lockstep_world::start(echo.world.at(r), *echo.its[index(r)]);
  ASSERT_TRUE(
      echo.world.run_until([&] { return echo.its[0]->verdict.load() != status::ok && echo.world.at(1).is_busy(); }));
  EXPECT_EQ(echo.its[0]->verdict.load(), status::bounds);
  EXPECT_EQ(echo.its[0]->finished, 0u);
  EXPECT_EQ(echo.world.at(0).counters().messages_sent, 0u);
  EXPECT_FALSE(echo.world.at(0).is_busy());
  EXPECT_EQ(echo.world.at(1).remove(*echo.its[1]), status::busy);
  EXPECT_TRUE(echo.world.at(1).is_busy());
  echo.world.at(1).fail_all(status::peer, 0);
  EXPECT_FALSE(echo.world.at(1).is_busy());
  EXPECT_EQ(echo.its[1]->culprit.load(), 0);
  echo.world.settle();
  echo.world.remove(echo.its);
}

/// The world of tests/support/list_gather.h. Each item contains the rank that sends the item, the index in the list,
/// and the round.
struct gather_bench {
  gather_bench(rank size, std::uint64_t seed) : world(size, seed), mine(index(size)), all(index(size)) {
    its = world.commit([&](rank r) {
      return commit_request{"gather", list_gather_world(size)[index(r)],
                            binding{{bytes_of(mine[index(r)].items)},
                                    {bytes_of(all[index(r)].items)},
                                    {{.counts = mine[index(r)].lengths.data()}},
                                    {{.received = all[index(r)].lengths.data()}}}};
    });
  }

  struct lists {
    std::vector<float> items = std::vector<float>(2 * k_list_room);
    std::vector<std::uint64_t> lengths = std::vector<std::uint64_t>(16);
  };

  /// Fills the first list of each rank r with lengths[r] items, and clears the outputs.
  void fill(const std::vector<std::uint64_t>& lengths, round_no round) {
    for (std::size_t r = 0; r < mine.size(); ++r) {
      mine[r].lengths[0] = lengths[r];
      mine[r].lengths[1] = r % k_list_room;  // the second list is not gathered
      for (std::size_t i = 0; i < k_list_room; ++i) mine[r].items[i] = value_of(r, i, round);
      std::ranges::fill(all[r].items, -1.0f);
    }
  }
  static float value_of(std::size_t who, std::size_t item, round_no round) {
    return static_cast<float>(1000 * round + 10 * who + item);
  }

  void expect_gathered(const std::vector<std::uint64_t>& lengths, round_no round) const {
    for (const lists& got : all) {
      std::size_t at = 0;
      for (std::size_t r = 0; r < mine.size(); ++r) {
        ASSERT_EQ(got.lengths[r], lengths[r]);
        for (std::size_t i = 0; i < lengths[r]; ++i)
          ASSERT_EQ(got.items[at++], value_of(r, i, round)) << r << ", " << i;
      }
      for (; at < got.items.size(); ++at) ASSERT_EQ(got.items[at], -1.0f);
    }
  }

  lockstep_world world;
  std::vector<lists> mine, all;
  std::vector<instance*> its;
};

/// Returns random lengths whose sum fits in an output.
std::vector<std::uint64_t> drawn_lengths(lockstep_world& world, rank size) {
  std::vector<std::uint64_t> lengths(index(size));
  std::uint64_t left = k_list_total;
  for (std::uint64_t& it : lengths) {
    it = world.draw_below(3) == 0 ? 0 : world.draw_below(std::min(left, k_list_room) + 1);
    left -= it;
  }
  return lengths;
}

TEST(engine, packed_lists_of_any_length_are_gathered) {
  for (const rank size : {1, 2, 3, 5, 6, 7})
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      gather_bench bench(size, seed);
      ASSERT_FALSE(bench.its.empty());
      for (round_no round = 1; round <= 20; ++round) {
        const std::vector<std::uint64_t> lengths = drawn_lengths(bench.world, size);
        bench.fill(lengths, round);
        std::uint64_t before = 0, after = 0;
        for (rank r = 0; r < size; ++r) before += bench.world.at(r).counters().messages_sent;
        ASSERT_TRUE(bench.world.run_round(bench.its));
        bench.expect_gathered(lengths, round);
        for (rank r = 0; r < size; ++r) after += bench.world.at(r).counters().messages_sent;
        // Every rank sends the length of its list to all peers, and the list itself unless the list is empty. In odd
        // rounds it also sends all lengths to its neighbour.
        const auto peers = index(size) - 1;
        const auto filled = static_cast<std::uint64_t>(std::ranges::count_if(lengths, [](auto it) { return it != 0; }));
        EXPECT_EQ(after - before, (index(size) + filled) * peers + (size > 1 && round % 2 == 1 ? index(size) : 0));
      }
      bench.world.remove(bench.its);
    }
}

TEST(engine, packed_lists_that_have_no_room_together_fail_the_schedule_on_all_ranks) {
  gather_bench bench(3, 1);
  ASSERT_FALSE(bench.its.empty());
  bench.fill({4, 4, 2}, 1);
  for (rank r = 0; r < 3; ++r) lockstep_world::start(bench.world.at(r), *bench.its[index(r)]);
  const auto has_failed = [](const instance* it) { return it->verdict.load() == status::bounds; };
  EXPECT_TRUE(bench.world.run_until([&] { return std::ranges::all_of(bench.its, has_failed); }));
  bench.world.settle();
  bench.world.remove(bench.its);
}

TEST(engine, lists_that_are_bound_without_lengths_are_refused) {
  lockstep_world world(2, 1);
  std::vector<std::int32_t> data(k_bound), landing(k_bound);
  const auto outcomes = world.try_commit([&](rank r) {
    return commit_request{"echo", echo_schedule(r), binding{{bytes_of(data)}, {bytes_of(landing)}}};
  });
  for (const auto& one : outcomes) {
    EXPECT_EQ(one.it, nullptr);
    EXPECT_EQ(one.why.code, status::argument);
    EXPECT_NE(one.why.text.find("this call cannot pass these lengths"), std::string::npos) << one.why.text;
  }
}

// --- pipelines: rounds do not synchronise the ranks, so credits limit the sender ---------------------------

result<schedule_ptr> pipeline_schedule(world place) {
  builder to(place, "pipeline");
  const buffer_id data = to.input(dtype::i64, 4);
  const buffer_id landing = to.output(dtype::i64, 4);
  op_id got = k_no_op;
  if (place.self > 0) got = to.recv(place.self - 1, 0, {landing, 0}, 4);
  if (place.self + 1 < place.size) to.dep(got, to.send(place.self + 1, 0, {place.self == 0 ? data : landing, 0}, 4));
  if (place.size == 1) to.nop();
  return to.compile();
}

TEST(engine, a_sender_far_ahead_is_held_back_by_credits_and_overwrites_nothing) {
  for (const rank size : {2, 3, 5, 8})
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      lockstep_world world(size, seed);
      world.set_pace(size - 1, 25);
      std::vector<std::vector<std::int64_t>> data(index(size), std::vector<std::int64_t>(4)), landing = data;
      const auto its = world.commit([&](rank r) {
        return commit_request{
            "pipeline", pipeline_schedule({r, size}), {{bytes_of(data[index(r)])}, {bytes_of(landing[index(r)])}}};
      });
      ASSERT_FALSE(its.empty());
      constexpr round_no rounds = 30;
      round_no farthest = 0;  // maximum lead of rank 0 over rank 1, in rounds
      const auto is_done = [&] {
        for (rank r = 0; r < size; ++r) {
          instance& it = *its[index(r)];
          if (it.finished != it.called || it.finished == rounds) continue;
          if (r > 0 && it.finished > 0) {
            EXPECT_EQ(landing[index(r)], std::vector<std::int64_t>(4, static_cast<std::int64_t>(it.finished)));
          }
          if (r == 0) data[0].assign(4, static_cast<std::int64_t>(it.finished + 1));
          lockstep_world::start(world.at(r), it);
        }
        const round_no ahead = its[0]->finished - its[1]->finished;
        if (its[0]->finished > its[1]->finished) farthest = std::max(farthest, ahead);
        return std::ranges::all_of(its, [&](auto* it) { return it->finished == rounds; });
      };
      ASSERT_TRUE(world.run_until(is_done));
      // The credits permit two messages that rank 1 has not consumed. With more than two ranks, rank 1 may have
      // consumed the message of its round, but cannot finish the round while its own send waits for a credit.
      EXPECT_LE(farthest, size == 2 ? 2u : 3u);
      if (size == 2) {
        EXPECT_GE(farthest, 1u);  // rank 0 was ahead of the slow receiver
      }
      world.settle();
      world.remove(its);
    }
}

// --- commits that fail ---------------------------------------------------------------------------------------

/// Expects that the commit is refused on all ranks with the same error, and that a valid commit succeeds afterwards.
void expect_refusal(lockstep_world& world, const lockstep_world::request_of& what, status code, std::string_view word) {
  const auto outcomes = world.try_commit(what);
  ASSERT_EQ(outcomes.size(), index(world.size()));
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    EXPECT_EQ(outcomes[r].it, nullptr) << "rank " << r;
    EXPECT_EQ(outcomes[r].why.code, code) << "rank " << r << ": " << outcomes[r].why.text;
    EXPECT_NE(outcomes[r].why.text.find(word), std::string::npos) << "rank " << r << ": " << outcomes[r].why.text;
  }
  EXPECT_EQ(world.net().edges(), 0u);
  check_integers(world, 10, 2, false);
}

commit_request sum_request(rank r, rank size, std::uint64_t count, std::vector<std::int64_t>& memory) {
  const shape data{count, dtype::i64, kernel::sum, true};
  memory.resize(count);
  return {"allreduce " + text_of(data),
          allreduce_recursive_doubling({r, size}, data),
          {{bytes_of(memory)}, {bytes_of(memory)}}};
}

TEST(engine_commit, ranks_that_commit_different_things_all_learn_both_sides) {
  for (const rank size : {2, 3, 5, 8})
    for (rank odd = 0; odd < size; ++odd) {
      lockstep_world world(size, 31);
      std::vector<std::vector<std::int64_t>> memory(index(size));
      const auto what = [&](rank r) { return sum_request(r, size, r == odd ? 11u : 10u, memory[index(r)]); };
      expect_refusal(world, what, status::mismatch, "i64 10");
      expect_refusal(world, what, status::mismatch, "i64 11");
    }
}

TEST(engine_commit, the_diagnostic_of_a_mismatch_names_a_rank_that_differs) {
  lockstep_world world(4, 31);
  std::vector<std::vector<std::int64_t>> memory(4);
  const auto outcomes =
      world.try_commit([&](rank r) { return sum_request(r, 4, r >= 2 ? 11u : 10u, memory[index(r)]); });
  ASSERT_EQ(outcomes.size(), 4u);
  for (rank r = 0; r < 4; ++r) EXPECT_EQ(outcomes[index(r)].why.peer >= 2, r < 2) << outcomes[index(r)].why.text;
}

TEST(engine_commit, a_different_order_is_a_mismatch) {
  lockstep_world world(3, 33);
  std::vector<std::vector<std::int64_t>> memory(3);
  const auto what = [&](bool first, rank r) {
    return first == (r != 1) ? sum_request(r, 3, 5, memory[index(r)])
                             : commit_request{"barrier", barrier_dissemination({r, 3})};
  };
  expect_refusal(
      world, [&](rank r) { return what(true, r); }, status::mismatch, "barrier");
  expect_refusal(
      world, [&](rank r) { return what(false, r); }, status::mismatch, "barrier");
}

result<schedule_ptr> one_message(rank self, std::uint32_t tag, std::uint64_t count, dtype type, bool synchronising) {
  builder to({self, 3}, "one message");
  const buffer_id data = to.scratch(type, count);
  if (self == 0) to.send(1, tag, {data, 0}, count);
  if (self == 1) to.recv(0, tag, {data, 0}, count);
  if (self == 2) to.nop();
  if (synchronising) to.declare_synchronising();
  return to.compile();
}

TEST(engine_commit, sends_and_receives_that_do_not_pair_up_are_unmatched_on_every_rank) {
  lockstep_world world(3, 35);
  const auto tag = [](rank r) {
    return commit_request{"m", one_message(r, static_cast<std::uint32_t>(r), 4, dtype::i32, false)};
  };
  const auto size = [](rank r) { return commit_request{"m", one_message(r, 0, r == 0 ? 5 : 4, dtype::i32, false)}; };
  const auto peer = [](rank r) { return commit_request{"m", one_message(r == 0 ? 2 : r, 0, 4, dtype::i32, false)}; };
  expect_refusal(world, tag, status::unmatched, "with tag");
  expect_refusal(world, size, status::unmatched, "bytes");
  expect_refusal(world, peer, status::unmatched, "16 bytes of i32 with tag 0");
}

TEST(engine_commit, both_ends_of_an_edge_have_the_same_dtype) {
  for (const auto& [sent, received] : {std::pair{dtype::i64, dtype::f64}, std::pair{dtype::f16, dtype::bf16}}) {
    lockstep_world world(3, 35);
    const auto what = [&](rank r) {
      return commit_request{"m", one_message(r, 0, 4, r == 0 ? sent : received, false)};
    };
    const std::string bytes = std::to_string(4 * size_of(sent)) + " bytes of ";
    expect_refusal(world, what, status::unmatched,
                   "rank 0 sends " + bytes + std::string(name_of(sent)) + " with tag 0 to rank 1, which receives " +
                       bytes + std::string(name_of(received)) + " instead");
  }
}

/// Returns a schedule in which every rank sends its vector to all other ranks. The rank combines the received vectors
/// by the kernels in `by`, one after the other.
result<schedule_ptr> combine_all(world place, dtype type, const std::vector<kernel>& by) {
  builder to(place, "by hand");
  const buffer_id own = to.scratch(type, 4), sum = to.scratch(type, 4);
  op_id last = to.copy({own, 0}, {sum, 0}, 4);
  for (rank r = 0; r < place.size; ++r) {
    if (r == place.self) continue;
    const buffer_id theirs = to.scratch(type, 4);
    to.send(r, 0, {own, 0}, 4);
    const op_id got = to.recv(r, 0, {theirs, 0}, 4);
    for (const kernel what : by) last = to.reduce(what, {sum, 0}, {theirs, 0}, {sum, 0}, 4, {last, got});
  }
  return to.compile();
}

TEST(engine_commit, ranks_that_combine_by_different_reductions_all_learn_both_sides) {
  for (const rank size : {2, 3, 5, 8})
    for (rank odd = 0; odd < size; ++odd) {
      lockstep_world world(size, 39);
      const auto what = [&](rank r) {
        return commit_request{"m", combine_all({r, size}, dtype::f32, {r == odd ? kernel::max : kernel::sum})};
      };
      expect_refusal(world, what, status::mismatch, "reduces f32 by sum");
      expect_refusal(world, what, status::mismatch, "reduces f32 by max");
      expect_refusal(world, what, status::mismatch, "rank " + std::to_string(odd) + " reduces f32 by max");
    }
}

TEST(engine_commit, ranks_that_combine_different_dtypes_all_learn_both_sides) {
  for (const rank size : {2, 3, 5, 8})
    for (rank odd = 0; odd < size; ++odd) {
      lockstep_world world(size, 40);
      const auto what = [&](rank r) {
        return commit_request{"m", r == odd ? combine_all({r, size}, dtype::i32, {kernel::max})
                                            : combine_all({r, size}, dtype::f32, {kernel::sum})};
      };
      expect_refusal(world, what, status::unmatched, "i32");
      expect_refusal(world, what, status::unmatched, "f32");
    }
}

/// Some ranks have no reduction, some have reductions with one kernel, and some have reductions with several kernels.
/// This difference may be intended, so the commit succeeds.
TEST(engine_commit, a_rank_with_no_reduction_or_several_goes_with_any) {
  for (const rank size : {2, 3, 5}) {
    lockstep_world world(size, 41);
    const auto what = [&](rank r) {
      const std::vector<kernel> by[] = {{}, {kernel::sum}, {kernel::sum, kernel::max}};
      return commit_request{"m", combine_all({r, size}, dtype::f32, by[r % 3])};
    };
    for (const auto& outcome : world.try_commit(what)) EXPECT_EQ(outcome.why.code, status::ok) << outcome.why.text;
  }
}

TEST(engine_commit, reductions_of_different_dtypes_may_differ) {
  lockstep_world world(2, 42);
  const auto what = [&](rank r) {
    builder to({r, 2});
    const dtype type = r == 0 ? dtype::f32 : dtype::i64;
    const buffer_id data = to.scratch(type, 4);
    to.reduce(r == 0 ? kernel::sum : kernel::max, {data, 0}, {data, 0}, {data, 0}, 4);
    return commit_request{"m", to.compile()};
  };
  for (const auto& outcome : world.try_commit(what)) EXPECT_EQ(outcome.why.code, status::ok) << outcome.why.text;
}

TEST(engine_commit, ranks_must_agree_on_whether_a_schedule_synchronises) {
  lockstep_world world(3, 36);
  expect_refusal(
      world,
      [](rank r) {
        return commit_request{"m", one_message(r, 0, 4, dtype::i32, r == 1)};
      },
      status::mismatch, "m");
}

TEST(engine_commit, a_rank_with_bad_arguments_takes_part_and_everybody_returns) {
  for (const rank bad : {0, 1, 2}) {
    lockstep_world world(3, 37);
    std::vector<std::vector<std::int64_t>> memory(3);
    const auto what = [&](rank r) {
      if (r != bad) return sum_request(r, 3, 5, memory[index(r)]);
      return commit_request{"allreduce", failure{status::argument, "its buffer is null"}};
    };
    expect_refusal(world, what, status::argument, "its buffer is null");
  }
}

TEST(engine_commit, what_is_missing_is_named_when_a_commit_is_given_up) {
  lockstep_world world(3, 38);
  std::vector<std::int64_t> memory[2];
  const auto zero = world.commits_of(0).add(sum_request(0, 3, 5, memory[0]));
  const auto two = world.commits_of(2).add(sum_request(2, 3, 5, memory[1]));
  instance* const its[] = {zero->committed(), two->committed()};
  EXPECT_FALSE(testing::has_ended(*zero));
  EXPECT_EQ(world.commits_of(0).give_up(*zero), 1);
  world.settle();
  for (const auto& one : {zero, two}) {
    ASSERT_TRUE(testing::has_ended(*one));
    EXPECT_EQ(one->why().code, status::timeout);
    EXPECT_EQ(one->why().peer, 1);
    EXPECT_NE(one->why().text.find("rank 1"), std::string::npos);
    EXPECT_EQ(one->committed(), nullptr);
  }
  for (const instance* one : its) EXPECT_EQ(one->verdict.load(), status::timeout);
  EXPECT_EQ(world.at(0).remove(*its[0]), status::ok);
  EXPECT_EQ(world.at(2).remove(*its[1]), status::ok);
  EXPECT_EQ(world.at(0).instance_count(), 0u);
  EXPECT_EQ(world.at(2).instance_count(), 0u);
}

TEST(engine_commit, one_that_was_given_up_in_the_queue_fails_in_its_turn_and_later_ones_stand) {
  lockstep_world world(2, 39);
  std::vector<std::int64_t> memory[6];
  const auto add = [&](rank r, int k) { return world.commits_of(r).add(sum_request(r, 2, 5, memory[3 * r + k])); };
  std::vector<std::shared_ptr<schedule_commit>> its;
  for (int k = 0; k < 3; ++k) its.push_back(add(0, k));
  (void)world.commits_of(0).give_up(*its[1]);
  world.settle();
  for (int k = 0; k < 3; ++k) EXPECT_FALSE(testing::has_ended(*its[static_cast<std::size_t>(k)]));
  for (int k = 0; k < 3; ++k) its.push_back(add(1, k));
  world.settle();
  for (std::size_t i = 0; i < its.size(); ++i)
    EXPECT_EQ(its[i]->why().code, i % 3 == 1 ? status::timeout : status::ok) << its[i]->why().text;
  EXPECT_NE(its[4]->why().text.find("rank 0 could not commit"), std::string::npos) << its[4]->why().text;
  world.remove({its[0]->committed(), its[3]->committed()});
  world.remove({its[2]->committed(), its[5]->committed()});
}

// --- descriptions of waits -----------------------------------------------------------------------------------

TEST(engine, a_wait_is_described_by_schedule_round_ops_and_ranks) {
  lockstep_world world(2, 3);
  allreduce_bench<std::int64_t> bench(world, {5, dtype::i64, kernel::sum, false});
  ASSERT_TRUE(bench.is_committed());
  lockstep_world::start(world.at(0), *bench.its[0]);
  world.settle();
  rank waits_for = k_no_rank;
  const std::string text = world.at(0).describe_wait(*bench.its[0], &waits_for);
  EXPECT_EQ(waits_for, 1) << text;
  for (const std::string_view word : {"allreduce", "round 1", "ops not started", "rank 1"})
    EXPECT_NE(text.find(word), std::string::npos) << text;
  lockstep_world::start(world.at(1), *bench.its[1]);
  ASSERT_TRUE(world.run_until([&] { return bench.its[0]->finished == 1 && bench.its[1]->finished == 1; }));
  world.remove(bench.its);
}

// --- allocation ----------------------------------------------------------------------------------------------

/// Steps the ranks in turn until is_done() returns true. Returns the number of allocations that the engines and the
/// transport have made.
std::uint64_t allocations_until(lockstep_world& world, const std::function<bool()>& is_done) {
  std::uint64_t allocations = 0;
  for (int turn = 0; !is_done(); ++turn) {
    if (turn == 100'000) {
      ADD_FAILURE() << "hangs; " << world.describe();
      break;
    }
    for (rank r = 0; r < world.size(); ++r) {
      const counting_allocations counting;
      (void)world.at(r).step();
      allocations += counting.count();
    }
  }
  return allocations;
}

TEST(engine_allocation, is_counted) {
  const counting_allocations counting;
  ::operator delete(::operator new(1));
  EXPECT_EQ(counting.count(), 1u);
}

TEST(engine_allocation, rounds_of_ordinary_schedules_allocate_nothing) {
  for (const rank size : {3, 8}) {
    lockstep_world world(size, 51);
    allreduce_bench<std::int64_t> bench(world, {100, dtype::i64, kernel::sum, false});
    const auto barrier = world.commit([&](rank r) {
      return commit_request{"barrier", barrier_dissemination({r, size})};
    });
    ASSERT_TRUE(bench.is_committed() && !barrier.empty());
    for (round_no round = 1; round <= 10; ++round) {
      for (rank r = 0; r < size; ++r) {
        lockstep_world::start(world.at(r), *bench.its[index(r)]);
        lockstep_world::start(world.at(r), *barrier[index(r)]);
      }
      const auto is_done = [&] {
        return std::ranges::all_of(bench.its, [&](auto* it) { return it->finished == round; }) &&
               std::ranges::all_of(barrier, [&](auto* it) { return it->finished == round; });
      };
      EXPECT_EQ(allocations_until(world, is_done), 0u);
    }
    world.remove(bench.its);
    world.remove(barrier);
  }
}

TEST(engine_allocation, rounds_of_partial_schedules_and_their_end_allocate_nothing) {
  for (const activation_policy policy :
       {activation_policy::full, activation_policy::solo, activation_policy::majority}) {
    constexpr rank size = 5;
    lockstep_world world(size, 52);
    const shape data{50, dtype::i64, kernel::sum, false};
    const auto its = world.commit([&](rank r) {
      return commit_request{"partial", partial_allreduce({r, size}, data, {policy, 3})};
    });
    ASSERT_FALSE(its.empty());
    std::vector<std::int64_t> mine(50, 1);
    for (round_no round = 1; round <= 12; ++round) {
      for (rank r = 0; r < size; ++r) {
        const counting_allocations counting;
        if (world.draw_below(2) == 0) its[index(r)]->partial->fragments.front().offers->offer(bytes_of(mine));
        its[index(r)]->called.store(round == 12 ? k_last_round : round);
        if (round == 12) its[index(r)]->partial->fragments.front().offers->leave();
        world.at(r).post(*its[index(r)]);
        EXPECT_EQ(counting.count(), 0u);
      }
      const round_no goal = round == 12 ? k_last_round : round;
      EXPECT_EQ(allocations_until(
                    world, [&] { return std::ranges::all_of(its, [&](auto* it) { return it->finished >= goal; }); }),
                0u);
      const counting_allocations counting;
      EXPECT_TRUE(its[0]->partial->fragments.front().results->collect(bytes_of(mine)).has_value());
      EXPECT_EQ(counting.count(), 0u);
      std::ranges::fill(mine, 1);
    }
    world.remove(its);
  }
}

}  // namespace
}  // namespace lsched
