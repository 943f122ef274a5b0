// Rounds in memory of the library, which the training loops of lsched_delta.hpp, lsched_partition.hpp and
// lsched_sparse.hpp are made of. No interface for programs: it changes without notice.
#ifndef LSCHED_EXCHANGE_HPP
#define LSCHED_EXCHANGE_HPP

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "lsched.hpp"

namespace lsched {
inline namespace cpp {
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

}  // namespace detail
}  // namespace cpp
}  // namespace lsched

#endif
