// The edges of this rank that are attached, what they share with their peers, and the memory and tags they work with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "bindings/mpi/mpi_edge.h"
#include "bindings/mpi/mpi_records.h"
#include "bindings/mpi/mpi_stream.h"
#include "libsched/transport/endpoint.h"

namespace lsched {

/// This rank's end of an edge.
struct mpi_link {
  enum class wait : std::uint8_t { nothing, turn, chunks, message, signal };

  edge_spec spec{};
  std::uint32_t instance = 0;
  bool credits = false;
  bool is_live = false;  ///< false once detached; MPI may still use its memory
  int tag = 0;
  std::uint32_t control_index = 0;
  std::byte* bounce[2] = {nullptr, nullptr};  ///< out: by round parity; in: the first alone
  std::byte* landing = nullptr;               ///< in: large payloads that are read in place
  bool is_bounce_busy[2] = {false, false};
  std::uint32_t in_flight = 0;   ///< requests that use this link's memory
  std::uint64_t value = 0;       ///< register, credit known, or newest value sent
  std::uint64_t pending_at = 0;  ///< number in the stream's table
  enum wait wait = wait::nothing;
  bool is_due = false;     ///< what it waits for has happened
  bool is_queued = false;  ///< it is in `due_`
  round_no round = 0;      ///< of what it waits for
  message outgoing{};
  arrival incoming{};
  std::byte* into = nullptr;
  std::uint64_t moved = 0;  ///< payload bytes whose chunks are posted or done
};

class mpi_links {
 public:
  mpi_links(rank self, rank ranks) : self_(self), streams_(static_cast<std::size_t>(ranks)) {}

  rank self() const { return self_; }
  std::size_t ranks() const { return streams_.size(); }
  std::size_t size() const { return links_.size(); }
  mpi_link& operator[](link_id link) { return links_[link]; }
  const mpi_link& operator[](link_id link) const { return links_[link]; }

  /// By rank; null until the first edge.
  const std::vector<std::unique_ptr<mpi_stream>>& streams() const { return streams_; }
  mpi_stream& stream_to(rank peer);
  mpi_stream& stream_of(link_id link) { return *streams_[static_cast<std::size_t>(links_[link].spec.peer)]; }

  /// endpoint::attach, with tags up to the highest.
  result<std::vector<link_id>> attach(std::uint32_t id, bool credits, std::span<const edge_spec> edges,
                                      int highest_tag);

  /// How many requests may be under way at a time.
  std::size_t most_requests() const;

  /// Whether the instance is attached, and not linked.
  bool is_unlinked(std::uint32_t id) const;

  /// Gives an unlinked instance its tags. All ranks of the world link the same instances, so the tags of both ends stay
  /// in step. Answers the streams on which something comes from the peer.
  std::vector<mpi_stream*> link(std::uint32_t id);

  /// None if it is not attached.
  std::span<const link_id> of(std::uint32_t id) const;
  void detach(std::uint32_t id);

  mpi_records::edge_sums sums_of_unlinked() const;

  /// Leaves all memory to MPI, which may still use it.
  void abandon();

 private:
  struct block {
    mpi_edge::memory bytes;
    std::vector<link_id> links;
    bool is_linked = false;
  };

  std::optional<failure> validate(std::span<const edge_spec> edges) const;
  link_id add(std::uint32_t id, bool credits, const edge_spec& edge);
  bool reserve_memory(block& held);
  bool reserve_tags(const block& held, int highest_tag);
  void release_tags(const block& held);
  void enumerate_control(std::uint32_t id, const block& held);
  std::vector<link_id> sorted(const block& held) const;
  void reap();

  rank self_;
  std::vector<std::unique_ptr<mpi_stream>> streams_;
  std::vector<mpi_link> links_;
  std::vector<link_id> free_links_;
  std::unordered_map<std::uint32_t, block> blocks_;
  std::vector<block> retired_;  ///< detached, perhaps still in MPI's hands
  std::size_t known_peers_ = 0;
};

}  // namespace lsched
