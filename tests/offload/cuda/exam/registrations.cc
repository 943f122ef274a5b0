// Registers shared memory several times: adjacent pieces, the same memory at two addresses of a process, and the same
// memory in two processes. Also examines copies that span two pieces.
#include <sys/mman.h>

#include <algorithm>
#include <memory>

#include "tests/offload/cuda/exam/exam.h"

namespace lsched::exam {
namespace {

constexpr std::uint64_t k_page = 4096;

/// Adds one to every number of the memory, in place, by a device kernel. Returns whether all sums are right.
bool adds_one(const gpu& on, std::byte* memory, std::uint64_t bytes) {
  auto* const numbers = reinterpret_cast<float*>(memory);
  const std::uint64_t count = bytes / sizeof(float);
  const gpu_memory ones(on, gpu_place::pinned, bytes);
  std::fill_n(ones.as<float>(), count, 1.0F);
  std::fill_n(numbers, count, 41.0F);
  const gpu_stream stream(on);
  on.launch(find_device_kernel(kernel::sum, dtype::f32).value(),
            {.a = numbers, .b = ones.data(), .c = numbers, .count = count}, stream);
  on.synchronise(stream);
  return std::count(numbers, numbers + count, 42.0F) == static_cast<std::ptrdiff_t>(count);
}

bool ask_pieces(const gpu& on, std::uint64_t bytes, std::uint64_t pieces) {
  shared_memory shared(bytes);
  std::vector<std::unique_ptr<registration>> all;
  const std::uint64_t piece = bytes / pieces;
  const double us = bench::us_of([&] {
    for (std::uint64_t i = 0; i < pieces; ++i)
      all.push_back(std::make_unique<registration>(on, shared.data() + i * piece, piece));
  });
  const bool is_right = adds_one(on, shared.data(), bytes);
  json line{{"pieces", pieces}, {"bytes", bytes}, {"us_in_all", us}, {"kernel over all is right", is_right}};
  if (pieces > 1) {
    const gpu_memory device(on, gpu_place::device, k_page);
    const gpu_stream stream(on);
    line["copy across two"] = static_cast<int>(on.cuda().cuMemcpyAsync(
        bench::address_of(device.data()), bench::address_of(shared.data() + piece - k_page / 2), k_page, stream));
  }
  answer(on, "registrations", line);
  return is_right;
}

bool ask_twice(const gpu& on) {
  const std::uint64_t bytes = 1 << 20;
  shared_memory shared(bytes);
  const registration first(on, shared.data(), bytes);
  const auto flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  json line{{"again", static_cast<int>(on.cuda().cuMemHostRegister(shared.data(), bytes, flags))}};
  line["a part of it again"] = static_cast<int>(on.cuda().cuMemHostRegister(shared.data() + k_page, k_page, flags));
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared.file(), 0);
  if (mapped == MAP_FAILED) throw bench::failed("shared memory cannot be mapped twice");
  auto* const other = static_cast<std::byte*>(mapped);
  bool is_right = false;
  {
    const registration second(on, other, bytes);
    is_right = adds_one(on, shared.data(), bytes) && adds_one(on, other, bytes);
  }
  is_right = is_right && adds_one(on, shared.data(), bytes);
  munmap(mapped, bytes);
  line["in two places is right"] = is_right;
  answer(on, "registrations", line);
  return is_right;
}

bool is_shown(const shared_memory& shared, std::size_t line) {
  return us_until([&] { return seen_at(shared.word(line)) == 1; }, std::chrono::seconds(8)) >= 0;
}

/// Waits until the other process has registered the memory, too, and then writes the memory with the device. Keeps the
/// registration until the other process has read the result.
bool write_for_another(const shared_memory& shared) {
  const gpu on;
  const cuda_scope here(on.context());
  const registration registered(on, shared.data(), shared.bytes());
  show_at(shared.word(0), 1);
  const bool is_right = is_shown(shared, 1) && adds_one(on, shared.data() + k_page, shared.bytes() - k_page);
  show_at(shared.word(2), 1);
  return is_shown(shared, 3) && is_right;
}

bool read_of_another(const shared_memory& shared) {
  const gpu on;
  const cuda_scope here(on.context());
  const registration registered(on, shared.data(), shared.bytes());
  const bool has_come = is_shown(shared, 0);
  show_at(shared.word(1), 1);
  const bool is_there = has_come && is_shown(shared, 2);
  const auto* const numbers = reinterpret_cast<const float*>(shared.data() + k_page);
  const auto count = static_cast<std::ptrdiff_t>((shared.bytes() - k_page) / sizeof(float));
  const bool is_seen = is_there && std::count(numbers, numbers + count, 42.0F) == count;
  const bool is_right = is_seen && adds_one(on, shared.data() + k_page, shared.bytes() - k_page);
  show_at(shared.word(3), 1);
  answer(on, "registrations", {{"in two processes is right", is_right}});
  return is_right;
}

bool ask_two_processes() {
  const shared_memory shared(1 << 20);
  forked writer([&] { return write_for_another(shared); });
  forked reader([&] { return read_of_another(shared); });
  const bool is_right = reader.ends_well(10);
  return writer.ends_well(10) && is_right;
}

}  // namespace

bool ask_registrations(const effort& how) {
  bool is_right = ask_two_processes();
  const gpu on;
  const cuda_scope here(on.context());
  is_right = ask_twice(on) && is_right;
  const std::uint64_t bytes = how.choose(64 << 20, 1 << 20);
  for (const std::uint64_t pieces : {1U, 2U, 4U, 16U, 64U}) is_right = ask_pieces(on, bytes, pieces) && is_right;
  return is_right;
}

}  // namespace lsched::exam
