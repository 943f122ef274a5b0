// Measures a round that runs in the order of a stream: a kernel, the round, a kernel. Compares this round with a
// program that instead waits twice on the host. Also measures the time that the host spends in the two calls of the
// library.
#include <cstring>

#include "bindings/c/lsched_cuda.h"
#include "microbench/cuda/ranks.h"

namespace lsched::bench {
namespace {

class stream_cell {
 public:
  stream_cell(cuda_run& run, team& ranks, std::uint64_t bytes)
      : run_(run),
        on_(run.on()),
        ranks_(ranks),
        bytes_(bytes),
        count_(bytes / sizeof(float)),
        input_(on_, gpu_place::device, bytes),
        ones_(on_, gpu_place::device, bytes),
        output_(on_, gpu_place::device, bytes),
        result_(on_, gpu_place::pinned, bytes),
        stream_(on_),
        sum_(make_allreduce(ranks.runtime(), input_.as<float>(), output_.as<float>(), count_)) {
    std::fill_n(result_.as<float>(), count_, 1.0F);
    on_.copy(ones_.data(), result_.data(), bytes, stream_);
    on_.synchronise(stream_);
  }
  ~stream_cell() { (void)on_.cuda().cuStreamSynchronize(stream_); }
  stream_cell(const stream_cell&) = delete;
  stream_cell& operator=(const stream_cell&) = delete;

  void measure() {
    std::vector<shared_turns::way> ways(2);
    ways[0] = {.keys = {{"way", "stream"}}, .round = [this] { in_stream_order(); }};
    ways[1] = {.keys = {{"way", "host"}}, .round = [this] { by_host(); }};
    for (shared_turns::way& each : ways) check(each);
    starts_.clear(), waits_.clear();
    shared_turns(run_, ranks_).take(ways, run_.choose(2000, 20), 3);
    for (const shared_turns::way& each : ways) add_line(each);
    add_host_times("lsched_start_on_stream", starts_);
    add_host_times("lsched_wait_on_stream", waits_);
    close(std::move(sum_));
  }

 private:
  /// Sets the input to 2 on every rank.
  void before() { add(ones_, ones_, input_); }
  void behind() { add(output_, ones_, output_); }
  void add(const gpu_memory& a, const gpu_memory& b, const gpu_memory& c) {
    on_.launch(kernel_, {.a = a.data(), .b = b.data(), .c = c.data(), .count = count_}, stream_);
  }

  void in_stream_order() {
    lsched_ticket round{};
    before();
    starts_.push_back(
        us_of([&] { expect_ok(lsched_start_on_stream(sum_.get(), stream_, &round), "lsched_start_on_stream"); }));
    waits_.push_back(us_of([&] { expect_ok(lsched_wait_on_stream(round, stream_), "lsched_wait_on_stream"); }));
    behind();
    on_.synchronise(stream_);
    expect_ok(lsched_wait(round, k_patience_ns, nullptr), "lsched_wait");
  }

  void by_host() {
    before();
    on_.synchronise(stream_);
    run(sum_.get());
    behind();
    on_.synchronise(stream_);
  }

  void check(shared_turns::way& each) {
    ranks_.barrier();
    each.round();
    on_.copy(result_.data(), output_.data(), bytes_, stream_);
    on_.synchronise(stream_);
    const auto wanted = static_cast<float>(2 * ranks_.size() + 1);
    each.wrong =
        std::count(result_.as<float>(), result_.as<float>() + count_, wanted) == static_cast<std::ptrdiff_t>(count_)
            ? 0
            : 1;
  }

  result common() const { return {{"as", run_.options().as_threads ? "threads" : "processes"}, {"bytes", bytes_}}; }

  void add_line(const shared_turns::way& each) {
    const tails us = tails_of(each.us);
    result line = common();
    line.update(each.keys);
    line.update({{"kind", "stream"},
                 {"us", us.median},
                 {"us_min", us.min},
                 {"us_p99", us.p99},
                 {"us_max", us.max},
                 {"cpu_ms", each.cpu_ms},
                 {"samples", us.samples},
                 {"wrong", each.wrong}});
    run_.add(line);
  }

  /// Adds the times of this rank. Times of other ranks are not combined, because only rank 0 reports.
  void add_host_times(const char* call, const std::vector<double>& all) {
    const tails us = tails_of(all);
    result line = common();
    line.update({{"kind", "cost"},
                 {"what", call},
                 {"us", us.median},
                 {"us_min", us.min},
                 {"us_p99", us.p99},
                 {"us_max", us.max},
                 {"samples", us.samples}});
    run_.add(line);
  }

  cuda_run& run_;
  const gpu& on_;
  team& ranks_;
  const std::uint64_t bytes_, count_;
  const device_kernel kernel_ = find_device_kernel(kernel::sum, dtype::f32).value();
  gpu_memory input_, ones_, output_, result_;
  gpu_stream stream_;
  schedule_handle sum_;
  std::vector<double> starts_, waits_;
};

}  // namespace

void measure_streams(cuda_run& run, team& ranks) {
  std::vector<std::uint64_t> sizes{1 << 10, 1 << 20, 16 << 20};
  if (run.is_quick()) sizes = {1 << 10};
  for (const std::uint64_t bytes : sizes) {
    if (ranks.root_says(run.is_over()))
      run.leave_out("rounds of " + size_text(bytes) + " in the order of streams", "no time");
    else
      stream_cell(run, ranks, bytes).measure();
  }
  run.print({column("size", "bytes"), column("way", "way"), column("call", "what"), column("median us", "us", 2),
             column("p99 us", "us_p99", 2), column("max us", "us_max", 2), column("cpu ms", "cpu_ms", 3),
             column("samples", "samples"), k_wrong});
}

}  // namespace lsched::bench
