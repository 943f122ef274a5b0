#include "libsched/alike_world.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "libsched/draw.h"
#include "libsched/work.h"

namespace lsched {
namespace {

/// What is said of a message at both of its ends.
std::uint64_t hash_of(rank from, rank to, const op& what) {
  const std::uint64_t ends = std::uint64_t{static_cast<std::uint32_t>(from)} << 32 | static_cast<std::uint32_t>(to);
  return mix(mix(ends) ^ (std::uint64_t{what.tag} << 1 | (is_signal(what.kind) ? 1 : 0)));
}

bool is_sending(const op& what) { return what.kind == op_kind::send || what.kind == op_kind::signal_send; }

/// What ranks have in common.
class likeness {
 public:
  likeness(schedule_ptr one, rank size) : world_{.one = std::move(one), .size = size} {
    edges_.resize(world_.one->ops().size());
    world_.work.resize(edges_.size());
  }

  /// Answers whether it does the same as the first.
  bool add(const schedule& it) {
    if (!is_like_the_first(it)) return false;
    const rank self = it.place().self;
    for (op_id id = 0; id < edges_.size(); ++id) {
      const op& what = it.ops()[id];
      const std::uint64_t work = bytes_of_work(it, what);
      if (is_communication(what.kind)) {
        if (work != bytes_of_work(*world_.one, world_.one->ops()[id])) return false;
        edges_[id] += is_sending(what) ? hash_of(self, what.peer, what) : hash_of(what.peer, self, what);
      }
      world_.work[id] += work;
    }
    return true;
  }

  /// Once all ranks have been added.
  result<alike_world> finish() && {
    for (std::uint64_t& work : world_.work) work /= static_cast<std::uint64_t>(world_.size);
    if (!match()) return failure{status::unsupported, "what an op sends is not received by one op of all ranks"};
    return std::move(world_);
  }

 private:
  bool is_like_the_first(const schedule& it) const {
    const schedule& first = *world_.one;
    const auto same_op = [&](const op& x, const op& y) {
      const guard *const here = first.guard_of(x), *const there = it.guard_of(y);
      const bool same_guard = here == nullptr ? there == nullptr : there != nullptr && *here == *there;
      return x.kind == y.kind && x.need == y.need && same_guard;
    };
    if (!std::ranges::equal(first.ops(), it.ops(), same_op) || !std::ranges::equal(first.roots(), it.roots()) ||
        first.exit() != it.exit())
      return false;
    for (op_id id = 0; id < edges_.size(); ++id)
      if (!std::ranges::equal(first.successors(id), it.successors(id))) return false;
    return true;
  }

  bool match() {
    const auto ops = world_.one->ops();
    std::unordered_map<std::uint64_t, op_id> receives;
    std::size_t sends = 0;
    for (op_id id = 0; id < edges_.size(); ++id) {
      if (!is_communication(ops[id].kind)) continue;
      if (is_sending(ops[id]))
        ++sends;
      else
        receives.emplace(edges_[id], id);
    }
    world_.receiver_of.assign(edges_.size(), k_no_op);
    for (op_id id = 0; id < edges_.size(); ++id) {
      if (!is_sending(ops[id])) continue;
      const auto found = receives.find(edges_[id]);
      if (found == receives.end()) return false;
      world_.receiver_of[id] = found->second;
    }
    return sends == receives.size();
  }

  alike_world world_;
  std::vector<std::uint64_t> edges_;  ///< of an op that communicates: all ranks' hashes, added up
};

}  // namespace

result<alike_world> fold_world(rank size, const std::function<result<schedule_ptr>(world)>& generate) {
  if (size < 1) return failure{status::argument, "a world has at least one rank"};
  auto first = generate({0, size});
  if (!first) return first.error();
  if ((*first)->is_partial()) return failure{status::unsupported, "ranks of a partial schedule do not all call"};
  likeness all(*first, size);
  for (rank r = 0; r < size; ++r) {
    const auto made = r == 0 ? first : generate({r, size});
    if (!made) return made.error();
    if (!all.add(**made))
      return failure{status::unsupported, "rank " + std::to_string(r) + " does not do what rank 0 does", r};
  }
  return std::move(all).finish();
}

}  // namespace lsched
