#include "tests/support/rendezvous_trials.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "libsched/schedule/draw.h"
#include "offload/open/rendezvous.h"

namespace lsched::testing {
namespace {

using record = std::array<std::byte, k_exchanged_bytes>;

constexpr int k_failed = 7, k_left = 9;  // error codes of exchanges
constexpr std::size_t k_place_of_code = 36;

/// An exchange among threads, like a store that a launcher provides. If a rank leaves, exchanges fail on the other
/// ranks, so that no rank waits for the rank that left.
class store {
 public:
  explicit store(rank ranks) : written_(static_cast<std::size_t>(ranks)) {}

  int exchange(rank self, const void* mine, std::vector<record>& all) {
    std::unique_lock lock(guard_);
    std::memcpy(written_[static_cast<std::size_t>(self)].data(), mine, k_exchanged_bytes);
    const int number = completed_;
    if (++arrived_ == written_.size()) {
      arrived_ = 0;
      gathered_ = written_;
      ++completed_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return completed_ != number || has_left_; });
    all = gathered_;
    return completed_ != number ? 0 : k_left;
  }

  void leave() {
    const std::lock_guard lock(guard_);
    has_left_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex guard_;
  std::condition_variable changed_;
  std::vector<record> written_, gathered_;
  std::size_t arrived_ = 0;
  int completed_ = 0;
  bool has_left_ = false;
};

class trial {
 public:
  explicit trial(const rendezvous_trial& what)
      : what_(what),
        store_(what.size),
        is_connected_(static_cast<std::size_t>(what.size)),
        answers_(static_cast<std::size_t>(what.size)),
        odd_(static_cast<rank>(draw(0) % ranks())),
        planted_at_(static_cast<rank>(draw(1) % ranks())),
        failing_exchange_(static_cast<int>(draw(2) % 2)),
        changed_byte_(draw(3) % k_exchanged_bytes),
        changed_bit_(draw(4) % 8),
        viewer_(static_cast<rank>(draw(5) % ranks())) {}

  std::string run() {
    {
      std::vector<std::jthread> threads;
      for (rank r = 0; r < what_.size; ++r)
        threads.emplace_back([this, r] {
          answers_[static_cast<std::size_t>(r)] = play(r);
          store_.leave();
        });
    }
    for (rank r = 0; r < what_.size; ++r)
      if (auto wrong = find_error(r); !wrong.empty())
        return "seed " + std::to_string(what_.seed) + ", " + std::to_string(what_.size) + " ranks, trouble " +
               std::to_string(static_cast<int>(what_.what)) + " at rank " + std::to_string(odd_) + ": rank " +
               std::to_string(r) + " " + wrong;
    return "";
  }

 private:
  using answer = std::optional<failure>;

  /// A rank's connector.
  class links final : public connector {
   public:
    links(trial& of, rank self) : of_(of), self_(self) {}
    std::optional<failure> connect(std::span<const residence> homes, const exchange_function&,
                                   const agreement&) override {
      if (of_.has(trouble::no_link, self_) || of_.has(trouble::repeated, self_)) return of_.own_failure();
      for (rank other = 1; other < static_cast<rank>(homes.size()); ++other)
        if (const auto why = find_separation(homes.front(), homes[static_cast<std::size_t>(other)]))
          return failure{status::unsupported,
                         "ranks 0 and " + std::to_string(other) + " " + *why + ", and this world cannot span hosts",
                         other};
      const std::lock_guard lock(of_.guard_);
      of_.is_connected_[static_cast<std::size_t>(self_)] = true;
      return std::nullopt;
    }
    std::optional<failure> confirm() override {
      const std::lock_guard lock(of_.guard_);
      if (std::ranges::count(of_.is_connected_, false) == 0) return std::nullopt;
      return failure{status::transport, "a rank has not connected"};
    }

   private:
    trial& of_;
    const rank self_;
  };

  std::uint64_t draw(std::uint64_t number) const { return mix(what_.seed * 1000 + number); }
  std::size_t ranks() const { return static_cast<std::size_t>(what_.size); }
  bool has(trouble which, rank who) const { return what_.what == which && who == odd_; }
  bool is_planted(wrong_rank which, rank who) const { return what_.planted == which && who == planted_at_; }
  failure own_failure() const { return {status::no_memory, "no memory on this rank"}; }

  participant introduce(rank self) const {
    participant own{{self, what_.size}, "build 1"};
    const bool has_boot_id = what_.what != trouble::unnamed_host;
    own.home = {.processes = 4026531836, .user = 1000};
    if (has_boot_id) own.home.machine = {'b', 'o', 'o', 't'};
    own.home.host = {'a'};
    if (has(trouble::other_build, self)) own.build = "build 2";
    if (has(trouble::other_host, self)) own.home.machine = {'e', 'l', 's', 'e'};
    if (has(trouble::other_host, self) || has(trouble::unnamed_host, self)) own.home.host = {'b'};
    if (has(trouble::other_name_space, self)) ++own.home.processes;
    if (has(trouble::other_user, self)) ++own.home.user;
    if (has(trouble::other_size, self)) ++own.place.size;
    if (has(trouble::unable, self)) own.unable = own_failure();
    return own;
  }

  answer play(rank self) {
    const participant own = introduce(self);
    links way(*this, self);
    std::vector<record> first;
    int number = 0;
    const auto exchange = [&](const void* mine, void* all, std::uint64_t bytes) {
      if (bytes != k_exchanged_bytes || number > 1) return -1;
      if (has(trouble::no_exchange, self) && number == failing_exchange_) return k_failed;
      const bool has_failed = code_in(mine) != 0;
      if (number == 1 && has_failed && is_planted(wrong_rank::leaves_early, self)) return k_left;
      std::vector<record> gathered;
      if (const int code = store_.exchange(self, mine, gathered); code != 0) return code;
      change(gathered, self, number);
      if (number == 0) first = gathered;
      if (number == 1 && what_.what == trouble::repeated) gathered = first;
      if (is_planted(wrong_rank::judges_alone, self))
        for (record& each : gathered) std::memcpy(each.data(), mine, bytes);
      if (number == 1 && is_planted(wrong_rank::ignores_outcome, self))
        for (record& each : gathered) std::memset(each.data() + k_place_of_code, 0, sizeof(std::int32_t));
      gathered.resize(static_cast<std::size_t>(own.place.size));  // one record for each rank that this rank expects
      std::memcpy(all, gathered.data(), gathered.size() * bytes);
      ++number;
      return 0;
    };
    return meet(
        own,
        [&](const void* mine, void* all, std::uint64_t bytes) -> answer {
          const int code = exchange(mine, all, bytes);
          if (code == 0) return std::nullopt;
          return failure{status::transport, "the exchange returned " + std::to_string(code)};
        },
        way);
  }

  static std::int32_t code_in(const void* sent) {
    std::int32_t code = 0;
    std::memcpy(&code, static_cast<const std::byte*>(sent) + k_place_of_code, sizeof code);
    return code;
  }

  void change(std::vector<record>& gathered, rank self, int number) const {
    const bool is_changed = (what_.what == trouble::changed_introduction && number == 0) ||
                            (what_.what == trouble::changed_outcome && number == 1) ||
                            (what_.what == trouble::changed_for_one && number == 0 && self == viewer_);
    if (is_changed)
      gathered[static_cast<std::size_t>(odd_)][changed_byte_] ^= static_cast<std::byte>(1U << changed_bit_);
  }

  // --- expected results ---------------------------------------------------------------------------------------------

  /// Returns a description of the error in a rank's answer, or an empty string.
  std::string find_error(rank who) const {
    switch (what_.what) {
      case trouble::none: return expect(who, status::ok, "");
      case trouble::other_build:
        return expect_difference(who, status::mismatch,
                                 std::string("have loaded different builds of libsched, ") +
                                     (odd_ == 0 ? "\"build 2\" and \"build 1\"" : "\"build 1\" and \"build 2\""));
      case trouble::other_size: return expect_difference(who, status::mismatch, "pass different sizes of the world");
      case trouble::other_host:
      case trouble::unnamed_host:
        return expect_difference(who, status::unsupported,
                                 odd_ == 0 ? "are on the hosts b and a, and this world cannot span hosts"
                                           : "are on the hosts a and b, and this world cannot span hosts");
      case trouble::other_name_space:
        return expect_difference(who, status::unsupported, "are in different PID namespaces, and this world");
      case trouble::other_user:
        return expect_difference(who, status::unsupported, "are processes of different users, and this world");
      case trouble::unable:
      case trouble::no_link:
        return expect(who, status::no_memory,
                      who == odd_ ? own_failure().text : "rank " + std::to_string(odd_) + ": " + own_failure().text);
      case trouble::no_exchange:
        return expect(who, status::transport,
                      "the exchange returned " + std::to_string(who == odd_ ? k_failed : k_left));
      case trouble::changed_introduction:
      case trouble::changed_outcome: return expect_equal_codes(who);
      case trouble::changed_for_one: return expect_all_or_none(who);
      case trouble::repeated:
        return who == odd_ ? expect(who, status::no_memory, own_failure().text)
                           : expect(who, status::transport, "a rank has not connected");
    }
    return "has an unknown trouble";
  }

  /// Expects that the answer names the first rank that differs from rank 0. In a world of one rank, no rank differs. If
  /// the only rank expects two ranks, the second introduction is empty, so the builds seem to differ.
  std::string expect_difference(rank who, status code, const std::string& words) const {
    if (what_.size == 1 && what_.what != trouble::other_size) return expect(who, status::ok, "");
    if (what_.size == 1) return expect(who, status::mismatch, "have loaded different builds");
    const rank named = odd_ == 0 ? 1 : odd_;
    std::string wrong = expect(who, code, "ranks 0 and " + std::to_string(named) + " ");
    return wrong.empty() ? expect(who, code, words) : wrong;
  }

  std::string expect(rank who, status code, const std::string& words) const {
    const answer& got = answers_[static_cast<std::size_t>(who)];
    const failure found = got.value_or(failure{status::ok, {}});
    if (found.code == code && found.text.find(words) != std::string::npos) return "";
    return "got " + std::string(name_of(found.code)) + " \"" + found.text + "\" instead of " +
           std::string(name_of(code)) + " \"" + words + "\"";
  }

  static int code_of(const answer& one) { return one ? static_cast<int>(one->code) : 0; }

  /// Expects that all ranks have equal codes, because all ranks have seen the same data.
  std::string expect_equal_codes(rank who) const {
    const int own = code_of(answers_[static_cast<std::size_t>(who)]), first = code_of(answers_.front());
    if (what_.what == trouble::changed_introduction && own == 0) return "has not noticed a changed introduction";
    return own == first ? "" : "got " + std::to_string(own) + ", but rank 0 got " + std::to_string(first);
  }

  /// Expects that either all ranks or no ranks have failed.
  std::string expect_all_or_none(rank who) const {
    const bool has_failed = answers_[static_cast<std::size_t>(who)].has_value();
    if (has_failed == answers_.front().has_value()) return "";
    return has_failed ? "failed, but rank 0 did not" : "did not fail, but rank 0 did";
  }

  const rendezvous_trial what_;
  store store_;
  std::mutex guard_;
  std::vector<bool> is_connected_;
  std::vector<answer> answers_;
  const rank odd_, planted_at_;
  const int failing_exchange_;
  const std::size_t changed_byte_, changed_bit_;
  const rank viewer_;
};

}  // namespace

std::string perform(const rendezvous_trial& what) { return trial(what).run(); }

}  // namespace lsched::testing
