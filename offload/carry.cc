// Moves sessions between worlds of this process (lsched_carry), and waits for each step of a move.
#include <utility>

#include "libsched/session/carrying.h"
#include "offload/joined_world.h"

namespace lsched {

/// Cancels the instances. Then waits, at most for the commit timeout, until no other rank reads their memory.
std::optional<failure> joined_world::await_end_of_reads(std::span<instance** const> all) {
  const auto deadline = driver::clock::now() + commit_timeout_;
  auto why = cancel(all);
  while (why && why->code == status::busy && driver::clock::now() < deadline) why = cancel(all);
  return why;
}

std::optional<failure> joined_world::hand_over(carrying& move, const std::optional<failure>& unable) {
  std::shared_ptr<handover> made;
  process_.driver().with_engine([&] {
    made = move.hand_over(members_, commits_->next_number(), unable);
    commits_->add(made);
  });
  bool has_ended = false;
  return await_end(*made, &has_ended);
}

std::optional<failure> joined_world::carry(session& moved, joined_world& from, const request_maker& anew,
                                           queued_commit* made) {
  if (&process_ != &from.process_ || &from == this)
    return failure{status::argument,
                   "a schedule moves only to another world of the same process: pass a world from lsched_shrink"};
  carrying move(process_.engine(), moved);
  if (auto why = move.validate(members())) return why;
  std::vector<instance*> before = move.before();
  std::vector<instance**> gone;
  for (instance*& one : before) gone.push_back(&one);

  std::optional<failure> unable;
  process_.driver().with_engine([&] { unable = move.begin(members()); });
  if (!unable) unable = from.await_end_of_reads(gone);
  auto wanted = unable ? result<commit_request>(*unable) : anew();
  if (!wanted) unable = wanted.error();
  if (auto why = hand_over(move, unable)) return why;

  move.request(*wanted);
  queued_commit next = queue(*wanted);
  if (auto why = await(next)) return why;
  move.end(next.instances);
  *made = std::move(next);
  return from.remove(gone);
}

}  // namespace lsched
