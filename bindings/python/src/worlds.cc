#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bindings/c/lsched_cuda.h"
#include "bindings/foreign_launcher.h"
#include "bindings/python/src/handles.h"
#include "bindings/python/src/interruptible.h"

namespace lsched::python {
namespace {

/// Options of a world. The value of an option that is not set comes from the environment, or else is the default.
struct wishes {
  std::optional<int> progress, idle, progress_core, lane;
  std::optional<std::uint64_t> region_bytes;
  std::optional<double> commit_timeout;

  lsched_config config() const {
    lsched_config all;
    lsched_config_init(&all);
    all.progress = progress.value_or(all.progress);
    all.idle = idle.value_or(all.idle);
    all.progress_core = progress_core.value_or(all.progress_core);
    all.lane = lane.value_or(all.lane);
    all.region_bytes = region_bytes.value_or(all.region_bytes);
    if (commit_timeout) all.commit_timeout_ns = nanoseconds(commit_timeout);
    return all;
  }
};

address opened(const wishes& how) {
  return adopted(
      interruptible([config = how.config()](lsched_world** made,
                                            lsched_diagnostic* why) { return lsched_world_open(&config, made, why); },
                    lsched_world_close));
}

/// Returns a description of the launcher of this process if the world of the launcher cannot be joined. init() then
/// refuses to open a world of one rank. Returns nullopt if there is no such launcher, or if the user requests a world
/// of one rank.
std::optional<std::string> foreign_launch() {
  const auto is_wanted_alone = wants_world_of_one();
  const auto local = find_launch();
  if (!is_wanted_alone || *is_wanted_alone || !local || *local) return std::nullopt;
  if (const auto joined = find_launch_to_join(); joined && *joined) return std::nullopt;
  const auto found = find_foreign_launch();
  return found && *found ? std::optional((*found)->text()) : std::nullopt;
}

/// Exchanges bytes between all ranks with a Python function. The function takes the bytes of this rank, and returns the
/// bytes of all ranks in rank order.
void exchange(const nb::callable& function, std::size_t ranks, const void* mine, void* all, std::uint64_t bytes) {
  const nb::object answer = function(nb::bytes(static_cast<const char*>(mine), bytes));
  if (nb::len(answer) != ranks)
    throw call_failure(
        told(LSCHED_ERR_ARGUMENT, ("exchange() returned " + std::to_string(nb::len(answer)) +
                                   " objects: return a bytes object for each of " + std::to_string(ranks) + " ranks")
                                      .c_str()));
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto theirs = nb::cast<nb::bytes>(answer[r]);
    if (theirs.size() != bytes)
      throw call_failure(told(
          LSCHED_ERR_ARGUMENT,
          "exchange() returned an object whose length differs from that of its argument: return the bytes unchanged"));
    std::memcpy(static_cast<char*>(all) + r * bytes, theirs.c_str(), bytes);
  }
}

/// Opens a world with a Python function that exchanges bytes. While the calling thread waits, it runs this function,
/// because some launchers allow no other thread to communicate.
address opened_with(const wishes& how, std::int32_t rank, std::int32_t size, nb::callable function) {
  struct asking {
    std::shared_ptr<call_in_thread> call = std::make_shared<call_in_thread>();
    std::function<void(const void*, void*, std::uint64_t)> answer{};
    bool is_answered = false;
  };
  const auto asks = std::make_shared<asking>();
  std::exception_ptr raised;
  asks->answer = [&, open = asks.get()](const void* mine, void* all, std::uint64_t bytes) {
    try {
      exchange(function, static_cast<std::size_t>(size), mine, all, bytes);
      open->is_answered = true;
    } catch (...) {
      raised = std::current_exception();
    }
  };
  const lsched_exchange ask = [](const void* mine, void* all, std::uint64_t bytes, void* context) {
    auto* const of = static_cast<asking*>(context);
    of->is_answered = false;
    const bool was_heard = of->call->ask([=] { of->answer(mine, all, bytes); });
    return was_heard && of->is_answered ? 0 : 1;
  };
  try {
    return adopted(interruptible(
        [=, config = how.config()](lsched_world** made, lsched_diagnostic* why) {
          return lsched_world_open_with(rank, size, ask, asks.get(), &config, made, why);
        },
        lsched_world_close, asks->call));
  } catch (const call_failure& failed) {
    if (raised && failed.why.status == LSCHED_ERR_TRANSPORT) std::rethrow_exception(raised);
    throw;
  }
}

std::vector<address> opened_threads(const wishes& how, std::int32_t ranks) {
  if (ranks < 1) throw call_failure(told(LSCHED_ERR_ARGUMENT, "a world must have at least one rank: pass 1 or more"));
  const lsched_config config = how.config();
  std::vector<lsched_world*> made(static_cast<std::size_t>(ranks));
  blocking([&](lsched_diagnostic* why) { return lsched_world_open_threads(ranks, &config, made.data(), why); });
  std::vector<address> all;
  for (lsched_world* one : made) all.push_back(adopted(one));
  return all;
}

address split(const world& of, std::int32_t color, std::int32_t key) {
  return adopted(interruptible(
      [=, all = committing(of)](lsched_world** made, lsched_diagnostic* why) {
        return lsched_split(all, color, key, made, why);
      },
      lsched_world_close));
}

address split_ranks(const world& of, const std::vector<std::int32_t>& ranks, std::int32_t tag) {
  return adopted(interruptible(
      [=, all = of.get()](lsched_world** made, lsched_diagnostic* why) {
        return lsched_split_ranks(all, ranks.data(), static_cast<std::int32_t>(ranks.size()), tag, made, why);
      },
      lsched_world_close));
}

std::vector<std::int32_t> lost(const world& of) {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(lsched_size(of.get())));
  auto count = static_cast<std::int32_t>(ranks.size());
  expect(lsched_world_lost(of.get(), ranks.data(), &count));
  ranks.resize(static_cast<std::size_t>(count));
  return ranks;
}

address shrink(const world& of, std::optional<double> timeout) {
  return adopted(
      interruptible([all = of.get(), limit = nanoseconds(timeout)](
                        lsched_world** made, lsched_diagnostic* why) { return lsched_shrink(all, limit, made, why); },
                    lsched_world_close));
}

void grow_begin(const world& of, const wishes& how, const std::optional<std::string>& file) {
  const auto all = committing(of);
  blocking([&, config = how.config()](lsched_diagnostic* why) {
    return lsched_grow_begin(all, &config, file ? file->c_str() : nullptr, why);
  });
}

std::string grow_text(const world& of) {
  std::string text(2048, '\0');
  std::size_t needed = 0;
  expect(lsched_grow_text(of.get(), text.data(), text.size(), &needed));
  text.resize(needed - 1);
  return text;
}

/// Returns the larger world, or 0. With the timeout 0, runs the call without a thread of its own.
address grow(const world& of, std::optional<double> timeout) {
  const auto call = [all = of.get(), limit = nanoseconds(timeout)](lsched_world** grown, lsched_diagnostic* why) {
    return lsched_grow(all, limit, grown, why);
  };
  if (timeout != 0) return reinterpret_cast<address>(interruptible<lsched_world>(call, lsched_world_close));
  lsched_world* grown = nullptr;
  blocking([&](lsched_diagnostic* why) { return call(&grown, why); });
  return reinterpret_cast<address>(grown);
}

address grow_end(const world& of, std::optional<double> timeout) {
  return reinterpret_cast<address>(interruptible<lsched_world>(
      [all = of.get(), limit = nanoseconds(timeout)](lsched_world** grown, lsched_diagnostic* why) {
        return lsched_grow_end(all, limit, grown, why);
      },
      lsched_world_close));
}

address joined(const wishes& how, const std::string& text, std::optional<double> timeout) {
  return adopted(interruptible(
      [config = how.config(), text, limit = nanoseconds(timeout)](lsched_world** made, lsched_diagnostic* why) {
        return lsched_world_join(text.c_str(), limit, &config, made, why);
      },
      lsched_world_close));
}

/// Takes part in the next collective call of the other ranks, and refuses the call. The call then fails on all ranks
/// with `code` and `text`.
void refuse(const world& of, int code, const std::string& text) {
  const auto all = committing(of);
  (void)unlocked([&] { return lsched_refuse(all, static_cast<lsched_status>(code), text.c_str(), nullptr); });
}

void end(lsched_world* all) {
  expect(unlocked([all] { return lsched_world_close(all); }));
}

/// Closes the world. If Python still refers to memory of the world, only retires the handle, and the last release()
/// closes the world. `is_used` is true if a schedule or a mailbox of the world is open. In that case lsched_world_close
/// fails, and its error text names the open objects.
void close(world& of, bool is_used) {
  if (!of.is_open()) return;
  (void)of.get();
  if (of.views != 0 && !is_used)
    of.retire();
  else
    of.give_back(end);
}

nb::dict stats(const world& of) {
  lsched_stats counted{.struct_size = sizeof counted};
  expect(unlocked([&, all = of.get()] { return lsched_get_stats(all, &counted); }));
  nb::dict told;
  told["rounds"] = counted.rounds;
  told["ops"] = counted.ops;
  told["messages_sent"] = counted.messages_sent;
  told["nulls_sent"] = counted.nulls_sent;
  told["bytes_sent"] = counted.bytes_sent;
  told["signals_sent"] = counted.signals_sent;
  told["steps"] = counted.steps;
  return told;
}

nb::dict node_of(const world& of, std::int32_t rank) {
  lsched_node node{.struct_size = sizeof node};
  expect(lsched_node_of(of.get(), rank, &node));
  nb::dict told;
  told["number"] = node.number;
  told["place"] = node.place;
  told["ranks"] = node.ranks;
  told["nodes"] = node.nodes;
  told["least_ranks"] = node.least_ranks;
  return told;
}

std::string describe(const world& of) {
  char text[512];
  expect(lsched_world_describe(of.get(), text, sizeof text));
  return text;
}

nb::tuple diagnose(const world& of) {
  std::int32_t rank = -1;
  std::string text = printed([&, all = of.get()](char* to, std::size_t room, std::size_t* needed) {
    return lsched_diagnose(all, &rank, to, room, needed);
  });
  return nb::make_tuple(rank, text);
}

/// Attaches a device. The value of an option that is not given comes from the environment, or else is the default.
void attach_cuda(const world& of, std::optional<std::int32_t> device, std::uint64_t staging_bytes,
                 std::optional<bool> host_waits) {
  lsched_cuda_config how;
  lsched_cuda_config_init(&how);
  how.device = device.value_or(how.device);
  if (host_waits) how.host_waits = *host_waits ? 1 : 0;
  how.staging_bytes = staging_bytes;
  blocking([&, all = of.get()](lsched_diagnostic* why) { return lsched_cuda_attach(all, &how, why); });
}

address allocate(world& of, std::uint64_t bytes) {
  void* memory = nullptr;
  expect(lsched_alloc(of.get(), bytes, &memory));
  ++of.views;
  return reinterpret_cast<address>(memory);
}

/// Frees memory of the world, unless the world is already destroyed. The last call also destroys a world that close()
/// has retired.
void release(world& of, address memory) {
  if (lsched_world* const all = of.kept()) expect(lsched_free(all, at(memory)));
  if (--of.views == 0) of.finish(end);
}

void trace_write(const world& of, const std::string& path) {
  blocking([&, all = of.get()](lsched_diagnostic* why) { return lsched_trace_write(all, path.c_str(), why); });
}

}  // namespace

void add_worlds(nb::module_& module) {
  nb::class_<wishes>(module, "Wishes")
      .def(nb::init<>())
      .def_rw("progress", &wishes::progress)
      .def_rw("idle", &wishes::idle)
      .def_rw("progress_core", &wishes::progress_core)
      .def_rw("lane", &wishes::lane)
      .def_rw("region_bytes", &wishes::region_bytes)
      .def_rw("commit_timeout", &wishes::commit_timeout)
      .def("commit_timeout_ns", [](const wishes& how) { return how.config().commit_timeout_ns; });
  module.def("open", opened);
  module.def("foreign_launch", foreign_launch);
  module.def("open_with", opened_with);
  module.def("open_threads", opened_threads);
  module.def("join", joined);
  nb::class_<world>(module, "World", nb::dynamic_attr(), nb::is_weak_referenceable())
      .def("__init__", [](world* made, address handle) { new (made) world(static_cast<lsched_world*>(at(handle))); })
      .def_prop_ro("is_open", &world::is_open)
      .def("_rank", [](const world& of) { return lsched_rank(of.get()); })
      .def("_size", [](const world& of) { return lsched_size(of.get()); })
      .def("_close", close)
      .def("_split", split)
      .def("_split_ranks", split_ranks)
      .def("_shrink", shrink)
      .def("_grow_begin", grow_begin)
      .def("_grow_text", grow_text)
      .def("_grow", grow)
      .def("_grow_end", grow_end)
      .def("_refuse", refuse)
      .def_ro("_commits", &world::commits)
      .def("_rank_in",
           [](const world& of, std::int32_t r, const world& other) { return lsched_rank_in(of.get(), r, other.get()); })
      .def("_lost", lost)
      .def("_node_of", node_of)
      .def("_stats", stats)
      .def("_describe", describe)
      .def("_diagnose", diagnose)
      .def("_progress",
           [](const world& of) {
             int moved = 0;
             expect(unlocked([&, all = of.get()] { return lsched_progress(all, &moved); }));
             return moved != 0;
           })
      .def("_set_nonblocking",
           [](const world& of, bool on) { expect(lsched_world_set(of.get(), LSCHED_NONBLOCKING, on ? 1 : 0)); })
      .def("_set_verify",
           [](const world& of, bool on) { expect(lsched_world_set(of.get(), LSCHED_PROVED, on ? 1 : 0)); })
      .def("_attach_cuda", attach_cuda, nb::arg().none(), nb::arg(), nb::arg().none())
      .def("_allocate", allocate)
      .def("_release", release)
      .def("_trace_start",
           [](const world& of, std::uint64_t events) {
             expect(unlocked([&, all = of.get()] { return lsched_trace_start(all, events); }));
           })
      .def("_trace_write", trace_write);
}

}  // namespace lsched::python
