// TopkA: every rank gets every rank's k largest, and adds them up by itself. (Renggli and others, SparCML, SC 2019:
// sparse allgather.)
//
//   select      residual += gradient; the k largest
//   allgather   of all lists, in rank order              a rank receives the items of all others: up to k (P - 1)
//   add         their sum, in rank order: up to k P items
//   settle      the residual gives away what was sent; the update is the sum / P
#pragma once

#include "collectives/sparse/steps/gathered_lists.h"
#include "collectives/sparse/steps/own_top_k.h"

namespace lsched {

/// What one rank computes. Allocates when made; one thread at a time. Between select and settle the residual holds all
/// of residual + gradient: a round that is given up loses nothing.
class topka {
 public:
  explicit topka(const sparse_problem& problem);

  std::uint64_t list_room() const { return room_; }          ///< items that a rank sends at most
  std::uint64_t result_room() const { return all_.room(); }  ///< items that a result has at most

  /// Writes what this rank sends to `items`, and answers its length. residual: count elements of residual_of(type);
  /// gradient: count elements, or nullptr.
  std::uint64_t select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items);

  /// `lists`: one for each rank, in rank order. Answers the length of the result.
  std::uint64_t add(std::span<const item_list> lists, std::byte* result) { return all_.add(lists, result); }

  /// `sent`: what select wrote; `result`: what add wrote; update: count elements, or nullptr.
  void settle(item_list sent, item_list result, std::byte* residual, std::byte* update) {
    all_.settle(sent, result, residual, update);
  }
  void forget_update() { all_.forget_update(); }
  std::optional<std::uint32_t> non_finite_element() const { return all_.non_finite_element(); }

 private:
  dtype type_;
  std::uint64_t room_;
  own_top_k own_;
  gathered_lists all_;
};

}  // namespace lsched
