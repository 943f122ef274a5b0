#include "tests/verify_oracle/mutant.h"

#include <algorithm>
#include <set>

#include "libsched/schedule/op_rules.h"
#include "libsched/verify/form.h"

namespace lsched {

std::string_view name_of(mutation how) {
  constexpr std::array<std::string_view, k_all_mutations.size()> names{
      "drop_dep",       "swap_peers",  "shift_offset", "change_extent", "duplicate", "merge_tags", "change_kernel",
      "exchange_order", "change_need", "lose_signal",  "change_guard",  "insert_op", "multiply"};
  return names[static_cast<std::size_t>(how)];
}

// --- drafts ------------------------------------------------------------------------------------------------

draft draft_of(const schedule& from) {
  draft copy;
  copy.head.name = from.name();
  copy.head.place = from.place();
  copy.head.ops.assign(from.ops().begin(), from.ops().end());
  copy.head.buffers.assign(from.buffers().begin(), from.buffers().end());
  copy.head.guards.assign(from.guards().begin(), from.guards().end());
  copy.head.parameters.assign(from.parameters().begin(), from.parameters().end());
  copy.head.exit = from.exit();
  copy.head.synchronising = from.is_synchronising();
  copy.head.holding = from.is_holding();
  copy.head.starts = from.starts();
  for (op_id id = 0; id < from.ops().size(); ++id)
    for (const op_id after : from.successors(id)) copy.deps.emplace_back(id, after);
  return copy;
}

schedule_ptr schedule_of(draft content) {
  schedule::parts& all = content.head;
  std::sort(content.deps.begin(), content.deps.end());
  std::vector<bool> is_root(all.ops.size(), true);
  all.first.assign(all.ops.size() + 1, 0);
  for (const auto& [before, after] : content.deps) {
    ++all.first[before + 1];
    all.next.push_back(after);
    is_root[after] = false;
  }
  for (op_id id = 0; id < all.ops.size(); ++id) {
    all.first[id + 1] += all.first[id];
    if (is_root[id]) all.roots.push_back(id);
  }
  mark_in_place(all);
  return std::make_shared<const schedule>(std::move(all));
}

// --- changes to a draft ------------------------------------------------------------------------------------

namespace {

std::uint32_t in_degree(const draft& in, op_id id) {
  return static_cast<std::uint32_t>(
      std::count_if(in.deps.begin(), in.deps.end(), [&](const auto& dep) { return dep.second == id; }));
}

}  // namespace

bool drop_dep(draft& in, op_id before, op_id after) {
  const auto dep = std::find(in.deps.begin(), in.deps.end(), std::pair(before, after));
  if (dep == in.deps.end()) return false;
  std::uint32_t& need = in.head.ops[after].need;
  if (need == in_degree(in, after)) --need;
  in.deps.erase(dep);
  return true;
}

namespace {

/// Inserts a copy of an op directly after the op. The indices of later ops grow by one. Successors that waited for all
/// their deps wait for the copy, too.
void duplicate(draft& in, op_id id) {
  const auto moved = [&](op_id other) { return other > id && other != k_no_op ? other + 1 : other; };
  std::vector<std::uint32_t> degrees;
  for (op_id other = 0; other < in.head.ops.size(); ++other) degrees.push_back(in_degree(in, other));
  std::vector<std::pair<op_id, op_id>> deps;
  for (const auto& [before, after] : in.deps) {
    deps.emplace_back(moved(before), moved(after));
    if (after == id) deps.emplace_back(before, id + 1);
    if (before != id) continue;
    deps.emplace_back(id + 1, moved(after));
    std::uint32_t& need = in.head.ops[after].need;
    if (need == degrees[after]) ++need;
  }
  in.deps = std::move(deps);
  in.head.exit = moved(in.head.exit);
  in.head.ops.insert(in.head.ops.begin() + id, op(in.head.ops[id]));
}

/// Inserts a chain of ops directly after op `id`. The indices of later ops grow. Ops that waited for op `id` wait for
/// the chain.
void insert_after(draft& in, op_id id, std::span<const op> chain) {
  const auto links = static_cast<op_id>(chain.size());
  const op_id last = id + links;
  const auto moved = [&](op_id other) { return other > id && other != k_no_op ? other + links : other; };
  for (auto& [before, after] : in.deps) {
    before = before == id ? last : moved(before);
    after = moved(after);
  }
  for (op_id link = id; link < last; ++link) in.deps.emplace_back(link, link + 1);
  in.head.exit = in.head.exit == id ? last : moved(in.head.exit);
  in.head.ops.insert(in.head.ops.begin() + id + 1, chain.begin(), chain.end());
}

/// Exchanges two ops. The deps and the `need` of each position stay unchanged.
void exchange(draft& in, op_id x, op_id y) {
  std::swap(in.head.ops[x], in.head.ops[y]);
  std::swap(in.head.ops[x].need, in.head.ops[y].need);
}

/// Replaces an op by a nop with the same deps and the same `need`.
void blank(draft& in, op_id id) { in.head.ops[id] = {.need = in.head.ops[id].need}; }

// --- words -------------------------------------------------------------------------------------------------

std::string signed_text(int change) { return (change > 0 ? "+" : "") + std::to_string(change); }

bool moves_data(const op& it) { return it.a.exists() || it.c.exists(); }
bool is_out(const op& it) { return it.kind == op_kind::send || it.kind == op_kind::signal_send; }

}  // namespace

// --- enumeration -------------------------------------------------------------------------------------------

/// Enumerates the single faults of a world, rank by rank.
class mutant_list::enumeration {
 public:
  explicit enumeration(mutant_list& out) : out_(out), world_(out.original_) {}

  void write() {
    for (rank r = 0; static_cast<std::size_t>(r) < world_.size(); ++r) {
      self_ = r;
      program_ = world_[static_cast<std::size_t>(r)].get();
      for (op_id id = 0; id < program_->ops().size(); ++id) write_faults_at(id);
      for (std::size_t b = 0; b < program_->buffers().size(); ++b)
        program_->buffers()[b].has_lists() ? change_room(b) : change_output(b);
    }
  }

 private:
  const op& at(op_id id) const { return program_->ops()[id]; }
  std::string words(op_id id) const { return op_words(*program_, id); }

  void add(mutation how, const std::string& what, edit change) {
    out_.faults_.push_back({how, "rank " + std::to_string(self_) + ": " + what, {{self_, std::move(change)}}});
  }
  void add_to_both(mutation how, const std::string& what, edit change, rank peer, edit other) {
    add(how, what, std::move(change));
    out_.faults_.back().edits.emplace_back(peer, std::move(other));
  }

  void write_faults_at(op_id id) {
    drop_deps(id);
    duplicate_op(id);
    change_kernel(id);
    exchange_orders(id);
    change_needs(id);
    insert_ops(id);
    multiply_target(id);
    replace_by_function(id);
    if (moves_data(at(id))) shift_offsets(id), change_extents(id);
    if (at(id).guard != 0) change_guard(id);
    if (!is_communication(at(id).kind)) return;
    swap_peers(id);
    if (is_out(at(id))) merge_tags(id);
    if (is_signal(at(id).kind)) lose_signals(id);
  }

  /// Adds a mutant for each dep that begins at op `before`. If the dep triggers a signal, the mutation is
  /// `lose_signal`.
  void drop_deps(op_id before) {
    for (const op_id after : program_->successors(before)) {
      const bool triggers = at(after).kind == op_kind::signal_send;
      add(triggers ? mutation::lose_signal : mutation::drop_dep, words(after) + " no longer waits for " + words(before),
          [before, after](draft& in) { drop_dep(in, before, after); });
    }
  }

  void duplicate_op(op_id id) {
    add(mutation::duplicate, words(id) + " is there twice", [id](draft& in) { duplicate(in, id); });
  }

  /// Replaces the kernel of a reduction by the next kernel that the dtype supports, or changes the divisor of a
  /// division.
  void change_kernel(op_id id) {
    if (at(id).kind == op_kind::compute && at(id).what == kernel::divide)
      add(mutation::change_kernel,
          words(id) + " divides by " + std::to_string(program_->parameters_of(at(id)).front().integer() + 1),
          [id](draft& in) {
            parameter& divisor = in.head.parameters[in.head.ops[id].tag].front();
            divisor = divisor.integer() + 1;
          });
    if (!is_reduction(at(id).what)) return;
    auto next = std::ranges::find(k_all_reductions, at(id).what);
    do {
      if (next == k_all_reductions.end() || ++next == k_all_reductions.end()) next = k_all_reductions.begin();
    } while (!supports(*next, at(id).type));
    add(mutation::change_kernel, words(id) + " has kernel " + std::string(name_of(*next)),
        [id, other = *next](draft& in) { in.head.ops[id].what = other; });
  }

  /// For each kernel, inserts ops that change the result of op `id`.
  void insert_ops(op_id id) {
    if (at(id).kind == op_kind::capture) return;
    for (const operand& part : operands_of(at(id), program_->buffers()))
      if (part.is_written && part.count > 0 && !program_->buffers()[part.at.buffer()].has_lists())
        change_memory(id, {part.at, part.type, part.count});
  }

  /// If the schedule writes output `b`, inserts ops that change this output after the exit (the end of the round).
  void change_output(std::size_t b) {
    const buffer& out = program_->buffers()[b];
    const auto writes = [b](const op& it) { return it.c.exists() && it.c.buffer() == b; };
    if (out.role != buffer_role::output || out.count == 0 || std::ranges::none_of(program_->ops(), writes)) return;
    change_memory(program_->exit(), {region(static_cast<std::uint16_t>(b), 0), out.type, out.count});
  }

  struct place {
    region at;
    dtype type;
    std::uint64_t count;
  };

  /// Inserts one or two ops after op `id`, once for each kernel that the type supports.
  void change_memory(op_id id, const place& it) {
    for (const kernel how : k_all_reductions)
      if (supports(how, it.type)) insert(id, it, "itself", {by(how, it.at, it.at, it)});
    if (supports(kernel::divide, it.type)) insert(id, it, "2", {by(kernel::divide, it.at, {}, it)});
    for (std::uint16_t b = 0; b < program_->buffers().size(); ++b) {
      const buffer& other = program_->buffers()[b];
      const bool fits = other.type == it.type && other.count >= it.count && !other.has_lists();
      if (fits && b != it.at.buffer())
        insert(id, it, "buffer " + std::to_string(b), {by(kernel::copy, region(b, 0), {}, it)});
    }
    if (supports(kernel::adasum, it.type)) adapt(id, it);
    const buffer& whole = program_->buffers()[it.at.buffer()];
    if (it.at.offset() == 0 && it.count == whole.count) call_functions(id, it);
    measure_lists(id, it);
  }

  static op by(kernel how, region a, region b, const place& target) {
    return {.kind = op_kind::compute,
            .what = how,
            .type = target.type,
            .need = 1,
            .count = target.count,
            .a = a,
            .b = b,
            .c = target.at};
  }

  region new_buffer() const { return region(static_cast<std::uint16_t>(program_->buffers().size()), 0); }

  /// Replaces a vector by its adaptive sum with itself. Another mutant adds the results of dot_norms to the vector,
  /// although these results are not a contribution.
  void adapt(op_id id, const place& it) {
    const buffer sums{.type = dtype::f64, .count = k_dot_sums};
    const place weights{new_buffer(), dtype::f64, k_dot_sums};
    op norms = by(kernel::dot_norms, it.at, it.at, it), last = by(kernel::adasum, it.at, it.at, it);
    norms.c = last.s = weights.at;
    insert(id, it, "itself", {norms, last}, sums);
    if (it.type != dtype::f64) return;
    last = by(kernel::sum, it.at, weights.at, {it.at, it.type, std::min(it.count, k_dot_sums)});
    insert(id, it, "dot_norms", {norms, last}, sums);
  }

  /// Replaces a whole buffer by the result of a function, or adds a derived result to the buffer.
  void call_functions(op_id id, const place& it) {
    const buffer made{.type = it.type, .count = it.count};
    const place result{new_buffer(), it.type, it.count};
    for (const kernel how : {kernel::split, kernel::fold, kernel::join, kernel::derive})
      insert(id, it, std::string(name_of(how)), {by(how, it.at, {}, result), by(kernel::copy, result.at, {}, it)},
             made);
    if (supports(kernel::sum, it.type))
      insert(id, it, "derive", {by(kernel::derive, it.at, {}, result), by(kernel::sum, it.at, result.at, it)}, made);
  }

  /// Adds the length of a list to its elements.
  void measure_lists(op_id id, const place& it) {
    const auto lists = std::ranges::find_if(program_->buffers(), &buffer::has_lists);
    if (it.type != dtype::u64 || lists == program_->buffers().end()) return;
    const region first(static_cast<std::uint16_t>(lists - program_->buffers().begin()), 0);
    op length = by(kernel::measure, first, {}, {new_buffer(), lists->type, 1});
    insert(id, it, "a length", {length, by(kernel::sum, it.at, new_buffer(), {it.at, it.type, 1})},
           buffer{.type = dtype::u64, .count = 1});
  }

  /// Inserts a chain of ops after op `id`. `words_for_operand` describes the operand of the last op in the chain. If
  /// `scratch` has elements, it becomes an additional buffer.
  void insert(op_id id, const place& it, const std::string& words_for_operand, std::vector<op> chain,
              const buffer& scratch = {}) {
    add(mutation::insert_op,
        "after " + words(id) + ", " + std::to_string(it.count) + " elements of buffer " +
            std::to_string(it.at.buffer()) + " from " + std::to_string(it.at.offset()) + " on are changed by " +
            std::string(name_of(chain.back().what)) + " and " + words_for_operand,
        [id, chain, scratch](draft& in) {
          if (scratch.count > 0) in.head.buffers.push_back(scratch);
          std::vector<op> added = chain;
          for (op& one : added) {
            if (!row_of(one.what).has_parameters()) continue;
            one.tag = static_cast<std::uint32_t>(in.head.parameters.size());
            in.head.parameters.push_back({is_function(one.what) ? k_new_function : 2u});
          }
          insert_after(in, id, added);
        });
  }

  /// Multiplies the result of an op. The factor 2^61 equals 1 modulo 2^61-1, so the sums of weights stay the same. The
  /// factor 1 + 2^64 (2^61-1) also equals 1 modulo 2^64, so the counts also stay the same.
  void multiply_target(op_id id) {
    if (at(id).kind == op_kind::capture) return;
    for (const operand& part : operands_of(at(id), program_->buffers())) {
      if (!part.is_written || part.count == 0 || !supports(kernel::sum, part.type)) continue;
      const place it{part.at, part.type, part.count}, more{new_buffer(), part.type, part.count};
      const op doubled = by(kernel::sum, more.at, more.at, more), added = by(kernel::sum, it.at, more.at, it);
      multiply(id, "2^61", std::vector<op>(61, by(kernel::sum, it.at, it.at, it)), {});
      std::vector<op> chain{by(kernel::copy, it.at, {}, more)};
      chain.insert(chain.end(), 64, doubled);
      for (int bit = 0; bit < 61; ++bit) chain.insert(chain.end(), {added, doubled});
      multiply(id, "1 + 2^64 (2^61-1)", chain, {.type = part.type, .count = part.count});
    }
  }

  void multiply(op_id id, const std::string& times, std::vector<op> chain, const buffer& scratch) {
    add(mutation::multiply, words(id) + " has its result " + times + " times", [id, chain, scratch](draft& in) {
      if (scratch.count > 0) in.head.buffers.push_back(scratch);
      insert_after(in, id, chain);
    });
  }

  /// Replaces a compute op on whole buffers by a function of one operand.
  void replace_by_function(op_id id) {
    const op& it = at(id);
    if (it.kind != op_kind::compute || is_function(it.what) || !it.a.exists() || it.a.buffer() == it.c.buffer()) return;
    const buffer &from = program_->buffers()[it.a.buffer()], &to = program_->buffers()[it.c.buffer()];
    if (from.count != it.count || to.count != it.count || from.has_lists() || to.has_lists()) return;
    for (const kernel how : {kernel::split, kernel::fold, kernel::join, kernel::derive})
      add(mutation::change_kernel, words(id) + " is a " + std::string(name_of(how)), [id, how](draft& in) {
        op& changed = in.head.ops[id];
        changed.what = how;
        changed.b = changed.s = {};
        changed.tag = static_cast<std::uint32_t>(in.head.parameters.size());
        in.head.parameters.push_back({k_new_function});
      });
  }

  void exchange_orders(op_id id) {
    if (at(id).b.exists())
      add(mutation::exchange_order, words(id) + " has its operands in the other order",
          [id](draft& in) { std::swap(in.head.ops[id].a, in.head.ops[id].b); });
    for (const op_id after : program_->successors(id))
      add(mutation::exchange_order, words(id) + " and " + words(after) + " change places",
          [id, after](draft& in) { exchange(in, id, after); });
  }

  void change_needs(op_id id) {
    const std::uint32_t now = at(id).need;
    if (now == 0) return;
    std::uint32_t all = 0;
    for (op_id before = 0; before < id; ++before)
      all += static_cast<std::uint32_t>(std::ranges::count(program_->successors(before), id));
    std::set<std::uint32_t> others{1, all, now + 1, now - 1};
    others.erase(now);
    others.erase(0);
    for (const std::uint32_t need : others)
      add(mutation::change_need,
          words(id) + " needs " + std::to_string(need) + " instead of " + std::to_string(now) + " of " +
              std::to_string(all) + " tokens",
          [id, need](draft& in) { in.head.ops[id].need = need; });
  }

  void shift_offsets(op_id id) {
    for (const operand& part : operands_of(at(id), program_->buffers())) {
      const region now = part.at;
      for (const int change : {+1, -1}) {
        if (change < 0 && now.offset() == 0) continue;
        const region shifted(now.buffer(), now.offset() + static_cast<std::uint64_t>(change));
        add(mutation::shift_offset, words(id) + " has " + name_of(part.which) + " at offset " + signed_text(change),
            [id, which = part.which, shifted](draft& in) { in.head.ops[id].*which = shifted; });
      }
    }
  }

  void change_extents(op_id id) {
    const std::uint64_t now = at(id).count;
    for (const int change : {+1, -1}) {
      if (change < 0 && now == 0) continue;
      const std::uint64_t count = now + static_cast<std::uint64_t>(change);
      const auto resize = [count](op_id which) {
        return [which, count](draft& in) { in.head.ops[which].count = count; };
      };
      add(mutation::change_extent, words(id) + " has " + signed_text(change) + " elements", resize(id));
      const op_id other = at(id).kind == op_kind::send ? other_end(id) : k_no_op;
      if (other != k_no_op)
        add_to_both(mutation::change_extent, words(id) + " and its receive have " + signed_text(change) + " elements",
                    resize(id), at(id).peer, resize(other));
    }
  }

  /// Increases the capacity of lists at this rank.
  void change_room(std::size_t b) {
    const bool is_packed = program_->buffers()[b].is_packed();
    add(mutation::change_extent,
        "the lists of buffer " + std::to_string(b) + " have " + (is_packed ? "in all " : "") + "+1 items",
        [b, is_packed](draft& in) {
          list_layout& lists = in.head.buffers[b].lists;
          is_packed ? ++lists.total : ++lists.room;
        });
  }

  /// Removes or changes the guard of an op (the condition on the rounds in which the op runs). The op at the other end
  /// of the op's edge keeps its guard.
  void change_guard(op_id id) {
    add(mutation::change_guard, words(id) + " has no guard", [id](draft& in) { in.head.ops[id].guard = 0; });
    guard other = program_->guards()[at(id).guard - std::size_t{1}];
    ++(other.every > 1 && id % 2 == 1 ? other.phase : other.every);
    other.phase %= other.every;
    add(mutation::change_guard,
        words(id) + " has a guard of phase " + std::to_string(other.phase) + " in " + std::to_string(other.every),
        [id, other](draft& in) {
          in.head.guards.push_back(other);
          in.head.ops[id].guard = in.head.guards.size() & k_most_guards;
        });
  }

  void swap_peers(op_id id) {
    for (op_id later = id + 1; later < program_->ops().size(); ++later)
      if (is_communication(at(later).kind) && at(later).peer != at(id).peer)
        add(mutation::swap_peers, words(id) + " and " + words(later) + " have each other's peer",
            [id, later](draft& in) { std::swap(in.head.ops[id].peer, in.head.ops[later].peer); });
  }

  void merge_tags(op_id id) {
    std::set<std::uint32_t> tags;
    for (const op& it : program_->ops())
      if (is_communication(it.kind) && it.tag != at(id).tag) tags.insert(it.tag);
    const op_id other = other_end(id);
    for (const std::uint32_t tag : tags) {
      const auto retag = [tag](op_id which) { return [which, tag](draft& in) { in.head.ops[which].tag = tag; }; };
      const std::string what =
          words(id) + " has tag " + std::to_string(tag) + " instead of " + std::to_string(at(id).tag);
      add(mutation::merge_tags, what, retag(id));
      if (other == k_no_op) continue;
      add_to_both(mutation::merge_tags, what + ", and so has its receive", retag(id), at(id).peer, retag(other));
      out_.faults_.push_back({mutation::merge_tags,
                              "rank " + std::to_string(at(id).peer) + ": the receive of rank " + std::to_string(self_) +
                                  "'s " + words(id) + " has tag " + std::to_string(tag),
                              {{at(id).peer, retag(other)}}});
    }
  }

  void lose_signals(op_id id) {
    const auto lose = [](op_id which) { return [which](draft& in) { blank(in, which); }; };
    add(mutation::lose_signal, words(id) + " is lost, its place in the order is not", lose(id));
    const op_id other = is_out(at(id)) ? other_end(id) : k_no_op;
    if (other != k_no_op)
      add_to_both(mutation::lose_signal, words(id) + " is lost, and so is its receive", lose(id), at(id).peer,
                  lose(other));
  }

  /// Returns the receive that matches send `id`, or k_no_op.
  op_id other_end(op_id id) const {
    const op& out = at(id);
    const op_kind wanted = out.kind == op_kind::send ? op_kind::recv : op_kind::signal_recv;
    const auto ops = world_[static_cast<std::size_t>(out.peer)]->ops();
    const auto found = std::ranges::find_if(
        ops, [&](const op& it) { return it.kind == wanted && it.peer == self_ && it.tag == out.tag; });
    return found == ops.end() ? k_no_op : static_cast<op_id>(found - ops.begin());
  }

  static constexpr std::uint32_t k_new_function = 0xffffffff;  ///< id of a function that no schedule contains

  mutant_list& out_;
  const std::vector<schedule_ptr>& world_;
  rank self_ = 0;
  const schedule* program_ = nullptr;
};

mutant_list::mutant_list(std::vector<schedule_ptr> world) : original_(std::move(world)) { enumeration(*this).write(); }

std::vector<schedule_ptr> mutant_list::world(std::size_t k) const {
  std::vector<schedule_ptr> mutated = original_;
  for (const auto& [who, change] : faults_[k].edits) {
    draft changed = draft_of(*original_[static_cast<std::size_t>(who)]);
    change(changed);
    mutated[static_cast<std::size_t>(who)] = schedule_of(std::move(changed));
  }
  return mutated;
}

}  // namespace lsched
