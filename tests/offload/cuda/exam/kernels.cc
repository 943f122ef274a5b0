// Compares every function of the device image with the host's kernel of the same name, bit by bit. Operands are aligned
// or unaligned, and results are in place or out of place.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>

#include "ops/adasum/adasum.h"
#include "ops/elementwise/elementwise.h"
#include "tests/offload/cuda/exam/bit_patterns.h"
#include "tests/offload/cuda/exam/exam.h"

namespace lsched::exam {
namespace {

constexpr std::uint64_t k_chunk = 1 << 22, k_quick_chunk = 4099;
constexpr std::uint64_t k_most_shift = 3;  ///< maximum distance, in elements, of an operand from an aligned address
constexpr std::array<std::uint64_t, 8> k_divisors{2, 3, 7, 1000, 65791, (1 << 24) + 1, 10, 255};
constexpr std::array k_factors{1.0, 0.125, -2.0, 1.0 / 3, 0x1p-127, -7e5, std::numeric_limits<double>::infinity(), 0.0};
constexpr std::array<std::array<double, 2>, 6> k_coefficients{
    {{0.75, 1.0}, {1.0 / 3, -2.0 / 7}, {1e-30, 511.9}, {512.1, 1}, {0x1p64, -0x1p64}, {1e40, -0.0}}};

/// A kernel to compare: the device kernel and the host kernel. Operands that the kernel does not have are null.
struct call {
  std::string name;
  device_kernel on_device;
  dtype from, to;
  bool has_b = true;
  bool may_be_in_place = true;
  device_arguments with{};  ///< arguments of the device kernel, except for the addresses and the count
  std::function<void(const std::byte* a, const std::byte* b, std::byte* c, std::uint64_t count)> on_host;
};

std::vector<call> reductions_of(dtype type) {
  std::vector<call> all;
  for (const kernel what : k_all_reductions) {
    if (!supports(what, type)) continue;
    all.push_back({.name = std::string(name_of(what)),
                   .on_device = find_device_kernel(what, type).value(),
                   .from = type,
                   .to = type,
                   .on_host = [run = find_reduce(what, type)](auto a, auto b, auto c, auto n) { run(a, b, c, n); }});
  }
  return all;
}

call division_of(dtype type, std::uint64_t divisor) {
  return {.name = "divide by " + std::to_string(divisor),
          .on_device = find_device_kernel(kernel::divide, type).value(),
          .from = type,
          .to = type,
          .has_b = false,
          .with = {.divisor = divisor},
          .on_host = [type, divisor](auto a, auto, auto c, auto n) { find_divide(type)(a, c, n, divisor); }};
}

call conversion_of(dtype from, dtype to, double factor) {
  return {.name = "convert to " + std::string(name_of(to)) + " times " + std::to_string(factor),
          .on_device = find_device_conversion(from, to).value(),
          .from = from,
          .to = to,
          .has_b = false,
          .may_be_in_place = false,
          .with = {.x = factor},
          .on_host = [=](auto a, auto, auto c, auto n) { find_convert(from, to)(a, n, factor, c); }};
}

call weighted_sum_of(dtype type, double x, double y) {
  return {.name = "scaled_add by " + std::to_string(x) + ", " + std::to_string(y),
          .on_device = find_device_kernel(kernel::adasum, type).value(),
          .from = type,
          .to = type,
          .with = {.x = x, .y = y},
          .on_host = [=](auto a, auto b, auto c, auto n) { find_scaled_add(type)(x, a, y, b, c, n); }};
}

call dots_of(dtype type) {
  return {.name = "dot_norms",
          .on_device = find_device_kernel(kernel::dot_norms, type).value(),
          .from = type,
          .to = dtype::f64,
          .may_be_in_place = false,
          .on_host = [type](auto a, auto b, auto c, auto n) {
            std::array<double, k_dot_sums> sums{};
            find_dot_norms(type)(a, b, n, sums.data());
            std::memcpy(c, sums.data(), sizeof sums);
          }};
}

/// Returns the calls for a chunk. Divisors, factors and coefficients differ from chunk to chunk.
std::vector<call> calls_of(dtype type, std::uint64_t chunk) {
  std::vector<call> all = reductions_of(type);
  for (const std::uint64_t at : {2 * chunk, 2 * chunk + 1}) all.push_back(division_of(type, k_divisors[at % 8]));
  if (!is_floating(type)) return all;
  for (const dtype to : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
    for (const std::uint64_t at : {chunk, chunk + 3})
      all.push_back(conversion_of(type, to, k_factors[at % k_factors.size()]));
  const auto [x, y] = k_coefficients[chunk % k_coefficients.size()];
  all.push_back(weighted_sum_of(type, x, y));
  all.push_back(dots_of(type));
  return all;
}

class examiner {
 public:
  explicit examiner(std::uint64_t count)
      : here_(on_.context()),
        count_(count),
        host_{pinned(), pinned(), pinned()},
        device_{on_device(), on_device(), on_device()},
        workspace_(on_, gpu_place::device, dots_of(dtype::f32).on_device.workspace_bytes(count)),
        wanted_(count * sizeof(double)),
        stream_(on_) {}

  /// Compares all kernels for a type with the host's kernels, on `elements` elements. Returns true if all results are
  /// equal.
  bool examine(dtype type, std::uint64_t elements) {
    first_wrong_ = nullptr;
    std::uint64_t calls = 0, wrong = 0, done = 0;
    for (std::uint64_t chunk = 0; done < elements; ++chunk, done += count_) {
      draw(type, chunk);
      for (const call& each : calls_of(type, chunk)) {
        wrong += is_right(each, chunk + calls) ? 0U : 1U;
        ++calls;
      }
    }
    json line{{"dtype", name_of(type)}, {"elements", done}, {"calls", calls}, {"wrong", wrong}};
    if (wrong != 0) line["first_wrong"] = first_wrong_;
    answer(on_, "kernels", line);
    return wrong == 0;
  }

 private:
  gpu_memory pinned() const { return {on_, gpu_place::pinned, count_ * sizeof(double)}; }
  gpu_memory on_device() const { return {on_, gpu_place::device, (count_ + k_most_shift) * sizeof(double)}; }

  /// Draws the operands. Some elements of the second operand equal the elements of the first operand at the same
  /// positions, or differ from them only in the sign bit.
  void draw(dtype type, std::uint64_t chunk) {
    const std::size_t size = size_of(type);
    draw_patterns(type, count_, 2 * chunk, host_[0].data());
    draw_patterns(type, count_, 2 * chunk + 1, host_[1].data());
    for (std::uint64_t i = chunk % 16; i < count_; i += 16) {
      std::byte* const b = host_[1].data() + i * size;
      std::memcpy(b, host_[0].data() + i * size, size);
      if (i % 32 < 16) b[size - 1] ^= std::byte{0x80};
    }
  }

  /// Runs the kernel on the device and on the host, and compares the results. `variant` determines the alignment of the
  /// operands and whether the result is in place.
  bool is_right(const call& it, std::uint64_t variant) {
    const bool is_sums = it.on_device.has_two_passes();
    const std::uint64_t in_bytes = count_ * size_of(it.from);
    const std::uint64_t out_bytes = is_sums ? k_dot_sums * sizeof(double) : count_ * size_of(it.to);
    const auto shifted = [&](std::size_t operand, dtype type) {
      const std::uint64_t shift = variant % 2 == 0             ? 0
                                  : variant / 2 % 8 == operand ? 1
                                                               : variant / 16 % (k_most_shift + 1);
      return device_[operand].data() + shift * size_of(type);
    };
    std::byte *const a = shifted(0, it.from), *const b = shifted(1, it.from);
    const std::uint64_t place = it.may_be_in_place ? variant % 3 : 0;
    std::byte* const c = place == 1 ? a : place == 2 && it.has_b ? b : shifted(2, it.to);
    on_.copy(a, host_[0].data(), in_bytes, stream_);
    on_.copy(b, host_[1].data(), in_bytes, stream_);
    device_arguments with = it.with;
    with.a = a, with.b = it.has_b ? b : nullptr, with.c = c, with.workspace = workspace_.as<double>();
    with.count = count_;
    on_.launch(it.on_device, with, stream_);
    on_.copy(host_[2].data(), c, out_bytes, stream_);
    it.on_host(host_[0].data(), host_[1].data(), wanted_.data(), count_);
    on_.synchronise(stream_);
    if (std::memcmp(host_[2].data(), wanted_.data(), out_bytes) == 0) return true;
    note(it, out_bytes, variant);
    return false;
  }

  void note(const call& it, std::uint64_t out_bytes, std::uint64_t variant) {
    if (!first_wrong_.is_null()) return;
    const std::byte* const is = host_[2].data();
    const auto at = static_cast<std::uint64_t>(std::mismatch(is, is + out_bytes, wanted_.data()).first - is);
    const std::uint64_t element = at / size_of(it.to);
    const auto bits = [element](const std::byte* of, dtype type) {
      std::uint64_t value = 0;
      std::memcpy(&value, of + element * size_of(type), size_of(type));
      return value;
    };
    first_wrong_ = {{"kernel", it.name},
                    {"variant", variant},
                    {"element", element},
                    {"a", bits(host_[0].data(), it.from)},
                    {"b", bits(host_[1].data(), it.from)},
                    {"is", bits(is, it.to)},
                    {"wanted", bits(wanted_.data(), it.to)}};
  }

  gpu on_;
  cuda_scope here_;
  const std::uint64_t count_;
  std::array<gpu_memory, 3> host_, device_;
  gpu_memory workspace_;
  std::vector<std::byte> wanted_;
  gpu_stream stream_;
  json first_wrong_;
};

}  // namespace

bool examine_kernels(const effort& how) {
  examiner all(how.choose(k_chunk, k_quick_chunk));
  bool is_right = true;
  for (const dtype type : k_all_dtypes) {
    const std::uint64_t elements = type == dtype::f32 ? 100'000'000 : 10'000'000;
    is_right = all.examine(type, how.choose(elements, 3 * k_quick_chunk)) && is_right;
  }
  return is_right;
}

}  // namespace lsched::exam
