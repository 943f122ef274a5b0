// The grammar of a schedule's text form (docs/reference/schedule_file.md). Each kind of line is described once, by a
// function that both the writer and the reader use.
//
// The parameter `io` of each function is a text_writer, which appends the words, or a text_reader, which expects the
// words and stores their values (schedule_text.cc). A function returns false if the reader finds other words.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <tuple>

#include "libsched/schedule/schedule.h"

namespace lsched::text_grammar {

inline constexpr auto k_all_kinds = [] {
  std::array<op_kind, k_kinds.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<op_kind>(i);
  return all;
}();
inline constexpr auto k_types = [] {
  std::array<dtype, k_all_dtypes.size() + k_all_items.size()> all{};
  std::ranges::copy(k_all_items, std::ranges::copy(k_all_dtypes, all.begin()).out);
  return all;
}();
inline constexpr auto k_all_kernels = [] {
  std::array<kernel, k_kernel_rows.size() - 1> all{};
  std::ranges::transform(k_kernel_rows.subspan(1), all.begin(), &kernel_row::what);
  return all;
}();
inline constexpr auto k_all_merges = [] {
  std::array<kernel, k_all_reductions.size() + 1> all{kernel::adasum};
  std::ranges::copy(k_all_reductions, all.begin() + 1);
  return all;
}();
inline constexpr std::array k_all_roles{buffer_role::input, buffer_role::output, buffer_role::scratch};
inline constexpr std::array k_all_policies{
    activation_policy::none,     activation_policy::full,   activation_policy::solo,   activation_policy::majority,
    activation_policy::first_of, activation_policy::all_of, activation_policy::quorum, activation_policy::deadline};

/// An op, and the additional data that the text contains for a compute.
struct op_text {
  op work{};
  parameter_values parameters{};
  dtype target = dtype::u8;           ///< type of the elements of region c
  std::uint64_t a = 0, b = 0, s = 0;  ///< element counts of the regions a, b and s
};

/// Content of the first lines of the text, before the lines for sizes and buffers.
struct head_text {
  std::string name{};
  world place{};
  bool is_synchronising = false, is_holding = false;
  activation starts{};
};

template <class Io>
bool head_lines(Io& io, head_text& head) {
  const bool has_title = io.word("libsched") && io.word("schedule") && io.version() && io.end_line() &&
                         io.word("name") && io.quoted(head.name) && io.end_line() && io.word("rank") &&
                         io.place(head.place, head.name) && io.end_line() && io.word("flags");
  if (!has_title) return false;
  head.is_synchronising = io.option("synchronising", head.is_synchronising);
  head.is_holding = io.option("holding", head.is_holding);
  activation& starts = head.starts;
  return io.end_line() && io.word("activation") && io.choice(k_all_policies, "an activation policy", starts.policy) &&
         (!has_number(starts.policy) || io.number(starts.number)) &&
         (!io.option("grace", starts.grace_us != 0) || io.number(starts.grace_us)) &&
         (!io.option("every", starts.full_every != 0) || io.number(starts.full_every)) && io.word("seed") &&
         io.number(starts.seed) && io.end_line();
}

/// Writes or reads the line with the numbers of buffers, guards, ops and deps. The reader ignores these numbers,
/// because compare() checks them later.
template <class Io>
bool size_line(Io& io, std::array<std::uint64_t, 4> sizes) {
  return !io.option("sizes", true) ||
         (io.word("buffers") && io.number(sizes[0]) && io.word("guards") && io.number(sizes[1]) && io.word("ops") &&
          io.number(sizes[2]) && io.word("deps") && io.number(sizes[3]) && io.end_line());
}

template <class Io>
bool list_words(Io& io, list_layout& lists) {
  return io.number(lists.room, k_max_count) &&
         (!io.option("packed", lists.total != 0) || io.number(lists.total, k_max_count)) && io.word("typical") &&
         io.number(lists.typical, k_max_count);
}

/// Writes or reads the words that follow "buffer" and the buffer's id.
template <class Io>
bool buffer_words(Io& io, buffer& described, bool& has_lists) {
  if (!io.choice(k_all_roles, "a role", described.role)) return false;
  if (!io.choice(k_all_spaces, "a memory space", described.space)) return false;
  if (!io.choice(k_types, "a dtype", described.type) || !io.number(described.count, k_max_count)) return false;
  has_lists = io.option("lists", has_lists);
  return !has_lists || list_words(io, described.lists);
}

/// Writes or reads the words that follow "guard" and the guard's id.
template <class Io>
bool guard_words(Io& io, guard& when) {
  if (!io.word("every") || !io.number(when.every)) return false;
  const bool is_late = io.option("phase", when.phase != 0);
  if (is_late && !io.number(when.phase)) return false;
  when.skips_empty = io.option("skips_empty", when.skips_empty);
  return true;
}

template <class Io>
bool region_words(Io& io, region& place, std::uint64_t& count) {
  std::uint64_t buffer = place.buffer(), offset = place.offset();
  const bool is_read = io.buffer_name(buffer) && io.symbol("[") && io.number(offset, k_max_count) && io.word("+") &&
                       io.number(count, k_max_count) && io.symbol("]");
  place = region(static_cast<std::uint16_t>(buffer), offset);
  return is_read;
}

template <class Io>
bool data_words(Io& io, op& work, region& place) {
  return io.choice(k_types, "a dtype", work.type) && region_words(io, place, work.count);
}

template <class Io>
bool edge_words(Io& io, op& work, std::string_view direction) {
  return io.word(direction) && io.number(work.peer) && io.word("tag") && io.number(work.tag);
}

template <class Io>
bool parameter_words(Io& io, const parameter_rule& rule, parameter& value) {
  std::uint64_t integer = value.integer();
  double real = value.real();
  const bool is_integer = rule.type == parameter_type::integer;
  if (!(is_integer ? io.number(integer) : io.real(real))) return false;
  value = is_integer ? parameter(integer) : parameter(real);
  return true;
}

/// Writes or reads the target, kernel, operands and parameters of a compute, as the kernel's row lists them. Examples
/// are `compute f32 c = sum a b`, `compute f32 c = adasum a b by sums` and `compute f32 c = divide a divisor 4`. If the
/// target does not have the op's type, the text contains both types: `compute f64 sums = dot_norms f32 a b`. In version
/// 2 of the text form, parameters have no names: the number of a function precedes the operands, and any other
/// parameter follows "by".
///
/// The op's count is the number of elements of the target. If the target consists of sums (operand_type::sums), the
/// count is the number of elements of operand a. compare() later refuses a text in which another operand has a
/// different count.
template <class Io>
bool compute_words(Io& io, op_text& text, std::uint64_t target_count) {
  op& work = text.work;
  const bool has_target = io.choice(k_types, "a dtype", text.target) && region_words(io, work.c, target_count) &&
                          io.word("=") && io.choice(k_all_kernels, "a kernel", work.what);
  if (!has_target) return false;
  const kernel_row& row = row_of(work.what);
  if (row.c.type == operand_type::elements) work.type = text.target;
  if (row.c.type != operand_type::elements && !io.choice(k_types, "a dtype", work.type)) return false;
  const bool has_number_first = io.is_version_2() && row.is(trait::function);
  if (has_number_first && !parameter_words(io, row.parameters.front(), text.parameters.front())) return false;
  for (const auto& [place, rule, count] :
       {std::tuple(&work.a, row.a, &text.a), {&work.b, row.b, &text.b}, {&work.s, row.s, &text.s}}) {
    if (rule.need == operand_need::never) continue;
    if (rule.need == operand_need::optional && !io.option("by", place->exists())) continue;
    if (rule.need == operand_need::always && rule.steers && !io.word("by")) return false;
    if (!region_words(io, *place, *count)) return false;
  }
  work.count = row.c.type == operand_type::sums ? text.a : target_count;
  for (std::size_t i = 0; i < row.parameters.size() && row.parameters[i].exists() && !has_number_first; ++i)
    if (!io.word(io.is_version_2() ? "by" : row.parameters[i].name) ||
        !parameter_words(io, row.parameters[i], text.parameters[i]))
      return false;
  return true;
}

template <class Io>
bool work_words(Io& io, op_text& text, std::uint64_t target_count) {
  op& work = text.work;
  if (work.kind == op_kind::compute) return compute_words(io, text, target_count);
  const kind_row& row = row_of(work.kind);
  if (row.reads_a && !data_words(io, work, work.a)) return false;
  if (row.writes_c && !data_words(io, work, work.c)) return false;
  if (row.is_outgoing && !edge_words(io, work, "to")) return false;
  if (row.is_incoming && !edge_words(io, work, "from")) return false;
  return work.kind != op_kind::capture ||
         (io.word("merge") && io.choice(k_all_merges, "'adasum' or a reduction", work.what));
}

/// Writes or reads the words between the op's id and the successors. Words that compile() can derive may be left out.
/// `need` may be left out if the op waits for all its deps. compare() checks the words that are present against the
/// compiled op.
template <class Io>
bool op_words(Io& io, op_text& text, std::uint64_t target_count) {
  op& work = text.work;
  if (!io.choice(k_all_kinds, "a kind of op", work.kind) || !work_words(io, text, target_count)) return false;
  work.in_place = io.option("in_place", work.in_place);
  if (io.option("releases_a", work.releases_a != k_no_op) && !io.number(work.releases_a)) return false;
  if (io.option("releases_b", work.releases_b != k_no_op) && !io.number(work.releases_b)) return false;
  std::size_t guard = work.guard;
  if (io.option("guard", guard != 0) && !io.guard_number(guard)) return false;
  work.guard = guard & k_most_guards;
  return !io.option("need", true) || io.number(work.need);
}

}  // namespace lsched::text_grammar
