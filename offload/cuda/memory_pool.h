// Memory that is handed out in pieces and taken back, but never given up before the end: for memory whose owner must
// not be asked to free anything meanwhile, as a GPU's driver would wait for all it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>

namespace lsched {

class memory_pool {
 public:
  static constexpr std::uint64_t k_alignment = 256;
  static constexpr std::uint64_t k_most = std::uint64_t{1} << 62;  ///< in one piece: sources may round that up

  /// Where memory comes from: an aligned area of at least so many bytes; empty: there is none left.
  using source = std::function<std::span<std::byte>(std::uint64_t bytes)>;
  explicit memory_pool(source from) : from_(std::move(from)) {}

  /// null: there is none left.
  std::byte* allocate(std::uint64_t bytes);
  /// False: it is no piece of this pool's that is in use.
  bool deallocate(std::byte* memory);

 private:
  /// A piece, by where it begins.
  struct piece {
    std::uint64_t bytes = 0;
    bool is_free = true;
    bool begins_area = false;  ///< so it is not one with what may lie before it
  };
  using pieces = std::map<std::byte*, piece>;
  pieces::iterator find_free(std::uint64_t bytes);
  void join_with_next(pieces::iterator it);

  source from_;
  pieces all_;
};

}  // namespace lsched
