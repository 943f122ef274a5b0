// Runs random collectives over random types and counts. The buffers of each rank are in host, pinned or device memory,
// chosen at random. The host or streams start rounds. The result must have the bits of the same collective over host
// memory. The seed alone determines a collective. If a result is wrong, the program prints the seed.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "bindings/c/lsched_cuda.h"
#include "collectives/registry.h"
#include "tests/offload/cuda/exam/bit_patterns.h"
#include "tests/offload/cuda/exam/exam.h"

namespace lsched::exam {
namespace {

constexpr std::uint64_t k_segment_bytes = std::uint64_t{128} << 10;

constexpr std::uint64_t k_limit_ns = 30'000'000'000;
constexpr std::array k_types{LSCHED_I8,  LSCHED_U8,   LSCHED_I32, LSCHED_I64, LSCHED_U64,
                             LSCHED_F16, LSCHED_BF16, LSCHED_F32, LSCHED_F64};

void expect_ok(lsched_status answer, const char* call, const lsched_diagnostic& why) {
  bench::expect_ok(answer, call, why);
}

/// A collective and its properties. `gives` and `gets` state which ranks have an input and an output. Each input or
/// output is one block of `count` elements, or one block for each rank.
struct collective_shape {
  const char* name;
  bool reduces, has_root, can_be_in_place;
  enum class who : std::uint8_t { nobody, all, root, others };
  who gives, gets;
  bool gives_all_blocks, gets_all_blocks;
};
using who = collective_shape::who;
constexpr std::array k_shapes{
    collective_shape{"allreduce", true, false, true, who::all, who::all, false, false},
    collective_shape{"allreduce", true, false, true, who::all, who::all, false, false},
    collective_shape{"adasum", false, false, true, who::all, who::all, false, false},
    collective_shape{"reduce", true, true, false, who::all, who::root, false, false},
    collective_shape{"scan", true, false, true, who::all, who::all, false, false},
    collective_shape{"exscan", true, false, true, who::all, who::all, false, false},
    collective_shape{"reduce_scatter_block", true, false, true, who::all, who::all, true, false},
    collective_shape{"bcast", false, true, false, who::root, who::others, false, false},
    collective_shape{"gather", false, true, false, who::all, who::root, false, true},
    collective_shape{"scatter", false, true, false, who::root, who::all, true, false},
    collective_shape{"allgather", false, false, false, who::all, who::all, false, true},
    collective_shape{"alltoall", false, false, true, who::all, who::all, true, true}};

class draws {
 public:
  explicit draws(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t below(std::uint64_t limit) { return mix(mix(seed_) + ++number_) % limit; }

 private:
  std::uint64_t seed_, number_ = 0;
};

/// The parameters of one collective. All ranks have the same parameters.
struct task {
  const collective_shape* shape;
  std::size_t type;
  std::uint64_t count;
  lsched_reduction reduction = static_cast<lsched_reduction>(0);
  std::int32_t root = 0;
  std::string algorithm;
  bool in_place;
  int rounds;

  dtype elements() const { return k_all_dtypes[type]; }
};

std::vector<std::string> algorithms_of(std::string_view collective) {
  std::vector<std::string> names;
  for (const algorithm& each : algorithms())
    if (each.of->name == collective) names.emplace_back(each.name);
  return names;
}

task draw_task(std::uint64_t seed, std::int32_t ranks, std::uint64_t most) {
  draws draw(seed);
  task it{.shape = &k_shapes[draw.below(k_shapes.size())], .type = draw.below(k_types.size())};
  const bool is_adaptive = std::string_view(it.shape->name) == "adasum";
  if (is_adaptive) it.type = 5 + draw.below(4);
  it.count = draw.below(16) == 0 ? 0 : draw.below(1 + (most >> draw.below(20)));
  while (it.shape->reduces && !supports(static_cast<kernel>(it.reduction), it.elements()))
    it.reduction = static_cast<lsched_reduction>(LSCHED_SUM + static_cast<int>(draw.below(k_all_reductions.size())));
  if (it.shape->has_root) it.root = static_cast<std::int32_t>(draw.below(static_cast<std::uint64_t>(ranks)));
  const std::vector<std::string> names = algorithms_of(it.shape->name);
  it.algorithm = draw.below(2) == 0 ? "auto" : names[draw.below(names.size())];
  it.in_place = it.shape->can_be_in_place && draw.below(4) == 0;
  it.rounds = static_cast<int>(1 + draw.below(3));
  return it;
}

/// A buffer in memory of any kind.
class buffer {
 public:
  enum class kind : std::uint8_t { host, pinned, device };

  buffer(const gpu& on, kind where, std::uint64_t bytes) : on_(on), where_(where), bytes_(bytes) {
    if (where == kind::host)
      host_.resize(bytes + 1);
    else
      memory_.emplace(on, where == kind::device ? gpu_place::device : gpu_place::pinned, bytes);
  }
  std::byte* data() { return memory_ ? memory_->data() : host_.data(); }
  bool is_on_device() const { return where_ == kind::device; }

  /// Writes device memory in the order of the stream, and other memory at once.
  void write(const std::byte* from, CUstream in) {
    if (is_on_device())
      on_.copy(data(), from, bytes_, in);
    else
      std::memcpy(data(), from, bytes_);
  }
  void read(std::byte* into, CUstream in) {
    if (is_on_device())
      on_.copy(into, data(), bytes_, in);
    else
      std::memcpy(into, data(), bytes_);
  }

 private:
  const gpu& on_;
  kind where_;
  std::uint64_t bytes_;
  std::vector<std::byte> host_;
  std::optional<gpu_memory> memory_;
};

/// Runs a task twice on one rank, with the same input. The buffers are once in host memory, and once in random places.
class trial {
 public:
  trial(const gpu& on, lsched_world* world, const task& it, std::uint64_t seed)
      : on_(on),
        it_(it),
        world_(world),
        rank_(lsched_rank(world)),
        seed_(mix(seed) + static_cast<std::uint64_t>(rank_)),
        in_bytes_(bytes_of(it.shape->gives, it.shape->gives_all_blocks)),
        out_bytes_(bytes_of(it.shape->gets, it.shape->gets_all_blocks)),
        given_(on, gpu_place::pinned, std::max(in_bytes_, out_bytes_)),
        taken_(on, gpu_place::pinned, std::max(in_bytes_, out_bytes_)),
        streams_{gpu_stream(on), gpu_stream(on)},
        in_host_(make_side(buffer::kind::host, buffer::kind::host)),
        placed_(make_side(draw_kind(), draw_kind())) {}

  /// Runs the task twice and compares the results. Returns nullopt on all ranks if no algorithm supports the task.
  /// Otherwise returns the error, or an empty text.
  std::optional<std::string> run() {
    if (!create(in_host_, false)) return std::nullopt;
    create(placed_, true);
    std::string wrong;
    for (int round = 0; round < it_.rounds; ++round)
      if (!run_round(round) && wrong.empty()) wrong = "round " + std::to_string(round) + where();
    for (side* each : {&in_host_, &placed_}) bench::close(std::move(each->schedule));
    return wrong;
  }

 private:
  struct side {
    std::unique_ptr<buffer> input, output;  ///< in place, `input` is null
    bench::schedule_handle schedule{};
  };

  std::uint64_t bytes_of(who has, bool all_blocks) const {
    const bool is_root = rank_ == it_.root;
    if (has == who::nobody || (has == who::root && !is_root) || (has == who::others && is_root)) return 0;
    const auto blocks = static_cast<std::uint64_t>(all_blocks ? lsched_size(world_) : 1);
    return it_.count * blocks * size_of(it_.elements());
  }
  bool has(who those) const {
    const bool is_root = rank_ == it_.root;
    return those == who::all || (those == who::root && is_root) || (those == who::others && !is_root);
  }

  buffer::kind draw_kind() { return static_cast<buffer::kind>(std::min<std::uint64_t>(draw_.below(4), 2)); }

  side make_side(buffer::kind input, buffer::kind output) const {
    side made;
    const std::uint64_t most = std::max(in_bytes_, out_bytes_);
    if (it_.in_place) {
      made.output = std::make_unique<buffer>(on_, output, most);
      return made;
    }
    if (has(it_.shape->gives)) made.input = std::make_unique<buffer>(on_, input, in_bytes_);
    if (has(it_.shape->gets)) made.output = std::make_unique<buffer>(on_, output, out_bytes_);
    return made;
  }

  std::string where() const {
    const auto word = [](const std::unique_ptr<buffer>& it) {
      return it == nullptr ? "none" : it->is_on_device() ? "device" : "host";
    };
    return std::string(", input ") + word(placed_.input) + ", output " + word(placed_.output);
  }

  /// Creates the schedule. Returns false if no algorithm supports the task. If the task is supported in host memory, it
  /// must be supported in every placement.
  bool create(side& of, bool must_succeed) {
    std::byte* const output = of.output ? of.output->data() : nullptr;
    lsched_collective_desc desc{.struct_size = sizeof desc,
                                .collective = it_.shape->name,
                                .input = it_.in_place ? output
                                         : of.input   ? of.input->data()
                                                      : nullptr,
                                .output = output,
                                .count = it_.count,
                                .dtype = k_types[it_.type],
                                .reduction = it_.reduction,
                                .root = it_.root,
                                .algorithm = it_.algorithm.c_str()};
    const bool has_segments = std::string_view(it_.shape->name).find("adasum") == std::string_view::npos;
    if (has_segments) desc.segment_bytes = k_segment_bytes;  // needed because some ranks may have no device memory
    lsched_schedule* made = nullptr;
    lsched_diagnostic why = bench::fresh_diagnostic();
    const lsched_status answer = lsched_collective_create(world_, &desc, &made, &why);
    if (!must_succeed && answer == LSCHED_ERR_CONSTRAINT) return false;
    expect_ok(answer, "lsched_collective_create", why);
    of.schedule.reset(made);
    return true;
  }

  bool run_round(int round) {
    const std::uint64_t most = std::max(in_bytes_, out_bytes_);
    draw_patterns(it_.elements(), most / size_of(it_.elements()), seed_ + 1000 * static_cast<std::uint64_t>(round),
                  given_.data());
    fill(in_host_, streams_[0]);
    lsched_diagnostic why = bench::fresh_diagnostic();
    expect_ok(lsched_run(in_host_.schedule.get(), k_limit_ns, &why), "lsched_run in host memory", why);
    run_placed();
    const std::uint64_t compared = it_.in_place || has(it_.shape->gets) ? out_bytes_ : 0;
    return compared == 0 || std::memcmp(in_host_.output->data(), taken_.data(), compared) == 0;
  }

  /// Copies the input to the buffers. The source is pinned memory that does not change until the round is over.
  void fill(side& of, CUstream in) {
    if (of.output) of.output->write(given_.data(), in);
    if (of.input) of.input->write(given_.data(), in);
  }

  void run_placed() {
    lsched_diagnostic why = bench::fresh_diagnostic();
    const CUstream before = streams_[0], behind = streams_[draw_.below(2)];
    fill(placed_, before);
    if (draw_.below(2) == 0) {
      on_.synchronise(before);
      expect_ok(lsched_run(placed_.schedule.get(), k_limit_ns, &why), "lsched_run", why);
    } else {
      lsched_ticket ticket{};
      expect_ok(lsched_start_on_stream(placed_.schedule.get(), before, &ticket), "lsched_start_on_stream", why);
      expect_ok(lsched_wait_on_stream(ticket, behind), "lsched_wait_on_stream", why);
      if (placed_.output && placed_.output->is_on_device()) placed_.output->read(taken_.data(), behind);
      on_.synchronise(behind);
      expect_ok(lsched_wait(ticket, k_limit_ns, &why), "lsched_wait", why);
      if (placed_.output && placed_.output->is_on_device()) return;
    }
    if (placed_.output) placed_.output->read(taken_.data(), behind);
    on_.synchronise(behind);
  }

  const gpu& on_;
  const task& it_;
  lsched_world* world_;
  const std::int32_t rank_;
  const std::uint64_t seed_;
  draws draw_{seed_};
  const std::uint64_t in_bytes_, out_bytes_;
  gpu_memory given_, taken_;
  std::array<gpu_stream, 2> streams_;
  side in_host_, placed_;
};

void say_wrong(std::uint64_t seed, const task& it, std::int32_t rank, const std::string& what) {
  const json line{{"exam", "fuzz"},
                  {"seed", seed},
                  {"rank", rank},
                  {"collective", it.shape->name},
                  {"algorithm", it.algorithm},
                  {"dtype", name_of(it.elements())},
                  {"reduction", static_cast<int>(it.reduction)},
                  {"count", it.count},
                  {"root", it.root},
                  {"in_place", it.in_place},
                  {"wrong", what}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

/// An allreduce with the operation maximum. By this allreduce, the ranks agree on whether to continue, and on whether a
/// result was wrong.
class agreement {
 public:
  explicit agreement(lsched_world* world) : here_(bench::make_allreduce(world, &mine_, &all_, 1, LSCHED_MAX)) {}
  double most(double value) {
    mine_ = value;
    bench::run(here_.get());
    return all_;
  }

 private:
  double mine_ = 0, all_ = 0;
  bench::schedule_handle here_;
};

int fuzz_in(lsched_world* world, const fuzz_options& options) {
  lsched_diagnostic why = bench::fresh_diagnostic();
  const lsched_status attached = attach_first_device(world, &why);
  if (attached == LSCHED_ERR_UNSUPPORTED) throw bench::no_gpu(why.text);
  expect_ok(attached, "lsched_cuda_attach", why);
  const gpu on;
  const cuda_scope here(on.context());
  agreement ranks(world);
  const auto end = clock::now() + std::chrono::duration<double>(options.seconds);
  std::uint64_t tried = 0, wrong = 0, left_out = 0;
  for (; tried < options.rounds && ranks.most(clock::now() > end ? 1 : 0) == 0; ++tried) {
    const std::uint64_t seed = options.seed + tried;
    const task it = draw_task(seed, lsched_size(world), options.most_elements);
    std::optional<std::string> answer;
    try {
      answer = trial(on, world, it, seed).run();
    } catch (const bench::failed& error) {
      say_wrong(seed, it, lsched_rank(world), error.what());
      throw;
    }
    left_out += answer ? 0U : 1U;
    if (answer && !answer->empty()) say_wrong(seed, it, lsched_rank(world), *answer), ++wrong;
  }
  const double all_wrong = ranks.most(static_cast<double>(wrong));
  if (lsched_rank(world) == 0)
    exam::answer(on, "fuzz",
                 {{"ranks", lsched_size(world)},
                  {"first_seed", options.seed},
                  {"collectives", tried},
                  {"left_out", left_out},
                  {"is_right", all_wrong == 0}});
  return all_wrong == 0 ? 0 : 1;
}

}  // namespace

int fuzz(const fuzz_options& options) {
  try {
    lsched_world* world = nullptr;
    lsched_diagnostic why = bench::fresh_diagnostic();
    expect_ok(lsched_world_open(nullptr, &world, &why), "lsched_world_open", why);
    const int status = fuzz_in(world, options);
    (void)lsched_world_close(world);
    return status;
  } catch (const bench::no_gpu& error) {
    std::fprintf(stderr, "cuda_exam: %s\n", error.what());
    return k_exit_no_gpu;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_exam: fuzz: %s\n", error.what());
    return 1;
  }
}

}  // namespace lsched::exam
