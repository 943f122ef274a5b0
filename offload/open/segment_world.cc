#include "offload/open/segment_world.h"

#include <utility>

#include "offload/cores.h"
#include "offload/open/adoption.h"

namespace lsched {
namespace {

using segment_result = result<std::shared_ptr<shm_segment>>;

segment_result create_segment(rank ranks, const segment_options& how) {
  return shm_segment::create(ranks, how.region_bytes, usable_cores(), how.recorder);
}

opened_rank opened(std::unique_ptr<shm_endpoint> net, const shm_segment& segment, const segment_options& how) {
  return {.net = std::move(net), .around = neighbourhood_of(segment, how.ranks_per_node)};
}

/// Adds a warning if the regions have the default size and are small.
opened_rank with_warning(opened_rank own, const shm_segment& segment, const segment_options& how) {
  if (how.region_bytes == 0) own.warning = segment.words_for_small_regions();
  return own;
}

}  // namespace

result<opened_rank> open_alone(const segment_options& how) {
  const auto segment = create_segment(1, how);
  if (!segment) return segment.error();
  auto net = shm_endpoint::open(*segment, 0, how.shm);
  if (!net) return net.error();
  return with_warning(opened(std::move(*net), **segment, how), **segment, how);
}

result<std::vector<opened_rank>> open_threads(rank ranks, const segment_options& how) {
  const auto segment = create_segment(ranks, how);
  if (!segment) return segment.error();
  shm_options here = how.shm;
  here.watches_processes = false;
  std::vector<opened_rank> all;
  for (rank r = 0; r < ranks; ++r) {
    auto net = shm_endpoint::open(*segment, r, here);
    if (!net) return net.error();
    all.push_back(with_warning(opened(std::move(*net), **segment, how), **segment, how));
  }
  return all;
}

result<opened_rank> open_launched(const launch& where, const segment_options& how) {
  const auto segment = adopt_segment(where);
  if (!segment) return segment.error();
  auto net = take_place(*segment, where, how.shm);
  if (!net) return net.error();
  if (const auto why = (*segment)->wait_for_ranks(how.start_timeout)) return *why;
  return with_warning(opened(std::move(*net), **segment, how), **segment, how);
}

}  // namespace lsched
