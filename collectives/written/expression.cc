#include "collectives/written/expression.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "ops/number_text.h"

namespace lsched {

/// Recursive descent parser. The depth of the recursion is the depth of nested brackets and signs, at most
/// k_most_levels.
class expression_reader {
 public:
  using step = expression::step;
  expression_reader(scanner& from, std::string_view text, const variable_names& names)
      : from_(from), text_(text), names_(names), at_(from.next().at) {}

  result<expression> read() {
    sum(0);
    if (error_) return *error_;
    return expression(std::move(steps_), at_);
  }

 private:
  static constexpr int k_most_levels = 64;
  static constexpr std::size_t k_most_steps = 1024;

  struct infix {
    std::string_view word;
    step::operation what;
    int strength;
  };
  /// A symbol of two characters must come before the symbol that consists of its first character.
  static constexpr std::array k_infix{
      infix{"or", step::either, 0},  infix{"and", step::both, 1},     infix{"==", step::equal, 3},
      infix{"!=", step::unequal, 3}, infix{"<=", step::at_most, 3},   infix{">=", step::at_least, 3},
      infix{"<", step::less, 3},     infix{">", step::more, 3},       infix{"+", step::plus, 4},
      infix{"-", step::minus, 4},    infix{"*", step::times, 5},      infix{"/", step::divide, 5},
      infix{"mod", step::modulo, 5}, infix{"xor", step::exclusive, 5}};
  static constexpr int k_strength_of_not = 2, k_strength_of_sign = 6;

  void fail(std::size_t at, const std::string& why) {
    if (!error_) error_ = located(text_, at, why);
  }

  void add(step::operation what, std::int64_t operand = 0) {
    if (steps_.size() == k_most_steps)
      fail(at_, "this expression is too long: use at most " + std::to_string(k_most_steps) + " operators and values");
    if (!error_) steps_.push_back({what, operand});
  }

  bool is_next(std::string_view word) const { return text_.substr(from_.next().at).starts_with(word); }

  /// Returns the next operator, or nullptr. (The scanner returns symbols character by character, and words as a whole.)
  const infix* next_infix() const {
    const token& next = from_.next();
    for (const infix& each : k_infix)
      if (next.what == token::word ? next.text == each.word : next.what == token::symbol && is_next(each.word))
        return &each;
    return nullptr;
  }

  void take(std::string_view word) {
    from_.advance();
    if (word.size() == 2 && from_.next().what == token::symbol && from_.next().text == word.substr(1)) from_.advance();
  }

  bool take_symbol(std::string_view symbol) {
    if (from_.next().what != token::symbol || from_.next().text != symbol) return false;
    from_.advance();
    return true;
  }

  bool take_word(std::string_view word) {
    if (from_.next().what != token::word || from_.next().text != word) return false;
    from_.advance();
    return true;
  }

  void expect_symbol(std::string_view symbol) {
    if (!error_ && !take_symbol(symbol))
      fail(from_.next().at, "expected '" + std::string(symbol) + "' but found " + shown(from_.next()));
  }

  /// Reads operands that are connected by operators with a precedence of at least `strength`. Operators of equal
  /// precedence associate to the left.
  void sum(int strength) {
    if (++level_ > k_most_levels)
      fail(from_.next().at,
           "this expression is nested too deeply: use at most " + std::to_string(k_most_levels) + " levels");
    if (error_) return;
    if (strength <= k_strength_of_not && take_word("not")) {
      sum(k_strength_of_not);
      add(step::invert);
    } else {
      signed_power();
    }
    for (const infix* next = next_infix(); !error_ && next != nullptr && next->strength >= strength;
         next = next_infix()) {
      take(next->word);
      sum(next->strength + 1);
      add(next->what);
    }
    --level_;
  }

  void signed_power() {
    if (take_symbol("-")) {
      sum(k_strength_of_sign);
      return add(step::negate);
    }
    operand();
    if (!error_ && take_symbol("^")) {
      sum(k_strength_of_sign);
      add(step::power);
    }
  }

  void operand() {
    if (take_symbol("(")) {
      sum(0);
      return expect_symbol(")");
    }
    const token word = from_.next();
    if (word.what != token::word) return fail(word.at, "expected a value but found " + shown(word));
    from_.advance();
    if (word.text.front() >= '0' && word.text.front() <= '9') return number(word);
    if (word.text == "log2") return call(step::log2, 1);
    if (word.text == "min") return call(step::least, 2);
    if (word.text == "max") return call(step::most, 2);
    const auto found = std::ranges::find(names_, word.text);
    if (found == names_.end()) return fail(word.at, "there is no " + shown(word) + " here: " + known());
    add(step::load, found - names_.begin());
  }

  void number(const token& word) {
    const auto value = parse_number<std::int64_t>(word.text);
    if (!value) return fail(word.at, shown(word) + " is not a whole number below 2^63");
    add(step::push, *value);
  }

  void call(step::operation what, int operands) {
    expect_symbol("(");
    for (int i = 0; i < operands && !error_; ++i) {
      if (i > 0) expect_symbol(",");
      sum(0);
    }
    expect_symbol(")");
    add(what);
  }

  std::string known() const {
    std::string all = "use";
    for (const std::string& name : names_)
      if (!name.empty()) all += (&name == &names_.front() ? " " : ", ") + name;
    return all;
  }

  scanner& from_;
  const std::string_view text_;
  const variable_names& names_;
  const std::size_t at_;
  int level_ = 0;
  std::vector<step> steps_{};
  std::optional<failure> error_{};
};

namespace {

std::int64_t floor_mod(std::int64_t x, std::int64_t y) {
  if (y == -1) return 0;  // the division of the smallest value by -1 would overflow
  const std::int64_t rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

bool power_of(std::int64_t base, std::int64_t exponent, std::int64_t* out) {
  if (exponent < 0) return false;
  *out = 1;
  if (base == 0 || base == 1 || base == -1) {
    *out = exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base;
    return true;
  }
  for (; exponent > 0; --exponent)  // at most 63 times before an overflow
    if (__builtin_mul_overflow(*out, base, out)) return false;
  return true;
}

}  // namespace

/// Applies an operator. Returns false if the result is undefined or does not fit into 64 bits.
bool expression::apply(step::operation what, std::int64_t x, std::int64_t y, std::int64_t* out) {
  switch (what) {
    case step::push:
    case step::load: break;
    case step::negate: return !__builtin_sub_overflow(std::int64_t{0}, y, out);
    case step::invert: *out = y == 0; return true;
    case step::log2:
      if (y < 1) return false;
      *out = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(y))) - 1;
      return true;
    case step::power: return power_of(x, y, out);
    case step::times: return !__builtin_mul_overflow(x, y, out);
    case step::divide:
      if (y == 0 || (y == -1 && x == std::numeric_limits<std::int64_t>::min())) return false;
      *out = x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
      return true;
    case step::modulo:
      if (y == 0) return false;
      *out = floor_mod(x, y);
      return true;
    case step::exclusive: *out = x ^ y; return true;
    case step::plus: return !__builtin_add_overflow(x, y, out);
    case step::minus: return !__builtin_sub_overflow(x, y, out);
    case step::equal: *out = x == y; return true;
    case step::unequal: *out = x != y; return true;
    case step::less: *out = x < y; return true;
    case step::at_most: *out = x <= y; return true;
    case step::more: *out = x > y; return true;
    case step::at_least: *out = x >= y; return true;
    case step::both: *out = x != 0 && y != 0; return true;
    case step::either: *out = x != 0 || y != 0; return true;
    case step::least: *out = std::min(x, y); return true;
    case step::most: *out = std::max(x, y); return true;
  }
  return false;
}

result<expression> expression::read(scanner& from, std::string_view text, const variable_names& names) {
  return expression_reader(from, text, names).read();
}

result<std::int64_t> expression::value(std::span<const std::int64_t> variables) const {
  std::vector<std::int64_t> stack;
  for (const auto& [what, operand] : steps_) {
    if (what == step::push || what == step::load) {
      stack.push_back(what == step::push ? operand : variables[static_cast<std::size_t>(operand)]);
      continue;
    }
    const std::int64_t y = stack.back();
    const bool takes_one = what == step::negate || what == step::invert || what == step::log2;
    if (!takes_one) stack.pop_back();
    if (!apply(what, stack.back(), y, &stack.back()))
      return failure{status::argument,
                     "the expression divides by 0, takes the logarithm of a number below 1, or exceeds 64 bits: "
                     "correct the expression"};
  }
  return stack.back();
}

}  // namespace lsched
