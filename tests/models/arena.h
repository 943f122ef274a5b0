// The memory that the threads of a model share. It is one block, so that it can be saved and restored as bytes.
#pragma once

#include <cstddef>
#include <span>

namespace models {

/// While an object exists, operator new allocates from the arena. operator delete does not free memory of the arena.
class arena_scope {
 public:
  arena_scope();
  ~arena_scope();
  arena_scope(const arena_scope&) = delete;
  arena_scope& operator=(const arena_scope&) = delete;
};

/// Makes operator new allocate from this part of the arena, which begins with the number of bytes in use. An empty span
/// ends this. Explored threads that allocate need such a part, because it belongs to the state.
void allocate_from(std::span<std::byte> pool);

/// Returns the allocated part of the arena.
std::span<std::byte> arena();

/// Frees and clears the whole arena.
void empty_arena();

}  // namespace models
