// Worlds in which ranks continue without a dead rank. The ranks form a new world by a roll call, and move a schedule
// into the new world (carry) by two commits. Ranks exchange records and agree by the boards of
// libsched/transport/shm/shm_board{,_roll}.cc. The death of one rank can precede any of its accesses, and the other
// ranks notice the death at any time afterwards.
#include "tests/models/explored_std.h"

#include "libsched/transport/shm/shm_board.cc"
#include "libsched/transport/shm/shm_board_roll.cc"

#include "tests/models/worlds.h"

namespace lsched {
namespace {

using models::circumstances;
using models::require;
using models::threads;

constexpr rank k_ranks = shm_segment::k_ranks;
constexpr rank k_mortal = k_ranks - 1;

struct recovery {
  explicit recovery(bool first_dies) : mortal(first_dies ? 0 : k_mortal) {
    for (rank r = 0; r < k_ranks; ++r) {
      homes[r] = new shm_board(segment, owed, r, segment.page(r).home_board, [](shm_board&) {});
      homes[r]->join_home();
    }
    progress[mortal] = 1;
  }

  struct memory_of_board {
    shm_board_words words;
    std::byte behind[(k_ranks + 7) / 8 * 8 + k_ranks * 8];
  };

  /// Performs a roll call. It finds the live ranks and opens a board for them.
  void call_roll(rank self) {
    shm_board& fresh = *new shm_board(segment, owed, self, fresh_words[self].words, [](shm_board&) {});
    (void)fresh.regroup(*homes[self]);
    rank missing = k_no_rank;
    status answer = status::pending;
    while ((answer = fresh.meet(&missing)) == status::pending) continue;
    require(answer == status::ok, "the roll fails");
    std::uint64_t members = 0;
    for (const rank one : fresh.homes()) members |= std::uint64_t{1} << one;
    agree(world, members, "ranks are in different worlds");
    has_ended[self] = true;
  }

  /// Runs `Commits` commits in a world of all ranks. The first commit agrees on the last round, and the second on the
  /// new schedule. A rank on which a commit fails closes the world.
  template <int Commits>
  void carry(rank self) {
    std::array<std::byte, k_ranks * board::record_bytes> all{};
    bool stands = true;
    for (int number = 0; number < Commits && stands; ++number) {
      stands = commit(*homes[self], self, all);
      agree(outcomes[number], stands ? 2 : 1, "a commit succeeds on one rank and fails on another");
      for (std::size_t m = 0; m < k_ranks && stands; ++m)
        progress[self] = std::max(progress[self], static_cast<std::uint64_t>(all[m * board::record_bytes]));
    }
    if (!stands) homes[self]->~shm_board();
    has_ended[self] = true;
  }

  /// Runs a commit in the same way as commit_queue. Returns whether the commit has succeeded.
  bool commit(shm_board& in, rank self, std::span<std::byte> all) {
    if (find_lost(in) != k_no_rank) return false;
    const std::array record{std::byte(progress[self])};
    rank missing = k_no_rank;
    while (in.post(record, &missing) == status::pending) continue;
    for (bool has_given_up = false;;) {
      const status answer = in.gather(all, &missing);
      if (answer != status::pending) return answer == status::ok;
      if (const rank lost = find_lost(in); lost != k_no_rank && !std::exchange(has_given_up, true)) in.give_up(lost);
    }
  }

  rank find_lost(const shm_board& in) const {
    for (std::size_t m = 0; m < in.homes().size(); ++m)
      if (in.homes()[m] == mortal && segment.is_lost(mortal)) return static_cast<rank>(m);
    return k_no_rank;
  }

  static void agree(std::uint64_t& known, std::uint64_t mine, const char* complaint) {
    if (known == 0) known = mine;
    require(known == mine, complaint);
  }

  std::string fault_at_end() const {
    const bool is_handed_over = outcomes[0] == 2;
    for (rank r = 0; r < k_ranks; ++r) {
      if (r == mortal && is_dead) continue;
      if (!has_ended[r]) return "a survivor does not end";
      if (progress[r] != (is_handed_over || r == mortal ? 1 : 0)) return "survivors end with different rounds";
    }
    return {};
  }

  const rank mortal;
  shm_segment segment{reinterpret_cast<std::byte*>(this)};
  ringer owed{k_ranks};
  memory_of_board fresh_words[k_ranks]{};
  shm_board* homes[k_ranks]{};
  std::uint64_t progress[k_ranks]{};       ///< number of rounds that have ended on each rank
  std::uint64_t world = 0, outcomes[2]{};  ///< members of the new world, one bit each; outcomes of the commits: 0 is
                                           ///< unknown, 1 failed, 2 succeeded
  bool has_ended[k_ranks]{};
  bool is_dead = false;
};

template <bool FirstDies, void (recovery::*Live)(rank)>
models::report one_dies(const circumstances& around) {
  threads all(models::memory::sc);
  recovery* it = nullptr;
  all.set_up([&] { it = new recovery(FirstDies); });
  const std::string names[k_ranks] = {"rank 0", "rank 1", "rank 2"};
  for (rank r = 0; r < k_ranks; ++r) {
    all.add(names[r], [it, r] { (it->*Live)(r); });
    all.give_memory(2048);
  }
  all.add("death", [it] {
    models::point();
    it->is_dead = true;
    models::end_thread(it->mortal == 0 ? "rank 0" : "rank 2");
    it->segment.record_lost(it->mortal);
  });
  all.expect([it](bool is_last) { return is_last ? it->fault_at_end() : std::string(); });
  return explore(all, around.most);
}

const models::known_world k_worlds[] = {
    models::known_world({"first rank dies in roll", one_dies<true, &recovery::call_roll>}),
    models::known_world({"last rank dies in roll", one_dies<false, &recovery::call_roll>}),
    models::known_world({"last rank dies in a commit", one_dies<false, &recovery::carry<1>>}),
    models::known_world({"first rank dies in two commits", one_dies<true, &recovery::carry<2>>}),
    models::known_world({"last rank dies in two commits", one_dies<false, &recovery::carry<2>>}),
};

}  // namespace
}  // namespace lsched
