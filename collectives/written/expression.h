// Integer expressions of an algorithm file.
//
//   or  and  not  == != < <= > >=  + -  * / mod xor  unary -  ^  ( )  log2(x)  min(x, y)  max(x, y)
//
// Operators are listed in the order of precedence, beginning with the lowest. Division rounds down, and `mod` with a
// positive divisor is never negative, so (r - 1) mod P is a rank. True is 1, and false is 0. Values have 64 bits, and
// overflow is an error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsched/schedule/scanner.h"

namespace lsched {

/// The variables that an expression may use, in the order of their values in value().
using variable_names = std::vector<std::string>;

class expression {
 public:
  expression() = default;

  static result<expression> read(scanner& from, std::string_view text, const variable_names& names);
  static expression constant(std::int64_t value) { return expression({{step::push, value}}, 0); }

  /// Returns the value for the given variables. Returns ARGUMENT for a division by zero, log2 of a number below 1, a
  /// negative exponent, or an overflow.
  result<std::int64_t> value(std::span<const std::int64_t> variables) const;

  bool exists() const { return !steps_.empty(); }
  std::size_t at() const { return at_; }  ///< offset in the text at which the expression begins

 private:
  friend class expression_reader;
  /// A step in postfix notation: operands are pushed, and operators pop their operands from the stack.
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
    std::int64_t operand = 0;  ///< a value, or the index of a variable
  };
  expression(std::vector<step> steps, std::size_t at) : steps_(std::move(steps)), at_(at) {}
  static bool apply(step::operation what, std::int64_t x, std::int64_t y, std::int64_t* out);

  std::vector<step> steps_{};
  std::size_t at_ = 0;
};

}  // namespace lsched
