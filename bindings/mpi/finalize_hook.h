// A job that runs at the beginning of MPI_Finalize, while MPI still works: MPI first deletes the attributes of
// MPI_COMM_SELF, and calls the delete function of each.
#pragma once

#include <mpi.h>

#include <functional>
#include <utility>

namespace lsched {

class finalize_hook {
 public:
  finalize_hook() = default;
  finalize_hook(const finalize_hook&) = delete;
  finalize_hook& operator=(const finalize_hook&) = delete;

  /// Call remove() first: MPI holds the address of this object.
  ~finalize_hook() = default;

  /// False if MPI refuses the attribute; the job then does not run.
  bool install(std::function<void()> job) {
    if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, run_job, &key_, nullptr) != MPI_SUCCESS) return false;
    job_ = std::move(job);
    if (MPI_Comm_set_attr(MPI_COMM_SELF, key_, this) == MPI_SUCCESS) return true;
    job_ = nullptr;
    return false;
  }

  /// Forgets the job. Does nothing if the job has run or runs now, or after MPI_Finalize.
  void remove() {
    if (job_ == nullptr) return;
    job_ = nullptr;
    (void)MPI_Comm_delete_attr(MPI_COMM_SELF, key_);
    (void)MPI_Comm_free_keyval(&key_);
  }

 private:
  static int run_job(MPI_Comm, int, void* attribute, void*) {
    const auto job = std::exchange(static_cast<finalize_hook*>(attribute)->job_, nullptr);
    if (job != nullptr) job();
    return MPI_SUCCESS;
  }

  int key_ = MPI_KEYVAL_INVALID;
  std::function<void()> job_{};
};

}  // namespace lsched
