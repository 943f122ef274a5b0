// The endpoint of a rank in an inproc world.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "libsched/transport/doorbell.h"
#include "libsched/transport/endpoint.h"
#include "tests/support/inproc.h"
#include "tests/support/inproc_state.h"

namespace lsched {

class inproc_endpoint final : public endpoint, public endpoint_memory, public endpoint_liveness {
 public:
  static constexpr std::align_val_t k_memory_alignment{64};

  inproc_endpoint(inproc_world::state& world, rank self)
      : endpoint({self, static_cast<rank>(world.places.size())}, "inproc", {.memory = this, .liveness = this}),
        world_(world),
        self_(self) {}
  ~inproc_endpoint() override;

  std::byte* allocate(std::size_t bytes) override;
  void deallocate(std::byte* memory) override { ::operator delete(memory, k_memory_alignment); }

  result<std::unique_ptr<board>> open_board(std::size_t most) override;
  std::unique_ptr<board> open_home_board() override;
  result<std::vector<link_id>> attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                      std::span<const edge_spec> edges) override;
  member_address address_of(std::uint32_t id) const override { return {.near = id}; }
  status link(std::uint32_t id, std::span<const member_address> all) override;
  void detach(std::uint32_t id) override;

  void cancel(std::uint32_t id, const end_reason& reason) override {
    world_.give_up(*world_.attached.at({self_, id}).of, reason);
  }
  void abandon(std::uint32_t id) override;
  void close_to_readers(std::uint32_t id, const end_reason& reason) override;
  status check_readers(std::uint32_t id, rank* reader) override;

  bool send(link_id link, round_no round, const message& what) override;
  bool receive(link_id link, round_no round, message_target into, arrival& out) override;
  bool fetch(link_id link, round_no round, message_target into, arrival& out) override;
  void release(link_id link, round_no round) override;
  void signal(link_id link, round_no round) override;
  bool arm(link_id link, round_no round) override;
  void disarm(link_id link) override;
  std::size_t poll(std::span<completion> out) override;
  bool is_listening() const override { return waiting_ > 0; }
  bool is_time_driven() const override { return !world_.flights.empty(); }
  rank find_dead_peer() override;
  status health() const override { return health_; }
  doorbell& bell() override { return bell_; }
  void close() override { mine().here = inproc_world::state::presence::closed; }

  // --- called by the world -------------------------------------------------------------------------------
  void take_edge(link_id link, inproc::edge& on) { links_[link].on = &on; }
  void payload_arrived(inproc::edge& on);
  void credit_arrived(inproc::edge& on, round_no round);
  void signal_arrived(inproc::edge& on);
  void source_was_read(inproc::edge& on);

 private:
  struct link_state {
    edge_spec spec{};
    inproc::edge* on = nullptr;  ///< the edge that this link is an end of; null before link()
    std::uint32_t instance = 0;
    message_target into{};
    bool is_fetching = false;
    struct inproc::wait wait {};
  };
  using waits = enum inproc::wait::kind;

  inproc_world::state::seat& mine() { return world_.places[static_cast<std::size_t>(self_)]; }
  inproc_world::state::presence presence_of(rank peer) const {
    return world_.places[static_cast<std::size_t>(peer)].here;
  }
  std::span<const link_id> links_of(std::uint32_t id) const { return world_.attached.at({self_, id}).links; }
  bool expect(bool holds, const link_state& where, round_no round, const char* complaint);
  link_id add_link(std::uint32_t id, const edge_spec& spec);
  void drop_link(link_id link);
  void copy_payload(inproc::edge& it, inproc::slot& landing);
  void find_given_up();
  void report_end(std::uint32_t id, const end_reason& reason);

  bool transmit(link_state& from, round_no round, const message& what);
  bool take(link_state& at, round_no round, message_target into, arrival& out);
  void consume(inproc::edge& it, inproc::slot& landing);
  static void refuse(inproc::slot& landing);
  static void let_go(inproc::slot& landing);
  void await(link_id link, waits what, round_no round);
  void satisfy(link_id link);
  void forget(link_id link);
  bool can_be_satisfied(const link_state& it) const;

  inproc_world::state& world_;
  rank self_;
  std::vector<link_state> links_;
  std::vector<link_id> free_links_;
  std::vector<link_id> queue_;  ///< links whose awaited event has happened, oldest event first; attach() reserves the
                                ///< capacity
  std::size_t waiting_ = 0;
  status health_ = status::ok;
  doorbell bell_{};
};

}  // namespace lsched
