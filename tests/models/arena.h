// The arena is the memory that the threads of a model share. It is one block, so that its bytes can be saved and
// restored.
#pragma once

#include <cstddef>
#include <span>

namespace models {

/// While an object of this class exists, operator new allocates from the arena. operator delete never frees memory of
/// the arena.
class arena_scope {
 public:
  arena_scope();
  ~arena_scope();
  arena_scope(const arena_scope&) = delete;
  arena_scope& operator=(const arena_scope&) = delete;
};

/// Makes operator new allocate from `pool`, a part of the arena. `pool` begins with the number of its bytes in use, so
/// that allocations are part of the saved state. Explored threads that allocate need a pool. An empty span restores the
/// normal operator new.
void allocate_from(std::span<std::byte> pool);

/// Returns the allocated part of the arena.
std::span<std::byte> arena();

/// Frees and clears the whole arena.
void empty_arena();

}  // namespace models
