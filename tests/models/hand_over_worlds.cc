// Worlds that test how threads share data in partial collectives (libsched/partial/contribution.{h,cc}, call_times.h).
// An application offers contributions while the engine captures (takes) them. The engine delivers results while the
// application collects them. The engine and the application share the times of calls. docs/inside/threading.md
// describes the threads.
//
// Offer k is 10^k, so the decimal digits of a sum show the weight with which each offer is included. Other threads may
// run in the middle of an arithmetic operation, and every reader reads twice. Therefore the explorer always detects two
// threads that use a buffer at the same time.
#include "tests/models/explored_std.h"

#include "libsched/partial/call_times.h"
#include "libsched/partial/contribution.cc"

#include "tests/models/worlds.h"

namespace lsched {
namespace {

using models::circumstances;
using models::require;
using models::threads;

using value = std::uint64_t;

const std::byte* bytes_of(const value& what) { return reinterpret_cast<const std::byte*>(&what); }
std::byte* bytes_of(value& what) { return reinterpret_cast<std::byte*>(&what); }

value read_slowly(const std::byte* from) {
  const auto* place = reinterpret_cast<const value*>(from);
  const value first = *place;
  models::point();
  require(*place == first, "a buffer changes while its holder reads it");
  return first;
}

void write_slowly(std::byte* to, value what) {
  auto* place = reinterpret_cast<value*>(to);
  *place = 0;
  models::point();
  require(*place == 0, "a buffer changes while its holder writes it");
  *place = what;
}

void add_slowly(const void* a, const void* b, void* c, std::size_t) {
  const value sum = *static_cast<const value*>(a) + *static_cast<const value*>(b);
  write_slowly(static_cast<std::byte*>(c), sum);
}

void multiply_slowly(const void* a, void* c, std::size_t, std::uint64_t factor) {
  write_slowly(static_cast<std::byte*>(c), factor * *static_cast<const value*>(a));
}

const combiner k_adding{add_slowly, 1, sizeof(value), {}, multiply_slowly};

/// Every capture doubles the data, because the captured offers are one round late.
const combiner k_doubling{add_slowly,
                          1,
                          sizeof(value),
                          {},
                          multiply_slowly,
                          {.factors = {1, 2}},
                          [](const void* from, std::size_t count, double factor, void* to) {
                            multiply_slowly(from, to, count, static_cast<std::uint64_t>(factor));
                          }};

constexpr value power(unsigned exponent) { return exponent == 0 ? 1 : 10 * power(exponent - 1); }

// --- capture against offer -------------------------------------------------------------------------------------------

constexpr unsigned k_offers = 4;
constexpr unsigned k_captures = 3;
constexpr std::array<std::uint64_t, k_offers> k_weights{3, 1, 4, 2};

struct offering {
  explicit offering(const combiner& how)
      : its(how, std::array{bytes_of(memory[0]), bytes_of(memory[1]), bytes_of(memory[2]), bytes_of(memory[3])},
            bytes_of(aged)),
        factor(how.age.exists() ? 2 : 1) {}
  value memory[contribution::k_buffers]{}, aged = 0;
  contribution its;
  value factor;  ///< factor of all captured offers, which were made for round 0 and are captured as if for round 1
  value sent = 0;
  value withdrawn = 0;
  std::uint64_t offered = 0;  ///< sum of the weights of the offers that are complete
  std::uint64_t offers_sent = 0;
  std::uint64_t offers_withdrawn = 0;

  void application(bool withdraws, bool prepares) {
    for (unsigned i = 0; i < k_offers; ++i) {
      const value gradient = power(i);
      if (prepares)
        its.prepare(0, {bytes_of(gradient), 1}), its.commit(0, k_weights[i]);
      else
        its.offer(bytes_of(gradient), 0, k_weights[i]);
      if (!withdraws) offered = offered + k_weights[i];
      if (withdraws && i == k_offers / 2) offers_withdrawn += its.withdraw();
    }
  }
  void engine() {
    for (unsigned round = 1; round <= k_captures; ++round) {
      const std::uint64_t due = offered;
      const auto captured = its.capture().buffer;
      require(captured || offers_sent >= due, "an offer misses the round before which it was complete");
      if (!captured) continue;
      sent += read_slowly(its.data_for(*captured, 1)) / factor;
      offers_sent += its.at(*captured).offers;
      its.done(*captured);
    }
  }
  /// Checks that no offer, pending offers included, is lost or repeated, and that each offer has its weight. Must be
  /// called outside of the explored threads.
  std::string fault(bool withdraws) {
    const auto pending = its.capture().buffer;
    const value rest = pending ? *reinterpret_cast<const value*>(its.at(*pending).data) : 0;
    const std::uint64_t offers = offers_sent + offers_withdrawn + (pending ? its.at(*pending).offers : 0);
    value all = 0, weights = 0, included = sent + rest;
    for (unsigned i = 0; i < k_offers; ++i) all += k_weights[i] * power(i), weights += k_weights[i];
    if (offers != weights) return "the weights " + std::to_string(offers) + " of " + std::to_string(weights);
    for (unsigned i = 0; i < k_offers; ++i, included /= 10)
      if (included % 10 != 0 && included % 10 != k_weights[i]) return "an offer has another weight or is counted twice";
    if (!withdraws && sent + rest != all) return "sent and pending: " + std::to_string(sent + rest);
    return {};
  }
};

template <bool withdraws, bool prepares = false>
models::report offer_against_capture(const circumstances& around, const combiner& how = k_adding) {
  threads all(around.model);
  offering* it = nullptr;
  all.set_up([&] { it = new offering(how); });
  all.add("application", [it] { it->application(withdraws, prepares); });
  all.add("engine", [it] { it->engine(); });
  all.expect([it](bool is_last) { return is_last ? it->fault(withdraws) : std::string(); });
  return explore(all, around.most);
}

// --- a leave after the last offer ------------------------------------------------------------------------------------

/// An application that leaves directly after an offer. capture() sets `is_last` in the result of the last capture. The
/// engine then runs no further round.
struct leaving {
  value memory[contribution::k_buffers]{};
  contribution its{k_adding,
                   std::array{bytes_of(memory[0]), bytes_of(memory[1]), bytes_of(memory[2]), bytes_of(memory[3])}};
  value sent = 0;
  bool is_over = false;

  void application() {
    for (unsigned i = 0; i < 2; ++i) {
      const value gradient = power(i);
      its.offer(bytes_of(gradient));
    }
    its.leave();
  }
  void engine() {
    for (unsigned round = 1; round <= k_captures && !is_over; ++round) {
      const auto [buffer, is_last] = its.capture();
      is_over = is_last;
      if (!buffer) continue;
      sent += read_slowly(its.at(*buffer).data);
      its.done(*buffer);
    }
  }
  std::string fault() const {
    return is_over && sent != 11 ? "sent before the end: " + std::to_string(sent) : std::string();
  }
};

models::report leave_against_capture(const circumstances& around) {
  threads all(around.model);
  leaving* it = nullptr;
  all.set_up([&] { it = new leaving; });
  all.add("application", [it] { it->application(); });
  all.add("engine", [it] { it->engine(); });
  all.expect([it](bool is_last) { return is_last ? it->fault() : std::string(); });
  return explore(all, around.most);
}

// --- deliveries ------------------------------------------------------------------------------------------------------

constexpr round_no k_rounds = 4;
constexpr unsigned k_collects = 3;

/// No rank contributes to the second-to-last round, so the result of this round is null.
constexpr bool is_null(round_no round) { return round == k_rounds - 1; }
constexpr value result_of(round_no round) { return is_null(round) ? 0 : power(static_cast<unsigned>(round)); }

constexpr std::uint32_t k_history = 2;

struct delivering {
  explicit delivering(lag_policy how)
      : lag(how),
        its(k_adding, {how, how == lag_policy::history ? k_history : 1u},
            std::vector{bytes_of(memory[0]), bytes_of(memory[1]), bytes_of(memory[2]), bytes_of(memory[3]),
                        bytes_of(memory[4])}) {}

  lag_policy lag;
  value memory[k_history + 3]{};
  delivery its;
  std::atomic<round_no> published{0};  ///< number of calls of publish() that have returned, like instance::finished
  round_no collected = 0;

  void engine() {
    for (round_no round = 1; round <= k_rounds; ++round) {
      std::byte* home = its.writing();
      if (!is_null(round)) write_slowly(home, result_of(round));
      const std::uint64_t one = is_null(round) ? 0 : 1;
      its.publish(
          home,
          {.from = round - 1, .to = round, .contributors = one, .offers = one, .mine = 1, .null = is_null(round)});
      require(its.writing() != its.newest().data, "the next round overwrites the newest result");
      published.store(round);
    }
  }
  /// Borrows every result and reads it in place. Reads the result again before the next result is borrowed.
  void borrower() {
    value seen = 0;
    const std::byte* lies_at = nullptr;
    for (unsigned i = 0; i < k_collects; ++i) {
      const round_no due = published.load();
      if (lies_at != nullptr) require(read_slowly(lies_at) == seen, "a lent result was overwritten");
      const auto one = its.borrow();
      require(one.has_value() || due <= collected, "a published result is not found");
      if (!one) continue;
      lies_at = one->what.null ? nullptr : one->data;
      seen = lies_at == nullptr ? 0 : read_slowly(lies_at);
      require(check(one->what, seen), "the delivery is wrong");
    }
  }
  void application() {
    for (unsigned i = 0; i < k_collects; ++i) {
      const round_no due = published.load();
      value result = 0;
      const auto what = its.collect(bytes_of(result));
      require(what.has_value() || due <= collected, "a published result is not found");
      if (what) require(check(*what, result), "the delivery is wrong");
    }
  }
  bool check(const delivered& what, value result) {
    value sum = 0;
    value newest = 0;
    std::uint64_t contributed = 0;
    for (round_no round = collected + 1; round <= what.to; ++round) {
      sum += result_of(round);
      if (!is_null(round)) newest = result_of(round);
      contributed += is_null(round) ? 0u : 1u;
    }
    const bool accumulates = lag != lag_policy::latest;
    const bool is_right = what.from == collected && what.to > collected && what.mine == what.to - what.from &&
                          what.null == (contributed == 0) && result == (accumulates ? sum : newest) &&
                          what.offers == (accumulates || contributed == 0 ? contributed : 1);
    collected = what.to;
    return is_right;
  }
  std::string last_fault() {
    for (value result = 0; const auto what = its.collect(bytes_of(result)); result = 0)
      if (!check(*what, result)) return "the last delivery is wrong";
    return collected == k_rounds ? "" : "only rounds up to " + std::to_string(collected) + " were delivered";
  }
};

template <lag_policy lag, bool borrows = false>
models::report deliver_and_collect(const circumstances& around) {
  threads all(around.model);
  delivering* it = nullptr;
  all.set_up([&] { it = new delivering(lag); });
  all.add("engine", [it] { it->engine(); });
  all.add("application", [it] { borrows ? it->borrower() : it->application(); });
  all.expect([it](bool is_last) {
    if (!is_last) return std::string();
    return it->last_fault();
  });
  return explore(all, around.most);
}

// --- times of calls --------------------------------------------------------------------------------------------------

constexpr round_no k_calls = 5;

struct calling {
  call_times its;

  static std::uint64_t time_of(round_no round) { return 100 + round; }

  void application() {
    for (round_no round = 1; round <= k_calls; ++round) its.note(round, time_of(round));
  }
  void engine() {
    for (int looks = 0; looks < 3; ++looks) {
      const round_no last = its.last();
      for (round_no round = last > 1 ? last - 1 : last; round != 0 && round <= last; ++round)
        require(its.of(round).value_or(time_of(round)) == time_of(round), "the time is that of another round");
    }
  }
};

models::report times_of_calls(const circumstances& around) {
  threads all(around.model);
  calling* it = nullptr;
  all.set_up([&] { it = new calling; });
  all.add("engine", [it] { it->engine(); });
  all.add("application", [it] { it->application(); });
  all.expect([it](bool is_last) {
    return is_last && !it->its.of(k_calls) ? std::string("the newest time is lost") : std::string();
  });
  return explore(all, around.most);
}

const models::known_world k_worlds[] = {
    models::known_world({"offer", [](const circumstances& around) { return offer_against_capture<false>(around); }}),
    models::known_world(
        {"offer by bucket", [](const circumstances& around) { return offer_against_capture<false, true>(around); }}),
    models::known_world(
        {"late offer", [](const circumstances& around) { return offer_against_capture<false>(around, k_doubling); }}),
    models::known_world({"withdraw", [](const circumstances& around) { return offer_against_capture<true>(around); }}),
    models::known_world({"leave", leave_against_capture}),
    models::known_world({"latest", deliver_and_collect<lag_policy::latest>}),
    models::known_world({"accumulate", deliver_and_collect<lag_policy::accumulate>}),
    models::known_world({"history", deliver_and_collect<lag_policy::history>}),
    models::known_world({"lend latest", deliver_and_collect<lag_policy::latest, true>}),
    models::known_world({"lend history", deliver_and_collect<lag_policy::history, true>}),
    models::known_world({"calls", times_of_calls}),
};

}  // namespace
}  // namespace lsched
