// The description that one rank passes to the C interface to create a collective.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/c/lsched.h"
#include "collectives/algorithm/collective.h"

namespace lsched::testing {

/// A request for a collective of 64-bit integers. If the collective reduces, the reduction is a sum. The object must
/// outlive every use of `desc`.
struct c_request {
  c_request(const collective& of, world place, const shape& data, std::string_view algorithm) : name(algorithm) {
    desc = {.struct_size = sizeof desc, .collective = of.name.data(), .count = data.count};
    if (of.moves_data) desc.dtype = LSCHED_I64;
    if (of.reduces) desc.reduction = LSCHED_SUM;
    desc.root = data.root;
    desc.algorithm = name.c_str();
    counts = data.counts;
    for (const exchanged_block& it : data.blocks) {
      if (it.from == place.self) counts.push_back(it.count), destinations.push_back(it.to);
      if (it.to == place.self) received.push_back(it.count), sources.push_back(it.from);
    }
    counts.reserve(1);  // so that data() is not null
    received.reserve(1);
    if (of.has_counts || of.has_blocks) desc.counts = counts.data();
    if (of.has_blocks) desc.recv_counts = received.data();
    if (&of != &k_neighbor_exchange) return;
    desc.destinations = destinations.data();
    desc.sources = sources.data();
    desc.destination_count = static_cast<std::int32_t>(destinations.size());
    desc.source_count = static_cast<std::int32_t>(sources.size());
  }

  c_request(const c_request&) = delete;
  c_request& operator=(const c_request&) = delete;

  std::string name;
  std::vector<std::uint64_t> counts, received;
  std::vector<std::int32_t> destinations, sources;
  lsched_collective_desc desc{};
};

}  // namespace lsched::testing
