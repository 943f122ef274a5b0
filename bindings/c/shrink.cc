// Changes of the ranks of a training run. Creates the world of the survivors after a death, lets worlds grow, and moves
// partial schedules into another world (lsched_carry, docs/reference/shrink.md).
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <string>

#include "bindings/c/build_id.h"
#include "bindings/c/sized.h"
#include "bindings/c/world.h"
#include "bindings/log.h"
#include "offload/open/growth.h"
#include "offload/open/node_world.h"
#include "ops/hash.h"

namespace lsched {
namespace {

/// Moves a partial schedule to the world `to`. If the arguments are invalid, this rank does not inform the other ranks.
/// Ranks with the same arguments find the same error. Ranks with valid arguments wait for this rank until their
/// timeout.
std::optional<failure> carry(lsched_schedule& schedule, lsched_world& to) {
  const std::string& label = schedule.instance->label;
  if (!schedule.is_partial())
    return failure{status::unsupported, label +
                                            " is an ordinary schedule, but lsched_carry moves only partial schedules: "
                                            "create the schedule in the other world"};
  if (schedule.has_groups())
    return failure{status::unsupported,
                   label + " has replica groups, which cannot be moved: create the schedule in the other world"};
  if (schedule.extras.anew == nullptr)
    return failure{status::unsupported,
                   label +
                       " cannot be moved to another world, because lsched_carry moves only allreduce and adasum: "
                       "create the schedule in the other world"};
  const auto anew = [&]() -> result<commit_request> {
    auto made = schedule.extras.anew(to);
    if (!made) return made.error();
    made->request.proof = proof_of(to, *made);
    return std::move(made->request);
  };
  queued_commit made;
  auto why = to.joined.carry(*schedule.session, schedule.world->joined, anew, &made);
  if (made.commit == nullptr) return why;
  schedule.instance = made.instances.front();
  schedule.flights = flights(std::span(made.instances).first(1));
  schedule.commit = made.commit;
  schedule.world = &to;
  return why;
}

/// The larger world of a growth.
struct opened_world final : larger_world {
  opened_world(opened_rank opened, const open_options& how)
      : made(new lsched_world(std::move(opened.net), how, opened.around)) {}
  joined_world& joined() override { return made->joined; }
  std::unique_ptr<lsched_world> made;
};

lsched_world* release(std::unique_ptr<larger_world>& from) {
  return from == nullptr ? nullptr : static_cast<opened_world&>(*from).made.release();
}

/// Returns a suffix for the files of the larger world, which is equal on all ranks. The files of the present world are
/// still in use.
std::string suffix_of(const door_key& key) {
  fnv_hash hash;
  hash.add(std::string_view(reinterpret_cast<const char*>(key.secret.data()), key.secret.size()));
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), ".grown-%06x", static_cast<unsigned>(hash.value() & 0xffffff));
  return text.data();
}

/// Opens the world of an invitation.
result<std::unique_ptr<larger_world>> open_as(const world& invited, const visit& through, const door_key& key,
                                              std::chrono::nanoseconds limit, open_options how) {
  how.segment.start_timeout = how.segment.connect_timeout = limit;
  how.segment.known_secret = key.secret;
  if (!how.segment.recorder.empty()) how.segment.recorder += suffix_of(key);
  if (!how.trace_prefix.empty()) how.trace_prefix += suffix_of(key);
  auto opened = open_by_rendezvous(invited, LSCHED_BUILD, through.exchange(invited, 2 * limit), how.segment);
  if (!opened) return opened.error();
  return std::unique_ptr<larger_world>(std::make_unique<opened_world>(std::move(*opened), how));
}

std::uint64_t hash_of_build() {
  fnv_hash hash;
  hash.add(std::string_view(LSCHED_BUILD));
  return hash.value();
}

growth_calls calls_of(const open_options& how, rank self) {
  return {.build = hash_of_build(),
          .open = [how](const world& invited, const visit& through, const door_key& key,
                        std::chrono::nanoseconds limit) { return open_as(invited, through, key, limit, how); },
          .note_failure = [self](const std::string& why) { log(log_level::info, self, why); }};
}

/// Writes the text to a file that only this user can read. Readers see the old file or the whole new file. Does not
/// follow links, because the directory may be open to other users.
std::optional<failure> write_key(const std::string& path, const door_key& key) {
  const std::string fresh = path + "." + std::to_string(getpid()) + ".new", text = key.text() + "\n";
  (void)unlink(fresh.c_str());
  errno = 0;
  descriptor file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const bool is_written = file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  file.reset();
  if (is_written && std::rename(fresh.c_str(), path.c_str()) == 0) return std::nullopt;
  const std::string why = errno == 0 ? "the file system is full" : strerror(errno);
  (void)unlink(fresh.c_str());
  return failure{status::argument, "file: \"" + path + "\" cannot be written: " + why};
}

/// Reads the text, or the file that the text names. The file may not exist yet.
result<door_key> find_key(const std::string& text) {
  if (!text.starts_with('@')) return read_door_key(text);
  std::ifstream file(text.substr(1));
  std::string word;
  if (file >> word) return read_door_key(word);
  return failure{status::timeout, "\"" + text.substr(1) + "\" cannot be read: pass the file of lsched_grow_begin"};
}

std::optional<failure> reason_against(const lsched_world& world, const open_options& how) {
  if (how.segment.encrypts)
    return failure{status::unsupported,
                   "a world with LSCHED_NET_ENCRYPT cannot grow: open a larger world by lsched_world_open_with"};
  if (!how.process.wants_thread || !world.process.wants_thread())
    return failure{status::unsupported,
                   "a world with LSCHED_PROGRESS_CALLER cannot grow, because the growth needs progress threads: set "
                   "progress to LSCHED_PROGRESS_THREAD"};
  return std::nullopt;
}

/// The part of this rank in the begin of a growth.
struct beginning {
  std::unique_ptr<growth> made;
  std::unique_ptr<door> house;  ///< only on rank 0
  std::optional<failure> unable;
};

beginning prepare(lsched_world& world, const result<open_options>& how, const char* file) {
  beginning mine;
  if (!how) return {nullptr, nullptr, how.error()};
  if ((mine.unable = reason_against(world, *how))) return mine;
  mine.made = std::make_unique<growth>(world.joined, calls_of(*how, world.place().self));
  if (world.place().self != 0) return mine;
  auto opened = door::open(how->segment.interfaces, world.place().size, hash_of_build());
  if (!opened) {
    mine.unable = opened.error();
    return mine;
  }
  mine.house = std::move(*opened);
  if (file != nullptr) mine.unable = write_key(file, mine.house->key());
  return mine;
}

/// Opens the door on rank 0, and sends its key to all ranks. If a rank cannot begin, the call fails on all ranks.
std::optional<failure> begin_growth(lsched_world& world, const result<open_options>& how, const char* file) {
  beginning mine;
  try {
    mine = prepare(world, how, file);
  } catch (const std::exception& error) {
    mine = {nullptr, nullptr,
            failure{status::no_memory, std::string("no thread or descriptor is left: ") + error.what()}};
  }
  announcement::data sent{};
  static_assert(sizeof(door_key) <= announcement::k_bytes);
  if (mine.house != nullptr) std::memcpy(sent.data(), &mine.house->key(), sizeof(door_key));
  const auto announced = world.joined.announce("the begin of growth", sent, mine.unable);
  if (!announced) return announced.error();
  door_key key;
  std::memcpy(&key, announced->data(), sizeof key);
  mine.made->begin(key, std::move(mine.house));
  world.growing = std::move(mine.made);
  return std::nullopt;
}

/// Ends the growth of the world. Returns the larger world if new ranks were admitted. Returns null if the world has not
/// grown.
result<std::unique_ptr<larger_world>> settle_growth(lsched_world& world, driver::clock::time_point deadline) {
  if (world.growing == nullptr) return std::unique_ptr<larger_world>();
  return world.growing->settle(deadline);
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_world_lost(const lsched_world* world, int32_t* ranks, int32_t* count) {
  if (world == nullptr || count == nullptr) return fail(status::argument, "world or count is null");
  if (*count < 0 || (*count > 0 && ranks == nullptr))
    return fail(status::argument, "*count is negative, or there is room for ranks but ranks is null");
  *count = world->joined.lost({ranks, static_cast<std::size_t>(*count)});
  return LSCHED_OK;
}

lsched_status lsched_shrink(lsched_world* world, uint64_t timeout_ns, lsched_world** survivors,
                            lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr || survivors == nullptr)
      return report(diagnostic, {status::argument, "world or survivors is null"});
    *survivors = nullptr;
    const auto deadline = deadline_after(timeout_ns);
    auto larger = settle_growth(*world, deadline);
    if (!larger) return report(diagnostic, larger.error());
    if (*larger != nullptr) {
      *survivors = release(*larger);
      return LSCHED_OK;
    }
    auto left = world->joined.shrink(deadline);
    if (!left) return report(diagnostic, with_details_of_rank(*world, left.error()));
    *survivors = new lsched_world(*world, std::move(*left));
    return LSCHED_OK;
  });
}

lsched_status lsched_grow_begin(lsched_world* world, const lsched_config* config, const char* file,
                                lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
    if (world->growing != nullptr)
      return report(diagnostic, {status::state, "lsched_grow_begin was called before for this world"});
    const auto why = begin_growth(*world, read_config(config), file);
    return why ? report(diagnostic, with_details_of_rank(*world, *why)) : LSCHED_OK;
  });
}

lsched_status lsched_grow_text(const lsched_world* world, char* text, size_t bytes, size_t* needed) {
  return guarded(kept_diagnostic(), [&] {
    if (world == nullptr || (text == nullptr && bytes != 0))
      return report(kept_diagnostic(), {status::argument, "world or text is null"});
    if (world->growing == nullptr)
      return report(kept_diagnostic(), {status::state, "the world cannot grow: call lsched_grow_begin first"});
    copy_out(world->growing->key().text(), text, bytes, needed);
    return LSCHED_OK;
  });
}

lsched_status lsched_grow(lsched_world* world, uint64_t timeout_ns, lsched_world** grown,
                          lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr || grown == nullptr) return report(diagnostic, {status::argument, "world or grown is null"});
    *grown = nullptr;
    if (world->growing == nullptr)
      return report(diagnostic, {status::state, "the world cannot grow: call lsched_grow_begin first"});
    auto larger = world->growing->take(deadline_after(timeout_ns));
    if (!larger) return report(diagnostic, larger.error());
    *grown = release(*larger);
    return LSCHED_OK;
  });
}

lsched_status lsched_grow_end(lsched_world* world, uint64_t timeout_ns, lsched_world** grown,
                              lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr || grown == nullptr) return report(diagnostic, {status::argument, "world or grown is null"});
    *grown = nullptr;
    if (world->growing == nullptr) return LSCHED_OK;
    auto larger = world->growing->settle(deadline_after(timeout_ns));
    if (!larger) return report(diagnostic, larger.error());
    *grown = release(*larger);
    return LSCHED_OK;
  });
}

lsched_status lsched_world_join_abi(int abi, const char* text, uint64_t timeout_ns, const lsched_config* config,
                                    lsched_world** world, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI) return report(diagnostic, wrong_abi(abi));
    if (text == nullptr || world == nullptr) return report(diagnostic, {status::argument, "text or world is null"});
    *world = nullptr;
    const auto options = read_config(config);
    if (!options) return report(diagnostic, options.error());
    if (options->segment.encrypts)
      return report(diagnostic,
                    {status::unsupported,
                     "LSCHED_NET_ENCRYPT is set, but a growing world has no encryption: unset the variable"});
    auto joined =
        join_growing_world([&] { return find_key(text); }, calls_of(*options, k_no_rank), deadline_after(timeout_ns));
    if (!joined) return report(diagnostic, joined.error());
    *world = release(*joined);
    return LSCHED_OK;
  });
}

lsched_status lsched_carry(lsched_schedule* schedule, lsched_world* to, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (schedule == nullptr || to == nullptr) return report(diagnostic, {status::argument, "schedule or to is null"});
    const auto why = carry(*schedule, *to);
    return why ? report(diagnostic, *why) : LSCHED_OK;
  });
}

}  // extern "C"
