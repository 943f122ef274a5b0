#include "microbench/coll/wire.h"

#include <algorithm>
#include <vector>

namespace lsched::bench {
namespace {

constexpr int k_rounds = 50;
constexpr std::uint64_t k_short = 8, k_long = 1 << 20;  ///< bytes of a message

lsched_node node_of(const team& ranks, int rank) {
  lsched_node node{.struct_size = sizeof node};
  expect_ok(lsched_node_of(ranks.runtime(), rank, &node), "lsched_node_of");
  return node;
}

/// Messages between two ranks. Each message is sent after the previous message has arrived.
struct conversation {
  int messages;  ///< even, so that rank 0 receives the last message
  std::uint64_t bytes;
};

/// Returns the schedule of this rank for a conversation of rank 0 and `partner`. Other ranks have empty schedules.
schedule_handle make_schedule(const team& ranks, int partner, const conversation& about) {
  lsched_builder* builder = nullptr;
  expect_ok(lsched_builder_create(ranks.rank(), ranks.size(), "conversation", &builder), "lsched_builder_create");
  // The commit reports the first error of the calls below.
  const bool takes_part = ranks.is_root() || ranks.rank() == partner;
  lsched_op previous{};
  for (int i = 0; takes_part && i < about.messages; ++i) {
    const bool sends = (i % 2 == 0) == ranks.is_root();
    const int peer = ranks.is_root() ? partner : 0;
    lsched_slot memory{};
    lsched_add_slot(builder, LSCHED_SCRATCH, LSCHED_U8, about.bytes, &memory);
    const lsched_region all{memory, 0, about.bytes};
    lsched_op op{};
    if (sends)
      lsched_add_send(builder, peer, static_cast<std::uint32_t>(i + 1), all, &op);
    else
      lsched_add_recv(builder, peer, static_cast<std::uint32_t>(i + 1), all, &op);
    if (sends && i > 0) lsched_add_dep(builder, previous, op);
    previous = op;
  }
  return created("lsched_builder_commit", lsched_builder_commit, builder, ranks.runtime(), nullptr, nullptr);
}

/// Measures the time of a conversation on rank 0. Returns the shortest time in ns on every rank.
double ns_of_conversation(team& ranks, int partner, const conversation& about) {
  auto schedule = make_schedule(ranks, partner, about);
  std::vector<double> samples;
  for (int i = 0; i < k_rounds; ++i) {
    ranks.barrier();
    samples.push_back(1000 * us_of([&] { run(schedule.get()); }));
  }
  close(std::move(schedule));
  return ranks.combine(ranks.is_root() ? summarise(samples).min : 0.0, LSCHED_SUM);
}

}  // namespace

// A burst of messages to one peer does not show the processor time of a message, because the messages share system
// calls. So this function does not measure the processor time, but assumes a third of the duration of a hop.
std::optional<wire_costs> measure_wire_between_nodes(team& ranks) {
  int partner = 0;
  while (partner < ranks.size() && node_of(ranks, partner).number == 0) ++partner;
  if (partner == ranks.size()) return std::nullopt;
  const double few = ns_of_conversation(ranks, partner, {2, k_short});
  const double many = ns_of_conversation(ranks, partner, {34, k_short});
  const double large = ns_of_conversation(ranks, partner, {2, k_long});
  const double hop = std::max(0.0, many - few) / 32;
  return wire_costs{.hop = hop, .message = hop / 3, .byte = std::max(0.0, large - few) / (2.0 * k_long)};
}

}  // namespace lsched::bench
