#include "offload/open/rendezvous.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <type_traits>
#include <vector>

namespace lsched {
namespace {

/// The record that each rank sends to all other ranks, as plain bytes. Only ranks of the same build have the same
/// layout of this record, so `build` is compared first.
struct introduction {
  std::array<char, 32> build;  ///< participant::build, truncated
  std::int32_t size;
  std::int32_t code;  ///< status of the sender
  residence home;
  std::array<char, 112> text;  ///< reason of `code`, for error texts
};
static_assert(sizeof(introduction) == k_exchanged_bytes);
static_assert(std::has_unique_object_representations_v<introduction>);  // the bytes of two records are compared

/// Copies the text, or its first N characters. A text of N characters has no null at its end.
template <std::size_t N>
void copy_text(std::array<char, N>& into, std::string_view text) {
  into.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), N), into.begin());
}

template <std::size_t N>
std::string text_of(const std::array<char, N>& from) {
  return {from.data(), strnlen(from.data(), N)};
}

/// Returns the name of a rank's build in quotes. Replaces bytes that are not printable, because any exchange function
/// may have transferred the name.
std::string build_of(const introduction& each) {
  std::string name = text_of(each.build);
  std::ranges::replace_if(
      name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return "\"" + name + "\"";
}

introduction introduce(const participant& self, const std::optional<failure>& why) {
  introduction own{};
  copy_text(own.build, self.build);
  own.size = self.place.size;
  own.home = self.home;
  if (why) {
    own.code = static_cast<std::int32_t>(why->code);
    copy_text(own.text, why->text);
  }
  return own;
}

using introductions = std::vector<introduction>;

/// Gathers the introductions of all ranks.
result<introductions> gather(const exchange_function& exchange, const introduction& own) {
  introductions all(static_cast<std::size_t>(own.size));
  if (auto why = exchange(&own, all.data(), sizeof own)) return *std::move(why);
  return all;
}

/// Returns the failure of the first rank that has failed. A timeout often follows from the failure of another rank, so
/// all other failures come before timeouts.
std::optional<failure> find_failure(const introductions& all) {
  constexpr auto k_timeout = static_cast<std::int32_t>(status::timeout);
  auto failed = std::ranges::find_if(all, [](const auto& each) { return each.code != 0 && each.code != k_timeout; });
  if (failed == all.end()) failed = std::ranges::find(all, k_timeout, &introduction::code);
  if (failed == all.end()) return std::nullopt;
  const auto who = static_cast<rank>(failed - all.begin());
  return failure{static_cast<status>(failed->code), "rank " + std::to_string(who) + ": " + text_of(failed->text), who};
}

/// Returns the reason why the ranks cannot form a world, or nothing.
std::optional<failure> find_obstacle(const introductions& all) {
  const introduction& first = all.front();
  for (rank r = 0; r < static_cast<rank>(all.size()); ++r) {
    const introduction& each = all[static_cast<std::size_t>(r)];
    const std::string both = "ranks 0 and " + std::to_string(r);
    if (each.build != first.build)
      return failure{status::mismatch,
                     both + " have loaded different builds of libsched, " + build_of(first) + " and " + build_of(each) +
                         ": install the same build for all ranks",
                     r};
    if (each.size != first.size)
      return failure{status::mismatch,
                     both + " pass different sizes of the world, " + std::to_string(first.size) + " and " +
                         std::to_string(each.size),
                     r};
  }
  return find_failure(all);
}

std::vector<residence> homes_in(const introductions& all) {
  std::vector<residence> found;
  for (const introduction& each : all) found.push_back(each.home);
  return found;
}

/// Returns ARGUMENT if the exchange did not return this rank's own record. On other ranks, this check may succeed.
std::optional<failure> find_distortion(const introduction& returned, const introduction& own) {
  if (std::memcmp(&returned, &own, sizeof own) == 0) return std::nullopt;
  return failure{status::argument,
                 "the exchange did not return this rank's bytes at the position of this rank: an exchange must gather "
                 "the bytes of all ranks in rank order"};
}

}  // namespace

residence find_residence() {
  residence own;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  copy_text(own.machine, boot);
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) == 0) own.processes = space.st_ino;
  own.user = geteuid();
  std::array<char, 48> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) own.host = host;
  return own;
}

std::optional<std::string> find_separation(const residence& first, const residence& second) {
  const bool is_unnamed = second.machine.front() == '\0';
  if (second.machine != first.machine || (is_unnamed && second.host != first.host))
    return "are on the hosts " + text_of(first.host) + " and " + text_of(second.host);
  if (second.processes != first.processes) return "are in different PID namespaces";
  if (second.user != first.user) return "are processes of different users";
  return std::nullopt;
}

std::optional<failure> meet(const participant& self, const exchange_function& exchange, connector& way) {
  const introduction own = introduce(self, self.unable);
  const auto all = gather(exchange, own);
  if (!all) return all.error();
  if (const auto obstacle = find_obstacle(*all)) return self.unable ? self.unable : obstacle;

  const connector::agreement agree = [&](const std::optional<failure>& mine) -> std::optional<failure> {
    const auto outcomes = gather(exchange, introduce(self, mine));
    if (!outcomes) return mine ? mine : outcomes.error();  // other failed ranks may have ended the exchange
    const bool is_cause = mine && mine->code != status::timeout;
    const auto theirs = find_failure(*outcomes);
    return is_cause || !theirs || (mine && theirs->code == status::timeout) ? mine : theirs;
  };
  std::optional<failure> why = way.connect(homes_in(*all), exchange, agree);
  if (!why) why = find_distortion((*all)[static_cast<std::size_t>(self.place.self)], own);
  why = agree(why);
  return why ? why : way.confirm();
}

}  // namespace lsched
