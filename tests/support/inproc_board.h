// A board of an inproc world. Ranks exchange records and agree on a commit by their boards
// (libsched/transport/board.h). Each member publishes its data on a page. The pages are in the world's memory, and all
// members read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libsched/transport/board.h"
#include "tests/support/inproc.h"
#include "tests/support/inproc_state.h"

namespace lsched {

class inproc_board final : public board {
 public:
  /// `index`: index of this rank's page in the world.
  inproc_board(inproc_world::state& world, std::size_t index)
      : world_(world), index_(index), own_(world.boards[index]) {}
  ~inproc_board() override {
    (void)withdraw();
    own_.is_closed = true;
  }

  member_address address() const override { return {.near = index_ + 1}; }
  std::uint64_t number() const override { return number_of_first_; }
  status join(std::span<const rank> members, std::span<const member_address> all) override;
  void offer(std::uint64_t key, std::span<const rank> members) override;
  status meet(rank* missing) override;
  bool withdraw() override;
  void join_home();
  status post(std::span<const std::byte> record, rank* missing) override;
  status gather(std::span<std::byte> all, rank* missing) override;
  void give_up(rank missing) override;

 private:
  inproc::settlement& settled() { return pages_.front()->settled[number_ % 2]; }
  bool has_left(std::size_t member) const;
  status end(status how);

  inproc_world::state& world_;
  const std::size_t index_;
  inproc::board_page& own_;
  std::uint64_t number_of_first_ = 1;  ///< index of the first rank's page, plus one
  std::uint64_t key_ = 0;              ///< key of the offer; 0 if there is no offer
  std::vector<rank> offered_to_;  ///< members of the offered world, as ranks of the home world (the world of all ranks)
  std::vector<rank> members_;     ///< members of this world, as ranks of the home world; empty before join()
  std::vector<inproc::board_page*> pages_;  ///< pages of the members, in the order of `members_`
  std::uint64_t number_ = 0;                ///< index of the current or last exchange
};

}  // namespace lsched
