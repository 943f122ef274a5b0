// Describes the GPU, and measures its maximum rates of memory access. Other numbers are compared with these maxima.
#include <algorithm>
#include <array>

#include "microbench/cuda/cuda_run.h"

namespace lsched::bench {
namespace {

void add_machine(cuda_run& run) {
  const gpu& on = run.on();
  result line{{"kind", "machine"},
              {"gpu", on.context().name()},
              {"sms", on.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)},
              {"l2_bytes", on.attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)},
              {"copy_engines", on.attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)},
              {"driver", on.cuda().version},
              {"memory_operations", on.attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) != 0}};
  run.out().say("%s, driver %d%s", on.context().name().c_str(), on.cuda().version,
                on.is_fake() ? ", FAKE: the numbers below are not those of a GPU" : "");
  run.add(line);
  run.print({column("GPU", "gpu"), column("SMs", "sms"), column("copy engines", "copy_engines"),
             column("driver", "driver"), column("streams wait", "memory_operations")});
}

/// Measures rates of copies. A copy has `bytes_` bytes, and several copies are in flight at a time.
class ceilings {
 public:
  ceilings(const gpu& on, std::uint64_t bytes)
      : on_(on),
        bytes_(bytes),
        near_(on_, gpu_place::device, bytes),
        other_(on_, gpu_place::device, bytes),
        host_in_(on_, gpu_place::pinned, bytes),
        host_out_(on_, gpu_place::pinned, bytes),
        sums_(on_, gpu_place::device, 64),
        workspace_(on_, gpu_place::device, dots_.workspace_bytes(bytes / sizeof(float))),
        streams_{gpu_stream(on_), gpu_stream(on_)} {
    // If pages were not written first, the system might map all of them to a single physical page.
    std::fill_n(host_in_.data(), bytes, std::byte{1});
    std::fill_n(host_out_.data(), bytes, std::byte{1});
    on_.copy(near_.data(), host_in_.data(), bytes, streams_[0]);
    on_.copy(other_.data(), host_in_.data(), bytes, streams_[0]);
    on_.synchronise(streams_[0]);
  }

  double copy() {
    return timed(2 * bytes_, [&] { on_.copy(other_.data(), near_.data(), bytes_, streams_[0]); });
  }
  double down() {
    return timed(bytes_, [&] { on_.copy(host_out_.data(), near_.data(), bytes_, streams_[0]); });
  }
  double up() {
    return timed(bytes_, [&] { on_.copy(other_.data(), host_in_.data(), bytes_, streams_[0]); });
  }
  double both_ways() {
    return timed(2 * bytes_, [&] {
      on_.copy(host_out_.data(), near_.data(), bytes_, streams_[0]);
      on_.copy(other_.data(), host_in_.data(), bytes_, streams_[1]);
    });
  }
  /// Returns the rate of reads. The kernel computes dot products of two vectors, each with half of the bytes, and
  /// writes almost nothing.
  double read() {
    const std::uint64_t count = bytes_ / 2 / sizeof(float);
    const auto* floats = near_.as<float>();
    return timed(bytes_, [&] {
      on_.launch(
          dots_,
          {.a = floats, .b = floats + count, .c = sums_.data(), .workspace = workspace_.as<double>(), .count = count},
          streams_[0]);
    });
  }

 private:
  template <class Job>
  double timed(std::uint64_t bytes, const Job& job) {
    constexpr int k_batch = 4;
    const double us = us_of([&] {
      for (int i = 0; i < k_batch; ++i) job();
      for (const gpu_stream& each : streams_) on_.synchronise(each);
    });
    return rate_of(bytes * k_batch, us);
  }

  const gpu& on_;
  const std::uint64_t bytes_;
  const device_kernel dots_ = find_device_kernel(kernel::dot_norms, dtype::f32).value();
  gpu_memory near_, other_, host_in_, host_out_, sums_, workspace_;
  std::array<gpu_stream, 2> streams_;
};

void measure_ceilings(cuda_run& run, std::uint64_t bytes) {
  ceilings of(run.on(), bytes);
  constexpr std::array k_ceilings{"copy", "read", "down", "up", "both_ways"};
  std::vector<way> ways{{[&] { return of.copy(); }},
                        {[&] { return of.read(); }},
                        {[&] { return of.down(); }},
                        {[&] { return of.up(); }},
                        {[&] { return of.both_ways(); }}};
  for (way& each : ways) (void)each.sample();
  run.take_turns(ways, run.choose(15, 2), 4);
  for (std::size_t i = 0; i < ways.size(); ++i) {
    result line{{"kind", "ceiling"}, {"what", k_ceilings[i]}, {"bytes", bytes}};
    cuda_run::put_rate(line, ways[i].samples);
    run.add(line);
  }
}

}  // namespace

void measure_machine(cuda_run& run) {
  const cuda_scope here(run.on().context());
  add_machine(run);
  constexpr std::uint64_t k_mib = 1 << 20;
  const std::vector<std::uint64_t> sizes =
      run.is_quick() ? std::vector{k_mib / 16} : std::vector{k_mib, 16 * k_mib, 256 * k_mib, 1024 * k_mib};
  for (const std::uint64_t bytes : sizes)
    run.try_to("ceilings of " + size_text(bytes), [&] { measure_ceilings(run, bytes); });
  run.print({column("ceiling", "what"), column("bytes", "bytes"), column("GB/s", "gb_per_s", 1),
             column("least", "gb_per_s_min", 1), column("most", "gb_per_s_max", 1), column("samples", "samples")});
}

}  // namespace lsched::bench
