#include "bindings/c/world.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>

#include "bindings/c/build_id.h"
#include "bindings/c/private_calls.h"
#include "bindings/c/words.h"
#include "bindings/environment.h"
#include "bindings/environment_names.h"
#include "bindings/foreign_launcher.h"
#include "bindings/log.h"
#include "bindings/net_environment.h"
#include "bindings/selection_environment.h"
#include "collectives/algorithm/nodes.h"
#include "collectives/proof/proof_at_commit.h"
#include "collectives/requests/agreement.h"
#include "libsched/transport/shm/region_size.h"
#include "offload/cores.h"
#include "ops/counted.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;

#define LSCHED_TEXT_OF(number) #number
#define LSCHED_VERSION_TEXT(major, minor, patch) \
  LSCHED_TEXT_OF(major) "." LSCHED_TEXT_OF(minor) "." LSCHED_TEXT_OF(patch)
constexpr char k_version[] = LSCHED_VERSION_TEXT(LSCHED_VERSION_MAJOR, LSCHED_VERSION_MINOR, LSCHED_VERSION_PATCH);

/// Values that lsched_config_init writes for invalid environment variables, because that function cannot fail. Opening
/// a world with such a value fails.
constexpr int k_misspelt = 99;
constexpr int k_misspelt_lane = INT32_MIN;
constexpr std::uint64_t k_misspelt_region = UINT64_MAX;

constexpr std::uint64_t k_commit_timeout_ns = 60'000'000'000;

/// Logs unknown environment variables once per process. Only rank 0 logs them, because the environment is usually the
/// same on all ranks.
void warn_about_environment(rank self) {
  static std::once_flag told;
  if (self != 0) return;
  std::call_once(told, [self] {
    for (const std::string& line : unknown_variables()) log(log_level::warning, self, line);
  });
}

}  // namespace

lsched_diagnostic* kept_diagnostic() {
  thread_local lsched_diagnostic kept{.struct_size = sizeof kept, .rank = k_no_rank, .op = k_no_op};
  return &kept;
}

failure wrong_abi(int abi) {
  return {status::version, "the caller was compiled for ABI " + std::to_string(abi) + ", but this library has ABI " +
                               std::to_string(LSCHED_ABI) + ": recompile with the lsched.h of this library"};
}

driver::clock::time_point deadline_after(std::uint64_t timeout_ns) {
  constexpr auto k_longest = static_cast<std::uint64_t>(std::chrono::nanoseconds(24h * 365 * 100).count());
  if (timeout_ns > k_longest) return driver::clock::time_point::max();
  return driver::clock::now() + std::chrono::nanoseconds(timeout_ns);
}

failure with_details_of_rank(const lsched_world& world, failure why) {
  const rank home = world.joined.members().home_of(why.peer);
  if (home != why.peer)
    why.text += " (rank " + std::to_string(why.peer) + " of this world is rank " + std::to_string(home) +
                " of the world that was opened)";
  const std::string host = world.process.host_of(home);
  if (!host.empty())
    why.text += " (rank " + std::to_string(why.peer) + " is on host " + host +
                (why.code == status::peer ? "; the network to that host may have failed)" : ")");
  return why;
}

commit_proof proof_of(const lsched_world& world, const creation& made) {
  if (!made.request.program) return {};
  const schedule_ptr& program = *made.request.program;
  std::optional<std::int64_t> offset;
  const auto output = std::ranges::find(program->buffers(), buffer_role::output, &buffer::role);
  if (made.extras.layout.in_place && output != program->buffers().end())
    offset = made.extras.layout.aliasing_bytes / static_cast<std::int64_t>(size_of(output->type));
  return {.is_asked = world.proves_at_commit.load(),
          .describe_part = [program, offset] { return describe_part(*program, offset); },
          .find_fault = find_fault};
}

lsched_status commit(lsched_world* world, result<creation> made, lsched_schedule** schedule,
                     lsched_diagnostic* diagnostic) {
  if (schedule == nullptr) made = failure{status::argument, "schedule is null"};
  if (made && made->request.program)
    made->request.program = placed_in_memory(*world, *made->request.program, made->request);
  if (!made) made = creation{{"refused arguments", made.error()}};
  made->request.proof = proof_of(*world, *made);
  auto handle = std::make_unique<lsched_schedule>();  // before the commit, so that all ranks fail if memory is short
  const bool waits = world->creates_wait.load();
  auto queued = world->joined.queue(made->request);
  if (waits)
    if (const auto why = world->joined.await(queued))
      return report(diagnostic, with_details_of_rank(*world, with_advice(*why)));
  if (queued.commit->refused()) return report(diagnostic, *queued.commit->refused());
  fill(*handle, *world, queued, *made);
  *schedule = handle.release();
  if (!made->warning.empty()) (void)report(diagnostic, {status::ok, made->warning});
  return LSCHED_OK;
}

void fill(lsched_schedule& handle, lsched_world& world, const queued_commit& queued, creation& made,
          std::uint64_t ranks) {
  const auto& instances = queued.instances;
  handle.world = &world;
  handle.commit = queued.commit;
  handle.extras = std::move(made.extras);
  handle.instance = instances.front();
  handle.flights = flights(std::span(instances).first(made.request.flights));
  if (made.session)
    handle.session.emplace(world.process.engine(), session_instances::of(instances), made.session->by,
                           made.session->buckets, ranks);
}

namespace {

static_assert(k_lane_auto == LSCHED_LANE_AUTO && k_lane_inline == LSCHED_LANE_INLINE && k_lane_tbb == LSCHED_LANE_TBB);

std::optional<failure> validate_arithmetic(lane_choice choice) {
  if (choice < LSCHED_LANE_TBB || choice > k_most_lane_workers)
    return failure{status::argument, "lane (lsched_config or LSCHED_LANE) is not auto, inline, tbb or tbb:1 … tbb:" +
                                         std::to_string(k_most_lane_workers)};
  if (const status why = validate_lane(choice); why != status::ok)
    return failure{why,
                   "lane (lsched_config or LSCHED_LANE) is tbb, but oneTBB is not in this build: use auto or inline"};
  return std::nullopt;
}

lsched_config default_config() {
  lsched_config config{.struct_size = sizeof config, .progress_core = -1, .commit_timeout_ns = k_commit_timeout_ns};
  if (const auto is_thread = choice_in_environment("LSCHED_PROGRESS", "thread", "caller"))
    config.progress = *is_thread ? LSCHED_PROGRESS_THREAD : LSCHED_PROGRESS_CALLER;
  else
    config.progress = k_misspelt;
  if (const char* text = text_in_environment("LSCHED_IDLE")) {
    const auto mode = parse_idle_mode(text);
    config.idle = mode ? static_cast<int>(*mode) : k_misspelt;
  }
  if (const char* text = text_in_environment("LSCHED_LANE")) config.lane = parse_lane(text).value_or(k_misspelt_lane);
  const auto region = region_in_environment(k_least_region_bytes);
  config.region_bytes = region ? *region : k_misspelt_region;
  return config;
}

}  // namespace

result<open_options> read_config(const lsched_config* config) {
  const lsched_config defaults = default_config();
  const auto known = config == nullptr ? defaults : read_struct(config, defaults);
  if (!known) return known.error();
  const auto core = static_cast<unsigned>(known->progress_core);
  const bool has_core = known->progress_core >= 0;
  const std::string no_core =
      "progress_core " + std::to_string(known->progress_core) +
      " is not one of the cores that this process may use: choose a core that `taskset -cp $$` lists, or set -1";
  if (auto why = first_broken(
          {{known->progress != LSCHED_PROGRESS_THREAD && known->progress != LSCHED_PROGRESS_CALLER,
            "progress (lsched_config or LSCHED_PROGRESS) is neither thread nor caller"},
           {known->idle < LSCHED_IDLE_AUTO || known->idle > LSCHED_IDLE_PARK,
            "idle (lsched_config or LSCHED_IDLE) is not auto, spin, yield or park"},
           {known->region_bytes != 0 && known->region_bytes < k_least_region_bytes,
            "region_bytes is less than the smallest region, 1 MiB: set for example 67108864 (64 MiB), or 0"},
           {known->progress_core < -1 || (has_core && !std::ranges::binary_search(allowed_cores(), core)), no_core}}))
    return *why;
  if (auto why = validate_arithmetic(known->lane)) return *why;
  if (const auto region = region_in_environment(k_least_region_bytes);
      !region && known->region_bytes == k_misspelt_region)
    return region.error();
  const auto reads = choice_in_environment("LSCHED_READ_PEERS", "yes", "no");
  const auto is_lazy = choice_in_environment("LSCHED_TOUCH", "no", "yes");
  const auto proves = switch_in_environment("LSCHED_VERIFY");
  auto choose_by = read_selection();
  const auto ranks_per_node = number_in_environment("LSCHED_RANKS_PER_NODE", 1);
  const auto start_seconds = number_in_environment("LSCHED_START_TIMEOUT", 1);
  const auto network = network_in_environment();
  if (const auto level = log_level_in_environment(); !level) return level.error();
  if (!reads) return reads.error();
  if (!is_lazy) return is_lazy.error();
  if (!proves) return proves.error();
  if (!choose_by) return choose_by.error();
  if (!ranks_per_node) return ranks_per_node.error();
  if (!start_seconds) return start_seconds.error();
  if (!network) return network.error();
  if (const auto is_alone = wants_world_of_one(); !is_alone) return is_alone.error();
  if (const auto device = cuda_device_in_environment(); !device) return device.error();
  if (const auto streams = cuda_streams_in_environment(); !streams) return streams.error();
  const char* const prefix = text_in_environment("LSCHED_TRACE");
  if (auto why = validate_trace(prefix == nullptr ? "" : prefix)) return *why;
  constexpr auto k_most = static_cast<std::uint64_t>(std::chrono::nanoseconds::max().count()) / 4;
  const std::chrono::nanoseconds commit_timeout(std::min(known->commit_timeout_ns, k_most));
  return open_options{
      .process = {.wants_thread = known->progress == LSCHED_PROGRESS_THREAD,
                  .idle = static_cast<idle_mode>(known->idle),
                  .core = has_core ? std::optional(core) : std::nullopt,
                  .arithmetic = known->lane},
      .trace_prefix = prefix == nullptr ? "" : prefix,
      .segment = {.region_bytes = known->region_bytes,
                  .recorder = recorder_in_environment(),
                  .start_timeout = *start_seconds ? std::chrono::seconds(**start_seconds) : commit_timeout,
                  .connect_timeout = *start_seconds ? std::chrono::seconds(**start_seconds)
                                                    : std::min<std::chrono::nanoseconds>(commit_timeout, 60s),
                  .shm = {.reads_processes = *reads, .touches_memory = !*is_lazy},
                  .ranks_per_node = ranks_per_node->value_or(0),
                  .interfaces = network->interfaces,
                  .interfaces_from = network->interfaces_from,
                  .net_limits = network->limits,
                  .encrypts = network->encrypts},
      .commit_timeout = commit_timeout,
      .proves_at_commit = *proves,
      .choose_by = std::move(*choose_by)};
}

}  // namespace lsched

using namespace lsched;

namespace {

/// Returns the parent's selection, restricted to the nodes of the new world.
selection chosen_as_in(const lsched_world& parent, const membership& made) {
  selection by = parent.schedules_made.by();
  std::vector<rank> nodes;
  for (const rank home : made.homes())
    if (!by.around.nodes.empty())
      nodes.push_back(by.around.nodes[static_cast<std::size_t>(parent.joined.members().rank_of(home))]);
  if (std::ranges::adjacent_find(nodes, std::not_equal_to()) == nodes.end()) nodes.clear();
  by.around.nodes = std::move(nodes);
  return by;
}

/// Returns the selection of the options, with the topology of the transport. Costs of messages from the tuning table
/// are kept.
selection chosen_by(const open_options& options, const neighbourhood& around) {
  selection by = options.choose_by;
  by.around.ranks_per_core = around.ranks_per_core;
  by.around.nodes = around.nodes;
  if (around.uses_tcp && !by.table.far) by.around.far = k_tcp_costs;
  return by;
}

/// The maximum number of events that LSCHED_TRACE records (48 MiB of address space, which occupy physical memory only
/// as the recording grows).
constexpr std::uint64_t k_traced_events = 1 << 20;

/// Writes the trace that LSCHED_TRACE requests. Closing a world returns no diagnostic, so a failure is logged.
void write_trace_at_close(runtime& recorded, const std::string& prefix) noexcept {
  if (!recorded.is_traced() || !recorded.is_in_its_process()) return;
  const rank self = recorded.net().place().self;
  try {
    if (const auto why = recorded.write_trace(prefix + "." + std::to_string(self) + ".json"))
      log(log_level::warning, self, why->text);
  } catch (const std::exception&) {
    std::fputs("libsched warning: out of memory while LSCHED_TRACE was written; the trace is incomplete\n", stderr);
  }
}

/// Starts a runtime, which the opened world and all worlds derived from it share. Closing the last of these worlds
/// writes the trace of LSCHED_TRACE and ends the runtime.
std::shared_ptr<runtime> open_runtime(std::unique_ptr<endpoint> net, const open_options& options,
                                      const neighbourhood& around) {
  auto opened = std::make_unique<runtime>(std::move(net), options.process, around);
  if (options.trace_prefix.empty()) return opened;
  opened->start_trace(k_traced_events);
  const auto end = [prefix = options.trace_prefix](runtime* last) {
    const std::unique_ptr<runtime> owned(last);
    write_trace_at_close(*owned, prefix);
  };
  return {opened.release(), end};
}

}  // namespace

lsched_world::lsched_world(std::unique_ptr<endpoint> net, const open_options& options, const neighbourhood& around)
    : runtime_(open_runtime(std::move(net), options, around)),
      process(*runtime_),
      joined(process, options.commit_timeout),
      schedules_made(place(), chosen_by(options, around)),
      proves_at_commit(options.proves_at_commit) {
  warn_about_environment(place().self);
  log(log_level::info, place().self,
      "libsched " + std::string(k_version) + ": world of " + counted(place().size, "rank") + ", " +
          (options.process.wants_thread ? "progress thread" : "progress by the caller"));
}

lsched_world::lsched_world(const lsched_world& parent, new_world made)
    : runtime_(parent.runtime_),
      process(*runtime_),
      joined(parent.joined, std::move(made)),
      schedules_made(place(), chosen_as_in(parent, joined.members())),
      creates_wait(parent.creates_wait.load()),
      proves_at_commit(parent.proves_at_commit.load()) {}

const private_calls lsched_private_calls{
    .build = LSCHED_BUILD,
    .read_config = read_config,
    .open = [](std::unique_ptr<endpoint> net, const open_options& options,
               const neighbourhood& around) { return new lsched_world(std::move(net), options, around); },
    .with_engine = [](runtime& of, const std::function<void()>& job) { of.driver().with_engine(job); }};

extern "C" {

const char* lsched_version(void) { return k_version; }

const char* lsched_status_name(lsched_status code) { return name_of(static_cast<status>(code)).data(); }

const char* lsched_status_text(lsched_status code) { return text_of(static_cast<status>(code)).data(); }

const lsched_diagnostic* lsched_last_failure(void) { return kept_diagnostic(); }

void lsched_config_init_sized(lsched_config* config, size_t bytes) { init_struct(config, bytes, default_config()); }

lsched_status lsched_split(lsched_world* world, int32_t color, int32_t key, lsched_world** made,
                           lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
    result<split_choice> choice = split_choice{color, key};
    if (made == nullptr) choice = failure{status::argument, "made is null"};
    if (made != nullptr) *made = nullptr;
    auto of_color = world->joined.split(choice);
    if (!of_color) return report(diagnostic, with_details_of_rank(*world, of_color.error()));
    *made = of_color->members == nullptr ? nullptr : new lsched_world(*world, std::move(*of_color));
    return LSCHED_OK;
  });
}

lsched_status lsched_split_ranks(lsched_world* world, const int32_t* ranks, int32_t count, int32_t tag,
                                 lsched_world** made, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr || made == nullptr || (ranks == nullptr && count > 0))
      return report(diagnostic, {status::argument, "world, ranks or made is null"});
    *made = nullptr;
    if (const auto why = first_on_device({{"ranks", ranks}})) return report(diagnostic, *why);
    const std::span<const rank> listed(ranks, static_cast<std::size_t>(std::max(count, 0)));
    auto of_ranks = world->joined.split_ranks(listed, tag);
    if (!of_ranks) return report(diagnostic, with_details_of_rank(*world, of_ranks.error()));
    *made = new lsched_world(*world, std::move(*of_ranks));
    return LSCHED_OK;
  });
}

int32_t lsched_rank_in(const lsched_world* world, int32_t rank, const lsched_world* other) {
  if (world == nullptr || other == nullptr || &world->process != &other->process || rank < 0 ||
      rank >= world->place().size)
    return k_no_rank;
  return other->joined.members().rank_of(world->joined.members().home_of(rank));
}

lsched_status lsched_world_set(lsched_world* world, lsched_setting setting, int32_t value) {
  if (world == nullptr || !is_within(setting, LSCHED_NONBLOCKING, LSCHED_PROVED) || (value != 0 && value != 1))
    return fail(status::argument, "world is null, setting is not an lsched_setting, or value is neither 0 nor 1");
  if (setting == LSCHED_NONBLOCKING)
    world->creates_wait.store(value == 0);
  else
    world->proves_at_commit.store(value == 1);
  return LSCHED_OK;
}

lsched_status lsched_world_close(lsched_world* world) {
  if (world == nullptr) return LSCHED_OK;
  return guarded(kept_diagnostic(), [&] {
    if (const auto open = world->joined.open_labels(); !open.empty())
      return report(kept_diagnostic(),
                    {status::busy, "destroy the objects of the world before you close it: " + listed_words(open)});
    const bool has_outlived_mpi = world->process.health() == status::state;
    delete world;
    return has_outlived_mpi
               ? fail(status::state, "the world was closed after MPI_Finalize: close worlds before that call")
               : LSCHED_OK;
  });
}

int32_t lsched_rank(const lsched_world* world) { return world == nullptr ? k_no_rank : world->place().self; }

int32_t lsched_size(const lsched_world* world) { return world == nullptr ? 0 : world->place().size; }

lsched_status lsched_node_of(const lsched_world* world, int32_t rank, lsched_node* node) {
  if (world == nullptr || rank < 0 || rank >= world->place().size)
    return fail(status::argument, "world is null, or rank is not a rank of the world");
  if (!is_there(node)) return report(kept_diagnostic(), refusal_of(node));
  return guarded(kept_diagnostic(), [&] {
    const auto nodes = nodes_of({.nodes = world->nodes()}, world->place().size);
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
  if (world == nullptr) return fail(status::argument, "world is null");
  const bool any = world->process.driver().progress();
  if (moved != nullptr) *moved = any ? 1 : 0;
  return LSCHED_OK;
}

lsched_status lsched_alloc(lsched_world* world, uint64_t bytes, void** memory) {
  if (world == nullptr || memory == nullptr)
    return report(kept_diagnostic(), {status::argument, world == nullptr ? "world is null" : "memory is null"});
  return guarded(kept_diagnostic(), [&] {
    std::byte* place = world->process.net().memory().allocate(std::max<std::uint64_t>(bytes, 1));
    if (place == nullptr)
      return report(kept_diagnostic(),
                    {status::no_memory, "lsched_alloc: the shared region of this rank has no block of " +
                                            std::to_string(bytes) + " bytes left. Set a larger LSCHED_REGION"});
    *memory = place;
    return LSCHED_OK;
  });
}

lsched_status lsched_free(lsched_world* world, void* memory) {
  if (world == nullptr) return fail(status::argument, "world is null");
  return guarded(kept_diagnostic(), [&] {
    world->process.net().memory().deallocate(static_cast<std::byte*>(memory));
    return LSCHED_OK;
  });
}

lsched_status lsched_get_stats(lsched_world* world, lsched_stats* stats) {
  if (world == nullptr) return fail(status::argument, "world is null");
  if (!is_there(stats)) return report(kept_diagnostic(), refusal_of(stats));
  return guarded(kept_diagnostic(), [&] {
    const engine_counters now = world->process.counters();
    write_struct(stats, {.rounds = now.rounds,
                         .ops = now.ops,
                         .messages_sent = now.messages_sent,
                         .nulls_sent = now.nulls_sent,
                         .bytes_sent = now.bytes_sent,
                         .signals_sent = now.signals_sent,
                         .steps = now.steps,
                         .device_jobs = now.device_jobs,
                         .device_messages_shared = now.shown_sent});
    return LSCHED_OK;
  });
}

lsched_status lsched_world_describe(lsched_world* world, char* text, size_t bytes) {
  if (world == nullptr || text == nullptr || bytes == 0)
    return fail(status::argument, "world or text is null, or bytes is 0");
  return guarded(kept_diagnostic(), [&] {
    copy_out(world->process.describe(world->place()), text, bytes, nullptr);
    return LSCHED_OK;
  });
}

lsched_status lsched_diagnose(lsched_world* world, int32_t* rank, char* text, size_t bytes, size_t* needed) {
  if (world == nullptr || (text == nullptr && bytes > 0))
    return fail(status::argument, "world is null, or text is null and bytes is not 0");
  return guarded(kept_diagnostic(), [&] {
    std::string whole;
    lsched::rank blamed = k_no_rank;
    world->process.driver().with_engine(
        [&] { whole = world->process.engine().describe_waits(world->joined.members(), &blamed); });
    if (rank != nullptr) *rank = blamed;
    copy_out(whole, text, bytes, needed);
    return LSCHED_OK;
  });
}

// --- recording ---

lsched_status lsched_trace_start(lsched_world* world, uint64_t events) {
  constexpr std::uint64_t k_most = std::uint64_t{1} << 40;
  if (world == nullptr || events == 0 || events > k_most)
    return fail(status::argument, "world is null, or events is not from 1 to 2^40");
  return guarded(kept_diagnostic(), [&] {
    if (world->process.is_traced())
      return fail(status::state, "a trace is being recorded: call lsched_trace_write first");
    world->process.start_trace(events);
    return LSCHED_OK;
  });
}

lsched_status lsched_trace_write(lsched_world* world, const char* path, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr || path == nullptr) return report(diagnostic, {status::argument, "world or path is null"});
    if (!world->process.is_traced())
      return report(diagnostic, {status::state, "no trace is being recorded: call lsched_trace_start first"});
    const auto why = world->process.write_trace(path);
    return why ? report(diagnostic, *why) : LSCHED_OK;
  });
}

}  // extern "C"
