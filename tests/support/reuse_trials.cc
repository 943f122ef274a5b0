#include "tests/support/reuse_trials.h"
#include "tests/support/exact_algorithms.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/c/lsched.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "libsched/schedule/draw.h"
#include "tests/support/c_request.h"
#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"
#include "tests/support/open_threads.h"
#include "tests/support/shared_object.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

using value = std::int64_t;

constexpr std::uint64_t k_limit_ns = 60'000'000'000;
constexpr int k_rounds = 3;

/// Counts of rounds by their result, summed over all ranks.
struct tally {
  std::atomic<std::uint64_t> finished, failed, wrong;
};

/// A random collective with a random culprit. The culprit is the rank that cancels or dies. All ranks draw the same
/// values from the seed.
struct drawn_collective {
  drawn_collective(std::uint64_t from, rank ranks)
      : seed(from), size(ranks), salt(static_cast<value>(mix(from) % 1000)) {
    constexpr std::array<std::uint64_t, 6> k_counts{0, 1, 900, 3000, 30'000, 200'000};
    do {
      which = exact_algorithms()[draw(exact_algorithms().size())];
      data = typical_shape(*which->of, size, k_counts[draw(k_counts.size())], dtype::i64, kernel::sum);
      if (which->of->is_rooted) data.root = draw_rank();
    } while (validate(*which, {0, size}, data) || elements_of(0) > k_most_elements);
    promise = which->of->contents_of(size, data);
    culprit = draw_rank();
    late = draw_rank();
    enters_in_time = draw(2) == 0;
    last_round = 1 + static_cast<int>(draw(k_rounds));
    looks = draw(2) == 0 ? draw(30) : draw(3000);
  }
  std::uint64_t draw(std::uint64_t below) { return mix(seed + ++draws) % below; }
  rank draw_rank() { return static_cast<rank>(draw(static_cast<std::uint64_t>(size))); }
  std::uint64_t elements_of(rank self) const {
    const extents both = which->of->extents_of({self, size}, data);
    return both.input.value_or(0) + both.output.value_or(0);
  }
  value element(rank of, int round, std::uint64_t index) const {
    return salt + static_cast<value>(index * 31) + (of + 1) * 1'000'003 + round * 7919;
  }

  static constexpr std::uint64_t k_most_elements = 1'000'000;
  std::uint64_t seed;
  rank size;
  value salt;
  std::uint64_t draws = 0;
  const algorithm* which = nullptr;
  shape data{};
  postcondition promise{};
  rank culprit = 0;
  rank late = 0;
  bool enters_in_time = false;  ///< whether the late rank starts the round in time, and only its wait for the end of
                                ///< the round is late
  int last_round = 1;           ///< round in which the culprit ends the schedule
  std::uint64_t looks = 0;      ///< number of times that the culprit polls its last round before it ends the schedule
};

/// One rank of a collective, with input and output buffers in memory of the library or of the program.
class rank_of_collective {
 public:
  rank_of_collective(const drawn_collective& what, rank self, lsched_world* world) : what_(what), self_(self) {
    const extents both = what.which->of->extents_of({self, what.size}, what.data);
    input_count_ = both.input.value_or(0);
    output_count_ = both.output.value_or(0);
    world_ = (mix(what.seed) + static_cast<std::uint64_t>(self)) % 2 == 0 ? world : nullptr;
    memory_ = allocate(input_count_ + output_count_ + 1);
  }
  ~rank_of_collective() {
    if (world_ != nullptr) (void)lsched_free(world_, memory_);
  }
  rank_of_collective(const rank_of_collective&) = delete;
  rank_of_collective& operator=(const rank_of_collective&) = delete;

  lsched_status create(lsched_world* world, lsched_schedule** schedule) {
    c_request request(*what_.which->of, {self_, what_.size}, what_.data, what_.which->name);
    request.desc.input = memory_;
    request.desc.output = memory_ + input_count_;
    return lsched_collective_create(world, &request.desc, schedule, nullptr);
  }

  void fill(int round) {
    for (std::uint64_t i = 0; i < input_count_; ++i) memory_[i] = what_.element(self_, round, i);
  }

  /// Overwrites the buffers with values that must not reach another rank.
  void reuse() { std::fill_n(memory_, input_count_ + output_count_, value{1} << 60); }

  bool is_right(int round) const {
    for (const promised_range& it : what_.promise.ranges)
      for (std::uint64_t i = it.begin; it.holder == self_ && it.what != promised_content::nothing && i < it.end; ++i)
        if (memory_[input_count_ + i] != promised(it, round, it.input_begin + i - it.begin)) return false;
    return true;
  }

 private:
  value* allocate(std::uint64_t count) {
    void* place = nullptr;
    if (world_ != nullptr && lsched_alloc(world_, count * sizeof(value), &place) == LSCHED_OK)
      return static_cast<value*>(place);
    world_ = nullptr;
    own_.resize(count);
    return own_.data();
  }

  value promised(const promised_range& it, int round, std::uint64_t from) const {
    if (it.what == promised_content::moved) return what_.element(it.source, round, from);
    value sum = 0;
    for (const rank r : it.among) sum += what_.element(r, round, from);
    for (rank r = 0; it.among.empty() && r < what_.size; ++r) sum += what_.element(r, round, from);
    return sum;
  }

  const drawn_collective& what_;
  const rank self_;
  lsched_world* world_ = nullptr;  ///< world that owns the memory; null: the program owns the memory
  std::uint64_t input_count_ = 0, output_count_ = 0;
  std::vector<value> own_{};
  value* memory_ = nullptr;
};

bool has_ended_early(lsched_status answer) { return answer == LSCHED_ERR_PEER || answer == LSCHED_ERR_CANCELLED; }

/// Delays this rank until a round has failed on another rank, but for at most 50 ms. The other rank reuses its buffers
/// at once. These buffers may contain messages that this rank has not read yet.
void come_late(const tally& all, std::uint64_t failed_before) {
  wait_until([&] { return all.failed != failed_before; }, std::chrono::milliseconds(50));
}

lsched_status play_round(const drawn_collective& what, rank self, int round, lsched_schedule* schedule,
                         const tally& all) {
  const bool is_late = self == what.late && round == what.last_round;
  const std::uint64_t failed_before = all.failed;
  if (is_late && !what.enters_in_time) come_late(all, failed_before);
  lsched_ticket ticket{};
  const lsched_status answer = lsched_start(schedule, &ticket);
  if (is_late && what.enters_in_time) come_late(all, failed_before);
  return answer == LSCHED_OK ? lsched_wait(ticket, k_limit_ns, nullptr) : answer;
}

/// Runs rounds and checks their results. If a round fails, overwrites the buffers at once.
lsched_status run_rounds(const drawn_collective& what, rank self, rank_of_collective& mine, lsched_schedule* schedule,
                         tally& all) {
  const int rounds = self == what.culprit ? what.last_round - 1 : k_rounds;
  for (int round = 1; round <= rounds; ++round) {
    mine.fill(round);
    const lsched_status answer = play_round(what, self, round, schedule, all);
    if (answer != LSCHED_OK) {
      mine.reuse();
      ++all.failed;
      return answer;
    }
    ++all.finished;
    if (!mine.is_right(round)) ++all.wrong;
  }
  return LSCHED_OK;
}

/// Starts the last round of the culprit, and polls the round a limited number of times.
lsched_status begin_last_round(const drawn_collective& what, rank_of_collective& mine, lsched_schedule* schedule) {
  lsched_ticket ticket{};
  mine.fill(what.last_round);
  const lsched_status answer = lsched_start(schedule, &ticket);
  for (std::uint64_t i = 0; answer == LSCHED_OK && i < what.looks && lsched_test(ticket) == LSCHED_PENDING; ++i)
    continue;
  return answer;
}

reuse_result result_of(const tally& all, std::string complaints) {
  if (all.wrong != 0) complaints += std::to_string(all.wrong.load()) + " finished rounds have wrong numbers; ";
  return {all.finished.load(), all.failed.load(), std::move(complaints)};
}

// --- cancels -------------------------------------------------------------------------------------------------------

/// Cancels a schedule. LSCHED_ERR_BUSY means that another rank has been reading this rank's buffers for more than 100
/// ms. This happens when other programs use the reader's core. The buffers must not be reused yet, so this function
/// cancels again.
lsched_status cancel(lsched_schedule* schedule) {
  constexpr std::chrono::nanoseconds limit(k_limit_ns);
  const auto end = std::chrono::steady_clock::now() + limit;
  lsched_status answer = LSCHED_ERR_BUSY;
  while (answer == LSCHED_ERR_BUSY && std::chrono::steady_clock::now() < end) answer = lsched_cancel(schedule, nullptr);
  return answer;
}

/// Runs a schedule on one rank. Returns a description of the failure, or an empty string.
std::string play_cancel(lsched_world* world, rank self, const drawn_collective& what, tally& all) {
  rank_of_collective mine(what, self, world);
  lsched_schedule* schedule = nullptr;
  if (mine.create(world, &schedule) != LSCHED_OK) return "a create fails; ";
  lsched_status answer = run_rounds(what, self, mine, schedule, all);
  if (self == what.culprit && answer == LSCHED_OK) {
    answer = begin_last_round(what, mine, schedule);
    if (answer == LSCHED_OK) answer = cancel(schedule);
    mine.reuse();
  }
  const lsched_status end = lsched_schedule_destroy(schedule, k_limit_ns, nullptr);
  if ((answer == LSCHED_OK || answer == LSCHED_ERR_CANCELLED) && end == LSCHED_OK) return {};
  return std::string(what.which->of->name) + "/" + std::string(what.which->name) + ", rank " + std::to_string(self) +
         ": " + lsched_status_name(answer) + ", destroy " + lsched_status_name(end) + "; ";
}

}  // namespace

reuse_result reuse_after_cancels(rank ranks, std::uint64_t seed, std::uint64_t cancels) {
  std::vector<lsched_world*> worlds(static_cast<std::size_t>(ranks));
  if (open_threads(ranks, nullptr, worlds.data(), nullptr) != LSCHED_OK) return {0, 0, "open fails"};
  tally all{};
  std::mutex lock;
  std::string complaints;
  const auto live = [&](rank self) {
    lsched_world* const world = worlds[static_cast<std::size_t>(self)];
    std::string mine;
    for (std::uint64_t i = 0; i < cancels && mine.empty(); ++i) {
      const drawn_collective what(mix(seed * 1'000'000 + i), ranks);
      mine += play_cancel(world, self, what, all);
    }
    if (lsched_world_close(world) != LSCHED_OK) mine += "close fails; ";
    const std::scoped_lock held(lock);
    complaints += mine;
  };
  std::vector<std::jthread> threads;
  for (rank r = 0; r < ranks; ++r) threads.emplace_back(live, r);
  threads.clear();
  return result_of(all, std::move(complaints));
}

// --- deaths --------------------------------------------------------------------------------------------------------

namespace {

/// A rank that runs collectives. It stops when it is the culprit and dies, or when only two ranks are left.
class mortal {
 public:
  mortal(std::uint64_t seed, rank self, tally& all) : seed_(seed), self_(self), all_(all) {}

  bool live(const shm_segment& segment) {
    be_launched(segment, self_);
    lsched_config config;
    lsched_config_init(&config);
    config.progress = seed_ % 2 == 0 ? LSCHED_PROGRESS_CALLER : LSCHED_PROGRESS_THREAD;
    if (!is(lsched_world_open(&config, &world_, nullptr), "open")) return false;
    while (lsched_size(world_) > 2) {
      lsched_status answer = agree();
      if (answer == LSCHED_OK) answer = play();
      if (has_ended_early(answer) ? !shrink() : !is(answer, "step")) return false;
    }
    return is(lsched_world_close(world_), "close");
  }

 private:
  bool is(lsched_status answer, const char* call) const {
    if (answer != LSCHED_OK)
      std::fprintf(stderr, "seed %llu rank %d: %s: %s\n", static_cast<unsigned long long>(seed_), self_, call,
                   lsched_status_name(answer));
    return answer == LSCHED_OK;
  }

  /// Agrees with the other ranks on the index of the next collective, because a collective may have succeeded on some
  /// ranks and failed on others.
  lsched_status agree() {
    value next = 0;
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = &next_,
                                      .output = &next,
                                      .count = 1,
                                      .dtype = LSCHED_I64,
                                      .reduction = LSCHED_MAX};
    lsched_schedule* schedule = nullptr;
    lsched_status answer = lsched_collective_create(world_, &desc, &schedule, nullptr);
    if (answer != LSCHED_OK) return answer;
    answer = lsched_run(schedule, k_limit_ns, nullptr);
    const lsched_status end = lsched_schedule_destroy(schedule, k_limit_ns, nullptr);
    if (answer == LSCHED_OK) next_ = next;
    return answer == LSCHED_OK ? end : answer;
  }

  lsched_status play() {
    const rank self = lsched_rank(world_);
    const drawn_collective what(mix(seed_ * 1'000'000 + static_cast<std::uint64_t>(next_++)), lsched_size(world_));
    rank_of_collective mine(what, self, world_);
    lsched_schedule* schedule = nullptr;
    lsched_status answer = mine.create(world_, &schedule);
    if (answer != LSCHED_OK) return answer;
    answer = run_rounds(what, self, mine, schedule, all_);
    if (self == what.culprit && answer == LSCHED_OK) {
      (void)begin_last_round(what, mine, schedule);
      (void)raise(SIGKILL);
    }
    const lsched_status end = lsched_schedule_destroy(schedule, k_limit_ns, nullptr);
    return end == LSCHED_OK ? answer : end;
  }

  bool shrink() {
    lsched_world* survivors = nullptr;
    if (!is(lsched_shrink(world_, k_limit_ns, &survivors, nullptr), "shrink")) return false;
    return is(lsched_world_close(std::exchange(world_, survivors)), "close");
  }

  const std::uint64_t seed_;
  const rank self_;
  tally& all_;
  lsched_world* world_ = nullptr;
  value next_ = 0;
};

}  // namespace

reuse_result reuse_after_deaths(rank ranks, std::uint64_t seed) {
  const auto segment = shm_segment::create(ranks, std::size_t{256} << 20);
  if (!segment) return {0, 0, segment.error().text};
  shared_object<tally> all;
  child_ranks children(ranks, [&](rank self) { return mortal(seed, self, *all).live(**segment) ? 0 : 1; });
  int deaths = 0;
  std::string complaints;
  for (rank r = 0; r < ranks; ++r) {
    const std::string end = children.wait(r);
    const bool is_killed = end.ends_with("by signal 9");
    deaths += is_killed ? 1 : 0;
    if (!is_killed && !end.empty()) complaints += end + "; ";
  }
  if (deaths != ranks - 2) complaints += std::to_string(deaths) + " ranks have died; ";
  return result_of(*all, std::move(complaints));
}

// --- a late reader -------------------------------------------------------------------------------------------------

namespace {

struct late_board {
  std::atomic<bool> is_reused, is_read;
};

void await(const std::atomic<bool>& flag) {
  wait_until([&] { return flag.load(); }, std::chrono::seconds(2));
}

/// Runs a broadcast in which rank 0 sends to ranks 1 and 2. Rank 1 dies, and rank 2 forwards the message to rank 3.
/// Returns false if a result is wrong.
bool broadcast_before_a_death(const shm_segment& segment, rank self, late_board& board) {
  be_launched(segment, self);
  lsched_config config;
  lsched_config_init(&config);
  config.progress = LSCHED_PROGRESS_CALLER;
  lsched_world* world = nullptr;
  if (lsched_world_open(&config, &world, nullptr) != LSCHED_OK) return false;
  void* memory = nullptr;
  if (lsched_alloc(world, 30'000 * sizeof(value), &memory) != LSCHED_OK) return false;
  const std::span<value> data(static_cast<value*>(memory), 30'000);
  std::ranges::fill(data, self == 0 ? 7 : 0);
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = "bcast",
                                    .input = data.data(),
                                    .output = data.data(),
                                    .count = data.size(),
                                    .dtype = LSCHED_I64,
                                    .algorithm = "binomial"};
  lsched_schedule* schedule = nullptr;
  if (lsched_collective_create(world, &desc, &schedule, nullptr) != LSCHED_OK) return false;
  if (self == 3) await(board.is_reused);
  const lsched_status answer = lsched_run(schedule, k_limit_ns, nullptr);
  if (self == 1) (void)raise(SIGKILL);
  const bool is_right = std::ranges::all_of(data, [](value one) { return one == 7; });
  std::ranges::fill(data, 8);
  if (self == 3) board.is_read = true;
  if (answer != LSCHED_OK) board.is_reused = true;
  await(board.is_read);
  const bool has_ended = lsched_schedule_destroy(schedule, k_limit_ns, nullptr) == LSCHED_OK;
  return has_ended && (answer == LSCHED_OK ? is_right : answer == LSCHED_ERR_PEER) &&
         lsched_world_close(world) == LSCHED_OK;
}

}  // namespace

std::string reuse_before_a_late_reader() {
  const auto segment = shm_segment::create(4, std::size_t{64} << 20);
  if (!segment) return segment.error().text;
  shared_object<late_board> board;
  child_ranks children(4, [&](rank self) { return broadcast_before_a_death(**segment, self, *board) ? 0 : 1; });
  std::string complaints;
  for (rank r = 0; r < 4; ++r)
    if (const std::string end = children.wait(r); r != 1) complaints += end;
  return complaints;
}

}  // namespace lsched::testing
