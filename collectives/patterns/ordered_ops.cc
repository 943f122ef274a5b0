#include "collectives/patterns/ordered_ops.h"

#include <utility>

namespace lsched {

std::uint32_t ordered_ops::new_cells(std::uint64_t count) {
  const auto first = static_cast<std::uint32_t>(cells_.size());
  cells_.resize(cells_.size() + count, {entry_, k_none});
  return first;
}

stretch ordered_ops::scratch(dtype type, std::uint64_t count, std::uint64_t cells) {
  return {{to_.scratch(type, count), 0}, count, new_cells(cells), static_cast<std::uint32_t>(cells)};
}

stretch ordered_ops::landing(std::uint64_t count, std::uint64_t longest) {
  if (landings_++ < k_most_landings) return scratch(count);
  if (used_again_.size() < k_landings_used_again) used_again_.push_back(scratch(longest));
  const stretch& landing = used_again_[landings_ % used_again_.size()];
  return {landing.at, count, landing.cell};
}

op_id ordered_ops::ordered(op_id made, std::initializer_list<stretch> sources, std::optional<stretch> target) {
  append(made);
  for (const stretch& source : sources) reads(source);
  if (target) writes(*target);
  return made;
}

void ordered_ops::wait_for(op_id before) {
  if (before == k_no_op || before == last_) return;
  op_id& waiting = before < first_ ? entry_awaited_by_ : awaited_by_[before - first_];
  if (waiting != last_) to_.dep(before, last_);
  waiting = last_;
}

fragment ordered_ops::finish(bool is_holding) {
  const std::size_t ops = awaited_by_.size();
  const op_id exit = ordered(to_.nop(), {}, {});
  bool is_alone = true;
  for (std::size_t i = 0; i < ops; ++i) {
    if (awaited_by_[i] != k_no_op) continue;
    wait_for(first_ + static_cast<op_id>(i));
    is_alone = false;
  }
  if (is_alone) wait_for(entry_);
  return {.entry = entry_, .exit = exit, .holding = is_holding};
}

/// After an error, the builder returns k_no_op for every op, and compile() will fail.
void ordered_ops::append(op_id op) {
  last_ = op;
  if (op == k_no_op) return;
  if (first_ == k_no_op) first_ = op;
  awaited_by_.resize(op - first_ + 1, k_no_op);
}

void ordered_ops::reads(const stretch& from) {
  for (std::uint32_t i = from.cell; i != from.cell + from.cells; ++i) {
    wait_for(cells_[i].writer);
    readers_.push_back({last_, cells_[i].readers});
    cells_[i].readers = static_cast<std::uint32_t>(readers_.size() - 1);
  }
}

// Readers already wait for the last writer, so a new writer needs to wait only for the readers.
void ordered_ops::writes(const stretch& to) {
  for (std::uint32_t i = to.cell; i != to.cell + to.cells; ++i) {
    cell_state& cell = cells_[i];
    bool has_readers = false;
    for (std::uint32_t number = cell.readers; number != k_none; number = readers_[number].next) {
      has_readers |= readers_[number].id != last_;
      wait_for(readers_[number].id);
    }
    if (!has_readers) wait_for(cell.writer);
    cell = {last_, k_none};
  }
}

// --- one rank's part -----------------------------------------------------------------------------------------

void ordered_part::set_cells(std::uint64_t count) {
  input_cell_ = output_cell_ = new_cells(count);
  if (!in_place()) output_cell_ = new_cells(count);
}

void ordered_part::set_blocks(std::vector<std::uint64_t> begins) {
  set_cells(begins.size() - 1);
  begins_ = std::move(begins);
}

stretch ordered_part::blocks_in(buffer_id buffer, std::uint32_t cell, block_range blocks) const {
  const std::uint64_t begin = begins_[wide(blocks.first)];
  return {{buffer, begin},
          begins_[wide(blocks.end)] - begin,
          cell + static_cast<std::uint32_t>(blocks.first),
          static_cast<std::uint32_t>(blocks.count())};
}

stretch ordered_part::own_output() const {
  return {{output(), 0}, in_input({self(), self() + 1}).count, output_cell_, static_cast<std::uint32_t>(size())};
}

stretch ordered_part::receive(rank from, std::uint32_t tag, std::uint64_t count) {
  const stretch landing = scratch(count);
  recv(from, tag, landing);
  return landing;
}

}  // namespace lsched
