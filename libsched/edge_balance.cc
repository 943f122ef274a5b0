#include "libsched/edge_balance.h"

#include <algorithm>

#include "libsched/draw.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_minus_one = ~std::uint64_t{0};
constexpr int k_guard_shift = 33;

std::string in_words(rank from, rank to, std::uint64_t tag, std::uint64_t bytes, bool is_send) {
  const bool is_signal = (tag & 1) != 0;
  const std::string what = (is_signal ? "a signal" : std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes")) +
                           " with tag " + std::to_string(tag >> 1 & 0xffffffff) +
                           (tag >> k_guard_shift != 0 ? ", in some rounds," : "");
  const std::string sender = "rank " + std::to_string(from);
  const std::string receiver = "rank " + std::to_string(to);
  return is_send ? sender + " sends " + what + " to " + receiver + ", which does not receive that"
                 : receiver + " receives " + what + " from " + sender + ", which does not send that";
}

}  // namespace

std::uint64_t edge_balance::cell::hashed() const { return mix(mix(mix(ranks) ^ tag) ^ bytes); }

void edge_balance::cell::add(const cell& other, std::uint64_t times) {
  ends += times * other.ends;
  hash += times * other.hash;
  ranks += times * other.ranks;
  tag += times * other.tag;
  bytes += times * other.bytes;
}

void edge_balance::add(const schedule& program) {
  const rank self = program.place().self;
  for (const op& what : program.ops()) {
    if (!is_communication(what.kind) || what.peer == self) continue;
    const bool outgoing = what.kind == op_kind::send || what.kind == op_kind::signal_send;
    const auto from = static_cast<std::uint64_t>(outgoing ? self : what.peer);
    const auto to = static_cast<std::uint64_t>(outgoing ? what.peer : self);
    cell end{.ends = 1,
             .ranks = from << 32 | to,
             .tag = std::uint64_t{what.tag} << 1 | (is_signal(what.kind) ? 1u : 0u),
             .bytes = is_signal(what.kind) ? 0 : most_bytes(program, what)};
    if (const guard* const when = program.guard_of(what))
      end.tag |= (std::uint64_t{when->every} << 1 | std::uint64_t{when->skips_empty}) << k_guard_shift;
    end.hash = end.hashed();
    const std::size_t first = end.hash % cells_.size();
    const std::size_t second = (first + 1 + (end.hash >> 32) % (cells_.size() - 1)) % cells_.size();
    for (const std::size_t place : {first, second}) cells_[place].add(end, outgoing ? 1 : k_minus_one);
  }
}

void edge_balance::add(const edge_balance& other) {
  for (std::size_t i = 0; i < cells_.size(); ++i) cells_[i].add(other.cells_[i], 1);
}

bool edge_balance::is_even() const {
  return std::all_of(cells_.begin(), cells_.end(), [](const cell& of) { return of.ends == 0 && of.hash == 0; });
}

std::optional<std::string> edge_balance::odd_end() const {
  for (const cell& of : cells_) {
    if (of.ends != 1 && of.ends != k_minus_one) continue;
    cell end;
    end.add(of, of.ends);  // a lone receive becomes positive
    if (end.hashed() != end.hash) continue;
    return in_words(static_cast<rank>(end.ranks >> 32), static_cast<rank>(end.ranks & 0xffffffff), end.tag, end.bytes,
                    of.ends == 1);
  }
  return std::nullopt;
}

}  // namespace lsched
