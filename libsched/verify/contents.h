// Contents: what went into every element, by running a world once on symbols.
//
// A segment of memory holds a node: a leaf (a rank's input) or a join (one node combined with another). A node has a
// fingerprint of the multiset of its leaves (fingerprint.h), which adds up when nodes are joined. More leaves
// than are promised are told exactly; as many, of which some are missing or from another place, are overlooked with a
// probability of about 2^-120. Nodes also remember how they were joined, so that a failure can be explained exactly,
// and equal expressions can be told by their hash.
//
// Where the data moved: a node says nothing about elements; a segment says by how much its elements have been shifted
// against the first leaf's, and a leaf that is shifted by d against that weighs x^d times as much, x random. No power
// of x up to the number of all elements is 1.
//
// The sums that an adaptive sum goes by are nodes, too. They hold which products are in them (products.h), and
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

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "libsched/postcondition/fingerprint.h"
#include "libsched/postcondition/overlay.h"
#include "libsched/postcondition/postcondition.h"
#include "libsched/postcondition/products.h"
#include "libsched/postcondition/weights.h"
#include "libsched/verify/assembly.h"
#include "libsched/verify/progress.h"

namespace lsched {

class contents {
 public:
  contents(const assembly& all, const overlay& in_place, finding_list& out);

  /// Executes the ops that were not void in that round, in the order in which they completed. Reading what nothing has
  /// written is a finding.
  void run(const progress& round);

  /// What the outputs hold against what they should. Properties `contents` and `expression`.
  void check(const postcondition& promise);

 private:
  using node_id = std::uint32_t;
  static constexpr node_id k_nothing = 0;  ///< a node that nothing is in

  struct node {
    fingerprint contributions{};
    std::uint64_t tree = 0;
    node_id lower = 0, higher = 0;       ///< of a join; of a quotient, the other is k_nothing
    world_op joined_by = k_no_world_op;  ///< k_no_world_op: a leaf
    world_op least_by =
        k_no_world_op;             ///< who made what of all that is in it is least of a contribution, if it is none
    rank lowest = 0, highest = 0;  ///< contributors
    std::uint32_t input = 0;       ///< of a leaf
    std::uint32_t products = 0;    ///< of sums: which, in products_; 0: it is no such node
    std::uint32_t kernels = 0;     ///< bit k: kernel k, of joins and of captures that merge
    bool is_in_rank_order = true;
    bool is_derived = false;   ///< numbers, by a function
    bool is_there = false;     ///< in partial schedules, whoever contributes: a function has made it
    std::uint32_t part = 0;    ///< of what a split has made: of which element, in parts_
    std::uint32_t shares = 0;  ///< its elements are shares of one element of several, which may be a share, and so on
    std::uint64_t extent = 0;  ///< elements in all; if operands had different ones, 0
    fingerprint census{};      ///< contributions wherever they are from; of what a function made: those it goes by
  };
  /// What a split has taken apart: an element of several, or all of a node, which is then the only one.
  struct split_element {
    std::uint64_t whole = 0;  ///< the expression that it is an element of
    std::int64_t number = 0;  ///< which
    std::uint64_t of = 0;     ///< how many
  };
  /// Element i of the memory holds the node for its element i - shift.
  struct segment {
    std::uint64_t begin = 0, end = 0;
    std::int64_t shift = 0;
    node_id what = 0;
  };
  using memory = std::vector<segment>;                                                      ///< ascending, disjoint
  using expression = std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>;  ///< begin, end, tree

  /// Its memory is numbered over all ranks.
  const placement& placement_of(rank r, region part) const {
    return placements_[first_buffer_[static_cast<std::size_t>(r)] + part.buffer()];
  }
  void set_up(rank r, const overlay& in_place);
  node_id add_leaf(rank contributor, std::uint32_t input, std::uint64_t extent);
  node_id add(world_op by, node made, std::initializer_list<node_id> of);
  world_op least_of(world_op x, world_op y) const;
  node copy_of(node_id original, world_op by) const;
  node_id add_join(world_op by, kernel how, const segment& lower, const segment& higher);
  node_id add_adaptive(world_op op, const segment& lower, const segment& higher, const products& by);
  node_id add_products(world_op by, const products& all, std::initializer_list<node_id> of);
  node_id add_quotient(world_op op, const segment& sum);
  fingerprint leaf_of(rank contributor, std::uint32_t input) const;
  fingerprint shifted(fingerprint it, std::int64_t by) const;

  void execute(world_op it);
  void capture(rank r, const op& what, std::uint64_t count);
  void read(world_op it, world_op reader, region part, std::uint64_t count, memory& into);
  void check_presence(world_op reader, region part, const memory& pieces);
  static bool counts_as(const node& one, const node& other);
  static void write(memory& target, std::uint64_t at, std::uint64_t count, const memory& pieces);
  void write(rank r, region part, std::uint64_t count, const memory& pieces);
  void put(world_op by, region part, std::uint64_t count, const memory& pieces);
  void measure(world_op by, const memory& lists);
  void lay_out(world_op by, const memory& lengths);
  void multiply(world_op it, std::uint64_t count);
  std::optional<products> products_read() const;
  template <class Visit>
  static void for_each_pair(const memory& lower, const memory& higher, const Visit& visit);
  void combine(world_op by, const memory& lower, const memory& higher);
  void divide(world_op by, const memory& what);
  void call(world_op it);
  void check_agreement(world_op it);
  std::uint64_t tree_of(const memory& all) const;
  std::uint64_t called_tree(const op& what) const;
  bool lays_out(std::uint64_t begin, std::uint64_t end, const segment& length, const segment& list) const;
  std::optional<segment> split(world_op it, std::uint64_t tree);
  std::optional<segment> folded(world_op it, std::uint64_t tree);
  std::optional<segment> joined_parts(world_op it, std::uint64_t tree);
  std::optional<segment> made_of(world_op it, node made, std::int64_t number, std::uint64_t of);
  segment derived(world_op it, std::uint64_t tree);
  std::uint64_t size_of_source(world_op it) const;
  void object_to_sums(world_op reader);

  void check_range(const promised_range& wanted, const postcondition& promise);
  bool check_segment(const promised_range& wanted, const segment& found, std::uint16_t buffer);
  fingerprint expected(const promised_range& wanted);
  void compare_expression(const promised_range& wanted, const memory& found, std::uint16_t buffer);
  void object(property what, const promised_range& wanted, std::uint16_t buffer, std::uint64_t begin, std::uint64_t end,
              const std::string& why);

  std::string words_for_least(const promised_range& wanted, const node& found) const;
  std::string explain(const promised_range& wanted, const segment& found) const;
  std::vector<bool> holders_of(rank contributor, std::uint32_t input) const;
  std::vector<std::uint64_t> copies_in(node_id top, std::uint32_t input) const;
  std::string words_for_two_ways(node_id top, rank contributor, std::uint32_t input) const;
  std::string words_for_way(node_id top, const std::vector<bool>& holds, bool from_higher) const;
  std::string words_for_loss(rank contributor, std::uint32_t input) const;

  const assembly& all_;
  const random_weights& weights_;
  finding_list& out_;
  std::vector<node> nodes_;
  std::vector<products> products_;
  std::vector<split_element> parts_;
  std::vector<std::size_t> first_buffer_;  ///< by rank, in
  std::vector<placement> placements_;      ///< by rank and buffer
  std::vector<memory> memories_;
  std::vector<memory> layouts_;            ///< the lengths that packed lists have been given; of others nothing
  memory lower_, higher_, sums_, joined_;  ///< of the op being executed; offsets from its regions
  std::map<std::uint32_t, fingerprint> everybody_;  ///< by input: all ranks' leaves
  std::map<std::uint32_t, std::uint64_t> agreed_;   ///< by function: the expression of what it goes by
  /// By output, begin and end: the first holder, and what it holds.
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::pair<rank, expression>> first_;
};

}  // namespace lsched
