// Why what a range holds is not what was promised, in words: which contribution is missing, or there twice, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsched/postcondition/postcondition.h"
#include "libsched/verify/node_table.h"

namespace lsched::symbolic {

class explanation {
 public:
  explanation(const assembly& all, const node_table& nodes) : all_(all), nodes_(nodes) {}

  /// Why a range may not hold what is least of a contribution in it; or an empty string.
  std::string words_for_least(const promised_range& wanted, const node& found) const;

  /// Of contributions that are not the promised ones.
  std::string words_for(const promised_range& wanted, const segment& found) const;

 private:
  std::vector<bool> holders_of(rank contributor, std::uint32_t input) const;
  std::vector<std::uint64_t> copies_in(node_id top, std::uint32_t input) const;
  std::string words_for_two_ways(node_id top, rank contributor, std::uint32_t input) const;
  std::string words_for_way(node_id top, const std::vector<bool>& holds, bool from_higher) const;
  std::string words_for_loss(rank contributor, std::uint32_t input) const;

  const assembly& all_;
  const node_table& nodes_;
};

}  // namespace lsched::symbolic
