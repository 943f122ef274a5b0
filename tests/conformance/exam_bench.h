// The tools of the conformance tests in endpoint_exam.h: a world of endpoints, routes between the endpoints, and
// parcels. A parcel is a message whose content both ends can compute. A test that finds a fault throws a complaint.
//
// If one process has all ranks, a single thread drives them. Otherwise all processes run the same tests, and each
// process skips the operations of ranks in other processes. fence() keeps the processes in step. A wait that takes
// longer than exam_world::patience() throws a complaint.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "libsched/schedule/draw.h"
#include "libsched/transport/endpoint.h"

namespace lsched::exam {

/// The interface that a transport implements to run the conformance tests.
class exam_world {
 public:
  virtual ~exam_world() = default;

  /// Replaces the previous world by a new world. Returns the endpoints by rank. The endpoint of a rank in another
  /// process is null.
  virtual std::vector<endpoint*> make(rank ranks) = 0;

  /// Advances the time, if the transport has a simulated clock.
  virtual void pump() {}

  // A fence opens when every process has entered it. Only worlds with several processes need fences.
  virtual void enter_fence() {}
  virtual bool is_fence_open() { return true; }

  virtual std::chrono::milliseconds patience() const { return std::chrono::seconds(10); }

  /// Maximum number of messages by which the sender of an edge with credits is ahead of the receiver.
  virtual std::uint64_t most_ahead() const { return 2; }

  // Abilities that some transports lack.
  virtual bool sees_closed_peers() const { return true; }
  virtual bool rings_bells() const { return true; }
  virtual bool sees_both_ends() const { return true; }   ///< true if link() compares both ends of an edge
  virtual bool settles_at_once() const { return true; }  ///< true if give_up() of a commit takes effect at once

  /// The tests call this function after they have given back all resources. Returns a description of resources that the
  /// transport still holds, or an empty string.
  virtual std::string leftovers() { return {}; }
};

struct complaint {
  std::string text;
};

inline std::string in_words(std::string_view text) { return std::string(text); }
template <class Integer>
requires std::is_integral_v<Integer> std::string in_words(Integer number) { return std::to_string(number); }

template <class... Parts>
void demand(bool holds, const Parts&... parts) {
  if (!holds) throw complaint{(in_words(parts) + ...)};
}

/// A one-way connection between two ranks, with one edge end on each rank. Routes with the same value of `source` have
/// the same source memory.
struct route {
  rank from = 0;
  rank to = 1;
  std::uint32_t tag = 0;
  std::uint64_t capacity = 0;
  bool signal = false;
  bool foreign = false;
  bool in_place = false;
  bool announced = false;
  std::uint32_t source = 0;

  edge_spec end(bool outgoing, std::uint64_t cookie) const {
    return {.outgoing = outgoing,
            .signal = signal,
            .foreign = outgoing && foreign,
            .source = outgoing ? source : 0,
            .in_place = !outgoing && in_place,
            .announced = !outgoing && announced,
            .peer = outgoing ? to : from,
            .tag = tag,
            .capacity = capacity,
            .cookie = cookie};
  }
};

/// A message. Both ends compute its content from `seed`.
struct parcel {
  std::uint64_t bytes;
  std::uint64_t seed;
  bool null = false;

  contributor_count tally() const {
    return {static_cast<std::uint32_t>(seed % 7 + 1), static_cast<rank>(seed % 5) - 1, seed};
  }

  void write(std::byte* place) const {
    for (std::uint64_t at = 0; at < bytes; at += k_word) {
      const std::uint64_t word = word_at(at);
      std::memcpy(place + at, &word, std::min(k_word, bytes - at));
    }
  }

  /// Returns the offset of the first eight-byte word at `place` that differs from the content. Returns `bytes` if no
  /// word differs.
  std::uint64_t first_difference(const std::byte* place) const {
    for (std::uint64_t at = 0; at < bytes; at += k_word) {
      const std::uint64_t word = word_at(at);
      if (std::memcmp(place + at, &word, std::min(k_word, bytes - at)) != 0) return at;
    }
    return bytes;
  }

  static constexpr std::uint64_t k_word = sizeof(std::uint64_t);
  std::uint64_t word_at(std::uint64_t at) const { return mix(seed * 0x100000 + at); }
};

class bench {
 public:
  explicit bench(exam_world& world) : world_(world) {}
  bench(const bench&) = delete;
  bench& operator=(const bench&) = delete;
  ~bench() { disconnect(); }

  void start(rank ranks);
  rank ranks() const { return static_cast<rank>(ends_.size()); }
  bool has(rank of) const { return ends_[static_cast<std::size_t>(of)] != nullptr; }
  bool has_all() const {
    return std::ranges::all_of(ends_, [](const endpoint* it) { return it != nullptr; });
  }
  endpoint& at(rank of) { return *ends_[static_cast<std::size_t>(of)]; }
  exam_world& world() { return world_; }

  // --- worlds: a stack. The world entered last is in use; the first world (the home world) has all ranks ---

  /// Enters a new world of the given ranks. The ranks create the world by an exchange in the home world.
  void enter(std::vector<rank> members);
  void leave() { worlds_.pop_back(); }
  /// Enters a new world of the given ranks. The ranks find each other by a key. Other ranks take no part.
  void meet(std::vector<rank> members, std::uint64_t key);
  /// Offers to form a world, without waiting for the other members. The caller must withdraw the offer.
  std::unique_ptr<board> offer(rank of, std::span<const rank> members, std::uint64_t key);
  const std::vector<rank>& members() const { return worlds_.back().members; }
  bool has_member(rank of) const { return has(of) && std::ranges::find(members(), of) != members().end(); }
  board& board_of(rank of) { return *worlds_.back().boards[static_cast<std::size_t>(of)]; }

  void exchange();
  void post_record(rank of);
  void gather_record(rank of);
  // The two steps of an exchange. Both functions wait.
  void post(rank of, std::span<const std::byte> mine);
  status gather(rank of, std::span<std::byte> all, rank* missing);

  // --- instances: one at a time; the ids differ between ranks ----------------------------------------------
  void connect(std::vector<route> routes, bool credits = false);
  void attach(std::vector<route> routes, bool credits = false);
  status link_end(rank of) { return at(of).link(id_of(of), addresses_); }
  void detach(rank of);
  void disconnect();
  std::uint32_t id_of(rank of) const { return instances_ + 3 * static_cast<std::uint32_t>(of); }
  /// Advances to the next instance ids. Tests that attach edges with attach_end() must call this function for all
  /// ranks.
  void begin_instance() { ++instances_; }
  result<std::vector<link_id>> attach_end(rank of, const std::vector<edge_spec>& edges, bool credits = false);
  std::size_t routes() const { return routes_.size(); }
  const route& path(std::size_t index) const { return routes_[index].path; }
  link_id link(std::size_t index, bool outgoing) const { return outgoing ? routes_[index].out : routes_[index].in; }

  // --- cancellation --------------------------------------------------------------------------------------
  void cancel(rank by) {
    if (has(by)) at(by).cancel(id_of(by), {by});
  }
  void close_to_readers(rank of, const end_reason& reason) {
    if (has(of)) at(of).close_to_readers(id_of(of), reason);
  }
  void abandon(rank of) {
    if (has(of)) at(of).abandon(id_of(of));
  }
  status check_readers(rank of, rank* reader) { return has(of) ? at(of).check_readers(id_of(of), reader) : status::ok; }
  bool is_target_untouched(std::size_t index) const {
    const std::vector<std::byte>& target = routes_[index].target;
    return !has(routes_[index].path.to) || is_untouched(target.data(), target.data() + target.size());
  }
  /// Overwrites the source memory of a route, as an application does when it reuses the memory.
  void overwrite_source(std::size_t index) {
    route_state& it = routes_[index];
    if (has(it.path.from)) std::memset(it.source, 0x3c, it.path.capacity);
  }

  // --- payloads: `is_sent` and `is_received` return at once, `await_*` wait ------------------------------
  void post_send(std::size_t index, round_no round, const parcel& what);
  bool is_sent(std::size_t index) const { return routes_[index].sent; }
  void post_receive(std::size_t index, round_no round, std::uint64_t room = ~std::uint64_t{0});
  bool is_received(std::size_t index) const { return routes_[index].arrived.has_value(); }
  void verify(std::size_t index, const parcel& what) const;
  /// Verifies the reported length and tally (contributor count) of a message whose payload was not delivered. Also
  /// verifies that no byte was written to the target.
  void verify_told(std::size_t index, const parcel& what) const;
  void fetch(std::size_t index, std::uint64_t room = ~std::uint64_t{0});
  void release(std::size_t index);
  void await_sent(std::size_t index);
  void await_parcel(std::size_t index, const parcel& what);  ///< waits, verifies, releases

  // --- signals -------------------------------------------------------------------------------------------
  void signal(std::size_t index, round_no round);
  bool arm(std::size_t index, round_no round);  ///< result of the endpoint's arm(); true if the target is in another
                                                ///< process
  void disarm(std::size_t index);
  int wakes(std::size_t index) const { return routes_[index].wakes; }

  // --- time ----------------------------------------------------------------------------------------------
  std::size_t poll(rank of, std::size_t width = 16);
  void turn();
  /// Polls all endpoints `turns` times. If a forbidden event can happen, it happens during these polls. Returns at once
  /// in a process without ranks.
  void settle(int turns = 200) {
    const bool has_any = std::ranges::any_of(ends_, [](const endpoint* end) { return end != nullptr; });
    for (int i = 0; has_any && i < turns; ++i) turn();
  }
  template <class Condition>
  void until(Condition&& holds, std::string_view what);
  void demand_health();
  void fence() {
    world_.enter_fence();
    until([&] { return world_.is_fence_open(); }, "the other processes");
  }
  /// Does the same as fence(), but polls no endpoint.
  void fence_without_polls() {
    world_.enter_fence();
    const auto limit = std::chrono::steady_clock::now() + world_.patience();
    while (!world_.is_fence_open()) {
      demand(std::chrono::steady_clock::now() < limit, "waited too long for the other processes");
      world_.pump();
    }
  }
  std::uint64_t dice(std::uint64_t sides) { return mix(++dice_) % sides; }

 private:
  using record = std::array<std::byte, board::record_bytes>;
  struct world_state {
    explicit world_state(std::size_t ranks) : boards(ranks) {}
    std::vector<rank> members;
    std::vector<std::unique_ptr<board>> boards;  ///< boards of the members in this process, indexed by home rank; null
                                                 ///< for other ranks
  };

  static constexpr std::size_t k_margin = 64;
  static constexpr int k_untouched = 0x77;

  struct route_state {
    route path;
    link_id out = k_no_link;
    link_id in = k_no_link;
    std::byte* source = nullptr;
    std::vector<std::byte> foreign_source{};
    std::vector<std::byte> target{};
    round_no round = 0;  ///< round of the posted receive
    std::uint64_t bytes = 0;
    bool sent = true;
    bool receiving = false;
    std::optional<arrival> arrived{};
    int wakes = 0;
  };

  std::byte* target_of(route_state& it) const { return it.target.data() + k_margin; }
  static bool is_untouched(const std::byte* from, const std::byte* to) {
    return *from == std::byte{k_untouched} &&
           std::memcmp(from, from + 1, static_cast<std::size_t>(to - from - 1)) == 0;  // checks that all bytes are
                                                                                       // equal
  }
  void mark_sent(route_state& it);
  void note(rank of, const completion& news);
  /// Returns the record that rank `of` posts. Every rank can compute this record. post_record() overwrites the first
  /// bytes of the record with an address.
  record record_of(rank of) const;

  exam_world& world_;
  std::vector<endpoint*> ends_;
  std::vector<world_state> worlds_;
  std::vector<route_state> routes_;
  std::vector<member_address> shown_;      ///< addresses that the ranks of this process post, indexed by home rank
  std::vector<member_address> addresses_;  ///< addresses that the latest gather has returned, indexed by member
  std::uint32_t instances_ = 0;
  std::uint64_t exchanges_ = 0;
  std::uint64_t dice_ = 0;
};

inline void bench::start(rank ranks) {
  worlds_.clear();
  ends_.clear();
  ends_ = world_.make(ranks);
  shown_.assign(ends_.size(), {});
  world_state& home = worlds_.emplace_back(ends_.size());
  home.members.resize(ends_.size());
  std::iota(home.members.begin(), home.members.end(), 0);
  demand(ends_.size() == static_cast<std::size_t>(ranks), "the world has a wrong number of ranks");
  for (rank r = 0; r < ranks; ++r) {
    if (!has(r)) continue;
    demand(at(r).place() == lsched::world{r, ranks}, "rank ", r, " has a wrong place");
    home.boards[static_cast<std::size_t>(r)] = at(r).open_home_board();
  }
}

template <class Condition>
void bench::until(Condition&& holds, std::string_view what) {
  const auto limit = std::chrono::steady_clock::now() + world_.patience();
  while (!holds()) {
    demand_health();
    demand(std::chrono::steady_clock::now() < limit, "waited too long for ", what);
    turn();
  }
}

inline void bench::demand_health() {
  for (rank r = 0; r < ranks(); ++r)
    if (has(r)) demand(at(r).liveness().health() == status::ok, "rank ", r, " is not in good health");
}

inline void bench::turn() {
  for (rank r = 0; r < ranks(); ++r)
    if (has(r)) poll(r);
  world_.pump();
}

inline std::size_t bench::poll(rank of, std::size_t width) {
  std::array<completion, 16> news{};
  const std::size_t found = at(of).poll(std::span(news).first(width));
  demand(found <= width, "rank ", of, " was polled for ", width, " completions and gave ", found);
  for (std::size_t i = 0; i < found; ++i) note(of, news[i]);
  at(of).flush();
  return found;
}

// The cookie of an edge end is twice the index of the route, plus one at the sending end.
inline void bench::note(rank of, const completion& news) {
  const std::size_t index = news.cookie / 2;
  const bool outgoing = news.cookie % 2 == 1;
  demand(index < routes_.size(), "rank ", of, " completed something that was never attached");
  route_state& it = routes_[index];
  demand((outgoing ? it.path.from : it.path.to) == of, "rank ", of, " completed what another rank waits for");
  if (outgoing) {
    demand(!it.sent, "rank ", of, " completed a send twice");
    mark_sent(it);
  } else if (it.path.signal) {
    ++it.wakes;
  } else {
    demand(it.receiving && !it.arrived, "rank ", of, " completed a receive twice");
    it.arrived = news.what;
  }
}

// --- worlds ----------------------------------------------------------------------------------------------

inline void bench::enter(std::vector<rank> members) {
  world_state next(ends_.size());
  next.members = std::move(members);
  for (const rank r : next.members) {
    if (!has(r)) continue;
    auto opened = at(r).open_board(ends_.size());
    demand(opened.has_value(), "rank ", r, " cannot open a board");
    shown_[static_cast<std::size_t>(r)] = (*opened)->address();
    next.boards[static_cast<std::size_t>(r)] = std::move(*opened);
  }
  exchange();
  std::vector<member_address> all;
  for (const rank r : next.members) all.push_back(addresses_[static_cast<std::size_t>(r)]);
  for (const auto& mine : next.boards)
    demand(mine == nullptr || mine->join(next.members, all) == status::ok, "a board cannot join the others");
  shown_.assign(ends_.size(), {});
  worlds_.push_back(std::move(next));
}

inline std::unique_ptr<board> bench::offer(rank of, std::span<const rank> members, std::uint64_t key) {
  if (!has(of)) return nullptr;
  auto opened = at(of).open_board(members.size());
  demand(opened.has_value(), "rank ", of, " cannot open a board");
  (*opened)->offer(key, members);
  return std::move(*opened);
}

inline void bench::meet(std::vector<rank> members, std::uint64_t key) {
  world_state next(ends_.size());
  next.members = std::move(members);
  std::vector<rank> waiting;
  for (const rank r : next.members) {
    next.boards[static_cast<std::size_t>(r)] = offer(r, next.members, key);
    if (has(r)) waiting.push_back(r);
  }
  const auto have_met = [&] {
    std::erase_if(waiting, [&](rank r) {
      rank missing = k_no_rank;
      const status answer = next.boards[static_cast<std::size_t>(r)]->meet(&missing);
      demand(answer == status::ok || answer == status::pending, "rank ", r, " does not meet the others");
      return answer == status::ok;
    });
    return waiting.empty();
  };
  until(have_met, "the meeting of the members");
  worlds_.push_back(std::move(next));
}

inline bench::record bench::record_of(rank of) const {
  record made{};
  parcel{made.size(), mix(exchanges_) + static_cast<std::uint64_t>(of)}.write(made.data());
  return made;
}

inline void bench::exchange() {
  ++exchanges_;
  for (const rank r : members())
    if (has(r)) post_record(r);
  for (const rank r : members())
    if (has(r)) gather_record(r);
}

inline void bench::post(rank of, std::span<const std::byte> mine) {
  rank behind = k_no_rank;
  status answer = status::pending;
  until([&] { return (answer = board_of(of).post(mine, &behind)) != status::pending; }, "room for a record");
  demand(answer == status::ok, "rank ", of, " cannot post its record");
}

inline status bench::gather(rank of, std::span<std::byte> all, rank* missing) {
  status answer = status::pending;
  until([&] { return (answer = board_of(of).gather(all, missing)) != status::pending; }, "the records");
  return answer;
}

inline void bench::post_record(rank of) {
  record mine = record_of(of);
  std::memcpy(mine.data(), &shown_[static_cast<std::size_t>(of)], sizeof(member_address));
  post(of, mine);
}

inline void bench::gather_record(rank of) {
  std::vector<std::byte> all(board::record_bytes * members().size());
  rank missing = k_no_rank;
  demand(gather(of, all, &missing) == status::ok, "rank ", of, " cannot gather the records");
  addresses_.resize(members().size());
  for (std::size_t m = 0; m < members().size(); ++m) {
    const rank r = members()[m];
    const record expected = record_of(r);
    const std::byte* const got = all.data() + m * expected.size();
    member_address& address = addresses_[m];
    std::memcpy(&address, got, sizeof address);
    demand(std::memcmp(got + sizeof address, expected.data() + sizeof address, expected.size() - sizeof address) == 0,
           "rank ", of, " gathered a wrong record of rank ", r);
    demand(!has(r) || address == shown_[static_cast<std::size_t>(r)], "rank ", of, " gathered a wrong address of rank ",
           r);
  }
}

// --- instances -------------------------------------------------------------------------------------------

inline void bench::connect(std::vector<route> routes, bool credits) {
  attach(std::move(routes), credits);
  exchange();
  for (const rank r : members())
    if (has(r)) demand(link_end(r) == status::ok, "rank ", r, " cannot link what matches");
}

inline result<std::vector<link_id>> bench::attach_end(rank of, const std::vector<edge_spec>& edges, bool credits) {
  auto links = at(of).attach(id_of(of), members(), credits, edges);
  if (links) shown_[static_cast<std::size_t>(of)] = at(of).address_of(id_of(of));
  return links;
}

inline void bench::attach(std::vector<route> routes, bool credits) {
  routes_.clear();
  for (const route& path : routes) routes_.push_back({.path = path});
  begin_instance();
  for (const rank r : members()) {
    if (!has(r)) continue;
    std::vector<edge_spec> edges;
    for (std::size_t i = 0; i < routes.size(); ++i) {
      if (routes[i].from == r) edges.push_back(routes[i].end(true, 2 * i + 1));
      if (routes[i].to == r) edges.push_back(routes[i].end(false, 2 * i));
    }
    const auto links = attach_end(r, edges, credits);
    demand(links.has_value(), "rank ", r, " cannot attach instance ", id_of(r));
    demand((*links).size() == edges.size(), "attach must return one link per edge");
    for (std::size_t k = 0; k < edges.size(); ++k) {
      route_state& it = routes_[edges[k].cookie / 2];
      (edges[k].outgoing ? it.out : it.in) = (*links)[k];
    }
  }
  for (route_state& it : routes_) {
    if (it.path.signal) continue;
    if (has(it.path.to)) it.target.resize(it.path.capacity + 2 * k_margin);
    if (!has(it.path.from)) continue;
    if (it.path.foreign) it.foreign_source.resize(it.path.capacity + 1);
    it.source = it.path.foreign ? it.foreign_source.data() : at(it.path.from).memory().allocate(it.path.capacity + 1);
    demand(it.source != nullptr, "rank ", it.path.from, " has no memory left");
  }
}

inline void bench::detach(rank of) {
  if (!has_member(of)) return;
  at(of).detach(id_of(of));
  shown_[static_cast<std::size_t>(of)] = {};
  for (route_state& it : routes_) {
    if (it.path.from != of || it.path.foreign || it.path.signal) continue;
    at(of).memory().deallocate(it.source);
    it.source = nullptr;
  }
}

inline void bench::disconnect() {
  for (rank r = 0; r < ranks(); ++r) detach(r);
  routes_.clear();
}

// --- payloads --------------------------------------------------------------------------------------------

inline void bench::post_send(std::size_t index, round_no round, const parcel& what) {
  route_state& it = routes_[index];
  if (!has(it.path.from)) return;
  demand(it.sent, "route ", index, " round ", round, ": the test sends before the last send has completed");
  if (!what.null) what.write(it.source);
  it.sent = false;
  it.bytes = what.bytes;
  const message letter{what.null ? nullptr : it.source, what.bytes, what.tally(), what.null};
  if (at(it.path.from).send(it.out, round, letter)) mark_sent(it);
}

// The source may change as soon as the send has completed. Therefore this function overwrites the source, so that the
// tests detect later reads of the source.
inline void bench::mark_sent(route_state& it) {
  it.sent = true;
  std::memset(it.source, 0x5a, it.bytes);
}

inline void bench::post_receive(std::size_t index, round_no round, std::uint64_t room) {
  route_state& it = routes_[index];
  if (!has(it.path.to)) return;
  std::memset(it.target.data(), k_untouched, it.target.size());
  const bool stays = it.path.in_place || it.path.announced;
  it.receiving = true;
  it.round = round;
  it.arrived.reset();
  arrival out{};
  const message_target into(stays ? nullptr : target_of(it), room);
  if (at(it.path.to).receive(it.in, round, into, out)) it.arrived = out;
}

inline void bench::verify_told(std::size_t index, const parcel& what) const {
  const route_state& it = routes_[index];
  if (!has(it.path.to)) return;
  const arrival& got = *it.arrived;
  demand(got.data == nullptr && got.bytes == what.bytes && got.tally == what.tally(), "route ", index, " round ",
         it.round, ": reported ", got.bytes, " bytes instead of ", what.bytes, ", or with another tally, or with data");
  demand(is_target_untouched(index), "route ", index, " round ", it.round, ": something was written");
}

inline void bench::fetch(std::size_t index, std::uint64_t room) {
  route_state& it = routes_[index];
  if (!has(it.path.to)) return;
  it.arrived.reset();
  arrival out{};
  const message_target into(room == 0 ? nullptr : target_of(it), room);
  if (at(it.path.to).fetch(it.in, it.round, into, out)) it.arrived = out;
}

inline void bench::verify(std::size_t index, const parcel& what) const {
  const route_state& it = routes_[index];
  if (!has(it.path.to)) return;
  const arrival& got = *it.arrived;
  const std::byte* const target = it.target.data() + k_margin;
  demand(got.null == what.null, "route ", index, " round ", it.round, ": the null flag is wrong");
  demand(got.tally == what.tally(), "route ", index, " round ", it.round, ": the tally is wrong");
  std::uint64_t written = 0;
  if (!what.null) {
    demand(got.bytes == what.bytes, "route ", index, " round ", it.round, ": ", got.bytes, " bytes, not ", what.bytes);
    demand(it.path.in_place || got.data == target, "route ", index, ": the payload is not at the target");
    const std::uint64_t differs = what.first_difference(got.data);
    demand(differs == what.bytes, "route ", index, " round ", it.round, ": of ", what.bytes, " bytes, those from ",
           differs, " are wrong");
    if (got.data == target) written = what.bytes;
  }
  const std::byte* const end = it.target.data() + it.target.size();
  demand(is_untouched(it.target.data(), target) && is_untouched(target + written, end), "route ", index, " round ",
         it.round, ": bytes around the payload were written");
}

inline void bench::release(std::size_t index) {
  route_state& it = routes_[index];
  if (!has(it.path.to)) return;
  if (it.path.in_place && !it.arrived->null) at(it.path.to).release(it.in, it.round);
  it.receiving = false;
  it.arrived.reset();
}

inline void bench::await_sent(std::size_t index) {
  until([&] { return is_sent(index); }, "the completion of a send");
}

inline void bench::await_parcel(std::size_t index, const parcel& what) {
  if (!has(path(index).to)) return;
  until([&] { return is_received(index); }, "a message");
  verify(index, what);
  release(index);
}

// --- signals ---------------------------------------------------------------------------------------------

inline void bench::signal(std::size_t index, round_no round) {
  route_state& it = routes_[index];
  if (has(it.path.from)) at(it.path.from).signal(it.out, round);
}

inline bool bench::arm(std::size_t index, round_no round) {
  route_state& it = routes_[index];
  return !has(it.path.to) || at(it.path.to).arm(it.in, round);
}

inline void bench::disarm(std::size_t index) {
  route_state& it = routes_[index];
  if (has(it.path.to)) at(it.path.to).disarm(it.in);
}

}  // namespace lsched::exam
