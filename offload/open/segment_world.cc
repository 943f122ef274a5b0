#include "offload/open/segment_world.h"

#include <cstring>
#include <utility>

#include "libsched/transport/shm/segment_source.h"
#include "offload/cores.h"
#include "offload/open/adoption.h"
#include "offload/open/node_world.h"

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

/// Connects the ranks by a segment that rank 0 creates, and that the other ranks open through /proc. The contact of
/// rank 0 is the segment's source; the contacts of other ranks are empty. Ranks of several hosts are connected by
/// connect_nodes().
class segment_connector final : public connector {
 public:
  segment_connector(const world& place, std::string_view build, const result<segment_options>& how)
      : place_(place), build_(build), how_(how) {}

  result<contact> invite() override {
    contact own{};
    if (place_.self != 0) return own;
    segment_ = create_segment(place_.size, *how_);
    if (!segment_) return segment_.error();
    const segment_source source = source_of(**segment_);
    static_assert(sizeof source <= sizeof own);
    std::memcpy(own.data(), &source, sizeof source);
    return own;
  }

  std::optional<failure> connect(std::span<const contact> all) override {
    segment_source source;
    std::memcpy(&source, all.front().data(), sizeof source);
    if (place_.self != 0) segment_ = open_segment(source, place_.size);
    if (!segment_) return segment_.error();
    auto net = shm_endpoint::open(*segment_, place_.self, how_->shm);
    if (!net) return net.error();
    made_ = opened(std::move(*net), **segment_, *how_);
    return std::nullopt;
  }

  std::optional<failure> connect_nodes(std::span<const residence> homes, const exchange_function& exchange,
                                       const agreement& agree) override {
    auto made = lsched::connect_nodes(place_, build_, homes, exchange, agree, *how_);
    if (!made) return made.error();
    segment_ = std::move(made->segment);
    made_ = std::move(made->opened);
    return std::nullopt;
  }

  std::optional<failure> confirm() override {
    if (*segment_ == nullptr || is_seen_by_all(**segment_)) return std::nullopt;
    return failure{status::transport,
                   "a rank has mapped other shared memory than rank 0: call the same exchange function on all ranks"};
  }

  /// Returns this rank of the world. The rendezvous must have succeeded.
  opened_rank take() { return std::move(made_); }

 private:
  const world place_;
  const std::string_view build_;
  const result<segment_options>& how_;
  segment_result segment_ = failure{status::internal};
  opened_rank made_;
};

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

result<opened_rank> open_by_rendezvous(const world& place, std::string_view build, const exchange_function& exchange,
                                       const result<segment_options>& how) {
  segment_connector way(place, build, how);
  const std::optional<failure> unable = how ? std::nullopt : std::optional(how.error());
  residence home = find_residence();
  if (how && how->ranks_per_node > 0 && how->ranks_per_node < place.size) {
    const auto group = static_cast<std::uint64_t>(place.self / how->ranks_per_node);
    home.processes ^= group << 40;  // as if each group lived in a process name space of its own
  }
  if (const auto why = meet({place, build, home, unable}, exchange, way)) return *why;
  return way.take();
}

}  // namespace lsched
