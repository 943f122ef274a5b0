#include "microbench/rounds.h"

#include <algorithm>

namespace lsched::bench {
namespace {

constexpr std::uint64_t k_blocks = 5;
constexpr std::size_t k_least_rounds = 3;

void call(const std::function<void()>& job) {
  if (job) job();
}

/// The times at which this rank entered and left the first round.
struct visit {
  clock::time_point from, to;
};

std::vector<double> time_rounds(cell& c, team& ranks, std::uint64_t rounds, visit* first = nullptr) {
  std::vector<double> us;
  us.reserve(rounds);
  ranks.barrier();
  auto before = clock::now();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    if (c.has_barriers && i > 0) {
      ranks.barrier();
      before = clock::now();
    }
    c.run();
    const auto after = clock::now();
    us.push_back(ns_between(before, after) / 1e3);
    if (first != nullptr && i == 0) *first = {before, after};
    before = after;
    call(c.after_round);
  }
  return us;
}

/// Returns 1 on rank 0 if a rank left a barrier before all ranks had entered the barrier, otherwise 0. Also returns 0
/// if the ranks are on several machines, because their clocks cannot be compared.
double left_too_early(team& ranks, const visit& own) {
  const auto ns = [](clock::time_point t) {
    return std::chrono::duration<double, std::nano>(t.time_since_epoch()).count();
  };
  const double last_in = ranks.combine(ns(own.from), LSCHED_MAX);
  const double first_out = ranks.combine(ns(own.to), LSCHED_MIN);
  return ranks.is_root() && ranks.local_ranks() == ranks.size() && first_out < last_in ? 1 : 0;
}

/// Runs one round on new inputs and checks the results. Returns the duration. Because the inputs have just been
/// written, this duration is used only if there is no time for more rounds.
double checked_round(cell& c, team& ranks, std::uint64_t salt) {
  if (c.fill) c.fill(salt);
  visit own{};
  const double us = time_rounds(c, ranks, 1, &own)[0];
  if (c.count_wrong) c.wrong += c.count_wrong(salt);
  if (c.is_barrier) c.wrong += left_too_early(ranks, own);
  return us;
}

/// Runs rounds in batches. Each batch has twice as many rounds as the previous batch. Stops when half of the block's
/// time has passed, because the next batch would take the other half. The duration of a batch is not predicted, because
/// a few rounds cannot predict many rounds if ranks share cores.
void run_block(cell& c, team& ranks, const turn_limits& limits, std::uint64_t block) {
  const std::uint64_t most = std::max<std::uint64_t>(limits.iterations / k_blocks, 1);
  const auto start = clock::now();
  const double block_ms = limits.cell_ms / static_cast<double>(k_blocks);
  const auto is_over = [&] { return ranks.root_says(ms_between(start, clock::now()) > block_ms / 2); };
  double cpu_before = cpu_ms();
  const double first_us = checked_round(c, ranks, block);
  if (is_over() || most == 1) {
    c.us.push_back(first_us);
    c.cpu_us += (cpu_ms() - cpu_before) * 1e3;
    return;
  }
  call(c.calm);
  std::uint64_t done = 0;
  cpu_before = cpu_ms();
  for (std::uint64_t portion = 1; done < most; portion *= 2) {
    const std::uint64_t rounds = std::min(portion, most - done);
    const auto us = time_rounds(c, ranks, rounds);
    c.us.insert(c.us.end(), us.begin(), us.end());
    done += rounds;
    if (is_over()) break;
  }
  c.cpu_us += (cpu_ms() - cpu_before) * 1e3;
  if (!c.in_place && c.count_wrong) c.wrong += c.count_wrong(block);
}

/// Runs a block or the warm-up of a cell. When all ranks have finished, adds the time on rank 0's clock to the cell's
/// time.
template <class Job>
void charge(cell& c, team& ranks, turn_limits& limits, const Job& job) {
  const auto start = clock::now();
  call(c.open);
  job();
  call(c.close);
  ranks.barrier();
  const double ms = ms_between(start, clock::now());
  c.spent_ms += ms;
  if (c.spins) limits.spinners_ms -= ms;
}

void warm_up(cell& c, team& ranks, turn_limits& limits) {
  c.is_left_out = ranks.root_says(c.spins && limits.spinners_ms < 0);
  if (c.is_left_out) return;
  charge(c, ranks, limits, [&] {
    const double us = checked_round(c, ranks, 0);  // touches every page
    if (ranks.root_says(us > 10'000)) return;
    call(c.calm);
    time_rounds(c, ranks, 2);
  });
  c.spent_ms = 0;
}

bool has_had_enough(const cell& c, team& ranks, const turn_limits& limits, std::uint64_t block) {
  const bool is_late = clock::now() > limits.end;
  const std::size_t least = c.spins || is_late ? 1 : k_least_rounds;
  const double next_ms = block > 1 ? c.spent_ms / static_cast<double>(block - 1) : 0;
  return ranks.root_says(c.us.size() >= least && (is_late || c.spent_ms + next_ms > 1.2 * limits.cell_ms));
}

}  // namespace

void take_turns(std::vector<cell>& cells, team& ranks, turn_limits& limits, const std::string& label, reporter& out) {
  for (cell& c : cells) {
    out.progress("%s, warming up", label.c_str());
    warm_up(c, ranks, limits);
  }
  for (std::uint64_t block = 1; block <= k_blocks; ++block)
    for (cell& c : cells) {
      out.progress("%s, block %d of %d", label.c_str(), static_cast<int>(block), static_cast<int>(k_blocks));
      if (c.is_left_out || has_had_enough(c, ranks, limits, block)) continue;
      charge(c, ranks, limits, [&] { run_block(c, ranks, limits, block); });
    }
}

result result_of(const cell& c, team& ranks) {
  result row = c.keys;
  row.update(times_of(summarise(ranks.combine(c.us, LSCHED_MAX))));
  row["wrong"] = ranks.combine(c.wrong, LSCHED_SUM);
  return row;
}

}  // namespace lsched::bench
