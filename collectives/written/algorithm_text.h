// An algorithm file (docs/reference/algorithm_file.md) is a text. The schedules of all ranks are generated from this
// text, for any number of ranks. The text is parsed into a value. writer.h executes this value for one rank.
//
// Files are untrusted. Parsing is linear in the length of the text, and errors have a line and a column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithm/collective.h"
#include "collectives/written/expression.h"

namespace lsched::written {

/// The chunks of a vector that an op accesses: all, one, or a range.
struct chunks {
  std::size_t vector = 0;      ///< k_in, k_out, or k_scratch + index of the scratch vector
  std::size_t at = 0;          ///< offset in the text
  expression first{}, last{};  ///< both empty: the whole vector; only `last` is empty: one chunk
};
inline constexpr std::size_t k_in = 0, k_out = 1, k_scratch = 2;

struct message {
  expression peer{};
  expression channel{};  ///< if empty: channel 0
  bool exists() const { return peer.exists(); }
};

/// An operand of an op: chunks, or a received message.
struct operand {
  chunks place{};
  message from{};
};

struct statement {
  enum class kind : std::uint8_t { send, receive, copy, combine, let, loop, branch } what = kind::send;
  std::size_t at = 0;                     ///< offset in the text
  std::uint32_t line = 0;                 ///< line number in the text; the first line is 1
  chunks target{};                        ///< chunks that are sent, or written
  std::vector<operand> operands{};        ///< receive, copy: one operand; combine: lower rank's operand first
  message to{};                           ///< send: receiver and channel
  std::size_t variable = 0;               ///< let, loop: index of the variable
  std::string name{};                     ///< let, loop: name of the variable
  std::vector<expression> values{};       ///< let: the value; loop: first, last, step; branch: the condition
  std::vector<statement> body{}, rest{};  ///< loop: the body; branch: the body, and the else part
};

/// A scratch vector. It is as long as the input or the output, or has a given number of chunks.
struct scratch {
  std::string name;
  std::size_t like = k_scratch;  ///< vector with the same length: k_in or k_out; k_scratch if `count` is given
  expression count{};
  std::size_t at = 0;
};

struct algorithm_text {
  std::string text{};
  std::string name{}, summary{};
  const collective* of = nullptr;
  expression chunks{}, channels{};  ///< numbers of chunks and of channels; if empty: 1
  std::vector<expression> needs{};  ///< conditions on the number of ranks
  bool in_place = false, is_in_rank_order = false, is_holding = false;
  std::vector<scratch> scratches{};
  std::size_t variables = 0;  ///< maximum number of variables that are in scope together
  std::vector<statement> body{};

  /// Returns the text from offset `at` to the end of the line, without a comment, for error texts.
  std::string line_at(std::size_t at) const;
  /// Adds the name of the algorithm, the line and the column to the text of an error.
  failure refused(std::size_t at, failure why) const;
};

/// Indices of the variables that every text has: P, r and root. The value of `root` is 0 if the collective has no root.
inline constexpr std::size_t k_ranks = 0, k_self = 1, k_root = 2, k_first_of_text = 3;

inline constexpr std::string_view k_title = "libsched algorithm";

/// Parses a text. Errors have the form "line L, column C: …". Returns UNSUPPORTED for another version of the format,
/// and for a collective that this format does not support. Returns ARGUMENT for all other errors.
result<algorithm_text> read(std::string_view text);

}  // namespace lsched::written
