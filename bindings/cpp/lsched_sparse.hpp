// Training by the elements of the gradient that matter most: plain SGD whose steps are sparse allreduces, with a
// residual on each rank (Li and Hoefler, "Near-Optimal Sparse Allreduce for Distributed Deep Learning", PPoPP 2022,
// Algorithm 2).
//
//     lsched::world world;
//     lsched::sparse_sgd<float> training(world, weights, lsched::items_of(0.01, weights.size()));
//     for (...) training.step(gradient_of(my_batch, weights), rate);       // and the weights are equal again
//
// A step is
//
//     residual = residual + rate * gradient        on each rank
//     update = sparse allreduce of the residuals   k elements of all ranks' sum / P, zero elsewhere
//     residual = residual - what of this rank's is in the update
//     weights = weights - update                   so that replicas stay equal, bit for bit
//
// or, as the code that was published with it has it (rate_place::outside):
//
//     residual = residual + gradient
//     ...
//     weights = weights - rate * update
//
// The two are the same as long as the rate is. If it changes, what has waited in a residual comes inside with the rate
// of when it was new, outside with the present one.
//
// Weight decay belongs into the gradient, before the step: gradient[i] += decay * weights[i]. Added to the weights
// afterwards it would act on all of them in each step, but the gradient on k.
//
// Momentum is the caller's, of what has arrived, after the step (heavy ball, as published):
//
//     training.step(gradient, rate);
//     for (std::size_t i = 0; i < weights.size(); ++i) {
//       velocity[i] *= momentum;
//       weights[i] -= velocity[i];                 // outside: rate * velocity[i]
//       velocity[i] += training.update()[i];
//     }
//
// by which replicas stay equal too, since all ranks see the same update. Other optimizers (Adam) take the update of a
// lsched::world::sparse for their gradient.
//
// Header only, on top of lsched.hpp, of which everything said there holds.
#ifndef LSCHED_SPARSE_HPP
#define LSCHED_SPARSE_HPP

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "lsched_exchange.hpp"

namespace lsched {
inline namespace cpp {

/// What part of `count` elements a density from 0 to 1 is: to the nearest, but one at least, unless either is 0.
inline std::uint64_t items_of(double density, std::uint64_t count) {
  if (!(density >= 0 && density <= 1)) throw std::invalid_argument("lsched: a density is from 0 to 1");
  const double items = std::round(density * static_cast<double>(count));
  return density == 0 || count == 0 ? 0 : std::max<std::uint64_t>(static_cast<std::uint64_t>(items), 1);
}

/// Whether gradients enter the residual times the learning rate, or weights change by the update times it.
enum class rate_place { inside, outside };

/// The same on all ranks, but for the allreduce's `scale` and `image`.
struct sparse_sgd_options {
  /// Its `image` is what sparse_sgd::save gave, with the rate in the same place. Its `scale` multiplies gradients
  /// besides the rate. With `nans` = LSCHED_NAN_ERROR a step whose update is not finite throws non_finite_update; else
  /// what is not finite is subtracted from the weights as anything else is.
  sparse_options allreduce{};
  rate_place rate = rate_place::inside;
  bool broadcasts_weights = true;  ///< begin with rank 0's; otherwise they are equal already, which nobody checks
};

/// A step has come to something that is not finite, and no weight has changed. On all ranks alike. update() is zero;
/// the residuals have lost what is not finite, and nothing else (lsched_sparse_create says it exactly), so that the
/// next step makes up for this one.
class non_finite_update : public error {
 public:
  explicit non_finite_update(const error& why) : error(why) {}
};

/// Steps the replicas of a model together, by k elements of the gradient at a time.
///
/// Memory: the weights stay the caller's and outlive this, and so does the world. Three more copies of the model are
/// owned here: the gradient and the update, in memory of the world, and the residual. No step allocates any.
/// Threads: one at a time. The constructor and step are collective, called by all ranks in the same order; they block
/// until the others have come, for at most `limit`, and the constructor as long as making schedules may take
/// (lsched_config.commit_timeout_ns). All else is local, and never blocks.
/// Errors: std::invalid_argument for a gradient of another size and a rate that is not finite, before anything is
/// sent; non_finite_update, if the allreduce's `nans` ask for it; lsched::error as elsewhere, and with MISMATCH, on all
/// ranks, if they want different k or different allreduces.
template <element T>
requires std::floating_point<T>
class sparse_sgd {
 public:
  /// At most k elements of each rank's residual travel in a step; more than there are is all of them.
  sparse_sgd(world& world, std::span<T> weights, std::uint64_t k, const sparse_sgd_options& options = {},
             timeout limit = timeout::forever())
      : weights_(weights), place_(options.rate) {
    if (options.broadcasts_weights) detail::broadcast_weights(world, weights_, limit);
    exchange_ = detail::exchange_by<sparse_allreduce<T>>(world, 2 * weights_.size_bytes());
    exchange_.bind(world.sparse<T>(gradient(), written_update(), k, options.allreduce));
  }

  /// One step. Rates may change from one to the next; inside each rank may have its own, outside all have the same.
  /// After a TIMEOUT the step is still under way: call again, which waits on, and looks at neither the gradient nor
  /// the rate, as they have been taken.
  void step(std::span<const T> gradient, double rate, timeout limit = timeout::forever()) {
    if (!is_under_way_) begin(gradient, static_cast<T>(rate));
    wait(limit);
    is_under_way_ = false;
    descend();
  }

  /// By what the weights have changed in the last step (outside: before it was multiplied by the rate), the same bits
  /// on all ranks. Zeros before the first.
  std::span<const T> update() const { return written_update(); }

  /// Between steps: what this rank keeps for later. It may be written.
  std::span<T> residual() const { return exchange_.bound().residual(); }

  /// What this rank has sent and received in all steps so far.
  lsched_sparse_stats stats() const { return exchange_.bound().stats(); }

  /// Its name says which algorithm was chosen.
  std::string print() const { return exchange_.bound().print(); }

  /// Between steps: what a checkpoint needs of this rank besides the weights, which are the caller's to save. The
  /// constructor goes on from it.
  std::vector<std::byte> save() const { return exchange_.bound().save(); }

  /// The destructor, but it tells: BUSY while a step is under way.
  void close() { exchange_.close(); }

 private:
  std::span<T> gradient() const { return exchange_.template as<T>().first(weights_.size()); }
  std::span<T> written_update() const { return exchange_.template as<T>().last(weights_.size()); }

  void begin(std::span<const T> gradient, T rate) {
    if (gradient.size() != weights_.size())
      throw std::invalid_argument("lsched: the gradient's size is not that of the weights");
    if (!std::isfinite(rate)) throw std::invalid_argument("lsched: the rate is not finite");
    const T factor = place_ == rate_place::inside ? rate : T{1};
    rate_of_update_ = place_ == rate_place::inside ? T{1} : rate;
    const std::span<T> scaled = this->gradient();
    for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = factor * gradient[i];
    exchange_.start();
    is_under_way_ = true;
  }

  void wait(timeout limit) {
    try {
      exchange_.wait(limit);
    } catch (const error& why) {
      if (why.status() != LSCHED_ERR_NOT_FINITE) throw;
      is_under_way_ = false;
      throw non_finite_update(why);
    }
  }

  void descend() const {
    const std::span<const T> update = this->update();
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] -= rate_of_update_ * update[i];
  }

  std::span<T> weights_{};
  rate_place place_ = rate_place::inside;
  bool is_under_way_ = false;
  T rate_of_update_ = 1;
  detail::exchange_by<sparse_allreduce<T>> exchange_{};  ///< the gradient, then the update
};

}  // namespace cpp
}  // namespace lsched

#endif
