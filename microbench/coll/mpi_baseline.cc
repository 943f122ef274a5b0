#include "microbench/coll/mpi_baseline.h"

#include <array>

#include "build_options.h"

#if LSCHED_HAVE_MPI
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif
#include <sched.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <vector>

#include "bindings/mpi/mpi_library.h"
#endif

namespace lsched::bench {

const char* name_of(mpi_form form) {
  constexpr std::array k_names{"blocking", "nonblocking", "persistent", "nonblocking-yield", "persistent-yield"};
  return k_names[static_cast<std::size_t>(form)];
}

#if !LSCHED_HAVE_MPI

struct mpi_baseline::state {};
mpi_baseline::mpi_baseline(mpi_form, const exercise&, const float*, float*, bool) {
  throw failed("MPI is not in this build");
}
mpi_baseline::~mpi_baseline() = default;
void mpi_baseline::run() {}
void mpi_baseline::start() {}
void mpi_baseline::finish() {}
bool has_form(mpi_form, const collective&) { return false; }
std::string why_no_mpi(int) { return "MPI is not in this build"; }
std::string mpi_if_measured(const team&, reporter& out) {
  out.say("MPI rows: none (MPI is not in this build)");
  return {};
}

#else

// LSCHED_INIT_OF(name) is the function of this MPI implementation that initialises a persistent collective, or null.
// This is a macro, because only the preprocessor can concatenate names.
#if MPI_VERSION >= 4
#define LSCHED_INIT_OF(name) MPI_##name##_init
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define LSCHED_INIT_OF(name) MPIX_##name##_init
#else
#define LSCHED_INIT_OF(name) nullptr
#endif

namespace {

void expect_mpi(int answer, const char* call) {
  if (answer == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> detail{};
  int length = 0;
  MPI_Error_string(answer, detail.data(), &length);
  throw failed(std::string(call) + ": " + detail.data());
}

// MPI's constants are macros with C casts, which cause warnings outside system headers.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
MPI_Comm world() { return MPI_COMM_WORLD; }
MPI_Datatype float_type() { return MPI_FLOAT; }
MPI_Op sum_op() { return MPI_SUM; }
MPI_Request no_request() { return MPI_REQUEST_NULL; }
MPI_Status* no_status() { return MPI_STATUS_IGNORE; }
void* in_place_mark() { return MPI_IN_PLACE; }
#pragma GCC diagnostic pop

/// The arguments of all collectives.
struct arguments {
  const void* input = nullptr;
  void* output = nullptr;
  int count = 0;
  std::vector<int> counts{}, places{};  ///< for the v collectives, which get equal blocks
};

/// The three functions of a collective.
struct calls {
  std::string_view name;
  std::function<int(const arguments&)> blocking;
  std::function<int(const arguments&, MPI_Request*)> nonblocking;
  std::function<int(const arguments&, MPI_Info, MPI_Request*)> init;  ///< empty: no persistent form
};

/// Returns the three functions of a collective. `spread` calls one of the three MPI functions. `spread` passes the
/// common arguments first, and then the arguments that only this function has.
template <class Spread, class Blocking, class Nonblocking, class Init>
calls forms(const char* name, Spread spread, Blocking blocking, Nonblocking nonblocking, Init init) {
  calls made{name, [=](const arguments& a) { return spread(blocking, a); },
             [=](const arguments& a, MPI_Request* request) { return spread(nonblocking, a, request); }, nullptr};
  if constexpr (!std::is_null_pointer_v<Init>)
    made.init = [=](const arguments& a, MPI_Info info, MPI_Request* request) { return spread(init, a, info, request); };
  return made;
}

// Rank 0 is always the root.
constexpr auto k_reduces = [](auto call, const arguments& a, auto... more) {
  return call(a.input, a.output, a.count, float_type(), sum_op(), world(), more...);
};
constexpr auto k_reduces_to_root = [](auto call, const arguments& a, auto... more) {
  return call(a.input, a.output, a.count, float_type(), sum_op(), 0, world(), more...);
};
constexpr auto k_exchanges = [](auto call, const arguments& a, auto... more) {
  return call(a.input, a.count, float_type(), a.output, a.count, float_type(), world(), more...);
};
constexpr auto k_exchanges_with_root = [](auto call, const arguments& a, auto... more) {
  return call(a.input, a.count, float_type(), a.output, a.count, float_type(), 0, world(), more...);
};

// The persistent scatter of MPICH 4.0 ends the program when it is started a second time.
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
constexpr std::nullptr_t k_scatter_init = nullptr;
#else
constexpr auto k_scatter_init = LSCHED_INIT_OF(Scatter);
#endif

const std::vector<calls>& all_calls() {
  static const std::vector<calls> table{
      forms("allreduce", k_reduces, MPI_Allreduce, MPI_Iallreduce, LSCHED_INIT_OF(Allreduce)),
      forms("scan", k_reduces, MPI_Scan, MPI_Iscan, LSCHED_INIT_OF(Scan)),
      forms("exscan", k_reduces, MPI_Exscan, MPI_Iexscan, LSCHED_INIT_OF(Exscan)),
      forms("reduce_scatter_block", k_reduces, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block,
            LSCHED_INIT_OF(Reduce_scatter_block)),
      forms("reduce", k_reduces_to_root, MPI_Reduce, MPI_Ireduce, LSCHED_INIT_OF(Reduce)),
      forms("allgather", k_exchanges, MPI_Allgather, MPI_Iallgather, LSCHED_INIT_OF(Allgather)),
      forms("alltoall", k_exchanges, MPI_Alltoall, MPI_Ialltoall, LSCHED_INIT_OF(Alltoall)),
      forms("gather", k_exchanges_with_root, MPI_Gather, MPI_Igather, LSCHED_INIT_OF(Gather)),
      forms("scatter", k_exchanges_with_root, MPI_Scatter, MPI_Iscatter, k_scatter_init),
      forms(
          "barrier", [](auto call, const arguments&, auto... more) { return call(world(), more...); }, MPI_Barrier,
          MPI_Ibarrier, LSCHED_INIT_OF(Barrier)),
      forms(
          "bcast",
          [](auto call, const arguments& a, auto... more) {
            return call(a.output, a.count, float_type(), 0, world(), more...);
          },
          MPI_Bcast, MPI_Ibcast, LSCHED_INIT_OF(Bcast)),
      forms(
          "reduce_scatter",
          [](auto call, const arguments& a, auto... more) {
            return call(a.input, a.output, a.counts.data(), float_type(), sum_op(), world(), more...);
          },
          MPI_Reduce_scatter, MPI_Ireduce_scatter, LSCHED_INIT_OF(Reduce_scatter)),
      forms(
          "allgatherv",
          [](auto call, const arguments& a, auto... more) {
            return call(a.input, a.count, float_type(), a.output, a.counts.data(), a.places.data(), float_type(),
                        world(), more...);
          },
          MPI_Allgatherv, MPI_Iallgatherv, LSCHED_INIT_OF(Allgatherv)),
      forms(
          "alltoallv",
          [](auto call, const arguments& a, auto... more) {
            return call(a.input, a.counts.data(), a.places.data(), float_type(), a.output, a.counts.data(),
                        a.places.data(), float_type(), world(), more...);
          },
          MPI_Alltoallv, MPI_Ialltoallv, LSCHED_INIT_OF(Alltoallv)),
      forms(
          "gatherv",
          [](auto call, const arguments& a, auto... more) {
            return call(a.input, a.count, float_type(), a.output, a.counts.data(), a.places.data(), float_type(), 0,
                        world(), more...);
          },
          MPI_Gatherv, MPI_Igatherv, LSCHED_INIT_OF(Gatherv)),
      forms(
          "scatterv",
          [](auto call, const arguments& a, auto... more) {
            return call(a.input, a.counts.data(), a.places.data(), float_type(), a.output, a.count, float_type(), 0,
                        world(), more...);
          },
          MPI_Scatterv, MPI_Iscatterv, LSCHED_INIT_OF(Scatterv)),
  };
  return table;
}

/// Returns nullptr if MPI has no such collective.
const calls* calls_of(const collective& kind) {
  const auto found = std::ranges::find(all_calls(), kind.name, &calls::name);
  return found == all_calls().end() ? nullptr : &*found;
}

int as_int(std::uint64_t count) {
  if (count > INT_MAX)
    throw failed(std::to_string(count) + " elements exceed the largest count of MPI, 2^31-1: choose smaller --bytes");
  return static_cast<int>(count);
}

arguments arguments_of(const exercise& task, const float* input, float* output, bool in_place) {
  arguments made{.input = input, .output = output, .count = as_int(task.count())};
  as_int(task.count() * static_cast<std::uint64_t>(task.size()));
  made.counts.assign(static_cast<std::size_t>(task.size()), made.count);
  for (int r = 0; r < task.size(); ++r) made.places.push_back(r * made.count);
  const collective& kind = task.kind();
  // MPI_IN_PLACE replaces the root's receive buffer of a scatter, the root's send buffer of a gather or reduce, and
  // every rank's send buffer of all other collectives.
  if (in_place && kind.input.at == holder::root) {
    if (task.is_root()) made.output = in_place_mark();
  } else if (in_place && (task.is_root() || kind.output.at == holder::everybody)) {
    made.input = in_place_mark();
  }
  // A broadcast has only one buffer. At the root this buffer is the input.
  if (&kind == &k_bcast && task.is_root()) made.output = const_cast<float*>(input);
  return made;
}

}  // namespace

bool has_form(mpi_form form, const collective& kind) {
  const calls* const known = calls_of(kind);
  if (known == nullptr) return false;
  return (form != mpi_form::persistent && form != mpi_form::persistent_yield) || known->init != nullptr;
}

std::string why_no_mpi(int ranks) {
  int is_initialised = 0;
  MPI_Initialized(&is_initialised);
  if (is_initialised == 0) return "not started by an MPI launcher (mpiexec.mpich -n P lsched bench …)";
  int size = 0;
  MPI_Comm_size(world(), &size);
  if (size != ranks)
    return "MPI_COMM_WORLD has " + std::to_string(size) + " ranks, but this run has " + std::to_string(ranks);
  return {};
}

std::string mpi_if_measured(const team& ranks, reporter& out) {
  if (const std::string why = why_no_mpi(ranks.size()); !why.empty()) {
    out.say("MPI rows: none (%s)", why.c_str());
    return {};
  }
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  const char* name = level == MPI_THREAD_MULTIPLE     ? "MPI_THREAD_MULTIPLE"
                     : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                     : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
                                                      : "MPI_THREAD_SINGLE";
  const std::string all = mpi_library();
  const std::string mpi = all.substr(0, all.find(","));  // Open MPI appends the name of the packager
  out.say("MPI rows: %s, %s", mpi.c_str(), name);
  return mpi;
}

struct mpi_baseline::state {
  mpi_form form;
  const calls* how;
  arguments with;
  MPI_Request request = no_request();
};

mpi_baseline::mpi_baseline(mpi_form form, const exercise& task, const float* input, float* output, bool in_place)
    : state_(std::make_unique<state>()) {
  state_->form = form;
  state_->how = calls_of(task.kind());
  state_->with = arguments_of(task, input, output, in_place);
  if (form != mpi_form::persistent && form != mpi_form::persistent_yield) return;
  if (state_->how->init == nullptr) throw failed("this MPI has no persistent " + std::string(task.kind().name));
  MPI_Info none{};  // MPICH 4.0 rejects MPI_INFO_NULL here
  expect_mpi(MPI_Info_create(&none), "MPI_Info_create");
  const int answer = state_->how->init(state_->with, none, &state_->request);
  MPI_Info_free(&none);
  expect_mpi(answer, "MPI's persistent collective");
}

mpi_baseline::~mpi_baseline() {
  if (state_->request != no_request()) MPI_Request_free(&state_->request);
}

void mpi_baseline::run() {
  if (state_->form == mpi_form::blocking) {
    expect_mpi(state_->how->blocking(state_->with), "MPI's collective");
    return;
  }
  start();
  finish();
}

void mpi_baseline::start() {
  if (state_->form == mpi_form::persistent || state_->form == mpi_form::persistent_yield)
    expect_mpi(MPI_Start(&state_->request), "MPI_Start");
  else
    expect_mpi(state_->how->nonblocking(state_->with, &state_->request), "MPI's non-blocking collective");
}

void mpi_baseline::finish() {
  if (!yields(state_->form)) {
    expect_mpi(MPI_Wait(&state_->request, no_status()), "MPI_Wait");
    return;
  }
  for (int is_done = 0;;) {
    expect_mpi(MPI_Test(&state_->request, &is_done, no_status()), "MPI_Test");
    if (is_done != 0) return;
    sched_yield();
  }
}

#endif

}  // namespace lsched::bench
