// Measures the library's kernels, in turn with copies of an operand. Before a cell is timed, its results are compared
// bit by bit with the results of the host's kernels.
#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "microbench/cuda/cuda_run.h"
#include "ops/adasum/adasum.h"
#include "ops/elementwise/elementwise.h"

namespace lsched::bench {
namespace {

constexpr std::array k_types{dtype::f32, dtype::bf16, dtype::f16, dtype::f64};
constexpr std::uint64_t k_group = k_dot_block * k_dot_group;
constexpr std::uint64_t k_repeat = 2 * k_group;  ///< period of the operands; all counts are multiples of this number
constexpr std::uint64_t k_divisor = 3;
constexpr double k_x = 0.75, k_y = 1.0 / 3;

enum class task : std::uint8_t { sum, convert, dots, scaled_add, divide };
constexpr std::array k_tasks{task::sum, task::convert, task::dots, task::scaled_add, task::divide};
constexpr std::array k_task_names{"sum", "convert", "dots", "scaled_add", "divide"};

/// Returns the type of the results. Conversions halve or double the size of a type.
dtype result_type(task what, dtype type) {
  if (what == task::dots) return dtype::f64;
  if (what != task::convert) return type;
  return type == dtype::f64 ? dtype::f32 : type == dtype::f32 ? dtype::bf16 : dtype::f32;
}

/// Returns the bytes that are read and written per element.
std::uint64_t bytes_of_element(task what, dtype type) {
  const std::uint64_t in = size_of(type), out = size_of(result_type(what, type));
  if (what == task::dots) return 2 * in;
  return what == task::convert || what == task::divide ? in + out : 2 * in + out;
}

device_kernel kernel_of(task what, dtype type) {
  switch (what) {
    case task::convert: return find_device_conversion(type, result_type(what, type)).value();
    case task::dots: return find_device_kernel(kernel::dot_norms, type).value();
    case task::scaled_add: return find_device_kernel(kernel::adasum, type).value();
    case task::divide: return find_device_kernel(kernel::divide, type).value();
    case task::sum: break;
  }
  return find_device_kernel(kernel::sum, type).value();
}

/// One period of both operands. The operands are periodic, so the expected results can be computed from one period.
struct content {
  explicit content(dtype of) : type(of), a(k_repeat * size_of(of)), b(a.size()) {
    std::mt19937 draw(7);
    std::vector<float> numbers(k_repeat);
    for (auto* to : {&a, &b}) {
      for (float& each : numbers) each = static_cast<float>(draw() % 4096) / 1024 - 2;
      find_convert(dtype::f32, type)(numbers.data(), numbers.size(), 1.0, to->data());
    }
  }
  dtype type;
  std::vector<std::byte> a, b;
};

/// Returns the expected dot products of vectors with `count` elements. Sums of groups are added in the order that
/// ops/adasum/adasum.h defines.
std::vector<std::byte> expected_dots(const content& of, std::uint64_t count) {
  const std::size_t group_bytes = k_group * size_of(of.type);
  std::array<std::array<double, k_dot_sums>, k_repeat / k_group> groups{};
  for (std::size_t g = 0; g < groups.size(); ++g)
    find_dot_norms(of.type)(of.a.data() + g * group_bytes, of.b.data() + g * group_bytes, k_group, groups[g].data());
  std::array<double, k_dot_sums> sums{};
  for (std::uint64_t g = 0; g < count / k_group; ++g)
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += groups[g % groups.size()][i];
  std::vector<std::byte> bits(sizeof sums);
  std::memcpy(bits.data(), sums.data(), sizeof sums);
  return bits;
}

/// Returns the expected results. For `dots` these are the sums over all `count` elements. For all other tasks they are
/// one period of the results.
std::vector<std::byte> expected(task what, const content& of, std::uint64_t count) {
  if (what == task::dots) return expected_dots(of, count);
  std::vector<std::byte> made(k_repeat * size_of(result_type(what, of.type)));
  const std::byte *a = of.a.data(), *b = of.b.data();
  if (what == task::sum) find_reduce(kernel::sum, of.type)(a, b, made.data(), k_repeat);
  if (what == task::convert) find_convert(of.type, result_type(what, of.type))(a, k_repeat, 1.0, made.data());
  if (what == task::scaled_add) find_scaled_add(of.type)(k_x, a, k_y, b, made.data(), k_repeat);
  if (what == task::divide) find_divide(of.type)(a, made.data(), k_repeat, k_divisor);
  return made;
}

/// The operands and results of one type and count.
class cells {
 public:
  cells(cuda_run& run, const content& of, std::uint64_t count)
      : run_(run),
        on_(run.on()),
        of_(of),
        count_(count),
        a_(on_, gpu_place::device, count * size_of(of.type)),
        b_(on_, gpu_place::device, a_.bytes()),
        c_(on_, gpu_place::device, std::max<std::uint64_t>(2 * a_.bytes(), 64)),  // fits the largest result
        workspace_(on_, gpu_place::device, kernel_of(task::dots, of.type).workspace_bytes(count)),
        stream_(on_) {
    bring(of.a, a_.data());
    bring(of.b, b_.data());
    on_.synchronise(stream_);
  }

  void measure(task what) {
    const auto name = std::string(k_task_names[static_cast<std::size_t>(what)]) + " " + std::string(name_of(of_.type)) +
                      ", " + std::to_string(count_) + " elements";
    if (run_.is_over()) return run_.leave_out(name, "no time");
    const std::uint64_t wrong = count_wrong(what), bytes = count_ * bytes_of_element(what, of_.type);
    const int batch = static_cast<int>(run_.choose(std::clamp<std::uint64_t>((1ull << 31) / bytes, 1, 50), 1));
    std::vector<way> ways{{[&] { return rate_of(bytes * wide(batch), us_of([&] { launch(what, batch); })); }},
                          {[&] { return rate_of(2 * a_.bytes() * wide(batch), us_of([&] { copy(batch); })); }}};
    run_.take_turns(ways, run_.choose(9, 1), 0.3);
    const double copied = tails_of(ways[1].samples).median;
    result line{{"kind", "kernel"},
                {"kernel", k_task_names[static_cast<std::size_t>(what)]},
                {"dtype", name_of(of_.type)},
                {"count", count_},
                {"bytes", bytes},
                {"wrong", wrong}};
    cuda_run::put_rate(line, ways[0].samples);
    const double rate = line["gb_per_s"].get<double>();
    line["ms"] = static_cast<double>(bytes) / rate / 1e6;
    line["copy_gb_per_s"] = copied;
    line["of_ceiling"] = rate / copied;
    run_.add(line);
  }

 private:
  static std::uint64_t wide(int number) { return static_cast<std::uint64_t>(number); }

  void bring(const std::vector<std::byte>& period, std::byte* to) const {
    const std::uint64_t bytes = count_ * size_of(of_.type);
    for (std::uint64_t at = 0; at < bytes; at += period.size())
      on_.copy(to + at, period.data(), period.size(), stream_);
  }

  void launch(task what, int times) {
    const device_arguments with{.a = a_.data(),
                                .b = b_.data(),
                                .c = c_.data(),
                                .workspace = workspace_.as<double>(),
                                .count = count_,
                                .divisor = k_divisor,
                                .x = what == task::convert ? 1.0 : k_x,
                                .y = k_y};
    const device_kernel it = kernel_of(what, of_.type);
    for (int i = 0; i < times; ++i) on_.launch(it, with, stream_);
    on_.synchronise(stream_);
  }

  void copy(int times) {
    for (int i = 0; i < times; ++i) on_.copy(c_.data(), a_.data(), a_.bytes(), stream_);
    on_.synchronise(stream_);
  }

  /// Compares the first and the last period of the results. Returns the number of wrong periods.
  std::uint64_t count_wrong(task what) {
    launch(what, 1);
    const std::vector<std::byte> wanted = expected(what, of_, count_);
    std::vector<std::byte> is(wanted.size());
    const std::uint64_t end = what == task::dots ? is.size() : count_ * size_of(result_type(what, of_.type));
    std::uint64_t wrong = 0;
    for (const std::uint64_t from : {std::uint64_t{0}, end - is.size()}) {
      on_.copy(is.data(), c_.data() + from, is.size(), stream_);
      on_.synchronise(stream_);
      wrong += is == wanted ? 0U : 1U;
    }
    return wrong;
  }

  cuda_run& run_;
  const gpu& on_;
  const content& of_;
  const std::uint64_t count_;
  gpu_memory a_, b_, c_, workspace_;
  gpu_stream stream_;
};

}  // namespace

void measure_kernels(cuda_run& run) {
  const cuda_scope here(run.on().context());
  constexpr std::uint64_t k_mib = 1 << 20;
  for (const dtype type : k_types) {
    const content of(type);
    std::vector<std::uint64_t> counts{k_repeat};
    if (!run.is_quick())
      counts = {k_mib / size_of(type), 16 * k_mib / size_of(type), 256 * k_mib / size_of(type), 1ull << 28};
    for (const std::uint64_t count : counts)
      run.try_to(std::string(name_of(type)) + ", " + std::to_string(count) + " elements", [&] {
        cells all(run, of, count);
        for (const task what : k_tasks) all.measure(what);
      });
  }
  run.print({column("kernel", "kernel"), column("type", "dtype"), column("elements", "count"),
             column("GB/s", "gb_per_s", 1), column("least", "gb_per_s_min", 1), column("most", "gb_per_s_max", 1),
             column("of copy", "of_ceiling", 2), k_wrong});
}

}  // namespace lsched::bench
