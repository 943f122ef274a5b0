// Closes endpoints at the beginning of MPI_Finalize, while MPI still works. MPI_Finalize first deletes the attributes
// of MPI_COMM_SELF, and calls the delete function of each attribute.
//
// MPICH calls the delete functions without its lock, so no other thread may call MPI during these calls. So the first
// delete function that is called closes all endpoints of the process:
//
//  1. The function acquires the engine of each world. From now on, no progress thread calls MPI.
//  2. The function closes the endpoints, in the order in which they were opened.
//  3. The function releases the engines. From now on, the endpoints do not call MPI any more.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace lsched {

class finalize_hook {
 public:
  /// A function that runs `job` while the calling thread owns an engine. Only one thread at a time owns an engine.
  using engine_owner = std::function<void(const std::function<void()>& job)>;

  finalize_hook() = default;
  finalize_hook(const finalize_hook&) = delete;
  finalize_hook& operator=(const finalize_hook&) = delete;

  /// remove() must have been called, because MPI has the address of this object.
  ~finalize_hook() = default;

  /// Arranges that `end` is called at the beginning of MPI_Finalize. Returns false if MPI refuses the attribute; `end`
  /// is then never called.
  bool install(engine_owner owner, std::function<void()> end) {
    owner_ = std::move(owner);
    end_ = std::move(end);
    if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_all, &key_, nullptr) != MPI_SUCCESS ||
        MPI_Comm_set_attr(MPI_COMM_SELF, key_, this) != MPI_SUCCESS)
      return false;
    const std::lock_guard hold(lock());
    installed().push_back(this);
    return true;
  }

  /// Ensures that `end` is not called any more. Does nothing if `end` has been called or is running.
  void remove() {
    if (!leave_list()) return;
    (void)MPI_Comm_delete_attr(MPI_COMM_SELF, key_);
    (void)MPI_Comm_free_keyval(&key_);
  }

 private:
  static std::mutex& lock() {
    static std::mutex all;
    return all;
  }
  static std::vector<finalize_hook*>& installed() {
    static std::vector<finalize_hook*> all;
    return all;
  }

  /// Removes this hook from the list of installed hooks. Returns false if it was not in the list.
  bool leave_list() {
    const std::lock_guard hold(lock());
    return std::erase(installed(), this) != 0;
  }

  static int end_all(MPI_Comm, int, void* attribute, void*) {
    std::vector<finalize_hook*> hooks;
    {
      const std::lock_guard hold(lock());
      if (std::ranges::find(installed(), attribute) == installed().end()) return MPI_SUCCESS;  // called by remove()
      hooks.swap(installed());
    }
    end_as_owner(hooks, 0);
    return MPI_SUCCESS;
  }

  static void end_as_owner(const std::vector<finalize_hook*>& hooks, std::size_t next) {
    if (next < hooks.size()) return hooks[next]->owner_([&] { end_as_owner(hooks, next + 1); });
    for (finalize_hook* const each : hooks) each->end_();
  }

  int key_ = MPI_KEYVAL_INVALID;
  engine_owner owner_{};
  std::function<void()> end_{};
};

}  // namespace lsched
