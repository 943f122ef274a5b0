// Integer expressions of an algorithm file: what they say of ranks, and their values.
//
//   or  and  not  == != < <= > >=  + -  * / mod xor  - (of one)  ^  ( )  log2(x)  min(x, y)  max(x, y)
//
// from the weakest to the strongest. Division rounds down and `mod` is never negative, so that (r - 1) mod P is a rank.
// Truth is 1 and 0. Values are 64 bits wide, and what does not fit is an error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsched/schedule/scanner.h"

namespace lsched {

/// The names that an expression may use; their values are given in this order.
using variable_names = std::vector<std::string>;

class expression {
 public:
  expression() = default;  ///< none

  /// Reads as many words as belong to it.
  static result<expression> read(scanner& from, std::string_view text, const variable_names& names);
  static expression constant(std::int64_t value) { return expression({{step::push, value}}, 0); }

  /// Failures: ARGUMENT, for a division by zero, a logarithm below 1 and a value that does not fit.
  result<std::int64_t> value(std::span<const std::int64_t> variables) const;

  bool exists() const { return !steps_.empty(); }
  std::size_t at() const { return at_; }  ///< where in the text the expression begins

 private:
  friend class expression_reader;
  /// Postfix: operands are pushed, operators take theirs off the stack.
  struct step {
    enum operation : std::uint8_t {
      push,
      load,
      negate,
      invert,
      log2,
      power,
      times,
      divide,
      modulo,
      exclusive,
      plus,
      minus,
      equal,
      unequal,
      less,
      at_most,
      more,
      at_least,
      both,
      either,
      least,
      most
    } what;
    std::int64_t operand = 0;  ///< a value, or the number of a variable
  };
  expression(std::vector<step> steps, std::size_t at) : steps_(std::move(steps)), at_(at) {}
  static bool apply(step::operation what, std::int64_t x, std::int64_t y, std::int64_t* out);

  std::vector<step> steps_{};
  std::size_t at_ = 0;
};

}  // namespace lsched
