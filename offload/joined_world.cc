#include "offload/joined_world.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lsched {
namespace {

constexpr std::chrono::milliseconds k_longest_read{100};
constexpr std::chrono::seconds k_longest_job{2};  ///< time limit for a device job

/// Returns ARGUMENT if the list names a rank that does not exist, names a rank twice, or does not contain this rank.
std::optional<failure> validate_ranks(const world& place, std::span<const rank> listed) {
  std::vector<rank> sorted(listed.begin(), listed.end());
  std::ranges::sort(sorted);
  if (!sorted.empty() && (sorted.front() < 0 || sorted.back() >= place.size))
    return failure{status::argument, "ranks: a listed rank is not from 0 to " + std::to_string(place.size - 1)};
  if (const auto twin = std::ranges::adjacent_find(sorted); twin != sorted.end())
    return failure{status::argument,
                   "ranks: rank " + std::to_string(*twin) + " is listed more than once: list each rank once", *twin};
  if (!std::ranges::binary_search(sorted, place.self))
    return failure{status::argument, "ranks: this rank, " + std::to_string(place.self) +
                                         ", is not listed: only the listed ranks make this call"};
  return std::nullopt;
}

}  // namespace

joined_world::joined_world(runtime& process, std::chrono::nanoseconds commit_timeout)
    : process_(process),
      members_(std::make_shared<const membership>(process.net().place())),
      commit_timeout_(commit_timeout) {
  process_.driver().with_engine([this] {
    commits_ = std::make_unique<commit_queue>(process_.engine(), members_, process_.net().open_home_board());
  });
}

joined_world::joined_world(const joined_world& parent, new_world made)
    : process_(parent.process_), members_(std::move(made.members)), commit_timeout_(parent.commit_timeout_) {
  commits_ = std::make_unique<commit_queue>(process_.engine(), members_, std::move(made.meets));
}

joined_world::~joined_world() {
  if (process_.is_in_its_process())
    process_.driver().with_engine([this] {
      if (commits_->is_over())
        commits_.reset();
      else
        process_.engine().adopt(std::move(commits_));
    });
  else
    (void)commits_.release();  // a forked child is not a rank, so it must not destroy the commits
}

queued_commit joined_world::queue(const commit_request& request) {
  queued_commit made;
  process_.driver().with_engine([&] {
    auto next = std::make_shared<schedule_commit>(process_.engine(), members_, commits_->next_number(), request);
    made = {next, {next->made().begin(), next->made().end()}};
    commits_->add(std::move(next));
  });
  for (const instance* one : made.instances) open_.add(one, one->label);
  return made;
}

std::shared_ptr<mailbox_commit> joined_world::queue_mailbox(const std::optional<failure>& unable) {
  std::shared_ptr<mailbox_commit> made;
  process_.driver().with_engine([&] {
    made = std::make_shared<mailbox_commit>(process_.engine(), members_, commits_->next_number(), unable);
    commits_->add(made);
  });
  open_.add(made.get(), "a mailbox");
  return made;
}

result<announcement::data> joined_world::announce(const std::string& purpose, const announcement::data& mine,
                                                  const std::optional<failure>& unable) {
  std::shared_ptr<announcement> made;
  process_.driver().with_engine([&] {
    made = std::make_shared<announcement>(members_, commits_->next_number(), purpose, mine, unable);
    commits_->add(made);
  });
  bool has_ended = false;
  if (auto why = await_end(*made, &has_ended)) return *why;
  return made->announced();
}

std::shared_ptr<announcement> joined_world::begin_admission() {
  std::shared_ptr<announcement> made;
  process_.driver().with_engine([&] {
    made = std::make_shared<announcement>(members_, commits_->next_number(), "the admission of new ranks",
                                          announcement::data{}, std::nullopt);
    commits_->add(made);
  });
  return made;
}

bool joined_world::await(const announcement& made, driver::clock::time_point deadline) {
  (void)process_.driver().wait(made.progress(), deadline);  // TIMEOUT may be the outcome of the commit
  return made.progress().has_ended();
}

void joined_world::give_up(const announcement& made) {
  process_.driver().with_engine([&] { (void)commits_->give_up(made); });
}

void joined_world::end_for_growth() {
  process_.driver().with_engine([this] {
    commits_->lose(members_->home_of(place().self));  // first, as in engine::lose()
    process_.engine().lose(*members_, place().self);
    for (rank peer = 0; peer < place().size; ++peer)  // ends the messages; the schedules have failed already
      if (peer != place().self) process_.engine().lose(*members_, peer);
  });
}

std::optional<failure> joined_world::await(mailbox_commit& made) {
  bool has_ended = false;
  return await_end(made, &has_ended);
}

status joined_world::remove(std::shared_ptr<mailbox_commit>& gone) {
  status answer = status::ok;
  const void* const object = gone.get();
  process_.driver().with_engine([&] {
    if (!gone->made().is_idle())
      answer = status::busy;
    else
      gone.reset();
  });
  if (answer == status::ok) open_.remove(object);
  return answer;
}

result<new_world> joined_world::split(const result<split_choice>& choice) {
  std::shared_ptr<split_commit> made;
  process_.driver().with_engine([&] {
    made = std::make_shared<split_commit>(process_.net(), members_, commits_->next_number(), choice);
    commits_->add(made);
  });
  bool has_ended = false;
  if (auto why = await_end(*made, &has_ended)) return std::move(*why);
  return new_world{made->made(), made->take_board()};
}

// Over a transport without shared memory, a commit may succeed after this rank has given it up. abandon() then cancels
// the created object.
std::optional<failure> joined_world::await_end(commitment& made, bool* has_ended) {
  driver& by = process_.driver();
  std::optional<failure> why;
  if (by.wait(made.progress(), driver::clock::now() + commit_timeout_) == status::timeout)
    by.with_engine([&] {
      const rank missing = commits_->give_up(made);
      if (made.progress().has_ended()) return;
      why = commits_->failure_of(status::timeout, missing);
      made.abandon();
    });
  *has_ended = !why;
  if (*has_ended && made.progress().finished.load() == 0) why = made.why();
  return why;
}

std::optional<failure> joined_world::await(queued_commit& made) {
  bool has_ended = false;
  auto why = await_end(*made.commit, &has_ended);
  if (!why) return std::nullopt;
  std::vector<instance**> gone;
  for (instance*& one : made.instances) gone.push_back(&one);
  if (has_ended)
    (void)remove(gone);
  else
    for (instance** one : gone) open_.remove(*one);
  return why;
}

result<new_world> joined_world::split_ranks(std::span<const rank> ranks, std::int32_t tag) {
  if (auto why = validate_ranks(place(), ranks)) return std::move(*why);
  result<std::unique_ptr<meeting>> made = failure{status::internal};
  process_.driver().with_engine([&] {
    auto offered = process_.net().open_board(ranks.size());
    if (!offered)
      made = offered.error();
    else
      made = std::make_unique<meeting>(process_.engine(), members_, ranks, tag, std::move(*offered));
  });
  return made ? await(std::move(*made), driver::clock::now() + commit_timeout_) : made.error();
}

result<new_world> joined_world::shrink(driver::clock::time_point deadline) {
  result<std::unique_ptr<meeting>> made = failure{status::internal};
  process_.driver().with_engine([&] {
    auto fresh = process_.net().open_board(members_->homes().size());
    if (!fresh)
      made = fresh.error();
    else
      made = std::make_unique<meeting>(process_.engine(), members_, commits_->place_of_meeting(), std::move(*fresh));
  });
  if (!made) return made.error();
  auto left = await(std::move(*made), deadline);
  if (!left) return left;
  process_.driver().with_engine([&] {
    for (const rank home : members_->homes())
      if (left->members->rank_of(home) == k_no_rank) process_.engine().lose(*members_, members_->rank_of(home));
  });
  return left;
}

result<new_world> joined_world::await(std::unique_ptr<meeting> made, driver::clock::time_point deadline) {
  driver& by = process_.driver();
  bool is_late = by.wait(made->progress(), deadline) == status::timeout;
  if (is_late && made->is_of_survivors()) {
    by.with_engine([&] { (void)made->give_up(); });
    is_late = by.wait(made->progress(), driver::clock::now() + commit_timeout_) == status::timeout;
  }
  result<new_world> answer = failure{status::internal};
  by.with_engine([&] {
    if (is_late && !made->give_up()) {
      answer = made->undecided();
      return process_.engine().adopt(std::move(made));
    }
    if (made->made() != nullptr)
      answer = new_world{made->made(), made->take_board()};
    else
      answer = made->why();
    made.reset();
  });
  return answer;
}

std::optional<failure> joined_world::cancel(std::span<instance** const> gone) {
  std::vector<instance*> all;
  for (instance** one : gone)
    if (*one != nullptr) all.push_back(*one);
  process_.driver().with_engine([&] { process_.engine().cancel(all); });
  for (instance* const one : all)
    if (auto why = await_readers(*one)) return why;
  return std::nullopt;
}

/// Waits until no peer, lane or device uses the memory of a cancelled or failed instance. The waits for peers and for
/// the device have time limits, because a peer's process may be stopped, and the device may hang. The wait for this
/// rank's own lane has no limit.
std::optional<failure> joined_world::await_readers(instance& given_up) {
  const auto begin = driver::clock::now();
  for (auto nap = std::chrono::microseconds(0);;
       nap = std::min(nap + std::chrono::microseconds(10), std::chrono::microseconds(500))) {
    rank reader = k_no_rank;
    status answer = status::internal;
    const bool is_late = driver::clock::now() >= begin + k_longest_read;
    process_.driver().with_engine([&] {
      if (driver::clock::now() > begin + k_longest_job) process_.engine().leave_to_device(given_up);
      answer = process_.engine().check_readers(given_up, &reader);
    });
    if (answer == status::ok) return std::nullopt;
    if (answer == status::device)
      return failure{
          answer,
          given_up.label +
              ": the device has not completed its work. Until it has, do not free or write the memory of the schedule"};
    const bool is_own = answer == status::pending && reader == k_no_rank;
    if (is_own || !is_late) {
      std::this_thread::sleep_for(nap);
      continue;
    }
    if (answer == status::unsupported)
      return failure{
          answer,
          given_up.label +
              ": MPI still transfers a long message from or to this rank's memory: do not free or write this memory"};
    return failure{
        status::busy,
        given_up.label + ": rank " + std::to_string(reader) + " still reads this rank's memory: call again later",
        reader};
  }
}

std::int32_t joined_world::lost(std::span<rank> into) const {
  std::int32_t found = 0;
  rank home = k_no_rank;
  for (rank others = 0; (home = process_.net().liveness().lost_after(others)) != k_no_rank; ++others) {
    const rank member = members_->rank_of(home);
    if (member == k_no_rank) continue;
    if (static_cast<std::size_t>(found) < into.size()) into[static_cast<std::size_t>(found)] = member;
    ++found;
  }
  return found;
}

bool joined_world::has_failed(const instance& one) {
  bool answer = one.verdict.load() != status::ok;
  if (!answer) process_.driver().with_engine([&] { answer = one.phase == phase::failed; });
  return answer;
}

std::optional<failure> joined_world::remove(std::span<instance** const> gone) {
  std::optional<failure> why;
  for (instance** one : gone) {
    if (*one == nullptr || !has_failed(**one)) continue;
    auto held = await_readers(**one);
    if (held && held->code == status::busy) return held;
    if (held) why = std::move(held);
  }
  process_.driver().with_engine([&] {
    (void)process_.engine().step();  // so that no instance is still posted
    for (instance** one : gone) {
      if (*one == nullptr) continue;
      const std::string label = (*one)->label;
      if (const status answer = process_.engine().remove(**one); answer != status::ok) {
        why = failure{answer, label + ": a round is outstanding: wait for that round first"};
        return;
      }
      open_.remove(std::exchange(*one, nullptr));
    }
  });
  return why;
}

}  // namespace lsched
