// Contents: the symbolic execution of a world, which finds the contributions in every element.
//
// A segment of memory holds a node (node_table.h) and the shift of its elements.
//
// The sums of products that weight an adaptive sum are nodes too. Such a node records the products of its sums
// (fingerprint.h), and the expression of the adaptive sum includes these products. So the expression is the promised
// expression only if the sums were complete.
//
// A list is an element like any other. Its length follows from its content, so a length is a node whose expression
// names the list. Packed lists are laid out by lengths before they hold items. Afterwards only lists with these lengths
// may be written to them. So both ends of an edge have the same lengths.
//
// Sums of products, lengths and derived numbers are no contributions. They may steer ops. If such a number becomes part
// of a node, that node and all nodes made from that node record the op that made the number. No promised range may hold
// such a node. Results of functions are marked in the same way, and only postconditions by functions allow them.
//
// Functions are trusted to do what their kernels declare:
//   - A split keeps each contribution whole. Its result has one element for each part, in order.
//   - A fold takes the same element of several nodes and joins their contributions, in order.
//   - A join takes all elements of one node, or the same part of the split of each element of one node. No part may be
//     missing.
//   - The operand that steers a function (b) is equal on all ranks.
//   - Element i of derived lengths is the length of part i of a split value, or of element i. The engine compares
//     messages with these lengths.
//   - In partial schedules the result of a function is never null. The contributors of the result are the contributors
//     of operand b. In a promised range, these must be the ranks whose contributions the result contains.
//
// If the world has no hazards, one order suffices, because every read follows the same write in all executions.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "libsched/postcondition/aliasing.h"
#include "libsched/postcondition/fingerprint.h"
#include "libsched/postcondition/postcondition.h"
#include "libsched/verify/assembly.h"
#include "libsched/verify/node_table.h"
#include "libsched/verify/progress.h"

namespace lsched {

class contents {
 public:
  contents(const assembly& all, const aliasing& in_place, finding_list& out);

  /// Executes the ops of `round` that were not void (progress::was_void), in the order of their completion. A read of
  /// memory that was never written is a finding.
  void run(const progress& round);

  /// Compares the outputs with the postcondition. Adds findings of the properties `contents` and `expression`.
  void check(const postcondition& promise);

 private:
  using node_id = symbolic::node_id;
  using node = symbolic::node;
  using segment = symbolic::segment;
  using memory = std::vector<segment>;                                                      ///< ascending, disjoint
  using expression = std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>;  ///< begin, end, tree

  void set_up(rank r, const aliasing& in_place);

  // --- memory (contents.cc); findings name op `user` ----------------------------------------------------------
  const schedule& program_of(world_op id) const { return all_.program(all_.rank_of(id)); }
  /// Returns the place of a region in memory. Memories are numbered over all ranks.
  const placement& placement_of(rank r, region part) const {
    return placements_[first_buffer_[static_cast<std::size_t>(r)] + part.buffer()];
  }
  static memory part_of(const memory& all, std::uint64_t begin, std::uint64_t end);
  static element_range gap_in(const memory& pieces, std::uint64_t count);
  void receive(world_op id);
  memory read(world_op id, world_op user, region part, std::uint64_t count);
  memory read(world_op id, region part, std::uint64_t count) { return read(id, id, part, count); }
  static void write(memory& target, std::uint64_t at, std::uint64_t count, const memory& pieces);
  void write(world_op id, region part, std::uint64_t count, const memory& pieces);
  void check_segment_states(world_op user, region part, const memory& pieces);
  void object(world_op id, region part, std::uint64_t begin, std::uint64_t end, const std::string& why);

  // --- ops (contents.cc, contents_functions.cc) ----------------------------------------------------------------
  void execute(world_op id);
  void compute(world_op id, symbolic_rule rule);
  memory captured(world_op id);
  template <class Visit>
  static void for_each_pair(const memory& lower, const memory& higher, const Visit& visit);
  void multiply(world_op id);
  memory combined(world_op id, const memory& lower, const memory& higher);
  memory weighed(world_op id, const memory& lower, const memory& higher);
  memory divided(world_op id, const memory& sums);
  memory lengths_of(world_op id, const memory& lists);
  void lay_out(world_op id, const memory& lengths);
  void put(world_op id, std::uint64_t count, const memory& pieces);
  bool lays_out(std::uint64_t begin, std::uint64_t end, const segment& length, const segment& list) const;

  void call(world_op id, symbolic_rule rule);
  void check_agreement(world_op id, const memory& steering);
  std::uint64_t tree_of(const memory& all) const;
  std::uint64_t joined_tree_of(kernel how, std::uint64_t tree, const memory& all) const;
  std::uint64_t function_of(world_op id) const { return program_of(id).parameters_of(all_.at(id)).front().integer(); }
  std::optional<segment> split(world_op id, std::uint64_t tree, const memory& source);
  std::optional<segment> folded(world_op id, const memory& source, const memory& steering);
  std::optional<segment> joined_parts(world_op id, std::uint64_t tree, const memory& source);
  std::optional<segment> made_of(world_op id, node made, std::int64_t number, std::uint64_t of);

  // --- postconditions (contents_check.cc) ----------------------------------------------------------------------
  void check_range(const promised_range& wanted, const postcondition& promise);
  bool check_segment(const promised_range& wanted, const segment& found, std::uint16_t buffer);
  bool is_quotient(const node& n, std::uint64_t divisor) const;
  fingerprint expected(const promised_range& wanted);
  void compare_expression(const promised_range& wanted, const memory& found, std::uint16_t buffer);
  void object(property what, const promised_range& wanted, const element_range& where, const std::string& why);

  const assembly& all_;
  finding_list& out_;
  symbolic::node_table nodes_;
  std::vector<std::size_t> first_buffer_;  ///< index in placements_ of the rank's first buffer, by rank
  std::vector<placement> placements_;      ///< places of buffers in memory, by rank and buffer
  std::vector<memory> memories_;
  std::vector<memory> layouts_;  ///< lengths by which packed lists are laid out, by memory; empty for other memories
  /// Sums of leaves, by input and contributors (empty: every rank).
  std::map<std::pair<std::uint32_t, std::vector<rank>>, fingerprint> reduced_;
  std::map<std::uint64_t, std::uint64_t> agreed_;  ///< expression of the operand that steers the function, by function
  /// The first holder of each promised range, and the holder's expression, by output, begin and end.
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::pair<rank, expression>> first_;
  std::vector<bool> has_received_;         ///< whether the receive has completed, by op
  std::map<world_op, memory> in_buffers_;  ///< messages of sends that have completed before their receives, by send
};

}  // namespace lsched
