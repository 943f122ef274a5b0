// Measures libsched's allreduces of device memory. Compares these allreduces with programs that copy the whole vector
// to the host, run an allreduce of host memory, and copy the result back. The variants of a size take turns over the
// same buffers.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "microbench/cuda/ranks.h"

namespace lsched::bench {
namespace {

constexpr std::uint64_t k_period = 64 * 1024;  ///< number of elements after which inputs repeat
constexpr std::array<std::uint64_t, 4> k_segments{256 << 10, 1 << 20, 4 << 20, 8 << 20};
constexpr std::uint64_t k_least_in_segments = 16 << 20;

/// A vector of `size` bytes. The elements are floats if possible. Sums are small whole numbers, so they are exact in
/// any order.
struct vector_kind {
  explicit vector_kind(std::uint64_t size)
      : bytes(size), is_float(size % sizeof(float) == 0), count(is_float ? size / sizeof(float) : size) {}
  std::uint64_t bytes;
  bool is_float;
  std::uint64_t count;

  std::size_t element() const { return is_float ? sizeof(float) : 1; }
  lsched_dtype type() const { return is_float ? LSCHED_F32 : LSCHED_U8; }

  /// Returns one period of the sum of the inputs of `ranks` ranks, beginning with rank `first`. For one rank this is
  /// the input of that rank.
  std::vector<std::byte> period(int first, int ranks) const {
    std::vector<std::byte> made(std::min(count, k_period) * element());
    for (std::uint64_t i = 0; i < made.size() / element(); ++i) {
      unsigned value = 0;
      for (int r = first; r < first + ranks; ++r)
        value += static_cast<unsigned>(i * 7 + static_cast<unsigned>(r) * 3) % 16;
      if (const auto number = static_cast<float>(value); is_float)
        std::memcpy(made.data() + i * sizeof number, &number, sizeof number);
      else
        made[i] = static_cast<std::byte>(value);
    }
    return made;
  }
};

/// The buffers, schedules and variants of one size.
class cell_of_size {
 public:
  cell_of_size(cuda_run& run, team& ranks, std::uint64_t bytes)
      : run_(run),
        on_(run.on()),
        ranks_(ranks),
        kind_(bytes),
        input_(on_, gpu_place::device, bytes),
        output_(on_, gpu_place::device, bytes),
        pinned_(on_, gpu_place::pinned, bytes),
        pageable_(bytes, std::byte{1}),
        stream_(on_) {
    const std::vector<std::byte> given = kind_.period(ranks.rank(), 1);
    for (std::uint64_t at = 0; at < bytes; at += given.size())
      on_.copy(input_.data() + at, given.data(), std::min<std::uint64_t>(given.size(), bytes - at), stream_);
    on_.synchronise(stream_);
    add_naive("naive_pageable", pageable_.data());
    add_naive("naive_pinned", pinned_.data());
    add_staged(nullptr, 0);
    if (bytes < k_least_in_segments) return;
    for (const char* algorithm : {"direct", "ring"})
      for (const std::uint64_t segment : k_segments) add_staged(algorithm, segment);
  }

  void measure() {
    for (shared_turns::way& each : ways_) check(each);
    shared_turns(run_, ranks_).take(ways_, run_.choose(200, 3), run_.options().seconds / 15);
    for (shared_turns::way& each : ways_) add_line(each);
    for (schedule_handle& each : schedules_) close(std::move(each));
  }

 private:
  lsched_collective_desc sum_of(const void* input, void* output) const {
    return {.struct_size = sizeof(lsched_collective_desc),
            .collective = "allreduce",
            .input = input,
            .output = output,
            .count = kind_.count,
            .dtype = kind_.type(),
            .reduction = LSCHED_SUM};
  }

  /// Creates a schedule. If that fails, prints the reason and returns nullptr.
  lsched_schedule* create(const lsched_collective_desc& desc, const std::string& what) {
    lsched_schedule* made = nullptr;
    lsched_diagnostic why = fresh_diagnostic();
    const lsched_status answer = lsched_collective_create(ranks_.runtime(), &desc, &made, &why);
    if (answer != LSCHED_OK) {
      run_.leave_out("allreduce of " + size_text(kind_.bytes) + ", " + what, why.text);
      return nullptr;
    }
    schedules_.emplace_back(made);
    return made;
  }

  /// Adds a variant that copies the whole vector to the host, runs libsched's allreduce of host memory, and copies the
  /// result back.
  void add_naive(const char* name, std::byte* host) {
    lsched_schedule* const made = create(sum_of(host, host), name);
    if (made == nullptr) return;
    add_way(name, "auto", 0, [this, host, made] {
      on_.copy(host, input_.data(), kind_.bytes, stream_);
      on_.synchronise(stream_);
      run(made);
      on_.copy(output_.data(), host, kind_.bytes, stream_);
      on_.synchronise(stream_);
    });
  }

  void add_staged(const char* algorithm, std::uint64_t segment) {
    lsched_collective_desc desc = sum_of(input_.data(), output_.data());
    desc.algorithm = algorithm;
    desc.segment_bytes = segment;
    const std::string name = algorithm == nullptr ? "auto" : algorithm;
    lsched_schedule* const made = create(desc, "staged, " + name + " by " + size_text(segment));
    if (made == nullptr) return;
    add_way("staged", name, segment, [made] { run(made); });
    ways_.back().keys["chosen"] = algorithm_of(made);
  }

  void add_way(const char* name, const std::string& algorithm, std::uint64_t segment, std::function<void()> round) {
    ways_.push_back({.keys = {{"kind", "allreduce"},
                              {"as", run_.options().as_threads ? "threads" : "processes"},
                              {"way", name},
                              {"algorithm", algorithm},
                              {"dtype", kind_.is_float ? "f32" : "u8"},
                              {"bytes", kind_.bytes},
                              {"segment", segment}},
                     .round = std::move(round)});
  }

  /// Runs a round, and checks the whole result.
  void check(shared_turns::way& each) {
    std::memset(pinned_.data(), 0xA5, kind_.bytes);
    on_.copy(output_.data(), pinned_.data(), kind_.bytes, stream_);
    on_.synchronise(stream_);
    ranks_.barrier();
    each.round();
    on_.copy(pinned_.data(), output_.data(), kind_.bytes, stream_);
    on_.synchronise(stream_);
    const std::vector<std::byte> wanted = kind_.period(0, ranks_.size());
    for (std::uint64_t at = 0; at < kind_.bytes; at += wanted.size())
      if (std::memcmp(pinned_.data() + at, wanted.data(), std::min<std::uint64_t>(wanted.size(), kind_.bytes - at)) !=
          0)
        each.wrong = 1;
  }

  void add_line(const shared_turns::way& each) {
    const tails us = tails_of(each.us);
    result line = each.keys;
    line["ms"] = us.median / 1e3;
    line["ms_min"] = us.min / 1e3;
    line["ms_max"] = us.max / 1e3;
    line["cpu_ms"] = each.cpu_ms;
    line["rounds"] = us.samples;
    line["wrong"] = each.wrong;
    run_.add(line);
  }

  cuda_run& run_;
  const gpu& on_;
  team& ranks_;
  const vector_kind kind_;
  gpu_memory input_, output_, pinned_;
  std::vector<std::byte> pageable_;
  gpu_stream stream_;
  std::vector<schedule_handle> schedules_;
  std::vector<shared_turns::way> ways_;
};

/// Returns true if the host has enough memory for two buffers of each rank and for the staging memory of messages.
bool fits(std::uint64_t bytes, int ranks) {
  const auto free_bytes =
      static_cast<std::uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes * static_cast<std::uint64_t>(ranks) * 6 < free_bytes;
}

}  // namespace

void measure_allreduce(cuda_run& run, team& ranks) {
  std::vector<std::uint64_t> sizes{1, 1024, 65536};
  if (!run.is_quick())
    sizes = {1, 1 << 10, 16 << 10, 128 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30};
  double s_per_byte = 0;  // time per byte of the previous size
  for (const std::uint64_t bytes : sizes) {
    const std::string what = "allreduce of " + size_text(bytes);
    const auto begin = clock::now();
    const bool is_small = bytes <= k_least_in_segments;
    const double expected_s = is_small ? 0 : s_per_byte * static_cast<double>(bytes);
    if (!ranks.root_says(!run.is_over() && expected_s < run.seconds_left() + 10))
      run.leave_out(what, "no time");
    else if (!ranks.root_says(fits(bytes, ranks.size())))
      run.leave_out(what, "no memory");
    else {
      cell_of_size(run, ranks, bytes).measure();
      s_per_byte = ms_between(begin, clock::now()) / 1e3 / static_cast<double>(bytes);
    }
  }
  run.print({column("size", "bytes"), column("way", "way"), column("algorithm", "algorithm"),
             column("chosen", "chosen"), column("segment", "segment"), column("median ms", "ms", 4),
             column("least", "ms_min", 4), column("most", "ms_max", 4), column("cpu ms", "cpu_ms", 3), k_wrong});
}

}  // namespace lsched::bench
