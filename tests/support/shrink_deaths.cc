#include "tests/support/shrink_deaths.h"

#include <poll.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "libsched/schedule/draw.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

using fate = shrink_board::fate;

constexpr std::uint64_t k_places_of_death = 5;

/// Returns a delay of 1 us to 10 ms. All orders of magnitude are equally probable.
std::uint64_t draw_delay_ns(std::uint64_t draw) {
  return static_cast<std::uint64_t>(1000 * std::pow(10.0, static_cast<double>(draw % 4096) / 1024));
}

/// Returns whether the fault of a host is the first event of the trial.
bool begins_with_fault(const shrink_trial& what) {
  return !what.host_faults.empty() && (what.kills == 0 || mix(what.seed + 5) % 2 == 0);
}

struct planned_fault {
  int host;
  host_fault how;
  std::int64_t in_step;      ///< step in which the fault begins; 0 if the fault begins in a recovery
  std::int64_t in_recovery;  ///< index of the first recovery of any rank in which the fault may begin
  std::chrono::nanoseconds delay;
  std::chrono::milliseconds length;  ///< of a glitch or an outage
};

/// Returns the faults of different hosts, in the order of their steps. Faults in a recovery are last.
std::vector<planned_fault> draw_faults(const shrink_trial& what) {
  std::vector<planned_fault> faults;
  for (std::size_t k = 0; k < what.host_faults.size(); ++k) {
    const std::uint64_t draw = mix(what.seed * 16 + 8 + k);
    int host = static_cast<int>(draw % static_cast<std::uint64_t>(what.hosts()));
    const auto is_used = [&] { return std::ranges::find(faults, host, &planned_fault::host) != faults.end(); };
    while (is_used()) host = (host + 1) % what.hosts();
    const bool is_in_recovery = what.kills_in_recovery && (k > 0 || !begins_with_fault(what));
    faults.push_back(
        {.host = host,
         .how = what.host_faults[k],
         .in_step = is_in_recovery ? 0 : 1 + static_cast<std::int64_t>(draw >> 8 & 0xffff) % what.steps,
         .in_recovery = 1 + static_cast<std::int64_t>((draw >> 56) % 2),
         .delay = std::chrono::nanoseconds(draw_delay_ns(draw >> 24)),
         .length = std::chrono::milliseconds(what.host_faults[k] == host_fault::glitch ? 100 + (draw >> 40) % 1300
                                                                                       : 2500 + (draw >> 40) % 3500)});
  }
  const auto order = [&](const planned_fault& one) { return one.in_step == 0 ? what.steps + 1 : one.in_step; };
  std::ranges::sort(faults, {}, order);
  return faults;
}

/// Waits for the step or the recovery in which the fault begins. A fault in a recovery begins at the latest when a rank
/// has finished the training.
bool await_begin(const planned_fault& fault, const shrink_board& board) {
  const auto has_begun = [&] {
    const auto is_in_step = [&](const auto& step) { return step.load() >= fault.in_step; };
    const auto is_in_recovery = [&](const auto& number) { return number.load() >= fault.in_recovery; };
    const auto is_through = [](const auto& one) { return one.load() == fate::through; };
    if (fault.in_step != 0) return std::ranges::any_of(board.steps, is_in_step);
    return std::ranges::any_of(board.recoveries, is_in_recovery) || std::ranges::any_of(board.fates, is_through);
  };
  const bool begins = wait_until([&] { return has_begun() || (poll(nullptr, 0, 1), false); }, k_limit_of_trial);
  (void)wait_until([] { return false; }, fault.delay);
  return begins;
}

/// Records that a rank is lost. A rank whose timer runs keeps the state `dead`.
void record_loss(rank of, fate next, shrink_board& board) {
  board.lost_at_ns[of].store(shrink_board::now_ns());
  fate now = board.fates[of].load();
  while (now != fate::dead && !board.fates[of].compare_exchange_weak(now, next)) continue;
}

void make_fault(const shrink_trial& what, const planned_fault& fault, const network_hosts& net,
                const child_ranks& children, shrink_board& board) {
  const rank first = fault.host * what.ranks_per_host, end = std::min(what.ranks, first + what.ranks_per_host);
  if (fault.how == host_fault::glitch || fault.how == host_fault::outage) {
    for (rank r = first; r < end; ++r) board.may_be_cut_off[r].store(fault.how == host_fault::outage);
    net.cut(fault.host);
    (void)wait_until([] { return poll(nullptr, 0, 1), false; }, fault.length);
    return net.heal(fault.host);
  }
  const bool is_killed = fault.how == host_fault::processes || fault.how == host_fault::power;
  for (rank r = first; r < end; ++r) record_loss(r, is_killed ? fate::dead : fate::cut_off, board);
  if (fault.how == host_fault::power || fault.how == host_fault::link) net.cut(fault.host);
  if (fault.how == host_fault::reception) net.drop_frames_to(fault.host);
  for (rank r = first; r < end && is_killed; ++r) children.send_kill(r);
}

}  // namespace

std::vector<planned_death> draw_deaths(const shrink_trial& what) {
  std::vector<planned_death> deaths(static_cast<std::size_t>(what.ranks));
  std::int64_t step = 1;
  for (int k = 0; k < what.kills; ++k) {
    const std::uint64_t draw = mix(what.seed * 16 + static_cast<std::uint64_t>(k));
    std::size_t victim = draw % deaths.size();
    while (deaths[victim].is_planned) victim = (victim + 1) % deaths.size();
    // Some deaths happen in the same step as the previous death, and some in the final flush.
    if (draw % 5 != 0)
      step = std::min<std::int64_t>(what.steps,
                                    step + 1 + static_cast<std::int64_t>(draw >> 8 & 0xffff) % (what.steps / 2));
    const bool is_in_recovery = what.kills_in_recovery && (k > 0 || begins_with_fault(what));
    deaths[victim] = {
        .is_planned = true,
        .in_step = is_in_recovery ? 0 : step,
        .in_recovery = 1 + static_cast<std::int64_t>((draw >> 56) % static_cast<std::uint64_t>(k + (k == 0))),
        .place = static_cast<place_of_death>((draw >> 40) % k_places_of_death),
        .delay_ns = (draw >> 48) % 8 == 0 ? 0 : draw_delay_ns(draw >> 20)};
  }
  return deaths;
}

void die_in(std::uint64_t delay_ns) {
  if (delay_ns == 0) raise(SIGKILL);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  const itimerspec when{.it_interval = {}, .it_value = {0, static_cast<long>(delay_ns)}};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &when, nullptr) != 0) std::abort();
}

std::string make_host_faults(const shrink_trial& what, const network_hosts& net, const child_ranks& children,
                             shrink_board& board) {
  std::string complaints;
  for (const planned_fault& fault : draw_faults(what)) {
    if (!await_begin(fault, board)) complaints += "no rank has begun step " + std::to_string(fault.in_step) + "; ";
    make_fault(what, fault, net, children, board);
    board.later_faults.fetch_sub(1);
  }
  return complaints;
}

}  // namespace lsched::testing
