#include "tests/support/list_programs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <vector>

#include "libsched/schedule/draw.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_largest = 200'000;
constexpr std::byte k_untouched{0xee};

enum class kind : std::uint8_t { gatherv, scatterv, allgatherv, alltoallv };
constexpr std::array<const char*, 4> k_names{"gatherv", "scatterv", "allgatherv", "alltoallv"};

/// The program that a seed determines. Every rank computes the whole program.
struct program {
  program(std::uint64_t with_seed, std::int32_t ranks) : seed(with_seed), size(ranks) {
    what = static_cast<kind>(draw(1) % 4);
    constexpr std::array types{LSCHED_U8, LSCHED_I32, LSCHED_F64};
    constexpr std::array widths{std::size_t{1}, std::size_t{4}, std::size_t{8}};
    type = types[draw(2) % 3], width = widths[draw(2) % 3];
    depth = static_cast<std::int32_t>(draw(3) % 5);
    capacity = draw(4) % 2 == 0 ? LSCHED_ANY_COUNT : k_largest;
    root = static_cast<std::int32_t>(draw(5) % static_cast<std::uint64_t>(ranks));
    rounds = 12 + draw(6) % 30;
  }

  std::uint64_t draw(std::uint64_t number) const { return mix(mix(seed) ^ number); }
  bool is_rooted() const { return what == kind::gatherv || what == kind::scatterv; }

  /// Returns the key of a block. The key determines the data that rank `from` sends to rank `to` in a round. In an
  /// allgatherv, all ranks receive the same block from a rank.
  std::uint64_t key(std::uint64_t round, std::int32_t from, std::int32_t to) const {
    if (what == kind::allgatherv) to = 0;
    return draw(1000 + (round * 64 + static_cast<std::uint64_t>(from)) * 64 + static_cast<std::uint64_t>(to));
  }
  std::uint64_t count(std::uint64_t round, std::int32_t from, std::int32_t to) const {
    const std::uint64_t drawn = key(round, from, to), more = drawn >> 16;
    switch (drawn % 16) {
      case 0:
      case 1:
      case 2: return 0;
      case 13: return more % 3000;
      case 14: return more % 12'000;
      case 15: return drawn / 16 % 16 == 0 ? more % k_largest : more % 30'000;
      default: return more % 9;
    }
  }
  std::byte at(std::uint64_t round, std::int32_t from, std::int32_t to, std::uint64_t place) const {
    return static_cast<std::byte>(key(round, from, to) + place * 131);
  }

  std::uint64_t seed;
  std::int32_t size;
  kind what{};
  lsched_dtype type{};
  std::size_t width = 1;
  std::int32_t depth = 0;
  std::uint64_t capacity = 0;
  std::int32_t root = 0;
  std::uint64_t rounds = 0;
};

/// The blocks that one rank sends or receives, in one buffer. There is a block for each peer.
struct blocks {
  std::vector<std::int32_t> peers;
  std::vector<std::uint64_t> counts, begins;
  std::vector<std::byte> memory;
  bool are_adjacent = false;
};

class rank_of_program {
 public:
  rank_of_program(std::uint64_t seed, lsched_world* world)
      : plan_(seed, lsched_size(world)), world_(world), self_(lsched_rank(world)) {}

  std::string perform() {
    diagnostic why;
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = k_names[static_cast<std::size_t>(plan_.what)],
                                      .dtype = plan_.type,
                                      .root = plan_.is_rooted() ? plan_.root : 0,
                                      .capacity = plan_.capacity,
                                      .depth = plan_.depth};
    if (lsched_collective_create(world_, &desc, &schedule_, &why) != LSCHED_OK) return why.text;
    const std::size_t most = std::max<std::size_t>(1, static_cast<std::size_t>(plan_.depth));
    std::string wrong;
    for (std::uint64_t round = 1; round <= plan_.rounds && wrong.empty(); ++round) {
      if (!under_way_.empty() && under_way_[oldest()]->number + most == round) wrong = wait_for(oldest());
      if (wrong.empty()) wrong = start(round);
      if (wrong.empty() && own_draw(round) % 3 == 0) wrong = wait_for(own_draw(round) / 3 % under_way_.size());
    }
    while (!under_way_.empty() && wrong.empty()) wrong = wait_for(under_way_.size() - 1);
    if (lsched_schedule_destroy(schedule_, k_limit_ns, &why) != LSCHED_OK && wrong.empty()) wrong = why.text;
    return wrong;
  }

 private:
  struct round_memory {
    std::uint64_t number = 0;
    blocks sent, received;
    std::vector<std::uint64_t> told;
    lsched_ticket ticket{};
  };

  std::uint64_t own_draw(std::uint64_t number) const {
    return plan_.draw(500'000'000 + number * 64 + static_cast<std::uint64_t>(self_));
  }
  std::size_t oldest() const {
    return static_cast<std::size_t>(
        std::ranges::min_element(under_way_, {}, [](const auto& one) { return one->number; }) - under_way_.begin());
  }

  std::vector<std::int32_t> all() const {
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(plan_.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  std::vector<std::int32_t> targets() const {
    const bool is_root = self_ == plan_.root;
    switch (plan_.what) {
      case kind::gatherv: return {plan_.root};
      case kind::scatterv: return is_root ? all() : std::vector<std::int32_t>{};
      case kind::allgatherv: return {0};
      case kind::alltoallv: return all();
    }
    return {};
  }
  std::vector<std::int32_t> sources() const {
    const bool is_root = self_ == plan_.root;
    switch (plan_.what) {
      case kind::gatherv: return is_root ? all() : std::vector<std::int32_t>{};
      case kind::scatterv: return {plan_.root};
      case kind::allgatherv:
      case kind::alltoallv: return all();
    }
    return {};
  }

  /// Places the blocks in random order with gaps, or in the order of ranks without gaps.
  void lay_out(blocks& some, std::uint64_t drawn) const {
    std::vector<std::size_t> order(some.peers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    some.are_adjacent = drawn % 3 == 0;
    if (!some.are_adjacent) std::ranges::sort(order, {}, [&](std::size_t i) { return mix(drawn ^ (i + 1)); });
    some.begins.resize(order.size());
    std::uint64_t end = 0;
    for (const std::size_t i : order) {
      some.begins[i] = end + (some.are_adjacent ? 0 : mix(drawn ^ i) % 4);
      end = some.begins[i] + some.counts[i];
    }
    some.memory.assign((end + 2) * plan_.width, k_untouched);
  }

  std::string start(std::uint64_t number) {
    auto made = std::make_unique<round_memory>();
    made->number = number;
    made->sent.peers = targets(), made->received.peers = sources();
    const std::uint64_t drawn = own_draw(10'000 + number);
    for (const std::int32_t to : made->sent.peers) made->sent.counts.push_back(plan_.count(number, self_, to));
    for (const std::int32_t from : made->received.peers)
      made->received.counts.push_back(plan_.count(number, from, self_) + (drawn % 4 == 0 ? drawn / 4 % 50 : 0));
    lay_out(made->sent, mix(drawn));
    lay_out(made->received, mix(drawn + 1));
    for (std::size_t i = 0; i < made->sent.peers.size(); ++i)
      for (std::uint64_t b = 0; b < made->sent.counts[i] * plan_.width; ++b)
        made->sent.memory[made->sent.begins[i] * plan_.width + b] = plan_.at(number, self_, made->sent.peers[i], b);
    made->told.assign(made->received.peers.size(), ~std::uint64_t{0});

    const auto pointer = [](auto& numbers, bool is_wanted) { return is_wanted ? numbers.data() : nullptr; };
    const bool sends = !made->sent.peers.empty(), receives = !made->received.peers.empty();
    const lsched_counts counts{
        .struct_size = sizeof counts,
        .send_counts = pointer(made->sent.counts, sends),
        .send_displacements = pointer(made->sent.begins, sends && !made->sent.are_adjacent),
        .recv_counts = pointer(made->received.counts, receives),
        .recv_displacements = pointer(made->received.begins, receives && !made->received.are_adjacent),
        .received = pointer(made->told, receives)};
    const void* const input = made->sent.memory.data();
    void* const output = made->received.memory.data();
    const lsched_status answer = lsched_start_with(schedule_, &input, &output, &counts, &made->ticket);
    if (answer != LSCHED_OK) return std::string("start: ") + lsched_status_text(answer);
    under_way_.push_back(std::move(made));
    return {};
  }

  std::string wait_for(std::size_t which) {
    diagnostic why;
    const round_memory& one = *under_way_[which];
    if (lsched_wait(one.ticket, k_limit_ns, &why) != LSCHED_OK) return why.text;
    const std::string wrong = find_wrong(one);
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(which));
    return wrong;
  }

  std::string find_wrong(const round_memory& one) const {
    std::vector<std::byte> expected(one.received.memory.size(), k_untouched);
    for (std::size_t i = 0; i < one.received.peers.size(); ++i) {
      const std::int32_t from = one.received.peers[i];
      const std::uint64_t count = plan_.count(one.number, from, self_);
      if (one.told[i] != count)
        return "round " + std::to_string(one.number) + ": reported " + std::to_string(one.told[i]) +
               " elements of rank " + std::to_string(from) + ", not " + std::to_string(count);
      for (std::uint64_t b = 0; b < count * plan_.width; ++b)
        expected[one.received.begins[i] * plan_.width + b] = plan_.at(one.number, from, self_, b);
    }
    const auto differs = std::ranges::mismatch(one.received.memory, expected).in1;
    if (differs == one.received.memory.end()) return {};
    return "round " + std::to_string(one.number) + ": byte " + std::to_string(differs - one.received.memory.begin()) +
           " is wrong";
  }

  const program plan_;
  lsched_world* const world_;
  const std::int32_t self_;
  lsched_schedule* schedule_ = nullptr;
  std::vector<std::unique_ptr<round_memory>> under_way_;
};

}  // namespace

std::string perform_list_program(std::uint64_t seed, lsched_world* world) {
  const std::string wrong = rank_of_program(seed, world).perform();
  return wrong.empty() ? wrong : "rank " + std::to_string(lsched_rank(world)) + ": " + wrong;
}

}  // namespace lsched::testing
