// Contents: the symbolic execution of a world, which finds the contributions in every element.
//
// A segment of memory holds a node (node_table.h) and the shift of its elements.
//
// The sums of products that weight an adaptive sum are nodes too. They record the products that they contain
// (fingerprint.h), and the expression of the adaptive sum includes them. So the expression is the promised one only if
// the sums were complete.
//
// A list is an element like any other. Its length follows from its content, so a length is a node whose expression
// names the list. Packed lists are laid out by lengths before they hold items, and only the lists with these lengths
// may be written there. So both ends of an edge have the same lengths.
//
// Sums of products, lengths and derived numbers are no contributions. They may steer ops. If such a number becomes part
// of a node, the node and all nodes made from it remember the op that made the number. No promised range may hold such
// a node. Results of functions are marked in the same way, and only postconditions by functions allow them.
//
// Functions are trusted to do what their kernels declare:
//   - A split keeps each contribution whole. Its result has one element for each part, in order.
//   - A fold takes the same element of several nodes and joins their contributions, in order.
//   - A join takes all elements of one node, or the same part of the split of each element of one node. No part may be
//     missing.
//   - The operand that steers a function (b) is equal on all ranks.
//   - Element i of derived lengths is the length of part i of a split value, or of element i. The engine compares
//     messages with these lengths.
//   - In partial schedules the result of a function is never null. Its contributors are those of operand b. In a
//     promised range they must be the ranks whose contributions it has.
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

  /// Executes the ops that were not void in that round, in the order of their completion. A read of memory that was
  /// never written is a finding.
  void run(const progress& round);

  /// Compares the outputs with the postcondition. Properties `contents` and `expression`.
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
  /// Returns where a region lies. Memories are numbered over all ranks.
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
  std::vector<std::size_t> first_buffer_;  ///< by rank: its first buffer in placements_
  std::vector<placement> placements_;      ///< by rank and buffer
  std::vector<memory> memories_;
  std::vector<memory> layouts_;  ///< by memory: lengths by which packed lists are laid out; empty for other memories
  /// The sum of the leaves, by input and contributors (empty: every rank).
  std::map<std::pair<std::uint32_t, std::vector<rank>>, fingerprint> reduced_;
  std::map<std::uint64_t, std::uint64_t> agreed_;  ///< by function: expression of the operand that steers it
  /// The first holder of each promised range and its expression, by output, begin and end.
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::pair<rank, expression>> first_;
  std::vector<bool> has_received_;         ///< by op; for receives only
  std::map<world_op, memory> in_buffers_;  ///< by send that has completed before its receive: its message
};

}  // namespace lsched
