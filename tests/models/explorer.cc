#include "tests/models/explorer.h"

#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

namespace models {
namespace {

constexpr std::uint64_t k_factor = 0x9e3779b97f4a7c15u;

std::uint64_t fold(std::uint64_t x, std::uint64_t y) {
  __extension__ using wide = unsigned __int128;
  const wide product = static_cast<wide>(x ^ k_factor) * (y ^ 0xbf58476d1ce4e5b9u);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t hash_of(std::span<const std::byte> state) {
  std::uint64_t sum = state.size();
  std::uint64_t other = k_factor;
  for (; state.size() >= 16; state = state.subspan(16)) {
    std::uint64_t words[2];
    std::memcpy(words, state.data(), 16);
    sum = fold(sum ^ words[0], other + words[1]);
    other += sum;
  }
  std::uint64_t rest[2]{};
  if (!state.empty()) std::memcpy(rest, state.data(), state.size());
  return fold(sum ^ rest[0], other + rest[1]);
}

/// A set of hashes of states, in a hash table. A free entry has the value 0. The table doubles its size when half of
/// its entries are taken.
class hash_set {
 public:
  /// Returns false if the hash is already in the set.
  bool insert(std::uint64_t hash) {
    if (hash == 0) hash = 1;
    if (2 * ++size_ > places_.size()) grow();
    if (put(hash)) return true;
    --size_;
    return false;
  }

 private:
  bool put(std::uint64_t hash) {
    std::size_t at = hash & (places_.size() - 1);
    for (; places_[at] != 0; at = (at + 1) & (places_.size() - 1))
      if (places_[at] == hash) return false;
    places_[at] = hash;
    return true;
  }
  void grow() {
    const std::vector<std::uint64_t> before = std::exchange(places_, std::vector<std::uint64_t>(2 * places_.size()));
    for (const std::uint64_t hash : before)
      if (hash != 0) put(hash);
  }

  std::vector<std::uint64_t> places_ = std::vector<std::uint64_t>(1 << 16);
  std::size_t size_ = 0;
};

/// Returns the CPU time of this process, so that the limit does not depend on the load of the machine.
double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// A state on the current path, with the possible moves.
struct frame {
  std::vector<std::byte> state;
  std::vector<system::move> moves;
  std::size_t next = 0;
};

class search {
 public:
  search(system& what, const limits& most) : what_(what), most_(most) {}

  report run() {
    const double began = seconds();
    enter();
    while (depth_ > 0 && found_.fault.empty()) {
      frame& top = path_[depth_ - 1];
      if (top.next == top.moves.size()) {
        --depth_;
        continue;
      }
      what_.restore(top.state);
      what_.make(top.moves[top.next++]);
      ++found_.moves;
      enter();
      if (found_.moves % 4096 == 0 && seconds() - began > static_cast<double>(most_.time.count())) give_up("the time");
      if (found_.states > most_.states) give_up("the number of states");
    }
    found_.seconds = seconds() - began;
    return found_;
  }

 private:
  void give_up(const char* limit) {
    if (found_.fault.empty()) found_.fault = std::string("not finished: the limit on ") + limit + " was reached";
  }

  /// Checks the current state, and adds it to the path if the state is new.
  void enter() {
    if (depth_ == path_.size()) path_.emplace_back();
    frame& here = path_[depth_];
    here.state.clear();
    what_.save(here.state);
    if (std::string fault = what_.fault(false); !fault.empty()) return blame(std::move(fault));
    if (!seen_.insert(hash_of(here.state))) return;
    ++found_.states;
    here.moves.clear();
    here.next = 0;
    what_.moves(here.moves);
    if (here.moves.empty()) {
      ++found_.ends;
      if (std::string fault = what_.fault(true); !fault.empty()) return blame(std::move(fault));
    }
    ++depth_;
  }

  void blame(std::string fault) {
    found_.fault = std::move(fault);
    for (std::size_t i = 0; i < depth_; ++i) {
      what_.restore(path_[i].state);
      found_.path += "  " + what_.describe(path_[i].moves[path_[i].next - 1]) + "\n";
    }
  }

  system& what_;
  const limits most_;
  std::vector<frame> path_;
  std::size_t depth_ = 0;
  hash_set seen_;
  report found_;
};

}  // namespace

report explore(system& what, const limits& most) { return search(what, most).run(); }

std::string to_text(const report& from) {
  char numbers[120];
  std::snprintf(numbers, sizeof numbers, "%llu states, %llu moves, %llu ends, %.2f s",
                static_cast<unsigned long long>(from.states), static_cast<unsigned long long>(from.moves),
                static_cast<unsigned long long>(from.ends), from.seconds);
  return numbers + (from.fault.empty() ? std::string() : "\n" + from.fault + "\n" + from.path);
}

}  // namespace models
