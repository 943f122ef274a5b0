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

namespace lsched {
inline namespace cpp {

/// What becomes of several vectors.
enum class combine { adasum, sum, mean };

// --- what a reduction says about the deltas ----------------------------------------------------------------
//
// A model: the deltas of n ranks are mu + noise_r, independent and alike, and B = |noise_r|^2 / |mu|^2 is their noise
// scale. A balanced tree of Adasum then makes of them, in expectation,
//
//     S(n) * their mean                      gain            S(n) = (1 + 2 B) / (1 + 2 B / n)     from 1 to n
//     |result|^2 / sum |delta_r|^2           orthogonality   S(n)^2 (1 + B / n) / (n (1 + B))     from 1/n to 1
//
// Both grow with B. The tree is balanced if n is a power of two; for other n this is an approximation. Adasum by nodes
// is none of n deltas: there the model says nothing.

namespace detail {

/// The model by t = B / (1 + B), which is finite also where B is not.
constexpr double gain_at(double t, double n) { return n * (1 + t) / (n - (n - 2) * t); }
constexpr double orthogonality_at(double t, double n) {
  return gain_at(t, n) * gain_at(t, n) * (n - (n - 1) * t) / (n * n);
}
constexpr double noise_at(double t) { return t < 1 ? t / (1 - t) : std::numeric_limits<double>::infinity(); }
constexpr double at_noise(double noise) {
  return noise == std::numeric_limits<double>::infinity() ? 1 : noise / (1 + noise);
}

/// Of |mean|^2 / sum |delta_r|^2, which is (1 + B / n) / (n (1 + B)).
constexpr double noise_of_mean(double ratio, double n) {
  const double t = (n - ratio * n * n) / (n - 1);
  return n < 2 || t != t ? std::numeric_limits<double>::quiet_NaN() : noise_at(t < 0 ? 0 : t);
}

}  // namespace detail

/// How much longer than the mean of the deltas their adaptive sum is. `noise` is from 0 to infinity.
constexpr double adasum_gain(double noise, std::int32_t ranks) {
  return detail::gain_at(detail::at_noise(noise), ranks);
}

constexpr double adasum_orthogonality(double noise, std::int32_t ranks) {
  return detail::orthogonality_at(detail::at_noise(noise), ranks);
}

/// The noise scale of which adasum_orthogonality answers that: 0 below 1/ranks, infinity from 1 on, NaN of NaN and of
/// a single rank, whose delta tells nothing.
constexpr double adasum_noise(double orthogonality, std::int32_t ranks) {
  if (ranks < 2 || orthogonality != orthogonality) return std::numeric_limits<double>::quiet_NaN();
  if (orthogonality >= 1) return std::numeric_limits<double>::infinity();
  double low = 0, high = 1;
  for (int halvings = 0; halvings < 53; ++halvings) {
    const double t = (low + high) / 2;
    (detail::orthogonality_at(t, ranks) < orthogonality ? low : high) = t;
  }
  return detail::noise_at(low);
}

/// What a step says about a tensor. The same bits on all ranks.
struct tensor_telemetry {
  double delta_norm2 = 0;    ///< sum over ranks of |delta|^2
  double reduced_norm2 = 0;  ///< |what the weights moved by|^2
  /// The second by the first; NaN if no rank moved. Of Adasum it is from 0 to 1: 1 of orthogonal deltas, 1/ranks of
  /// equal ones, less of parallel ones that differ in length, 0 of those that cancel each other. Of the sum it is at
  /// most ranks, of the mean 1/ranks. Of Adasum by nodes ("two_level"), N nodes of m ranks each, it is N/(m ranks) of
  /// orthogonal deltas and 1/ranks of equal ones: the means inside nodes shrink what is orthogonal.
  double orthogonality = 0;
  double noise = 0;  ///< B of the model above that explains it; NaN, not known, of Adasum by nodes
  /// By that model, of this reduction over the mean: S(ranks), not known of Adasum by nodes; of the sum it is ranks, of
  /// the mean 1.
  double gain = 0;
  bool is_non_finite = false;  ///< an element of what the weights moved by is not finite
};

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

/// Memory of a world and a schedule bound to it, whose round may be waited for in several calls. If one runs when
/// this is destroyed, the memory is left to the world, which stays open: nobody writes to what is no more.
template <class Schedule>
class exchange_by {
 public:
  exchange_by() = default;
  exchange_by(world& world, std::uint64_t bytes)
      : world_(world.handle()), memory_(world.allocate<std::uint8_t>(bytes)) {
    std::fill(memory_.begin(), memory_.end(), std::uint8_t{0});
  }
  exchange_by(exchange_by&& from) noexcept { *this = std::move(from); }
  exchange_by& operator=(exchange_by&& from) noexcept {
    std::swap(world_, from.world_);
    std::swap(memory_, from.memory_);
    std::swap(schedule_, from.schedule_);
    std::swap(round_, from.round_);
    return *this;
  }
  ~exchange_by() {
    try {
      close();
    } catch (const error&) {  // BUSY
    }
  }

  std::uint8_t* memory() const { return memory_.data(); }
  template <element T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(memory_.data()), memory_.size() / sizeof(T)};
  }
  explicit operator bool() const { return static_cast<bool>(schedule_); }

  /// Takes a schedule over that is bound to the memory.
  void bind(Schedule made) { schedule_ = std::move(made); }
  const Schedule& bound() const { return schedule_; }
  Schedule& bound() { return schedule_; }
  void start() { round_ = schedule_.start(); }
  void wait(timeout limit) const { round_.wait(limit); }
  bool is_running() const { return lsched_test(round_.handle()) == LSCHED_PENDING; }
  std::string print() const { return schedule_.print(); }
  const std::string& remark() const { return schedule_.remark(); }

  void close() {
    schedule_.close();
    if (world_ != nullptr) expect(lsched_free(world_, memory_.data()));
    world_ = nullptr;
    memory_ = {};
  }

 private:
  lsched_world* world_ = nullptr;
  std::span<std::uint8_t> memory_{};
  Schedule schedule_{};
  ticket round_{};
};

using exchange = exchange_by<schedule>;

/// Everybody's weights become rank 0's. Not in the caller's memory: a timeout may end all this while the round goes on.
template <element T>
void broadcast_weights(world& world, std::span<T> weights, timeout limit) {
  exchange model(world, weights.size_bytes());
  std::copy(weights.begin(), weights.end(), model.as<T>().begin());
  model.bind(world.bcast<T>(model.as<T>(), 0));
  model.start();
  model.wait(limit);
  std::copy(model.as<T>().begin(), model.as<T>().end(), weights.begin());
}

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

template <std::floating_point T>
bool are_finite(std::span<const T> all) {
  return std::all_of(all.begin(), all.end(), [](T it) { return std::isfinite(it); });
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

inline void expect_tensors(std::span<const lsched_tensor> tensors, std::uint64_t count) {
  std::uint64_t end = 0;
  for (const lsched_tensor& it : tensors) {
    if (it.begin < end) throw std::invalid_argument("lsched: tensors overlap or do not ascend");
    if (it.begin > count || it.count > count - it.begin)
      throw std::invalid_argument("lsched: a tensor ends beyond the weights");
    end = it.begin + it.count;
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

  std::uint64_t element_bytes() const { return type == LSCHED_F64 ? 8 : type == LSCHED_F32 ? 4 : 2; }

  /// Of a delta that is finite: one that is not is as bad at any scale.
  bool is_too_long(double norm2, double scale) const {
    return is_scaled && std::isfinite(norm2) && norm2 * scale * scale > most_norm2;
  }
};

inline wire wire_of(lsched_dtype own, std::optional<lsched_dtype> wanted) {
  if (wanted.value_or(own) == own) return {own};
  if (*wanted != LSCHED_F16 && *wanted != LSCHED_BF16)
    throw std::invalid_argument("lsched: deltas travel as f16, bf16 or what the weights are");
  return {*wanted, true};
}

inline void make_room(wire& in, double growth) {
  const double largest = in.type == LSCHED_F16 ? 65504 : 0x1.FEp127;
  const double most = largest / 2 / growth;
  in.most_norm2 = most * most;
}

/// No sum is longer than the sum of the norms; no adaptive sum, and no part of one, than the root of sum |delta_r|^2.
inline double growth_of(combine how, std::int32_t ranks) { return how == combine::adasum ? std::sqrt(ranks) : ranks; }

/// By nodes, first the ranks of a node are added up, then divided, and of these means it is the adaptive sum.
inline double growth_by_nodes(const world& world) {
  std::int32_t most_ranks = 1;
  for (std::int32_t r = 0; r < world.size(); ++r) most_ranks = std::max(most_ranks, world.node_of(r).ranks);
  return std::max<double>(most_ranks, growth_of(combine::adasum, world.node().nodes));
}

}  // namespace detail

/// The same on all ranks.
struct delta_options {
  std::vector<lsched_tensor> tensors{};  ///< as in lsched.h, one for each layer's; empty: the weights are one tensor
  combine how = combine::adasum;
  std::uint32_t local_steps = 1;    ///< the optimizer's steps between reductions; the whole delta since then is reduced
  bool broadcasts_weights = true;   ///< begin with rank 0's; otherwise they are equal already, which nobody checks
  bool with_telemetry = false;      ///< two passes over the deltas, and an allreduce of a double for each tensor
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
/// block until the others have come, each exchange (one for each bucket) for at most `limit` (telemetry is one more),
/// and the constructor as long as making schedules may take (lsched_config.commit_timeout_ns). All else is local, and
/// never blocks.
/// Errors: std::invalid_argument for options that make no sense, before anything is sent; lsched::error as elsewhere,
/// and with MISMATCH, on all ranks, if they begin with different scales.
template <element T>
requires std::floating_point<T>
class delta_step {
 public:
  explicit delta_step(world& world, std::span<T> weights, delta_options options = {},
                      timeout limit = timeout::forever())
      : weights_(weights), options_(std::move(options)), ranks_(world.size()) {
    if (options_.local_steps == 0) throw std::invalid_argument("lsched: a delta is that of one local step at least");
    wire_ = detail::wire_of(dtype_of<T>::value, options_.wire);
    if (options_.tensors.empty()) options_.tensors = {{0, weights_.size()}};
    detail::expect_tensors(options_.tensors, weights_.size());
    if (wire_.is_scaled) expect_one_scale(world, limit);
    if (options_.broadcasts_weights) detail::broadcast_weights(world, weights_, limit);
    start_.assign(weights_.begin(), weights_.end());
    const std::uint64_t most = options_.bucket_bytes == 0 ? UINT64_MAX : options_.bucket_bytes / wire_.element_bytes();
    buckets_ = detail::buckets_of(options_.tensors, most);
    for (detail::bucket& it : buckets_) connect(world, it);
    if (wire_.is_scaled || options_.with_telemetry) goes_by_nodes_ = is_by_nodes();
    detail::make_room(wire_, goes_by_nodes_ ? detail::growth_by_nodes(world) : detail::growth_of(options_.how, ranks_));
    if (wire_.is_scaled) part_.resize(k_part);
    if (!options_.with_telemetry) return;
    norms_ = detail::exchange(world, options_.tensors.size() * sizeof(double));
    norms_.bind(world.allreduce<double>(norms_.as<double>()));
    telemetry_.resize(options_.tensors.size());
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
    if (norms_) norms_.wait(limit);
    while (arrived_ < buckets_.size()) {
      detail::bucket& it = buckets_[arrived_];
      it.deltas.wait(limit);
      const bool fits = !is_too_long(it);
      do_all_fit_ &= fits;
      if (!fits && it.scale > dynamic_scale::k_least) {
        it.scale /= 2;
        send(it, false);
        continue;
      }
      end(it);
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

  /// Of the last reduction, one for each tensor; empty without the option, and zeros before the first.
  std::span<const tensor_telemetry> telemetry() const { return telemetry_; }

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
    bool is_running = norms_.is_running();
    for (const detail::bucket& it : buckets_) is_running |= it.deltas.is_running();
    if (is_running) throw error(LSCHED_ERR_BUSY, lsched_diagnostic{});  // all of them, or none
    for (detail::bucket& it : buckets_) it.deltas.close();
    norms_.close();
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

  void connect(world& world, detail::bucket& it) {
    const std::uint64_t count = it.elements + (wire_.is_scaled ? 1 : 0);  // and a vote
    it.deltas = detail::exchange(world, count * wire_.element_bytes());
    lsched_collective_desc desc{};
    desc.input = desc.output = it.deltas.memory();
    desc.count = count;
    desc.dtype = wire_.type;
    desc.algorithm = options_.algorithm;
    std::vector<lsched_tensor> packed;
    for_tensors(it, [&](std::size_t i, std::uint64_t at) { packed.push_back({at, options_.tensors[i].count}); });
    if (wire_.is_scaled) packed.push_back({it.elements, 1});
    if (options_.how == combine::adasum) {
      desc.collective = "adasum";
      desc.tensors = packed.data();
      desc.tensor_count = packed.size();
    } else {
      desc.collective = "allreduce";
      desc.reduction = LSCHED_SUM;
    }
    it.deltas.bind(world.collective(desc));
  }

  /// Only the schedule's name tells what was chosen, by whomever: the caller may, and the environment.
  bool is_by_nodes() const {
    return options_.how == combine::adasum && !buckets_.empty() &&
           buckets_.front().deltas.print().find("adasum/two_level") != std::string::npos;
  }

  /// Calls use(i, at) for the bucket's tensors in order: tensor i begins at that element of the bucket.
  template <class Use>
  void for_tensors(const detail::bucket& it, const Use& use) const {
    for (std::uint64_t i = it.begin, at = 0; i < it.end; at += options_.tensors[i++].count) use(i, at);
  }

  /// A bucket travels while the deltas of the next are taken.
  void begin() {
    do_all_fit_ = true;
    for (detail::bucket& it : buckets_) {
      it.scale = wire_.is_scaled ? options_.scaling.scale() : 1;
      send(it, true);
    }
    if (norms_) norms_.start();
    arrived_ = 0;
    is_reducing_ = true;
  }

  void send(detail::bucket& it, bool is_first) {
    bool fits = true;
    for_tensors(it, [&](std::size_t i, std::uint64_t at) {
      const double norm2 = take(it, options_.tensors[i], at);
      if (norms_ && is_first) norms_.as<double>()[i] = norm2;  // later they are under way
      fits &= !wire_.is_too_long(norm2, it.scale);
    });
    if (wire_.is_scaled) vote(it, fits);
    it.deltas.start();
  }

  // A vote travels behind the deltas, a tensor of its own: 1 on ranks whose deltas do not fit, else 0. What comes back
  // is 0 if it is 0 everywhere, and more if not, by Adasum as by a sum. So ranks need no further message to agree that
  // a bucket has to go again, at half the scale that it had, and all of them keep the same scale: it begins the same,
  // and changes by votes alone, which are the same bits on all ranks.

  void vote(detail::bucket& it, bool fits) const {
    const double one = fits ? 0 : 1;
    convert(LSCHED_F64, &one, 1, 1, wire_.type, place(it, it.elements));
  }

  bool is_too_long(const detail::bucket& it) const {
    double votes = 0;
    if (wire_.is_scaled) convert(wire_.type, place(it, it.elements), 1, 1, LSCHED_F64, &votes);
    return votes != 0;
  }

  std::uint8_t* place(const detail::bucket& it, std::uint64_t element) const {
    return it.deltas.memory() + element * wire_.element_bytes();
  }

  /// A tensor's delta to where it travels from. Answers its squared norm, where anybody wants to know.
  double take(detail::bucket& it, const lsched_tensor& of, std::uint64_t at) {
    double norm2 = 0;
    for_parts(it, of.count, at, [&](std::span<T> delta, std::uint64_t done) {
      for (std::size_t k = 0; k < delta.size(); ++k)
        delta[k] = weights_[of.begin + done + k] - start_[of.begin + done + k];
      if (norms_ || wire_.is_scaled) norm2 += detail::squared_norm<T>(delta);
      if (wire_.is_scaled)
        convert(dtype_of<T>::value, delta.data(), delta.size(), it.scale, wire_.type, place(it, at + done));
    });
    return norm2;
  }

  /// Calls use(part, done) for the parts of a tensor that begins at element `at` of the bucket: all of it, where it
  /// lies, or as much as fits into the cache, where it is put and taken before it is converted, or after.
  template <class Use>
  void for_parts(const detail::bucket& it, std::uint64_t count, std::uint64_t at, const Use& use) {
    if (!wire_.is_scaled) return use(it.deltas.template as<T>().subspan(at, count), std::uint64_t{0});
    for (std::uint64_t done = 0; done < count; done += k_part)
      use(std::span(part_).first(std::min<std::uint64_t>(k_part, count - done)), done);
  }

  void end(const detail::bucket& it) {
    for_tensors(it, [&](std::size_t i, std::uint64_t at) { add(it, i, at); });
  }

  void add(const detail::bucket& it, std::size_t tensor, std::uint64_t at) {
    const auto& [begin, count] = options_.tensors[tensor];
    double norm2 = 0;
    bool is_non_finite = false;
    for_parts(it, count, at, [&, begin = begin](std::span<T> delta, std::uint64_t done) {
      if (wire_.is_scaled)
        convert(wire_.type, place(it, at + done), delta.size(), 1 / it.scale, dtype_of<T>::value, delta.data());
      if (options_.how == combine::mean)
        for (T& one : delta) one /= static_cast<T>(ranks_);
      if (norms_) {
        const double of_part = detail::squared_norm<T>(delta);
        norm2 += of_part;
        is_non_finite |= !std::isfinite(of_part) && !detail::are_finite<T>(delta);
      }
      for (std::size_t k = 0; k < delta.size(); ++k) weights_[begin + done + k] = start_[begin + done + k] += delta[k];
    });
    if (!norms_) return;
    telemetry_[tensor] = told(norms_.as<double>()[tensor], norm2);
    telemetry_[tensor].is_non_finite = is_non_finite;
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
    for (const lsched_tensor& it : options_.tensors) {
      freeze(it.begin);
      at = it.begin + it.count;
    }
    freeze(start_.size());
  }

  tensor_telemetry told(double delta_norm2, double reduced_norm2) const {
    tensor_telemetry it{delta_norm2, reduced_norm2, reduced_norm2 / delta_norm2};
    if (goes_by_nodes_) {
      it.noise = it.gain = std::numeric_limits<double>::quiet_NaN();
    } else if (options_.how == combine::adasum) {
      it.noise = adasum_noise(it.orthogonality, ranks_);
      it.gain = ranks_ == 1 ? 1 : adasum_gain(it.noise, ranks_);
    } else {
      const double gain = options_.how == combine::sum ? ranks_ : 1;
      it.noise = detail::noise_of_mean(it.orthogonality / (gain * gain), ranks_);
      it.gain = gain;
    }
    return it;
  }

  static constexpr std::size_t k_part = 4096;  ///< elements

  std::span<T> weights_{};
  delta_options options_{};  ///< `scaling` is the present one
  std::int32_t ranks_ = 0;
  std::uint32_t local_steps_ = 0;  ///< of the optimizer, since the last reduction
  bool is_reducing_ = false;
  bool do_all_fit_ = true;      ///< at the scale that the step began with, as far as buckets have arrived
  bool goes_by_nodes_ = false;  ///< what is combined are means of nodes; found out where something depends on it
  std::vector<T> start_{};
  std::vector<detail::bucket> buckets_{};
  detail::wire wire_{};
  std::vector<T> part_{};     ///< of a tensor that is converted
  std::size_t arrived_ = 0;   ///< buckets whose deltas are in the weights, while a reduction is under way
  detail::exchange norms_{};  ///< of the deltas, squared; a sum over ranks after the round
  std::vector<tensor_telemetry> telemetry_{};
};

// --- gradients of several batches --------------------------------------------------------------------------

/// Gradients of `passes` batches for one step of the optimizer: their sum, or their mean. Local; sends nothing. This is
/// not local_steps, by which the optimizer itself makes so many steps, each from where the one before ended:
///
///     accumulator<float> gradients(size, 4, combine::mean);            delta_step<float> deltas(world, weights,
///     for (...)                                                                                 {.local_steps = 4});
///       if (gradients.add(gradient_of(batch, weights))) {              for (...) {
///         optimizer.step(weights, gradients.gradient());                 optimizer.step(weights, gradient_of(...));
///         deltas.step();                                                 deltas.step();
///       }                                                              }
///     4 gradients at the same weights, one step                        4 steps, then Adasum of where they led
template <element T>
requires std::floating_point<T>
class accumulator {
 public:
  accumulator(std::size_t count, std::uint32_t passes, combine how) : passes_(passes), how_(how), gradient_(count) {
    if (passes == 0) throw std::invalid_argument("lsched: an accumulator takes one gradient at least");
    if (how == combine::adasum) throw std::invalid_argument("lsched: an accumulator takes the sum or the mean");
  }

  /// Answers true when the last of them is in: gradient() is then what they come to, until the next call begins anew.
  bool add(std::span<const T> gradient) {
    if (gradient.size() != gradient_.size())
      throw std::invalid_argument("lsched: the gradient's size is not the accumulator's");
    const bool is_first = added_ == 0;
    for (std::size_t i = 0; i < gradient_.size(); ++i)
      gradient_[i] = is_first ? gradient[i] : gradient_[i] + gradient[i];
    if (++added_ < passes_) return false;
    added_ = 0;
    if (how_ == combine::mean)
      for (T& it : gradient_) it /= static_cast<T>(passes_);
    return true;
  }

  std::span<const T> gradient() const { return gradient_; }

 private:
  std::uint32_t passes_, added_ = 0;
  combine how_;
  std::vector<T> gradient_;
};

}  // namespace cpp
}  // namespace lsched

#endif
