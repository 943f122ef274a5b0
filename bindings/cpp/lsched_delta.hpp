// Training by deltas: each rank runs whatever optimizer it likes on its own copy of the weights, and what has changed
// in them is combined over all ranks, by Adasum unless asked otherwise (Maleki and others, "Scaling Distributed
// Training with Adaptive Summation", MLSys 2021, arXiv:2006.02924, Figure 3).
//
//     lsched::world world;
//     lsched::delta_step<float> deltas(world, weights);         // all ranks begin with rank 0's weights
//     for (...) {
//       optimizer.step(weights, gradient_of(my_batch, weights));   // plain SGD, momentum, Adam, decay: local
//       deltas.step();                                             // and the weights are equal again
//     }
//
// A step is
//
//     delta = weights - start                    on each rank
//     delta = adaptive sum of all ranks' delta   tensor by tensor
//     weights = start = start + delta            so that replicas stay equal, bit for bit
//
// The difference and the sum each round once, so that also a world of one rank may change a weight's last bit.
//
// What is not combined: the optimizer's own state (momenta, second moments), which is each rank's, and differs; and
// elements of no tensor, which each step puts back to where they started. Weight decay is in the delta, the same on
// all ranks: a parallel part, of which Adasum takes the mean.
//
// A weight that is not finite makes its whole tensor NaN, on all ranks and for good; no other tensor changes. (By the
// sum and the mean, that element only. A world of one has nothing to combine, and leaves the tensor's others alone.)
//
// Header only, on top of lsched.hpp, of which everything said there holds.
#ifndef LSCHED_DELTA_HPP
#define LSCHED_DELTA_HPP

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lsched.hpp"
#include "lsched_exchange.hpp"

namespace lsched {
inline namespace cpp {

/// What becomes of several vectors.
enum class combine { adasum, sum, mean };

// --- the scale of what travels in few bits -------------------------------------------------------------------

/// By which power of two deltas are multiplied, that they be neither too small nor too large for f16 or bf16: twice as
/// much after 2000 steps in which all deltas fit, half of it after one in which any did not (Micikevicius and others,
/// "Mixed Precision Training", ICLR 2018; the numbers are those of PyTorch's GradScaler). Halved once for a step, by
/// however much something was too long: one outlier must not take a scale away that 2000 steps each give back by a
/// factor of two. Whoever begins with too low a scale hears nothing of it: deltas underflow until it has grown. A
/// value: to save it is to save scale() and clean_steps().
class dynamic_scale {
 public:
  static constexpr double k_least = 0x1p-120, k_most = 0x1p120;  ///< so that an f32 holds it, and one by it
  static constexpr std::uint32_t k_patience = 2000;

  explicit dynamic_scale(double scale = 0x1p16, std::uint32_t clean_steps = 0)
      : scale_(scale), clean_steps_(clean_steps) {
    int exponent = 0;
    if (!(scale >= k_least && scale <= k_most) || std::frexp(scale, &exponent) != 0.5)
      throw std::invalid_argument("lsched: a scale is a power of two from 2^-120 to 2^120");
    if (clean_steps >= k_patience) throw std::invalid_argument("lsched: after 2000 clean steps the scale has grown");
  }

  double scale() const { return scale_; }
  /// Since the scale has changed, or did not fit.
  std::uint32_t clean_steps() const { return clean_steps_; }

  /// `did_fit`: all deltas, at the scale that the step began with.
  void end_step(bool did_fit) {
    clean_steps_ = did_fit ? clean_steps_ + 1 : 0;
    if (!did_fit) scale_ = std::max(scale_ / 2, k_least);
    if (clean_steps_ < k_patience) return;
    clean_steps_ = 0;
    scale_ = std::min(2 * scale_, k_most);
  }

  friend bool operator==(const dynamic_scale&, const dynamic_scale&) = default;

 private:
  double scale_;
  std::uint32_t clean_steps_;
};

// --- the step ----------------------------------------------------------------------------------------------

namespace detail {

/// In eight sums, so that they need not wait for each other; always in the same order.
template <std::floating_point T>
double squared_norm(std::span<const T> of) {
  constexpr std::size_t k_lanes = 8;
  double sums[k_lanes]{};
  std::size_t i = 0;
  for (; i + k_lanes <= of.size(); i += k_lanes)
    for (std::size_t k = 0; k < k_lanes; ++k)
      sums[k] += static_cast<double>(of[i + k]) * static_cast<double>(of[i + k]);
  double rest = 0;
  for (; i < of.size(); ++i) rest += static_cast<double>(of[i]) * static_cast<double>(of[i]);
  for (const double sum : sums) rest += sum;
  return rest;
}

/// Tensors that travel together, one after the other and without gaps.
struct bucket {
  std::size_t begin = 0, end = 0;  ///< which of them
  std::uint64_t elements = 0;
  exchange deltas{};
  double scale = 1;  ///< by which they were multiplied, in this step; half of the last one's if it goes again
};

/// As many tensors to a bucket as fit.
inline std::vector<bucket> buckets_of(std::span<const lsched_tensor> tensors, std::uint64_t most_elements) {
  std::vector<bucket> all;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t elements = all.empty() ? 0 : all.back().elements;
    const bool fits = elements == 0 || tensors[i].count <= most_elements - std::min(most_elements, elements);
    if (all.empty() || !fits) all.push_back({.begin = i});
    all.back().end = i + 1;
    all.back().elements += tensors[i].count;
  }
  return all;
}

/// Refuses tensors that overlap or leave the weights, on all ranks: each rank is about to make a collective create.
inline void expect_tensors(world& world, std::span<const lsched_tensor> tensors, std::uint64_t count) {
  std::uint64_t end = 0;
  for (const lsched_tensor& tensor : tensors) {
    if (tensor.begin < end) world.refuse("tensors overlap or do not ascend");
    if (tensor.begin > count || tensor.count > count - tensor.begin) world.refuse("a tensor ends beyond the weights");
    end = tensor.begin + tensor.count;
  }
}

/// How deltas travel: as they are, or scaled, in fewer bits. Then their norms are kept so low that nothing overflows,
/// neither a delta nor what becomes of it on the way. If nothing on the way is longer than `growth` times the longest
/// delta, and each delta is at most the format's largest number by 2 `growth`, then all elements remain below half of
/// that number, and roundings have the other half.
struct wire {
  lsched_dtype type = LSCHED_F32;
  bool is_scaled = false;
  double most_norm2 = 0;  ///< |scaled delta of a tensor|^2

  void make_room(double growth) {
    const double most = (type == LSCHED_F16 ? 65504 : 0x1.FEp127) / 2 / growth;
    most_norm2 = most * most;
  }

  std::uint64_t element_bytes() const { return type == LSCHED_F64 ? 8 : type == LSCHED_F32 ? 4 : 2; }

  /// Of a delta that is finite: one that is not is as bad at any scale.
  bool is_too_long(double norm2, double scale) const {
    return is_scaled && std::isfinite(norm2) && norm2 * scale * scale > most_norm2;
  }
};

inline wire wire_of(world& world, lsched_dtype own, std::optional<lsched_dtype> wanted) {
  if (wanted.value_or(own) == own) return {own};
  if (*wanted != LSCHED_F16 && *wanted != LSCHED_BF16)
    world.refuse("deltas travel as f16, bf16 or what the weights are");
  return {*wanted, true};
}

/// How many times longer than the longest delta what is on the way may become. No sum is longer than the sum of the
/// norms; no adaptive sum, and no part of one, than the root of sum |delta_r|^2. By nodes, first the ranks of a node
/// are added up, then divided, and of these means it is the adaptive sum.
inline double growth_of(const world& world, combine how, bool by_nodes) {
  if (how != combine::adasum) return world.size();
  if (!by_nodes) return std::sqrt(world.size());
  std::int32_t most_ranks = 1;
  for (std::int32_t r = 0; r < world.size(); ++r) most_ranks = std::max(most_ranks, world.node_of(r).ranks);
  return std::max<double>(most_ranks, std::sqrt(world.node().nodes));
}

}  // namespace detail

/// The same on all ranks.
struct delta_options {
  std::vector<lsched_tensor> tensors{};  ///< as in lsched.h, one for each layer's; empty: the weights are one tensor
  combine how = combine::adasum;
  std::uint32_t local_steps = 1;    ///< the optimizer's steps between reductions; the whole delta since then is reduced
  bool broadcasts_weights = true;   ///< begin with rank 0's; otherwise they are equal already, which nobody checks
  const char* algorithm = nullptr;  ///< of adasum, or of allreduce; nullptr: chosen
  /// Tensors travel in buckets of at most so many bytes, a larger one by itself: while a bucket is under way, the next
  /// one's deltas are taken, and the last one's added. 0: all in one. Which bucket a tensor is in may change how its
  /// sums are rounded ("halving" cuts where a bucket's middle is) and what algorithm is chosen, but nothing else.
  std::uint64_t bucket_bytes = 0;
  /// LSCHED_F16 or LSCHED_BF16: deltas travel in so few bits, scaled, and are rounded to them; none: as what the
  /// weights are.
  std::optional<lsched_dtype> wire{};
  dynamic_scale scaling{};  ///< to begin with; of a wire in fewer bits, and then the same on all ranks: that is checked
};

/// Keeps the replicas of a model together while each rank trains its own by a local optimizer.
///
/// Memory: the weights stay the caller's and outlive this, and so does the world. Two more copies of the model are
/// owned here: the weights that the last step ended with, and the deltas, in memory of the world that local ranks
/// read in place; less of them on a wire in fewer bits. (A third for as long as the constructor broadcasts.)
/// Threads: one at a time. The constructor, step and sync are collective, called by all ranks in the same order; they
/// block until the others have come, each exchange (one for each bucket) for at most `limit`,
/// and the constructor as long as making schedules may take (lsched_config.commit_timeout_ns). All else is local, and
/// never blocks.
/// Errors: std::invalid_argument for options that make no sense, and then lsched::error on the other ranks, which names
/// this rank; lsched::error as elsewhere, and with MISMATCH, on all ranks, if they begin with different scales.
template <element T>
requires std::floating_point<T>
class delta_step {
 public:
  explicit delta_step(world& world, std::span<T> weights, delta_options options = {},
                      timeout limit = timeout::forever())
      : weights_(weights), options_(std::move(options)), ranks_(world.size()) {
    if (options_.local_steps == 0) world.refuse("a delta is that of one local step at least");
    wire_ = detail::wire_of(world, dtype_of<T>::value, options_.wire);
    if (options_.tensors.empty()) options_.tensors = {{0, weights_.size()}};
    detail::expect_tensors(world, options_.tensors, weights_.size());
    if (wire_.is_scaled) expect_one_scale(world, limit);
    if (options_.broadcasts_weights) detail::broadcast_weights(world, weights_, limit);
    start_.assign(weights_.begin(), weights_.end());
    const std::uint64_t most = options_.bucket_bytes == 0 ? UINT64_MAX : options_.bucket_bytes / wire_.element_bytes();
    buckets_ = detail::buckets_of(options_.tensors, most);
    for (detail::bucket& each : buckets_) connect(world, each);
    if (!wire_.is_scaled) return;
    wire_.make_room(detail::growth_of(world, options_.how, is_by_nodes()));
    part_.resize(k_part);
  }

  /// After each step of the optimizer. Every local_steps-th call reduces, and answers true: then the weights are the
  /// same on all ranks. After a TIMEOUT the reduction is still under way: call step (or sync) again, with no step of
  /// the optimizer in between; what it changed would be lost, or even be added to a bucket that has arrived.
  bool step(timeout limit = timeout::forever()) {
    if (!is_reducing_ && ++local_steps_ < options_.local_steps) return false;
    sync(limit);
    return true;
  }

  /// Reduces now what has changed since the last time, and counts local steps anew: before an evaluation, at the end.
  void sync(timeout limit = timeout::forever()) {
    if (!is_reducing_) begin();
    while (arrived_ < buckets_.size()) {
      detail::bucket& next = buckets_[arrived_];
      next.deltas.wait(limit);
      const bool fits = !is_too_long(next);
      do_all_fit_ &= fits;
      if (!fits && next.scale > dynamic_scale::k_least) {
        next.scale /= 2;
        send(next);
        continue;
      }
      end(next);
      ++arrived_;
    }
    end();
  }

  /// The weights as they are now, the same on all ranks, are where the next delta begins: after loading a checkpoint.
  void restart() {
    if (is_reducing_) throw std::logic_error("lsched: a reduction of deltas is under way");
    std::copy(weights_.begin(), weights_.end(), start_.begin());
    local_steps_ = 0;
  }

  /// The scale of a wire in fewer bits, as it has become; the same on all ranks. For the next one to begin with.
  const dynamic_scale& scaling() const { return options_.scaling; }

  /// How many schedules reduce, and one of them; its name says which algorithm was chosen.
  std::size_t buckets() const { return buckets_.size(); }
  std::string print(std::size_t bucket = 0) const { return buckets_.at(bucket).deltas.print(); }
  /// As lsched::schedule::remark: what "two_level" says on one node.
  std::string remark() const { return buckets_.empty() ? "" : buckets_.front().deltas.remark(); }

  /// The destructor, but it tells: BUSY while a reduction is under way. The weights stay as they are, those of buckets
  /// that have arrived being the new ones.
  void close() {
    bool is_running = false;
    for (const detail::bucket& each : buckets_) is_running |= each.deltas.is_running();
    if (is_running) throw error(LSCHED_ERR_BUSY, lsched_diagnostic{});  // all of them, or none
    for (detail::bucket& each : buckets_) each.deltas.close();
  }

 private:
  /// Replicas that scale differently would drift apart, and nobody would notice.
  void expect_one_scale(world& world, timeout limit) const {
    detail::exchange all(world, 4 * sizeof(double));
    const std::span<double> most = all.as<double>();
    most[0] = options_.scaling.scale(), most[1] = -most[0];
    most[2] = options_.scaling.clean_steps(), most[3] = -most[2];
    all.bind(world.allreduce<double>(most, LSCHED_MAX));
    all.start();
    all.wait(limit);
    if (most[0] == -most[1] && most[2] == -most[3]) return;
    lsched_diagnostic why{};
    lsched_diagnostic_init(&why);
    why.status = LSCHED_ERR_MISMATCH;
    std::snprintf(why.text, sizeof why.text,
                  "delta_step: ranks begin with other scales than each other, from 2^%g to 2^%g, after %g to %g clean "
                  "steps: .scaling has to be the same on all of them",
                  std::log2(-most[1]), std::log2(most[0]), -most[3], most[2]);
    throw error(why.status, why);
  }

  void connect(world& world, detail::bucket& bucket) {
    const std::uint64_t count = bucket.elements + (wire_.is_scaled ? 1 : 0);  // and a vote
    bucket.deltas = detail::exchange(world, count * wire_.element_bytes());
    lsched_collective_desc desc{};
    desc.input = desc.output = bucket.deltas.memory();
    desc.count = count;
    desc.dtype = wire_.type;
    desc.algorithm = options_.algorithm;
    std::vector<lsched_tensor> packed;
    for_tensors(bucket, [&](std::size_t i, std::uint64_t at) { packed.push_back({at, options_.tensors[i].count}); });
    if (wire_.is_scaled) packed.push_back({bucket.elements, 1});
    if (options_.how == combine::adasum) {
      desc.collective = "adasum";
      desc.tensors = packed.data();
      desc.tensor_count = packed.size();
    } else {
      desc.collective = "allreduce";
      desc.reduction = LSCHED_SUM;
    }
    bucket.deltas.bind(world.collective(desc));
  }

  /// Only the schedule's name tells what was chosen, by whomever: the caller may, and the environment.
  bool is_by_nodes() const {
    return options_.how == combine::adasum && !buckets_.empty() &&
           buckets_.front().deltas.print().find("adasum/two_level") != std::string::npos;
  }

  /// Calls use(i, at) for the bucket's tensors in order: tensor i begins at that element of the bucket.
  template <class Use>
  void for_tensors(const detail::bucket& bucket, const Use& use) const {
    for (std::uint64_t i = bucket.begin, at = 0; i < bucket.end; at += options_.tensors[i++].count) use(i, at);
  }

  /// A bucket travels while the deltas of the next are taken.
  void begin() {
    do_all_fit_ = true;
    for (detail::bucket& each : buckets_) {
      each.scale = wire_.is_scaled ? options_.scaling.scale() : 1;
      send(each);
    }
    arrived_ = 0;
    is_reducing_ = true;
  }

  void send(detail::bucket& bucket) {
    bool fits = true;
    for_tensors(bucket, [&](std::size_t i, std::uint64_t at) {
      fits &= !wire_.is_too_long(take(bucket, options_.tensors[i], at), bucket.scale);
    });
    if (wire_.is_scaled) vote(bucket, fits);
    bucket.deltas.start();
  }

  // A vote travels behind the deltas, a tensor of its own: 1 on ranks whose deltas do not fit, else 0. What comes back
  // is 0 if it is 0 everywhere, and more if not, by Adasum as by a sum. So ranks need no further message to agree that
  // a bucket has to go again, at half the scale that it had, and all of them keep the same scale: it begins the same,
  // and changes by votes alone, which are the same bits on all ranks.

  void vote(detail::bucket& bucket, bool fits) const {
    const double one = fits ? 0 : 1;
    convert(LSCHED_F64, &one, 1, 1, wire_.type, place(bucket, bucket.elements));
  }

  bool is_too_long(const detail::bucket& bucket) const {
    double votes = 0;
    if (wire_.is_scaled) convert(wire_.type, place(bucket, bucket.elements), 1, 1, LSCHED_F64, &votes);
    return votes != 0;
  }

  std::uint8_t* place(const detail::bucket& bucket, std::uint64_t element) const {
    return bucket.deltas.memory() + element * wire_.element_bytes();
  }

  /// Copies a tensor's delta to where the tensor travels from. Answers its squared norm if the wire is scaled, else 0.
  double take(detail::bucket& bucket, const lsched_tensor& tensor, std::uint64_t at) {
    double norm2 = 0;
    for_parts(bucket, tensor.count, at, [&](std::span<T> delta, std::uint64_t done) {
      for (std::size_t k = 0; k < delta.size(); ++k)
        delta[k] = weights_[tensor.begin + done + k] - start_[tensor.begin + done + k];
      if (!wire_.is_scaled) return;
      norm2 += detail::squared_norm<T>(delta);
      convert(dtype_of<T>::value, delta.data(), delta.size(), bucket.scale, wire_.type, place(bucket, at + done));
    });
    return norm2;
  }

  /// Calls use(part, done) for the parts of a tensor that begins at element `at` of the bucket: all of it, where it
  /// lies, or as much as fits into the cache, where it is put and taken before it is converted, or after.
  template <class Use>
  void for_parts(const detail::bucket& bucket, std::uint64_t count, std::uint64_t at, const Use& use) {
    if (!wire_.is_scaled) return use(bucket.deltas.template as<T>().subspan(at, count), std::uint64_t{0});
    for (std::uint64_t done = 0; done < count; done += k_part)
      use(std::span(part_).first(std::min<std::uint64_t>(k_part, count - done)), done);
  }

  void end(const detail::bucket& bucket) {
    for_tensors(bucket, [&](std::size_t i, std::uint64_t at) { add(bucket, options_.tensors[i], at); });
  }

  void add(const detail::bucket& bucket, const lsched_tensor& tensor, std::uint64_t at) {
    for_parts(bucket, tensor.count, at, [&](std::span<T> delta, std::uint64_t done) {
      if (wire_.is_scaled)
        convert(wire_.type, place(bucket, at + done), delta.size(), 1 / bucket.scale, dtype_of<T>::value, delta.data());
      if (options_.how == combine::mean)
        for (T& one : delta) one /= static_cast<T>(ranks_);
      for (std::size_t k = 0; k < delta.size(); ++k)
        weights_[tensor.begin + done + k] = start_[tensor.begin + done + k] += delta[k];
    });
  }

  /// Elements of no tensor go back to where they started.
  void end() {
    is_reducing_ = false;
    local_steps_ = 0;
    if (wire_.is_scaled) options_.scaling.end_step(do_all_fit_);
    std::uint64_t at = 0;
    const auto freeze = [&](std::uint64_t to) {
      std::copy(start_.data() + at, start_.data() + to, weights_.data() + at);
    };
    for (const lsched_tensor& tensor : options_.tensors) {
      freeze(tensor.begin);
      at = tensor.begin + tensor.count;
    }
    freeze(start_.size());
  }

  static constexpr std::size_t k_part = 4096;  ///< elements

  std::span<T> weights_{};
  delta_options options_{};  ///< `scaling` is the present one
  std::int32_t ranks_ = 0;
  std::uint32_t local_steps_ = 0;  ///< of the optimizer, since the last reduction
  bool is_reducing_ = false;
  bool do_all_fit_ = true;  ///< at the scale that the step began with, as far as buckets have arrived
  std::vector<T> start_{};
  std::vector<detail::bucket> buckets_{};
  detail::wire wire_{};
  std::vector<T> part_{};    ///< of a tensor that is converted
  std::size_t arrived_ = 0;  ///< buckets whose deltas are in the weights, while a reduction is under way
};

}  // namespace cpp
}  // namespace lsched

#endif
