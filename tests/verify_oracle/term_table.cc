#include "tests/verify_oracle/term_table.h"

#include <algorithm>
#include <utility>

namespace lsched {

term_id term_table::leaf(rank contributor, std::uint32_t input, std::uint64_t index) {
  const auto [place, is_new] = leaves_.try_emplace({contributor, input, index}, static_cast<term_id>(terms_.size()));
  if (!is_new) return place->second;
  term it{.input = input, .index = index, .tree = leaf_tree(contributor, input)};
  it.lowest = it.highest = contributor;
  it.copies.assign(size_, 0);
  it.copies[static_cast<std::size_t>(contributor)] = 1;
  terms_.push_back(std::move(it));
  return place->second;
}

term_id term_table::sum_of(const products& all, std::uint64_t number) {
  const auto [place, is_new] = sums_.try_emplace({all, number}, static_cast<term_id>(terms_.size()));
  if (!is_new) return place->second;
  term it{.index = number, .tree = all.weights[0], .is_uniform = false, .is_sum = true, .of = all};
  it.copies.assign(size_, 0);
  terms_.push_back(std::move(it));
  return place->second;
}

products term_table::products_of(term_id lower, term_id higher) const {
  const term& x = terms_[lower];
  const term& y = terms_[higher];
  return lsched::products_of(x.tree, y.tree + (y.index - x.index), x.index, x.index + 1);
}

term_id term_table::adasum(term_id lower, term_id higher, const std::array<term_id, k_dot_sums>& sums) {
  const products of = terms_[sums[0]].of;
  bool is_sound = true;
  for (std::uint64_t i = 0; i < k_dot_sums; ++i) {
    const term& it = terms_[sums[i]];
    is_sound = is_sound && it.is_sum && it.index == i && it.of == of;
  }
  return adasum(lower, higher, of, is_sound);
}

term_id term_table::adasum(term_id lower, term_id higher, const products& of, bool is_sound) {
  const key operands{static_cast<std::uint64_t>(kernel::adasum), lower, higher};
  const auto [place, is_new] =
      adaptive_.try_emplace({operands, is_sound ? of : products{}}, static_cast<term_id>(terms_.size()));
  if (!is_new) return place->second;
  terms_.push_back(joined(kernel::adasum, dtype::f32, lower, higher));
  terms_.back().tree = adaptive_tree(terms_[lower].tree, terms_[higher].tree, of);
  terms_.back().is_uniform = terms_.back().is_uniform && is_sound;
  return place->second;
}

term_id term_table::quotient(term_id sum, std::uint64_t divisor) {
  const auto [place, is_new] = joins_.try_emplace({static_cast<std::uint64_t>(kernel::divide), sum, divisor},
                                                  static_cast<term_id>(terms_.size()));
  if (!is_new) return place->second;
  term it = terms_[sum];
  it.tree = divided_tree(it.tree, divisor);
  it.is_uniform = it.is_uniform && (it.how == kernel::none || it.how == kernel::sum);
  it.how = kernel::divide;
  it.is_sum = false;
  terms_.push_back(std::move(it));
  return place->second;
}

term_id term_table::length_of(term_id list) { return made_of(kernel::measure, list); }

term_id term_table::made_of(kernel how, term_id from) {
  const auto [place, is_new] =
      joins_.try_emplace({static_cast<std::uint64_t>(how), from, k_no_term}, static_cast<term_id>(terms_.size()));
  if (!is_new) return place->second;
  term it{.index = terms_[from].index, .tree = joined_tree(how, terms_[from].tree, 0), .is_uniform = false};
  it.copies.assign(size_, 0);
  terms_.push_back(std::move(it));
  return place->second;
}

term_id term_table::join(kernel how, dtype type, term_id lower, term_id higher) {
  if (how == kernel::sum && terms_[lower].is_sum && terms_[higher].is_sum &&
      terms_[lower].index == terms_[higher].index)
    return sum_of(lsched::joined(terms_[lower].of, terms_[higher].of), terms_[lower].index);
  const auto [place, is_new] =
      joins_.try_emplace({static_cast<std::uint64_t>(how) << 8 | static_cast<std::uint64_t>(type), lower, higher},
                         static_cast<term_id>(terms_.size()));
  if (!is_new) return place->second;
  terms_.push_back(joined(how, type, lower, higher));
  return place->second;
}

term_table::term term_table::joined(kernel how, dtype type, term_id lower, term_id higher) const {
  const term& x = terms_[lower];
  const term& y = terms_[higher];
  const auto fits = [&](const term& part) {
    const bool is_mean = how == kernel::adasum && part.how == kernel::divide;
    return part.is_uniform && (part.how == kernel::none || part.how == how || is_mean) && part.input == x.input &&
           part.index == x.index;
  };
  term both{.input = x.input,
            .index = x.index,
            .tree = reduced_tree(how, type, x.tree, y.tree),
            .lowest = std::min(x.lowest, y.lowest),
            .highest = std::max(x.highest, y.highest),
            .how = how,
            .is_uniform = fits(x) && fits(y),
            .is_in_rank_order = x.is_in_rank_order && y.is_in_rank_order && x.highest < y.lowest};
  for (std::size_t r = 0; r < size_; ++r) both.copies.push_back(saturating_sum(x.copies[r], y.copies[r]));
  const bool are_alike = (x.how == kernel::none || x.how == how) && (y.how == kernel::none || y.how == how);
  if (!is_flat(how, type) || !both.is_uniform || !are_alike) return both;
  fingerprint leaves;
  for (std::size_t r = 0; r < size_; ++r) {
    if (row_of(how).obeys(law::idempotent, type)) both.copies[r] = std::min<std::uint64_t>(both.copies[r], 1);
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(both.copies[r], 64); ++i)
      leaves = lsched::joined(leaves, leaf_fingerprint(static_cast<rank>(r), both.input));
  }
  both.tree = reduced_tree(how, leaves);
  return both;
}

std::string term_table::validate(const promised_range& wanted, std::uint64_t index, term_id found) const {
  if (wanted.what == promised_content::nothing) return {};
  if (found == k_no_term) return "nothing";
  const term& it = terms_[found];
  if (!it.is_uniform) return "a mixture of kernels, inputs or elements";
  if (it.input != wanted.input || it.index != wanted.input_begin + index - wanted.begin) return "another element";
  const bool is_moved = wanted.what == promised_content::moved;
  if (is_moved && it.how != kernel::none) return "a combination of inputs";
  for (std::size_t r = 0; r < size_; ++r) {
    const auto who = static_cast<rank>(r);
    const bool belongs =
        is_moved ? who == wanted.source : wanted.among.empty() || std::ranges::binary_search(wanted.among, who);
    if (it.copies[r] != (belongs ? 1 : 0))
      return "rank " + std::to_string(r) + "'s contribution " + std::to_string(it.copies[r]) + " times";
  }
  if (is_moved) return {};
  const bool is_mean = wanted.has_means && it.how == kernel::divide;
  if (it.how != kernel::none && it.how != wanted.how && !is_mean) return "another kernel's result";
  if (wanted.is_in_rank_order && !it.is_in_rank_order) return "operands that are not in rank order";
  if (wanted.tree != 0 && it.tree != wanted.tree) return "another expression than the promised one";
  return {};
}

}  // namespace lsched
