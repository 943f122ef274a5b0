#include "bindings/simulation/skew.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <string>

#include "libsched/schedule/draw.h"

namespace lsched {
namespace {

// A salt for each kind of draw, so that draws of different kinds are independent.
constexpr std::uint64_t k_start_salt = 0x7374617274, k_cpu_salt = 0x637075, k_wire_salt = 0x77697265,
                        k_pace_salt = 0x70616365, k_slow_salt = 0x736c6f77;

constexpr std::uint64_t bits_of(std::uint64_t stream, std::uint64_t i) { return mix(mix(stream) ^ i); }

/// Returns a number in (0, 1]. It is not 0, so that its logarithm exists.
double uniform(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1p-53; }

double exponential(std::uint64_t bits) { return -std::log(uniform(bits)); }

/// Returns a standard normal number (Box and Muller, 1958).
double normal(std::uint64_t bits) {
  return std::sqrt(2 * exponential(bits)) * std::cos(2 * std::numbers::pi * uniform(mix(bits)));
}

std::uint64_t charge_bits(const cpu_noise& noise, std::uint64_t salt, rank r, round_no instance, std::uint64_t op) {
  return bits_of(bits_of(bits_of(noise.seed ^ salt, instance), static_cast<std::uint64_t>(r)), op);
}

/// Returns how long the CPU is away while it does `cost` of work from `begin` on. The CPU leaves at phase + k * period.
picoseconds away(const cpu_noise& noise, std::uint64_t phase_bits, picoseconds begin, picoseconds cost) {
  const picoseconds period = noise.period, works = period - noise.scale;
  const auto phase = static_cast<picoseconds>(phase_bits % static_cast<std::uint64_t>(period));
  const picoseconds into = (begin + phase) % period;  // [0, works): the CPU works; [works, period): it is away
  const picoseconds wait = into >= works ? period - into : 0;
  const picoseconds left = wait > 0 ? works : works - into;
  if (cost <= left) return wait;
  return sum(wait, product((cost - left + works - 1) / works, noise.scale));
}

/// Parses "start<blanks>duration" in ns. Fractions are rounded to picoseconds. Returns false for any other line.
bool read_gap(const std::string& line, noise_trace::gap& read) {
  double begin = 0, length = 0;
  int end = 0;
  if (std::sscanf(line.c_str(), "%lf %lf %n", &begin, &length, &end) != 2) return false;
  const bool is_sane = begin >= 0 && length >= 0 && begin < 1e15 && length < 1e15;  // eleven days
  if (!is_sane || static_cast<std::size_t>(end) != line.size()) return false;
  read = {rounded(begin * 1e3), rounded(length * 1e3)};
  return true;
}

/// Returns the position in the trace at a rank's time 0.
picoseconds phase_of(const cpu_noise& noise, rank r) {
  const std::uint64_t bits = bits_of(noise.seed ^ k_cpu_salt, static_cast<std::uint64_t>(noise.is_cosched ? 0 : r));
  return static_cast<picoseconds>(bits % static_cast<std::uint64_t>(noise.trace.period));
}

}  // namespace

result<noise_trace> noise_trace::from(std::vector<gap> gaps) {
  noise_trace trace;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const bool is_early = gaps[i].begin < trace.period || gaps[i].length < 0;
    if (is_early)
      return failure{status::argument, "gap " + std::to_string(i + 1) + " begins before the previous gap ends"};
    trace.work += gaps[i].begin - trace.period;
    trace.worked.push_back(trace.work);
    trace.period = gaps[i].begin + gaps[i].length;
  }
  if (gaps.empty()) return failure{status::argument, "contains no gaps"};
  if (trace.work <= 0) return failure{status::argument, "there is no time between the gaps"};
  trace.gaps = std::move(gaps);
  return trace;
}

// Finds the end of the charge. At the end, the CPU has done the work before `begin` plus the cost. So the end is the
// position in the trace at which the CPU has done this amount of work.
picoseconds noise_trace::away(picoseconds begin, picoseconds cost) const {
  const picoseconds into = begin % period;
  const auto after = std::upper_bound(gaps.begin(), gaps.end(), into,
                                      [](picoseconds time, const gap& one) { return time < one.begin; });
  const picoseconds last_end = after == gaps.begin() ? 0 : after[-1].begin + after[-1].length;
  const picoseconds last_work = after == gaps.begin() ? 0 : worked[static_cast<std::size_t>(after - gaps.begin()) - 1];
  const picoseconds target = last_work + std::max<picoseconds>(0, into - last_end) + std::max<picoseconds>(cost, 1);
  const picoseconds passes = (target - 1) / work, rest = target - passes * work;  // rest in (0, work]
  // Find the first gap that begins after the rest is done. All gaps before it have passed.
  const auto later = std::lower_bound(worked.begin(), worked.end(), rest);
  const auto passed = later - worked.begin();
  const picoseconds gone = passed == 0 ? 0
                                       : gaps[static_cast<std::size_t>(passed) - 1].begin +
                                             gaps[static_cast<std::size_t>(passed) - 1].length -
                                             worked[static_cast<std::size_t>(passed) - 1];
  const picoseconds in_passes = product(passes, period);
  if (in_passes == k_forever) return k_forever;
  return sum(in_passes + gone + rest - std::max<picoseconds>(cost, 1) - into, 0);
}

result<noise_trace> parse_noise_trace(std::string_view text) {
  std::vector<noise_trace::gap> gaps;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::string words(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), words.size() + 1));
    if (words.empty() || words.front() == '#') continue;
    noise_trace::gap next;
    if (!read_gap(words, next))
      return failure{status::argument, "line " + std::to_string(line) + ": expected \"start duration\" in ns"};
    gaps.push_back(next);
  }
  return noise_trace::from(std::move(gaps));
}

double pace_of(const cpu_noise& noise, rank r) {
  const cpu_pace& pace = noise.pace;
  if (pace.is_even()) return 1;
  const auto who = static_cast<std::uint64_t>(r);
  const double usual = std::clamp(1 + pace.cv * normal(bits_of(noise.seed ^ k_pace_salt, who)), 0.5, 1.5);
  const bool is_slow = uniform(bits_of(noise.seed ^ k_slow_salt, who)) <= pace.slow_share;
  return is_slow ? usual * pace.slow_factor : usual;
}

picoseconds drag_of(const cpu_noise& noise, rank r, picoseconds cost) {
  if (noise.pace.is_even()) return 0;
  return rounded(static_cast<double>(cost) * (pace_of(noise, r) - 1));
}

start_times::start_times(start_skew skew, rank size, round_no instance)
    : skew_(std::move(skew)),
      size_(size),
      turns_(static_cast<std::int64_t>((instance - 1) % static_cast<round_no>(std::max(size, 1)))),
      stream_(bits_of(skew_.seed ^ k_start_salt, instance)) {
  if (skew_.kind == skew_kind::stragglers) draw_stragglers();
}

// Uses Floyd's sampling without repetition.
void start_times::draw_stragglers() {
  for (rank last = std::max(size_ - skew_.count, 0); last < size_; ++last) {
    const std::uint64_t bits = bits_of(stream_, static_cast<std::uint64_t>(last));
    const auto drawn = static_cast<rank>(bits % (static_cast<std::uint64_t>(last) + 1));
    const auto place = std::lower_bound(stragglers_.begin(), stragglers_.end(), drawn);
    if (place == stragglers_.end() || *place != drawn)
      stragglers_.insert(place, drawn);
    else
      stragglers_.push_back(last);  // keeps the order, because `last` is larger than all earlier ranks
  }
}

picoseconds start_times::operator()(rank r) const {
  const picoseconds time = drawn(r);
  return skew_.most > 0 ? std::min(time, skew_.most) : time;
}

picoseconds start_times::drawn(rank r) const {
  const std::uint64_t bits = bits_of(stream_, static_cast<std::uint64_t>(r));
  const auto scale = static_cast<double>(skew_.scale);
  switch (skew_.kind) {
    case skew_kind::none: return 0;
    case skew_kind::linear: return product(r, skew_.scale);
    case skew_kind::uniform: return sum(skew_.shift, rounded(scale * uniform(bits)));
    case skew_kind::lognormal: return sum(skew_.shift, rounded(scale * std::exp(skew_.sigma * normal(bits))));
    case skew_kind::stragglers: return std::binary_search(stragglers_.begin(), stragglers_.end(), r) ? skew_.scale : 0;
    case skew_kind::empirical: return skew_.samples.empty() ? 0 : skew_.samples[bits % skew_.samples.size()];
    case skew_kind::fixed: return std::binary_search(skew_.ranks.begin(), skew_.ranks.end(), r) ? skew_.scale : 0;
    case skew_kind::rotating: return sum(skew_.shift, product((r + turns_) % size_, skew_.scale));
    case skew_kind::listed: return skew_.samples[static_cast<std::size_t>(r)];
  }
  return 0;
}

picoseconds noise_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op, picoseconds begin,
                     picoseconds cost) {
  const auto scale = static_cast<double>(noise.scale);
  const std::uint64_t bits = charge_bits(noise, k_cpu_salt, r, instance, op);
  switch (noise.kind) {
    case noise_kind::none: return 0;
    case noise_kind::periodic:
      return away(noise, bits_of(noise.seed ^ k_cpu_salt, static_cast<std::uint64_t>(r)), begin, cost);
    case noise_kind::exponential: return rounded(scale * exponential(bits));
    case noise_kind::trace: return noise.trace.away(begin + phase_of(noise, r), cost);
    case noise_kind::pareto: return rounded(scale * (std::pow(uniform(bits), -1 / noise.alpha) - 1));
  }
  return 0;
}

picoseconds delay_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op, picoseconds begin,
                     picoseconds cost) {
  const picoseconds drag = drag_of(noise, r, cost);
  return drag + noise_of(noise, r, instance, op, begin, cost + drag);
}

picoseconds jitter_of(const cpu_noise& noise, rank from, round_no instance, std::uint64_t op) {
  if (noise.jitter == 0) return 0;
  return rounded(static_cast<double>(noise.jitter) * exponential(charge_bits(noise, k_wire_salt, from, instance, op)));
}

disturbance disturbance_of(const cpu_noise& noise, rank r, round_no instance, std::uint64_t op, picoseconds begin,
                           const message_cost& cost) {
  const picoseconds time = cost.is_eager ? cost.sender.time : cost.overhead.time, drag = drag_of(noise, r, time);
  return {.noise = noise_of(noise, r, instance, op, begin, time + drag),
          .jitter = jitter_of(noise, r, instance, op),
          .drag = drag,
          .head_drag = drag_of(noise, r, cost.overhead.time)};
}

std::string_view name_of(skew_kind kind) {
  constexpr std::array<std::string_view, 9> names{"none",      "linear", "uniform",  "lognormal", "stragglers",
                                                  "empirical", "fixed",  "rotating", "listed"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(noise_kind kind) {
  constexpr std::array<std::string_view, 5> names{"none", "periodic", "exponential", "pareto", "trace"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace lsched
