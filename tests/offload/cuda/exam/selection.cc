// Compares the device kernels of sparse allreduces with the host kernels, bit by bit. These kernels select the elements
// to send, and update the residual after a round.
#include <cstring>
#include <vector>

#include "offload/cuda/driver/sparse_launch.h"
#include "tests/offload/cuda/exam/bit_patterns.h"
#include "tests/offload/cuda/exam/exam.h"
#include "tests/support/sparse_on_host.h"

namespace lsched::exam {
namespace {

/// A vector in host memory and in device memory.
struct twin {
  twin(const gpu& on, dtype type, std::uint64_t count)
      : host(count * size_of(type)), device(on, gpu_place::device, count * size_of(type)) {}
  std::vector<std::byte> host;
  gpu_memory device;
};

class selection_examiner {
 public:
  selection_examiner(const gpu& on, dtype type, std::uint64_t count)
      : on_(on),
        type_(type),
        count_(count),
        k_(count / 100 + 1),
        gradient_(on, type, count),
        residual_(on, residual_of(type), count),
        update_(on, type, count),
        items_(on, gpu_place::pinned, k_ * item_size(type)),
        found_(on, gpu_place::pinned, sizeof(std::uint64_t)),
        workspace_(on, gpu_place::device, selection_workspace_bytes(count)),
        stream_(on) {}

  /// Runs rounds of a schedule of one rank. Returns whether all bits were right.
  bool examine(std::uint64_t rounds) {
    const std::vector<std::byte> zeros(residual_.host.size());
    bring(residual_, zeros);
    std::uint64_t wrong = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      std::vector<std::byte> drawn(gradient_.host.size());
      draw_patterns(type_, count_, round, drawn.data());
      bring(gradient_, drawn);
      wrong += selects_right(round) ? 0U : 1U;
      wrong += settles_right(round == 0) ? 0U : 1U;
    }
    answer(on_, "selection",
           {{"dtype", name_of(type_)}, {"elements", count_}, {"k", k_}, {"rounds", rounds}, {"wrong", wrong}});
    return wrong == 0;
  }

 private:
  void bring(twin& vector, const std::vector<std::byte>& content) const {
    vector.host = content;
    on_.copy(vector.device.data(), content.data(), content.size(), stream_);
    on_.synchronise(stream_);
  }

  bool has_same_bits(const twin& vector) const {
    std::vector<std::byte> is(vector.host.size());
    on_.copy(is.data(), vector.device.data(), is.size(), stream_);
    on_.synchronise(stream_);
    return is == vector.host;
  }

  void launch(const launch_list& all) const {
    for (const device_launch& next : all.all()) on_.launch(next, stream_);
    on_.synchronise(stream_);
  }

  bool selects_right(std::uint64_t round) {
    sent_.assign(k_ * item_size(type_), std::byte{0});
    std::uint64_t found = 0;
    sparse_selection job{.type = type_,
                         .residual = residual_.host.data(),
                         .gradient = gradient_.host.data(),
                         .scale = round % 2 == 0 ? 1 : 0.3,
                         .count = count_,
                         .k = k_,
                         .ignores_nan = round % 3 == 1,
                         .items = sent_.data(),
                         .found = &found};
    testing::run_on_host(job);
    job.residual = residual_.device.data(), job.gradient = gradient_.device.data();
    job.items = items_.data(), job.found = found_.as<std::uint64_t>();
    launch(launches_of(job, workspace_.data()));
    sent_.resize(found * item_size(type_));
    return *found_.as<std::uint64_t>() == found && std::memcmp(items_.data(), sent_.data(), sent_.size()) == 0 &&
           has_same_bits(residual_);
  }

  bool settles_right(bool clears_all) {
    const sparse_settlement::list all{sent_.data(), sent_.size() / item_size(type_)};
    sparse_settlement job{.type = type_,
                          .residual = residual_.host.data(),
                          .update = update_.host.data(),
                          .count = count_,
                          .least_dropped = infinite_magnitude(residual_of(type_)),
                          .clears_all = clears_all,
                          .cleared = {last_.data(), last_.size() / item_size(type_)},
                          .result = all,
                          .leaving = all,
                          .divisor = 3};
    testing::run_on_host(job);
    const gpu_memory pinned(on_, gpu_place::pinned, sent_.size()), before(on_, gpu_place::pinned, last_.size());
    if (!sent_.empty()) std::memcpy(pinned.data(), sent_.data(), sent_.size());
    if (!last_.empty()) std::memcpy(before.data(), last_.data(), last_.size());
    job.residual = residual_.device.data(), job.update = update_.device.data();
    job.result.items = job.leaving.items = pinned.data(), job.cleared.items = before.data();
    launch(launches_of(job));
    last_ = sent_;
    return has_same_bits(residual_) && has_same_bits(update_);
  }

  const gpu& on_;
  const dtype type_;
  const std::uint64_t count_, k_;
  twin gradient_, residual_, update_;
  gpu_memory items_, found_, workspace_;
  gpu_stream stream_;
  std::vector<std::byte> sent_, last_;  ///< items that were sent in this round and in the previous round
};

}  // namespace

bool examine_selections(const effort& how) {
  const gpu on;
  const cuda_scope here(on.context());
  bool is_right = true;
  for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16, dtype::f64})
    is_right = selection_examiner(on, type, how.choose(10'000'019, 2003)).examine(how.choose(10, 3)) && is_right;
  return is_right;
}

}  // namespace lsched::exam
