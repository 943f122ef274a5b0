// The text of a schedule that contains an op of each kind. One op fires after one of its two predecessors. One receive
// is in place. A name contains characters that must be escaped.
#pragma once

#include <string_view>

namespace lsched::testing {

inline constexpr std::string_view k_sampler = R"(libsched schedule 3
name "a \x22tiny\x22 \x5cone\x0a"
rank 1 of 3
flags synchronising
activation solo seed 5
sizes buffers 4 guards 0 ops 9 deps 8
buffer 0 input host f32 4
buffer 1 output host f32 4
buffer 2 scratch host f32 4
buffer 3 scratch host u8 5
op 0 signal_recv from 1 tag 0 need 0 then 2
op 1 signal_recv from 0 tag 1 need 0 then 2
op 2 nop need 1 then 3 4
op 3 signal_send to 2 tag 1 need 1
op 4 capture f32 b0[0 +4] merge max need 1 then 6
op 5 recv f32 b2[0 +4] from 0 tag 7 in_place need 0 then 6
op 6 compute f32 b1[0 +4] = sum b2[0 +4] b0[0 +4] releases_a 5 need 2 then 7
op 7 compute f32 b1[2 +2] = copy b1[0 +2] need 1 then 8
op 8 send f32 b1[2 +2] to 2 tag 8 need 1
exit 8
)";

}  // namespace lsched::testing
