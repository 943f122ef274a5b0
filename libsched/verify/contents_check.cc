// Compares outputs with the postcondition.
#include <algorithm>
#include <string>

#include "libsched/verify/contents.h"
#include "ops/saturating.h"

namespace lsched {

using namespace symbolic;

namespace {

/// Explains why a range is wrong. The text names the missing or repeated contribution, and the ops that caused this
/// difference.
class explanation {
 public:
  explanation(const assembly& all, const node_table& nodes) : all_(all), nodes_(nodes) {}

  /// Returns the reason why a range must not contain the result of op found.least_by, or an empty string.
  std::string words_for_least(const promised_range& wanted, const node& found) const {
    if (found.least_by == k_no_world_op) return {};
    const making least = making_of(all_.at(found.least_by).what);
    if (least == making::by_function && is_function(wanted.how)) return {};
    return "contains the result of " + all_.words_for(found.least_by) + ", which " +
           (least == making::nobodys ? "is not a contribution" : "a function may have computed in any way");
  }

  /// Explains contributions that differ from those in the postcondition.
  std::string words_for(const promised_range& wanted, const segment& found) const {
    const std::vector<std::uint64_t> copies = copies_in(found.what, wanted.input);
    const auto is_wanted = [&](rank r) {
      if (wanted.what == promised_content::moved) return r == wanted.source;
      return wanted.among.empty() || std::binary_search(wanted.among.begin(), wanted.among.end(), r);
    };
    const bool is_set = nodes_[found.what].ranks != rank_sets::k_empty;  // true if each leaf is in the node only once
    for (rank r = 0; r < all_.size(); ++r) {
      const std::uint64_t copied = copies[static_cast<std::size_t>(r)];
      const std::uint64_t there = is_set ? std::min<std::uint64_t>(copied, 1) : copied;
      const std::string whose = "the contribution of rank " + std::to_string(r);
      const bool is_least = there == k_saturated;
      if (there > 1)
        return whose + " is contained " + (is_least ? "at least " : "") + std::to_string(there) + " times, " +
               words_for_two_ways(found.what, r, wanted.input);
      if (there == 0 && is_wanted(r)) return whose + " is missing; " + words_for_loss(r, wanted.input);
      if (there == 1 && !is_wanted(r)) return whose + " is contained, but must not be";
    }
    const world_op last = nodes_[found.what].joined_by;
    return "the contributions come from the wrong elements" +
           (last == k_no_world_op ? "" : "; " + all_.words_for(last) + " combined them last");
  }

 private:
  /// Returns, for each rank, how often the rank's input is in the node. The counts saturate. The loop relies on the
  /// fact that operands have lower node ids than their joins.
  std::vector<std::uint64_t> copies_in(node_id top, std::uint32_t input) const {
    std::vector<std::uint64_t> uses(top + std::size_t{1}, 0);
    std::vector<std::uint64_t> copies(static_cast<std::size_t>(all_.size()), 0);
    uses[top] = 1;
    for (node_id at = top + 1; at-- > 0;) {
      if (uses[at] == 0) continue;
      const node& n = nodes_[at];
      if (n.joined_by != k_no_world_op) {
        uses[n.lower] = saturating_sum(uses[n.lower], uses[at]);
        uses[n.higher] = saturating_sum(uses[n.higher], uses[at]);
      } else if (n.input == input) {
        std::uint64_t& there = copies[static_cast<std::size_t>(n.lowest)];
        there = saturating_sum(there, uses[at]);
      }
    }
    return copies;
  }

  /// Returns, for each node, true if the node contains the leaf of this contributor and input.
  std::vector<bool> holders_of(rank contributor, std::uint32_t input) const {
    std::vector<bool> holds(nodes_.size(), false);
    for (node_id at = 0; at < nodes_.size(); ++at) {
      const node& n = nodes_[at];
      holds[at] = n.joined_by == k_no_world_op ? n.lowest == contributor && n.input == input
                                               : holds[n.lower] || holds[n.higher];
    }
    return holds;
  }

  /// Describes the joins on a way from the leaf up to the node. If both operands of a join contain the leaf, there are
  /// several ways. At the join of this kind that is nearest to the node, `from_higher` selects the operand.
  std::string words_for_way(node_id top, const std::vector<bool>& holds, bool from_higher) const {
    std::vector<std::string> steps;
    bool is_forked = false;
    for (node_id at = top; nodes_[at].joined_by != k_no_world_op;) {
      const node& n = nodes_[at];
      const bool is_fork = holds[n.lower] && holds[n.higher];
      const bool takes_higher = is_fork && !is_forked ? from_higher : !holds[n.lower];
      is_forked = is_forked || is_fork;
      steps.push_back((takes_higher ? "b of " : "a of ") + all_.words_for(n.joined_by));
      at = takes_higher ? n.higher : n.lower;
    }
    std::string text = "as operand ";
    for (auto step = steps.rbegin(); step != steps.rend(); ++step)
      text += (step == steps.rbegin() ? "" : ", then ") + *step;
    return text;
  }

  std::string words_for_two_ways(node_id top, rank contributor, std::uint32_t input) const {
    const std::vector<bool> holds = holders_of(contributor, input);
    return "once " + words_for_way(top, holds, false) + ", and once " + words_for_way(top, holds, true);
  }

  /// Describes where a contribution was lost. Some nodes contain the contribution and are not used as operands. The
  /// text describes the node with the fewest leaves among these nodes.
  std::string words_for_loss(rank contributor, std::uint32_t input) const {
    const std::vector<bool> holds = holders_of(contributor, input);
    std::vector<bool> is_used(nodes_.size(), false);
    for (node_id at = 0; at < nodes_.size(); ++at)
      if (const node& n = nodes_[at]; n.joined_by != k_no_world_op) is_used[n.lower] = is_used[n.higher] = true;
    const node* last = nullptr;
    for (node_id at = 0; at < nodes_.size(); ++at)
      if (holds[at] && !is_used[at] && (last == nullptr || nodes_[at].contributions.size < last->contributions.size))
        last = &nodes_[at];
    if (last == nullptr || last->joined_by == k_no_world_op) return "no op has combined this contribution with another";
    return "the last op that combined this contribution is " + all_.words_for(last->joined_by);
  }

  const assembly& all_;
  const node_table& nodes_;
};

}  // namespace

void contents::check(const postcondition& promise) {
  for (const promised_range& wanted : promise.ranges) {
    if (out_.is_full()) return;
    if (wanted.what != promised_content::nothing && wanted.begin < wanted.end) check_range(wanted, promise);
  }
}

void contents::object(property what, const promised_range& wanted, const element_range& where, const std::string& why) {
  out_.add({.what = what,
            .where = wanted.holder,
            .buffer = where.buffer,
            .begin = where.begin,
            .end = where.end,
            .text = "rank " + std::to_string(wanted.holder) + " output " + std::to_string(wanted.output) +
                    " elements " + range_text(where.begin, where.end) + ": " + why});
}

void contents::check_range(const promised_range& wanted, const postcondition& promise) {
  element_range all{k_no_buffer, wanted.begin, wanted.end};
  if (wanted.holder < 0 || wanted.holder >= all_.size())
    return object(property::contents, wanted, all, "this rank does not exist");
  const auto buffers = all_.program(wanted.holder).buffers();
  std::uint32_t outputs_before = wanted.output;
  const auto output = std::ranges::find_if(
      buffers, [&](const buffer& b) { return b.role == buffer_role::output && outputs_before-- == 0; });
  if (output == buffers.end() || output->count < wanted.end)
    return object(property::contents, wanted, all, "the output does not have these elements");
  all.buffer = static_cast<std::uint16_t>(output - buffers.begin());
  const placement& place = placement_of(wanted.holder, region(all.buffer, 0));
  const memory found = part_of(memories_[place.memory], place.begin + wanted.begin, place.begin + wanted.end);
  const element_range gap = gap_in(found, wanted.end - wanted.begin);
  for (const segment& piece : found)
    if (piece.end <= gap.begin && !check_segment(wanted, piece, all.buffer)) return;
  if (gap.begin != gap.end)
    return object(property::contents, wanted, {all.buffer, wanted.begin + gap.begin, wanted.begin + gap.end},
                  "no op has written these elements");
  if (wanted.what == promised_content::reduced && promise.is_same_everywhere)
    compare_expression(wanted, found, all.buffer);
}

/// Returns the fingerprint of the leaves (inputs of ranks) that the postcondition requires. Their shift is 0.
fingerprint contents::expected(const promised_range& wanted) {
  if (wanted.what == promised_content::moved) return leaf_fingerprint(wanted.source, wanted.input);
  const auto [place, is_new] = reduced_.try_emplace({wanted.input, wanted.among});
  if (!is_new) return place->second;
  fingerprint& leaves = place->second;
  for (const rank r : wanted.among) leaves = joined(leaves, leaf_fingerprint(r, wanted.input));
  for (rank r = 0; wanted.among.empty() && r < all_.size(); ++r)
    leaves = joined(leaves, leaf_fingerprint(r, wanted.input));
  return leaves;
}

/// Returns true if the node is the quotient of its `lower` node and the divisor.
bool contents::is_quotient(const node& n, std::uint64_t divisor) const {
  return n.joined_by != k_no_world_op && all_.at(n.joined_by).what == kernel::divide &&
         n.tree == divided_tree(nodes_[n.lower].tree, divisor);
}

bool contents::check_segment(const promised_range& wanted, const segment& found, std::uint16_t buffer) {
  const node& n = nodes_[found.what];
  const bool is_moved = wanted.what == promised_content::moved;
  // Element i of the range is element i - found.shift of the node, and must be input element input_begin + i. So the
  // node's leaves must be the leaves of expected(), shifted by input_begin + found.shift.
  const auto moved = static_cast<std::int64_t>(wanted.input_begin);
  const bool is_right = n.contributions == nodes_.shifted(expected(wanted), moved + found.shift);
  const auto bad = [&](property what, const std::string& why) {
    object(what, wanted, {buffer, wanted.begin + found.begin, wanted.begin + found.end}, why);
    return false;
  };
  if (!is_right) return bad(property::contents, explanation(all_, nodes_).words_for(wanted, found));
  if (const std::string why = explanation(all_, nodes_).words_for_least(wanted, n); !why.empty())
    return bad(property::contents, why);
  if (n.shares != 0) return bad(property::contents, "contains parts of a split element that no join has combined");
  if (is_moved && n.joined_by != k_no_world_op)
    return bad(property::contents, "is divided, but must be an unchanged copy");
  if (is_moved) return true;
  const std::uint32_t of_means = wanted.has_means ? bit_of(kernel::sum) | bit_of(kernel::divide) : 0;
  if (wanted.divisor != 0 && !is_quotient(n, wanted.divisor))
    return bad(property::contents, "is not divided by " + std::to_string(wanted.divisor) + " at the end");
  const node& whole = wanted.divisor == 0 ? n : nodes_[n.lower];
  const bool are_merges_right = (n.merges & ~(bit_of(wanted.how) | bit_of(wanted.merged))) == 0;
  if (!are_merges_right || (whole.kernels & ~(bit_of(wanted.how) | of_means)) != 0)
    return bad(property::contents, "is combined by another kernel than " + std::string(name_of(wanted.how)));
  if (wanted.is_in_rank_order && !n.is_in_rank_order)
    return bad(property::expression, "an operand of a higher rank comes before an operand of a lower rank");
  if (wanted.tree != 0 && n.tree != wanted.tree)
    return bad(property::expression, "is combined in another tree than the algorithm defines");
  if (n.is_there && all_.program(wanted.holder).is_partial() && n.contributors != expected(wanted))
    return bad(property::contents, "the recorded contributors are not the ranks whose contributions are contained");
  return true;
}

/// Compares the expression of the range with the expression on the first rank that has this range. Adjacent segments
/// with equal trees count as one segment.
void contents::compare_expression(const promised_range& wanted, const memory& found, std::uint16_t buffer) {
  expression mine;
  for (const segment& piece : found) {
    const std::uint64_t tree = nodes_[piece.what].tree;
    if (!mine.empty() && std::get<2>(mine.back()) == tree)
      std::get<1>(mine.back()) = piece.end;
    else
      mine.emplace_back(piece.begin, piece.end, tree);
  }
  const auto [place, is_new] = first_.try_emplace({wanted.output, wanted.begin, wanted.end}, wanted.holder, mine);
  if (is_new || place->second.second == mine) return;
  object(property::expression, wanted, {buffer, wanted.begin, wanted.end},
         "is combined in another way than at rank " + std::to_string(place->second.first) + ", so the bits may differ");
}

}  // namespace lsched
