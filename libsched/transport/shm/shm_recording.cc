#include "libsched/transport/shm/shm_recording.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "libsched/transport/file_size_limit.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_magic = 0x34636572736c;  // must change when the layout changes
constexpr std::uint64_t k_page_bytes = 4096;
constexpr std::uint64_t k_record_bytes = (sizeof(shm_record) + k_page_bytes - 1) / k_page_bytes * k_page_bytes;

struct header {
  std::uint64_t magic;
  std::int64_t ranks;
  std::int64_t wall_offset_ns;
  std::array<char, 40> boot;
};

std::int64_t now_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// Returns an id that is different after each start of the machine, or zeros if the system hides the id.
std::array<char, 40> boot_of_machine() {
  std::array<char, 40> boot{};
  const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0) return boot;
  if (read(file, boot.data(), boot.size() - 1) < 0) boot = {};
  close(file);
  return boot;
}

failure file_failure(status code, const std::string& path, const std::string& why) {
  return {code, "the recorder's file " + path + " (LSCHED_RECORDER): " + why};
}

/// Returns true if the file may be replaced, because it does not exist, is empty, or is a recording.
bool may_be_replaced(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return errno == ENOENT;
  struct stat info {};
  std::uint64_t magic = 0;
  const bool is_file = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  const bool is_ours =
      is_file && (info.st_size == 0 || (pread(file, &magic, sizeof magic, 0) == sizeof magic && magic == k_magic));
  close(file);
  return is_ours;
}

/// Converts a word of a record to a kind of op. Returns `nop` if the word is invalid. The recording is then damaged.
op_kind kind_of(std::uint32_t word) { return word < k_kinds.size() ? static_cast<op_kind>(word) : op_kind::nop; }

}  // namespace

void shm_record::note(const wait_note& what) {
  wait_round.store(0);
  wait_instance.store(what.instance);
  wait_op.store(what.op);
  wait_peer.store(what.peer);
  wait_kind.store(static_cast<std::uint32_t>(what.kind));
  wait_tag.store(what.tag);
  wait_since_ns.store(what.since_ns);
  wait_round.store(what.round);
}

wait_note shm_record::wait() const {
  const round_no round = wait_round.load();
  const std::uint64_t since = wait_since_ns.load();
  const wait_note note{.instance = wait_instance.load(),
                       .round = round,
                       .op = wait_op.load(),
                       .peer = wait_peer.load(),
                       .kind = kind_of(wait_kind.load()),
                       .tag = wait_tag.load(),
                       .since_ns = since};
  return wait_round.load() == round && wait_since_ns.load() == since ? note : wait_note{};
}

/// If the name is too long, truncates the part before the suffix " #number". The suffix is kept, because the number
/// identifies the instance.
void shm_record::set_label(std::uint32_t place, std::string_view text) {
  const std::size_t length = std::min(text.size(), k_label_bytes - 1);
  const std::size_t tail = length == text.size() ? 0 : text.size() - std::min(text.rfind(" #"), text.size());
  const std::size_t kept = std::min(tail, length);
  std::copy_n(text.begin(), length - kept, label[place]);
  std::copy_n(text.end() - static_cast<std::ptrdiff_t>(kept), kept, label[place] + length - kept);
  label[place][length] = '\0';
}

std::uint64_t monotonic_ns() { return static_cast<std::uint64_t>(now_of(CLOCK_MONOTONIC)); }

std::int64_t wall_offset_ns() { return now_of(CLOCK_REALTIME) - now_of(CLOCK_MONOTONIC); }

std::uint64_t recording_bytes(std::int64_t ranks) {
  return k_page_bytes + k_record_bytes * static_cast<std::uint64_t>(ranks);
}

std::vector<std::byte> recording_header(std::int64_t ranks) {
  const header first{k_magic, ranks, wall_offset_ns(), boot_of_machine()};
  std::vector<std::byte> bytes(sizeof first);
  std::memcpy(bytes.data(), &first, sizeof first);
  return bytes;
}

shm_record& record_in(std::byte* recording, rank who) {
  return *std::launder(
      reinterpret_cast<shm_record*>(recording + k_page_bytes + k_record_bytes * static_cast<std::uint64_t>(who)));
}

result<int> create_recording(const std::string& path, std::int64_t ranks) {
  if (recording_bytes(ranks) > file_size_limit())
    return file_failure(status::no_memory, path, "the recording exceeds the file size limit: raise `ulimit -f`");
  if (!may_be_replaced(path))
    return file_failure(status::argument, path,
                        "the file exists and is not a recording, or cannot be read: name another file");
  std::string draft = path + ".XXXXXX";
  const int file = mkostemp(draft.data(), O_CLOEXEC);
  if (file < 0) return file_failure(status::argument, path, std::strerror(errno));
  const std::vector<std::byte> first = recording_header(ranks);
  int error = posix_fallocate(file, 0, static_cast<off_t>(recording_bytes(ranks)));
  if (error == 0 && (pwrite(file, first.data(), first.size(), 0) != static_cast<ssize_t>(first.size()) ||
                     rename(draft.c_str(), path.c_str()) != 0))
    error = errno;
  if (error == 0) return file;
  unlink(draft.c_str());
  close(file);
  return file_failure(error == ENOSPC ? status::no_memory : status::argument, path, std::strerror(error));
}

recorded_rank read_record(const shm_record& record) {
  recorded_rank one{.number = record.rank_in_world.load(),
                    .process = record.process.load(),
                    .process_start = record.process_start.load(),
                    .closed_ns = record.closed_ns.load(),
                    .wait = record.wait()};
  for (std::uint32_t place = 0; place < shm_record::k_places; ++place) {
    const char* const label = record.label[place];
    if (const std::uint64_t number = record.number[place].load(); number != 0)
      one.schedules.push_back(
          {number - 1, std::string(label, strnlen(label, shm_record::k_label_bytes)), record.entered[place].load()});
  }
  std::ranges::stable_sort(one.schedules, {}, &recorded_schedule::number);
  return one;
}

const recorded_schedule* recorded_rank::find(std::uint64_t schedule) const {
  const auto found = std::ranges::find(schedules, schedule, &recorded_schedule::number);
  return found == schedules.end() ? nullptr : &*found;
}

result<recording> parse_recording(std::span<const std::byte> bytes) {
  header first{};
  const failure unknown{status::version, "this is not a recording of this version of libsched"};
  if (bytes.size() < sizeof first) return unknown;
  std::memcpy(&first, bytes.data(), sizeof first);
  if (first.magic != k_magic || first.ranks < 1 || first.ranks > std::numeric_limits<rank>::max() ||
      bytes.size() != recording_bytes(first.ranks))
    return unknown;
  recording all{.is_of_this_boot = first.boot == boot_of_machine() && first.boot.front() != '\0',
                .wall_offset_ns = first.wall_offset_ns};
  // Copies one record at a time, because the bytes may come from a file and be unaligned.
  const auto record = std::make_unique<shm_record>();
  for (std::int64_t r = 0; r < first.ranks; ++r) {
    const std::size_t offset = k_page_bytes + k_record_bytes * static_cast<std::uint64_t>(r);
    std::memcpy(static_cast<void*>(record.get()), bytes.data() + offset, sizeof *record);
    all.ranks.push_back(read_record(*record));
    if (all.ranks.back().process == 0) all.ranks.back().number = static_cast<rank>(r);
  }
  return all;
}

}  // namespace lsched
