// Tests of verify() for messages that rely on buffers of the transport. A proof may assume some properties of these
// buffers, and must not assume others.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/promise.h"
#include "libsched/schedule/schedule_file.h"
#include "libsched/verify/verify.h"

namespace lsched::testing {
namespace {

struct part {
  const char* flags;
  const char* body;  ///< text of the buffers and ops
};

/// Returns the text of a world in which rank r has the schedule `parts[r]`.
std::string world_of(const std::string& name, const std::vector<part>& parts) {
  std::string text;
  for (std::size_t r = 0; r < parts.size(); ++r)
    text += "libsched schedule 2\nname \"" + name + "\"\nrank " + std::to_string(r) + " of " +
            std::to_string(parts.size()) + "\nflags " + parts[r].flags + "\nactivation none seed 0\n" + parts[r].body;
  return text;
}

std::string verdict_of(std::string_view text, const buffering& buffers) {
  const auto world = parse_world(text);
  if (!world) return world.error().text;
  const verification answer = verify(*world, promise_for(*world)->what, {.buffers = buffers});
  return answer.holds() ? "holds" : std::string(name_of(answer.findings.front().what));
}

/// Rank 0 doubles its input, writes the result to a buffer, sends the buffer, and then overwrites the buffer with the
/// input. The message must contain the doubled value.
const std::string k_overwritten = world_of("allgather/mine", {{"", R"(buffer 0 input host f32 1
buffer 1 output host f32 2
buffer 2 scratch host f32 1
op 0 compute f32 b2[0 +1] = sum b0[0 +1] b0[0 +1] then 1
op 1 send f32 b2[0 +1] to 1 tag 0 then 2
op 2 compute f32 b2[0 +1] = copy b0[0 +1] then 5
op 3 recv f32 b1[1 +1] from 1 tag 0 then 5
op 4 compute f32 b1[0 +1] = copy b0[0 +1] then 5
op 5 nop
exit 5
)"},
                                                              {"", R"(buffer 0 input host f32 1
buffer 1 output host f32 2
op 0 send f32 b0[0 +1] to 0 tag 0 then 3
op 1 recv f32 b1[0 +1] from 0 tag 0 then 3
op 2 compute f32 b1[1 +1] = copy b0[0 +1] then 3
op 3 nop
exit 3
)"}});

TEST(buffering, a_message_is_what_was_there_when_it_was_sent) {
  for (const buffering& buffers : {buffering{}, {.bytes = 100}, {.slots = 1}})
    EXPECT_EQ(verdict_of(k_overwritten, buffers), "contents");
}

/// If a received message used no buffer, its receipt must not count as the release of an older message's buffer.
const std::string k_old_message = world_of("mine", {{"", R"(buffer 0 input host f32 1
op 0 send f32 b0[0 +1] to 1 tag 0 then 1
op 1 send f32 b0[0 +1] to 1 tag 1 then 2
op 2 send f32 b0[0 +1] to 1 tag 2 then 3
op 3 send f32 b0[0 +1] to 2 tag 0
exit 3
)"},
                                                    {"", R"(buffer 0 scratch host f32 4
op 0 recv f32 b0[1 +1] from 0 tag 1 then 4
op 1 recv f32 b0[3 +1] from 2 tag 0 then 2 3
op 2 recv f32 b0[0 +1] from 0 tag 0 then 4
op 3 recv f32 b0[2 +1] from 0 tag 2 then 4
op 4 nop
exit 4
)"},
                                                    {"", R"(buffer 0 scratch host f32 1
op 0 recv f32 b0[0 +1] from 0 tag 0 then 1
op 1 send f32 b0[0 +1] to 1 tag 0
exit 1
)"}});

TEST(buffering, a_buffer_is_free_when_all_messages_before_have_left) {
  EXPECT_EQ(verdict_of(k_old_message, {.slots = 1}), "progress");
  EXPECT_EQ(verdict_of(k_old_message, {.slots = 3}), "holds");
}

/// A payload stays in its buffer until the op that reads it has completed. In this world, that op waits for a later
/// message, which finds no free buffer.
const std::string k_held_payload = world_of("mine", {{"", R"(buffer 0 input host f32 2
op 0 send f32 b0[0 +1] to 1 tag 0 then 1
op 1 send f32 b0[1 +1] to 1 tag 1 then 2
op 2 send f32 b0[0 +1] to 2 tag 0
exit 2
)"},
                                                     {"holding", R"(buffer 0 input host f32 1
buffer 1 output host f32 1
buffer 2 scratch host f32 1
buffer 3 scratch host f32 1
buffer 4 scratch host f32 1
op 0 recv f32 b2[0 +1] from 0 tag 0 in_place then 3
op 1 recv f32 b3[0 +1] from 2 tag 0 then 2 3
op 2 recv f32 b4[0 +1] from 0 tag 1 then 4
op 3 compute f32 b1[0 +1] = sum b2[0 +1] b0[0 +1] releases_a 0 then 4
op 4 nop
exit 4
)"},
                                                     {"", R"(buffer 0 scratch host f32 1
op 0 recv f32 b0[0 +1] from 0 tag 0 then 1
op 1 send f32 b0[0 +1] to 1 tag 0
exit 1
)"}});

TEST(buffering, a_payload_that_is_read_in_place_keeps_its_buffer) {
  EXPECT_NE(verdict_of(k_held_payload, {.slots = 1}), "holds");
}

/// A world with messages that are sent only in some rounds, through the same buffer.
const std::string k_void_at_times = world_of("mine", {{"synchronising", R"(buffer 0 input host f32 1
buffer 1 scratch host f32 1
buffer 2 output host f32 1
guard 1 every 2
op 0 send f32 b0[0 +1] to 1 tag 0 guard 1 then 5
op 1 send f32 b0[0 +1] to 1 tag 1 guard 1 then 4
op 2 send f32 b0[0 +1] to 1 tag 3 then 5
op 3 recv f32 b1[0 +1] from 1 tag 2 then 4
op 4 compute f32 b2[0 +1] = copy b1[0 +1] then 5
op 5 nop
exit 5
)"},
                                                      {"synchronising", R"(buffer 0 input host f32 1
buffer 1 scratch host f32 3
guard 1 every 2
op 0 recv f32 b1[0 +1] from 0 tag 0 guard 1 then 4
op 1 recv f32 b1[1 +1] from 0 tag 1 guard 1 then 4
op 2 send f32 b0[0 +1] to 0 tag 2 then 4
op 3 recv f32 b1[2 +1] from 0 tag 3 then 4
op 4 nop
exit 4
)"}});

TEST(buffering, a_void_message_fires_once) {
  for (const buffering& buffers : {buffering{}, {.bytes = 100}, {.slots = 1}, {.slots = 2}})
    EXPECT_EQ(verdict_of(k_void_at_times, buffers), "holds");
}

}  // namespace
}  // namespace lsched::testing
