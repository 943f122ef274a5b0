#include "microbench/mpi_rival.h"

#include <mpi.h>
#include <sched.h>

#include <array>
#include <climits>

#include "bindings/mpi/mpi_library.h"
#include "microbench/harness.h"

namespace lsched::bench {
namespace {

void expect_mpi(int answer, const char* call) {
  if (answer == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> detail{};
  int length = 0;
  MPI_Error_string(answer, detail.data(), &length);
  throw failed(std::string(call) + ": " + detail.data());
}

// MPI's constants are macros around C casts, which our warnings refuse outside system headers.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
MPI_Comm world() { return MPI_COMM_WORLD; }
MPI_Datatype float_type() { return MPI_FLOAT; }
MPI_Op sum_op() { return MPI_SUM; }
MPI_Request no_request() { return MPI_REQUEST_NULL; }
MPI_Status* no_status() { return MPI_STATUS_IGNORE; }
const void* in_place() { return MPI_IN_PLACE; }
#pragma GCC diagnostic pop

}  // namespace

const char* name_of(mpi_form form) {
  constexpr std::array<const char*, 4> k_names{"blocking", "nonblocking", "persistent", "nonblocking-yield"};
  return k_names[static_cast<std::size_t>(form)];
}

bool has_form(mpi_form form) { return form != mpi_form::persistent || MPI_VERSION >= 4; }

std::string mpi_description() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  const char* name = level == MPI_THREAD_MULTIPLE     ? "MPI_THREAD_MULTIPLE"
                     : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                     : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
                                                      : "MPI_THREAD_SINGLE";
  return mpi_library() + ", " + name;
}

std::string why_no_mpi(int ranks) {
  int is_initialised = 0;
  MPI_Initialized(&is_initialised);
  if (is_initialised == 0) return "not started by an MPI launcher (mpiexec -n P lsched bench …)";
  int size = 0;
  MPI_Comm_size(world(), &size);
  if (size != ranks)
    return "MPI_COMM_WORLD has " + std::to_string(size) + " ranks, this run " + std::to_string(ranks);
  return {};
}

struct mpi_allreduce::state {
  mpi_form form;
  const void* input;
  float* output;
  int count;
  MPI_Request request = no_request();
};

mpi_allreduce::mpi_allreduce(mpi_form form, const float* input, float* output, std::size_t count)
    : state_(std::make_unique<state>()) {
  if (count > INT_MAX) throw failed("MPI counts end at 2^31-1 elements");
  state_->form = form;
  state_->input = input == output ? in_place() : input;
  state_->output = output;
  state_->count = static_cast<int>(count);
  if (form != mpi_form::persistent) return;
#if MPI_VERSION >= 4
  MPI_Info none{};
  expect_mpi(MPI_Info_create(&none), "MPI_Info_create");
  const int answer = MPI_Allreduce_init(state_->input, output, state_->count, float_type(), sum_op(), world(),
                                        none, &state_->request);
  MPI_Info_free(&none);
  expect_mpi(answer, "MPI_Allreduce_init");
#else
  throw failed("this MPI has no persistent collectives");
#endif
}

mpi_allreduce::~mpi_allreduce() {
  if (state_->form == mpi_form::persistent) MPI_Request_free(&state_->request);
}

void mpi_allreduce::run() {
  state& s = *state_;
  switch (s.form) {
    case mpi_form::blocking:
      expect_mpi(MPI_Allreduce(s.input, s.output, s.count, float_type(), sum_op(), world()), "MPI_Allreduce");
      return;
    case mpi_form::nonblocking:
    case mpi_form::yielding:
      expect_mpi(MPI_Iallreduce(s.input, s.output, s.count, float_type(), sum_op(), world(), &s.request),
                 "MPI_Iallreduce");
      break;
    case mpi_form::persistent:
      expect_mpi(MPI_Start(&s.request), "MPI_Start");
      break;
  }
  if (s.form != mpi_form::yielding) {
    expect_mpi(MPI_Wait(&s.request, no_status()), "MPI_Wait");
    return;
  }
  for (int is_done = 0;;) {
    expect_mpi(MPI_Test(&s.request, &is_done, no_status()), "MPI_Test");
    if (is_done != 0) return;
    sched_yield();
  }
}

}  // namespace lsched::bench
