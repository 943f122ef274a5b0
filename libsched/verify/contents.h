// The symbolic execution of a world. The execution finds the contributions in every element.
//
// Memory consists of segments. A segment has a node (node_table.h) for the content of its elements, and the shift of
// its elements against the elements of the node.
//
// The dot products (sums of products) of an adaptive sum are nodes, too. Such a node records which products its sums
// contain (fingerprint.h), and the expression of the adaptive sum includes these products. So the expression is right
// only if the sums are complete.
//
// A list is treated like any other element. The length of a list is a node whose expression contains the expression of
// the list. Kernel `lay_out` sets the lengths of packed lists before the lists have items. Afterwards only lists with
// these lengths may be written. So both ends of an edge have the same lengths.
//
// Sums of products, lengths and derived numbers are not contributions, but control other ops. If such a number becomes
// part of a node, that node and all nodes computed from it record the op that produced the number. A range of the
// postcondition must not contain such a node. Results of functions are marked, too. Only postconditions about functions
// allow these results.
//
// Functions are trusted to do what their kernels declare:
//   - The result of a split has one element for each part, in order. The parts contain each contribution once.
//   - A fold reads the same element of several nodes and joins their contributions, in order.
//   - A join reads all elements of one node. If each element of a node was split, a join can also read the same part of
//     each element. No element may be missing.
//   - Operand b, which controls a function, is equal on all ranks.
//   - Element i of derived lengths is the length of part i of a split value, or of element i of a value that was not
//     split. The engine compares messages with these lengths.
//   - In partial schedules the result of a function is never null. The contributors of the result are the
//     contributors of operand b. In a range of the postcondition, these must be the ranks whose contributions the
//     result contains.
//
// If the world has no hazards, every read returns the same value in every order of the ops. So it suffices to execute
// the ops in one order.
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

  /// Executes the ops of `round`, in the order of their completion, except void ops (progress::was_void). Adds a
  /// finding for each read of memory that was never written.
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
  /// Returns the location of the buffer that contains region `part` of rank `r`. No two memories have the same index,
  /// even on different ranks.
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
  std::vector<std::size_t> first_buffer_;  ///< by rank: index in placements_ of its first buffer
  std::vector<placement> placements_;      ///< locations of buffers, by rank and buffer
  std::vector<memory> memories_;
  std::vector<memory> layouts_;  ///< by memory: lengths that lay_out has set for packed lists; empty for other memories
  /// Fingerprints of the leaves of a reduction, by input and contributors (empty: every rank)
  std::map<std::pair<std::uint32_t, std::vector<rank>>, fingerprint> reduced_;
  std::map<std::uint64_t, std::uint64_t> agreed_;  ///< expression of operand b, by function
  /// The first rank that has a range of the postcondition, and the expression of the range on this rank, indexed by
  /// output, begin and end
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::pair<rank, expression>> first_;
  std::vector<bool> has_received_;         ///< by op: true if the receive has completed
  std::map<world_op, memory> in_buffers_;  ///< by send: the message, if the send has completed before its receive
};

}  // namespace lsched
