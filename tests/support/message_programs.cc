#include "tests/support/barrier.h"
#include "tests/support/message_programs.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "libsched/schedule/draw.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

constexpr std::int32_t k_tags = 3, k_tag_of_nobody = 77;

struct planned_message {
  std::int32_t from, to, tag;
  std::uint64_t bytes;
  std::uint64_t number;  ///< index of the message in its phase
};

/// The messages of all ranks in each phase. Every rank computes the whole program. A barrier separates the phases.
struct program {
  program(std::uint64_t with_seed, std::int32_t ranks) : seed(mix(with_seed)) {
    const auto size = static_cast<std::uint64_t>(ranks);
    phases.resize(1 + below(1, 4));
    std::uint64_t draws = 10;
    for (auto& messages : phases) {
      messages.resize(below(++draws, 12 * size + 1));
      std::uint64_t number = 0;
      for (planned_message& one : messages) {
        one.from = static_cast<std::int32_t>(below(++draws, size));
        one.to = static_cast<std::int32_t>(below(++draws, size));
        one.tag = static_cast<std::int32_t>(below(++draws, k_tags));
        one.bytes = length(++draws);
        one.number = number++;
      }
    }
  }

  std::uint64_t below(std::uint64_t number, std::uint64_t limit) const { return mix(seed ^ number) % limit; }
  std::uint64_t length(std::uint64_t number) const {
    const std::uint64_t drawn = mix(seed ^ number), more = drawn >> 8;
    switch (drawn % 16) {
      case 0: return 0;
      case 1: return more % 20'000;
      case 2: return more % 300'000;
      case 3: return drawn % 128 == 3 ? more % 3'000'000 : 8192 + more % 3;
      default: return more % 40;
    }
  }
  std::byte at(std::size_t phase, const planned_message& one, std::uint64_t place) const {
    return static_cast<std::byte>((mix(seed ^ (phase << 32 | one.number)) >> place % 8 * 8) + place * 7);
  }
  /// Returns whether two messages have equal contents. Short messages may have equal contents by chance.
  bool are_equal(std::size_t phase, const planned_message& one, const planned_message& other) const {
    for (std::uint64_t b = 0; b < std::min<std::uint64_t>(one.bytes, 8); ++b)
      if (at(phase, one, b) != at(phase, other, b)) return false;
    return one.bytes == other.bytes;
  }

  std::uint64_t seed;
  std::vector<std::vector<planned_message>> phases;
};

class rank_of_program {
 public:
  rank_of_program(std::uint64_t seed, lsched_world* world)
      : plan_(seed, lsched_size(world)), world_(world), self_(lsched_rank(world)) {}

  std::string perform() {
    diagnostic why;
    if (lsched_mailbox_create(world_, &box_, &why) != LSCHED_OK) return why.text;
    lsched_schedule* barrier = nullptr;
    if (create_barrier(world_, &barrier, &why) != LSCHED_OK) return why.text;
    std::string wrong;
    for (std::size_t phase = 0; phase < plan_.phases.size() && wrong.empty(); ++phase) {
      wrong = perform_phase(phase);
      if (wrong.empty() && lsched_run(barrier, k_limit_ns, &why) != LSCHED_OK) wrong = why.text;
    }
    if (lsched_schedule_destroy(barrier, k_limit_ns, &why) != LSCHED_OK && wrong.empty()) wrong = why.text;
    if (lsched_mailbox_destroy(box_) != LSCHED_OK && wrong.empty()) wrong = "the mailbox is busy";
    return wrong;
  }

 private:
  struct item {
    bool is_sent = false;
    std::int32_t peer = 0, tag = 0;
    std::vector<std::byte> memory{};
    const planned_message* planned = nullptr;  ///< message that this send or receive transfers; null for a receive
                                               ///< until check() is called
    lsched_message* message = nullptr;
    lsched_arrival arrived{};
    std::size_t posted = 0;
  };

  std::uint64_t draw() { return mix(plan_.seed ^ mix(++draws_ * 64 + static_cast<std::uint64_t>(self_))); }

  /// Plans as many receives as there are messages to this rank. A receive accepts one tag from one rank, one tag from
  /// any rank, or every message. The plan does not determine which message a receive gets.
  void plan_receives(const std::vector<planned_message>& messages) {
    const bool takes_anything = draw() % 4 == 0;
    std::vector<bool> is_from_any(k_tags);
    for (std::size_t t = 0; t < is_from_any.size(); ++t) is_from_any[t] = draw() % 2 == 0;
    for (const planned_message& one : messages) {
      if (one.to != self_) continue;
      auto& made = *items_.emplace_back(std::make_unique<item>());
      const bool is_any = takes_anything || is_from_any[static_cast<std::size_t>(one.tag)];
      made.peer = is_any ? LSCHED_ANY_RANK : one.from;
      made.tag = takes_anything ? LSCHED_ANY_TAG : one.tag;
    }
    std::uint64_t longest = 0;  // a receive may get any of `messages`, so it has room for the longest message
    for (const planned_message& one : messages) longest = std::max(longest, one.bytes);
    for (const auto& one : items_) one->memory.resize(longest + 1, std::byte{0xee});
  }

  void plan_sends(std::size_t phase, const std::vector<planned_message>& messages) {
    for (const planned_message& one : messages) {
      if (one.from != self_) continue;
      auto& made = *items_.emplace_back(std::make_unique<item>());
      made.is_sent = true, made.peer = one.to, made.tag = one.tag, made.planned = &one;
      made.memory.resize(one.bytes);
      for (std::uint64_t b = 0; b < one.bytes; ++b) made.memory[b] = plan_.at(phase, one, b);
    }
  }

  std::string perform_phase(std::size_t phase) {
    const auto& messages = plan_.phases[phase];
    items_.clear();
    plan_receives(messages);
    const std::size_t receives = items_.size();
    plan_sends(phase, messages);
    if (std::string wrong = post_all(receives); !wrong.empty()) return wrong;
    std::vector<item*> open;
    for (const auto& one : items_) open.push_back(one.get());
    while (!open.empty()) {
      const auto next = open.begin() + static_cast<std::ptrdiff_t>(draw() % open.size());
      if (std::string wrong = wait_for(**next); !wrong.empty()) return wrong;
      open.erase(next);
    }
    // Equal messages are assigned to receives in the order in which the receives were posted.
    std::ranges::sort(items_, {}, [](const auto& one) { return one->posted; });
    for (const auto& one : items_)
      if (!one->is_sent)
        if (std::string wrong = check(*one, phase); !wrong.empty()) return wrong;
    return find_overtaken(phase);
  }

  /// Posts receives in random order and sends in the planned order, interleaved at random.
  std::string post_all(std::size_t receives) {
    for (std::size_t i = receives; i > 1; --i) std::swap(items_[i - 1], items_[draw() % i]);
    std::vector<item*> order;
    for (std::size_t r = 0, s = receives; order.size() < items_.size();) {
      const bool is_receive = s == items_.size() || (r < receives && draw() % 2 == 0);
      order.push_back(items_[is_receive ? r++ : s++].get());
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      item& one = *order[i];
      one.posted = i;
      const lsched_status answer =
          one.is_sent
              ? lsched_send_post(box_, one.peer, one.tag, one.memory.data(), one.memory.size(), &one.message)
              : lsched_receive_post(box_, one.peer, one.tag, one.memory.data(), one.memory.size(), &one.message);
      if (answer != LSCHED_OK) return std::string("post: ") + lsched_status_name(answer);
      if (draw() % 8 == 0)
        if (std::string wrong = cancel_one(); !wrong.empty()) return wrong;
    }
    return {};
  }

  std::string cancel_one() {
    lsched_message* nothing = nullptr;
    std::byte memory{};
    const auto from = static_cast<std::int32_t>(draw() % static_cast<std::uint64_t>(lsched_size(world_)));
    if (lsched_receive_post(box_, from, k_tag_of_nobody, &memory, 1, &nothing) != LSCHED_OK)
      return "post with an unused tag";
    if (lsched_message_cancel(&nothing) != LSCHED_OK || nothing != nullptr) return "a receive cannot be withdrawn";
    return {};
  }

  std::string wait_for(item& one) {
    diagnostic why;
    lsched_arrival what{.struct_size = sizeof what};
    if (draw() % 3 == 0) {
      lsched_status answer = LSCHED_PENDING;
      while ((answer = lsched_message_test(&one.message, &what)) == LSCHED_PENDING) std::this_thread::yield();
      if (answer != LSCHED_OK) return std::string("test: ") + lsched_status_name(answer);
    } else if (lsched_message_wait(&one.message, k_limit_ns, &what, &why) != LSCHED_OK) {
      return why.text;
    }
    if (one.message != nullptr) return "the message is there after its end";
    one.arrived = what;
    return {};
  }

  std::string check(item& one, std::size_t phase) const {
    const lsched_arrival& what = one.arrived;
    const auto is_free = [&](const planned_message& some) {
      return std::ranges::none_of(items_,
                                  [&](const auto& other) { return !other->is_sent && other->planned == &some; });
    };
    const auto is_it = [&](const planned_message& some) {
      if (some.from != what.rank || some.to != self_ || some.tag != what.tag || some.bytes != what.bytes) return false;
      for (std::uint64_t b = 0; b < some.bytes; ++b)
        if (one.memory[b] != plan_.at(phase, some, b)) return false;
      return is_free(some);
    };
    const auto found = std::ranges::find_if(plan_.phases[phase], is_it);
    const std::string words = "a message of rank " + std::to_string(what.rank) + ", tag " + std::to_string(what.tag) +
                              ", " + std::to_string(what.bytes) + " bytes";
    if (found == plan_.phases[phase].end()) return words + ": no rank has sent this message";
    one.planned = &*found;
    if (one.memory[what.bytes] != std::byte{0xee}) return words + ": bytes behind the message were written";
    const bool fits =
        (one.peer == LSCHED_ANY_RANK || one.peer == what.rank) && (one.tag == LSCHED_ANY_TAG || one.tag == what.tag);
    return fits ? std::string() : words + ": does not match the receive";
  }

  /// Returns an error if a message was overtaken by a later message from the same rank. Let receive A be posted before
  /// receive B, and let A match the messages of both receives. Then A must get the earlier message.
  std::string find_overtaken(std::size_t phase) const {
    for (const auto& early : items_)
      for (const auto& late : items_) {
        if (early->is_sent || late->is_sent || early->posted >= late->posted) continue;
        const planned_message &got = *early->planned, &other = *late->planned;
        const bool matches_other = early->tag == LSCHED_ANY_TAG || early->tag == other.tag;
        if (got.from == other.from && matches_other && other.number < got.number && !plan_.are_equal(phase, got, other))
          return "a message of rank " + std::to_string(got.from) + " was overtaken";
      }
    return {};
  }

  const program plan_;
  lsched_world* const world_;
  const std::int32_t self_;
  lsched_mailbox* box_ = nullptr;
  std::vector<std::unique_ptr<item>> items_;
  std::uint64_t draws_ = 0;
};

}  // namespace

std::string perform_message_program(std::uint64_t seed, lsched_world* world) {
  const std::string wrong = rank_of_program(seed, world).perform();
  return wrong.empty() ? wrong : "rank " + std::to_string(lsched_rank(world)) + ": " + wrong;
}

}  // namespace lsched::testing
