// A pool that allocates pieces of memory from larger areas. The pool gets areas from a source, such as the driver of a
// GPU. The pool never returns an area, because the driver would wait for all work of the device before it frees the
// area. Only one thread at a time may use the pool, except for functions that allow any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

namespace lsched {

enum class piece_owner : std::uint8_t { nobody, library, application };

class memory_pool {
 public:
  static constexpr std::uint64_t k_alignment = 256;
  /// Maximum size of a piece. A source can round this size up without overflow.
  static constexpr std::uint64_t k_most = std::uint64_t{1} << 62;

  /// A function that returns an aligned area of at least `bytes` bytes, or an empty area if no memory is left.
  using source = std::function<std::span<std::byte>(std::uint64_t bytes)>;
  explicit memory_pool(source from) : from_(std::move(from)) {}

  /// Returns null if no memory is left.
  std::byte* allocate(std::uint64_t bytes, piece_owner whose);
  /// Frees a piece. Returns false if `memory` is not a piece of this pool or has another owner.
  bool deallocate(std::byte* memory, piece_owner whose);

  struct piece {
    std::uint64_t bytes = 0;
    piece_owner owner = piece_owner::nobody;
    bool begins_area = false;  ///< first piece of an area, so never merged with the preceding piece
  };
  /// Returns the part of a piece from `place` to the end of the piece, or nothing if `place` is not in this pool. Any
  /// thread may call this function.
  std::optional<piece> rest_of(const std::byte* place) const;

 private:
  using pieces = std::map<std::byte*, piece, std::less<>>;  ///< pieces, keyed by address
  pieces::iterator find_free(std::uint64_t bytes);
  void join_with_next(pieces::iterator it);

  source from_;
  mutable std::mutex guard_;  ///< locked while pieces change, and while other threads read them
  pieces all_;
};

}  // namespace lsched
