// Conformance tests for transports (the "exam"). They check the contract in libsched/transport/endpoint.h. To run the
// tests on a transport, implement exam_world (exam_bench.h) and add three lines:
//
//     class inproc_exam : public ::testing::TestWithParam<exam::question> {};
//     TEST_P(inproc_exam, passes) { inproc_exam_world world; EXPECT_EQ(exam::ask(GetParam(), world), ""); }
//     INSTANTIATE_TEST_SUITE_P(every, inproc_exam, ::testing::ValuesIn(exam::k_questions),
//     exam::name_of_question);
//
// Each test is a plain function and is called a question. ask() runs a question and returns the fault that the question
// has found, or an empty string. endpoint_exam_test.cc shows that faulty transports fail.
#pragma once

#include <gtest/gtest.h>

#include "libsched/schedule/round.h"
#include "tests/conformance/exam_bench.h"
#include "tests/support/sampling.h"

namespace lsched::exam {

inline constexpr std::array<std::uint64_t, 10> k_sizes{0, 1, 8, 16, 17, 64, 8191, 8192, 8193, 1 << 20};

// --- one message -----------------------------------------------------------------------------------------

enum class first { send, receive };

/// Moves one message over each route of the instance at the same time. `order` selects whether the sends or the
/// receives of all routes are posted first.
inline void transfer(bench& b, round_no round, const std::vector<parcel>& what, first order) {
  for (const bool sending : {order == first::send, order != first::send})
    for (std::size_t i = 0; i < what.size(); ++i) sending ? b.post_send(i, round, what[i]) : b.post_receive(i, round);
  for (std::size_t i = 0; i < what.size(); ++i) b.await_parcel(i, what[i]);
  for (std::size_t i = 0; i < what.size(); ++i) b.await_sent(i);
  b.fence();
}

/// Returns the four kinds of payload routes of one capacity. The application or the endpoint allocates the source
/// memory. The receiver names a target, or reads the payload in place.
inline std::vector<route> kinds_of_route(std::uint64_t capacity) {
  std::vector<route> routes;
  for (const bool foreign : {false, true})
    for (const bool in_place : {false, true})
      routes.push_back({.tag = static_cast<std::uint32_t>(routes.size()),
                        .capacity = capacity,
                        .foreign = foreign,
                        .in_place = in_place});
  return routes;
}

inline void payloads_of_every_size_arrive_intact(bench& b, first order) {
  b.start(2);
  for (const std::uint64_t capacity : k_sizes) {
    b.connect(kinds_of_route(capacity));
    round_no round = 0;
    for (const std::uint64_t bytes : k_sizes) {
      if (bytes > capacity) continue;
      ++round;
      std::vector<parcel> what;
      for (std::size_t i = 0; i < b.routes(); ++i) what.push_back({bytes, 100 * round + i});
      transfer(b, round, what, order);
    }
    b.disconnect();
  }
}

inline void payloads_arrive_when_sent_first(bench& b) { payloads_of_every_size_arrive_intact(b, first::send); }
inline void payloads_arrive_when_received_first(bench& b) { payloads_of_every_size_arrive_intact(b, first::receive); }

inline void null_moves_nothing_but_its_tally(bench& b) {
  b.start(2);
  b.connect(kinds_of_route(20000));
  for (round_no round = 1; round <= 24; ++round) {
    std::vector<parcel> what;
    for (std::size_t i = 0; i < b.routes(); ++i) what.push_back({b.dice(2) * 20000, b.dice(1000), b.dice(3) != 0});
    transfer(b, round, what, round % 2 == 0 ? first::send : first::receive);
  }
}

/// If a receive has too little memory for its message, the receiver gets only the length and the tally of the message.
/// (The tally counts contributors.) In the next round, the receive has enough memory, and the message arrives.
inline void messages_without_room_are_dropped(bench& b) {
  b.start(2);
  std::vector<route> routes = kinds_of_route(9000);
  std::erase_if(routes, [](const route& one) { return one.in_place; });
  b.connect(routes);
  round_no round = 0;
  for (const first order : {first::send, first::receive})
    for (const std::uint64_t bytes : {1u, 17u, 8192u, 8193u, 9000u}) {
      const parcel long_one{bytes, ++round};
      for (const bool sending : {order == first::send, order != first::send})
        for (std::size_t i = 0; i < b.routes(); ++i)
          sending ? b.post_send(i, round, long_one) : b.post_receive(i, round, bytes - 1);
      for (std::size_t i = 0; i < b.routes(); ++i) {
        if (!b.has(b.path(i).to)) continue;
        b.until([&] { return b.is_received(i); }, "the length of a message without room");
        b.verify_told(i, long_one);
        b.release(i);
      }
      for (std::size_t i = 0; i < b.routes(); ++i) b.await_sent(i);
      b.fence();
      ++round;
      transfer(b, round, std::vector<parcel>(b.routes(), {bytes, 1000 + round}), order);
    }
}

inline void announced_messages_are_brought_when_asked_for(bench& b) {
  b.start(2);
  std::vector<route> routes = kinds_of_route(1 << 20);
  std::erase_if(routes, [](const route& one) { return one.in_place; });
  for (route& one : routes) one.announced = true;
  b.connect(routes);
  round_no round = 0;
  for (const first order : {first::send, first::receive})
    for (const std::uint64_t bytes : k_sizes) {
      const parcel what{bytes, ++round};
      for (const bool sending : {order == first::send, order != first::send})
        for (std::size_t i = 0; i < b.routes(); ++i) sending ? b.post_send(i, round, what) : b.post_receive(i, round);
      for (std::size_t i = 0; i < b.routes(); ++i) {
        if (!b.has(b.path(i).to)) continue;
        b.until([&] { return b.is_received(i); }, "the announcement of a message");
        b.verify_told(i, what);
        b.fetch(i);
        b.await_parcel(i, what);
      }
      for (std::size_t i = 0; i < b.routes(); ++i) b.await_sent(i);
      b.fence();
    }
}

/// If a fetch has too little memory for its message, or none, the receiver gets only the length and the tally of the
/// message. The next message arrives.
inline void announced_messages_without_room_are_dropped(bench& b) {
  b.start(2);
  std::vector<route> routes = kinds_of_route(20'000);
  std::erase_if(routes, [](const route& one) { return one.in_place; });
  for (route& one : routes) one.announced = true;
  b.connect(routes);
  round_no round = 0;
  for (const std::uint64_t bytes : {1u, 17u, 8192u, 8193u, 20'000u})
    for (const std::uint64_t room : {bytes - 1, std::uint64_t{0}, bytes}) {
      const parcel what{bytes, ++round};
      for (std::size_t i = 0; i < b.routes(); ++i) b.post_receive(i, round);
      for (std::size_t i = 0; i < b.routes(); ++i) b.post_send(i, round, what);
      for (std::size_t i = 0; i < b.routes(); ++i) {
        if (!b.has(b.path(i).to)) continue;
        b.until([&] { return b.is_received(i); }, "the announcement of a message");
        b.fetch(i, room);
        b.until([&] { return b.is_received(i); }, "the end of a fetch");
        room < bytes ? b.verify_told(i, what) : b.verify(i, what);
        b.release(i);
      }
      for (std::size_t i = 0; i < b.routes(); ++i) b.await_sent(i);
      b.fence();
    }
}

/// Two routes from the same source to two peers carry equal payloads. Two further routes carry other payloads.
inline void edges_of_one_source_carry_the_same(bench& b) {
  b.start(3);
  for (const std::uint64_t capacity : {std::uint64_t{8}, std::uint64_t{8193}, std::uint64_t{100'000}}) {
    b.connect({{.to = 1, .capacity = capacity, .foreign = true, .in_place = true, .source = 1},
               {.to = 2, .capacity = capacity, .foreign = true, .source = 1},
               {.to = 1, .tag = 1, .capacity = capacity, .foreign = true, .source = 2},
               {.to = 2, .tag = 1, .capacity = capacity, .foreign = true}});
    for (round_no round = 1; round <= 6; ++round) {
      std::vector<parcel> what(4, parcel{capacity, round});
      for (const std::size_t other : {2u, 3u}) what[other].seed = 100 * other + round;
      transfer(b, round, what, round % 2 == 0 ? first::send : first::receive);
    }
    b.disconnect();
  }
}

// --- many messages ---------------------------------------------------------------------------------------

/// Returns a payload whose kind changes from round to round: empty, small, eager, large or null.
inline parcel parcel_of(std::size_t route, round_no round, std::uint64_t capacity) {
  constexpr std::array<std::uint64_t, 7> sizes{8, 0, 16, 300, 8192, 8193, 20000};
  const std::uint64_t seed = mix(round * 1000 + route);
  return {std::min(sizes[seed % sizes.size()], capacity), seed, seed / 8 % 5 == 0};
}

/// Every rank sends to every other rank in every round. A rank starts the next round without waiting for other ranks,
/// so the rank can be one round ahead. Two landing slots per edge must be enough.
///
/// Edges with tag 1 carry no message in some rounds.
inline void rounds_run_back_to_back(bench& b, std::uint32_t tags) {
  constexpr round_no k_rounds = 200;
  b.start(3);
  std::vector<route> routes;
  for (std::uint32_t tag = 0; tag < tags; ++tag)
    for (rank from = 0; from < 3; ++from)
      for (rank to = 0; to < 3; ++to)
        if (from != to)
          routes.push_back(
              {.from = from, .to = to, .tag = tag, .capacity = 20000, .foreign = from == 1, .in_place = to == 2});
  b.connect(routes);

  std::array<round_no, 3> round{};
  std::vector<bool> taken(routes.size(), true);
  const auto is_left_out = [&](std::size_t i, round_no now) {
    return routes[i].tag == 1 && mix(now * 100 + i) % 3 != 0;
  };
  const auto is_idle = [&](rank r) {
    for (std::size_t i = 0; i < routes.size(); ++i)
      if ((routes[i].from == r && !b.is_sent(i)) || (routes[i].to == r && !taken[i])) return false;
    return true;
  };
  const auto step = [&](rank r) {
    round_no& now = round[static_cast<std::size_t>(r)];
    if (is_idle(r) && now <= k_rounds && ++now <= k_rounds) {
      for (std::size_t i = 0; i < routes.size(); ++i) {
        if (is_left_out(i, now)) continue;
        if (routes[i].from == r) b.post_send(i, now, parcel_of(i, now, 20000));
        if (routes[i].to != r) continue;
        b.post_receive(i, now);
        taken[i] = false;
      }
    }
    b.poll(r, 1 + b.dice(4));
    for (std::size_t i = 0; i < routes.size(); ++i) {
      if (routes[i].to != r || taken[i] || !b.is_received(i)) continue;
      b.verify(i, parcel_of(i, now, 20000));
      b.release(i);
      taken[i] = true;
    }
  };
  bool ran_ahead = false;
  const auto all_done = [&] {
    for (int k = 0; k < 8; ++k) {
      const rank lucky = static_cast<rank>(b.dice(3));
      if (b.has(lucky)) step(lucky);
      ran_ahead |= *std::ranges::max_element(round) > *std::ranges::min_element(round);
    }
    for (rank r = 0; r < 3; ++r)
      if (b.has(r) && round[static_cast<std::size_t>(r)] <= k_rounds) return false;
    return true;
  };
  b.until(all_done, "200 rounds");
  demand(ran_ahead || !b.has_all(), "no rank ever ran ahead");
}

inline void rounds_run_back_to_back(bench& b) { rounds_run_back_to_back(b, 1); }
inline void rounds_may_leave_edges_out(bench& b) { rounds_run_back_to_back(b, 2); }

/// The sender sends as fast as its credits allow. The receiver is slow, and releases payloads late.
inline void credits_hold_back_a_fast_sender(bench& b, const route& kind) {
  constexpr round_no k_rounds = 100;
  b.connect({kind}, true);
  round_no started = 0;
  round_no asked = 0;
  round_no consumed = 0;
  std::uint64_t lead = 0;
  const auto send_on = [&] {
    while (b.is_sent(0) && started < k_rounds) {
      ++started;
      b.post_send(0, started, parcel_of(0, started, kind.capacity));
    }
    const round_no sent = started - (b.is_sent(0) ? 0 : 1);
    const bool holds = kind.in_place && !(asked > 0 && parcel_of(0, asked, kind.capacity).null);
    const round_no given_up = b.is_received(0) && !holds ? asked : consumed;
    lead = std::max(lead, sent - std::min(sent, given_up));
  };
  const auto dawdle = [&] {
    if (b.dice(8) != 0) return;
    if (asked == consumed && asked < k_rounds) {
      b.post_receive(0, ++asked);
    } else if (b.is_received(0)) {
      b.verify(0, parcel_of(0, asked, kind.capacity));
      if (b.dice(3) != 0) return;  // the payload must stay unchanged until it is released
      b.release(0);
      consumed = asked;
    }
  };
  const auto is_done = [&] {
    if (b.has(kind.from)) send_on();
    if (b.has(kind.to)) dawdle();
    return (!b.has(kind.from) || (started == k_rounds && b.is_sent(0))) && (!b.has(kind.to) || consumed == k_rounds);
  };
  b.until(is_done, "100 rounds with credits");
  if (b.has_all())
    demand(lead <= b.world().most_ahead() && lead >= 1, "the sender was ", lead, " rounds ahead of the receiver");
  b.fence();
  b.disconnect();
}

inline void nothing_is_overwritten_with_credits(bench& b) {
  b.start(2);
  for (const std::uint64_t capacity : {std::uint64_t{8}, std::uint64_t{20000}})
    for (const route& kind : kinds_of_route(capacity)) credits_hold_back_a_fast_sender(b, kind);
}

/// The sender is two messages ahead of the receiver, if the transport permits this.
inline void messages_of_one_edge_arrive_in_order(bench& b) {
  constexpr round_no k_rounds = 100;
  b.start(2);
  b.connect({{.capacity = 16}}, true);
  round_no sent = 0;
  round_no received = 0;
  const auto is_done = [&] {
    while (b.has(0) && b.is_sent(0) && sent < k_rounds && (!b.has(1) || sent < received + 2)) {
      ++sent;
      b.post_send(0, sent, {16, sent});
    }
    const bool is_time = !b.is_sent(0) || sent == std::min(received + 2, k_rounds);
    if (b.has(1) && received < k_rounds && (!b.has(0) || (is_time && received < sent))) {
      b.post_receive(0, ++received);
      b.await_parcel(0, {16, received});
    }
    return (!b.has(0) || (sent == k_rounds && b.is_sent(0))) && (!b.has(1) || received == k_rounds);
  };
  b.until(is_done, "100 messages in order");
}

/// Twenty edges connect a pair of ranks in each direction. Messages are sent in one order and received in another.
inline void edges_between_one_pair_are_told_apart_by_tag(bench& b) {
  b.start(2);
  std::vector<route> routes;
  for (std::uint32_t tag = 0; tag < 20; ++tag) {
    routes.push_back({.from = 0, .to = 1, .tag = tag * 7 % 20, .capacity = 64});
    routes.push_back({.from = 1, .to = 0, .tag = tag * 3 % 20, .capacity = 64});
  }
  b.connect(routes);
  const auto content = [](std::size_t i, round_no round) { return parcel{64, 1000 * round + i}; };
  for (round_no round = 1; round <= 4; ++round) {
    for (std::size_t i = 0; i < routes.size(); ++i) b.post_send(i * 11 % 40, round, content(i * 11 % 40, round));
    for (std::size_t i = 0; i < routes.size(); ++i) b.post_receive(i * 23 % 40, round);
    for (std::size_t i = 0; i < routes.size(); ++i) b.await_parcel(i, content(i, round));
    for (std::size_t i = 0; i < routes.size(); ++i) b.await_sent(i);
    b.fence();
  }
}

/// The sends and receives of forty edges complete. Each call of poll() has room for at most one completion. No
/// completion may be lost or repeated.
inline void a_narrow_poll_loses_nothing(bench& b) {
  b.start(2);
  std::vector<route> routes;
  for (std::uint32_t tag = 0; tag < 40; ++tag)
    routes.push_back({.tag = tag, .capacity = 9000, .foreign = tag % 3 == 0, .in_place = tag % 2 == 0});
  b.connect(routes);
  for (std::size_t i = 0; i < routes.size(); ++i) b.post_receive(i, 1);
  for (std::size_t i = 0; i < routes.size(); ++i) b.post_send(i, 1, {9000, i});
  std::vector<bool> taken(routes.size(), !b.has(1));
  const auto is_done = [&] {
    for (rank r = 0; r < 2; ++r) {
      if (!b.has(r)) continue;
      demand(b.poll(r, 0) == 0, "a poll without room returned a completion");
      b.poll(r, 1);
    }
    b.world().pump();
    for (std::size_t i = 0; i < routes.size(); ++i) {
      if (taken[i] || !b.is_received(i)) continue;
      b.verify(i, {9000, i});
      b.release(i);
      taken[i] = true;
    }
    for (std::size_t i = 0; i < routes.size(); ++i)
      if (!taken[i] || !b.is_sent(i)) return false;
    return true;
  };
  b.until(is_done, "forty messages, one by one");
  b.settle();
}

/// A rank that has linked an instance may send before the peer has linked the instance. The sender may even have
/// detached before the peer links.
inline void a_fast_rank_may_send_before_its_peer_has_linked(bench& b) {
  b.start(2);
  for (std::uint64_t i = 0; i < 40; ++i) {
    b.attach({{.capacity = 16}});
    b.exchange();
    if (b.has(0)) demand(b.link_end(0) == status::ok, "the sender cannot link");
    b.post_send(0, 1, {16, i});
    const bool gone = b.is_sent(0) && b.has(0);
    if (gone) b.detach(0);
    if (b.has(1)) demand(b.link_end(1) == status::ok, "the receiver cannot link after the sender's message");
    b.post_receive(0, 1);
    b.await_parcel(0, {16, i});
    b.await_sent(0);
    b.disconnect();
  }
}

// --- signals ---------------------------------------------------------------------------------------------

inline const std::vector<route> k_signal{{.signal = true}};

inline void await_wakes(bench& b, int wakes) {
  if (b.has(1)) b.until([&] { return b.wakes(0) >= wakes; }, "a signal");
  b.settle();
  demand(!b.has(1) || b.wakes(0) == wakes, "a register woke its reader ", b.wakes(0), " times instead of ", wakes);
}

/// Returns whether the register holds at least `round`, and leaves the register disarmed.
inline bool has_risen(bench& b, std::size_t index, round_no round) {
  const bool holds = b.arm(index, round);
  b.disarm(index);
  return holds;
}

inline void await_register(bench& b, round_no round) {
  b.until([&] { return has_risen(b, 0, round); }, "a register to rise");
}

inline void a_signal_wakes_whoever_is_armed_once(bench& b) {
  b.start(2);
  b.connect(k_signal);
  for (round_no round = 1; round <= 20; ++round) {
    demand(!b.has(1) || !b.arm(0, round), "a register was ahead of its signals");
    b.fence();
    b.signal(0, round);
    await_wakes(b, static_cast<int>(round));
    demand(b.arm(0, round), "a register forgot its signal");
    b.fence();
  }
}

inline void a_register_satisfies_every_round_up_to_its_own(bench& b) {
  b.start(2);
  b.connect(k_signal);
  b.signal(0, 5);
  await_register(b, 5);
  for (round_no round = 1; round <= 5; ++round) demand(b.arm(0, round), "round 5 does not satisfy round ", round);
  demand(!b.has(1) || !b.arm(0, 6), "round 5 satisfies round 6");
  b.disarm(0);
  await_wakes(b, 0);
}

inline void signals_may_merge_but_never_sink(bench& b) {
  b.start(2);
  b.connect(k_signal);
  demand(!b.has(1) || !b.arm(0, 50), "a register was ahead of its signals");
  b.fence();
  for (round_no round = 1; round <= 50; ++round) {
    b.signal(0, round);
    if (b.dice(3) == 0) b.turn();
  }
  await_wakes(b, 1);
  b.fence();
  b.signal(0, 20);
  b.settle();
  demand(b.arm(0, 50), "the value of a register decreased");
}

inline void the_last_round_satisfies_every_round(bench& b) {
  b.start(2);
  b.connect(k_signal);
  b.signal(0, 3);
  b.signal(0, k_last_round);
  await_register(b, k_last_round);
  b.signal(0, 4);
  b.settle();
  demand(b.arm(0, k_last_round) && b.arm(0, 1000), "a register left the last round");
}

inline void arming_again_replaces_the_round(bench& b) {
  b.start(2);
  b.connect(k_signal);
  demand(!b.has(1) || (!b.arm(0, 2) && !b.arm(0, 5)), "a register was ahead of its signals");
  b.fence();
  b.signal(0, 2);
  b.settle();
  demand(b.wakes(0) == 0, "the replaced round woke its reader");
  b.fence();
  b.signal(0, 5);
  await_wakes(b, 1);
}

/// Disarms a register before its signal arrives, or between the arrival and the poll.
inline void disarming_drops_the_completion(bench& b) {
  b.start(2);
  b.connect(k_signal);
  for (round_no round = 1; round <= 30; ++round) {
    if (b.has(1)) b.arm(0, round);
    b.signal(0, round);
    for (std::uint64_t k = b.dice(20); k > 0; --k) b.world().pump();
    b.disarm(0);
    demand(!b.has(1) || !b.at(1).is_listening(), "a disarmed rank listens");
    b.settle(40);
    demand(b.wakes(0) == 0, "a disarmed register woke its reader");
    await_register(b, round);
  }
}

/// Many registers of one rank are armed, disarmed and raised in any order. Each register must keep its own state.
inline void registers_do_not_disturb_each_other(bench& b) {
  constexpr std::size_t k_registers = 12;
  b.start(2);
  std::vector<route> routes;
  for (std::uint32_t tag = 0; tag < k_registers; ++tag) routes.push_back({.tag = tag, .signal = true});
  b.connect(routes);
  std::array<int, k_registers> wakes{};
  for (round_no round = 1; round <= 100; ++round) {
    std::array<bool, k_registers> armed{};
    for (int step = 0; step < 40; ++step) {
      const std::size_t i = b.dice(k_registers);
      armed[i] = b.dice(3) != 0;
      if (!armed[i])
        b.disarm(i);
      else
        demand(!b.has(1) || !b.arm(i, round), "register ", i, " is ahead of its signals");
    }
    b.fence();
    for (std::size_t i = 0; i < k_registers; ++i) b.signal(i, round);
    for (std::size_t i = 0; i < k_registers && b.has(1); ++i) {
      wakes[i] += armed[i] ? 1 : 0;
      b.until([&] { return armed[i] ? b.wakes(i) >= wakes[i] : has_risen(b, i, round); }, "a register");
    }
    demand(!b.has(1) || !b.at(1).is_listening(), "a rank listens although no register is armed");
    for (std::size_t i = 0; i < k_registers; ++i)
      demand(b.wakes(i) == wakes[i], "register ", i, " woke its reader ", b.wakes(i), " times, not ", wakes[i]);
    b.fence();
  }
}

// --- commit ----------------------------------------------------------------------------------------------

using records = std::array<std::byte, 3 * board::record_bytes>;  ///< records of three ranks

/// Returns a record in which every byte has the same value.
inline std::vector<std::byte> record_of(int content) {
  return std::vector<std::byte>(board::record_bytes, std::byte(content));
}

/// Gathers the records on rank `of`, and fails unless every byte of every record has the value `content`.
inline void demand_records(bench& b, rank of, int content) {
  records all;
  rank missing = k_no_rank;
  demand(b.gather(of, all, &missing) == status::ok, "rank ", of, " cannot gather");
  for (const std::byte each : all)
    demand(each == std::byte(content), "rank ", of, " gathered a record of another exchange");
}

/// Many exchanges follow each other. Rank 0 posts its next record before the other ranks gather, so rank 0 is always
/// one exchange ahead.
inline void records_are_exchanged_again_and_again(bench& b) {
  constexpr int k_rounds = 20;
  b.start(3);
  for (int k = 0; k < 20; ++k) b.exchange();
  for (rank r = 0; r < 3; ++r)
    if (b.has(r)) b.post(r, record_of(1));
  for (int round = 1; round <= k_rounds; ++round) {
    if (b.has(0)) demand_records(b, 0, round);
    if (b.has(0) && round < k_rounds) b.post(0, record_of(round + 1));
    for (rank r = 1; r < 3; ++r)
      if (b.has(r)) demand_records(b, r, round);
    for (rank r = 1; r < 3 && round < k_rounds; ++r)
      if (b.has(r)) b.post(r, record_of(round + 1));
  }
}

inline void an_exchange_is_pending_while_a_record_is_missing(bench& b) {
  b.start(3);
  for (rank absent = 0; absent < 3; ++absent) {
    records all;
    for (rank r = 0; r < 3; ++r)
      if (b.has(r) && r != absent) b.post(r, record_of(absent));
    for (rank r = 0; r < 3; ++r) {
      if (!b.has(r) || r == absent) continue;
      for (int k = 0; k < 20; ++k, b.turn()) {
        rank missing = k_no_rank;
        demand(b.board_of(r).gather(all, &missing) == status::pending, "gathered a record that is not there");
        demand(missing != r && missing < 3, "rank ", missing, " is not missing");
        if (b.has_all()) demand(missing == absent || missing == k_no_rank, "rank ", missing, " is not missing");
      }
    }
    b.fence();
    if (b.has(absent)) b.post(absent, record_of(absent));
    for (rank r = 0; r < 3; ++r)
      if (b.has(r)) demand_records(b, r, absent);
    b.fence();
  }
}

/// Fails unless all ranks report that the commit was given up because of rank `late`. If give_up() does not take effect
/// at once (settles_at_once() is false), the commit may also succeed. All ranks must report the same outcome, and the
/// next exchange must succeed.
inline void demand_given_up(bench& b, rank late) {
  std::array<status, 3> verdicts{};
  for (rank r = 0; r < 3; ++r) {
    if (!b.has(r)) continue;
    records all;
    rank missing = k_no_rank;
    const status verdict = verdicts[static_cast<std::size_t>(r)] = b.gather(r, all, &missing);
    const bool is_allowed = verdict == status::ok && !b.world().settles_at_once();
    demand(verdict == status::timeout || is_allowed, "a commit that was given up ends with ", name_of(verdict));
    demand(missing == late || !b.world().settles_at_once(), "rank ", missing, " is not missing");
  }
  for (rank r = 0; r < 3; ++r)
    if (b.has(r)) b.post(r, record_of(static_cast<int>(verdicts[static_cast<std::size_t>(r)])));
  for (rank r = 0; r < 3; ++r)
    if (b.has(r)) demand_records(b, r, static_cast<int>(verdicts[static_cast<std::size_t>(r)]));
}

/// A commit that one rank gives up fails on all ranks, unless the commit has already succeeded on a rank.
inline void a_commit_is_settled_once(bench& b) {
  b.start(3);
  for (int k = 0; k < 9; ++k) {
    const rank late = k % 3;
    const rank impatient = (late + 1 + k / 3 % 2) % 3;
    for (rank r = 0; r < 3; ++r)
      if (b.has(r) && r != late) b.post(r, record_of(k));
    if (b.has(impatient)) b.board_of(impatient).give_up(late);
    b.settle();
    b.fence();
    if (b.has(late)) b.post(late, record_of(k));
    demand_given_up(b, late);

    for (rank r = 0; r < 3; ++r)
      if (b.has(r)) b.post(r, record_of(k));
    if (b.has(late)) demand_records(b, late, k);
    b.fence();
    if (b.has(impatient)) b.board_of(impatient).give_up(late);
    for (rank r = 0; r < 3; ++r)
      if (b.has(r) && r != late) demand_records(b, r, k);
  }
}

/// Some ranks form a world. In this world they have another order than in the home world (the world of all ranks).
/// After they have left the new world, the home world still works.
inline void worlds_of_some_ranks_exchange(bench& b) {
  b.start(3);
  for (std::uint64_t k = 0; k < 3; ++k) {
    b.enter({2, 0});
    for (int i = 0; i < 5; ++i) b.exchange();
    b.connect({{.from = 0, .to = 2, .capacity = 300}, {.from = 2, .to = 0, .capacity = 20000, .in_place = true}});
    for (round_no round = 1; round <= 4; ++round) transfer(b, round, {{300, k}, {20000, k + round}}, first::send);
    b.disconnect();
    b.exchange();
    b.leave();
    b.exchange();
  }
}

/// Some ranks form a world without an exchange in the home world. They find each other by a key. An offer must not
/// match an offer with another key, or a withdrawn offer.
inline void members_meet_by_a_key(bench& b) {
  b.start(3);
  const std::vector<rank> those{2, 0};
  for (std::uint64_t key = 1; key < 7; key += 2) {
    const auto first = b.offer(2, those, key), second = b.offer(0, those, key + 1);
    rank missing = k_no_rank;
    for (int k = 0; k < 3; ++k) {
      for (board* const one : {first.get(), second.get()})
        demand(one == nullptr || one->meet(&missing) == status::pending, "an offer meets an offer with another key");
      b.settle();
      b.fence();
    }
    for (board* const one : {first.get(), second.get()})
      demand(one == nullptr || one->withdraw(), "an offer that was not accepted cannot be withdrawn");
    b.fence();
    const auto alone = b.offer(2, those, key + 1);
    for (int k = 0; k < 3; ++k) {
      demand(alone == nullptr || alone->meet(&missing) == status::pending, "an offer meets a withdrawn offer");
      b.settle();
      b.fence();
    }
    demand(alone == nullptr || alone->withdraw(), "an offer that was not accepted cannot be withdrawn");
    b.fence();
    b.meet(those, key);
    for (int i = 0; i < 5; ++i) b.exchange();
    b.leave();
    b.exchange();
  }
}

/// Attaches the edges `mine` on rank 0 and `theirs` on rank 1. Fails unless both ranks detect the mismatch. Both
/// endpoints must be usable afterwards.
inline void demand_unmatched(bench& b, const std::vector<edge_spec>& mine, const std::vector<edge_spec>& theirs,
                             std::string_view how) {
  b.begin_instance();
  for (rank r = 0; r < 2; ++r)
    if (b.has(r)) demand(b.attach_end(r, r == 0 ? mine : theirs).has_value(), "cannot attach");
  b.exchange();
  for (rank r = 0; r < 2; ++r)
    if (b.has(r)) demand(b.link_end(r) == status::unmatched, "rank ", r, " linked edges that differ in ", how);
  b.fence();
  b.disconnect();
}

inline void edges_that_do_not_match_are_not_linked(bench& b) {
  if (!b.world().sees_both_ends()) return;
  b.start(2);
  const edge_spec out{.outgoing = true, .peer = 1, .tag = 3, .capacity = 64};
  const edge_spec in{.peer = 0, .tag = 3, .capacity = 64};
  const auto with = [](edge_spec it, auto&& change) {
    change(it);
    return std::vector<edge_spec>{it};
  };
  demand_unmatched(b, {out}, with(in, [](edge_spec& it) { it.capacity = 65; }), "capacity");
  demand_unmatched(b, {out}, with(in, [](edge_spec& it) { it.tag = 4; }), "tag");
  demand_unmatched(b, {out}, with(in, [](edge_spec& it) { it.outgoing = true; }), "direction");
  demand_unmatched(b, {out}, with(in, [](edge_spec& it) { it.signal = true; }), "kind");
  b.connect(kinds_of_route(64));
  transfer(b, 1, {{8, 1}, {8, 2}, {8, 3}, {8, 4}}, first::send);
}

/// Instances are attached and detached thousands of times. The transport must reuse the memory and the links of
/// detached instances.
inline void instances_that_come_and_go_leave_nothing(bench& b) {
  b.start(2);
  const std::vector<route> routes{{.capacity = 20000, .foreign = true},
                                  {.from = 1, .to = 0, .capacity = 20000, .foreign = true, .in_place = true},
                                  {.tag = 9, .signal = true}};
  for (std::uint64_t k = 0; k < (testing::sampled() ? 2'500 : 10'000); ++k) {
    b.connect(routes);
    for (std::size_t i = 0; i < routes.size(); ++i)
      for (const bool outgoing : {false, true})
        demand(b.link(i, outgoing) == k_no_link || b.link(i, outgoing) < 16, "links are not used again");
    if (k % 100 == 0) {
      transfer(b, 1, {{300, k}, {20000, k + 1}}, first::send);
      b.signal(2, 1);
    }
    if (k % 2 == 0) b.detach(1);
    b.disconnect();
  }
  demand(b.world().leftovers().empty(), b.world().leftovers());
}

// --- listening, memory, closed peers and doorbells -------------------------------------------------------

inline void listening_means_that_something_may_come(bench& b) {
  b.start(2);
  b.connect({{.capacity = 20000, .in_place = true}, {.tag = 1, .signal = true}});
  const auto listens = [&](rank r) { return b.has(r) && b.at(r).is_listening(); };
  const auto demand_silence = [&](std::string_view when) {
    demand(!listens(0) && !listens(1), "a rank listens ", when);
  };
  demand_silence("before anything was posted");
  for (round_no round = 1; round <= 20; ++round) {
    b.post_receive(0, round);
    demand(listens(1) == (b.has(1) && !b.is_received(0)), "a posted receive is not listened for");
    b.fence();
    b.post_send(0, round, {round % 2 * 20000, round});
    demand(listens(0) == !b.is_sent(0), "a send under way is not listened for");
    b.await_parcel(0, {round % 2 * 20000, round});
    b.await_sent(0);
    demand_silence("after all messages have arrived");
    if (b.has(1)) demand(!b.arm(1, round) && listens(1), "an armed register is not listened for");
    b.disarm(1);
    demand_silence("after its register was disarmed");
    b.fence();
  }
}

inline void allocated_memory_is_aligned_and_apart(bench& b) {
  b.start(2);
  for (rank r = 0; r < 2; ++r) {
    if (!b.has(r)) continue;
    std::vector<std::byte*> pieces;
    for (std::uint64_t bytes = 0; bytes < 20'000; bytes = bytes * 2 + 1) {
      pieces.push_back(b.at(r).memory().allocate(bytes));
      demand(pieces.back() != nullptr, "no memory for ", bytes, " bytes");
      demand(reinterpret_cast<std::uintptr_t>(pieces.back()) % 64 == 0, bytes, " bytes are not aligned to 64");
      parcel{bytes, bytes}.write(pieces.back());
    }
    std::uint64_t bytes = 0;
    for (std::byte* piece : pieces) {
      demand(parcel{bytes, bytes}.first_difference(piece) == bytes, "two pieces of memory overlap");
      b.at(r).memory().deallocate(piece);
      bytes = bytes * 2 + 1;
    }
    b.at(r).memory().deallocate(nullptr);
  }
}

inline void a_closed_peer_is_found_where_something_waits_for_it(bench& b) {
  if (!b.world().sees_closed_peers()) return;
  b.start(3);
  b.connect({{.from = 1, .to = 0, .capacity = 8}, {.from = 2, .to = 0, .capacity = 8}});
  b.post_send(0, 1, {8, 1});
  const bool sent_at_once = b.is_sent(0);
  const auto receive = [&] {
    b.post_receive(0, 1);
    b.await_parcel(0, {8, 1});
  };
  if (!sent_at_once) receive();
  b.await_sent(0);
  b.fence();
  if (b.has(1)) b.at(1).close();
  b.fence();
  if (sent_at_once) receive();  // a message that was sent before the close must arrive after the close
  if (!b.has(0)) return;
  b.post_receive(1, 1);
  demand(b.at(0).liveness().find_dead_peer() == k_no_rank, "a peer is reported dead although no op waits for it");
  b.post_receive(0, 2);
  b.until([&] { return b.at(0).liveness().find_dead_peer() == 1; }, "the detection of a closed peer");
}

inline void a_message_rings_a_bell_that_somebody_sleeps_on(bench& b) {
  if (!b.world().rings_bells()) return;
  b.start(2);
  b.connect({{.capacity = 8}, {.tag = 1, .signal = true}});
  const auto rings = [&](doorbell::side side, round_no round, bool must_ring) {
    const std::uint32_t epoch = b.has(1) ? b.at(1).bell().word[side].load() : 0;
    b.fence_without_polls();  // rank 1 is asleep until it is woken below
    b.post_send(0, round, {8, round});
    b.signal(1, round);
    if (b.has(0)) b.at(0).flush();
    b.fence_without_polls();
    const auto is_rung = [&] { return !b.has(1) || b.at(1).bell().word[side].load() != epoch; };
    const auto limit = std::chrono::steady_clock::now() + b.world().patience();
    for (int k = 0; !is_rung() && (must_ring ? std::chrono::steady_clock::now() < limit : k < 100); ++k) {
      for (rank r = 0; r < 2; ++r)
        if (b.has(r) && b.at(r).is_time_driven()) b.poll(r, 0);
      b.world().pump();
    }
    return is_rung();
  };
  for (round_no round = 1; round <= 40; ++round) {
    b.post_receive(0, round);
    if (b.has(1)) {
      b.arm(1, round);
      doorbell& bell = b.at(1).bell();
      bell.polling = round % 4 == 3 ? 1 : 0;
      bell.sleepers = round % 4 == 1 || round % 4 == 3 ? 1 : 0;
      bell.wanted = round % 4 == 2 ? 1 : 0;
    }
    const doorbell::side side = round % 4 == 2 ? doorbell::auxiliary : doorbell::waiter;
    if (b.has(1)) b.poll(1, 0);  // a thread that has announced its sleep polls once more before it sleeps (doorbell.h)
    const bool must_ring = round % 4 == 1 || round % 4 == 2;
    const bool rang = rings(side, round, must_ring);
    demand(!b.has(1) || rang == must_ring, must_ring ? "a bell did not ring" : "a bell rang although no thread sleeps");
    b.await_parcel(0, {8, round});
    b.await_sent(0);
    b.fence();
  }
}

// --- cancellation ----------------------------------------------------------------------------------------

/// Polls until the rank gets a cancellation, and returns the cancellation.
inline cancellation await_cancellation(bench& b, rank at) {
  std::optional<cancellation> news;
  b.until([&] { return (news = b.at(at).take_cancellation()).has_value(); }, "a cancellation");
  return *news;
}

/// The edges connect the ranks in a chain, so rank 1 may have to forward the cancellation.
inline void a_cancellation_reaches_every_rank_once(bench& b) {
  b.start(3);
  for (rank canceller = 0; canceller < 3; ++canceller) {
    b.connect({{.from = 0, .to = 1, .capacity = 8}, {.from = 2, .to = 1, .tag = 1, .signal = true}});
    b.cancel(canceller);
    for (rank r = 0; r < 3; ++r) {
      if (!b.has(r)) continue;
      const auto [instance, reason, is_departure, last] = await_cancellation(b, r);
      demand(instance == b.id_of(r) && reason == end_reason{canceller} && !is_departure, "rank ", r,
             " hears that rank ", reason.who, " has given up instance ", instance);
    }
    b.fence();
    b.cancel((canceller + 1) % 3);  // has no effect, because another rank was the first to cancel
    b.settle();
    for (rank r = 0; r < 3; ++r)
      if (b.has(r)) demand(!b.at(r).take_cancellation(), "rank ", r, " hears of a cancellation twice");
    for (rank r = 0; r < 3; ++r) b.abandon(r);
    b.fence();
    b.disconnect();
  }
  b.connect({{.capacity = 8}});
  transfer(b, 1, {{8, 1}}, first::send);
  b.disconnect();
}

inline void what_was_abandoned_is_not_written(bench& b) {
  b.start(2);
  for (const std::uint64_t bytes : std::initializer_list<std::uint64_t>{8, 8192, 100'000}) {
    b.connect(kinds_of_route(bytes));
    for (std::size_t i = 0; i < b.routes(); ++i) b.post_receive(i, 1);
    b.settle();
    b.abandon(1);
    b.fence();
    for (std::size_t i = 0; i < b.routes(); ++i) b.post_send(i, 1, {bytes, i});
    b.settle();
    b.fence();
    b.settle();
    for (std::size_t i = 0; i < b.routes(); ++i) {
      demand(!b.is_received(i), "a receive that was abandoned completes");
      demand(b.is_target_untouched(i), "the target of a receive that was abandoned is written");
    }
    b.abandon(0);
    b.fence();
    b.disconnect();
  }
}

/// A payload that a receiver reads in place must stay unchanged until the receiver releases or abandons it. If
/// check_readers() returns OK, no rank reads the sender's payloads, so the sender may overwrite them.
inline void a_reader_is_waited_for(bench& b) {
  constexpr std::uint64_t k_bytes = 100'000;
  b.start(2);
  for (const bool releases : {true, false}) {
    b.connect(
        {{.capacity = k_bytes, .in_place = true}, {.tag = 1, .capacity = k_bytes, .foreign = true, .in_place = true}});
    for (std::size_t i = 0; i < 2; ++i) b.post_receive(i, 1);
    for (std::size_t i = 0; i < 2; ++i) b.post_send(i, 1, {k_bytes, i});
    b.until([&] { return !b.has(1) || (b.is_received(0) && b.is_received(1)); }, "two messages");
    b.fence();
    b.abandon(0);
    rank reader = k_no_rank;
    const status answer = b.check_readers(0, &reader);
    demand(answer != status::pending || reader == 1, "rank ", reader, " is reported as a reader");
    if (b.has(0) && answer == status::ok)
      for (std::size_t i = 0; i < 2; ++i) b.overwrite_source(i);
    b.fence();
    for (std::size_t i = 0; i < 2; ++i) b.verify(i, {k_bytes, i});
    if (!releases) b.abandon(1);
    for (std::size_t i = 0; releases && i < 2; ++i) b.release(i);
    b.fence();
    b.until([&] { return b.check_readers(0, &reader) != status::pending; }, "the end of a read");
    if (releases) b.abandon(1);
    b.fence();
    b.disconnect();
  }
}

/// The sender gives up a payload before the receiver posts its receive. The receiver must get either no message or the
/// payload that was sent.
inline void what_was_given_up_is_not_read(bench& b) {
  constexpr std::uint64_t k_bytes = 100'000;
  b.start(2);
  for (const bool in_place : {false, true}) {
    b.connect({{.capacity = k_bytes, .in_place = in_place},
               {.tag = 1, .capacity = k_bytes, .foreign = true, .in_place = in_place}});
    for (std::size_t i = 0; i < 2; ++i) b.post_send(i, 1, {k_bytes, i});
    b.cancel(0);
    b.abandon(0);
    rank reader = k_no_rank;
    b.until([&] { return b.check_readers(0, &reader) != status::pending; }, "peers without a request");
    if (b.has(0) && b.check_readers(0, &reader) == status::ok)
      for (std::size_t i = 0; i < 2; ++i) b.overwrite_source(i);
    b.fence();
    for (std::size_t i = 0; i < 2; ++i) b.post_receive(i, 1);
    b.settle();
    for (std::size_t i = 0; i < 2; ++i)
      if (b.has(1) && b.is_received(i)) b.verify(i, {k_bytes, i});
    b.abandon(1);
    b.fence();
    b.disconnect();
  }
}

/// A rank closes its memory to readers. A peer that posts a receive afterwards must get either the payload that was
/// sent, or a cancellation with the reason.
inline void what_was_closed_is_not_read(bench& b) {
  constexpr std::uint64_t k_bytes = 100'000;
  constexpr end_reason k_reason{1, status::peer};
  b.start(2);
  for (const bool in_place : {false, true}) {
    b.connect({{.capacity = k_bytes, .in_place = in_place},
               {.tag = 1, .capacity = k_bytes, .foreign = true, .in_place = in_place}});
    for (std::size_t i = 0; i < 2; ++i) b.post_send(i, 1, {k_bytes, i});
    b.abandon(0);
    b.close_to_readers(0, k_reason);
    rank reader = k_no_rank;
    b.until([&] { return b.check_readers(0, &reader) != status::pending; }, "the end of a read");
    if (b.has(0) && b.check_readers(0, &reader) == status::ok)
      for (std::size_t i = 0; i < 2; ++i) b.overwrite_source(i);
    b.fence();
    for (std::size_t i = 0; i < 2; ++i) b.post_receive(i, 1);
    b.settle();
    bool is_missed = false;
    for (std::size_t i = 0; i < 2 && b.has(1); ++i) {
      if (b.is_received(i))
        b.verify(i, {k_bytes, i});
      else
        is_missed = true;
    }
    if (is_missed) demand(await_cancellation(b, 1).reason == k_reason, "the reason is wrong");
    b.abandon(1);
    b.fence();
    b.disconnect();
  }
}

// --- the list --------------------------------------------------------------------------------------------

struct question {
  const char* name;
  void (*ask)(bench&);
};

inline constexpr question k_questions[]{
    {"payloads_arrive_when_sent_first", payloads_arrive_when_sent_first},
    {"payloads_arrive_when_received_first", payloads_arrive_when_received_first},
    {"edges_of_one_source_carry_the_same", edges_of_one_source_carry_the_same},
    {"messages_without_room_are_dropped", messages_without_room_are_dropped},
    {"announced_messages_are_brought_when_asked_for", announced_messages_are_brought_when_asked_for},
    {"announced_messages_without_room_are_dropped", announced_messages_without_room_are_dropped},
    {"null_moves_nothing_but_its_tally", null_moves_nothing_but_its_tally},
    {"rounds_run_back_to_back", rounds_run_back_to_back},
    {"rounds_may_leave_edges_out", rounds_may_leave_edges_out},
    {"nothing_is_overwritten_with_credits", nothing_is_overwritten_with_credits},
    {"messages_of_one_edge_arrive_in_order", messages_of_one_edge_arrive_in_order},
    {"edges_between_one_pair_are_told_apart_by_tag", edges_between_one_pair_are_told_apart_by_tag},
    {"a_narrow_poll_loses_nothing", a_narrow_poll_loses_nothing},
    {"a_fast_rank_may_send_before_its_peer_has_linked", a_fast_rank_may_send_before_its_peer_has_linked},
    {"a_signal_wakes_whoever_is_armed_once", a_signal_wakes_whoever_is_armed_once},
    {"a_register_satisfies_every_round_up_to_its_own", a_register_satisfies_every_round_up_to_its_own},
    {"signals_may_merge_but_never_sink", signals_may_merge_but_never_sink},
    {"the_last_round_satisfies_every_round", the_last_round_satisfies_every_round},
    {"arming_again_replaces_the_round", arming_again_replaces_the_round},
    {"disarming_drops_the_completion", disarming_drops_the_completion},
    {"registers_do_not_disturb_each_other", registers_do_not_disturb_each_other},
    {"records_are_exchanged_again_and_again", records_are_exchanged_again_and_again},
    {"an_exchange_is_pending_while_a_record_is_missing", an_exchange_is_pending_while_a_record_is_missing},
    {"a_commit_is_settled_once", a_commit_is_settled_once},
    {"worlds_of_some_ranks_exchange", worlds_of_some_ranks_exchange},
    {"members_meet_by_a_key", members_meet_by_a_key},
    {"edges_that_do_not_match_are_not_linked", edges_that_do_not_match_are_not_linked},
    {"instances_that_come_and_go_leave_nothing", instances_that_come_and_go_leave_nothing},
    {"listening_means_that_something_may_come", listening_means_that_something_may_come},
    {"allocated_memory_is_aligned_and_apart", allocated_memory_is_aligned_and_apart},
    {"a_closed_peer_is_found_where_something_waits_for_it", a_closed_peer_is_found_where_something_waits_for_it},
    {"a_message_rings_a_bell_that_somebody_sleeps_on", a_message_rings_a_bell_that_somebody_sleeps_on},
    {"a_cancellation_reaches_every_rank_once", a_cancellation_reaches_every_rank_once},
    {"what_was_abandoned_is_not_written", what_was_abandoned_is_not_written},
    {"a_reader_is_waited_for", a_reader_is_waited_for},
    {"what_was_given_up_is_not_read", what_was_given_up_is_not_read},
    {"what_was_closed_is_not_read", what_was_closed_is_not_read},
};

/// Runs a question. Returns the fault that the question has found in the transport, or an empty string. An endpoint
/// whose health() is not OK is a fault, too.
inline std::string ask(const question& what, exam_world& world) {
  bench b(world);
  try {
    what.ask(b);
    b.demand_health();
    b.fence();
  } catch (const complaint& found) {
    return found.text;
  }
  return {};
}

inline std::string name_of_question(const ::testing::TestParamInfo<question>& it) { return it.param.name; }

/// Makes gtest print the name of a question in place of its bytes.
inline void PrintTo(const question& it, std::ostream* out) { *out << it.name; }

}  // namespace lsched::exam
