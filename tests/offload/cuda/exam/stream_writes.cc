// A stream writes a word into shared memory, alone or after other writes. This part measures the time until the host
// sees the word. It also checks that a host that sees the word sees the earlier writes, too.
#include <algorithm>

#include "tests/offload/cuda/exam/exam.h"

namespace lsched::exam {
namespace {

constexpr std::uint64_t k_data = 64 << 10;  ///< bytes of data that are written before the word
constexpr std::uint64_t k_begin = 4096;

struct stream_writer {
  shared_memory shared{k_begin + k_data};
  gpu on{};
  cuda_scope here{on.context()};
  registration registered{on, shared.data(), shared.bytes()};
  gpu_memory numbers{on, gpu_place::device, k_data}, zeros{on, gpu_place::device, k_data};
  gpu_memory host{on, gpu_place::pinned, k_data};
  gpu_stream stream{on, true};
  std::uint64_t value = 0;

  float* data() const { return reinterpret_cast<float*>(shared.data() + k_begin); }
  static constexpr std::uint64_t k_count = k_data / sizeof(float);

  void bring(float number, const gpu_memory& to) {
    std::fill_n(host.as<float>(), k_count, number);
    on.copy(to.data(), host.data(), k_data, stream);
    on.synchronise(stream);
  }

  /// Enqueues the work that precedes the write of the word.
  void put(std::string_view before) {
    if (before == "kernel") launch_nothing(on, stream);
    if (before == "copy of 64 KiB") on.copy(data(), numbers.data(), k_data, stream);
    if (before == "kernel that writes 64 KiB")
      on.launch(find_device_kernel(kernel::sum, dtype::f32).value(),
                {.a = numbers.data(), .b = zeros.data(), .c = data(), .count = k_count}, stream);
  }

  void ask(std::string_view before, std::uint64_t rounds) {
    std::vector<double> us;
    std::uint64_t stale = 0, unseen = 0;
    const bool has_data = before.ends_with("KiB");
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const auto number = static_cast<float>(++value);
      if (has_data) bring(number, numbers);
      put(before);
      on.write(shared.word(0), value, stream);
      const double took = us_until([&] { return seen_at(shared.word(0)) >= value; }, std::chrono::seconds(1));
      if (took < 0)
        ++unseen;
      else
        us.push_back(took);
      if (has_data && std::count(data(), data() + k_count, number) != static_cast<std::ptrdiff_t>(k_count)) ++stale;
      on.synchronise(stream);
    }
    json line{{"behind", before}, {"unseen", unseen}, {"stale", stale}};
    line.update(distribution(us));
    answer(on, "stream_writes", line);
    is_right = is_right && unseen == 0 && stale == 0;
  }
  bool is_right = true;
};

}  // namespace

bool ask_stream_writes(const effort& how) {
  stream_writer it;
  it.bring(0, it.zeros);
  for (const std::string_view before : {"nothing", "kernel", "copy of 64 KiB", "kernel that writes 64 KiB"})
    it.ask(before, how.choose(2000, 10));
  return it.is_right;
}

}  // namespace lsched::exam
