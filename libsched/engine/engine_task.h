// Work that the engine carries on in its steps besides rounds, such as the commits of a world.
#pragma once

#include "ops/base.h"

namespace lsched {

/// The engine's owner calls it. Nothing here blocks.
class engine_task {
 public:
  /// As far as it goes now. Answers whether anything moved.
  virtual bool advance() = 0;

  /// Whether there is nothing to wait for any more. The engine forgets it then.
  virtual bool is_over() const = 0;

  /// A rank of the transport is lost.
  virtual void lose(rank home) = 0;

 protected:
  ~engine_task() = default;
};

}  // namespace lsched
