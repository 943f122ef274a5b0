// A hybrid endpoint combines two transports: shared memory between the ranks of a node, and a far transport (MPI or
// net) between nodes.
//
// Each edge belongs to one of the two transports, depending on its peer. The lowest bit of a link id selects the
// transport. The members of a world exchange records on a board (libsched/transport/board.h). A board is in shared
// memory if all its members are on this node. The two transports identify ranks differently. Shared memory identifies a
// rank by its place, which is an index within the node. The far transport and this endpoint use ranks of the launch.
//
// A far transport that can wake a sleeping rank must ring the doorbell of that rank in shared memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libsched/transport/shm/shm_endpoint.h"

namespace lsched {

class hybrid_endpoint final : public endpoint,
                              public endpoint_memory,
                              public endpoint_areas,
                              public endpoint_recorder,
                              public endpoint_liveness {
 public:
  /// `node` contains the ranks of the launch on this node, in ascending order. A rank's index in `node` is its place in
  /// the segment. `name` is the name of both transports in error texts, and must outlive the endpoint. The endpoint
  /// calls `inform_far` for each lost rank of this node. `inform_far` informs the other nodes, so that all ranks name
  /// the lost rank, and not a rank that ends because of the loss.
  hybrid_endpoint(std::unique_ptr<shm_endpoint> near, std::unique_ptr<endpoint> far, std::vector<rank> node,
                  std::string_view name, std::function<void(rank lost)> inform_far = {})
      : endpoint(far->place(), name, {this, this, this, this, far->has_cancellation_points()}),
        near_(std::move(near)),
        far_(std::move(far)),
        node_(std::move(node)),
        inform_far_(std::move(inform_far)),
        losses_(std::make_unique<std::atomic<rank>[]>(static_cast<std::size_t>(far_->place().size))) {}
  ~hybrid_endpoint() override { hybrid_endpoint::close(); }

  std::byte* allocate(std::size_t bytes) override { return near_->allocate(bytes); }
  void deallocate(std::byte* memory) override { near_->deallocate(memory); }
  bool sends_from(const std::byte* memory, std::uint64_t bytes) const override {
    return near_->sends_from(memory, bytes);
  }
  std::uint64_t offset_of(const std::byte* memory) const override { return near_->offset_of(memory); }
  const std::byte* memory_at(rank who, std::uint64_t place, std::uint64_t bytes) const override {
    const auto neighbour = place_of(who);
    return neighbour ? near_->memory_at(*neighbour, place, bytes) : nullptr;
  }

  bool announce_kept(const std::byte* memory, std::uint64_t bytes) override {
    return near_->announce_kept(memory, bytes);
  }
  std::span<const std::byte> kept_at(const std::byte* place, std::uint64_t bytes) const override {
    return near_->kept_at(place, bytes);
  }
  bool expose(std::uint32_t number, const exposed_area& what) override { return near_->expose(number, what); }
  void withdraw(std::uint32_t number) override { near_->withdraw(number); }
  std::optional<exposed_area> area_of(rank who, std::uint32_t number) const override {
    const auto neighbour = place_of(who);
    return neighbour ? near_->area_of(*neighbour, number) : std::nullopt;
  }
  bool reads_device(link_id link) const override { return !is_far(link) && near_->reads_device(inner(link)); }

  result<std::unique_ptr<board>> open_board(std::size_t most) override;
  std::unique_ptr<board> open_home_board() override;
  result<std::vector<link_id>> attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                      std::span<const edge_spec> edges) override;
  member_address address_of(std::uint32_t id) const override;
  status link(std::uint32_t id, std::span<const member_address> all) override;
  void detach(std::uint32_t id) override;

  void cancel(std::uint32_t id, const end_reason& reason) override;
  void abandon(std::uint32_t id) override;
  void close_to_readers(std::uint32_t id, const end_reason& reason) override;
  status check_readers(std::uint32_t id, rank* reader) override;

  bool send(link_id link, round_no round, const message& payload) override {
    return is_far(link) ? far_->send(inner(link), round, payload) : near_->send(inner(link), round, payload);
  }
  bool receive(link_id link, round_no round, message_target into, arrival& out) override {
    return is_far(link) ? far_->receive(inner(link), round, into, out) : near_->receive(inner(link), round, into, out);
  }
  bool fetch(link_id link, round_no round, message_target into, arrival& out) override {
    return is_far(link) ? far_->fetch(inner(link), round, into, out) : near_->fetch(inner(link), round, into, out);
  }
  void end_edge(link_id link, round_no last) override {
    is_far(link) ? far_->end_edge(inner(link), last) : near_->end_edge(inner(link), last);
  }
  void release(link_id link, round_no round) override {
    is_far(link) ? far_->release(inner(link), round) : near_->release(inner(link), round);
  }
  void signal(link_id link, round_no round) override {
    is_far(link) ? far_->signal(inner(link), round) : near_->signal(inner(link), round);
  }
  bool arm(link_id link, round_no round) override {
    return is_far(link) ? far_->arm(inner(link), round) : near_->arm(inner(link), round);
  }
  void disarm(link_id link) override { is_far(link) ? far_->disarm(inner(link)) : near_->disarm(inner(link)); }
  std::size_t poll(std::span<completion> out) override;
  void flush() override {
    near_->flush();
    far_->flush();
  }

  bool is_listening() const override { return near_->is_listening() || far_->is_listening(); }
  bool is_time_driven() const override { return far_->is_time_driven(); }
  std::atomic<round_no>* put_on_record(std::uint32_t id, std::uint64_t number, std::string_view label) override {
    return near_->put_on_record(id, number, label);
  }
  std::optional<round_no> entered_by(rank who, std::uint32_t id) const override;
  void note_wait(const wait_note& what) override { near_->note_wait(what); }
  wait_note wait_of(rank who) const override;
  rank_state state_of(rank who) const override;
  rank find_dead_peer() override;
  bool is_lost(rank who) const override;
  rank lost_after(rank others) const override;
  status health() const override { return near_->health() != status::ok ? near_->health() : far_->liveness().health(); }
  rank culprit() const override;
  doorbell& bell() override { return near_->bell(); }
  void close() override;

 private:
  static constexpr bool is_far(link_id link) { return (link & 1) != 0; }
  static constexpr link_id inner(link_id link) { return link >> 1; }
  void pass_on_cancellations();
  void collect_losses();
  void record_lost(rank who);
  void record_reports(std::size_t number);
  std::optional<rank> place_of(rank who) const;
  std::vector<std::size_t> indices_here(std::span<const rank> members) const;
  std::vector<rank> places_of(std::span<const rank> members) const;
  std::vector<rank> ranks_at(std::span<const rank> places) const;
  friend class hybrid_board;

  std::unique_ptr<shm_endpoint> near_;
  std::unique_ptr<endpoint> far_;
  std::vector<rank> node_;  ///< ranks of the launch on this node, ascending; indexed by place in the node
  std::function<void(rank lost)> inform_far_;
  std::vector<rank> near_losses_;                                 ///< losses that collect_losses() is about to record
  std::vector<rank> reported_;                                    ///< ranks of this node that other hosts report lost
  std::unique_ptr<std::atomic<rank>[]> losses_;                   ///< lost ranks, in the order of their detection
  std::atomic<std::size_t> lost_ = 0;                             ///< number of lost ranks
  std::unordered_map<std::uint32_t, std::vector<rank>> members_;  ///< members, indexed by attached instance
  bool far_is_first_ = false;  ///< whether the last poll() polled the far transport first; every call inverts this
};

}  // namespace lsched
