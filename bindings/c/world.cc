#include "bindings/c/world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bindings/c/sized.h"
#include "bindings/environment.h"
#include "bindings/selection_environment.h"
#include "collectives/algorithm/nodes.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "offload/arrival_of_ranks.h"
#include "offload/cores.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;

#define LSCHED_TEXT_OF(number) #number
#define LSCHED_VERSION_TEXT(major, minor, patch) \
  LSCHED_TEXT_OF(major) "." LSCHED_TEXT_OF(minor) "." LSCHED_TEXT_OF(patch)
constexpr char k_version[] = LSCHED_VERSION_TEXT(LSCHED_VERSION_MAJOR, LSCHED_VERSION_MINOR, LSCHED_VERSION_PATCH);

/// What lsched_config_init, which cannot fail, makes of an environment variable it does not understand; opening does
/// fail.
constexpr int k_misspelt = 99;
constexpr int k_misspelt_lane = INT32_MIN;

constexpr std::uint64_t k_commit_timeout_ns = 60'000'000'000;

/// How many ranks an MPI launcher has started, if one has.
result<std::optional<rank>> mpi_launch_size() {
  for (const char* variable : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"})
    if (auto size = number_in_environment(variable); !size || *size) return size;
  const auto self =
      number_in_environment("PMIX_RANK", 0, INT32_MAX - 1);  // its launchers do not say how many there are
  if (!self) return self.error();
  return *self && **self > 0 ? std::optional(**self + 1) : std::nullopt;
}

failure wrong_abi(int abi) {
  return {status::version, "the caller was compiled for ABI " + std::to_string(abi) + ", this library has ABI " +
                               std::to_string(LSCHED_ABI)};
}

lsched_status open_process(const open_options& options, lsched_world** world, lsched_diagnostic* diagnostic) {
  const auto found = find_launch();
  if (!found) return report(diagnostic, found.error());
  const std::optional<launch>& where = *found;
  const auto size = where ? std::optional<rank>() : mpi_launch_size();
  if (!size) return report(diagnostic, size.error());
  if (*size && **size > 1)
    return report(diagnostic, {status::unsupported, "this process is one of at least " + std::to_string(**size) +
                                                        " started by an MPI launcher: open the world with "
                                                        "lsched_world_open_mpi, or start it with `lsched run`"});
  auto segment =
      where ? shm_segment::adopt(dup(where->descriptor)) : shm_segment::create(1, options.region_bytes, usable_cores());
  if (!segment) return report(diagnostic, segment.error());
  if (where && where->size != (*segment)->ranks())
    return report(diagnostic, {status::argument, "LSCHED_RUN_SIZE does not fit the launcher's segment"});
  auto net = shm_endpoint::open(*segment, where ? where->self : 0, options.shm);
  if (!net) return report(diagnostic, net.error());
  if (const auto why = wait_for_ranks(**segment, options.commit_timeout)) return report(diagnostic, *why);
  *world = new lsched_world(std::move(*net), options, neighbourhood_of(**segment, options.ranks_per_node));
  return LSCHED_OK;
}

}  // namespace

driver::clock::time_point deadline_after(std::uint64_t timeout_ns) {
  constexpr auto k_longest = static_cast<std::uint64_t>(std::chrono::nanoseconds(24h * 365 * 100).count());
  if (timeout_ns > k_longest) return driver::clock::time_point::max();
  return driver::clock::now() + std::chrono::nanoseconds(timeout_ns);
}

commit_request bound(std::string agreement, result<schedule_ptr> program, const void* const* inputs,
                     void* const* outputs) {
  binding memory;
  bool has_all = true;
  std::size_t next_input = 0;
  std::size_t next_output = 0;
  for (const buffer& data : program ? (*program)->buffers() : std::span<const buffer>()) {
    if (data.role == buffer_role::scratch) continue;
    const void* const* places = data.role == buffer_role::input ? inputs : outputs;
    std::size_t& next = data.role == buffer_role::input ? next_input : next_output;
    const void* place = places == nullptr ? nullptr : places[next++];
    has_all = has_all && (place != nullptr || data.count == 0);
    if (data.role == buffer_role::input)
      memory.inputs.push_back(static_cast<const std::byte*>(place));
    else
      memory.outputs.push_back(static_cast<std::byte*>(const_cast<void*>(place)));
  }
  if (!has_all) program = failure{status::argument, "an input or output has no memory"};
  return {std::move(agreement), std::move(program), std::move(memory)};
}

lsched_status commit(lsched_world* world, commit_request request, lsched_schedule** schedule,
                     lsched_diagnostic* diagnostic) {
  if (schedule == nullptr) request.program = failure{status::argument, "schedule is null"};
  auto handle = std::make_unique<lsched_schedule>();  // while a lack of memory can still be told to all
  const auto committed = world->joined.commit(request);
  if (!committed) return report(diagnostic, committed.error());
  handle->world = world;
  handle->instance = *committed;
  *schedule = handle.release();
  return LSCHED_OK;
}

lsched_status report(lsched_diagnostic* diagnostic, const failure& why, round_no round) {
  if (is_there(diagnostic)) {
    lsched_diagnostic told{
        .status = static_cast<lsched_status>(why.code), .rank = why.peer, .op = why.op, .round = round};
    std::memcpy(told.text, why.text.data(), std::min(why.text.size(), sizeof told.text - 1));
    write_struct(diagnostic, told);
  }
  return static_cast<lsched_status>(why.code);
}

namespace {

std::int32_t number_of(const lane_choice& choice) {
  if (choice.mode == lane_mode::inlined) return LSCHED_LANE_INLINE;
  if (choice.mode == lane_mode::automatic) return LSCHED_LANE_AUTO;
  return choice.workers == 0 ? std::int32_t{LSCHED_LANE_TBB} : static_cast<std::int32_t>(choice.workers);
}

result<lane_choice> read_lane(std::int32_t number) {
  lane_choice choice;
  if (number == LSCHED_LANE_INLINE) choice.mode = lane_mode::inlined;
  if (number == LSCHED_LANE_TBB || number > 0) choice.mode = lane_mode::tbb;
  if (number < LSCHED_LANE_TBB || number > static_cast<std::int32_t>(k_most_lane_workers))
    return failure{status::argument, "lane (lsched_config or LSCHED_LANE) is none of auto, inline, tbb, tbb:1 … tbb:" +
                                         std::to_string(k_most_lane_workers)};
  if (number > 0) choice.workers = static_cast<unsigned>(number);
  if (const status why = validate(choice); why != status::ok)
    return failure{why, "lane (lsched_config or LSCHED_LANE) is tbb, but oneTBB is not in this build"};
  return choice;
}

lsched_config default_config() {
  lsched_config config{.struct_size = sizeof config, .progress_core = -1, .commit_timeout_ns = k_commit_timeout_ns};
  if (const char* mode = text_in_environment("LSCHED_PROGRESS"))
    config.progress = std::strcmp(mode, "caller") == 0   ? int{LSCHED_PROGRESS_CALLER}
                      : std::strcmp(mode, "thread") == 0 ? int{LSCHED_PROGRESS_THREAD}
                                                         : k_misspelt;
  if (const char* mode = text_in_environment("LSCHED_IDLE"))
    config.idle = parse_idle_mode(mode) ? static_cast<int>(*parse_idle_mode(mode)) : k_misspelt;
  if (const char* text = text_in_environment("LSCHED_LANE")) {
    const auto choice = parse_lane(text);
    config.lane = choice ? number_of(*choice) : k_misspelt_lane;
  }
  return config;
}

}  // namespace

result<open_options> read_config(const lsched_config* config) {
  const lsched_config defaults = default_config();
  const auto asked = config == nullptr ? defaults : read_struct(config, defaults);
  if (!asked) return asked.error();
  const lsched_config& filled = *asked;
  if (filled.progress != LSCHED_PROGRESS_THREAD && filled.progress != LSCHED_PROGRESS_CALLER)
    return failure{status::argument, "progress (lsched_config or LSCHED_PROGRESS) is neither thread nor caller"};
  if (filled.idle < LSCHED_IDLE_AUTO || filled.idle > LSCHED_IDLE_PARK)
    return failure{status::argument, "idle (lsched_config or LSCHED_IDLE) is none of auto, spin, yield, park"};
  open_options options;
  options.process.wants_thread = filled.progress == LSCHED_PROGRESS_THREAD;
  options.process.idle = static_cast<idle_mode>(filled.idle);
  if (filled.progress_core < -1 ||
      (filled.progress_core >= 0 &&
       !std::ranges::binary_search(allowed_cores(), static_cast<unsigned>(filled.progress_core))))
    return failure{status::argument, "progress_core " + std::to_string(filled.progress_core) +
                                         " is not one of the cores this process may use"};
  if (filled.progress_core >= 0) options.process.core = static_cast<unsigned>(filled.progress_core);
  const auto arithmetic = read_lane(filled.lane);
  if (!arithmetic) return arithmetic.error();
  options.process.arithmetic = *arithmetic;
  options.region_bytes = filled.region_bytes;
  constexpr auto k_most = static_cast<std::uint64_t>(std::chrono::nanoseconds::max().count()) / 4;
  options.commit_timeout = std::chrono::nanoseconds(std::min(filled.commit_timeout_ns, k_most));
  const auto reads = choice_in_environment("LSCHED_READ_PEERS", "yes", "no");
  if (!reads) return reads.error();
  options.shm.reads_processes = *reads;
  auto by = read_selection();
  if (!by) return by.error();
  options.choose_by = std::move(*by);
  const auto ranks_per_node = number_in_environment("LSCHED_RANKS_PER_NODE", 1);
  if (!ranks_per_node) return ranks_per_node.error();
  options.ranks_per_node = ranks_per_node->value_or(0);
  if (const char* prefix = text_in_environment("LSCHED_TRACE")) options.process.trace_prefix = prefix;
  if (auto why = validate_trace(options.process.trace_prefix)) return *why;
  return options;
}

}  // namespace lsched

using namespace lsched;

namespace {

/// What is around, with what the tuning table knows better.
selection chosen_by(const open_options& options, const neighbourhood& around) {
  selection by = options.choose_by;
  by.around.ranks_per_core = around.ranks_per_core;
  by.around.nodes = around.nodes;
  return by;
}

}  // namespace

lsched_world::lsched_world(std::unique_ptr<endpoint> net, const open_options& options, const neighbourhood& around)
    : process(std::move(net), options.process, around.share),
      joined(process, options.commit_timeout),
      schedules_made(joined.place(), chosen_by(options, around)) {}

extern "C" {

const char* lsched_version(void) { return k_version; }

int lsched_abi(void) { return LSCHED_ABI; }

const char* lsched_status_name(lsched_status code) { return name_of(static_cast<status>(code)).data(); }

const char* lsched_status_text(lsched_status code) { return text_of(static_cast<status>(code)).data(); }

void lsched_diagnostic_init_sized(lsched_diagnostic* diagnostic, size_t bytes) {
  init_struct(diagnostic, bytes, {.rank = k_no_rank, .op = k_no_op});
}

void lsched_config_init_sized(lsched_config* config, size_t bytes) { init_struct(config, bytes, default_config()); }

lsched_status lsched_world_open_abi(int abi, const lsched_config* config, lsched_world** world,
                                    lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI) return report(diagnostic, wrong_abi(abi));
    if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
    const auto options = read_config(config);
    if (!options) return report(diagnostic, options.error());
    return open_process(*options, world, diagnostic);
  });
}

lsched_status lsched_world_open_threads_abi(int abi, int32_t ranks, const lsched_config* config, lsched_world** worlds,
                                            lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI) return report(diagnostic, wrong_abi(abi));
    if (worlds == nullptr || ranks < 1)
      return report(diagnostic, {status::argument, "a world needs at least one rank, and room for its handles"});
    const auto options = read_config(config);
    if (!options) return report(diagnostic, options.error());
    auto segment = shm_segment::create(ranks, options->region_bytes, usable_cores());
    if (!segment) return report(diagnostic, segment.error());
    std::vector<std::unique_ptr<lsched_world>> opened;
    for (rank r = 0; r < ranks; ++r) {
      auto net = shm_endpoint::open(*segment, r, options->shm);
      if (!net) return report(diagnostic, net.error());
      opened.push_back(std::make_unique<lsched_world>(std::move(*net), *options,
                                                      neighbourhood_of(**segment, options->ranks_per_node)));
    }
    for (rank r = 0; r < ranks; ++r) worlds[r] = opened[static_cast<std::size_t>(r)].release();
    return LSCHED_OK;
  });
}

lsched_status lsched_world_close(lsched_world* world) {
  if (world == nullptr) return LSCHED_OK;
  if (world->joined.instances() != 0) return LSCHED_ERR_BUSY;
  delete world;
  return LSCHED_OK;
}

int32_t lsched_rank(const lsched_world* world) { return world == nullptr ? k_no_rank : world->joined.place().self; }

int32_t lsched_size(const lsched_world* world) { return world == nullptr ? 0 : world->joined.place().size; }

lsched_status lsched_node_of(const lsched_world* world, int32_t rank, lsched_node* node) {
  if (world == nullptr || !is_there(node) || rank < 0 || rank >= world->joined.place().size) return LSCHED_ERR_ARGUMENT;
  return guarded(nullptr, [&] {
    const auto nodes = nodes_of({.nodes = world->nodes()}, world->joined.place().size);
    const node_place own = place_of(nodes, rank);
    write_struct(node, {.number = static_cast<int32_t>(own.number),
                        .place = static_cast<int32_t>(own.place),
                        .ranks = static_cast<int32_t>(nodes[own.number].size()),
                        .nodes = static_cast<int32_t>(nodes.size()),
                        .least_ranks = static_cast<int32_t>(ranks_of_smallest(nodes))});
    return LSCHED_OK;
  });
}

lsched_status lsched_progress(lsched_world* world, int* moved) {
  if (world == nullptr) return LSCHED_ERR_ARGUMENT;
  const bool any = world->process.driver().progress();
  if (moved != nullptr) *moved = any ? 1 : 0;
  return LSCHED_OK;
}

lsched_status lsched_alloc(lsched_world* world, uint64_t bytes, void** memory) {
  if (world == nullptr || memory == nullptr) return LSCHED_ERR_ARGUMENT;
  return guarded(nullptr, [&] {
    std::byte* place = world->process.net().allocate(std::max<std::uint64_t>(bytes, 1));
    if (place == nullptr) return LSCHED_ERR_NOMEM;
    *memory = place;
    return LSCHED_OK;
  });
}

lsched_status lsched_free(lsched_world* world, void* memory) {
  if (world == nullptr) return LSCHED_ERR_ARGUMENT;
  return guarded(nullptr, [&] {
    world->process.net().deallocate(static_cast<std::byte*>(memory));
    return LSCHED_OK;
  });
}

lsched_status lsched_get_stats(lsched_world* world, lsched_stats* stats) {
  if (world == nullptr || !is_there(stats)) return LSCHED_ERR_ARGUMENT;
  return guarded(nullptr, [&] {
    const engine_counters now = world->process.counters();
    write_struct(stats, {.rounds = now.rounds,
                         .ops = now.ops,
                         .messages_sent = now.messages_sent,
                         .nulls_sent = now.nulls_sent,
                         .bytes_sent = now.bytes_sent,
                         .signals_sent = now.signals_sent,
                         .steps = now.steps});
    return LSCHED_OK;
  });
}

lsched_status lsched_world_describe(lsched_world* world, char* text, size_t bytes) {
  if (world == nullptr || text == nullptr || bytes == 0) return LSCHED_ERR_ARGUMENT;
  return guarded(nullptr, [&] {
    const std::string line = world->process.describe();
    const std::size_t length = std::min(line.size(), bytes - 1);
    std::memcpy(text, line.data(), length);
    text[length] = '\0';
    return LSCHED_OK;
  });
}

// --- recording ---

lsched_status lsched_trace_start(lsched_world* world, uint64_t events) {
  constexpr std::uint64_t k_most = std::uint64_t{1} << 40;
  if (world == nullptr || events == 0 || events > k_most) return LSCHED_ERR_ARGUMENT;
  return guarded(nullptr, [&] {
    if (world->process.is_traced()) return LSCHED_ERR_STATE;
    world->process.start_trace(events);
    return LSCHED_OK;
  });
}

lsched_status lsched_trace_write(lsched_world* world, const char* path, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr || path == nullptr) return report(diagnostic, {status::argument, "world or path is null"});
    if (!world->process.is_traced())
      return report(diagnostic, {status::state, "nothing is being recorded: call lsched_trace_start first"});
    const auto why = world->process.write_trace(path);
    return why ? report(diagnostic, *why) : LSCHED_OK;
  });
}

}  // extern "C"
