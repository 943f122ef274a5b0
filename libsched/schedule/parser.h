// Reads one schedule of a text (schedule_file.h).
//
// Two passes over the words of a schedule. The first tells the builder what it has to know, and compiles. The second
// walks along the text and along what to_text makes of the result in the version that the text has, and refuses any
// word that differs: nothing that a file says is believed unchecked, and the first pass may skip whatever compile()
// finds out by itself. No list is sized by a number that a file declares.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsched/schedule/builder.h"
#include "libsched/schedule/scanner.h"

namespace lsched {

/// Reads the schedule that begins at `at`. A member that answers false has filled in why().
class parser {
 public:
  parser(std::string_view text, std::size_t at) : text_(text), in_(text, at) {}

  bool read() { return read_head() && read_lists() && compile() && compare(); }
  bool end_text() { return next().what == token::end || refuse("the end of the text after one schedule"); }

  std::size_t begin() const { return begin_; }
  const token& next() const { return in_.next(); }  ///< after the schedule
  const schedule_ptr& program() const { return program_; }
  const failure& why() const { return why_; }

 private:
  template <class Why>
  bool fail(std::size_t at, Why why) {
    why_ = located(text_, at, std::move(why));
    return false;
  }
  bool refuse(const std::string& wanted) {
    return fail(next().at, "expected " + wanted + " but found " + shown(next()));
  }
  /// Whether the builder has had nothing to object so far.
  bool is_sound(std::size_t at) { return made_.error() == nullptr || fail(at, *made_.error()); }

  bool take(std::string_view word);
  bool expect(std::string_view word) { return take(word) || refuse("'" + std::string(word) + "'"); }
  bool end_line();
  bool read_digits(std::string_view digits, std::uint64_t most, std::uint64_t& into);
  template <class Number>
  bool read_number(Number& into, std::uint64_t most = std::uint64_t{std::numeric_limits<Number>::max()});
  template <class Words, class Word>
  bool read_word(const Words& all, const std::string& what, Word& into);

  bool read_head();
  bool read_version();
  bool read_name(std::string& name);
  bool read_flags();
  bool read_activation();
  bool read_sizes();

  bool read_lists();
  bool read_buffer();
  bool read_lists_of(list_layout& lists);
  bool read_guard();
  bool read_op();
  bool read_exit();

  bool read_work(op& it, parameter_values& with);
  bool read_data(op& it, region& where);
  bool read_compute(op& it, parameter_values& with);
  bool read_merge(op& it);
  bool read_parameters(const kernel_row& row, parameter_values& with);
  bool read_parameter(const parameter_rule& rule, parameter& into);
  bool read_real(double& into);
  bool read_region(region& where, std::uint64_t& count);
  bool read_peer(op& it, std::string_view direction);
  bool read_derived(op& it);
  bool read_guard_of(op& it);
  bool read_successors(op_id id);
  void append(const op& it, const parameter_values& with);

  bool compile();
  bool compare();

  std::string_view text_;
  scanner in_;
  std::size_t begin_ = in_.next().at;
  builder made_{world{}};
  unsigned version_ = k_text_version;
  std::size_t buffers_ = 0;         ///< read so far
  std::size_t on_device_ = begin_;  ///< where a buffer was said to be in device memory
  std::vector<guard> guards_{};
  std::vector<std::size_t> lines_{};  ///< where each op begins
  std::vector<std::pair<op_id, op_id>> deps_{};
  schedule_ptr program_{};
  failure why_{};
};

}  // namespace lsched
