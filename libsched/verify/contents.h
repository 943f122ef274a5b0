// Contents: what went into every element, by running a world once on symbols.
//
// A segment of memory holds a node (node_table.h), and says by how much its elements have been shifted.
//
// The sums that an adaptive sum goes by are nodes, too. They hold which products are in them (fingerprint.h), and
// the expression of an adaptive sum holds that; so it is the promised one only if they were complete.
//
// A list is an element like any other. How long it is follows from what is in it, so a length is a node that says of
// what; and packed lists hold what their lengths are of before they hold anything: only that may be put there. So both
// ends of an edge know the same lengths.
//
// Sums of products, lengths and derived numbers are nobody's contribution. They may steer ops; but a node that such a
// number becomes part of remembers the op that made it, and so does all that is made of that node. No promised range
// holds it. What a function made is marked likewise, and held by promises of functions alone.
//
// What functions make of their operands is between them and their generator; here they are what their kernels say. A
// split leaves each contribution whole: it has elements, the first part first. A fold takes the same element of
// several nodes and adds their contributions, in order. A join puts parts together again: all elements of one node, or
// the same part of all the parts of one. What functions go by, beside what they make something of, is the same on all
// ranks. No part may be missing. Of lengths that are derived, element i is taken for that of part i of what was taken
// apart, or of element i, and it is the engine that holds messages against them. In partial schedules what a function
// makes is there in any case, and who is counted as being in it are those who are in what it goes by: of a result, all
// whose contributions it has.
//
// One order is enough if no hazards exist: every read then follows the same write in all executions.
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

  /// Executes the ops that were not void in that round, in the order in which they completed. Reading what nothing has
  /// written is a finding.
  void run(const progress& round);

  /// What the outputs hold against what they should. Properties `contents` and `expression`.
  void check(const postcondition& promise);

 private:
  using node_id = symbolic::node_id;
  using node = symbolic::node;
  using segment = symbolic::segment;
  using memory = std::vector<segment>;                                                      ///< ascending, disjoint
  using expression = std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>;  ///< begin, end, tree

  void set_up(rank r, const aliasing& in_place);

  // --- memory (contents.cc); op `user` is the one to be named -------------------------------------------------
  const schedule& program_of(world_op id) const { return all_.program(all_.rank_of(id)); }
  /// Its memory is numbered over all ranks.
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

  // --- promises (contents_check.cc) ----------------------------------------------------------------------------
  void check_range(const promised_range& wanted, const postcondition& promise);
  bool check_segment(const promised_range& wanted, const segment& found, std::uint16_t buffer);
  bool is_quotient(const node& n, std::uint64_t divisor) const;
  fingerprint expected(const promised_range& wanted);
  void compare_expression(const promised_range& wanted, const memory& found, std::uint16_t buffer);
  void object(property what, const promised_range& wanted, const element_range& where, const std::string& why);

  const assembly& all_;
  finding_list& out_;
  symbolic::node_table nodes_;
  std::vector<std::size_t> first_buffer_;  ///< by rank, in
  std::vector<placement> placements_;      ///< by rank and buffer
  std::vector<memory> memories_;
  std::vector<memory> layouts_;  ///< the lengths that packed lists have been given; of others nothing
  /// By input and contributors (none: every rank): their leaves.
  std::map<std::pair<std::uint32_t, std::vector<rank>>, fingerprint> reduced_;
  std::map<std::uint64_t, std::uint64_t> agreed_;  ///< by function: the expression of what it goes by
  /// By output, begin and end: the first holder, and what it holds.
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::pair<rank, expression>> first_;
  std::vector<bool> has_received_;         ///< by op: of receives
  std::map<world_op, memory> in_buffers_;  ///< by send that has completed before its receive: what it has sent
};

}  // namespace lsched
