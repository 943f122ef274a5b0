// The binary form of GOAL: writer and reader. Little-endian, packed; offsets in the file count from byte 8 on.
//
//     u64 mark        4223; 2342: used up by a simulation that counts in-degrees down in the file
//     u32 ranks       u8 highest cpu       u8 highest nic
//     { u64 begin, u64 end } for each rank; a rank begins where the one before ends
//     each rank:      u32 nodes, u32 roots, u32 root[roots], node[nodes], u32 successor[edges]
//     node:           u32 in-degree, u8 kind, u32 peer, u64 size, u32 tag, u8 cpu, u8 nic,
//                     u32 successors, u32 first successor,            those that require its end
//                     u32 start successors, u32 first start successor
//                     LogGOPSim2: 65 bytes more, for kinds that are not read here
#include <algorithm>

#include "libsched/simulate/goal/goal.h"
#include "ops/counted.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_mark = 4223;
constexpr std::uint64_t k_used_mark = 2342;
constexpr std::size_t k_base = 8;  // what offsets count from
constexpr std::size_t k_head_bytes = 6;
constexpr std::size_t k_rank_bytes = 16;
constexpr std::size_t k_node_bytes = 39;
constexpr std::size_t k_long_node_bytes = 104;

// --- writer --------------------------------------------------------------------------------------------------

class goal_writer {
 public:
  explicit goal_writer(const goal& program) : program_(program) {}

  std::vector<std::byte> run() {
    put(k_mark, 8);
    put(program_.ranks.size(), 4);
    put(highest(&goal_op::cpu), 1);
    put(highest(&goal_op::nic), 1);
    std::uint64_t begin = k_head_bytes + k_rank_bytes * program_.ranks.size();
    for (const goal_rank& me : program_.ranks) {
      const auto in_degrees = in_degrees_of(me);
      const auto roots = static_cast<std::size_t>(std::count(in_degrees.begin(), in_degrees.end(), 0u));
      put(begin, 8);
      begin += 8 + 4 * roots + k_node_bytes * me.ops.size() + 4 * me.edges.size();
      put(begin, 8);
    }
    for (const goal_rank& me : program_.ranks) put_rank(me);
    return std::move(out_);
  }

 private:
  void put(std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<std::byte>(number >> 8 * i));
  }

  std::uint8_t highest(std::uint8_t goal_op::*unit) const {
    std::uint8_t most = 0;
    for (const goal_rank& me : program_.ranks)
      for (const goal_op& it : me.ops) most = std::max(most, it.*unit);
    return most;
  }

  static std::vector<std::uint32_t> in_degrees_of(const goal_rank& me) {
    std::vector<std::uint32_t> degrees(me.ops.size());
    for (const goal_edge& it : me.edges) ++degrees[it.after];
    return degrees;
  }

  void put_rank(const goal_rank& me) {
    const auto in_degrees = in_degrees_of(me);
    put(me.ops.size(), 4);
    put(static_cast<std::uint64_t>(std::count(in_degrees.begin(), in_degrees.end(), 0u)), 4);
    for (std::size_t id = 0; id < me.ops.size(); ++id)
      if (in_degrees[id] == 0) put(id, 4);
    std::size_t edge = 0;
    for (std::size_t id = 0; id < me.ops.size(); ++id) put_node(me, id, in_degrees[id], edge);
    for (const goal_edge& it : me.edges) put(it.after, 4);
  }

  void put_node(const goal_rank& me, std::size_t id, std::uint32_t in_degree, std::size_t& edge) {
    const goal_op& it = me.ops[id];
    put(in_degree, 4);
    put(static_cast<std::uint64_t>(it.kind), 1);
    put(it.peer, 4);
    put(it.size, 8);
    put(it.tag, 4);
    put(it.cpu, 1);
    put(it.nic, 1);
    for (const bool on_start : {false, true}) {
      const std::size_t first = edge;
      while (edge < me.edges.size() && me.edges[edge].before == id && me.edges[edge].on_start == on_start) ++edge;
      put(edge - first, 4);
      put(first, 4);
    }
  }

  const goal& program_;
  std::vector<std::byte> out_;
};

// --- reader --------------------------------------------------------------------------------------------------

class goal_reader {
 public:
  explicit goal_reader(std::span<const std::byte> file) : file_(file) {}

  result<goal> run() {
    if (!read_head()) return error_;
    for (std::size_t r = 0; r < size_; ++r)
      if (!read_rank(r)) return error_;
    if (begin_ != file_.size()) {
      (void)refuse(begin_, "the last rank ends here, the file does not");
      return error_;
    }
    return std::move(program_);
  }

 private:
  /// Where the parts of one rank lie.
  struct layout {
    std::size_t begin, end, roots, nodes, node_bytes, successors;
    std::size_t root_count, node_count, edge_count;
    std::size_t node(std::size_t id) const { return nodes + id * node_bytes; }
  };

  // Each of these answers whether all is well, and otherwise has filled in error_.
  bool refuse(std::size_t where, const std::string& why) {
    error_ = {status::argument, "offset " + std::to_string(where) + ": " + why};
    return false;
  }
  bool read_head();
  bool read_rank(std::size_t r);
  bool find_layout(layout& at);
  bool read_node(const layout& at, std::size_t id);
  bool read_edges(const layout& at, std::size_t id);
  bool check_degrees(const layout& at);

  std::uint64_t number(std::size_t where, int bytes) const {
    std::uint64_t value = 0;
    for (int i = bytes; i-- > 0;)
      value = value << 8 | std::to_integer<std::uint64_t>(file_[where + static_cast<std::size_t>(i)]);
    return value;
  }
  std::size_t word(std::size_t where) const { return static_cast<std::size_t>(number(where, 4)); }
  std::uint64_t edges_of_node(std::size_t where) const { return number(where + 23, 4) + number(where + 31, 4); }
  bool fits(const layout& at, std::size_t node_bytes) const;
  goal_rank& me() { return program_.ranks.back(); }

  std::span<const std::byte> file_;
  std::size_t size_ = 0;
  std::size_t begin_ = 0;  ///< of the next rank
  goal program_;
  failure error_;
};

bool goal_reader::read_head() {
  if (file_.size() < k_base + k_head_bytes) return refuse(file_.size(), "the file ends in its head");
  const std::uint64_t mark = number(0, 8);
  if (mark == k_used_mark) return refuse(0, "a simulation has used this file up; convert the text form again");
  if (mark != k_mark) return refuse(0, "this is not a binary GOAL file");
  size_ = word(8);
  if (size_ == 0) return refuse(8, "a program has at least one rank");
  if (size_ > (file_.size() - k_base - k_head_bytes) / k_rank_bytes)
    return refuse(8, "the file is too short for " + counted(size_, "rank"));
  begin_ = k_base + k_head_bytes + k_rank_bytes * size_;
  return true;
}

bool goal_reader::read_rank(std::size_t r) {
  const std::size_t entry = k_base + k_head_bytes + k_rank_bytes * r;
  if (number(entry, 8) != begin_ - k_base)
    return refuse(entry, "rank " + std::to_string(r) + " does not begin where the one before ends");
  const std::uint64_t end = number(entry + 8, 8);
  if (end < begin_ - k_base + 8 || end > file_.size() - k_base)
    return refuse(entry + 8, "the end of rank " + std::to_string(r) + " lies before its beginning or outside the file");
  program_.ranks.emplace_back();
  layout at{};
  at.begin = begin_;
  at.end = begin_ = static_cast<std::size_t>(end) + k_base;
  if (!find_layout(at)) return false;
  me().ops.reserve(at.node_count);
  me().edges.reserve(at.edge_count);
  for (std::size_t id = 0; id < at.node_count; ++id)
    if (!read_node(at, id) || !read_edges(at, id)) return false;
  return check_degrees(at);
}

// The size of nodes is not in the file: it is the one with which nodes and edges fill the rank exactly.
bool goal_reader::find_layout(layout& at) {
  at.node_count = word(at.begin);
  at.root_count = word(at.begin + 4);
  at.roots = at.begin + 8;
  if (at.root_count > (at.end - at.roots) / 4) return refuse(at.begin + 4, "more roots than fit");
  at.nodes = at.roots + 4 * at.root_count;
  for (const std::size_t node_bytes : {k_node_bytes, k_long_node_bytes}) {
    if (!fits(at, node_bytes)) continue;
    at.node_bytes = node_bytes;
    at.successors = at.node(at.node_count);
    at.edge_count = (at.end - at.successors) / 4;
    return true;
  }
  return refuse(at.begin, "nodes and edges do not fill the rank");
}

bool goal_reader::fits(const layout& at, std::size_t node_bytes) const {
  const std::size_t room = at.end - at.nodes;
  if (at.node_count > room / node_bytes || (room - node_bytes * at.node_count) % 4 != 0) return false;
  std::uint64_t edges = (room - node_bytes * at.node_count) / 4;
  for (std::size_t id = 0; id < at.node_count; ++id) {
    const std::uint64_t mine = edges_of_node(at.nodes + id * node_bytes);
    if (mine > edges) return false;
    edges -= mine;
  }
  return edges == 0;
}

bool goal_reader::read_node(const layout& at, std::size_t id) {
  const std::size_t where = at.node(id);
  const std::uint64_t kind = number(where + 4, 1);
  if (kind < 1 || kind > 3) return refuse(where + 4, "kind " + std::to_string(kind) + " is none of send, recv, calc");
  goal_op it;
  it.kind = static_cast<goal_kind>(kind);
  it.size = number(where + 9, 8);
  it.cpu = static_cast<std::uint8_t>(number(where + 21, 1));
  if (it.kind != goal_kind::calc) {
    it.peer = static_cast<std::uint32_t>(number(where + 5, 4));
    it.tag = static_cast<std::uint32_t>(number(where + 17, 4));
    it.nic = static_cast<std::uint8_t>(number(where + 22, 1));
    const bool is_any = it.kind == goal_kind::recv && it.peer == k_goal_any;
    if (it.peer >= size_ && !is_any) return refuse(where + 5, "the program has " + counted(size_, "rank"));
  }
  if (it.cpu > number(k_base + 4, 1)) return refuse(where + 21, "a cpu above the highest of the head");
  if (it.nic > number(k_base + 5, 1)) return refuse(where + 22, "a nic above the highest of the head");
  me().ops.push_back(it);
  return true;
}

bool goal_reader::read_edges(const layout& at, std::size_t id) {
  for (const bool on_start : {false, true}) {
    const std::size_t where = at.node(id) + (on_start ? 31 : 23);
    const std::size_t count = word(where);
    const std::size_t first = word(where + 4);
    if (count == 0) continue;
    if (first > at.edge_count || count > at.edge_count - first) return refuse(where + 4, "successors outside the rank");
    for (std::size_t i = first; i < first + count; ++i) {
      const std::size_t after = word(at.successors + 4 * i);
      if (after >= at.node_count) return refuse(at.successors + 4 * i, "a successor that is no node");
      me().edges.push_back({static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(after), on_start});
    }
  }
  return true;
}

bool goal_reader::check_degrees(const layout& at) {
  std::vector<std::uint32_t> degrees(at.node_count);
  for (const goal_edge& it : me().edges) ++degrees[it.after];
  std::size_t root = 0;
  for (std::size_t id = 0; id < at.node_count; ++id) {
    if (degrees[id] != word(at.node(id)))
      return refuse(at.node(id), "the in-degree is not the number of edges that lead here");
    if (degrees[id] != 0) continue;
    if (root == at.root_count || word(at.roots + 4 * root) != id)
      return refuse(at.begin + 4, "node " + std::to_string(id) + " is a root and not listed as one, in order");
    ++root;
  }
  return root == at.root_count || refuse(at.begin + 4, "more roots than nodes without in-edges");
}

}  // namespace

std::vector<std::byte> to_goal_binary(const goal& program) { return goal_writer(program).run(); }

result<goal> parse_goal_binary(std::span<const std::byte> file) { return goal_reader(file).run(); }

}  // namespace lsched
