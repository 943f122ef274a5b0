// A term describes the content of an element exactly. The term has the number of contributions from each input, and the
// expression that combined the contributions.
//
// Each term has an id. Equal terms have equal ids, so that states of a world can be compared. The size of a term is
// proportional to the number of ranks, so the table is for small worlds. verify() has a faster representation. Tests
// compare this representation with the terms.
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
inline constexpr term_id k_no_term = 0;  ///< the element was never written

class term_table {
 public:
  explicit term_table(rank size) : size_(static_cast<std::size_t>(size)), terms_(1) {}

  /// Returns the term of element `index` of an input of a rank.
  term_id leaf(rank contributor, std::uint32_t input, std::uint64_t index);
  term_id join(kernel how, dtype type, term_id lower, term_id higher);

  term_id quotient(term_id sum, std::uint64_t divisor);

  /// Returns the term for the result of a function of `from`. No postcondition accepts this term.
  term_id made_of(kernel how, term_id from);

  /// Returns the term of the length of a list. No postcondition accepts a length.
  term_id length_of(term_id list);

  /// Returns the term for the result with index `number` of the kernel dot_norms, which sums up the given products.
  /// join(kernel::sum, …) adds such terms.
  term_id sum_of(const products& all, std::uint64_t number);
  /// Returns the products of the elements of two vectors.
  products products_of(term_id lower, term_id higher) const;
  /// Returns the term for the adaptive sum of two elements, with coefficients from the three given sums. If the sums
  /// are not results of dot_norms, no postcondition accepts the term.
  term_id adasum(term_id lower, term_id higher, const std::array<term_id, k_dot_sums>& sums);

  /// Compares `found` with the required content of element `index` of a range. Does not check that other ranks have the
  /// same content. Returns a description of the wrong content, or an empty string.
  std::string validate(const promised_range& wanted, std::uint64_t index, term_id found) const;
  std::uint64_t tree(term_id which) const { return terms_[which].tree; }

 private:
  struct term {
    std::vector<std::uint64_t> copies{};  ///< number of contributions of each rank; saturates at the largest integer
    std::uint32_t input = 0;
    std::uint64_t index = 0;
    std::uint64_t tree = 0;
    rank lowest = 0, highest = 0;  ///< lowest and highest rank that contributes
    kernel how = kernel::none;     ///< kernel that made this term; none for an element of an input
    bool is_uniform = true;        ///< whether all parts of the expression have the same kernel, input and index
    bool is_in_rank_order = true;  ///< whether every step of the expression has the operand of the lower ranks first
    bool is_sum = false;           ///< whether the term is result number `index` of dot_norms for the products `of`
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
