#include "libsched/analysis/edge_balance.h"

#include <algorithm>

#include "libsched/schedule/draw.h"
#include "libsched/schedule/round.h"
#include "ops/counted.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_minus_one = ~std::uint64_t{0};
constexpr int k_guard_shift = 33;
constexpr int k_dtype_shift = 56;  // 2^48 elements have fewer than 2^56 bytes
constexpr std::uint64_t k_signal = 1;

std::string rank_text(std::uint64_t number) { return "rank " + std::to_string(number); }

/// Returns a hash of the guard, from 1 to 2^31-1. 0 stands for no guard.
std::uint64_t hash_of(const guard& when) {
  const std::uint64_t words = std::uint64_t{when.phase} << 32 | std::uint64_t{when.every} << 1;
  return mix(words | std::uint64_t{when.skips_empty}) >> k_guard_shift | 1;
}

}  // namespace

std::uint64_t edge_balance::cell::hashed() const { return mix(mix(mix(ranks) ^ tag) ^ data); }

/// Returns true if the cell contains exactly one end of an edge, a send or a receive.
bool edge_balance::cell::is_lone() const {
  if (ends != 1 && ends != k_minus_one) return false;
  cell end;
  end.add(*this, ends);  // for a receive, the factor -1 undoes the subtraction of its fields
  return end.hashed() == end.hash;
}

void edge_balance::cell::add(const cell& other, std::uint64_t times) {
  ends += times * other.ends;
  hash += times * other.hash;
  ranks += times * other.ranks;
  tag += times * other.tag;
  data += times * other.data;
}

/// Returns a description of the data that the end moves.
std::string edge_balance::cell::text() const {
  if ((tag & k_signal) != 0) return "a signal";
  const std::uint64_t bytes = data & ((std::uint64_t{1} << k_dtype_shift) - 1);
  return std::to_string(bytes) + (bytes == 1 ? " byte of " : " bytes of ") +
         std::string(name_of(static_cast<dtype>(data >> k_dtype_shift))) +
         (tag >> k_guard_shift != 0 ? " in some rounds" : "");
}

void edge_balance::add(const cell& end, std::uint64_t times) {
  const std::size_t first = end.hash % cells_.size();
  const std::size_t second = (first + 1 + (end.hash >> 32) % (cells_.size() - 1)) % cells_.size();
  for (const std::size_t place : {first, second}) cells_[place].add(end, times);
}

void edge_balance::add(const schedule& program) {
  const rank self = program.place().self;
  for (const op& o : program.ops()) {
    if (!has_edge(o, self)) continue;
    const bool outgoing = is_outgoing(o.kind);
    const auto from = static_cast<std::uint64_t>(outgoing ? self : o.peer);
    const auto to = static_cast<std::uint64_t>(outgoing ? o.peer : self);
    cell end{.ends = 1, .ranks = from << 32 | to, .tag = std::uint64_t{o.tag} << 1};
    if (is_signal(o.kind))
      end.tag |= k_signal;
    else
      end.data = static_cast<std::uint64_t>(o.type) << k_dtype_shift | most_bytes(program, o);
    if (const guard* const when = program.guard_of(o)) end.tag |= hash_of(*when) << k_guard_shift;
    end.hash = end.hashed();
    add(end, outgoing ? 1 : k_minus_one);
  }
}

void edge_balance::add(const edge_balance& other) {
  for (std::size_t i = 0; i < cells_.size(); ++i) cells_[i].add(other.cells_[i], 1);
}

bool edge_balance::is_even() const {
  return std::ranges::all_of(cells_, [](const cell& c) { return c.ends == 0 && c.hash == 0; });
}

/// Returns the unmatched ends that can be separated from each other. In the result, cell::ends is 1 for a send and -1
/// for a receive. The other fields are never negated, not even for a receive.
std::vector<edge_balance::cell> edge_balance::lone_ends() const {
  std::vector<cell> found;
  edge_balance rest = *this;
  while (found.size() < cells_.size()) {
    const auto lone = std::ranges::find_if(rest.cells_, &cell::is_lone);
    if (lone == rest.cells_.end()) break;
    cell end;
    end.add(*lone, lone->ends);
    const std::uint64_t sign = lone->ends;
    rest.add(end, k_minus_one * sign);
    end.ends = sign;
    found.push_back(end);
  }
  return found;
}

std::optional<std::string> edge_balance::odd_end() const {
  const std::vector<cell> ends = lone_ends();
  if (ends.empty()) return std::nullopt;
  const auto text = [](const cell& end, const std::string& but) {
    const std::string sender = rank_text(end.ranks >> 32), receiver = rank_text(end.ranks & 0xffffffff);
    const std::string what = end.text() + " with tag " + std::to_string(end.tag >> 1 & 0xffffffff);
    return end.is_send() ? sender + " sends " + what + " to " + receiver + ", which " + but
                         : receiver + " receives " + what + " from " + sender + ", which " + but;
  };
  const auto edge_of = [](const cell& end) { return std::pair(end.ranks, end.tag >> 1 & 0xffffffff); };
  for (const cell& sent : ends)
    for (const cell& received : ends)
      if (sent.is_send() && !received.is_send() && edge_of(sent) == edge_of(received))
        return text(sent, "receives " + received.text() + " instead");
  return text(ends.front(), ends.front().is_send() ? "has no matching receive" : "has no matching send");
}

}  // namespace lsched
