// This file defines the endpoint of transport `shm`. The transport connects the ranks of one node, which are processes
// or threads.
//
// Each rank has a region in the shared segment (shm_segment.h). A payload edge has two landing cells in the receiver's
// region, one for even and one for odd rounds. It also has a word `consumed` in the sender's region. A small message is
// copied into the cell. A larger message is exposed, which means that the cell contains the location of the payload.
// The receiver reads or reduces the payload at that location, and then writes `consumed`.
//
// Peers map only the part of a sender's memory that is in the segment. A message outside of the segment is transferred
// in one of two ways. If the receiver needs a copy anyway, and the system permits this (peer_processes.h), the receiver
// copies the message from the sender's process. Otherwise the sender first copies the message to a staging area in the
// segment. Edges that send the same bytes share one staging area.
//
// A signal edge is one word in the receiver's region.
//
// Every shared word has one writer, which stores with release order. flush() executes one fence and then checks the
// peers' bells (doorbell.h). Every wait ends when a word reaches a value, so polling is one loop over an array.
// docs/inside/transport.md shows the layout.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "libsched/transport/endpoint.h"
#include "libsched/transport/shm/peer_processes.h"
#include "libsched/transport/shm/shm_segment.h"

namespace lsched {

class shm_claim;
class end_word;
struct shm_block;
struct shm_cell;
struct shm_message;
struct edge_row;

struct shm_options {
  bool reads_processes = true;    ///< false: never reads the memory of another process
  bool watches_processes = true;  ///< false: all ranks are threads of this process
  bool touches_memory = false;    ///< true: pages are allocated together with the memory, not at first access
};

class shm_endpoint final : public endpoint,
                           public endpoint_memory,
                           public endpoint_areas,
                           public endpoint_recorder,
                           public endpoint_liveness {
 public:
  /// Opens the endpoint of rank `self` in the segment. Each rank can open its endpoint only once. The endpoint starts a
  /// thread that sleeps until another rank ends. When this process ends, this thread ends, too, and the kernel informs
  /// the other ranks (life_word.h). Returns UNSUPPORTED if a sandbox refuses all ways to detect the end of a process.
  static result<std::unique_ptr<shm_endpoint>> open(std::shared_ptr<shm_segment> segment, rank self,
                                                    const shm_options& options = {});
  ~shm_endpoint() override;

  std::byte* allocate(std::size_t bytes) override { return heap_.allocate(bytes); }
  void deallocate(std::byte* memory) override { heap_.deallocate(memory); }
  bool sends_from(const std::byte* memory, std::uint64_t bytes) const override { return heap_.owns(memory, bytes); }
  bool announce_kept(const std::byte* memory, std::uint64_t bytes) override;
  std::span<const std::byte> kept_at(const std::byte* place, std::uint64_t bytes) const override;
  bool expose(std::uint32_t number, const exposed_area& what) override;
  void withdraw(std::uint32_t number) override { page_->areas[number].hide(); }
  std::optional<exposed_area> area_of(rank who, std::uint32_t number) const override;
  bool reads_device(link_id link) const override { return links_[link].spec.reads_device; }

  std::uint64_t offset_of(const std::byte* memory) const override { return segment_->offset_of(memory); }
  const std::byte* memory_at(rank who, std::uint64_t place, std::uint64_t bytes) const override {
    return segment_->holds(who, place, bytes) ? segment_->at(place) : nullptr;
  }

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

  bool send(link_id link, round_no round, const message& what) override;
  bool receive(link_id link, round_no round, message_target into, arrival& out) override;
  bool fetch(link_id link, round_no round, message_target into, arrival& out) override;
  void release(link_id link, round_no round) override;
  void signal(link_id link, round_no round) override;
  bool arm(link_id link, round_no round) override;
  void disarm(link_id link) override;
  std::size_t poll(std::span<completion> out) override;
  void flush() override { ringer_.settle(); }
  bool is_listening() const override { return !watches_.empty(); }
  std::atomic<round_no>* put_on_record(std::uint32_t id, std::uint64_t number, std::string_view label) override;
  std::optional<round_no> entered_by(rank who, std::uint32_t id) const override;
  void note_wait(const wait_note& what) override;
  wait_note wait_of(rank who) const override;
  rank_state state_of(rank who) const override;
  rank find_dead_peer() override;
  bool is_lost(rank who) const override { return segment_->is_lost(who); }
  rank lost_after(rank others) const override { return segment_->lost_after(others); }
  status health() const override { return health_; }
  rank culprit() const override { return culprit_; }
  doorbell& bell() override { return page_->bell; }
  void close() override;

 private:
  enum class awaited : std::uint8_t { message, credit, consumed, signal };

  static constexpr std::uint64_t k_never = ~std::uint64_t{0};

  /// A wait until `word` has reached `goal`.
  struct watch {
    const std::atomic<std::uint64_t>* word;
    std::uint64_t goal;
    link_id link;
    awaited what;
  };

  /// The staging copy of a message. Peers do not map the source buffer of this message.
  struct staging_area {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t source = 0;  ///< edge_spec::source of the edges that share the area
    round_no round = 0;        ///< round to which the message in the area belongs
  };

  struct link_state {
    edge_spec spec;
    bool credits = false;
    /// Incoming: round whose payload this rank reads in the sender's memory. Outgoing: last round exposed without
    /// staging.
    round_no exposed = 0;
    shm_cell* cells[2] = {nullptr, nullptr};  ///< landing cells at the receiver
    /// For payloads, the sender's `consumed` word. For signals, the receiver's register.
    std::atomic<std::uint64_t>* word = nullptr;
    std::uint32_t instance = 0;
    /// Byte that the peer sets when it leaves the instance; valid after link()
    const std::atomic<std::uint8_t>* left = nullptr;
    /// The claim in the sender's region; null if messages are never read in the sender's memory
    shm_claim* claim = nullptr;
    const end_word* closed = nullptr;  ///< incoming: the peer's end_word
    staging_area* staging = nullptr;   ///< outgoing: null if peers map the source; owned by the block
    doorbell* peer_bell = nullptr;
    std::uint64_t read_above = k_never;  ///< size in bytes above which the receiver reads from the sender's process
    round_no signalled = 0;              ///< outgoing: last value written to the peer's register
    message_target into{};               ///< incoming: target of the awaited message
    message delayed{};                   ///< outgoing: message that waits for a credit
    round_no delayed_round = 0;
    std::uint32_t watch_at = k_no_watch;
  };
  static constexpr std::uint32_t k_no_watch = ~std::uint32_t{0};

  struct block {  ///< the part of this rank's region that one instance uses
    shm_block* head = nullptr;
    std::vector<rank> members;  ///< ranks of the segment, indexed by rank of the world
    std::vector<link_id> links;
    std::vector<shm_block*> of_ranks;  ///< blocks of all members, indexed by rank; empty until link()
    std::vector<std::unique_ptr<staging_area>> stagings;
    bool is_reported = false;  ///< the cancellation has been reported
  };

  /// Memory of a detached instance or a closed board. Until all other members have left, they may access this memory.
  struct retired_piece {
    std::byte* memory = nullptr;
    const std::atomic<std::uint8_t>* left = nullptr;  ///< one byte per member
    std::vector<rank> members;
    std::vector<std::unique_ptr<staging_area>> stagings;
    std::uint32_t place_on_record = shm_record::k_places;  ///< k_places: the instance is not on record
  };

  shm_endpoint(std::shared_ptr<shm_segment> segment, rank self, const shm_options& options);
  bool can_read(rank peer);
  std::uint64_t read_above(const edge_spec& edge, bool is_mutual);
  shm_block* block_at(rank peer, std::uint64_t offset, std::size_t members) const;
  std::span<const edge_row> edges_of(rank peer, shm_block& theirs, std::size_t members) const;
  static std::size_t index_of(rank who, const block& held);
  std::unique_ptr<shm_board> make_board(shm_board_words& words);
  void retire(const shm_board& over);
  status connect(link_state& state, const edge_row& row, const shm_block& theirs);
  status connect_all(const block& ours);
  bool transmit(link_id link, round_no round, const message& what);
  shm_message read_header(const link_state& state, shm_cell& cell);
  bool announce(link_id link, round_no round, arrival& out);
  bool take(link_id link, round_no round, message_target into, arrival& out);
  bool show(link_state& state, link_id link, round_no round, const message& what);
  const std::byte* find_or_stage(link_state& state, round_no round, const message& what);
  bool reserve(staging_area& copy, std::uint64_t bytes);
  bool is_sound(const link_state& state, const shm_message& what) const;
  bool give_up(link_id link, const shm_cell& cell);
  staging_area* staging_for(const edge_spec& edge, block& region);
  void publish(link_state& state, std::atomic<std::uint64_t>& word, round_no round);
  bool complete(const watch& due, completion& out);
  void add_watch(link_id link, const std::atomic<std::uint64_t>* word, std::uint64_t goal, awaited what);
  void drop_watch(std::uint32_t index);
  void find_bad_news();
  void reap();
  void free(const retired_piece& over);
  bool is_in_this_process(rank peer) const { return segment_->page(peer).process.load() == process_; }
  bool has_visible_process(rank peer) const;
  bool has_ended(rank peer, bool is_awaited) const;
  std::optional<failure> begin_to_watch();
  void watch_peers();
  void stop_watching();
  rank find_successor() const;
  void report_end(std::uint32_t id, block& region, const end_reason& reason);
  bool claim(link_state& state, round_no round);
  rank find_lost_peer();
  void find_awaited_peers();

  std::shared_ptr<shm_segment> segment_;
  shm_heap heap_;
  rank self_;
  const process_id process_;
  shm_page* page_;
  shm_record* record_;
  shm_options options_;
  memory_probe probe_;
  enum class reach : std::uint8_t { unknown, none, all };
  std::vector<reach> reach_;  ///< by rank: whether the memory of the rank's process can be read
  rank culprit_ = k_no_rank;  ///< rank, possibly alive, whose message cannot be read
  std::vector<link_state> links_;
  std::vector<link_id> free_links_;
  std::vector<watch> watches_;
  ringer ringer_;  ///< peers to which this rank has published since the last flush
  std::unordered_map<std::uint32_t, block> blocks_;
  std::vector<shm_board*> boards_;
  std::vector<retired_piece> retired_;
  std::size_t reap_at_ = 0;                 ///< size of retired_ at which reap() runs next
  std::vector<std::uint32_t> free_places_;  ///< free places below next_place_ in this rank's shm_record
  std::uint32_t next_place_ = 0;
  enum class expected : std::uint8_t { nothing, something, in_vain };
  /// For each rank: whether messages of the rank were awaited at the last search for dead peers
  std::vector<expected> expected_of_;
  std::uint64_t news_seen_ = 0;  ///< last value of shm_segment::bad_news
  rank losses_seen_ = 0;         ///< number of recorded losses that have been reported
  std::uint64_t areas_shown_ = 0;
  status health_ = status::ok;
  /// Time of the first failed attempt to read a message of culprit_. At that time, the process of culprit_ may have
  /// been about to end.
  std::chrono::steady_clock::time_point culprit_since_{};

  std::thread watcher_;
  std::atomic<bool> is_watching_{false}, stops_watching_{false};
  std::atomic<rank> watched_{k_no_rank};
};

}  // namespace lsched
