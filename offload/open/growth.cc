#include "offload/open/growth.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "libsched/transport/quiet_thread.h"

namespace lsched {
namespace {

using namespace std::chrono_literals;

constexpr auto k_attempt = 5s;         ///< time of each step of an attempt to open a larger world
constexpr auto k_longest_pause = 10s;  ///< between failed attempts
constexpr auto k_for_other_casts = 20ms;
constexpr auto k_last_decision = 5s;  ///< time for a decision after the world's end

descriptor make_event() {
  descriptor made = make_descriptor([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!made) throw std::system_error(errno, std::generic_category(), "eventfd");
  return made;
}

/// Waits until the time has passed, or `stop` is readable.
void pause_for(std::chrono::milliseconds time, int stop) {
  pollfd wait{stop, POLLIN, 0};
  (void)poll(&wait, 1, static_cast<int>(time.count()));
}

/// Waits on `changed` for the condition, at most until the deadline. Wakes up each hour, because the function that
/// waits without a limit needs a newer C++ library than other parts of libsched.
template <class Condition>
bool wait_for(std::condition_variable& changed, std::unique_lock<std::mutex>& held, growth::clock::time_point deadline,
              const Condition& is_met) {
  for (;;) {
    if (is_met()) return true;
    const auto now = growth::clock::now();
    if (now >= deadline) return false;
    (void)changed.wait_until(held, std::min(deadline, now + 1h), is_met);
  }
}

constexpr auto k_for_ever = growth::clock::time_point::max();

}  // namespace

growth::growth(joined_world& grows, growth_calls by)
    : grows_(grows),
      by_(std::move(by)),
      stop_(make_event()),
      thread_(start_quietly("lsched-grow", [this] { run(); })) {}

void growth::begin(const door_key& key, std::unique_ptr<door> house) {
  {
    const std::lock_guard held(lock_);
    key_ = key;
    house_ = std::move(house);
    has_begun_ = true;
  }
  changed_.notify_all();
}

// The threads of a process do not exist in its forked children.
growth::~growth() {
  if (grows_.is_in_its_process())
    stop();
  else
    (void)larger_.release();  // the larger world belongs to the parent
  thread_.join();
}

void growth::stop() {
  {
    const std::lock_guard held(lock_);
    is_stopping_.store(true);
  }
  eventfd_write(stop_.get(), 1);
  changed_.notify_all();
}

// --- the thread ------------------------------------------------------------------------------------------------------

// No failure of the growth may end the training. All errors of the system end an attempt.
void growth::run() {
  {
    std::unique_lock held(lock_);
    (void)wait_for(changed_, held, k_for_ever, [this] { return has_begun_ || is_stopped(); });
  }
  while (!is_stopped() && stage_.load() < stage::admitted) {  // the application may have taken B already
    try {
      grow();
    } catch (const std::exception& error) {
      drop(error.what());
    }
  }
  house_.reset();
  std::unique_ptr<larger_world> unused;  // new ranks must not wait in this world for this rank
  const std::lock_guard held(lock_);
  if (stage_.load() == stage::ended) unused = std::move(larger_);
}

/// Makes one attempt.
void growth::grow() {
  auto larger = open_larger_world();
  if (larger == nullptr) return;
  failures_ = 0;
  {
    const std::lock_guard held(lock_);
    larger_ = std::move(larger);
    if (stage_.load() == stage::waiting) stage_.store(stage::opened);
  }
  changed_.notify_all();
  if (!await_cast()) return;
  if (auto why = admit()) return drop("the growth of the world has failed: " + why->text);
  try {
    grows_.end_for_growth();
  } catch (const std::exception&) {  // the admission stands, so this rank must not close the larger world
  }
  {
    const std::lock_guard held(lock_);
    stage_.store(stage::admitted);
    admission_.reset();
  }
  changed_.notify_all();
}

std::unique_ptr<larger_world> growth::open_larger_world() {
  auto through = visit::connect(key_, by_.build, grows_.place().self, clock::now() + k_attempt, stop_.get());
  auto invited = through ? through->await_invitation(clock::time_point::max()) : result<world>(through.error());
  auto opened =
      invited ? by_.open(*invited, *through, key_, k_attempt) : result<std::unique_ptr<larger_world>>(invited.error());
  if (opened) return std::move(*opened);
  if (!is_stopped()) drop("a larger world could not be opened: " + opened.error().text);
  return nullptr;
}

bool growth::await_cast() {
  std::unique_lock held(lock_);
  (void)wait_for(changed_, held, k_for_ever, [this] { return is_stopped() || stage_.load() != stage::opened; });
  return !is_stopped() && stage_.load() == stage::cast;
}

/// Makes the commit, and waits for its end. After the end of the growth, waits for a limited time only.
std::optional<failure> growth::admit() {
  auto made = larger_->joined().begin_admission();
  {
    const std::lock_guard held(lock_);
    admission_ = made;
    if (urgent_ > 0) larger_->joined().give_up(*made);
  }
  std::optional<clock::time_point> last;
  while (!larger_->joined().await(*made, clock::now() + 50ms)) {
    if (!is_stopped()) continue;
    if (!last) larger_->joined().give_up(*made), last = clock::now() + k_last_decision;
    if (clock::now() >= *last) return failure{status::timeout, "the ranks did not decide in time"};
  }
  return made->progress().finished.load() != 0 ? std::nullopt : std::optional(made->why());
}

/// Closes B after a failure, and waits before the next attempt.
void growth::drop(const std::string& why) {
  if (why != last_failure_) by_.note_failure(why);
  last_failure_ = why;
  std::unique_ptr<larger_world> dropped;
  {
    const std::lock_guard held(lock_);
    if (stage_.load() != stage::ended) stage_.store(stage::waiting);
    admission_.reset();
    dropped = std::move(larger_);
  }
  changed_.notify_all();
  dropped.reset();
  const auto time = 20ms * (1 << std::min(failures_++, 9));
  pause_for(std::min<std::chrono::milliseconds>(time, k_longest_pause), stop_.get());
}

// --- calls of the application ----------------------------------------------------------------------------------------

result<std::unique_ptr<larger_world>> growth::take(clock::time_point deadline) {
  if (stage_.load() == stage::waiting && clock::now() >= deadline) return std::unique_ptr<larger_world>();
  std::unique_lock held(lock_);
  const auto is_decided = [this] {
    if (stage_.load() == stage::opened) stage_.store(stage::cast), changed_.notify_all();
    return stage_.load() >= stage::admitted;
  };
  if (!wait_for(changed_, held, deadline, is_decided)) return std::unique_ptr<larger_world>();
  if (stage_.load() != stage::admitted)
    return failure{status::state,
                   "the growth of this world has ended: call lsched_grow_begin for the world that replaces this world"};
  stage_.store(stage::taken);
  return std::move(larger_);
}

/// Waits until no cast is pending. Returns false after the deadline. First waits a short time for the casts of the
/// other ranks, because ranks in lockstep call at almost the same time.
bool growth::await_decision(std::unique_lock<std::mutex>& held, clock::time_point deadline) {
  const auto is_decided = [this] { return stage_.load() != stage::cast; };
  if (wait_for(changed_, held, std::min(deadline, clock::now() + k_for_other_casts), is_decided)) return true;
  ++urgent_;
  if (admission_ != nullptr) larger_->joined().give_up(*admission_);
  const bool has_ended = wait_for(changed_, held, deadline, is_decided);
  --urgent_;
  return has_ended;
}

std::optional<failure> growth::decide(clock::time_point deadline) {
  if (const stage now = stage_.load(); now == stage::waiting || now == stage::opened) return std::nullopt;
  std::unique_lock held(lock_);
  if (!await_decision(held, deadline))
    return failure{status::timeout, "the ranks have not decided in time whether new ranks are admitted: call again"};
  if (stage_.load() < stage::admitted || stage_.load() == stage::ended) return std::nullopt;
  return failure{status::peer, std::string(k_has_grown), grows_.place().self};
}

result<std::unique_ptr<larger_world>> growth::settle(clock::time_point deadline) {
  std::unique_lock held(lock_);
  if (stage_.load() == stage::taken)
    return failure{status::state,
                   "this world has grown, and the larger world was returned before: pass the larger world"};
  if (!await_decision(held, deadline))
    return failure{status::timeout, "the ranks have not decided in time whether new ranks are admitted: call again"};
  if (stage_.load() == stage::ended) return std::unique_ptr<larger_world>();
  const bool is_admitted = stage_.load() == stage::admitted;
  stage_.store(is_admitted ? stage::taken : stage::ended);
  auto taken = is_admitted ? std::move(larger_) : nullptr;
  held.unlock();
  if (!is_admitted) stop();
  return taken;
}

// --- new ranks -------------------------------------------------------------------------------------------------------

namespace {

/// Makes one attempt to join.
result<std::unique_ptr<larger_world>> try_to_join(const door_key& key, const growth_calls& by,
                                                  growth::clock::time_point deadline, int never) {
  auto through = visit::connect(key, by.build, k_no_rank, deadline, never);
  auto invited = through ? through->await_invitation(deadline) : result<world>(through.error());
  if (!invited) return invited.error();
  auto opened = by.open(*invited, *through, key, k_attempt);
  if (!opened) return opened.error();
  joined_world& larger = (*opened)->joined();
  auto made = larger.begin_admission();
  if (!larger.await(*made, deadline)) {
    larger.give_up(*made);
    if (!larger.await(*made, growth::clock::now() + k_last_decision))
      return failure{status::timeout, "the ranks have not decided in time whether this rank is admitted"};
  }
  if (made->progress().finished.load() == 0) return made->why();
  return std::move(*opened);
}

/// Returns whether a further attempt may succeed.
bool may_be_repeated(const failure& why) {
  return why.code == status::timeout || why.code == status::peer || why.code == status::transport;
}

}  // namespace

result<std::unique_ptr<larger_world>> join_growing_world(const std::function<result<door_key>()>& find_key,
                                                         const growth_calls& by, growth::clock::time_point deadline) {
  const descriptor never = make_event();
  std::string last;  // reason of the last attempt, unless the deadline has ended that attempt
  for (;;) {
    const auto key = find_key();
    auto joined =
        key ? try_to_join(*key, by, deadline, never.get()) : result<std::unique_ptr<larger_world>>(key.error());
    if (joined || !may_be_repeated(joined.error())) return joined;
    const bool is_late = growth::clock::now() >= deadline;
    if (!is_late || last.empty()) last = joined.error().text;
    if (is_late)
      return failure{status::timeout,
                     "this process has not joined the growing world in time. The last attempt: " + last};
    pause_for(5ms, never.get());
  }
}

}  // namespace lsched
