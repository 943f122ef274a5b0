#include "libsched/session/outcome.h"

#include <string>

namespace lsched {
namespace {

std::string words_for(const instance& runs, status answer, rank peer) {
  const std::string who = "rank " + std::to_string(peer);
  const bool has_peer = peer != k_no_rank;
  const bool is_own = has_peer && runs.members != nullptr && peer == runs.members->place().self;
  if (answer == status::peer && is_own) return std::string(k_has_grown);
  if (answer == status::peer) return who + " died, or closed its world or the schedule without leaving";
  if (answer == status::device && runs.device != nullptr) return runs.device->failure_words;
  if (answer == status::cancelled) return who + " has cancelled the schedule";
  if (answer == status::bounds && has_peer)
    return "the elements that " + who + " has sent do not fit into their block: set a larger recv_counts";
  if (answer == status::transport && has_peer)
    return "a message of " + who +
           " cannot be read: that rank has unmapped the buffer, or the system permits no reads of that process. Use "
           "memory from lsched_alloc, or set LSCHED_READ_PEERS=no";
  return std::string(text_of(answer));
}

}  // namespace

status outcome_of(const awaited_round& awaited) {
  const status verdict = awaited.runs.verdict.load();  // must precede `finished`: an instance may fail after the round
  if (awaited.runs.finished.load() >= awaited.round) return status::ok;
  return verdict == status::ok ? status::pending : verdict;
}

failure describe_failure(const instance& runs, status answer) {
  const rank peer = runs.culprit.load();
  return {answer, runs.label + ": " + words_for(runs, answer, peer), peer};
}

failure describe_wait(const engine& runs, std::string_view label, const awaited_round& awaited) {
  failure why{status::timeout};
  why.text = runs.describe_wait(awaited.runs, &why.peer);
  if (awaited.shown != 0 && awaited.shown != counted(awaited.runs, open_round(awaited.runs)))
    why.text.insert(0, std::string(label) + ", round " + std::to_string(awaited.shown) + ": ");
  return why;
}

}  // namespace lsched
