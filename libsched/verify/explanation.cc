#include "libsched/verify/explanation.h"

#include <algorithm>

#include "ops/saturating.h"

namespace lsched::symbolic {

/// By rank: how often its input is in the node; the largest number: that often, or more. Operands have lower numbers
/// than what they were joined to.
std::vector<std::uint64_t> explanation::copies_in(node_id top, std::uint32_t input) const {
  std::vector<std::uint64_t> uses(top + std::size_t{1}, 0);
  std::vector<std::uint64_t> copies(static_cast<std::size_t>(all_.size()), 0);
  uses[top] = 1;
  for (node_id at = top + 1; at-- > 0;) {
    if (uses[at] == 0) continue;
    const node& it = nodes_[at];
    if (it.joined_by != k_no_world_op) {
      uses[it.lower] = saturating_sum(uses[it.lower], uses[at]);
      uses[it.higher] = saturating_sum(uses[it.higher], uses[at]);
    } else if (it.input == input) {
      std::uint64_t& there = copies[static_cast<std::size_t>(it.lowest)];
      there = saturating_sum(there, uses[at]);
    }
  }
  return copies;
}

std::string explanation::words_for_least(const promised_range& wanted, const node& found) const {
  if (found.least_by == k_no_world_op) return {};
  const making least = making_of(all_.at(found.least_by).what);
  if (least == making::by_function && is_function(wanted.how)) return {};
  return "what " + all_.words_for(found.least_by) + " made is in it, and " +
         (least == making::nobodys ? "that is nobody's contribution" : "a function may make anything of contributions");
}

std::string explanation::words_for(const promised_range& wanted, const segment& found) const {
  const std::vector<std::uint64_t> copies = copies_in(found.what, wanted.input);
  const auto is_wanted = [&](rank r) {
    if (wanted.what == promised_content::moved) return r == wanted.source;
    return wanted.among.empty() || std::binary_search(wanted.among.begin(), wanted.among.end(), r);
  };
  for (rank r = 0; r < all_.size(); ++r) {
    const std::uint64_t there = copies[static_cast<std::size_t>(r)];
    const std::string whose = "the contribution of rank " + std::to_string(r);
    const bool is_least = there == k_saturated;
    if (there > 1)
      return whose + " is in it " + (is_least ? "at least " : "") + std::to_string(there) + " times, " +
             words_for_two_ways(found.what, r, wanted.input);
    if (there == 0 && is_wanted(r)) return whose + " is missing; " + words_for_loss(r, wanted.input);
    if (there == 1 && !is_wanted(r)) return whose + " is in it, but should not be";
  }
  return "the contributions come from other elements than they should";
}

/// By node: whether that leaf is in it.
std::vector<bool> explanation::holders_of(rank contributor, std::uint32_t input) const {
  std::vector<bool> holds(nodes_.size(), false);
  for (node_id at = 0; at < nodes_.size(); ++at) {
    const node& it = nodes_[at];
    holds[at] = it.joined_by == k_no_world_op ? it.lowest == contributor && it.input == input
                                              : holds[it.lower] || holds[it.higher];
  }
  return holds;
}

/// The joins from the leaf up to the node, along the higher operand at the first fork, or along the lower.
std::string explanation::words_for_way(node_id top, const std::vector<bool>& holds, bool from_higher) const {
  std::vector<std::string> steps;
  bool is_forked = false;
  for (node_id at = top; nodes_[at].joined_by != k_no_world_op;) {
    const node& it = nodes_[at];
    const bool is_fork = holds[it.lower] && holds[it.higher];
    const bool takes_higher = is_fork && !is_forked ? from_higher : !holds[it.lower];
    is_forked = is_forked || is_fork;
    steps.push_back((takes_higher ? "b of " : "a of ") + all_.words_for(it.joined_by));
    at = takes_higher ? it.higher : it.lower;
  }
  std::string text = "as operand ";
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    text += (step == steps.rbegin() ? "" : ", then ") + *step;
  return text;
}

std::string explanation::words_for_two_ways(node_id top, rank contributor, std::uint32_t input) const {
  const std::vector<bool> holds = holders_of(contributor, input);
  return "once " + words_for_way(top, holds, false) + ", and once " + words_for_way(top, holds, true);
}

/// Of the nodes that hold it and are operands of none that does, the one with the fewest leaves: where it got lost.
std::string explanation::words_for_loss(rank contributor, std::uint32_t input) const {
  const std::vector<bool> holds = holders_of(contributor, input);
  std::vector<bool> is_used(nodes_.size(), false);
  for (node_id at = 0; at < nodes_.size(); ++at)
    if (const node& it = nodes_[at]; it.joined_by != k_no_world_op) is_used[it.lower] = is_used[it.higher] = true;
  const node* last = nullptr;
  for (node_id at = 0; at < nodes_.size(); ++at)
    if (holds[at] && !is_used[at] && (last == nullptr || nodes_[at].contributions.size < last->contributions.size))
      last = &nodes_[at];
  if (last == nullptr || last->joined_by == k_no_world_op) return "no op has combined it with another";
  return "it got as far as " + all_.words_for(last->joined_by);
}

}  // namespace lsched::symbolic
