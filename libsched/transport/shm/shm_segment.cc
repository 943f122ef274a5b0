#include "libsched/transport/shm/shm_segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "libsched/transport/file_size_limit.h"
#include "libsched/transport/shm/peer_processes.h"
#include "libsched/transport/shm/region_size.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_magic = 0x6465686373626c45;  // must change when the layout below changes
constexpr std::size_t k_page_bytes = 4096;
constexpr int k_seals = F_SEAL_SHRINK | F_SEAL_GROW;  // a mapped file must not shrink

#ifndef MADV_POPULATE_WRITE  // Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 47;
constexpr std::chrono::milliseconds k_look_after_ranks{50};

constexpr std::uint64_t k_rank_bytes = round_up(sizeof(shm_page), k_page_bytes);
constexpr std::uint64_t k_pages_offset = k_page_bytes;

std::uint64_t recording_offset_of(std::int64_t ranks) {
  return k_pages_offset + k_rank_bytes * static_cast<std::uint64_t>(ranks);
}

std::uint64_t data_offset_of(std::int64_t ranks) { return recording_offset_of(ranks) + recording_bytes(ranks); }

std::uint64_t machine_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Returns the maximum address space for the segment: half of RLIMIT_AS, because the program needs the other half.
std::uint64_t address_limit() {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur / 2 : shm_segment::k_most_reserved;
}

/// Returns the failure for insufficient address space. The text suggests a quarter of the failed size, because the
/// program needs address space, too.
failure no_room(std::uint64_t stride, std::int64_t ranks, const char* why) {
  const std::uint64_t less = std::bit_floor(stride) / 4 >> 20;
  const std::string advice =
      less == 0 ? "raise `ulimit -v`"
                : "set LSCHED_REGION=" + std::to_string(less) + "M or a smaller region_bytes, or raise `ulimit -v`";
  return {status::no_memory, "shared memory: no address space for " + std::to_string(ranks) + " regions of " +
                                 std::to_string(stride >> 20) + " MiB (" + why + "): " + advice};
}

failure over_file_limit(std::uint64_t bytes, std::uint64_t limit) {
  return {status::no_memory,
          "shared memory: the segment of " + std::to_string(bytes >> 20) + " MiB exceeds the file size limit of " +
              std::to_string(limit >> 20) +
              " MiB (`ulimit -f`). Set a smaller LSCHED_REGION (bytes for each rank), or raise the limit"};
}

/// Returns the maximum size of a segment with regions of default size, given the process's limits (setrlimit).
std::uint64_t most_bytes_by_limits() { return std::min(address_limit(), file_size_limit()); }

bool write_at(int file, std::uint64_t offset, const void* from, std::size_t bytes) {
  return pwrite(file, from, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

/// Owns a file descriptor, and closes it unless it was moved out.
struct owned_descriptor {
  int number;
  ~owned_descriptor() {
    if (number >= 0) ::close(number);
  }
};

/// Returns the failure of a system call, from errno. `what` begins with the name of the call. EPERM and ENOSYS indicate
/// a sandbox, because no limit and no argument used here causes them.
failure system_failure(const char* what) {
  const bool is_refused = errno == EPERM || errno == ENOSYS;
  const char* const advice = is_refused
                                 ? ": a sandbox (seccomp) refuses this system call, which a world needs: allow the call"
                             : errno == EMFILE ? ": raise `ulimit -n`"
                                               : "";
  return {is_refused ? status::unsupported : status::transport,
          std::string("shared memory: ") + what + ": " + std::strerror(errno) + advice};
}

/// Returns a failure if a sandbox refuses futex(2). Without this test, std::mutex would abort the process later.
std::optional<failure> find_refused_futex() {
  std::uint32_t word = 0;
  if (syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0) >= 0) return std::nullopt;
  return system_failure("futex cannot wake a rank");
}

/// The file of the recording. Device and inode distinguish this file from other files of the same name.
struct recorder_file {
  std::array<char, 1024> path;
  std::uint64_t device, inode;

  bool exists() const { return path.front() != '\0'; }
};

/// Creates the file. The stored path is absolute, because other processes may have other working directories.
result<recorder_file> create_recorder(const std::string& name, std::int64_t ranks) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(name, error);
  if (!error) path = std::filesystem::weakly_canonical(path, error);
  recorder_file made{};
  if (error || path.native().size() >= made.path.size())
    return failure{status::argument, "the recorder's file " + name +
                                         " (LSCHED_RECORDER): " + (error ? error.message() : "the path is too long")};
  const auto file = create_recording(path, ranks);
  if (!file) return file.error();
  struct stat info {};
  fstat(*file, &info);
  ::close(*file);
  std::ranges::copy(path.native(), made.path.begin());
  made.device = info.st_dev;
  made.inode = info.st_ino;
  return made;
}

/// Opens the file of the recording, and checks its identity and size. The caller owns the descriptor.
result<int> open_recorder(const recorder_file& recorder, int access, std::uint64_t bytes) {
  owned_descriptor file{::open(recorder.path.data(), access | O_CLOEXEC | O_NONBLOCK)};
  struct stat info {};
  if (file.number < 0 || fstat(file.number, &info) != 0) return system_failure("cannot open the recorder's file");
  if (info.st_dev != recorder.device || info.st_ino != recorder.inode ||
      static_cast<std::uint64_t>(info.st_size) != bytes)
    return failure{status::transport, std::string("the recorder's file ") + recorder.path.data() +
                                          " was replaced before all ranks had opened it: start the ranks again"};
  return std::exchange(file.number, -1);
}

/// Maps the file in place of the recording's part of the segment.
std::optional<failure> map_recorder(const recorder_file& recorder, std::byte* place, std::uint64_t bytes) {
  const auto opened = open_recorder(recorder, O_RDWR, bytes);
  if (!opened) return opened.error();
  const owned_descriptor file{*opened};
  if (mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.number, 0) == MAP_FAILED)
    return system_failure("cannot map the recorder's file");
  return std::nullopt;
}

}  // namespace

struct shm_segment::header {
  std::uint64_t magic;
  std::uint64_t stride;
  std::uint64_t data_offset;
  std::int64_t ranks;
  std::uint64_t cores;
  process_id creator;
  recorder_file recorder;
  alignas(64) std::atomic<std::uint64_t> bad_news;
  std::atomic<std::uint32_t> entered;  ///< number of ranks that have opened their endpoints, or never will
  doorbell entrance;                   ///< bell that is rung when the last rank has entered

  // Returns true if the header is valid for a file of this size. Checks all fields, because any file may be passed.
  bool describes(std::uint64_t bytes) const {
    if (magic != k_magic || ranks < 1 || ranks > std::numeric_limits<rank>::max()) return false;
    if (data_offset != data_offset_of(ranks) || bytes < data_offset || stride == 0 || stride % k_page_bytes != 0)
      return false;
    const std::uint64_t regions = bytes - data_offset;
    return regions % stride == 0 && regions / stride == static_cast<std::uint64_t>(ranks);
  }
};

std::uint64_t shm_segment::default_stride(rank ranks, std::uint64_t memory, std::uint64_t most) {
  const std::uint64_t rest = std::min(most, k_most_reserved);
  const std::uint64_t others = std::min(data_offset_of(ranks), rest);
  return std::min(memory, (rest - others) / static_cast<std::uint64_t>(ranks)) / k_page_bytes * k_page_bytes;
}

result<std::shared_ptr<shm_segment>> shm_segment::create(rank ranks, std::size_t stride_bytes, unsigned cores,
                                                         const std::string& recorder) {
  if (ranks < 1) return failure{status::argument, "a world needs at least one rank, not " + std::to_string(ranks)};
  const std::uint64_t stride = stride_bytes != 0 ? round_up(std::min(stride_bytes, k_most_bytes), k_page_bytes)
                                                 : default_stride(ranks, machine_bytes(), most_bytes_by_limits());
  const std::uint64_t data_offset = data_offset_of(ranks);
  if (stride_bytes > k_most_bytes || data_offset > k_most_bytes ||
      stride > (k_most_bytes - data_offset) / static_cast<std::uint64_t>(ranks))
    return no_room(std::max<std::uint64_t>(stride, stride_bytes), ranks, "the address space has 128 TiB");
  const std::uint64_t least = data_offset + std::max(stride, k_least_region_bytes) * static_cast<std::uint64_t>(ranks);
  if (stride_bytes == 0 && least > file_size_limit()) return over_file_limit(least, file_size_limit());
  if (stride < k_least_region_bytes && stride_bytes == 0)
    return no_room(stride, ranks, "`ulimit -v` leaves too little");
  const std::uint64_t bytes = data_offset + stride * static_cast<std::uint64_t>(ranks);
  if (bytes > file_size_limit()) return over_file_limit(bytes, file_size_limit());

  // The descriptor must not be 0, 1 or 2: if a standard stream is closed, its output would go into the segment.
  const owned_descriptor lowest{memfd_create("libsched", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (lowest.number < 0) return system_failure("memfd_create cannot create the segment");
  owned_descriptor file{fcntl(lowest.number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)};
  if (file.number < 0) return system_failure("fcntl cannot duplicate the segment's descriptor");
  if (fchmod(file.number, S_IRUSR | S_IWUSR) != 0) return system_failure("fchmod cannot exclude other users");
  header first{k_magic, stride, data_offset, ranks, cores, own_process(), {}, {}, {}, {}};
  if (!recorder.empty()) {
    const auto made = create_recorder(recorder, ranks);
    if (!made) return made.error();
    first.recorder = *made;
  }
  const std::vector<std::byte> recording = recording_header(ranks);
  if (ftruncate(file.number, static_cast<off_t>(bytes)) != 0 || !write_at(file.number, 0, &first, sizeof first) ||
      !write_at(file.number, recording_offset_of(ranks), recording.data(), recording.size()))
    return system_failure("ftruncate or pwrite cannot set the size of the segment");
  if (fcntl(file.number, F_ADD_SEALS, k_seals | F_SEAL_SEAL) != 0) return system_failure("fcntl cannot seal memory");
  auto mapped = map(file.number);
  if (mapped) (*mapped)->descriptor_ = std::exchange(file.number, -1);
  return mapped;
}

std::string shm_segment::words_for_small_regions() const {
  if (stride() >= machine_bytes() / k_page_bytes * k_page_bytes) return {};
  return "shared memory: each rank has " + std::to_string(stride() >> 20) +
         " MiB, because the address space (`ulimit -v`), the file size limit (`ulimit -f`) or the number of ranks "
         "allows " +
         "no more. Raise the limit, or set the size with LSCHED_REGION";
}

result<std::shared_ptr<shm_segment>> shm_segment::adopt(int descriptor) {
  const owned_descriptor file{descriptor};
  return map(descriptor);
}

// A segment is a memory file with seals, and its name begins with `libsched`. Without /proc, only the seals are
// checked.
bool shm_segment::is_segment(int descriptor) {
  if (fcntl(descriptor, F_GET_SEALS) < 0) return false;
  std::error_code error;
  const auto file = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), error);
  return error || file.native().starts_with("/memfd:libsched");
}

result<std::shared_ptr<shm_segment>> shm_segment::map(int descriptor) {
  if (auto why = find_refused_futex()) return *why;
  header first{};
  struct stat info {};
  const ssize_t got = fstat(descriptor, &info) == 0 ? pread(descriptor, &first, sizeof first, 0) : -1;
  if (got < 0) return system_failure("pread cannot read the segment's header");
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (got != static_cast<ssize_t>(sizeof first) || !first.describes(bytes))
    return failure{status::version,
                   "the shared memory was created by another version of libsched: use one version for all ranks"};
  if ((fcntl(descriptor, F_GET_SEALS) & k_seals) != k_seals)
    return failure{status::transport,
                   "shared memory: the size of the segment is not sealed: start the ranks again, with `lsched run`"};
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (base == MAP_FAILED && errno == ENOMEM) return no_room(first.stride, first.ranks, std::strerror(errno));
  if (base == MAP_FAILED) return system_failure("mmap cannot map the segment");
  const std::shared_ptr<shm_segment> segment(new shm_segment(static_cast<std::byte*>(base), bytes));
  if (first.recorder.exists()) {
    first.recorder.path.back() = '\0';
    const std::uint64_t offset = recording_offset_of(first.ranks);
    if (auto why = map_recorder(first.recorder, segment->at(offset), recording_bytes(first.ranks))) return *why;
  }
  // A core dump would read every page that any rank has accessed, and so delay the end of the rank.
  if (madvise(base, bytes, MADV_DONTDUMP) != 0) return system_failure("madvise (MADV_DONTDUMP) failed");
  return segment;
}

shm_segment::~shm_segment() {
  munmap(base_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

shm_segment::header& shm_segment::head() const { return *std::launder(reinterpret_cast<header*>(base_)); }

rank shm_segment::ranks() const { return static_cast<rank>(head().ranks); }

unsigned shm_segment::cores() const { return static_cast<unsigned>(head().cores); }

process_id shm_segment::creator() const { return head().creator; }

std::size_t shm_segment::stride() const { return head().stride; }

rank shm_segment::lost_after(rank others) const {
  const std::int32_t lost = others < ranks() ? page(others).lost.load() : 0;
  return lost >= 1 && lost <= ranks() ? lost - 1 : k_no_rank;
}

bool shm_segment::is_lost(rank who) const {
  for (rank others = 0;; ++others) {
    const rank lost = lost_after(others);
    if (lost == who || lost == k_no_rank) return lost == who;
  }
}

bool shm_segment::record_lost(rank who) {
  for (rank others = 0; others < ranks(); ++others) {
    std::int32_t nobody = 0;
    if (page(others).lost.compare_exchange_strong(nobody, who + 1)) return wake_ranks(), true;
    if (nobody == who + 1) return false;
  }
  return false;
}

void shm_segment::wake_ranks() const {
  bad_news().fetch_add(1);
  for (rank peer = 0; peer < ranks(); ++peer) {
    ring(page(peer).bell, doorbell::waiter, INT_MAX);
    ring(page(peer).bell, doorbell::auxiliary);
  }
  ring(head().entrance, doorbell::waiter, INT_MAX);
}

void shm_segment::enter(rank who, shm_page::state as) {
  std::uint32_t before = shm_page::absent;
  if (!page(who).state_of_rank.compare_exchange_strong(before, as)) return;
  if (head().entered.fetch_add(1) + 1 == static_cast<std::uint32_t>(ranks()))
    ring(head().entrance, doorbell::waiter, INT_MAX);
}

// The last rank to enter wakes all ranks. Each rank also checks periodically whether another rank has ended without
// opening its endpoint, because such a rank has no watcher thread yet.
std::optional<failure> shm_segment::wait_for_ranks(std::chrono::nanoseconds limit) {
  using clock = std::chrono::steady_clock;
  const auto deadline = clock::now() + limit;
  doorbell& entrance = head().entrance;
  const auto may_sleep = [this] {
    return head().entered.load() < static_cast<std::uint32_t>(ranks()) && lost_after(0) == k_no_rank;
  };
  while (may_sleep() && find_absent() != k_no_rank) {
    const std::uint32_t epoch = entrance.word[doorbell::waiter].load();
    if (may_sleep())
      sleep_on(entrance, doorbell::waiter, epoch, std::min<std::chrono::nanoseconds>(limit, k_look_after_ranks));
    record_ended_on_the_way();
    const rank late = clock::now() >= deadline ? find_absent() : k_no_rank;
    if (late != k_no_rank && lost_after(0) == k_no_rank)
      return failure{status::timeout, "rank " + std::to_string(late) + " did not open its world in time", late};
  }
  const rank lost = lost_after(0);
  if (lost == k_no_rank || have_all_opened()) return std::nullopt;
  return failure{status::peer, "rank " + std::to_string(lost) + " ended before all ranks had opened their world", lost};
}

// If a rank ends before it has opened its endpoint, either the launcher marks the rank as closed, or its loss is
// recorded.
bool shm_segment::have_all_opened() const {
  for (rank r = 0; r < ranks(); ++r)
    if (page(r).state_of_rank.load() != shm_page::open && (find_absent() != k_no_rank || is_lost(r))) return false;
  return true;
}

rank shm_segment::find_absent() const {
  for (rank r = 0; r < ranks(); ++r)
    if (page(r).state_of_rank.load() == shm_page::absent) return r;
  return k_no_rank;
}

void shm_segment::record_ended_on_the_way() {
  const process_id own = own_process();
  for (rank r = 0; r < ranks(); ++r) {
    const process_id process = page(r).process.load();
    const bool is_on_its_way = page(r).state_of_rank.load() == shm_page::absent && process.number != 0;
    if (is_on_its_way && process.space == own.space && state_of_process(process.number) == rank_state::ending)
      record_lost(r);
  }
}

shm_page& shm_segment::page(rank of) const {
  const std::size_t offset = k_pages_offset + k_rank_bytes * static_cast<std::size_t>(of);
  return *std::launder(reinterpret_cast<shm_page*>(base_ + offset));
}

shm_record& shm_segment::record(rank of) const { return record_in(at(recording_offset_of(ranks())), of); }

// The recording is read with system calls, because loads from a mapping would allocate pages that were never written.
result<std::string> shm_segment::read_recording(int descriptor) {
  header first{};
  struct stat info {};
  if (fstat(descriptor, &info) != 0 ||
      pread(descriptor, &first, sizeof first, 0) != static_cast<ssize_t>(sizeof first) ||
      !first.describes(static_cast<std::uint64_t>(info.st_size)))
    return failure{status::version, "the shared memory was created by another version of libsched: use that version"};
  first.recorder.path.back() = '\0';
  std::string content(recording_bytes(first.ranks), '\0');
  const auto opened =
      first.recorder.exists() ? open_recorder(first.recorder, O_RDONLY, content.size()) : result<int>(-1);
  if (!opened) return opened.error();
  const owned_descriptor file{*opened};
  const std::uint64_t begin = first.recorder.exists() ? 0 : recording_offset_of(first.ranks);
  std::uint64_t done = 0;
  while (done < content.size()) {
    const ssize_t got = pread(first.recorder.exists() ? file.number : descriptor, content.data() + done,
                              content.size() - done, static_cast<off_t>(begin + done));
    if (got <= 0) return system_failure("cannot read the recording");
    done += static_cast<std::uint64_t>(got);
  }
  return content;
}

std::atomic<std::uint64_t>& shm_segment::bad_news() const { return head().bad_news; }

std::uint64_t shm_segment::region_start(rank of) const {
  return head().data_offset + head().stride * static_cast<std::uint64_t>(of);
}

rank shm_segment::region_of(std::uint64_t offset) const {
  const std::uint64_t first = region_start(0);
  const auto region = offset < first ? std::uint64_t{0} : (offset - first) / head().stride;
  return offset >= first && region < static_cast<std::uint64_t>(ranks()) ? static_cast<rank>(region) : k_no_rank;
}

bool shm_segment::holds(rank of, std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t start = region_start(of);
  return offset >= start && bytes <= head().stride && offset - start <= head().stride - bytes;
}

shm_heap::shm_heap(std::shared_ptr<shm_segment> segment, rank self, bool touches)
    : segment_(std::move(segment)),
      begin_(segment_->at(segment_->region_start(self))),
      end_(begin_ + segment_->stride()),
      touches_(touches) {
  free_[segment_->offset_of(begin_)] = segment_->stride();
}

// If madvise fails, pages are allocated at first access.
std::byte* shm_heap::allocate(std::size_t bytes) {
  std::byte* const memory = take(bytes);
  if (touches_ && memory != nullptr && bytes >= k_page_bytes) (void)madvise(memory, bytes, MADV_POPULATE_WRITE);
  return memory;
}

std::byte* shm_heap::take(std::size_t bytes) {
  if (bytes > segment_->stride()) return nullptr;
  const std::uint64_t alignment = bytes >= k_page_bytes ? k_page_bytes : 64;
  const std::uint64_t wanted = round_up(std::max<std::uint64_t>(bytes, 1), 64);
  const std::lock_guard lock(guard_);
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const auto [start, size] = *hole;
    const std::uint64_t place = round_up(start, alignment);
    if (wanted > size || place - start > size - wanted) continue;
    free_.erase(hole);
    if (place > start) free_[start] = place - start;
    if (const std::uint64_t rest = start + size - place - wanted; rest > 0) free_[place + wanted] = rest;
    used_[place] = wanted;
    kept_ -= std::min(kept_, wanted);
    return segment_->at(place);
  }
  return nullptr;
}

void shm_heap::deallocate(std::byte* place) {
  if (place == nullptr) return;
  const std::lock_guard lock(guard_);
  const auto used = used_.find(segment_->offset_of(place));
  if (used == used_.end()) return;
  auto [start, size] = *used;
  used_.erase(used);
  keep_or_give_back(start, size);
  auto next = free_.lower_bound(start);
  if (next != free_.end() && next->first == start + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == start) {
      before->second += size;
      return;
    }
  }
  free_[start] = size;
}

// Keeps the pages of at most k_most_kept free bytes for later allocations, and returns other pages to the system.
void shm_heap::keep_or_give_back(std::uint64_t start, std::uint64_t bytes) {
  kept_ += bytes;
  if (kept_ <= k_most_kept) return;
  kept_ -= bytes;
  const std::uint64_t first = round_up(start, k_page_bytes), end = (start + bytes) / k_page_bytes * k_page_bytes;
  if (first < end) (void)madvise(segment_->at(first), end - first, MADV_REMOVE);
}

bool shm_heap::owns(const std::byte* place, std::uint64_t bytes) const {
  return place >= begin_ && place < end_ && bytes <= static_cast<std::uint64_t>(end_ - place);
}

}  // namespace lsched
