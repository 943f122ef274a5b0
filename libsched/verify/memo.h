// A memo is a table of the results of earlier proofs. The key of a result is a hash of the proof's inputs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "libsched/postcondition/fingerprint.h"

namespace lsched {

/// The hash of a sequence of words. The hash consists of the number of words, and of the values of two polynomials at
/// random points of this process (fingerprint.h). Two different sequences of n words have the same hash with a
/// probability of at most (6n / 2^61)^2.
class word_hash {
 public:
  /// Adds a word below 2^61-1.
  void add(std::uint64_t word) {
    for (std::size_t i = 0; i < all_.weights.size(); ++i)
      all_.weights[i] = modular_sum(modular_product(all_.weights[i], points_[i]), word);
    ++all_.size;
  }
  /// Adds a word of any value.
  void add_wide(std::uint64_t word) {
    add(word >> 32);
    add(word & UINT32_MAX);
  }
  const fingerprint& value() const { return all_; }

 private:
  fingerprint all_{};
  const std::array<std::uint64_t, 2> points_ = the_weights().element_steps;
};

/// A map from hashes of inputs to results. Thread-safe.
template <class Answer>
class memo {
 public:
  /// Returns nullptr if the result is unknown.
  std::shared_ptr<const Answer> find(const fingerprint& question) const {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(question);
    return known == known_.end() ? nullptr : known->second;
  }
  void keep(const fingerprint& question, std::shared_ptr<const Answer> answer) {
    const std::lock_guard lock(mutex_);
    known_.emplace(question, std::move(answer));
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return known_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::map<fingerprint, std::shared_ptr<const Answer>> known_;
};

}  // namespace lsched
