// SparseLoCo: every rank sends the largest elements of every chunk of its vector, with 2 bits for each value. (Sarfi
// and others, Communication Efficient LLM Pre-training with SparseLoCo, arXiv 2508.15706, 2025.)
//
//   select      add the gradient to the residual, and encode the largest elements of each chunk
//   allgather   gather the messages of all ranks, which have one fixed size
//   settle      decode and sum all messages, in rank order; the update is the sum / P; subtract the sent values
//
// A chunk has 4096 elements, and the last chunk can be shorter. A rank sends k/n of the elements of each chunk, rounded
// to the nearest number, but at least one if k is positive. ops/sparse/chunk_message.h defines the message of a chunk.
// A rank's message has the messages of all chunks, one after the other.
//
// The residual keeps all elements that were not sent, and the difference between each sent element and its decoded
// value. This difference is exact. So values are rounded in three places only: in the sum of residual and gradient, in
// the sum over ranks, and in the quotient by P.
//
// Between select() and settle(), the residual includes the gradient, so a round that fails loses nothing.
#pragma once

#include <vector>

#include "collectives/sparse/steps/lists.h"
#include "collectives/sparse/steps/sparse_functions.h"
#include "ops/sparse/chunk_message.h"

namespace lsched {

/// The chunks of a vector, and the sizes of their messages.
class chunk_plan {
 public:
  explicit chunk_plan(const sparse_problem& problem)
      : count_(problem.count), k_(most_items(problem)), residual_(residual_of(problem.type)) {}

  std::uint64_t chunks() const { return count_ / k_chunk + (count_ % k_chunk != 0 ? 1 : 0); }
  std::uint64_t size(std::uint64_t chunk) const { return std::min(k_chunk, count_ - chunk * k_chunk); }
  /// Returns the number of elements that a rank sends of a chunk.
  std::uint64_t slots(std::uint64_t chunk) const { return slots_of(size(chunk)); }
  std::uint64_t most_slots() const { return slots_of(std::min(k_chunk, count_)); }
  std::uint64_t message_begin(std::uint64_t chunk) const { return chunk * bytes_of(k_chunk); }

  /// Returns the number of elements that a rank sends in a round.
  std::uint64_t all_slots() const { return count_ / k_chunk * slots_of(k_chunk) + slots_of(count_ % k_chunk); }
  /// Returns the size of a rank's message in bytes. A message without elements has one byte.
  std::uint64_t message_bytes() const {
    return std::max<std::uint64_t>(1, count_ / k_chunk * bytes_of(k_chunk) + bytes_of(count_ % k_chunk));
  }

 private:
  std::uint64_t slots_of(std::uint64_t elements) const {
    if (elements == 0 || k_ == 0) return 0;
    return std::max<std::uint64_t>(1, (elements * k_ + count_ / 2) / count_);
  }
  std::uint64_t bytes_of(std::uint64_t elements) const { return chunk_message_bytes(residual_, slots_of(elements)); }

  std::uint64_t count_, k_;
  dtype residual_;
};

/// The computations of one rank in SparseLoCo. The constructor allocates. Used by one thread at a time.
class sparseloco : public round_end {
 public:
  explicit sparseloco(const sparse_problem& problem)
      : round_end(problem, most_in_union(problem, chunk_plan(problem).all_slots())),
        problem_(problem),
        plan_(problem),
        kernels_(chunk_kernels_of(residual_of(problem.type))),
        hints_(plan_.chunks()),
        places_(plan_.most_slots()),
        room_(std::min(4 * plan_.most_slots(), k_chunk)),
        selected_(room_ * item_size(problem.type)),
        decoded_(plan_.most_slots() * item_size(residual_of(problem.type))),
        sum_(problem.type, std::min(problem.count, k_chunk), nan_policy::propagate),
        result_(most_in_union(problem, plan_.all_slots()) * item_size(problem.type)) {}

  /// Returns the size in bytes of every message.
  std::uint64_t message_bytes() const { return plan_.message_bytes(); }

  /// Writes the message that this rank sends. `residual` has `count` elements of residual_of(type). `gradient` has
  /// `count` elements, or is nullptr.
  void select(std::byte* residual, const std::byte* gradient, std::byte* message) {
    if (plan_.all_slots() == 0) message[0] = std::byte{0};
    for (std::uint64_t chunk = 0; chunk < plan_.chunks(); ++chunk) {
      const accumulation from{element(residual, residual_type(), chunk), element(gradient, type_, chunk),
                              problem_.scale, plan_.size(chunk)};
      const std::uint64_t slots = plan_.slots(chunk);
      const std::uint64_t found =
          sparse_kernels_of(type_)
              .top_k(from, slots, problem_.nans, selected_.data(), std::min(room_, from.count), hints_[chunk])
              .count;
      for (std::uint64_t i = 0; i < found; ++i)
        places_[i] = static_cast<std::uint16_t>(index_at(type_, selected_.data(), i));
      if (slots != 0)
        kernels_.encode(from.residual, places_.data(), found, slots, message + plan_.message_begin(chunk));
    }
  }

  /// Ends a round. `messages` has the messages of all ranks, in rank order. `update` must have `count` elements, or be
  /// nullptr (round_end).
  void settle(const std::byte* messages, std::byte* residual, std::byte* update) {
    if (!write_update(sum_of(messages), residual, update)) return;
    const std::byte* const own = messages + static_cast<std::uint64_t>(problem_.place.self) * message_bytes();
    for (std::uint64_t chunk = 0; chunk < plan_.chunks(); ++chunk) {
      const item_list sent = decoded(own, chunk);
      kernels_.subtract(sent.items, sent.count, element(residual, residual_type(), chunk));
    }
  }

  /// Returns the sum of the messages of all ranks. Valid until the next call.
  item_list sum_of(const std::byte* messages) {
    std::uint64_t items = 0;
    for (std::uint64_t chunk = 0; chunk < plan_.chunks(); ++chunk) {
      for (std::uint64_t r = 0; r < problem_.ranks(); ++r)
        sum_.add_wide(decoded(messages + r * message_bytes(), chunk));
      std::byte* const next = result_.data() + items * item_size(type_);
      const std::uint64_t found = sum_.take(0, plan_.size(chunk), next);
      shift_indices(type_, next, found, static_cast<std::uint32_t>(chunk * k_chunk));
      items += found;
    }
    return {result_.data(), items};
  }

  /// Returns the elements of a chunk in a rank's message, as a list whose values have the residual's type. Indices are
  /// relative to the chunk. Valid until the next call.
  item_list decoded(const std::byte* message, std::uint64_t chunk) {
    const std::uint64_t slots = plan_.slots(chunk);
    if (slots == 0) return {};
    return {decoded_.data(),
            kernels_.decode(message + plan_.message_begin(chunk), slots, plan_.size(chunk), decoded_.data())};
  }

 private:
  dtype residual_type() const { return residual_of(type_); }
  /// Returns the first element of a chunk of a vector, or nullptr if there is no vector.
  template <class Byte>
  static Byte* element(Byte* vector, dtype type, std::uint64_t chunk) {
    return vector == nullptr ? nullptr : vector + chunk * k_chunk * size_of(type);
  }

  sparse_problem problem_;
  chunk_plan plan_;
  const chunk_kernels& kernels_;
  std::vector<top_k_hint> hints_;      ///< a hint for each chunk
  std::vector<std::uint16_t> places_;  ///< indices of the elements that are sent of a chunk
  std::uint64_t room_;
  std::vector<std::byte> selected_;  ///< workspace for the selection in a chunk
  std::vector<std::byte> decoded_;   ///< elements of a chunk of one message
  region_sum sum_;                   ///< sum of a chunk
  std::vector<std::byte> result_;
};

/// The functions that SparseLoCo's schedule calls, in the order of a round.
enum class sparseloco_step : std::uint32_t {
  select,  ///< writes the message of this rank
  settle   ///< converts the messages of all ranks to the update
};

class sparseloco_functions final : public functions_of_steps<sparseloco> {
 public:
  sparseloco_functions(const sparse_problem& problem, sparse_state& state)
      : functions_of_steps<sparseloco>(problem, state) {}

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input&,
              const function_output& target) override {
    if (static_cast<sparseloco_step>(number) == sparseloco_step::select) {
      steps_.select(residual(), source.data, target.data);
      return status::ok;
    }
    steps_.settle(source.data, residual(), target.data);
    return finish(round);
  }
};

}  // namespace lsched
