// Tests of the MPI endpoints, alone and with real engines. Run as `mpiexec -n {2,3,5} bindings_mpi [TEXT]`. With TEXT,
// only checks whose name contains TEXT are run.
//
// Every wait has a time limit, and a watchdog ends a process that nevertheless hangs. The first failed check ends the
// run, because in later checks the other processes would only wait for the failed process. LSCHED_TEST_FULL=1 runs 2000
// rounds in each check, with large vectors.
#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "libsched/transport/hybrid/hybrid_endpoint.h"
#include "bindings/mpi/mpi_endpoint.h"
#include "bindings/mpi/mpi_world.h"
#include "collectives/allreduce/allreduce.h"
#include "collectives/rooted/rooted.h"
#include "offload/cores.h"
#include "offload/driver.h"
#include "offload/progress_thread.h"
#include "tests/conformance/endpoint_exam.h"
#include "tests/support/generators.h"
#include "tests/support/home_commits.h"
#include "tests/support/process_limit.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// Returns true if MPI was initialised with MPI_THREAD_MULTIPLE. At lower levels, the library may call MPI only in the
/// application's threads, not in its own auxiliary thread.
bool mpi_allows_auxiliary_thread() {
  int level = MPI_THREAD_SINGLE;
  return MPI_Query_thread(&level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE;
}

constexpr auto k_patience = 20s;
constexpr auto k_hasty = 8s;  // a shutdown that takes longer has reached its time limit

struct context {
  rank self = 0;
  rank size = 1;
  std::string only;
  bool is_full = false;
  int passed = 0;
};
context g_run;

// --- reporting ---------------------------------------------------------------------------------------------

/// Waits for an MPI request. Yields between tests of the request, because other ranks may need the core.
bool settle(MPI_Request& request) {
  for (int is_done = 0;;) {
    if (MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (is_done != 0) return true;
    sched_yield();
  }
}

/// Returns all ranks of MPI_COMM_WORLD.
std::vector<rank> everybody() {
  std::vector<rank> all(static_cast<std::size_t>(g_run.size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Exchanges the addresses of an instance among all ranks. Returns nullopt on a timeout or an error.
std::optional<std::vector<member_address>> exchange_addresses(mpi_endpoint& net, board& home, std::uint32_t id) {
  const member_address mine = net.address_of(id);
  rank missing = k_no_rank;
  if (home.post(std::as_bytes(std::span(&mine, 1)), &missing) != status::ok) return std::nullopt;
  std::vector<std::byte> records(board::record_bytes * static_cast<std::size_t>(g_run.size));
  status answer = status::pending;
  const clock::time_point deadline = clock::now() + k_patience;
  while ((answer = home.gather(records, &missing)) == status::pending && clock::now() < deadline) sched_yield();
  if (answer != status::ok) return std::nullopt;
  std::vector<member_address> all(static_cast<std::size_t>(g_run.size));
  for (std::size_t r = 0; r < all.size(); ++r)
    std::memcpy(&all[r], records.data() + r * board::record_bytes, sizeof all[r]);
  return all;
}

/// Runs one check on every rank. `what` returns the text of an error, or an empty text.
template <class Check>
void check(const std::string& name, Check&& what) {
  if (name.find(g_run.only) == std::string::npos) return;
  const clock::time_point begin = clock::now();
  const std::string wrong = what();
  if (!wrong.empty()) std::fprintf(stderr, "FAILED %s, rank %d: %s\n", name.c_str(), g_run.self, wrong.c_str());
  int mine = wrong.empty() ? 0 : 1;
  int all = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request) != MPI_SUCCESS || !settle(request))
    all = 1;
  if (all == 0) {
    ++g_run.passed;
    if (g_run.self == 0 && std::getenv("LSCHED_TEST_TIMES") != nullptr)
      std::fprintf(stderr, "%8.3f s  %s\n", std::chrono::duration<double>(clock::now() - begin).count(), name.c_str());
    return;
  }
  if (g_run.self == 0) std::printf("%d passed, 1 failed\n", g_run.passed);
  std::fflush(stdout);
  std::this_thread::sleep_for(200ms);  // lets other ranks print their errors
  MPI_Abort(MPI_COMM_WORLD, 1);
}

std::string in_words(const failure& why) { return std::string(name_of(why.code)) + ": " + why.text; }

// --- the exam ----------------------------------------------------------------------------------------------

struct mode {
  const char* name;
  mpi_options options;
};

std::vector<mode> modes() {
  return {{"mpi", {.uses_mpi_alone = true}},
          {"hybrid", {.region_bytes = std::uint64_t{1} << 30}},
          {"emulated", {.ranks_per_node = g_run.size > 2 ? 2 : 1, .region_bytes = std::uint64_t{1} << 30}}};
}

struct too_few_processes {};

/// The world of an examination. Each process is one rank. Processes beyond the size of the world only take part in
/// fences.
class mpi_exam_world final : public exam::exam_world {
 public:
  mpi_exam_world(const mpi_options& options, bool is_one_node) : options_(options), is_one_node_(is_one_node) {}
  ~mpi_exam_world() override { (void)leave(); }

  std::vector<endpoint*> make(rank ranks) override {
    if (ranks > g_run.size) throw too_few_processes{};
    exam::demand(leave(), "the shutdown was cut short");
    exam::demand(
        MPI_Comm_split(MPI_COMM_WORLD, g_run.self < ranks ? 0 : MPI_UNDEFINED, g_run.self, &comm_) == MPI_SUCCESS,
        "MPI_Comm_split failed");
    std::vector<endpoint*> all(static_cast<std::size_t>(ranks), nullptr);
    if (comm_ == MPI_COMM_NULL) return all;
    auto opened = open_mpi_endpoint(comm_, options_, &info_);
    exam::demand(opened.has_value(), opened ? "" : opened.error().text);
    mine_ = std::move(*opened);
    all[static_cast<std::size_t>(g_run.self)] = mine_.get();
    return all;
  }
  void pump() override { sched_yield(); }
  void enter_fence() override {
    if (MPI_Ibarrier(MPI_COMM_WORLD, &fence_) != MPI_SUCCESS) throw exam::complaint{"MPI_Ibarrier failed"};
  }
  bool is_fence_open() override {
    int is_done = 0;
    return MPI_Test(&fence_, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_done != 0;
  }
  std::chrono::milliseconds patience() const override { return k_patience; }
  bool sees_closed_peers() const override { return is_one_node_; }
  bool rings_bells() const override { return is_one_node_; }
  bool sees_both_ends() const override { return is_one_node_; }
  bool settles_at_once() const override { return is_one_node_; }

  /// Closes the endpoint. Returns true if the shutdown was complete before its time limit.
  bool leave() {
    const clock::time_point begin = clock::now();
    mine_.reset();
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
    return clock::now() - begin < k_hasty;
  }

 private:
  mpi_options options_;
  bool is_one_node_;
  neighbourhood info_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Request fence_ = MPI_REQUEST_NULL;
  std::unique_ptr<endpoint> mine_;
};

std::string examine(const exam::question& question, const mpi_options& options) {
  const bool is_one_node = !options.uses_mpi_alone && options.ranks_per_node == 0;
  mpi_exam_world world(options, is_one_node);
  try {
    std::string wrong = exam::ask(question, world);
    if (!world.leave() && wrong.empty()) wrong = "the shutdown was cut short";
    return wrong;
  } catch (const too_few_processes&) {
    return {};  // more ranks than processes
  }
}

// --- questions for MPI only --------------------------------------------------------------------------------

/// Sends messages with sizes near the limits of bounce buffers and of chunks, over every kind of connection. For some
/// messages the send is posted first, and for others the receive.
void payloads_around_the_limits(exam::bench& b) {
  constexpr std::uint64_t k_bounce = mpi_edge::k_bounce_bytes;
  constexpr std::uint64_t k_chunk = 40000;
  b.start(2);
  for (const std::uint64_t capacity : {k_bounce - 1, k_bounce, k_bounce + 1, 3 * k_chunk + 1, std::uint64_t{1} << 20}) {
    b.connect(exam::kinds_of_route(capacity));
    round_no round = 0;
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, k_bounce - 1, k_bounce, k_bounce + 1, k_chunk,
                                      k_chunk + 1, 2 * k_chunk, 3 * k_chunk + 1, std::uint64_t{1} << 20}) {
      if (bytes > capacity) continue;
      ++round;
      std::vector<exam::parcel> what;
      for (std::size_t i = 0; i < b.routes(); ++i) what.push_back({bytes, 100 * round + i, (round + i) % 5 == 0});
      for (exam::parcel& it : what)
        if (it.null) it.bytes = 0;
      exam::transfer(b, round, what, round % 2 == 0 ? exam::first::send : exam::first::receive);
    }
    b.disconnect();
  }
}

/// Raises many signals repeatedly, while earlier values are in flight. The number of signals exceeds the size of one
/// batch. The last values must reach the peer even if the sender detaches the instance before the values are sent.
void crowds_of_signals_merge_and_outlive_their_instance(exam::bench& b) {
  constexpr std::uint32_t k_edges = 150;
  b.start(2);
  for (int repetition = 0; repetition < 3; ++repetition) {
    std::vector<exam::route> routes;
    for (std::uint32_t tag = 0; tag < k_edges; ++tag) routes.push_back({.tag = tag, .signal = true});
    b.connect(routes);
    for (round_no round = 1; round <= 40; ++round)
      for (std::size_t i = 0; i < k_edges; ++i) b.signal(i, round);
    for (std::size_t i = 0; i < k_edges; ++i) b.signal(i, k_last_round);
    b.detach(0);
    std::vector<bool> is_armed(k_edges);
    for (std::size_t i = 0; i < k_edges; ++i) is_armed[i] = b.has(1) && !b.arm(i, k_last_round);
    for (std::size_t i = 0; i < k_edges; ++i)
      b.until([&] { return !is_armed[i] || b.wakes(i) == 1; }, "the last signal of a crowd");
    b.fence();
    b.disconnect();
  }
}

/// Every rank sends to all other ranks at once. The number of rounds exceeds a sender's credits, so receivers must
/// return credits.
void everybody_sends_to_everybody(exam::bench& b, bool credits) {
  const rank size = std::min<rank>(g_run.size, 5);
  b.start(size);
  std::vector<exam::route> routes;
  for (rank from = 0; from < size; ++from)
    for (rank to = 0; to < size; ++to)
      if (from != to)
        routes.push_back(
            {.from = from, .to = to, .tag = 5, .capacity = 50000, .foreign = from % 2 == 0, .in_place = to % 2 == 0});
  b.connect(routes, credits);
  for (round_no round = 1; round <= 60; ++round) {
    const auto letter = [round](std::size_t i) {
      constexpr std::array<std::uint64_t, 5> sizes{8, 0, 16384, 50000, 3000};
      return exam::parcel{sizes[(round + i) % sizes.size()], 1000 * round + i};
    };
    for (std::size_t i = 0; i < routes.size(); ++i) b.post_receive(i, round);
    for (std::size_t i = 0; i < routes.size(); ++i) b.post_send(i, round, letter(i));
    for (std::size_t i = 0; i < routes.size(); ++i) {
      b.await_parcel(i, letter(i));
      b.await_sent(i);
    }
  }
  b.fence();
}

/// With credits, a sender must not send the message of round 3 before the receiver has consumed the message of round 1.
/// If the sender did not wait, its send would complete at once.
void a_sender_without_credit_waits(exam::bench& b) {
  for (const bool in_place : {false, true}) {
    b.start(2);
    b.connect({{.capacity = 100, .in_place = in_place}}, true);
    for (round_no round = 1; round <= 9; ++round) {
      b.post_send(0, round, {8, round});
      if (round < 3) {
        b.await_sent(0);
        continue;
      }
      b.settle();
      exam::demand(!b.has(0) || !b.is_sent(0), "round ", round, " left without credit");
      b.fence();
      b.post_receive(0, round - 2);
      b.await_parcel(0, {8, round - 2});
      b.await_sent(0);
      b.fence();
    }
  }
}

/// An instance may end without receiving all messages. The remaining messages, including large messages, must disappear
/// with the world. The next world must not receive them, although MPI reuses the id of the communicator.
void unreceived_messages_do_not_haunt_the_next_world(exam::bench& b) {
  for (int repetition = 0; repetition < 5; ++repetition) {
    b.start(2);
    b.connect({{.capacity = 100}, {.tag = 1, .capacity = 100000}});
    const auto seed = static_cast<std::uint64_t>(repetition);
    b.post_send(0, 1, {8, seed});
    b.post_receive(0, 1);
    b.await_parcel(0, {8, seed});
    b.post_send(0, 2, {8, seed});
    b.post_send(1, 1, {90000, seed});
    b.fence();
    b.disconnect();
  }
}

/// Sends three messages as large as a bounce buffer before the receiver posts a receive. A later message must not
/// overwrite a bounce buffer that still holds an earlier message.
void bounce_buffers_are_not_overwritten(exam::bench& b) {
  constexpr std::uint64_t k_bytes = mpi_edge::k_bounce_bytes;
  b.start(2);
  b.connect({{.capacity = k_bytes}});
  for (round_no round = 1; round <= 60; round += 3) {
    for (round_no next = round; next < round + 3; ++next) {
      b.await_sent(0);  // the send waits while MPI still uses the bounce buffer
      b.post_send(0, next, {k_bytes, next});
    }
    for (round_no next = round; next < round + 3; ++next) {
      b.post_receive(0, next);
      b.await_parcel(0, {k_bytes, next});
    }
    b.await_sent(0);
    b.fence();
  }
}

/// These questions break the rules of other transports. They send three messages ahead of the receiver, and leave while
/// a message is in flight.
constexpr exam::question k_mpi_only_questions[]{
    {"bounce_buffers_are_not_overwritten", bounce_buffers_are_not_overwritten},
    {"unreceived_messages_do_not_haunt_the_next_world", unreceived_messages_do_not_haunt_the_next_world},
};

constexpr exam::question k_mpi_questions[]{
    {"a_sender_without_credit_waits", a_sender_without_credit_waits},
    {"payloads_around_the_limits", payloads_around_the_limits},
    {"crowds_of_signals_merge_and_outlive_their_instance", crowds_of_signals_merge_and_outlive_their_instance},
    {"everybody_sends_to_everybody", [](exam::bench& b) { everybody_sends_to_everybody(b, false); }},
    {"everybody_sends_to_everybody_with_credits", [](exam::bench& b) { everybody_sends_to_everybody(b, true); }},
};

/// The receiver's endpoint has five tags, one for each incoming edge. The tags of an ended instance must be reused, but
/// the tags of a cancelled instance must not.
std::string tags_are_used_again_unless_given_up() {
  auto opened = mpi_endpoint::open(MPI_COMM_WORLD, {.highest_tag = 6});
  if (!opened) return in_words(opened.error());
  mpi_endpoint& net = **opened;
  const auto home = net.open_home_board();
  std::uint32_t id = 100 * static_cast<std::uint32_t>(g_run.self);
  const auto attach = [&](std::uint32_t edges) {
    std::vector<edge_spec> ends;
    for (std::uint32_t tag = 0; tag < edges && g_run.self < 2; ++tag)
      ends.push_back({.outgoing = g_run.self == 0, .peer = 1 - g_run.self, .tag = tag, .capacity = 8});
    const auto links = net.attach(++id, everybody(), false, ends);
    return links ? status::ok : links.error().code;
  };
  const auto link = [&](std::uint32_t attached) {
    const auto all = exchange_addresses(net, *home, attached);
    return all ? net.link(attached, *all) : status::timeout;
  };
  const bool receives = g_run.self == 1;
  for (const bool is_linked : {false, true, true}) {
    if (attach(4) != status::ok) return "four edges do not fit into five tags";
    const std::uint32_t attached = id;
    if (is_linked && link(attached) != status::ok) return "cannot link";
    if (receives && attach(2) != status::no_memory) return "six edges fit into five tags";
    net.detach(attached);
  }
  if (attach(4) != status::ok || link(id) != status::ok) return "cannot link again";
  net.abandon(id);
  net.detach(id);
  if (receives && attach(2) != status::no_memory) return "tags of an instance that was given up are used again";
  if (receives && attach(1) != status::ok) return "an unused tag is lost";
  return {};
}

/// Returns the number of ranks that share memory with this rank, including itself.
rank sharing_ranks(const neighbourhood& info) {
  if (info.nodes.empty()) return g_run.size;
  return static_cast<rank>(std::ranges::count(info.nodes, info.nodes[static_cast<std::size_t>(g_run.self)]));
}

/// If the ranks of a node cannot share memory, they must communicate through MPI and report the reason. If ranks have
/// different options, all ranks must get an error.
std::string a_node_that_cannot_share_says_why() {
  neighbourhood info;
  auto opened = open_mpi_endpoint(MPI_COMM_WORLD, {.region_bytes = std::uint64_t{1} << 60}, &info);
  if (!opened) return in_words(opened.error());
  if ((*opened)->name() != "mpi") return "the endpoint shares more memory than there are addresses";
  if (info.description.find("cannot share memory") == std::string::npos)
    return "the description does not give the reason: " + info.description;
  if (sharing_ranks(info) != 1 || info.ranks != static_cast<unsigned>(g_run.size))
    return "the number of ranks is wrong";
  opened = open_mpi_endpoint(MPI_COMM_WORLD, {.ranks_per_node = g_run.self == 0 ? 1 : 2});
  if (opened || opened.error().code != status::mismatch) return "ranks disagreed without an error";
  opened = open_mpi_endpoint(MPI_COMM_WORLD, {.limits = {.chunk_bytes = 0}});
  if (opened || opened.error().code != status::argument) return "chunks without bytes were accepted";
  return {};
}

std::string the_endpoint_fits_the_node() {
  for (const mode& it : modes()) {
    neighbourhood info;
    auto opened = open_mpi_endpoint(MPI_COMM_WORLD, it.options, &info);
    if (!opened) return in_words(opened.error());
    rank expected = 1;
    if (!it.options.uses_mpi_alone) expected = g_run.size;
    if (it.options.ranks_per_node > 0) {
      const rank k = it.options.ranks_per_node;
      expected = std::min(k, g_run.size - g_run.self / k * k);
    }
    if (sharing_ranks(info) != expected)
      return std::string(it.name) + " shares with the wrong ranks: " + info.description;
    if (((*opened)->name() == "shm+mpi") != (expected > 1))
      return std::string(it.name) + " is " + std::string((*opened)->name());
    if ((*opened)->place() != world{g_run.self, g_run.size}) return std::string(it.name) + " has a wrong place";
    if (info.may_have_thread != (mpi_allows_auxiliary_thread() || expected == g_run.size))
      return "thread levels contradict each other";
    if (info.cores < 1 || (info.ranks == static_cast<unsigned>(g_run.size) &&
                           (info.ranks_per_core > 1) != (info.cores < static_cast<unsigned>(g_run.size))))
      return "the number of cores is wrong: " + std::to_string(info.cores);
  }
  return {};
}

/// An endpoint with one edge from each rank to the next rank. The edges are already linked.
struct ring {
  std::unique_ptr<mpi_endpoint> net;
  std::unique_ptr<board> home;
  link_id to_next = k_no_link;
  link_id from_previous = k_no_link;
};

std::string open_ring(ring& it, const mpi_limits& limits) {
  auto opened = mpi_endpoint::open(MPI_COMM_WORLD, limits);
  if (!opened) return in_words(opened.error());
  it.net = std::move(*opened);
  const rank next = (g_run.self + 1) % g_run.size;
  const rank previous = (g_run.self + g_run.size - 1) % g_run.size;
  const std::vector<edge_spec> ends{{.outgoing = true, .peer = next, .capacity = 8}, {.peer = previous, .capacity = 8}};
  it.home = it.net->open_home_board();
  const auto links = it.net->attach(0, everybody(), false, ends);
  if (!links) return in_words(links.error());
  it.to_next = (*links)[0];
  it.from_previous = (*links)[1];
  const auto all = exchange_addresses(*it.net, *it.home, 0);
  return all && it.net->link(0, *all) == status::ok ? "" : "cannot link";
}

/// Sends invalid messages by plain MPI calls on the tag of a payload edge. One message is shorter than a header, one
/// has the header of another round, and one is longer than the receive. The endpoint must report a transport error for
/// each message and deliver none of the messages. (The last message is short enough to be sent eagerly, because Open
/// MPI 4.1 writes past the receive buffer when it fetches a longer message.)
std::string a_broken_message_is_noticed() {
  for (const std::size_t bytes : {std::size_t{7}, std::size_t{64}, std::size_t{1000}}) {
    ring it;
    if (std::string wrong = open_ring(it, {.shutdown = 1ms}); !wrong.empty()) return wrong;
    constexpr int k_first_tag = 2;
    const std::vector<std::byte> garbage(bytes, std::byte{0x11});
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Isend(garbage.data(), static_cast<int>(bytes), MPI_BYTE, (g_run.self + 1) % g_run.size, k_first_tag,
                  it.net->communicator(), &request) != MPI_SUCCESS)
      return "MPI_Isend failed";
    std::byte target[8];
    arrival news;
    std::array<completion, 4> out;
    bool is_delivered = it.net->receive(it.from_previous, 1, target, news);
    const clock::time_point deadline = clock::now() + k_patience;
    while (it.net->health() == status::ok && !is_delivered && clock::now() < deadline)
      is_delivered = it.net->poll(out) != 0;
    if (!settle(request)) return "the message did not leave";
    if (is_delivered) return std::to_string(bytes) + " bytes of garbage were delivered";
    if (it.net->health() != status::transport) return std::to_string(bytes) + " bytes of garbage were not noticed";
    if (it.net->poll(out) != 0) return "a failed endpoint completed an op";
  }
  return {};
}

/// The shutdown of an endpoint must respect its time limit. Rank 0 closes after the other ranks, so its neighbours in
/// the ring wait for the last record of rank 0 until the limit. A posted receive is cancelled. (UCX may warn at exit
/// about requests that were never freed.)
std::string a_shutdown_without_answer_is_bounded() {
  constexpr auto k_shutdown = 300ms;
  ring it;
  if (std::string wrong = open_ring(it, {.shutdown = k_shutdown}); !wrong.empty()) return wrong;
  std::byte target[8];
  arrival news;
  if (it.net->receive(it.from_previous, 1, target, news)) return "received a message that no rank has sent";
  const bool is_neighbour = g_run.self == 1 || (g_run.self != 0 && g_run.self == g_run.size - 1);
  const clock::time_point begin = clock::now();
  if (g_run.self != 0) it.net->close();
  const auto taken = clock::now() - begin;
  MPI_Barrier(MPI_COMM_WORLD);
  if (g_run.self == 0) it.net->close();
  if (is_neighbour && taken < k_shutdown) return "the shutdown did not wait for rank 0";
  if (taken > k_shutdown + 5s) return "the shutdown exceeded its limit";
  return {};
}

// --- real engines ------------------------------------------------------------------------------------------

/// An endpoint with an engine and a driver. close() checks that no instances remain and that the shutdown is complete.
class station {
 public:
  explicit station(const mpi_options& options) {
    auto opened = open_mpi_endpoint(MPI_COMM_WORLD, options);
    exam::demand(opened.has_value(), opened ? "" : opened.error().text);
    net_ = std::move(*opened);
    engine_.emplace(*net_);
    commits_.emplace(*engine_);
    driver_.emplace(*engine_,
                    make_idle_policy(idle_mode::automatic, static_cast<unsigned>(g_run.size), usable_cores()));
  }

  driver& drive() { return *driver_; }

  /// Makes the engine check which signals of the instance have arrived.
  void post(instance& it) {
    engine_->post(it);
    driver_->run_posted();
  }
  world place() const { return net_->place(); }

  instance& commit(const commit_request& what) {
    std::shared_ptr<schedule_commit> made;
    driver_->with_engine([&] { made = commits_->add(what); });
    const status answer = driver_->wait(made->progress(), clock::now() + k_patience);
    exam::demand(answer == status::ok, "commit: ", name_of(answer), " ", made->why().text);
    return *made->committed();
  }

  void demand_ok(status answer, const instance& it, round_no round) {
    if (answer == status::ok) return;
    std::string text;
    driver_->with_engine([&] { text = engine_->describe_wait(it, nullptr); });
    exam::demand(false, "round ", round, ": ", name_of(answer), ", ", text);
  }

  void remove(instance& it) {
    status answer = status::internal;
    driver_->with_engine([&] { answer = engine_->remove(it); });
    exam::demand(answer == status::ok, "remove: ", name_of(answer));
  }

  /// Must be called on all ranks. Checks that the shutdown takes less than k_hasty. A longer shutdown has reached its
  /// time limit.
  void close() {
    exam::demand(engine_->instance_count() == 0, "instances remain");
    exam::demand(net_->liveness().health() == status::ok, "the endpoint is not in good health");
    const clock::time_point begin = clock::now();
    net_->close();
    exam::demand(clock::now() - begin < k_hasty, "the shutdown was cut short");
  }

 private:
  std::unique_ptr<endpoint> net_;
  std::optional<engine> engine_;
  std::optional<driver> driver_;
  std::optional<testing::home_commits> commits_;
};

using numbers = std::vector<std::int64_t>;

clock::time_point soon() { return clock::now() + k_patience; }

std::byte* bytes_of(numbers& it) { return reinterpret_cast<std::byte*>(it.data()); }

/// Runs rounds of an allreduce and checks the sums. In round r, element k of a rank is rank + r + k.
void run_allreduce(station& at, std::uint64_t count, int rounds) {
  const world place = at.place();
  numbers input(count);
  numbers output(count);
  instance& it = at.commit({"allreduce " + std::to_string(count),
                            allreduce_recursive_doubling(place, {count, dtype::i64, kernel::sum, false}),
                            {{bytes_of(input)}, {bytes_of(output)}},
                            {}});
  const std::int64_t size = place.size;
  for (int round = 1; round <= rounds; ++round) {
    for (std::size_t k = 0; k < count; ++k) input[k] = place.self + round + static_cast<std::int64_t>(k);
    round_no started = 0;
    at.demand_ok(at.drive().run(it, &started, soon()), it, static_cast<round_no>(round));
    for (std::size_t k = 0; k < count; ++k)
      exam::demand(output[k] == size * (round + static_cast<std::int64_t>(k)) + size * (size - 1) / 2, "round ", round,
                   ", element ", k, " is ", output[k]);
  }
  at.remove(it);
}

/// Runs rounds of a partial allreduce. Element k of every offer is 1 + k mod 3, so that a result shows the number of
/// offers that it contains. After all ranks have left, the results on every rank must contain each offer exactly once.
void run_partial(station& at, activation_policy policy, std::uint64_t count, int rounds) {
  const world place = at.place();
  numbers gradient(count);
  numbers result(count);
  for (std::size_t k = 0; k < count; ++k) gradient[k] = 1 + static_cast<std::int64_t>(k % 3);
  instance& it = at.commit({std::string(name_of(policy)) + " " + std::to_string(count),
                            partial_allreduce(place, {count, dtype::i64, kernel::sum, false}, {policy, 7}),
                            {},
                            {lag_policy::accumulate}});
  std::uint64_t found = 0;
  const auto collect = [&] {
    const auto got = it.partial->fragments.front().results->collect(bytes_of(result));
    if (!got || got->null) return;
    found += got->offers;
    for (std::size_t k = 0; k < count; ++k)
      exam::demand(result[k] == gradient[k] * static_cast<std::int64_t>(got->offers), "rounds ", got->from, " to ",
                   got->to, ", element ", k, " is ", result[k], " with ", got->offers, " offers");
  };
  for (int round = 1; round <= rounds; ++round) {
    it.partial->fragments.front().offers->offer(bytes_of(gradient));
    it.called.store(static_cast<round_no>(round));
    at.post(it);
    at.demand_ok(at.drive().wait(it, static_cast<round_no>(round), soon()), it, static_cast<round_no>(round));
    collect();
  }
  it.partial->fragments.front().offers->leave();
  it.called.store(k_last_round);
  at.post(it);
  at.demand_ok(at.drive().wait(it, k_last_round, soon()), it, k_last_round);
  collect();
  const auto offered = static_cast<std::uint64_t>(rounds) * static_cast<std::uint64_t>(place.size);
  exam::demand(found == offered, offered, " offers were made, the results hold ", found);
  at.remove(it);
}

/// Runs rounds of a barrier, which consists of signals only. There are no values to compare, but every round must end.
void run_barrier(station& at, int rounds) {
  instance& it = at.commit({"barrier", barrier_dissemination(at.place()), {}, {}});
  for (int round = 1; round <= rounds; ++round) {
    round_no started = 0;
    at.demand_ok(at.drive().run(it, &started, soon()), it, static_cast<round_no>(round));
  }
  at.remove(it);
}

/// Runs `job` on a new station and closes the station. If `has_auxiliary` is true, a progress thread runs meanwhile.
template <class Job>
std::string on_station(const mpi_options& options, bool has_auxiliary, Job&& job) {
  try {
    station at(options);
    {
      std::optional<progress_thread> helper;
      if (has_auxiliary) helper.emplace(at.drive(), std::nullopt);
      job(at);
    }
    at.close();
  } catch (const exam::complaint& found) {
    return found.text;
  }
  return {};
}

int rounds_of(std::uint64_t count) {
  if (g_run.is_full) return 2000;
  return count > 10000 ? 60 : 300;
}

void check_engines(const mode& how) {
  const std::string prefix = std::string("engine.") + how.name + ".";
  for (const std::uint64_t count : {0u, 1u, 7u, 1000u, 100000u}) {
    const std::string suffix = "." + std::to_string(count);
    const int rounds = rounds_of(count);
    check(prefix + "allreduce" + suffix,
          [&] { return on_station(how.options, false, [&](station& at) { run_allreduce(at, count, rounds); }); });
    check(prefix + "solo" + suffix, [&] {
      return on_station(how.options, false,
                        [&](station& at) { run_partial(at, activation_policy::solo, count, rounds); });
    });
    check(prefix + "majority" + suffix, [&] {
      return on_station(how.options, false,
                        [&](station& at) { run_partial(at, activation_policy::majority, count, rounds); });
    });
  }
  check(prefix + "with_auxiliary_thread", [&] {
    if (!mpi_allows_auxiliary_thread()) return std::string("MPI_THREAD_MULTIPLE was asked for and refused");
    return on_station(how.options, true, [&](station& at) {
      run_allreduce(at, 100, 100);
      run_partial(at, activation_policy::solo, 5000, 100);
      run_partial(at, activation_policy::majority, 3, 100);
    });
  });
  check(prefix + "one_after_another", [&] {
    return on_station(how.options, false, [&](station& at) {
      for (int i = 0; i < 20; ++i) {
        run_allreduce(at, static_cast<std::uint64_t>(i) * 500, 5);
        run_partial(at, activation_policy::solo, static_cast<std::uint64_t>(i) * 300, 5);
        run_barrier(at, 20);
      }
    });
  });
}

void check_endpoints() {
  check("world.fits", the_endpoint_fits_the_node);
  check("world.says_why", a_node_that_cannot_share_says_why);
  check("tags", tags_are_used_again_unless_given_up);
  for (const exam::question& it : k_mpi_only_questions)
    check(std::string("exam.mpi.") + it.name, [&] { return examine(it, {.uses_mpi_alone = true}); });
  for (const mode& how : modes()) {
    mpi_options options = how.options;
    options.limits.chunk_bytes = 40000;
    const std::string prefix = std::string("exam.") + how.name + ".";
    for (const exam::question& it : k_mpi_questions) check(prefix + it.name, [&] { return examine(it, options); });
    if (g_run.size > 3) continue;  // the questions need at most three ranks
    for (const exam::question& it : exam::k_questions) check(prefix + it.name, [&] { return examine(it, options); });
  }
}

}  // namespace
}  // namespace lsched

int main(int argc, char** argv) {
  using namespace lsched;
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_run.self);
  MPI_Comm_size(MPI_COMM_WORLD, &g_run.size);
  if (argc > 1) g_run.only = argv[1];
  g_run.is_full = std::getenv("LSCHED_TEST_FULL") != nullptr;
  lsched::testing::limit_this_process();

  check_endpoints();
  for (const mode& how : modes()) check_engines(how);
  check("broken", a_broken_message_is_noticed);
  check("shutdown", a_shutdown_without_answer_is_bounded);

  // An application may call MPI_Finalize before it closes its worlds. Closing an endpoint afterwards must not call MPI.
  auto survivor = open_mpi_endpoint(MPI_COMM_WORLD, {.region_bytes = std::uint64_t{1} << 20});
  MPI_Finalize();
  if (!survivor) return 1;
  survivor->reset();
  if (g_run.self == 0) std::printf("%d passed, 0 failed\n", g_run.passed);
  return g_run.passed > 0 ? 0 : 1;
}
