// libsched for C++20: objects own the handles of <lsched.h>, buffers are spans, and errors are exceptions.
//
// This header calls only functions of <lsched.h>, and works with every library of the same LSCHED_ABI. lsched.h
// documents thread safety, blocking, memory and errors of each function. The comments in this file state only
// differences:
//  - A failure throws lsched::error. LSCHED_PENDING is not a failure.
//  - Objects own their handle, and can be moved but not copied. A moved-from object may only be destroyed or assigned
//    to.
//  - Destructors never throw. If a round is outstanding, or other ranks still use a partial schedule, the destructor
//    cancels the schedule on all ranks (lsched_cancel, at most 100 ms). Afterwards no rank uses the buffers any more.
//    To end a partial schedule without cancelling, call close() on all ranks. The destructor of a world does not close
//    a world that still has schedules.
//  - Buffers are spans. As in C, the caller owns the memory of the buffers, which must outlive the schedule.
#ifndef LSCHED_HPP
#define LSCHED_HPP

#if __cplusplus < 202002L
#error "lsched.hpp needs C++20 (-std=c++20); use lsched.h with C11 and older C++"
#endif

#include <lsched.h>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lsched {
// The inline namespace prevents collisions with symbols of a program that has its own namespace lsched.
inline namespace cpp {

// --- errors ------------------------------------------------------------------------------------------------

/// The exception that a failed call throws. what() has the name of the status and the text of the diagnostic.
class error : public std::runtime_error {
 public:
  error(lsched_status status, const lsched_diagnostic& detail)
      : std::runtime_error(text_of(status, detail)), status_(status), detail_(detail) {}

  lsched_status status() const noexcept { return status_; }
  /// Returns the details: the rank, op and round that caused the failure, if known.
  const lsched_diagnostic& diagnostic() const noexcept { return detail_; }

 private:
  static std::string text_of(lsched_status status, const lsched_diagnostic& detail) {
    const char* text = detail.text[0] != '\0' ? detail.text : lsched_status_text(status);
    return std::string(lsched_status_name(status)) + ": " + text;
  }

  lsched_status status_;
  lsched_diagnostic detail_;
};

/// Throws lsched::error if `status` is an error. `status` is the result of a call of <lsched.h>, and `why` is the
/// diagnostic that was passed to that call. Without a diagnostic, the details are those of lsched_last_failure().
inline void must(lsched_status status, const lsched_diagnostic* why = nullptr) {
  if (status >= 0) return;
  if (why == nullptr || why->status != status) why = lsched_last_failure();
  throw error(status, why->status == status ? *why : lsched_diagnostic{});
}

namespace detail {

/// The diagnostic of one call. Pass the status of the call to operator(), which throws lsched::error if the status is
/// an error.
class call {
 public:
  call() { detail_.struct_size = sizeof detail_; }
  lsched_diagnostic* diagnostic() { return &detail_; }
  void operator()(lsched_status status) const {
    if (status < 0) throw error(status, detail_);
  }
  /// Returns the warning of a call that has succeeded, or an empty text.
  std::string warning() const { return detail_.text; }

 private:
  lsched_diagnostic detail_{};
};

/// Throws lsched::error if a call without a diagnostic has failed.
inline void expect(lsched_status status) {
  if (status >= 0) return;
  const lsched_diagnostic kept = *lsched_last_failure();
  throw error(status, kept.status == status ? kept : lsched_diagnostic{});
}

/// Returns true if lsched_schedule_destroy has freed the schedule. `ended` is the status that lsched_schedule_destroy
/// returned.
inline bool is_freed(lsched_status ended) {
  return ended == LSCHED_OK || ended == LSCHED_ERR_UNSUPPORTED || ended == LSCHED_ERR_DEVICE;
}

/// Closes or destroys a handle. A schedule that cannot be destroyed is first cancelled. If a peer still reads the
/// schedule's memory, the handle is leaked.
struct handle_end {
  void operator()(lsched_world* world) const { static_cast<void>(lsched_world_close(world)); }
  void operator()(lsched_schedule* schedule) const {
    if (is_freed(lsched_schedule_destroy(schedule, 0, nullptr))) return;
    if (lsched_cancel(schedule, nullptr) != LSCHED_ERR_BUSY)
      static_cast<void>(lsched_schedule_destroy(schedule, 0, nullptr));
  }
  void operator()(lsched_builder* builder) const { lsched_builder_destroy(builder); }
};
template <class Handle>
using owner = std::unique_ptr<Handle, handle_end>;

/// A schedule, and the warning of the call that created it.
struct made_schedule {
  owner<lsched_schedule> handle{};
  std::string warning{};
};

/// Calls `create`, a function of <lsched.h> that creates a schedule. Throws lsched::error if `create` fails.
template <class Create, class... Arguments>
made_schedule created(Create create, Arguments... arguments) {
  lsched_schedule* handle = nullptr;
  call call;
  call(create(arguments..., &handle, call.diagnostic()));
  return {owner<lsched_schedule>(handle), call.warning()};
}

/// Sets the struct_size of a struct, and calls `fill`, a function of <lsched.h> that fills in the struct. Returns the
/// struct.
template <class Struct, class Fill, class... Arguments>
Struct sized(Fill fill, Arguments... arguments) {
  Struct filled{};
  filled.struct_size = sizeof filled;
  expect(fill(arguments..., &filled));
  return filled;
}

/// Returns the text of a print function. Calls the function again if the text has become longer between two calls.
template <class Print>
std::string printed(Print&& print) {
  std::string text;
  for (std::size_t needed = 1; text.size() < needed;) {
    text.resize(needed);
    expect(print(text.data(), text.size(), &needed));
  }
  return text.c_str();
}

}  // namespace detail

// --- element types and timeouts -----------------------------------------------------------------------------

/// The lsched_dtype of an element type. C++20 has no 16-bit floating types; use the C interface for these.
template <class T>
struct dtype_of;
template <>
struct dtype_of<std::int8_t> : std::integral_constant<lsched_dtype, LSCHED_I8> {};
template <>
struct dtype_of<std::uint8_t> : std::integral_constant<lsched_dtype, LSCHED_U8> {};
template <>
struct dtype_of<std::int32_t> : std::integral_constant<lsched_dtype, LSCHED_I32> {};
template <>
struct dtype_of<std::int64_t> : std::integral_constant<lsched_dtype, LSCHED_I64> {};
template <>
struct dtype_of<std::uint64_t> : std::integral_constant<lsched_dtype, LSCHED_U64> {};
template <>
struct dtype_of<float> : std::integral_constant<lsched_dtype, LSCHED_F32> {};
template <>
struct dtype_of<double> : std::integral_constant<lsched_dtype, LSCHED_F64> {};

template <class T>
concept element = requires {
  { dtype_of<T>::value } -> std::convertible_to<lsched_dtype>;
};

/// Converts between floating types (lsched_convert). Elements of a 16-bit dtype may have any C++ type of that size.
inline void convert(lsched_dtype from, const void* input, std::uint64_t count, double factor, lsched_dtype to,
                    void* output) {
  detail::expect(lsched_convert(from, input, count, factor, to, output));
}

/// A timeout. `forever` never expires. With a timeout of 0 or less, a call makes one attempt.
class timeout {
 public:
  template <class Rep, class Period>
  constexpr timeout(std::chrono::duration<Rep, Period> time) {  // NOLINT(google-explicit-constructor)
    using std::chrono::nanoseconds;
    if (std::chrono::duration<double>(time) >= std::chrono::duration<double>(nanoseconds::max())) return;
    ns_ = time <= time.zero() ? 0 : static_cast<std::uint64_t>(std::chrono::duration_cast<nanoseconds>(time).count());
  }
  static constexpr timeout forever() { return {}; }
  constexpr std::uint64_t ns() const { return ns_; }

 private:
  constexpr timeout() = default;
  std::uint64_t ns_ = LSCHED_FOREVER;
};

/// The report that a collect call returns.
using report = lsched_report;

// --- ticket and schedule -----------------------------------------------------------------------------------

/// A ticket identifies a round of a schedule. The schedule must outlive the ticket.
class ticket {
 public:
  ticket() = default;
  explicit ticket(lsched_ticket handle) : handle_(handle) {}

  std::uint64_t round() const { return handle_.round; }
  lsched_ticket handle() const { return handle_; }

  /// Returns true if the round has ended.
  [[nodiscard]] bool test() const {
    const lsched_status answer = lsched_test(handle_);
    detail::expect(answer);
    return answer == LSCHED_OK;
  }
  void wait(timeout limit = timeout::forever()) const {
    detail::call call;
    call(lsched_wait(handle_, limit.ns(), call.diagnostic()));
  }

 private:
  lsched_ticket handle_{};
};

class [[nodiscard]] schedule_base {
 public:
  explicit operator bool() const { return handle_ != nullptr; }
  lsched_schedule* handle() const { return handle_.get(); }

  [[nodiscard]] std::string print(lsched_print_format format = LSCHED_PRINT_TEXT) const {
    return detail::printed([&](char* text, std::size_t bytes, std::size_t* needed) {
      return lsched_schedule_print(handle(), format, text, bytes, needed);
    });
  }

  /// Waits until all ranks have created the schedule. Throws TIMEOUT, or the error with which the creation has failed.
  void create_wait(timeout limit = timeout::forever()) {
    detail::call call;
    call(lsched_create_wait(handle(), limit.ns(), call.diagnostic()));
  }

  /// Cancels the schedule on all ranks. Throws BUSY while a peer still reads this rank's buffers.
  void cancel() {
    detail::call call;
    call(lsched_cancel(handle(), call.diagnostic()));
  }

 protected:
  schedule_base() = default;
  explicit schedule_base(lsched_schedule* handle) : handle_(handle) {}
  void end(std::uint64_t ns) {
    detail::call call;
    const lsched_status ended = lsched_schedule_destroy(handle(), ns, call.diagnostic());
    if (detail::is_freed(ended)) static_cast<void>(handle_.release());
    call(ended);
  }

 private:
  detail::owner<lsched_schedule> handle_{};
};

/// An ordinary schedule, such as an allreduce, a barrier or a schedule of a builder.
class [[nodiscard]] schedule : public schedule_base {
 public:
  schedule() = default;
  explicit schedule(lsched_schedule* handle, std::string warning = {})
      : schedule_base(handle), warning_(std::move(warning)) {}
  explicit schedule(detail::made_schedule made) : schedule(made.handle.release(), std::move(made.warning)) {}

  [[nodiscard]] ticket start() {
    lsched_ticket started{};
    detail::expect(lsched_start(handle(), &started));
    return ticket(started);
  }
  /// Starts the next round with the given buffers, one pointer per slot in the order of declaration. `counts` must be
  /// nullptr unless the schedule has a capacity. The caller must not use the buffers and counts until the round has
  /// ended.
  [[nodiscard]] ticket start_with(std::span<const void* const> inputs, std::span<void* const> outputs,
                                  const lsched_counts* counts = nullptr) {
    lsched_ticket started{};
    detail::expect(lsched_start_with(handle(), inputs.data(), outputs.data(), counts, &started));
    return ticket(started);
  }
  void run(timeout limit = timeout::forever()) {
    detail::call call;
    call(lsched_run(handle(), limit.ns(), call.diagnostic()));
  }

  /// Binds the schedule to other buffers, one pointer per slot in the order of declaration.
  void rebind(std::span<const void* const> inputs, std::span<void* const> outputs) {
    detail::expect(lsched_rebind(handle(), inputs.data(), outputs.data()));
  }

  /// Returns the warning of the call that created the schedule, or an empty text.
  const std::string& warning() const { return warning_; }

  /// Returns the number of non-finite tensors in the result of the last round of an adasum. Sets is_non_finite[i] to 1
  /// if tensor i is non-finite, else to 0. `is_non_finite` must have one element per tensor, or be empty.
  std::uint64_t non_finite_tensors(std::span<std::uint8_t> is_non_finite = {}) const {
    std::uint64_t number = 0;
    detail::expect(lsched_non_finite_tensors(handle(), is_non_finite.size(),
                                             is_non_finite.empty() ? nullptr : is_non_finite.data(), &number));
    return number;
  }

  /// Destroys the schedule like the destructor, but throws BUSY if a round is outstanding.
  void close() { end(0); }

 private:
  std::string warning_{};
};

class world;

/// The base class of partial schedules, for all element types.
class [[nodiscard]] partial_base : public schedule_base {
 public:
  partial_base() = default;
  explicit partial_base(lsched_schedule* handle) : schedule_base(handle) {}

  /// Returns an image of the pending offers, for a checkpoint. load_pending() adds the offers of an image to the
  /// pending offers.
  std::vector<std::byte> save_pending() const {
    std::size_t bytes = 0;
    detail::expect(lsched_schedule_save(handle(), LSCHED_STATE_PENDING, nullptr, 0, &bytes));
    std::vector<std::byte> image(bytes);
    std::size_t needed = bytes;
    while (lsched_schedule_save(handle(), LSCHED_STATE_PENDING, image.data(), image.size(), &needed) ==
           LSCHED_ERR_ARGUMENT)
      image.resize(needed);
    image.resize(needed);
    return image;
  }
  void load_pending(std::span<const std::byte> image) {
    detail::expect(lsched_pending_load(handle(), image.data(), image.size()));
  }

  /// Discards the pending offers. Returns the sum of the weights of the discarded offers.
  std::uint64_t withdraw() {
    std::uint64_t offers = 0;
    detail::expect(lsched_withdraw(handle(), &offers));
    return offers;
  }
  /// Skips the finished rounds up to `last`, as if this rank had called for them. Returns the number of these rounds.
  std::uint64_t skip(std::uint64_t last) {
    std::uint64_t rounds = 0;
    detail::expect(lsched_skip(handle(), last, &rounds));
    return rounds;
  }
  void leave() { detail::expect(lsched_leave(handle())); }

  /// Moves the schedule to the world `to`, which world::shrink has returned, or which was opened later. Collective over
  /// `to`. Ranks that were not in the former world call world::join_partial.
  void carry(const world& to);

  [[nodiscard]] lsched_partial_stats stats() const {
    return detail::sized<lsched_partial_stats>(lsched_schedule_stats, handle());
  }
  /// Serves the other ranks until every rank has left, then ends the schedule. Collective. May be repeated after a
  /// timeout.
  void close(timeout limit = timeout::forever()) { end(limit.ns()); }
};

/// A partial collective over elements of type T.
template <element T>
class [[nodiscard]] partial_collective : public partial_base {
 public:
  partial_collective() = default;
  partial_collective(lsched_schedule* handle, std::uint64_t contribution, std::uint64_t result,
                     std::vector<std::uint64_t> buckets)
      : partial_base(handle), contribution_(contribution), result_(result), buckets_(std::move(buckets)) {}

  std::uint64_t contribution_count() const { return contribution_; }
  std::uint64_t result_count() const { return result_; }

  /// Offers a contribution. The contribution is multiplied by `weight` (lsched_offer_weighted).
  ticket offer(std::span<const T> contribution, std::uint64_t weight = 1) {
    expect_count(contribution.size(), contribution_);
    return over<const void>(contribution, [&](const void* const* buckets) { return offered(buckets, weight); });
  }

  /// Offers a contribution whose buckets lie in separate memory. Number and sizes of the buckets must be as at create.
  ticket offer(std::span<const std::span<const T>> buckets, std::uint64_t weight = 1) {
    return offered(pointers_to<const void>(buckets).data(), weight);
  }

  /// Offers a contribution to one fragment (lsched_offer_fragment).
  ticket offer_fragment(std::uint32_t fragment, std::span<const T> contribution, std::uint64_t weight = 1) {
    expect_count(contribution.size(), contribution_);
    lsched_ticket made{};
    return over<const void>(contribution, [&](const void* const* buckets) {
      detail::expect(lsched_offer_fragment(this->handle(), fragment, buckets, weight, &made));
      return ticket(made);
    });
  }

  /// Makes this rank's call for the next round, but contributes nothing (lsched_offer with NULL).
  ticket offer_nothing() { return offered(nullptr); }

  /// Copies one bucket of a contribution. After all buckets have been copied, call offer_end() to offer the
  /// contribution.
  void offer_bucket(std::uint32_t index, std::span<const T> bucket) {
    if (index < buckets_.size()) expect_count(bucket.size(), buckets_[index]);
    detail::expect(lsched_offer_bucket(this->handle(), index, bucket.data()));
  }
  ticket offer_end(std::uint64_t weight = 1) {
    lsched_ticket made{};
    detail::expect(lsched_offer_end_weighted(this->handle(), weight, &made));
    return ticket(made);
  }

  /// Waits for the round, and copies its result. If the report has no result, `result` is unchanged.
  report collect(ticket which, std::span<T> result, timeout limit = timeout::forever()) {
    expect_count(result.size(), result_);
    return over<void>(result, [&](void* const* buckets) { return collected(which, buckets, limit); });
  }

  /// Collects as the function above does, into buckets that lie in separate memory.
  report collect(ticket which, std::span<const std::span<T>> buckets, timeout limit = timeout::forever()) {
    return collected(which, pointers_to<void>(buckets).data(), limit);
  }

  /// Acts as collect(), but does not copy. `result` becomes a view of the schedule's memory, and is empty if there is
  /// no result. The view is valid until the next collect, flush or model_sync.
  report collect_view(ticket which, std::span<const T>& result, timeout limit = timeout::forever()) {
    const report told = collected(which, nullptr, limit);
    result = {static_cast<const T*>(told.result), told.result == nullptr ? 0 : result_};
    return told;
  }

  /// Runs a round that contains all earlier offers. Collective. May be repeated after a timeout.
  report flush(std::span<T> result, timeout limit = timeout::forever()) {
    expect_count(result.size(), result_);
    return over<void>(result, [&](void* const* buckets) {
      return reported([&](lsched_report* filled, lsched_diagnostic* why) {
        return lsched_flush(this->handle(), buckets, limit.ns(), filled, why);
      });
    });
  }

  /// Replaces the weights by their mean over all ranks. Collective. May be repeated after a timeout.
  report model_sync(std::span<T> weights, timeout limit = timeout::forever()) {
    expect_count(weights.size(), contribution_);
    return reported([&](lsched_report* filled, lsched_diagnostic* why) {
      return lsched_model_sync(this->handle(), weights.data(), limit.ns(), filled, why);
    });
  }

 private:
  ticket offered(const void* const* buckets, std::uint64_t weight = 1) {
    lsched_ticket made{};
    detail::expect(lsched_offer_weighted(this->handle(), buckets, weight, &made));
    return ticket(made);
  }
  static report collected(ticket which, void* const* buckets, timeout limit) {
    return reported([&](lsched_report* filled, lsched_diagnostic* why) {
      return lsched_collect(which.handle(), buckets, limit.ns(), filled, why);
    });
  }
  template <class Call>
  static report reported(Call&& ask) {
    report filled{};
    filled.struct_size = sizeof filled;
    detail::call call;
    call(ask(&filled, call.diagnostic()));
    return filled;
  }
  static void expect_count(std::size_t size, std::uint64_t count) {
    if (size != count)
      throw std::invalid_argument("lsched: the size of the buffer differs from the count of the schedule");
  }
  /// Calls `call` with one pointer for each bucket of a whole vector. Does not allocate if the vector is one bucket.
  template <class Untyped, class Item, class Call>
  auto over(std::span<Item> whole, Call&& call) const {
    Untyped* const first = whole.data();
    if (buckets_.size() == 1) return call(&first);
    std::vector<Untyped*> pointers;
    Item* next = whole.data();
    for (const std::uint64_t count : buckets_) {
      pointers.push_back(next);
      next += count;
    }
    return call(pointers.data());
  }
  template <class Untyped, class Buckets>
  std::vector<Untyped*> pointers_to(const Buckets& buckets) const {
    if (buckets.size() != buckets_.size())
      throw std::invalid_argument("lsched: the number of buckets differs from that of the schedule");
    std::vector<Untyped*> pointers;
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      expect_count(buckets[i].size(), buckets_[i]);
      pointers.push_back(buckets[i].data());
    }
    return pointers;
  }

  std::uint64_t contribution_ = 0, result_ = 0;
  std::vector<std::uint64_t> buckets_{};
};

/// The base class of ordinary and partial sparse allreduces. It has the residual and the statistics.
template <element T, class Base>
requires std::floating_point<T>
class [[nodiscard]] sparse_schedule : public Base {
 public:
  /// Returns the residual of this rank, which the caller may read and write between rounds. The schedule owns the
  /// memory.
  [[nodiscard]] std::span<T> residual() const {
    void* memory = nullptr;
    lsched_dtype type{};
    detail::expect(lsched_sparse_residual(this->handle(), &memory, &type));
    return {static_cast<T*>(memory), count_};
  }

  [[nodiscard]] lsched_sparse_stats traffic() const {
    return detail::sized<lsched_sparse_stats>(lsched_sparse_get_stats, this->handle());
  }

  /// Returns an image of this rank's state, for a checkpoint. Must be called between rounds.
  [[nodiscard]] std::vector<std::byte> save() const {
    std::size_t needed = 0;
    detail::expect(lsched_schedule_save(this->handle(), LSCHED_STATE_SPARSE, nullptr, 0, &needed));
    std::vector<std::byte> image(needed);
    detail::expect(lsched_schedule_save(this->handle(), LSCHED_STATE_SPARSE, image.data(), image.size(), nullptr));
    return image;
  }

 protected:
  sparse_schedule() = default;
  sparse_schedule(Base made, std::uint64_t count) : Base(std::move(made)), count_(count) {}
  std::uint64_t count_ = 0;
};

/// A sparse allreduce of vectors of type T (world::sparse), described at lsched_sparse_create.
template <element T>
class [[nodiscard]] sparse_allreduce : public sparse_schedule<T, schedule> {
 public:
  sparse_allreduce() = default;
  sparse_allreduce(lsched_schedule* handle, std::uint64_t count)
      : sparse_schedule<T, schedule>(schedule(handle), count) {}

  /// Binds the schedule to other memory. The next round writes all elements of the update.
  void rebind(std::span<const T> gradient, std::span<T> update) {
    if (gradient.size() != this->count_ || update.size() != this->count_)
      throw std::invalid_argument("lsched: the size of the buffer differs from the count of the schedule");
    const void* const input = gradient.data();
    void* const output = update.data();
    schedule::rebind({&input, 1}, {&output, 1});
  }

  [[nodiscard]] lsched_sparse_stats stats() const { return this->traffic(); }
};

/// A sparse allreduce in which ranks need not wait for the slowest rank (world::partial_sparse). Ranks offer gradients
/// and collect updates. The caller may access the residual only while no round runs (lsched_sparse_residual).
template <element T>
class [[nodiscard]] partial_sparse_allreduce : public sparse_schedule<T, partial_collective<T>> {
 public:
  partial_sparse_allreduce() = default;
  partial_sparse_allreduce(lsched_schedule* handle, std::uint64_t count)
      : sparse_schedule<T, partial_collective<T>>(partial_collective<T>(handle, count, count, {count}), count) {}
};

// --- user-defined reductions ---------------------------------------------------------------------------------

/// Returns a reduction that calls `combine(lower, higher)`, which returns a V. In memory, each V has sizeof(V) /
/// sizeof(T) elements of type T. `combine` is not copied: it must outlive the schedules, and must not throw. The
/// comment on lsched_combine in lsched.h states which threads call `combine`.
template <element T, class V, class Combine>
requires(std::is_trivially_copyable_v<V> && sizeof(V) % sizeof(T) == 0) &&
    std::is_nothrow_invocable_r_v<V, const Combine&, const V&, const V&> lsched_user_op
    user_op(const Combine& combine, bool is_commutative = false) {
  constexpr std::uint64_t k_unit = sizeof(V) / sizeof(T);
  lsched_user_op made{};
  made.struct_size = sizeof made;
  made.combine = [](const void* lower, const void* higher, void* target, std::uint64_t count, void* context) {
    for (std::uint64_t at = 0; at < count / k_unit * sizeof(V); at += sizeof(V)) {
      V x, y;  // copies, because memory is not aligned to V
      std::memcpy(&x, static_cast<const std::byte*>(lower) + at, sizeof x);
      std::memcpy(&y, static_cast<const std::byte*>(higher) + at, sizeof y);
      const V both = (*static_cast<const Combine*>(context))(x, y);
      std::memcpy(static_cast<std::byte*>(target) + at, &both, sizeof both);
    }
  };
  made.context = const_cast<Combine*>(&combine);
  made.dtype = dtype_of<T>::value;
  made.unit = k_unit;
  made.is_commutative = is_commutative ? 1 : 0;
  return made;
}

// --- world -----------------------------------------------------------------------------------------------

struct partial_options {
  std::string collective = "allreduce";  ///< as in lsched_partial_desc
  std::vector<std::uint64_t> buckets{};  ///< as in lsched_partial_desc; empty: one bucket
  std::string activation = "solo";       ///< as in lsched_partial_desc
  lsched_reduction reduction = LSCHED_SUM;
  lsched_lag lag = LSCHED_LATEST;
  std::uint32_t history = 0;  ///< maximum number of kept results for LSCHED_HISTORY
  lsched_divisor divisor = LSCHED_DIVIDE_BY_NONE;
  bool averages_weights = false;  ///< if true, model_sync() may be called
  std::uint64_t seed = 0;
  const char* algorithm = nullptr;
  lsched_age age = LSCHED_AGE_NONE;   ///< rule by which late contributions are multiplied
  std::vector<double> age_factors{};  ///< for LSCHED_AGE_TABLE
  std::uint32_t fragments = 0;        ///< as in lsched_partial_desc
};

/// Options of a sparse allreduce, as in lsched_sparse_desc. All except `scale` and `image` must be equal on all ranks.
struct sparse_options {
  const char* algorithm = nullptr;
  double scale = 1;
  lsched_nan_policy nans = LSCHED_NAN_PROPAGATE;
  lsched_capacity capacity = LSCHED_STRICT;  ///< all options from here to `bucket` are only for "oktopk"
  std::uint32_t period = 0;                  ///< 0: chosen by the library
  lsched_boundaries boundaries = LSCHED_POOLED;
  lsched_balance balance = LSCHED_BALANCE_BY_COST;
  lsched_selection selection = LSCHED_EXACT;
  std::uint32_t reuse = 0;  ///< for LSCHED_REUSED: rounds between updates of the thresholds; 0: as in the paper
  std::uint32_t bucket = 0;
  std::span<const std::byte> image{};  ///< image from save(), possibly of another algorithm
};

/// A world: an ordered set of ranks. A moved-from or empty object converts to false.
class [[nodiscard]] world {
 public:
  /// Opens the world of this process (lsched_world_open) with the default configuration.
  world() : world(default_config()) {}
  /// Opens the world with a configuration, which should be a modified default_config().
  explicit world(const lsched_config& config) {
    lsched_world* opened = nullptr;
    detail::call call;
    call(lsched_world_open(&config, &opened, call.diagnostic()));
    handle_.reset(opened);
  }
  /// Takes ownership of a handle, such as one from lsched_world_open_mpi.
  explicit world(lsched_world* handle) : handle_(handle) {}

  /// Opens a world whose ranks are threads of this process. Element r of the result is the world object of rank r.
  static std::vector<world> open_threads(std::int32_t ranks, const lsched_config& config = default_config()) {
    std::vector<lsched_world*> handles(ranks > 0 ? static_cast<std::size_t>(ranks) : 0);
    std::vector<world> opened;
    opened.reserve(handles.size());
    detail::call call;
    call(lsched_world_open_threads(ranks, &config, handles.data(), call.diagnostic()));
    for (lsched_world* handle : handles) opened.emplace_back(handle);
    return opened;
  }

  /// Opens a world by an exchange function (lsched_world_open_with). `exchange(mine, all)` must gather the bytes `mine`
  /// of all ranks in `all`, or throw.
  template <class Exchange>
  static world open_with(std::int32_t rank, std::int32_t size, Exchange exchange,
                         const lsched_config& config = default_config()) {
    struct carrier {
      Exchange& exchange;
      std::size_t size;
      std::exception_ptr thrown{};
    } way{exchange, static_cast<std::size_t>(size > 0 ? size : 0)};
    const auto carry = [](const void* mine, void* all, std::uint64_t bytes, void* context) noexcept {
      carrier& by = *static_cast<carrier*>(context);
      try {
        by.exchange(std::span(static_cast<const std::byte*>(mine), bytes),
                    std::span(static_cast<std::byte*>(all), bytes * by.size));
        return 0;
      } catch (...) {
        by.thrown = std::current_exception();
        return 1;
      }
    };
    lsched_world* opened = nullptr;
    detail::call call;
    const lsched_status answer = lsched_world_open_with(rank, size, carry, &way, &config, &opened, call.diagnostic());
    if (way.thrown) std::rethrow_exception(way.thrown);
    call(answer);
    return world(opened);
  }

  /// Returns the world of the ranks with this color, or an empty world if the color is negative. Collective.
  [[nodiscard]] world split(std::int32_t color, std::int32_t key = 0) {
    lsched_world* made = nullptr;
    detail::call call;
    call(lsched_split(handle(), color, key, &made, call.diagnostic()));
    return world(made);
  }
  /// Creates a world of the given ranks, in the given order. All these ranks, and no others, must call this function.
  [[nodiscard]] world split_ranks(std::span<const std::int32_t> ranks, std::int32_t tag = 0) {
    lsched_world* made = nullptr;
    detail::call call;
    call(lsched_split_ranks(handle(), ranks.data(), static_cast<std::int32_t>(ranks.size()), tag, &made,
                            call.diagnostic()));
    return world(made);
  }
  /// Creates a world of the survivors after a death (docs/reference/shrink.md). Collective over the survivors.
  [[nodiscard]] world shrink(timeout limit = timeout::forever()) {
    lsched_world* survivors = nullptr;
    detail::call call;
    call(lsched_shrink(handle(), limit.ns(), &survivors, call.diagnostic()));
    return world(survivors);
  }
  /// Lets the world grow: new processes can join (lsched_grow_begin). Collective.
  void grow_begin(const char* file = nullptr, const lsched_config& config = default_config()) {
    detail::call call;
    call(lsched_grow_begin(handle(), &config, file, call.diagnostic()));
  }
  /// Returns the text by which new processes can join. The text contains a secret.
  [[nodiscard]] std::string grow_text() const {
    std::size_t bytes = 0;
    detail::expect(lsched_grow_text(handle(), nullptr, 0, &bytes));
    std::string text(bytes, '\0');
    detail::expect(lsched_grow_text(handle(), text.data(), bytes, nullptr));
    text.pop_back();
    return text;
  }
  /// Permits the admission of new ranks, and returns the larger world after their admission, else an empty world.
  [[nodiscard]] world grow(timeout limit = std::chrono::nanoseconds(0)) {
    lsched_world* grown = nullptr;
    detail::call call;
    call(lsched_grow(handle(), limit.ns(), &grown, call.diagnostic()));
    return world(grown);
  }
  /// Ends the growth on this rank. Returns the larger world if new ranks were admitted before, else an empty world.
  [[nodiscard]] world grow_end(timeout limit = timeout::forever()) {
    lsched_world* grown = nullptr;
    detail::call call;
    call(lsched_grow_end(handle(), limit.ns(), &grown, call.diagnostic()));
    return world(grown);
  }
  /// Joins a world that grows as a new rank (lsched_world_join).
  [[nodiscard]] static world join(const char* text, timeout limit = timeout::forever(),
                                  const lsched_config& config = default_config()) {
    lsched_world* joined = nullptr;
    detail::call call;
    call(lsched_world_join(text, limit.ns(), &config, &joined, call.diagnostic()));
    return world(joined);
  }
  /// Returns the ranks that are known to be lost, in the order of detection (lsched_world_lost).
  [[nodiscard]] std::vector<std::int32_t> lost() const {
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(size()));
    auto count = static_cast<std::int32_t>(ranks.size());
    detail::expect(lsched_world_lost(handle(), ranks.data(), &count));
    ranks.resize(static_cast<std::size_t>(count));
    return ranks;
  }
  /// Sets whether create functions return at once. If they do, schedule::create_wait() waits for the other ranks.
  void set_nonblocking(bool on) { detail::expect(lsched_world_set(handle(), LSCHED_NONBLOCKING, on ? 1 : 0)); }

  /// Makes the next collective call of the other ranks fail, because this rank's arguments are invalid (lsched_refuse).
  /// The error on the other ranks names this rank and the reason.
  [[noreturn]] void refuse(const std::string& text) {
    static_cast<void>(lsched_refuse(handle(), LSCHED_ERR_ARGUMENT, text.c_str(), nullptr));
    throw std::invalid_argument("lsched: " + text);
  }

  /// If `on` is true, each schedule is proved before it is committed (LSCHED_PROVED). If any rank requests proofs, all
  /// ranks prove.
  void set_verify(bool on) { detail::expect(lsched_world_set(handle(), LSCHED_PROVED, on ? 1 : 0)); }

  static lsched_config default_config() {
    lsched_config config{};
    lsched_config_init(&config);
    return config;
  }

  explicit operator bool() const { return handle_ != nullptr; }
  lsched_world* handle() const { return handle_.get(); }
  std::int32_t rank() const { return lsched_rank(handle()); }
  std::int32_t size() const { return lsched_size(handle()); }

  lsched_node node() const { return node_of(rank()); }
  lsched_node node_of(std::int32_t rank) const { return detail::sized<lsched_node>(lsched_node_of, handle(), rank); }

  bool progress() {
    int moved = 0;
    detail::expect(lsched_progress(handle(), &moved));
    return moved != 0;
  }
  lsched_stats stats() const { return detail::sized<lsched_stats>(lsched_get_stats, handle()); }
  std::string describe() const {
    std::array<char, 512> text{};
    detail::expect(lsched_world_describe(handle(), text.data(), text.size()));
    return text.data();
  }

  /// Returns a description of this rank's schedules that wait or have failed, or an empty text.
  std::string diagnose() const {
    return detail::printed([this](char* text, std::size_t bytes, std::size_t* needed) {
      return lsched_diagnose(handle(), nullptr, text, bytes, needed);
    });
  }

  /// Records up to `events` events of this rank's schedules. write_trace() ends the recording and writes the file.
  void start_trace(std::uint64_t events) { detail::expect(lsched_trace_start(handle(), events)); }
  void write_trace(const std::string& path) {
    detail::call call;
    call(lsched_trace_write(handle(), path.c_str(), call.diagnostic()));
  }

  /// Closes the world like the destructor, but throws BUSY if schedules exist.
  void close() {
    detail::expect(lsched_world_close(handle()));
    static_cast<void>(handle_.release());
  }

  /// Allocates memory that ranks of this node can read directly. The memory is valid until free(), or until the process
  /// closes its last world.
  template <element T>
  std::span<T> allocate(std::uint64_t count) {
    if (count > UINT64_MAX / sizeof(T)) throw std::length_error("lsched: the size in bytes exceeds 64 bits");
    void* memory = nullptr;
    detail::expect(lsched_alloc(handle(), count * sizeof(T), &memory));
    return {static_cast<T*>(memory), count};
  }
  template <element T>
  void free(std::span<T> memory) {
    detail::expect(lsched_free(handle(), memory.data()));
  }

  schedule barrier() {
    lsched_collective_desc desc{};
    desc.collective = "barrier";
    return collective(desc);
  }

  /// Creates an allreduce. `output` gets the reduction of all ranks' inputs. Both spans must have the same size, and
  /// may be the same memory (in place). Collective.
  template <element T>
  schedule allreduce(std::span<const T> input, std::span<T> output, lsched_reduction reduction = LSCHED_SUM,
                     const char* algorithm = nullptr) {
    lsched_collective_desc desc = elementwise<T>("allreduce", input, output, algorithm);
    desc.reduction = reduction;
    return collective(desc);
  }
  template <element T>
  schedule allreduce(std::span<T> in_place, lsched_reduction reduction = LSCHED_SUM, const char* algorithm = nullptr) {
    return allreduce(std::span<const T>(in_place), in_place, reduction, algorithm);
  }

  /// Creates an allreduce with a user-defined reduction (user_op). Collective.
  template <element T>
  schedule allreduce(std::span<const T> input, std::span<T> output, const lsched_user_op& how,
                     const char* algorithm = nullptr) {
    lsched_collective_desc desc = elementwise<T>("allreduce", input, output, algorithm);
    desc.user_op = &how;
    return collective(desc);
  }

  /// Creates an adaptive sum of all ranks' inputs, tensor by tensor (lsched_collective_desc). If `tensors` is empty,
  /// the vector is one tensor. T must be a floating type. Collective.
  template <element T>
  schedule adasum(std::span<const T> input, std::span<T> output, std::span<const lsched_tensor> tensors = {},
                  const char* algorithm = nullptr) {
    lsched_collective_desc desc = elementwise<T>("adasum", input, output, algorithm);
    desc.tensors = tensors.empty() ? nullptr : tensors.data();
    desc.tensor_count = tensors.size();
    return collective(desc);
  }

  /// Creates any collective in the table of lsched_collective_desc. The function sets struct_size. Collective.
  schedule collective(lsched_collective_desc desc) {
    desc.struct_size = sizeof desc;
    return schedule(detail::created(lsched_collective_create, handle(), &desc));
  }

  /// Creates a broadcast of the root's buffer to all ranks. Collective.
  template <element T>
  schedule bcast(std::span<T> buffer, std::int32_t root, const char* algorithm = nullptr) {
    lsched_collective_desc desc = desc_of<T>("bcast", {}, buffer, algorithm);
    desc.root = root;
    return collective(desc);
  }

  /// Creates a schedule from `text`, a schedule file with the schedule of this rank or of all ranks. `inputs` and
  /// `outputs` have one pointer per buffer. Collective.
  schedule load(std::string_view text, std::span<const void* const> inputs, std::span<void* const> outputs) {
    return schedule(
        detail::created(lsched_schedule_load, handle(), text.data(), text.size(), inputs.data(), outputs.data()));
  }

  /// Creates a sparse allreduce of all ranks' gradients (lsched_sparse_create). The update has at most k sums
  /// ("oktopk") or all sums (other algorithms), divided by the number of ranks. Both spans must have the same size and
  /// must not overlap. Collective.
  template <element T>
  requires std::floating_point<T> sparse_allreduce<T> sparse(std::span<const T> gradient, std::span<T> update,
                                                             std::uint64_t k, const sparse_options& options = {}) {
    if (gradient.size() != update.size()) refuse("gradient and update differ in size");
    lsched_sparse_desc desc = desc_of<T>(update.size(), k, options);
    desc.gradient = gradient.data();
    desc.update = update.data();
    return {detail::created(lsched_sparse_create, handle(), &desc).handle.release(), desc.count};
  }

  template <element T>
  partial_collective<T> partial(std::uint64_t count, const partial_options& options = {}) {
    const lsched_partial_desc desc = desc_of<T>(count, options);
    return partial_of<T>(detail::created(lsched_partial_create, handle(), &desc), count, options);
  }

  /// Joins a partial schedule that the other ranks move to this world by carry(). Collective.
  template <element T>
  partial_collective<T> join_partial(std::uint64_t count, const partial_options& options = {}) {
    const lsched_partial_desc desc = desc_of<T>(count, options);
    return partial_of<T>(detail::created(lsched_partial_join, handle(), &desc), count, options);
  }

  /// Creates a partial sparse allreduce of gradients of `count` elements. Each rank sends k items per round. In
  /// `options`, only activation, seed, lag and history may differ from their defaults. Collective.
  template <element T>
  requires std::floating_point<T> partial_sparse_allreduce<T> partial_sparse(std::uint64_t count, std::uint64_t k,
                                                                             const partial_options& options = {},
                                                                             const sparse_options& how = {}) {
    const lsched_sparse_desc sparse = desc_of<T>(count, k, how);
    lsched_partial_desc desc = desc_of<T>(count, options);
    if (options.collective == partial_options{}.collective) desc.collective = nullptr;
    desc.sparse = &sparse;
    return {detail::created(lsched_partial_create, handle(), &desc).handle.release(), count};
  }

 private:
  template <element T>
  static lsched_collective_desc desc_of(const char* collective, std::span<const T> input, std::span<T> output,
                                        const char* algorithm = nullptr) {
    lsched_collective_desc desc{};
    desc.collective = collective;
    desc.input = input.data();
    desc.output = output.data();
    desc.count = output.size();
    desc.dtype = dtype_of<T>::value;
    desc.algorithm = algorithm;
    return desc;
  }

  template <element T>
  lsched_collective_desc elementwise(const char* collective, std::span<const T> input, std::span<T> output,
                                     const char* algorithm) {
    if (input.size() != output.size()) refuse("input and output differ in size");
    return desc_of<T>(collective, input, output, algorithm);
  }

  template <element T>
  static lsched_sparse_desc desc_of(std::uint64_t count, std::uint64_t k, const sparse_options& options) {
    lsched_sparse_desc desc{};
    desc.struct_size = sizeof desc;
    desc.count = count;
    desc.k = k;
    desc.dtype = dtype_of<T>::value;
    desc.algorithm = options.algorithm;
    desc.scale = options.scale;
    desc.nans = options.nans;
    desc.capacity = options.capacity;
    desc.period = options.period;
    desc.boundaries = options.boundaries;
    desc.balance = options.balance;
    desc.selection = options.selection;
    desc.reuse = options.reuse;
    desc.bucket = options.bucket;
    desc.image = options.image.data();
    desc.image_bytes = options.image.size();
    return desc;
  }

  template <element T>
  partial_collective<T> partial_of(detail::made_schedule made, std::uint64_t count, const partial_options& options) {
    const std::uint64_t all = count * static_cast<std::uint64_t>(size());
    const bool is_scattered = options.collective == "reduce_scatter_block";
    return {made.handle.release(), is_scattered ? all : count, options.collective == "allgather" ? all : count,
            options.buckets.empty() ? std::vector{count} : options.buckets};
  }

  /// Returns a desc with pointers to members of `options`. `options` must outlive the desc.
  template <element T>
  static lsched_partial_desc desc_of(std::uint64_t count, const partial_options& options) {
    lsched_partial_desc desc{};
    desc.struct_size = sizeof desc;
    desc.collective = options.collective.c_str();
    desc.count = count;
    desc.buckets = options.buckets.empty() ? nullptr : options.buckets.data();
    desc.bucket_count = static_cast<std::uint32_t>(options.buckets.size());
    desc.dtype = dtype_of<T>::value;
    desc.reduction = options.reduction;
    desc.activation = options.activation.c_str();
    desc.seed = options.seed;
    desc.lag = options.lag;
    desc.history = options.history;
    desc.divisor = options.divisor;
    desc.averages_weights = options.averages_weights ? 1 : 0;
    desc.algorithm = options.algorithm;
    desc.age = options.age;
    desc.age_factors = options.age_factors.empty() ? nullptr : options.age_factors.data();
    desc.age_count = static_cast<std::uint32_t>(options.age_factors.size());
    desc.fragments = options.fragments;
    return desc;
  }

  detail::owner<lsched_world> handle_{};
};

inline void partial_base::carry(const world& to) {
  detail::call call;
  call(lsched_carry(handle(), to.handle(), call.diagnostic()));
}

// --- user-defined schedules -------------------------------------------------------------------------------------

/// A schedule under construction. A function that appends an op throws on an error. Even then, the rank must call
/// commit(), because commit() is collective. Every rank then gets the error.
class [[nodiscard]] builder {
 public:
  explicit builder(world& place, const char* name = nullptr) : builder(place.rank(), place.size(), name) {
    world_ = place.handle();
  }

  /// Builds the schedule of any rank of a hypothetical world. The schedule cannot be committed, but its text can be
  /// printed.
  builder(std::int32_t rank, std::int32_t ranks, const char* name = nullptr) {
    lsched_builder* made = nullptr;
    detail::expect(lsched_builder_create(rank, ranks, name, &made));
    handle_.reset(made);
  }

  lsched_builder* handle() const { return handle_.get(); }

  /// Returns the text (schedule file) of the schedule that commit() would create. The builder stays valid.
  [[nodiscard]] std::string text() const {
    return detail::printed([this](char* text, std::size_t bytes, std::size_t* needed) {
      detail::call call;
      call(lsched_builder_print(handle(), text, bytes, needed, call.diagnostic()));
      return LSCHED_OK;
    });
  }

  template <element T>
  lsched_slot input(std::uint64_t count) {
    return slot(LSCHED_INPUT, dtype_of<T>::value, count);
  }
  template <element T>
  lsched_slot output(std::uint64_t count) {
    return slot(LSCHED_OUTPUT, dtype_of<T>::value, count);
  }
  template <element T>
  lsched_slot scratch(std::uint64_t count) {
    return slot(LSCHED_SCRATCH, dtype_of<T>::value, count);
  }

  lsched_op nop() { return add(lsched_add_nop); }
  lsched_op send(std::int32_t to, std::uint32_t tag, lsched_region source) {
    return add(lsched_add_send, to, tag, source);
  }
  lsched_op recv(std::int32_t from, std::uint32_t tag, lsched_region target) {
    return add(lsched_add_recv, from, tag, target);
  }
  lsched_op copy(lsched_region source, lsched_region target) { return add(lsched_add_copy, source, target); }
  lsched_op reduce(lsched_reduction reduction, lsched_region lower, lsched_region higher, lsched_region target) {
    return add(lsched_add_reduce, reduction, nullptr, lower, higher, target);
  }
  lsched_op reduce(const lsched_user_op& how, lsched_region lower, lsched_region higher, lsched_region target) {
    return add(lsched_add_reduce, lsched_reduction{}, &how, lower, higher, target);
  }

  void dep(lsched_op before, lsched_op after) { detail::expect(lsched_add_dep(handle(), before, after)); }
  void need(lsched_op op, std::uint32_t tokens) { detail::expect(lsched_set_need(handle(), op, tokens)); }
  void any(lsched_op op) { need(op, 1); }

  /// Commits the schedule, with one pointer per slot in the order of declaration. Destroys the builder, even on
  /// failure. Collective.
  schedule commit(std::span<const void* const> inputs, std::span<void* const> outputs) {
    return schedule(detail::created(lsched_builder_commit, handle_.release(), world_, inputs.data(), outputs.data()));
  }

 private:
  lsched_slot slot(lsched_slot_use use, lsched_dtype type, std::uint64_t count) {
    lsched_slot made{};
    detail::expect(lsched_add_slot(handle(), use, type, count, &made));
    return made;
  }
  template <class Append, class... Arguments>
  lsched_op add(Append append, Arguments... arguments) {
    lsched_op made{};
    detail::expect(append(handle(), arguments..., &made));
    return made;
  }

  detail::owner<lsched_builder> handle_{};
  lsched_world* world_ = nullptr;  ///< null: the builder cannot be committed
};

/// Registers the algorithm of an algorithm file (docs/reference/algorithm_file.md).
inline void load_algorithm(std::string_view text) {
  detail::call call;
  call(lsched_algorithm_load(text.data(), text.size(), call.diagnostic()));
}

// --- proofs ------------------------------------------------------------------------------------------------

/// The outcome of a proof. A failed proof throws no exception, so check holds().
struct [[nodiscard]] verification {
  lsched_verification figures{};
  std::vector<lsched_finding> findings{};  ///< reasons why the proof failed, at most 16
  std::vector<lsched_finding> notes{};     ///< facts that are not violations, but risks

  bool holds() const { return figures.holds != 0; }
};

/// Options for the proof of a collective of the library.
struct verify_options {
  const char* algorithm = nullptr;
  lsched_dtype dtype = LSCHED_F32;
  lsched_reduction reduction = LSCHED_SUM;
  std::string activation{};  ///< for a partial collective
  bool in_place = false;
};

namespace detail {

inline verification verify(const lsched_verify_desc& desc) {
  constexpr std::uint64_t k_most_findings = 16;
  verification answer;
  answer.figures.struct_size = sizeof answer.figures;
  answer.findings.resize(k_most_findings);
  call call;
  call(lsched_verify(&desc, &answer.figures, answer.findings.data(), k_most_findings, call.diagnostic()));
  const auto end_of_findings = answer.findings.begin() + static_cast<std::ptrdiff_t>(answer.figures.findings);
  answer.notes.assign(end_of_findings, end_of_findings + static_cast<std::ptrdiff_t>(answer.figures.notes));
  answer.findings.resize(answer.figures.findings);
  return answer;
}

}  // namespace detail

/// The required contents of outputs. Members that are not set are taken from the text.
struct text_promise {
  const char* collective = nullptr;  ///< nullptr: the collective in the schedules' name
  std::optional<lsched_reduction> reduction{};
  std::optional<lsched_dtype> dtype{};
  std::optional<std::uint64_t> count{};
  std::optional<std::int32_t> root{};
  bool is_required = false;  ///< true: contents that cannot be checked cause ARGUMENT
};

/// The assumed buffers for messages whose receives are not posted yet (docs/reference/verify.md). By default, no
/// buffers are assumed: sends wait for their receives.
struct message_buffers {
  std::uint64_t eager_bytes = 0;
  std::uint32_t slots = 0;
};

/// Proves the schedules of `text`, which has the schedule files of all ranks.
inline verification verify_text(std::string_view text, const text_promise& promise = {}, bool in_place = false,
                                const message_buffers& buffers = {}) {
  lsched_verify_desc desc{};
  desc.struct_size = sizeof desc;
  desc.text = text.data();
  desc.bytes = text.size();
  desc.collective = promise.collective;
  desc.in_place = in_place ? 1 : 0;
  const auto ask = [&desc](const auto& wanted, auto lsched_verify_desc::*member, std::uint32_t bit) {
    if (!wanted) return;
    desc.*member = *wanted;
    desc.required |= bit;
  };
  ask(promise.reduction, &lsched_verify_desc::reduction, LSCHED_REQUIRE_REDUCTION);
  ask(promise.dtype, &lsched_verify_desc::dtype, LSCHED_REQUIRE_DTYPE);
  ask(promise.count, &lsched_verify_desc::count, LSCHED_REQUIRE_COUNT);
  ask(promise.root, &lsched_verify_desc::root, LSCHED_REQUIRE_ROOT);
  if (promise.is_required) desc.required |= LSCHED_REQUIRE_PROMISE;
  desc.eager_bytes = buffers.eager_bytes;
  desc.slots = buffers.slots;
  return detail::verify(desc);
}

/// Proves the schedules of a collective on `ranks` ranks. `count` is the number of elements of a rank, and must be 0
/// for a barrier.
inline verification verify_collective(const char* collective, std::int32_t ranks, std::uint64_t count,
                                      const verify_options& options = {}) {
  lsched_verify_desc desc{};
  desc.struct_size = sizeof desc;
  desc.collective = collective;
  desc.algorithm = options.algorithm;
  desc.ranks = ranks;
  desc.in_place = options.in_place ? 1 : 0;
  desc.count = count;
  desc.dtype = options.dtype;
  desc.reduction = options.reduction;
  desc.activation = options.activation.empty() ? nullptr : options.activation.c_str();
  return detail::verify(desc);
}

// --- simulations -------------------------------------------------------------------------------------------

/// The request of a simulation. By default, round 1 is simulated on the default machine, with sums of f32.
struct simulate_desc : lsched_simulate_desc {
  simulate_desc() : lsched_simulate_desc{} {
    struct_size = sizeof(lsched_simulate_desc);
    round = 1;
    dtype = LSCHED_F32;
    reduction = LSCHED_SUM;
  }
};

struct simulation {
  lsched_simulation figures{};
  std::vector<std::uint64_t> finish_ps{};  ///< for each rank, the time at which the rank finishes the round
};

/// Simulates one round of the schedules that `desc` requests.
inline simulation simulate(const lsched_simulate_desc& desc) {
  constexpr std::uint64_t k_least_bytes_of_a_schedule = 32;
  simulation made;
  made.figures.struct_size = sizeof made.figures;
  made.finish_ps.resize(desc.text != nullptr ? desc.bytes / k_least_bytes_of_a_schedule + 1
                                             : static_cast<std::uint64_t>(desc.ranks > 0 ? desc.ranks : 0));
  detail::call call;
  call(lsched_simulate(&desc, &made.figures, made.finish_ps.data(), made.finish_ps.size(), call.diagnostic()));
  made.finish_ps.resize(static_cast<std::size_t>(made.figures.ranks));
  return made;
}

/// Simulates one round of the schedules of `text`, which has the schedule files of all ranks. `desc` describes the
/// machine.
inline simulation simulate_text(std::string_view text, simulate_desc desc = {}) {
  desc.text = text.data();
  desc.bytes = text.size();
  return simulate(desc);
}

}  // namespace cpp
}  // namespace lsched

#endif
