// What the questions of endpoint_exam.h work with: a world of endpoints, routes between them, and parcels
// whose contents both ends can compute. A question that is not answered as demanded throws a complaint.
//
// The ranks may all live in this process, driven by one thread, or be spread over processes that all ask the
// same questions: whatever concerns a rank that is not here is skipped, and fence() keeps the processes
// together. Nothing here waits for ever: whoever waits longer than the world's patience complains.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "libsched/schedule/draw.h"
#include "libsched/transport/endpoint.h"

namespace lsched::exam {

/// What a transport has to provide to be examined.
class exam_world {
 public:
  virtual ~exam_world() = default;

  /// A new world in place of the last one; one endpoint per rank, null for ranks of other processes.
  virtual std::vector<endpoint*> make(rank ranks) = 0;

  /// Lets time pass, where time is ours to move.
  virtual void pump() {}

  // Ranks in several processes: a fence opens when every process has entered it.
  virtual void enter_fence() {}
  virtual bool is_fence_open() { return true; }

  virtual std::chrono::milliseconds patience() const { return std::chrono::seconds(10); }

  // What not every medium can do.
  virtual bool sees_closed_peers() const { return true; }
  virtual bool rings_bells() const { return true; }
  virtual bool sees_both_ends() const { return true; }  ///< of an edge, when it links

  /// What the transport still holds though everything was given back; empty if nothing.
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

/// A one-way connection.
struct route {
  rank from = 0;
  rank to = 1;
  std::uint32_t tag = 0;
  std::uint64_t capacity = 0;
  bool signal = false;
  bool foreign = false;
  bool in_place = false;
  std::uint32_t source = 0;

  edge_spec end(bool outgoing, std::uint64_t cookie) const {
    return {.outgoing = outgoing,
            .signal = signal,
            .foreign = outgoing && foreign,
            .source = outgoing ? source : 0,
            .in_place = !outgoing && in_place,
            .peer = outgoing ? to : from,
            .tag = tag,
            .capacity = capacity,
            .cookie = cookie};
  }
};

/// A message, known to both ends.
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

  /// Where the eight bytes begin that differ first, or `bytes`.
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

  // --- instances: one at a time --------------------------------------------------------------------------
  void connect(std::vector<route> routes, bool credits = false);
  void attach(std::vector<route> routes, bool credits = false);
  void exchange();
  void post_record(rank of);
  void gather_record(rank of);
  status link_end(rank of) { return at(of).link(id(), addresses_); }
  void detach(rank of);
  void disconnect();
  std::uint32_t id() const { return next_id_ - 1; }
  /// For edges attached by hand, on all ranks.
  std::uint32_t take_id() {
    is_attached_ = true;
    return next_id_++;
  }
  std::size_t routes() const { return routes_.size(); }
  const route& path(std::size_t index) const { return routes_[index].path; }
  link_id link(std::size_t index, bool outgoing) const { return outgoing ? routes_[index].out : routes_[index].in; }

  // --- giving up -----------------------------------------------------------------------------------------
  void cancel(rank by) {
    if (has(by)) at(by).cancel(id(), by);
  }
  void abandon(rank of) {
    if (has(of)) at(of).abandon(id());
  }
  status check_readers(rank of, rank* reader) { return has(of) ? at(of).check_readers(id(), reader) : status::ok; }
  bool is_target_untouched(std::size_t index) const {
    const std::vector<std::byte>& target = routes_[index].target;
    return !has(routes_[index].path.to) || is_untouched(target.data(), target.data() + target.size());
  }
  /// What the route sends from is used for something else.
  void overwrite_source(std::size_t index) {
    route_state& it = routes_[index];
    if (has(it.path.from)) std::memset(it.source, 0x3c, it.path.capacity);
  }

  // --- payloads: `is_sent` and `is_received` tell, `await_*` wait ----------------------------------------
  void post_send(std::size_t index, round_no round, const parcel& what);
  bool is_sent(std::size_t index) const { return routes_[index].sent; }
  void post_receive(std::size_t index, round_no round);
  bool is_received(std::size_t index) const { return routes_[index].arrived.has_value(); }
  void verify(std::size_t index, const parcel& what) const;
  void release(std::size_t index);
  void await_sent(std::size_t index);
  void await_parcel(std::size_t index, const parcel& what);  ///< waits, verifies, releases

  // --- signals -------------------------------------------------------------------------------------------
  void signal(std::size_t index, round_no round);
  bool arm(std::size_t index, round_no round);  ///< true where the target is not here
  void disarm(std::size_t index);
  int wakes(std::size_t index) const { return routes_[index].wakes; }

  // --- time ----------------------------------------------------------------------------------------------
  std::size_t poll(rank of, std::size_t width = 16);
  void turn();
  /// Time for what must not happen. A process that has no rank has nothing to look at.
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
  std::uint64_t dice(std::uint64_t sides) { return mix(++dice_) % sides; }

 private:
  static constexpr std::size_t k_margin = 64;
  static constexpr int k_untouched = 0x77;

  struct route_state {
    route path;
    link_id out = k_no_link;
    link_id in = k_no_link;
    std::byte* source = nullptr;
    std::vector<std::byte> foreign_source{};
    std::vector<std::byte> target{};
    round_no round = 0;  ///< of the receive
    std::uint64_t bytes = 0;
    bool sent = true;
    bool receiving = false;
    std::optional<arrival> arrived{};
    int wakes = 0;
  };

  std::byte* target_of(route_state& it) const { return it.target.data() + k_margin; }
  static bool is_untouched(const std::byte* from, const std::byte* to) {
    return *from == std::byte{k_untouched} &&
           std::memcmp(from, from + 1, static_cast<std::size_t>(to - from - 1)) == 0;  // each like the one before
  }
  void mark_sent(route_state& it);
  void note(rank of, const completion& news);
  /// What the rank posts behind its address: known to all.
  std::array<std::byte, endpoint::record_bytes> record_of(rank of) const;

  exam_world& world_;
  std::vector<endpoint*> ends_;
  std::vector<route_state> routes_;
  bool is_attached_ = false;
  std::vector<instance_address> addresses_;  ///< of the instance, by rank
  std::uint32_t next_id_ = 0;
  std::uint64_t exchanges_ = 0;
  std::uint64_t dice_ = 0;
};

inline void bench::start(rank ranks) {
  ends_ = world_.make(ranks);
  demand(ends_.size() == static_cast<std::size_t>(ranks), "the world has not as many ranks as asked for");
  for (rank r = 0; r < ranks; ++r)
    if (has(r)) demand(at(r).place() == lsched::world{r, ranks}, "rank ", r, " does not know its place");
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
    if (has(r)) demand(at(r).health() == status::ok, "rank ", r, " is not in good health");
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

// A cookie is twice the route's index, plus one at the sending end.
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

// --- instances -------------------------------------------------------------------------------------------

inline void bench::connect(std::vector<route> routes, bool credits) {
  attach(std::move(routes), credits);
  exchange();
  for (rank r = 0; r < ranks(); ++r)
    if (has(r)) demand(link_end(r) == status::ok, "rank ", r, " cannot link what matches");
}

inline void bench::attach(std::vector<route> routes, bool credits) {
  routes_.clear();
  for (const route& path : routes) routes_.push_back({.path = path});
  const std::uint32_t instance = take_id();
  for (rank r = 0; r < ranks(); ++r) {
    if (!has(r)) continue;
    std::vector<edge_spec> edges;
    for (std::size_t i = 0; i < routes.size(); ++i) {
      if (routes[i].from == r) edges.push_back(routes[i].end(true, 2 * i + 1));
      if (routes[i].to == r) edges.push_back(routes[i].end(false, 2 * i));
    }
    const auto links = at(r).attach(instance, credits, edges);
    demand(links.has_value(), "rank ", r, " cannot attach instance ", instance);
    demand((*links).size() == edges.size(), "attach answers one link per edge");
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
    it.source = it.path.foreign ? it.foreign_source.data() : at(it.path.from).allocate(it.path.capacity + 1);
    demand(it.source != nullptr, "rank ", it.path.from, " has no memory left");
  }
}

inline std::array<std::byte, endpoint::record_bytes> bench::record_of(rank of) const {
  std::array<std::byte, endpoint::record_bytes> record{};
  parcel{endpoint::record_bytes, mix(exchanges_) + static_cast<std::uint64_t>(of)}.write(record.data());
  return record;
}

inline void bench::exchange() {
  ++exchanges_;
  for (rank r = 0; r < ranks(); ++r)
    if (has(r)) post_record(r);
  for (rank r = 0; r < ranks(); ++r)
    if (has(r)) gather_record(r);
}

inline void bench::post_record(rank of) {
  auto record = record_of(of);
  const instance_address address = is_attached_ ? at(of).address_of(id()) : instance_address{};
  std::memcpy(record.data(), &address, sizeof address);
  demand(at(of).post_record(record) == status::ok, "rank ", of, " cannot post its record");
}

inline void bench::gather_record(rank of) {
  std::vector<std::byte> all(endpoint::record_bytes * ends_.size());
  status answer = status::pending;
  until([&] { return (answer = at(of).gather_records(all, nullptr)) != status::pending; }, "the records");
  demand(answer == status::ok, "rank ", of, " cannot gather the records");
  addresses_.resize(ends_.size());
  for (rank r = 0; r < ranks(); ++r) {
    const auto expected = record_of(r);
    const std::byte* const got = all.data() + static_cast<std::size_t>(r) * expected.size();
    instance_address& address = addresses_[static_cast<std::size_t>(r)];
    std::memcpy(&address, got, sizeof address);
    demand(std::memcmp(got + sizeof address, expected.data() + sizeof address, expected.size() - sizeof address) == 0,
           "rank ", of, " gathered a wrong record of rank ", r);
    demand(!has(r) || !is_attached_ || address == at(r).address_of(id()), "rank ", of,
           " gathered a wrong address of rank ", r);
  }
}

inline void bench::detach(rank of) {
  if (!has(of)) return;
  at(of).detach(id());
  for (route_state& it : routes_) {
    if (it.path.from != of || it.path.foreign || it.path.signal) continue;
    at(of).deallocate(it.source);
    it.source = nullptr;
  }
}

inline void bench::disconnect() {
  is_attached_ = false;
  for (rank r = 0; r < ranks(); ++r) detach(r);
  routes_.clear();
}

// --- payloads --------------------------------------------------------------------------------------------

inline void bench::post_send(std::size_t index, round_no round, const parcel& what) {
  route_state& it = routes_[index];
  if (!has(it.path.from)) return;
  demand(it.sent, "route ", index, " round ", round, ": the question sends before the last send was done");
  if (!what.null) what.write(it.source);
  it.sent = false;
  it.bytes = what.bytes;
  const message letter{what.null ? nullptr : it.source, what.bytes, what.tally(), what.null};
  if (at(it.path.from).send(it.out, round, letter)) mark_sent(it);
}

// From now on the source may change, so it does.
inline void bench::mark_sent(route_state& it) {
  it.sent = true;
  std::memset(it.source, 0x5a, it.bytes);
}

inline void bench::post_receive(std::size_t index, round_no round) {
  route_state& it = routes_[index];
  if (!has(it.path.to)) return;
  std::memset(it.target.data(), k_untouched, it.target.size());
  const bool stays = it.path.in_place;
  it.receiving = true;
  it.round = round;
  it.arrived.reset();
  arrival out{};
  if (at(it.path.to).receive(it.in, round, stays ? nullptr : target_of(it), out)) it.arrived = out;
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
    demand(it.path.in_place || got.data == target, "route ", index, ": the payload is not where it was asked for");
    const std::uint64_t differs = what.first_difference(got.data);
    demand(differs == what.bytes, "route ", index, " round ", it.round, ": of ", what.bytes, " bytes, those from ",
           differs, " are wrong");
    if (got.data == target) written = what.bytes;
  }
  const std::byte* const end = it.target.data() + it.target.size();
  demand(is_untouched(it.target.data(), target) && is_untouched(target + written, end), "route ", index, " round ",
         it.round, ": bytes beside the payload were written");
}

inline void bench::release(std::size_t index) {
  route_state& it = routes_[index];
  if (!has(it.path.to)) return;
  if (it.path.in_place && !it.arrived->null) at(it.path.to).release(it.in, it.round);
  it.receiving = false;
  it.arrived.reset();
}

inline void bench::await_sent(std::size_t index) {
  until([&] { return is_sent(index); }, "a send to be done");
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
