// What an element may hold, in exact terms: which inputs went in how often, and the expression that combined them.
//
// Terms are numbered; equal terms have equal numbers, so that states of a world can be compared. Exact and therefore
// for small worlds: a term takes memory in proportion to the ranks. Verify's contents are the fast ones; this is what
// they are held against.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libsched/postcondition/fingerprint.h"
#include "libsched/postcondition/postcondition.h"

namespace lsched {

using term_id = std::uint32_t;
inline constexpr term_id k_no_term = 0;  ///< nothing was ever written there

class term_table {
 public:
  explicit term_table(rank size) : size_(static_cast<std::size_t>(size)), terms_(1) {}

  /// Element `index` of an input of a rank.
  term_id leaf(rank contributor, std::uint32_t input, std::uint64_t index);
  term_id join(kernel how, dtype type, term_id lower, term_id higher);

  term_id quotient(term_id sum, std::uint64_t divisor);

  /// What a function may make of a term: anything, so that it is nobody's promise.
  term_id made_of(kernel how, term_id from);

  /// How long a list is, of which a term says what is in it. A length is nobody's promise.
  term_id length_of(term_id list);

  /// Sum `number` of dot_norms, of these products. Such sums add up by join(kernel::sum, …).
  term_id sum_of(const products& all, std::uint64_t number);
  /// Which products the elements of two vectors give.
  products products_of(term_id lower, term_id higher) const;
  /// The adaptive sum of two elements by the three sums; they are not such sums: nobody's promise.
  term_id adasum(term_id lower, term_id higher, const std::array<term_id, k_dot_sums>& sums);

  /// What is wrong with element `index` of a promised range, or an empty string. Does not look at other holders.
  std::string validate(const promised_range& wanted, std::uint64_t index, term_id found) const;
  std::uint64_t tree(term_id which) const { return terms_[which].tree; }

 private:
  struct term {
    std::vector<std::uint64_t> copies{};  ///< by rank; the largest number: that many, or more
    std::uint32_t input = 0;
    std::uint64_t index = 0;
    std::uint64_t tree = 0;
    rank lowest = 0, highest = 0;  ///< of the contributors
    kernel how = kernel::none;     ///< none: a leaf
    bool is_uniform = true;        ///< of one kernel, input and index throughout
    bool is_in_rank_order = true;  ///< operands of lower ranks came first throughout
    bool is_sum = false;           ///< of products: which `of`; its number is the index
    products of{};
  };
  using key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

  term joined(kernel how, dtype type, term_id lower, term_id higher) const;
  term_id adasum(term_id lower, term_id higher, const products& of, bool is_sound);

  std::size_t size_;
  std::vector<term> terms_;
  std::map<key, term_id> leaves_, joins_;
  std::map<std::pair<products, std::uint64_t>, term_id> sums_;
  std::map<std::pair<key, products>, term_id> adaptive_;
};

}  // namespace lsched
