// Measures lsched_offer alone on rank 0, compared with one pass over the same number of bytes.
//
//  - awake: the policy is solo. The other ranks poll for the round that the offer starts, so no thread is woken.
//  - asleep: the policy is solo. The other ranks sleep outside the library, and the offer wakes their progress threads.
//  - last: the policy is full. The other ranks have called, and wait for rank 0's offer.
//  - merge: the policy is full. The other ranks do not call, so earlier offers are pending, and the offer is added to
//    these offers.
//
// A pass is a plain loop over the gradient without the library: a copy, or for merge an addition. In every second round
// a pass is timed, and in all other rounds an offer. For merge, a pass is timed after each offer. A pass and an offer
// read the same gradient, and write to several buffers in turn. The difference between their times is the library's
// cost.
#include <array>
#include <cstring>
#include <functional>
#include <thread>

#include "libsched/transport/doorbell.h"
#include "microbench/partial/cost.h"
#include "microbench/partial/partial_call.h"
#include "offload/cores.h"
#include "ops/kernel.h"

namespace lsched::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t k_offers = 300;
constexpr std::uint64_t k_warm_up = 5;
constexpr auto k_arrival = 15us;  ///< time in which the other ranks reach their wait
constexpr auto k_falling_asleep = 300us;
constexpr auto k_sleep = 800us;

void spin_for(clock::duration time) {
  for (const auto end = clock::now() + time; clock::now() < end;) {
  }
}

/// The pass with which an offer is compared. A pass writes to several buffers in turn, as offers do.
class pass {
 public:
  explicit pass(std::uint64_t bytes) : gradient_(bytes / sizeof(float), 1.0f) {
    for (auto& each : targets_) each.resize(gradient_.size());
  }
  void copy() {
    std::memcpy(next().data(), gradient_.data(), gradient_.size() * sizeof(float));
    keep(targets_.data());
  }
  void add() {
    const std::vector<float>& older = targets_[turn_ % targets_.size()];
    sum_(older.data(), gradient_.data(), next().data(), gradient_.size());
    keep(targets_.data());
  }

 private:
  std::vector<float>& next() { return targets_[++turn_ % targets_.size()]; }

  std::vector<float> gradient_;
  std::array<std::vector<float>, 3> targets_;
  std::uint64_t turn_ = 0;
  reduce_fn sum_ = find_reduce(kernel::sum, dtype::f32);
};

/// Returns the median duration in us of a call that wakes a thread. The thread sleeps on another core if there is one.
/// The duration is a lower bound for offers that wake a thread.
double wake_us(const std::vector<unsigned>& cores) {
  constexpr int k_wakes = 300;
  doorbell bell{};
  std::vector<double> us;
  std::jthread sleeper([&](const std::stop_token& stop) {
    if (cores.size() > 1) static_cast<void>(bind_this_thread(cores[1]));
    while (!stop.stop_requested()) sleep_on(bell, doorbell::auxiliary, bell.word[doorbell::auxiliary].load(), 100ms);
  });
  std::jthread waker([&] {
    if (!cores.empty()) static_cast<void>(bind_this_thread(cores[0]));
    for (int i = 0; i < k_wakes; ++i) {
      spin_for(k_falling_asleep);
      us.push_back(us_of([&] { ring(bell, doorbell::auxiliary); }));
    }
  });
  waker.join();
  return summarise(std::move(us)).median;
}

class offers {
 public:
  offers(team& ranks, std::uint64_t bytes) : ranks_(ranks), bytes_(bytes), pass_(bytes) {}

  result awake() {
    return alternate("awake", 1, "solo", [&](partial_call& call, std::uint64_t round) { call.collect(round); });
  }
  result asleep() {
    return alternate("asleep", 5, "solo", [&](partial_call& call, std::uint64_t round) {
      std::this_thread::sleep_for(k_sleep);
      call.collect(round);
    });
  }
  result last() {
    return alternate("last", 1, "full", [&](partial_call& call, std::uint64_t) { call.offer_and_collect(); });
  }

  /// The first offer starts a round, the second offer is pending, and later offers are added to the pending offer.
  result merge() {
    partial_call call(ranks_.runtime(), "full", bytes_, LSCHED_ACCUMULATE);
    std::vector<double> offer_us, pass_us;
    ranks_.barrier();
    for (std::uint64_t i = 0; ranks_.is_root() && i < 2 + k_warm_up + k_offers; ++i) {
      const double us = us_of([&] { call.offer(); });
      const double beside = us_of([&] { pass_.add(); });
      if (i < 2 + k_warm_up) continue;
      offer_us.push_back(us);
      pass_us.push_back(beside);
    }
    call.leave_and_collect();
    const bool is_right = call.is_right() && call.report().offers == 2 + k_warm_up + k_offers;
    call.end();
    return row("merge", 1, std::move(offer_us), std::move(pass_us), is_right ? 0 : 1);
  }

 private:
  /// Rank 0 offers when the other ranks are in the state that `others` names. In every second round rank 0 first times
  /// a copy, and then offers without timing the offer.
  result alternate(const std::string& others, double target_us, const char* policy,
                   const std::function<void(partial_call&, std::uint64_t round)>& role) {
    partial_call call(ranks_.runtime(), policy, bytes_);
    std::vector<double> offer_us, pass_us;
    double wrong = 0;
    for (std::uint64_t round = 1; round <= 2 * (k_warm_up + k_offers); ++round) {
      ranks_.barrier();
      if (!ranks_.is_root()) {
        role(call, round);
      } else {
        spin_for(others == "asleep" ? k_falling_asleep : k_arrival);
        const bool is_beside = round % 2 == 0;
        const double beside = is_beside ? us_of([&] { pass_.copy(); }) : 0;
        const double us = us_of([&] { call.offer(); });
        call.collect();
        if (round > 2 * k_warm_up) is_beside ? pass_us.push_back(beside) : offer_us.push_back(us);
      }
      wrong += call.is_right() ? 0 : 1;
    }
    call.end();
    return row(others, target_us, std::move(offer_us), std::move(pass_us), wrong);
  }

  /// Returns a row with the times of rank 0 in us. `target_us` is the target for the difference between offer and pass.
  result row(const std::string& others, double target_us, std::vector<double> offer_us, std::vector<double> pass_us,
             double wrong) {
    const summary offer = summarise(std::move(offer_us)), pass = summarise(std::move(pass_us));
    result made{{"part", "offer"},
                {"others", others},
                {"bytes", bytes_},
                {"us_pass", pass.median},
                {"us_beyond", offer.median - pass.median},
                {"target", target_us},
                {"wrong", ranks_.combine(wrong, LSCHED_SUM)}};
    made.update(times_of(offer));
    return made;
  }

  team& ranks_;
  const std::uint64_t bytes_;
  pass pass_;
};

}  // namespace

void measure_offers(team& ranks, const cost_options& options, reporter& out) {
  double wake = 0;
  on_root(ranks, [&] { wake = wake_us(ranks.core_list()); });
  for (const std::uint64_t bytes : options.sizes) {
    out.progress("offers of %s", size_text(bytes).c_str());
    offers all(ranks, bytes);
    for (result& row : std::array{all.awake(), all.asleep(), all.last(), all.merge()}) {
      row["us_wake"] = wake;
      out.add(std::move(row));
    }
  }
  out.print({column("size", "bytes"), column("others", "others"), column("offer us: min", "us_min", 2),
             column("median", "us_median", 2), column("p95", "us_p95", 2), column("one pass us", "us_pass", 2),
             column("beyond us", "us_beyond", 2), column("target", "target", 0), k_wrong});
  out.say(
      "lsched_offer at rank 0 while the other ranks poll for this round (awake), sleep (asleep), have called and wait "
      "(last), or do not call (merge: an addition to a pending contribution). One pass is a copy, or for merge an "
      "addition. Waking a thread on another core takes the system %.1f us.",
      wake);
}

}  // namespace lsched::bench
