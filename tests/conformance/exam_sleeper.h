// A wait that sleeps on the doorbell of an endpoint, for tests of wake-ups.
#pragma once

#include <chrono>

#include "libsched/transport/doorbell.h"
#include "tests/conformance/exam_bench.h"

namespace lsched::exam {

/// Sleeps until a message arrives, as doorbell.h prescribes. If a sleep times out although a message has arrived, a
/// wake-up was lost.
template <class Condition>
void sleep_until(bench& b, rank self, Condition&& holds, int& lost) {
  doorbell& bell = b.at(self).bell();
  for (int k = 0; k < 20; ++k) {
    if (holds()) return;
    b.poll(self);
  }
  const auto limit = std::chrono::steady_clock::now() + b.world().patience();
  while (!holds()) {
    demand(lost < 3 && std::chrono::steady_clock::now() < limit, "waited too long for a message");
    const std::uint32_t epoch = bell.word[doorbell::waiter].load();
    bell.sleepers.fetch_add(1);
    b.poll(self);
    if (!holds()) {
      const auto is_unrung = [&] { return holds() && bell.word[doorbell::waiter].load() == epoch; };
      for (int k = 0; k < 2; ++k) {  // the second sleep gives a late ring time to arrive
        if (k == 0 || is_unrung()) sleep_on(bell, doorbell::waiter, epoch, std::chrono::seconds(1));
        b.poll(self);
      }
      if (is_unrung()) ++lost;
    }
    bell.sleepers.fetch_sub(1);
  }
}

}  // namespace lsched::exam
