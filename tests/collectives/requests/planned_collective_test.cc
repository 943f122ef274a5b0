// Tests of the choice of segments, and of the schedules for requests of one rank.
#include "collectives/requests/planned_collective.h"

#include <gtest/gtest.h>

#include <string>

#include "collectives/requests/agreement.h"
#include "ops/op.h"

namespace lsched::testing {
namespace {

// The memory of a request. plan() does not access this memory.
std::byte* input_at() { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40); }
std::byte* output_at() { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 44); }

memory_properties properties(bool is_visible, bool is_on_device) {
  return {.is_visible = [=](const std::byte*, std::uint64_t) { return is_visible; },
          .is_on_device = [=](const std::byte*, std::uint64_t) { return is_on_device; }};
}

collective_request request_for(std::string_view collective, std::string_view algorithm, std::uint64_t count) {
  collective_request request{
      .collective = collective, .algorithm = algorithm, .count = count, .input = input_at(), .output = output_at()};
  if (find_collective(collective)->reduces) request.reduction = kernel::sum;
  return request;
}

planned_collective planned(const collective_request& request, world place, const memory_properties& memory) {
  schedule_cache made(place, {});
  const auto all = plan(made, request, memory);
  EXPECT_TRUE(all) << all.error().text;
  return all ? *all : planned_collective{};
}

// --- segments ------------------------------------------------------------------------------------------------

/// A fault that the test plants in wanted_segment(). differences() must detect each fault.
enum class planted { nothing, always_cuts, never_cuts, cuts_on_the_host };

std::size_t sends_of_world(const algorithm& how, rank size, const shape& data) {
  std::size_t sends = 0;
  const auto world = generate_world(how, size, data);
  EXPECT_TRUE(world) << world.error().text;
  for (const schedule_ptr& program : *world)
    for (const op& one : program->ops()) sends += one.kind == op_kind::send ? 1 : 0;
  return sends;
}

/// Returns the segment length that the rule demands, in elements. In device memory, segments have 4 MiB if that changes
/// the number of messages. In all other cases the rule demands no segments (0).
std::uint64_t wanted_segment(const algorithm& how, rank size, shape data, bool is_on_device, planted fault) {
  const std::size_t whole = sends_of_world(how, size, data);
  data.segment = (std::uint64_t{4} << 20) / size_of(data.type);
  const bool changes = sends_of_world(how, size, data) != whole;
  const bool is_cut =
      (is_on_device || fault == planted::cuts_on_the_host) && (changes || fault == planted::always_cuts);
  return is_cut && fault != planted::never_cuts ? data.segment : 0;
}

/// Returns the number of requests whose segments violate the rule.
int differences(planted fault) {
  int number = 0;
  for (const rank size : {3, 5, 6, 7, 1, 4, 8})
    for (const auto& [collective, algorithm] : {std::pair{"allreduce", "ring"},
                                                {"allreduce", "tree"},
                                                {"bcast", "binomial"},
                                                {"reduce", "binomial"},
                                                {"allgather", "direct"}})
      for (const std::uint64_t count : {0ull, 1ull, 1000ull, 5ull << 20})
        for (const bool is_on_device : {false, true}) {
          const collective_request request = request_for(collective, algorithm, count);
          const planned_collective made = planned(request, {size / 2, size}, properties(true, is_on_device));
          shape data = made.data;
          data.segment = 0;
          const std::uint64_t wanted = wanted_segment(*find(collective, algorithm), size, data, is_on_device, fault);
          number += made.data.segment == wanted ? 0 : 1;
        }
  return number;
}

TEST(planned_collective, has_segments_on_a_device_if_they_change_the_messages) {
  EXPECT_EQ(differences(planted::nothing), 0);
}

TEST(planned_collective, rule_sees_wrong_segments) {
  for (const planted fault : {planted::always_cuts, planted::never_cuts, planted::cuts_on_the_host})
    EXPECT_GT(differences(fault), 0) << static_cast<int>(fault);
}

TEST(planned_collective, keeps_the_segments_of_the_caller) {
  collective_request request = request_for("bcast", "binomial", 5u << 20);
  request.segment_bytes = 4096;
  EXPECT_EQ(planned(request, {1, 3}, properties(true, true)).data.segment, 1024u);
  request.segment_bytes = 1;  // less than the size of an element
  EXPECT_EQ(planned(request, {1, 3}, properties(true, true)).data.segment, 1u);
}

// --- memory and agreement --------------------------------------------------------------------------------------

TEST(planned_collective, is_visible_only_if_both_buffers_are) {
  const collective_request request = request_for("allreduce", "direct", 8);
  for (const bool shows_input : {false, true})
    for (const bool shows_output : {false, true}) {
      memory_properties memory = properties(true, false);
      memory.is_visible = [&](const std::byte* begin, std::uint64_t bytes) {
        EXPECT_EQ(bytes, 32u);
        return begin == input_at() ? shows_input : shows_output;
      };
      EXPECT_EQ(planned(request, {0, 3}, memory).data.is_visible, shows_input && shows_output);
    }
}

TEST(planned_collective, of_a_buffer_without_elements_asks_for_no_property) {
  memory_properties memory = properties(false, false);
  EXPECT_TRUE(planned(request_for("allreduce", "direct", 0), {0, 3}, memory).data.is_visible);
}

TEST(planned_collective, in_place_has_the_offset_of_the_own_block) {
  for (const rank size : {3, 5, 6, 7, 4, 8}) {
    collective_request request = request_for("allgather", "direct", 2);
    request.input = output_at() + 8 * (size - 1);
    const planned_collective made = planned(request, {size - 1, size}, properties(true, false));
    EXPECT_TRUE(made.data.in_place);
    EXPECT_EQ(made.aliasing_bytes, 8 * (size - 1));
  }
}

TEST(planned_collective, agreement_names_all_members_that_must_be_equal) {
  collective_request request = request_for("reduce", "binomial", 6);
  request.root = 2, request.radix = 3, request.segment_bytes = 8, request.depth = 2, request.elements = "complex";
  EXPECT_EQ(planned(request, {0, 3}, properties(true, false)).agreement,
            "reduce binomial radix 3 sum complex as f32 count 6 root 2 segment 2 depth 2");
}

TEST(agreement, advises_to_set_segments_if_one_rank_has_none) {
  const failure one{status::mismatch, "rank 0 commits a segment 8 as #0, but rank 1 commits a as #0"};
  EXPECT_NE(with_advice(one).text, one.text);
  const failure both{status::mismatch, "rank 0 commits a segment 8 as #0, but rank 1 commits a segment 4 as #0"};
  EXPECT_EQ(with_advice(both).text, both.text);
}

}  // namespace
}  // namespace lsched::testing
