// Moves sessions between worlds of this process (lsched_carry), adds this rank to sessions that other ranks move
// (lsched_partial_join), and waits for each step.
#include <deque>
#include <string>
#include <utility>

#include "libsched/session/carrying.h"
#include "offload/joined_world.h"

namespace lsched {

/// Cancels the instances. Then waits, at most for the commit timeout, until no other rank reads the memory of the
/// instances.
std::optional<failure> joined_world::await_end_of_reads(std::span<instance** const> all) {
  const auto deadline = driver::clock::now() + commit_timeout_;
  auto why = cancel(all);
  while (why && why->code == status::busy && driver::clock::now() < deadline) why = cancel(all);
  return why;
}

/// Makes the commit that `create` returns for a number, and sends the last results to the members that lack them.
std::optional<failure> joined_world::hand_over(const handover_maker& create, std::shared_ptr<handover>* made) {
  process_.driver().with_engine([&] {
    *made = create(commits_->next_number());
    commits_->add(*made);
  });
  bool has_ended = false;
  if (auto why = await_end(**made, &has_ended)) return why;
  return (*made)->transfers().empty() ? std::nullopt : exchange_results(**made);
}

/// Sends the last results to the members that lack them.
std::optional<failure> joined_world::exchange_results(handover& of) {
  std::shared_ptr<mailbox_commit> box = queue_mailbox();
  auto why = await(*box);
  std::deque<posted_message> posted;
  std::vector<std::vector<std::byte>> received(of.transfers().size());
  for (std::size_t i = 0; i < received.size() && !why; ++i) {
    const handover::transfer& one = of.transfers()[i];
    for (const rank behind : one.behind) {
      if (one.bytes == 0 || (behind != place().self && one.owner != place().self)) continue;
      const bool is_sent = one.owner == place().self;
      if (!is_sent) received[i].resize(one.bytes);
      posted.emplace_back();
      posted.back().is_sent = is_sent;
      posted.back().peer = is_sent ? behind : one.owner;
      posted.back().memory = is_sent ? const_cast<std::byte*>(one.what.data) : received[i].data();
      posted.back().bytes = one.bytes;
    }
  }
  process_.driver().with_engine([&] {
    for (posted_message& one : posted) box->made().post(one);
  });
  for (posted_message& one : posted)
    if (auto lost = await(*box, one); lost && !why) why = std::move(lost);
  if (!why) process_.driver().with_engine([&] { of.end_transfers(received); });
  (void)remove(box);
  return why;
}

/// Waits until a message has ended, at most for twice the commit timeout. After the first timeout, withdraws the
/// message unless its transfer has begun. After the second timeout, gives up all transfers of the mailbox.
std::optional<failure> joined_world::await(mailbox_commit& of, posted_message& one) {
  driver& by = process_.driver();
  if (by.wait(one.progress, driver::clock::now() + commit_timeout_) == status::timeout) {
    by.with_engine([&] { (void)of.made().take_back(one); });
    if (by.wait(one.progress, driver::clock::now() + commit_timeout_) == status::timeout)
      by.with_engine([&] { of.made().give_up(status::timeout); });
  }
  const status verdict = one.progress.verdict.load();
  if (verdict == status::ok) return std::nullopt;
  const status how = verdict == status::cancelled ? status::timeout : verdict;
  const rank peer = one.source == k_no_rank ? one.peer : one.source;
  return failure{how,
                 "the last result could not be sent between rank " + std::to_string(place().self) + " and rank " +
                     std::to_string(one.peer) + " of the new world",
                 peer};
}

std::optional<failure> joined_world::carry(session& moved, joined_world& from, const request_maker& anew,
                                           queued_commit* made) {
  if (&from == this)
    return failure{status::argument,
                   "the schedule is already in this world: pass a world from lsched_shrink, or a world that was opened "
                   "later"};
  const bool keeps_runtime = &process_ == &from.process_;
  carrying move(from.process_.engine(), moved);
  if (keeps_runtime)
    if (auto why = move.validate(members())) return why;
  std::vector<instance*> before = move.before();
  std::vector<instance**> gone;
  for (instance*& one : before) gone.push_back(&one);

  std::optional<failure> unable;
  from.process_.driver().with_engine([&] { unable = keeps_runtime ? move.begin(members()) : move.begin(); });
  if (!unable) unable = from.await_end_of_reads(gone);
  auto wanted = unable ? result<commit_request>(*unable) : anew();
  if (!wanted) unable = wanted.error();
  const auto create = [&](std::uint64_t number) { return move.hand_over(process_.engine(), members_, number, unable); };
  std::shared_ptr<handover> agreed;
  if (auto why = hand_over(create, &agreed)) return why;

  move.request(*wanted);
  queued_commit next = queue(*wanted);
  if (auto why = await(next)) return why;
  move.end(process_.engine(), next.instances);
  *made = std::move(next);
  return from.remove(gone);
}

result<std::uint64_t> joined_world::join(result<commit_request> wanted, queued_commit* made) {
  const auto unable = wanted ? std::optional<failure>() : wanted.error();
  const auto create = [&](std::uint64_t number) {
    return std::make_shared<handover>(process_.engine(), members_, number, handover::origin{}, unable);
  };
  std::shared_ptr<handover> agreed;
  if (auto why = hand_over(create, &agreed)) return *why;

  wanted->options.rounds_before = agreed->rounds().front();
  for (std::size_t i = 0; i < wanted->companions.size(); ++i)
    wanted->companions[i].rounds_before = agreed->rounds().at(i + 1);
  queued_commit next = queue(*wanted);
  if (auto why = await(next)) return *why;
  *made = std::move(next);
  return agreed->ranks();
}

}  // namespace lsched
