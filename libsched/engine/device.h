// The contract of a device: what carries out the ops of placed schedules that touch device memory (libsched/place), and
// whose memory that is. (docs/reference/device.md)
//
// The engine's owner calls it, nobody else, unless a function says "any thread". Ends are reported by value; there are
// no callbacks. A job that is taken is done once and reported once, and nothing blocks but drain() and copy_at_once().
// All that jobs need is reserved at commit, so none is ever refused.
//
// A device that fails does so once and for all: health() says so from then on. Its jobs are reported all the same, once
// they do not write any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "libsched/engine/round_gate.h"
#include "ops/kernel.h"
#include "ops/sparse_job.h"
#include "ops/status.h"

namespace lsched {

/// A compute: operands in device memory, or in memory that the device reaches. Sums that it goes by are the host's.
struct device_job {
  kernel what = kernel::none;
  dtype type = dtype::u8;
  kernel_call call{};
  const sparse_job* sparse = nullptr;  ///< of a function: what there is to do
  std::uint64_t cookie = 0;            ///< handed back when it has ended
};

class device {
 public:
  virtual ~device() = default;

  /// For people: "NVIDIA H100 80GB HBM3 (device 0)".
  virtual std::string name() const = 0;

  /// Where the caller's memory is: host or device. ARGUMENT: parts of it are in different places, on another device, or
  /// gone. Any thread.
  virtual result<memory_space> space_of(const std::byte* memory, std::uint64_t bytes) const = 0;

  // --- cold: commit and removal ---------------------------------------------------------------------------------

  /// Memory of that space, 256-byte aligned, contents unspecified. null: there is none left. Never waits for what the
  /// device does.
  virtual std::byte* allocate(memory_space space, std::uint64_t bytes) = 0;
  virtual void deallocate(std::byte* memory) = 0;

  /// Device memory for the application, likewise; space_of() knows it as such until it is taken back.
  virtual std::byte* lend(std::uint64_t bytes) = 0;
  /// False: it is none that was lent, or was taken back before.
  virtual bool take_back(std::byte* memory) = 0;

  /// Copies from or to device memory, or zeros if `from` is null, and waits for that. Anything but ok: nothing, or part
  /// of it, is copied.
  virtual status copy_at_once(std::byte* to, const std::byte* from, std::uint64_t bytes) = 0;

  /// Makes room for so many more jobs at a time, each of operands of `most_elements` at most. NO_MEMORY: nothing has
  /// changed. DEVICE.
  virtual status reserve(std::uint32_t jobs, std::uint64_t most_elements) = 0;
  /// Takes back the room for so many.
  virtual void unreserve(std::uint32_t jobs) = 0;

  // --- device memory that peers read themselves, if they can ------------------------------------------------------

  /// Whether this device can read memory of that rank's, by its number in the transport. Cold path.
  virtual bool reads_memory_of(rank home) = 0;

  /// Where peers that can find device memory, until as many hide() it; 0: they cannot. Cold path.
  virtual std::uint64_t show(const std::byte* memory, std::uint64_t bytes) = 0;
  virtual void hide(std::uint64_t where) = 0;

  /// Memory that a rank has shown, where this device finds it; null: it cannot, as failure_words() says, but may at
  /// another time. It stays there as long as somebody holds it. Takes some 100 us for the first of what the
  /// rank has allocated in one.
  virtual std::shared_ptr<const std::byte> find_shown(rank home, std::uint64_t where, std::uint64_t bytes) = 0;

  /// What was found of ranks that are lost, or show it no more, is let go of. Cold path.
  virtual void forget_gone() = 0;

  // --- data path --------------------------------------------------------------------------------------------------

  /// Whether the device can read host memory where it is: staging memory of its own, or of a peer's.
  virtual bool reaches(const std::byte* memory, std::uint64_t bytes) = 0;

  virtual void submit(const device_job& job) = 0;

  /// The cookies of up to `out.size()` jobs that have ended since. What they have written in staging memory is visible
  /// to the caller.
  virtual std::size_t poll(std::span<std::uint64_t> out) = 0;

  /// Rings this rank's doorbell when the next of the jobs under way ends; perhaps not if it has ended already, so the
  /// caller looks once more. False: nobody will ring, and the caller has to look again and again.
  virtual bool arm() = 0;

  /// For rounds in the order of streams. null: there is no memory left for one, or the device has failed. Cold path.
  virtual std::unique_ptr<round_gate> make_gate() = 0;

  /// OK; DEVICE once it has failed.
  virtual status health() const = 0;
  /// Why it has failed; of one that is well, what it could not do last.
  virtual std::string failure_words() const = 0;

  /// Waits until every job has ended, for some seconds at most: a job that takes longer hangs, and memory that it may
  /// still write is never given back. For the end of an engine.
  virtual void drain() = 0;
};

}  // namespace lsched
