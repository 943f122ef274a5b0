// Partition-parallel training: the optimizer's work and state are divided among the ranks of a node, layer by layer,
// and its steps are combined between nodes by Adasum (Maleki and others, "Scaling Distributed Training with Adaptive
// Summation", MLSys 2021, section 4; preprint arXiv:2006.02924, section 4.3).
//
//     lsched::world world;
//     lsched::partition_step<float> training(world, weights, layers);    // all ranks begin with rank 0's weights
//     for (...) {
//       backward(my_batch, weights, training.gradient());                  // of all layers
//       training.step([&](std::size_t layer, std::span<const float> gradient, std::span<float> weights) {
//         optimizers[layer].step(weights, gradient);                       // called for own layers only
//       });
//     }
//
// Of every layer each node has one owner, the same place on all nodes. A step is, of each layer,
//
//     mean  = mean of the node's gradients         at its owner
//     update(layer, mean, weights)                 at its owner: any optimizer, on a whole layer
//     delta = adaptive sum over nodes of what that changed
//     weights = start + delta                      on all ranks, the same bits
//
// which is Adasum of nodes, by deltas (lsched_delta.hpp), with the optimizer applied to the mean of a node: one step
// and one state for each node, not for each rank, and each owner has a part of both. Layers overlap: all means are on
// their way at once, and while one layer's deltas are, the next is updated.
//
// With one node there is nothing to combine: the step is the optimizer's on the mean of all gradients. remark() says
// so.
//
// Header only, on top of lsched.hpp and lsched_delta.hpp, of which everything said there holds.
#ifndef LSCHED_PARTITION_HPP
#define LSCHED_PARTITION_HPP

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lsched_delta.hpp"

namespace lsched {
inline namespace cpp {

/// Who of a node owns which layer: the longest layer first, each to the place that has the fewest elements so far, the
/// first of those. The same answer for the same layers, everywhere. `places` >= 1.
inline std::vector<std::int32_t> owners_of(std::span<const lsched_tensor> layers, std::int32_t places) {
  std::vector<std::size_t> order(layers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return layers[x].count > layers[y].count; });
  std::vector<std::uint64_t> loads(static_cast<std::size_t>(places));
  std::vector<std::int32_t> owners(layers.size());
  for (const std::size_t layer : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += layers[layer].count;
    owners[layer] = static_cast<std::int32_t>(least - loads.begin());
  }
  return owners;
}

namespace detail {

/// The memory of the means is also where their gradients go out from, and that of the deltas where they come in.
struct layer_exchanges {
  exchange means;
  exchange deltas;
};

}  // namespace detail

/// Keeps the replicas of a model together where owners update its layers.
///
/// Memory: the weights stay the caller's and outlive this, and so does the world. Three more copies of the model are
/// owned here: the gradient, and in memory of the world that local ranks read in place, what of it is on its way, and
/// the deltas. The weights themselves are where a step began, until it ends.
/// Threads: one at a time. The constructor and step are collective, called by all ranks in the same order; they block
/// until the others have come, each exchange for at most `limit`, and the constructor as long as making two schedules
/// for each layer may take. All else is local, and never blocks.
/// Errors: std::invalid_argument for layers that overlap or leave the weights, and then lsched::error on the other
/// ranks, which names this rank; lsched::error as elsewhere. After a TIMEOUT the step is not over: only the destructor
/// may follow, and the weights are to be thrown away.
template <element T>
requires std::floating_point<T>
class partition_step {
 public:
  /// `layers` are ascending and the same on all ranks. Elements of no layer stay as they are.
  partition_step(world& world, std::span<T> weights, std::vector<lsched_tensor> layers,
                 timeout limit = timeout::forever())
      : weights_(weights), layers_(std::move(layers)), place_(world.node().place) {
    detail::expect_tensors(world, layers_, weights_.size());
    owners_ = owners_of(layers_, world.node().least_ranks);
    detail::broadcast_weights(world, weights_, limit);
    gradient_.resize(weights_.size());
    for (std::size_t i = 0; i < layers_.size(); ++i) steps_.push_back(make_layer(world, i));
  }

  /// This rank's gradient, to be written before each step, of all layers.
  std::span<T> gradient() { return gradient_; }

  /// One step of the optimizer: update(layer, mean of the gradients, weights), in the order of layers, of those that
  /// this rank owns. It changes weights as it likes, and may throw: then the step is not over, as after a timeout.
  template <class Update>
  requires std::is_invocable_v<Update&, std::size_t, std::span<const T>, std::span<T>>
  void step(Update&& update, timeout limit = timeout::forever()) {
    if (is_open_) throw std::logic_error("lsched: a step of this partition was given up");
    is_open_ = true;
    for (std::size_t i = 0; i < layers_.size(); ++i) send_gradient(i);
    for (std::size_t i = 0; i < layers_.size(); ++i)
      if (!owns(i)) steps_[i].deltas.start();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (!owns(i)) continue;
      update_layer(i, update, limit);
      steps_[i].deltas.start();
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (!owns(i)) steps_[i].means.wait(limit);
      steps_[i].deltas.wait(limit);
      const std::span<T> weights = part(weights_, i), delta = steps_[i].deltas.as<T>();
      for (std::size_t k = 0; k < weights.size(); ++k) weights[k] += delta[k];
    }
    is_open_ = false;
  }

  /// That there is one node, and hence nothing to combine; else empty.
  std::string remark() const { return steps_.empty() ? "" : steps_.front().deltas.remark(); }

  std::int32_t owner_of(std::size_t layer) const { return owners_[layer]; }
  bool owns(std::size_t layer) const { return owners_[layer] == place_; }

  /// Elements of the layers that this rank owns: of so many it has the optimizer's state. By all of the layers'
  /// elements: its share.
  std::uint64_t owned_elements() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < layers_.size(); ++i) sum += owns(i) ? layers_[i].count : 0;
    return sum;
  }
  double owned_share() const {
    std::uint64_t all = 0;
    for (const lsched_tensor& layer : layers_) all += layer.count;
    return all == 0 ? 0 : static_cast<double>(owned_elements()) / static_cast<double>(all);
  }

  /// The destructor, but it tells: BUSY while a step is under way.
  void close() {
    for (detail::layer_exchanges& layer : steps_) layer.means.close(), layer.deltas.close();
    steps_.clear();
  }

 private:
  std::span<T> part(std::span<T> vector, std::size_t layer) const {
    return vector.subspan(layers_[layer].begin, layers_[layer].count);
  }

  detail::layer_exchanges make_layer(world& world, std::size_t i) {
    const std::size_t count = layers_[i].count;
    detail::layer_exchanges made{{world, count * sizeof(T)}, {world, count * sizeof(T)}};
    made.means.bind(world.node_mean<T>(made.means.as<T>(), made.means.as<T>(), owners_[i]));
    made.deltas.bind(world.node_adasum<T>(made.deltas.as<T>(), made.deltas.as<T>(), owners_[i]));
    return made;
  }

  void send_gradient(std::size_t i) {
    const std::span<T> from = part(gradient_, i);
    std::copy(from.begin(), from.end(), steps_[i].means.as<T>().begin());
    steps_[i].means.start();
  }

  /// The optimizer works on a copy: where it started is needed to tell what it did.
  template <class Update>
  void update_layer(std::size_t i, Update& update, timeout limit) {
    detail::layer_exchanges& exchanges = steps_[i];
    exchanges.means.wait(limit);
    const std::span<T> start = part(weights_, i), delta = exchanges.deltas.as<T>();
    std::copy(start.begin(), start.end(), delta.begin());
    update(i, std::span<const T>(exchanges.means.as<T>()), delta);
    for (std::size_t k = 0; k < delta.size(); ++k) delta[k] -= start[k];
  }

  std::span<T> weights_{};
  std::vector<lsched_tensor> layers_{};
  std::int32_t place_ = 0;
  std::vector<std::int32_t> owners_{};  ///< by layer: a place on every node
  std::vector<T> gradient_{};
  std::vector<detail::layer_exchanges> steps_{};
  bool is_open_ = false;
};

}  // namespace cpp
}  // namespace lsched

#endif
