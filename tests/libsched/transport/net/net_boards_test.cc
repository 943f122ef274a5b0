// Tests of boards over the transport net. Only the first rank sees the records and the offers of all members.
// Nevertheless, all members must learn which member is missing while a commit or an offer waits.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <vector>

#include "libsched/transport/net/net_endpoint.h"
#include "tests/libsched/transport/net/net_sockets.h"

namespace lsched {
namespace {

/// The boards of a world in which some members are missing.
struct waiting_world {
  explicit waiting_world(rank ranks) {
    auto sockets = testing::connect_all(ranks, AF_INET);
    for (rank r = 0; r < ranks; ++r)
      ends.push_back(std::move(*net_endpoint::open({r, ranks}, std::move(sockets[static_cast<std::size_t>(r)]))));
  }

  /// Returns the members of each world, in the order in which the world lists them.
  std::vector<rank> members() const {
    std::vector<rank> all(ends.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<rank>((i + 2) % all.size());
    return all;
  }

  /// Calls `look` repeatedly for all members except `silent`, until `look` has returned true for each of them.
  template <class Look>
  ::testing::AssertionResult all_but(const std::set<rank>& silent, const Look& look) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::set<rank> waiting;
    do {
      waiting.clear();
      for (rank r = 0; r < static_cast<rank>(ends.size()); ++r)
        if (!silent.contains(r) && !look(r)) waiting.insert(r);
    } while (!waiting.empty() && std::chrono::steady_clock::now() < limit);
    if (waiting.empty()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "rank " << *waiting.begin() << " does not learn in time who is missing";
  }

  std::vector<std::unique_ptr<net_endpoint>> ends{};
  std::vector<std::unique_ptr<board>> boards{};
};

// The members in `all_missing` post their records one after the other. Each of them does nothing before its turn.
TEST(net_boards, tell_all_members_whose_record_is_missing) {
  for (const auto& [ranks, all_missing] :
       {std::pair<rank, std::vector<rank>>{3, {1}}, {3, {0}}, {5, {1, 3}}, {6, {5}}, {7, {0, 6}}}) {
    waiting_world world(ranks);
    for (const auto& end : world.ends) world.boards.push_back(end->open_home_board());
    std::set<rank> silent(all_missing.begin(), all_missing.end());
    const auto at = [&](rank r) -> board& { return *world.boards[static_cast<std::size_t>(r)]; };
    const auto post = [&](rank r) {
      rank unused = k_no_rank;
      ASSERT_EQ(at(r).post({}, &unused), status::ok);
    };
    std::vector<std::byte> all(static_cast<std::size_t>(ranks) * board::record_bytes);
    for (int commit = 0; commit < 2; ++commit) {
      for (rank r = 0; r < ranks; ++r)
        if (!silent.contains(r)) post(r);
      for (const rank next : all_missing) {
        EXPECT_TRUE(world.all_but(silent,
                                  [&](rank r) {
                                    rank missing = k_no_rank;
                                    return at(r).gather(all, &missing) == status::pending && missing == next;
                                  }))
            << ranks << " ranks, " << next;
        silent.erase(next);
        post(next);
      }
      std::set<rank> done;
      EXPECT_TRUE(world.all_but({}, [&](rank r) {
        rank missing = k_no_rank;
        if (!done.contains(r) && at(r).gather(all, &missing) == status::ok) done.insert(r);
        return done.contains(r);
      }));
      silent = {all_missing.begin(), all_missing.end()};
    }
  }
}

TEST(net_boards, tell_all_members_whose_offer_is_missing) {
  for (const auto& [ranks, place] : {std::pair<rank, rank>{3, 0}, {3, 1}, {5, 4}, {6, 0}, {7, 3}}) {
    waiting_world world(ranks);
    const std::vector<rank> members = world.members();
    const rank absent = members[static_cast<std::size_t>(place)];
    const auto offer = [&](rank r) {
      board& mine = *world.boards[static_cast<std::size_t>(r)];
      mine.offer(7, members);
    };
    for (const auto& end : world.ends) world.boards.push_back(std::move(*end->open_board(members.size())));
    for (rank r = 0; r < ranks; ++r)
      if (r != absent) offer(r);
    rank missing = k_no_rank;
    const auto meet = [&](rank r) { return world.boards[static_cast<std::size_t>(r)]->meet(&missing); };
    EXPECT_TRUE(world.all_but({absent}, [&](rank r) { return meet(r) == status::pending && missing == place; }))
        << ranks << " ranks, " << place;
    offer(absent);
    EXPECT_TRUE(world.all_but({}, [&](rank r) { return meet(r) == status::ok; }));
  }
}

}  // namespace
}  // namespace lsched
