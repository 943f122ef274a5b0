// Proofs that the schedules of every generator meet the postcondition of their collective if some or all buffers are in
// device memory. The proofs also show that no op of the host accesses device memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "libsched/place/place.h"
#include "libsched/verify/verify.h"
#include "tests/support/sampling.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

/// The buffers that are in device memory.
enum class places : std::uint8_t { all_device, all_read_peers, mixed };
constexpr std::array k_all_places{places::all_device, places::all_read_peers, places::mixed};

memory_space space_if(bool is_device) { return is_device ? memory_space::device : memory_space::host; }

/// Returns the memory spaces of a rank's buffers. In a mixed world, the ranks cycle through four choices: the outputs,
/// all buffers, the inputs, or no buffers are in device memory. In place, input and output have the same placement.
caller_spaces spaces_of(const schedule& program, places which, bool in_place) {
  const rank turn = which != places::mixed ? 1 : in_place ? program.place().self % 2 : program.place().self % 4;
  return {.inputs = std::vector(count_of(program, buffer_role::input), space_if(turn == 1 || turn == 2)),
          .outputs = std::vector(count_of(program, buffer_role::output), space_if(turn == 0 ? !in_place : turn == 1)),
          .reads_peers = which == places::all_read_peers};
}

std::vector<rank> sizes_of() {
  std::vector<rank> sizes{2, 3, 5, 8, 13, 33};
  sizes.resize(sampled() ? 3 : full() ? 6 : 5);
  return sizes;
}

std::vector<shape> shapes_of(const algorithm& it, rank size) {
  if (!it.of->moves_data) return {{}};
  std::vector<shape> shapes;
  const auto ranks = static_cast<std::uint64_t>(size);
  for (const bool in_place : {false, true})
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, ranks + 1, std::uint64_t{1} << 20})
      if (!in_place || it.needs.in_place) {
        shape data = typical_shape(*it.of, size, count, dtype::f32, kernel::sum);
        data.in_place = in_place;
        if (size > 8 || count > ranks + 1)
          shapes.push_back(std::move(data));
        else
          std::ranges::move(variants_of(it, size, data), std::back_inserter(shapes));
      }
  return shapes;
}

std::string first_words(const verification& answer) {
  return answer.holds() ? "" : std::string(name_of(answer.findings[0].what)) + ": " + answer.findings[0].text;
}

class PlacedProof : public ::testing::TestWithParam<algorithm> {};

/// Returns whether the request was refused because of device memory. Partial schedules and schedules with lists of
/// items must stay in host memory.
bool is_refused(const result<schedule_ptr>& answer) {
  return !answer && answer.error().code == status::unsupported && !answer.error().text.empty();
}

bool has_lists(const schedule_ptr& program) { return std::ranges::any_of(program->buffers(), &buffer::has_lists); }

TEST_P(PlacedProof, the_generator_keeps_its_promise_over_device_memory) {
  const algorithm& it = GetParam();
  for (const rank size : sizes_of())
    for (const shape& data : shapes_of(it, size))
      for (const places which : k_all_places) {
        bool can_be_placed = true;
        const auto programs = whole_world(size, [&](world place) -> result<schedule_ptr> {
          auto made = it.generate(place, data, {});
          if (!made) return made;
          auto moved = placed(*made, spaces_of(**made, which, data.in_place));
          if (!is_refused(moved)) return moved;
          can_be_placed = false;
          return made;
        });
        EXPECT_EQ(can_be_placed, std::ranges::none_of(programs, has_lists)) << it.name;
        if (!can_be_placed) continue;
        const auto answer =
            verify(programs, promise_of(it, size, data, {}), {.in_place = aliasing_of(*it.of, size, data)});
        ASSERT_EQ(first_words(answer), "")
            << size << " ranks, count " << data.count << (data.in_place ? ", in place" : "")
            << (which == places::mixed ? ", mixed" : "");
        EXPECT_TRUE(answer.is_synchronising || !it.of->is_synchronising);
      }
}

std::vector<algorithm> placeable() {
  std::vector<algorithm> all;
  std::ranges::copy_if(algorithms(), std::back_inserter(all), [](const algorithm& it) { return !it.of->activates; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Generators, PlacedProof, ::testing::ValuesIn(placeable()), [](const auto& test) {
  return std::string(test.param.of->name) + "_" + std::string(test.param.name);
});

}  // namespace
}  // namespace lsched::testing
