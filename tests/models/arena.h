// The memory that a model's threads share: one block, so that it can be saved and put back as bytes.
#pragma once

#include <cstddef>
#include <span>

namespace models {

/// While one exists, operator new takes from the arena. The first one empties it. Nothing is given back.
class arena_scope {
 public:
  arena_scope();
  ~arena_scope();
  arena_scope(const arena_scope&) = delete;
  arena_scope& operator=(const arena_scope&) = delete;
};

/// Makes operator new take from this piece of the arena, which holds the number of bytes in use first. An empty piece
/// ends that. For threads under exploration that allocate, because the piece is part of the state.
void allocate_from(std::span<std::byte> pool);

/// What has been allocated.
std::span<std::byte> arena();

/// Forgets everything in it.
void empty_arena();

}  // namespace models
