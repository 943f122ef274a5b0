// An algorithm file (docs/reference/algorithm_file.md): one text from which the schedules of all ranks are generated,
// for any number of ranks. The text is parsed into a value, which writer.h executes for one rank.
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

/// Chunks of a vector: the whole vector, one chunk, or a range of chunks.
struct chunks {
  std::size_t vector = 0;      ///< k_in, k_out, or k_scratch + number
  std::size_t at = 0;          ///< offset in the text
  expression first{}, last{};  ///< no `first`: the whole vector; no `last`: one chunk
};
inline constexpr std::size_t k_in = 0, k_out = 1, k_scratch = 2;

struct message {
  expression peer{};
  expression channel{};  ///< empty: channel 0
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
  std::uint32_t line = 0;                 ///< line number in the text, from 1 on
  chunks target{};                        ///< chunks that are sent, or written
  std::vector<operand> operands{};        ///< receive, copy: one operand; combine: lower rank's, then higher rank's
  message to{};                           ///< send: receiver and channel
  std::size_t variable = 0;               ///< let, loop: number of the variable
  std::string name{};                     ///< let, loop: name of the variable
  std::vector<expression> values{};       ///< let: the value; loop: first, last, step; branch: the condition
  std::vector<statement> body{}, rest{};  ///< loop: the body; branch: the body, and the else part
};

/// A scratch vector, which is as long as the input or the output, or has a given number of chunks.
struct scratch {
  std::string name;
  std::size_t like = k_scratch;  ///< k_in, k_out, or k_scratch if `count` is given
  expression count{};
  std::size_t at = 0;
};

struct algorithm_text {
  std::string text{};  ///< the whole text
  std::string name{}, summary{};
  const collective* of = nullptr;
  expression chunks{}, channels{};  ///< numbers of chunks and channels; empty: 1
  std::vector<expression> needs{};  ///< conditions on P
  bool in_place = false, is_in_rank_order = false, is_holding = false;
  std::vector<scratch> scratches{};
  std::size_t variables = 0;  ///< maximum number of variables in scope at one place
  std::vector<statement> body{};

  /// Returns the rest of a line of the text, from `at` on and without a comment, for error texts.
  std::string line_at(std::size_t at) const;
  /// Adds the algorithm, line and column to the text of an error.
  failure refused(std::size_t at, failure why) const;
};

/// Variables of every text, in this order. `root` is 0 if the collective has no root.
inline constexpr std::size_t k_ranks = 0, k_self = 1, k_root = 2, k_first_of_text = 3;

inline constexpr std::string_view k_title = "libsched algorithm";

/// Parses a text. Errors have the form "line L, column C: …". Fails with ARGUMENT, or with UNSUPPORTED for another
/// version of the format and for a collective that cannot be written in this format.
result<algorithm_text> read(std::string_view text);

}  // namespace lsched::written
