// An algorithm file (docs/reference/algorithm_file.md): one text from which the schedule of every rank is made, for any
// number of ranks. Here it is read into a value, which writer.h carries out for one rank.
//
// Files come from strangers: reading is linear in the text, and what is wrong is refused with its line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithm/collective.h"
#include "collectives/written/expression.h"

namespace lsched::written {

/// Chunks of a vector: the whole of it, one, or from one to another.
struct chunks {
  std::size_t vector = 0;      ///< k_in, k_out, or k_scratch + number
  std::size_t at = 0;          ///< in the text
  expression first{}, last{};  ///< none: all of it; only one
};
inline constexpr std::size_t k_in = 0, k_out = 1, k_scratch = 2;

struct message {
  expression peer{};
  expression channel{};  ///< none: 0
  bool exists() const { return peer.exists(); }
};

/// Of an op: chunks, or a message that arrives.
struct operand {
  chunks place{};
  message from{};
};

struct statement {
  enum class kind : std::uint8_t { send, receive, copy, combine, let, loop, branch } what = kind::send;
  std::size_t at = 0;                     ///< in the text
  std::uint32_t line = 0;                 ///< of the text, from 1 on
  chunks target{};                        ///< what is sent, or written
  std::vector<operand> operands{};        ///< receive, copy: one; combine: of the lower rank's and the higher rank's
  message to{};                           ///< send
  std::size_t variable = 0;               ///< let, loop
  std::string name{};                     ///< of the variable
  std::vector<expression> values{};       ///< let: its value; loop: first, last, step; branch: the condition
  std::vector<statement> body{}, rest{};  ///< loop; branch, and what happens otherwise
};

/// A vector of its own: as long as the input or the output would be, or so many chunks.
struct scratch {
  std::string name;
  std::size_t like = k_scratch;  ///< k_in, k_out; else `count` is given
  expression count{};
  std::size_t at = 0;
};

struct algorithm_text {
  std::string text{};  ///< all of it
  std::string name{}, summary{};
  const collective* of = nullptr;
  expression chunks{}, channels{};  ///< none: 1
  std::vector<expression> needs{};  ///< what has to be true of P
  bool in_place = false, is_in_rank_order = false, is_holding = false;
  std::vector<scratch> scratches{};
  std::size_t variables = 0;  ///< at most so many are known at one place
  std::vector<statement> body{};

  /// A word of the text, or a line of it from there on, without a comment.
  std::string line_at(std::size_t at) const;
  /// Of a request that is refused: the algorithm, line and column in front.
  failure refused(std::size_t at, failure why) const;
};

/// Variables that every text has, in this order. `root` is 0 where the collective has none.
inline constexpr std::size_t k_ranks = 0, k_self = 1, k_root = 2, k_first_of_text = 3;

inline constexpr std::string_view k_title = "libsched algorithm";

/// Failures: "line L, column C: …"; ARGUMENT, or UNSUPPORTED for another version of the form and for a collective that
/// cannot be written so.
result<algorithm_text> read(std::string_view text);

}  // namespace lsched::written
