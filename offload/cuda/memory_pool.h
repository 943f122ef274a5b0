// Memory that is handed out in pieces and taken back, but never given up before the end: for memory whose owner must
// not be asked to free anything meanwhile, as a GPU's driver would wait for all it does. One thread at a time, except
// where a function says "any thread".
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

/// Whose a piece is.
enum class piece_owner : std::uint8_t { nobody, library, application };

class memory_pool {
 public:
  static constexpr std::uint64_t k_alignment = 256;
  static constexpr std::uint64_t k_most = std::uint64_t{1} << 62;  ///< in one piece: sources may round that up

  /// Where memory comes from: an aligned area of at least so many bytes; empty: there is none left.
  using source = std::function<std::span<std::byte>(std::uint64_t bytes)>;
  explicit memory_pool(source from) : from_(std::move(from)) {}

  /// null: there is none left.
  std::byte* allocate(std::uint64_t bytes, piece_owner whose);
  /// False: it is no piece of this pool's that is that owner's.
  bool deallocate(std::byte* memory, piece_owner whose);

  /// A part of the pool's memory.
  struct piece {
    std::uint64_t bytes = 0;
    piece_owner owner = piece_owner::nobody;
    bool begins_area = false;  ///< so it is not one with what may lie before it
  };
  /// What is left, from there on, of the piece that a place is in; nothing: it is none of this pool's. Any thread.
  std::optional<piece> rest_of(const std::byte* place) const;

 private:
  using pieces = std::map<std::byte*, piece, std::less<>>;  ///< by where they begin
  pieces::iterator find_free(std::uint64_t bytes);
  void join_with_next(pieces::iterator it);

  source from_;
  mutable std::mutex guard_;  ///< of changes, and of other threads that look
  pieces all_;
};

}  // namespace lsched
