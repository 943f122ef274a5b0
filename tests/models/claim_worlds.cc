// Worlds that test shm_claim.h of the transport shm. A receiver reads the sender's memory while ranks give up the
// instance. Both sides contain copies of the endpoint's code that uses the claim.
#include "tests/models/explored_std.h"

#include "libsched/transport/shm/shm_claim.h"

#include "tests/models/worlds.h"

namespace lsched {
namespace {

using models::circumstances;
using models::threads;

constexpr std::uint64_t k_payload = 7;
constexpr std::uint64_t k_rounds = 2;

struct two_ranks {
  shm_claim claim;
  end_word of_sender, of_first_member;
  std::uint64_t memory = k_payload;
  bool is_callers = false;  ///< the caller may use the sender's memory again
  rank first = k_no_rank;

  void receive() {
    for (std::uint64_t round = 1; round <= k_rounds; ++round) {
      if (!claim.take(round, of_sender)) return;
      models::require(memory == k_payload, "a given-up payload is read");
      models::point();
      models::require(memory == k_payload, "a payload is given up while it is read");
      claim.let_go();
    }
  }
  void give_up(rank by) {
    const rank named = of_sender.record(of_first_member.record({by})).who;
    models::require(named == first || first == k_no_rank, "the recorded rank changes");
    first = named;
    if (by != 0 || claim.is_held()) return;  // rank 0, the sender, would wait for a held claim
    is_callers = true;
    memory = 0;
  }
  std::string fault() const {
    return of_sender.reason().who != first || of_first_member.reason().who != first ? "blocks name different ranks"
                                                                                    : "";
  }
};

template <rank... Cancellers>
models::report give_up_against_read(const circumstances& around) {
  threads all(around.model);
  two_ranks* it = nullptr;
  all.set_up([&] { it = new two_ranks; });
  all.add("receiver", [it] { it->receive(); });
  (all.add("canceller " + std::to_string(Cancellers), [it] { it->give_up(Cancellers); }), ...);
  all.expect([it](bool is_last) { return is_last ? it->fault() : std::string(); });
  return explore(all, around.most);
}

const models::known_world k_worlds[] = {
    models::known_world({"sender gives up", give_up_against_read<0>}),
    models::known_world({"two give up", give_up_against_read<0, 1>}),
};

}  // namespace
}  // namespace lsched
