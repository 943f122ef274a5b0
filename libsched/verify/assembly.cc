#include "libsched/verify/assembly.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace lsched {
namespace {

/// Returns the key by which messages to a rank are matched to the receives of this rank.
auto key_of(const op& receiver) { return std::tuple(receiver.peer, receiver.kind, receiver.tag); }

op_kind receiver_kind(op_kind sender) { return sender == op_kind::send ? op_kind::recv : op_kind::signal_recv; }

std::string extent_text(const schedule& program, const op& o) {
  const buffer& under = program.buffers()[o.kind == op_kind::send ? o.a.buffer() : o.c.buffer()];
  const std::string lists =
      under.has_lists() ? " lists of at most " + std::to_string(under.most_items(o.count)) : std::string();
  return std::to_string(o.count) + lists + " x " + std::string(name_of(o.type));
}

}  // namespace

assembly::assembly(std::span<const schedule_ptr> programs)
    : programs_(programs), first_{0}, after_first_{0}, before_first_{0} {
  for (const schedule_ptr& program : programs)
    first_.push_back(first_.back() + static_cast<world_op>(program->ops().size()));
  owner_.reserve(op_count());
  for (rank r = 0; r < size(); ++r) {
    const schedule& mine = program(r);
    owner_.insert(owner_.end(), mine.ops().size(), r);
    for (op_id id = 0; id < mine.ops().size(); ++id) {
      ops_.push_back(&mine.ops()[id]);
      is_exit_.push_back(id == mine.exit());
      kind_.push_back(mine.ops()[id].kind);
      need_.push_back(mine.ops()[id].need);
      for (const op_id next : mine.successors(id)) after_.push_back(number(r, next));
      after_first_.push_back(after_.size());
    }
    std::vector<std::size_t> end(mine.ops().size() + 1, before_.size());
    for (op_id id = 0; id < mine.ops().size(); ++id)
      for (const op_id next : mine.successors(id)) ++end[next + 1];
    for (op_id id = 0; id < mine.ops().size(); ++id) end[id + 1] += end[id] - before_.size();
    before_first_.insert(before_first_.end(), end.begin() + 1, end.end());
    before_.resize(end.back());
    for (op_id id = 0; id < mine.ops().size(); ++id)
      for (const op_id next : mine.successors(id)) before_[end[next]++] = id;
  }
}

finding assembly::about(property what, world_op id, const element_range& range, const std::string& text) const {
  return {.what = what,
          .where = owner_[id],
          .op = id_of(id),
          .peer = at(id).peer,
          .buffer = range.buffer,
          .begin = range.begin,
          .end = range.end,
          .text = text};
}

void assembly::object(world_op id, const std::string& why, finding_list& out) const {
  out.add(about(property::matching, id, words_for(id) + ", tag " + std::to_string(at(id).tag) + ", " + why));
}

// --- matching ----------------------------------------------------------------------------------------------

void assembly::match(finding_list& out) {
  partner_.assign(op_count(), k_no_world_op);
  std::vector<std::vector<world_op>> receivers(programs_.size());
  for (world_op id = 0; id < op_count(); ++id)
    if (is_incoming(at(id).kind) && !is_call(id)) receivers[static_cast<std::size_t>(owner_[id])].push_back(id);
  for (auto& mine : receivers)
    std::sort(mine.begin(), mine.end(), [this](world_op x, world_op y) { return key_of(at(x)) < key_of(at(y)); });
  for (world_op id = 0; id < op_count(); ++id)
    if (is_outgoing(at(id).kind)) match_out(id, receivers[static_cast<std::size_t>(at(id).peer)], out);
  for (const auto& mine : receivers)
    for (const world_op id : mine)
      if (partner_[id] == k_no_world_op) object(id, "has no matching send", out);
}

/// Matches a send or signal. check_form has ensured that no two receivers, and no two senders, of a rank have the same
/// key.
void assembly::match_out(world_op id, std::span<const world_op> receivers, finding_list& out) {
  const op& sent = at(id);
  const std::tuple wanted(owner_[id], receiver_kind(sent.kind), sent.tag);
  const auto found = std::lower_bound(receivers.begin(), receivers.end(), wanted,
                                      [this](world_op x, const auto& key) { return key_of(at(x)) < key; });
  if (found == receivers.end() || key_of(at(*found)) != wanted) return object(id, "has no matching receive", out);
  partner_[id] = *found;
  partner_[*found] = id;
  if (sent.kind == op_kind::send && !fit(id, *found))
    object(id,
           "carries " + extent_text(program(owner_[id]), sent) + ", but " + words_for(*found) + " takes " +
               extent_text(program(owner_[*found]), at(*found)),
           out);
  const guard *one = program(owner_[id]).guard_of(sent), *other = program(owner_[*found]).guard_of(at(*found));
  if (one == nullptr || other == nullptr ? one != other : *one != *other)
    object(id, "has another guard than " + words_for(*found) + ": in some rounds only one of the two moves data", out);
}

/// Returns true if both ends have the same type, count and maximum size, as commit requires (edge_balance.h).
bool assembly::fit(world_op out, world_op in) const {
  const schedule &sender = program(owner_[out]), &receiver = program(owner_[in]);
  const op &sent = at(out), &taken = at(in);
  const bool from_lists = sender.buffers()[sent.a.buffer()].has_lists();
  const bool to_lists = receiver.buffers()[taken.c.buffer()].has_lists();
  return sent.type == taken.type && sent.count == taken.count && from_lists == to_lists &&
         most_bytes(sender, sent) == most_bytes(receiver, taken);
}

}  // namespace lsched
