// What the edges between this rank and one peer share: MPI's tags, and the control records, which wait in a table while
// the previous batch is on its way.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// Its address is MPI's.
struct mpi_stream {
  struct control_record {
    std::uint32_t instance;
    std::uint32_t index;  ///< among the control edges of that instance from this rank to that
    std::uint64_t value;
  };
  static constexpr std::uint32_t k_goodbye = ~std::uint32_t{0};  ///< as index: no instance has that many edges
  static constexpr std::size_t k_batch_records = 64;

  /// What comes from the peer on the control stream.
  enum class hearing : std::uint8_t {
    nothing,  ///< no linked instance has had control edges from the peer
    records,  ///< a receive is posted
    over,     ///< the peer has said goodbye
  };

  rank peer = k_no_rank;
  int next_tag[2] = {1, 1};       ///< by direction (1: outgoing); 0 is the control stream's
  int reserved_tags[2] = {0, 0};  ///< of attached instances that are not linked yet
  bool owes_goodbye = false;      ///< a linked instance had edges on which something goes to the peer
  bool expects_payload = false;   ///< a linked instance had payload edges from the peer
  bool is_speaking = false;       ///< a batch is on its way
  enum hearing hearing = hearing::nothing;
  std::uint64_t sent = 0;      ///< payload messages to the peer, as MPI counts them
  std::uint64_t taken = 0;     ///< from the peer
  std::uint64_t promised = 0;  ///< by its goodbye
  std::unordered_map<std::uint32_t, std::vector<link_id>> hearers;  ///< by instance, then index
  std::array<control_record, k_batch_records> outgoing;
  std::array<control_record, k_batch_records> incoming;

  /// Room for so many records beside those that wait.
  void reserve(std::size_t more) { pending_.reserve(pending_.size() + more); }

  /// Puts the record into the table, or its value where the record `number` has not left yet. Answers the number.
  std::uint64_t say(const control_record& news, std::uint64_t number = 0);

  /// Moves as many records as fit to `outgoing`, and answers how many.
  std::size_t next_batch();

 private:
  std::uint64_t first_pending_ = 1;  ///< number of pending_.front(); numbers grow for ever
  std::vector<control_record> pending_;
};

}  // namespace lsched
