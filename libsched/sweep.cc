#include "libsched/sweep.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <type_traits>

#include "libsched/transfer.h"

namespace lsched {
namespace {

failure refusal() {
  return {status::unsupported,
          "the sweep knows eager rounds of recursive doubling, halving, dissemination and ring without activation or "
          "shared "
          "NICs; take the "
          "windowed engine"};
}

// --- recursive doubling on a power of two, in silence -------------------------------------------------------

/// Ranks between which no cost differs, as arrays. Doubles hold whole picoseconds exactly up to 2^53, 2.5 hours, and
/// their maximum is one instruction on any x86-64.
class butterfly {
 public:
  static constexpr double k_latest = 0x1p53;

  butterfly(const message_cost& cost, std::size_t ranks, double passes)
      : overhead_(real(cost.overhead)),
        sender_(real(cost.sender)),
        gap_(real(cost.gap)),
        flight_(real(cost.latency) + real(cost.tail)),
        receiver_(real(cost.receiver) + passes * real(cost.combination)),
        cpu_(ranks),
        nic_(ranks) {}

  double& cpu(std::size_t r) { return cpu_[r]; }
  std::size_t memory() const { return (cpu_.capacity() + nic_.capacity()) * sizeof(double) + sizeof(*this); }

  /// Tiles of neighbours first, then strips of equal low bits, gathered, so that memory is passed over twice in all.
  void run() {
    const std::size_t ranks = cpu_.size(), tile = std::min(ranks, k_tile);
    for (std::size_t begin = 0; begin < ranks; begin += tile) all_distances(&cpu_[begin], &nic_[begin], 1, tile);
    if (ranks == tile) return;
    const std::size_t rows = ranks / tile;
    std::vector<double> cpu(rows * k_strip), nic(rows * k_strip);
    for (std::size_t column = 0; column < tile; column += k_strip) {
      move_strip(column, cpu, nic, true);
      all_distances(cpu.data(), nic.data(), k_strip, rows * k_strip);
      move_strip(column, cpu, nic, false);
    }
  }

 private:
  static constexpr std::size_t k_tile = 2048, k_strip = 16;

  static double real(const charge& cost) { return static_cast<double>(cost.time); }

  void all_distances(double* cpu, double* nic, std::size_t first, std::size_t ranks) const {
    for (std::size_t distance = first; distance < ranks; distance *= 2)
      for (std::size_t low = 0; low < ranks; low += 2 * distance)
        exchange(cpu + low, nic + low, cpu + low + distance, nic + low + distance, distance);
  }

  void exchange(double* __restrict__ cpu_x, double* __restrict__ nic_x, double* __restrict__ cpu_y,
                double* __restrict__ nic_y, std::size_t n) const {
    const double overhead = overhead_, sender = sender_, gap = gap_, flight = flight_, receiver = receiver_;
    const auto most = [](double x, double y) { return x > y ? x : y; };
    for (std::size_t i = 0; i < n; ++i) {
      const double x = cpu_x[i], y = cpu_y[i];
      const double leaves_x = most(x + overhead, nic_x[i]), leaves_y = most(y + overhead, nic_y[i]);
      nic_x[i] = leaves_x + gap;
      nic_y[i] = leaves_y + gap;
      cpu_x[i] = most(x + sender, leaves_y + flight) + receiver;
      cpu_y[i] = most(y + sender, leaves_x + flight) + receiver;
    }
  }

  void move_strip(std::size_t column, std::vector<double>& cpu, std::vector<double>& nic, bool is_out) {
    for (std::size_t row = 0; row * k_strip < cpu.size(); ++row) {
      const std::size_t from = row * k_tile + column, to = row * k_strip;
      if (is_out) {
        std::copy_n(&cpu_[from], k_strip, &cpu[to]);
        std::copy_n(&nic_[from], k_strip, &nic[to]);
      } else {
        std::copy_n(&cpu[to], k_strip, &cpu_[from]);
        std::copy_n(&nic[to], k_strip, &nic_[from]);
      }
    }
  }

  double overhead_, sender_, gap_, flight_, receiver_;
  std::vector<double> cpu_, nic_;
};

// --- any rounds, any levels, any noise ------------------------------------------------------------------------

template <class Program>
class round_sweep {
 public:
  round_sweep(const simulation& what, const Program& program, const start_times& starts)
      : what_(what), program_(program) {
    const auto ranks = static_cast<std::size_t>(program.size);
    cpu_.resize(ranks), nic_.resize(ranks), ready_.resize(ranks);
    for (rank r = 0; r < program.size; ++r) cpu_[at(r)] = starts(r);
    for (std::size_t level = 0; level < what.where.levels.size(); ++level)
      for (std::uint8_t size = 0; size < k_sizes; ++size)
        costs_.push_back(cost_of(what.where, level, program.bytes_of(size)));
  }

  void run(simulation_report& report) {
    if constexpr (std::is_same_v<Program, recursive_doubling_program>)
      run_folded();
    else
      for (std::uint32_t i = 0; program_.at(0, i).kind != step_kind::end; i += 2) round([i](rank) { return i; });
    report.messages = messages_;
    report.bytes = bytes_;
    report.memory = (cpu_.capacity() + nic_.capacity() + ready_.capacity()) * sizeof(picoseconds);
    report.finish = std::move(cpu_);
  }

 private:
  static constexpr std::size_t k_sizes = std::is_same_v<Program, halving_program> ? 32 : 2;
  static std::size_t at(rank r) { return static_cast<std::size_t>(r); }

  /// Everybody sends step `first(r)` and receives the next.
  template <class First>
  void round(First first) {
    for (rank r = 0; r < program_.size; ++r) send(r, first(r));
    for (rank r = 0; r < program_.size; ++r) receive(r, first(r) + 1);
  }

  void run_folded() {
    const rank paired = 2 * program_.folded.rem();
    for (rank r = 1; r < paired; r += 2) send(r, 0);
    for (rank r = 0; r < paired; r += 2) receive(r, 0);
    const auto folds = [&](rank r) { return r < paired ? 1u : 0u; };
    for (std::uint32_t j = 0; j < program_.levels(); ++j) {
      for (rank r = 0; r < program_.size; ++r)
        if (!program_.folded.is_extra(r)) send(r, 2 * j + folds(r));
      for (rank r = 0; r < program_.size; ++r)
        if (!program_.folded.is_extra(r)) receive(r, 2 * j + 1 + folds(r));
    }
    for (rank r = 0; r < paired; r += 2) send(r, 2 * program_.levels() + 1);
    for (rank r = 1; r < paired; r += 2) receive(r, 1);
  }

  void send(rank r, std::uint32_t i) {
    const step now = program_.at(r, i);
    const message_cost& paid = cost(r, now);
    const disturbance met = disturbance_of(what_.noise, r, what_.instance, i, cpu_[at(r)], paid);
    ready_[at(r)] = send_eagerly(cpu_[at(r)], nic_[at(r)], paid, met);
    ++messages_;
    add_bytes(bytes_, program_.bytes_of(now.size));
  }

  void receive(rank r, std::uint32_t i) {
    const step now = program_.at(r, i);
    const message_cost& paid = cost(r, now);
    picoseconds& cpu = cpu_[at(r)];
    cpu = later(cpu, ready_[at(now.peer)]);
    const picoseconds time = sum(paid.receiver.time, product(now.passes, paid.combination.time));
    cpu = cpu + charge{time} + lost(noise(r, i, time));
  }

  const message_cost& cost(rank r, const step& now) const {
    return costs_[what_.where.level_of(r, now.peer) * k_sizes + now.size];
  }

  picoseconds noise(rank r, std::uint32_t i, picoseconds time) const {
    return delay_of(what_.noise, r, what_.instance, i, cpu_[at(r)], time);
  }

  const simulation& what_;
  const Program& program_;
  std::vector<message_cost> costs_;  ///< all sizes of each level
  std::vector<picoseconds> cpu_, nic_, ready_;
  std::uint64_t messages_ = 0, bytes_ = 0;
};

bool fits_butterfly(const simulation& what, const recursive_doubling_program& it) {
  return it.folded.rem() == 0 && what.where.levels.size() == 1 && what.noise.is_silent();
}

/// False if doubles would not do.
bool run_butterfly(const simulation& what, const recursive_doubling_program& it, const start_times& starts,
                   simulation_report& report) {
  const auto ranks = static_cast<std::size_t>(it.size);
  butterfly sweep(cost_of(what.where, 0, it.bytes), ranks, it.passes);
  for (std::size_t r = 0; r < ranks; ++r) sweep.cpu(r) = static_cast<double>(starts(static_cast<rank>(r)));
  const auto begin = std::chrono::steady_clock::now();
  sweep.run();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (std::size_t r = 0; r < ranks; ++r)
    if (sweep.cpu(r) > butterfly::k_latest) return false;
  report.messages = ranks * it.levels();
  if (__builtin_mul_overflow(report.messages, it.bytes, &report.bytes)) report.bytes = k_too_many_bytes;
  report.finish.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) report.finish[r] = static_cast<picoseconds>(sweep.cpu(r));
  report.memory = sweep.memory() + ranks * sizeof(picoseconds);
  return true;
}

template <class Program>
result<simulation_report> run(const simulation& what, const Program& it) {
  if constexpr (std::is_same_v<Program, tree_program> || std::is_same_v<Program, gather_program>) {
    return refusal();
  } else {
    simulation_report report;
    report.engine = "sweep";
    report.active = it.size;
    const start_times starts(what.skew, it.size, what.instance);
    if (auto why = objection_to(starts, it.size, k_forever)) return std::move(*why);
    if constexpr (std::is_same_v<Program, recursive_doubling_program>)
      if (fits_butterfly(what, it) && run_butterfly(what, it, starts, report)) return checked(std::move(report));
    const auto begin = std::chrono::steady_clock::now();
    round_sweep<Program>(what, it, starts).run(report);
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return checked(std::move(report));
  }
}

}  // namespace

result<simulation_report> simulate_sweep(const simulation& what) {
  const std::uint64_t bytes = std::visit([](const auto& it) { return it.bytes_of(1); }, what.what);
  if (what.starts.is_woken() || what.where.rules != semantics::libsched || what.where.shares_nics() ||
      bytes > what.where.S)
    return refusal();
  return std::visit([&](const auto& it) { return run(what, it); }, what.what);
}

}  // namespace lsched
