// Tests of the recording. The recording is the state of the ranks, and is kept in the segment. Even after its writers
// were killed, the recording must be readable from a segment and from a file.
#include "libsched/transport/shm/shm_recording.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "libsched/transport/shm/shm_endpoint.h"
#include "tests/support/child_ranks.h"

namespace lsched {
namespace {

constexpr std::size_t k_stride = std::size_t{1} << 20;
constexpr std::array<rank, 2> k_both{0, 1};

/// A fixture with a separate folder for each test.
class shm_recording : public ::testing::Test {
 protected:
  shm_recording() {
    std::array<char, 40> name{"/tmp/lsched-recording-XXXXXX"};
    folder_ = mkdtemp(name.data());
  }
  ~shm_recording() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/ranks"; }
  std::string content() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  result<std::shared_ptr<shm_segment>> segment_for(rank ranks) const {
    return shm_segment::create(ranks, k_stride, 0, path());
  }

  std::string folder_;
};

result<recording> parsed(const std::string& content) { return parse_recording(std::as_bytes(std::span(content))); }

/// Records a schedule with two entered rounds and a wait for rank 0. Then kills the calling process.
int wait_and_be_killed(const std::shared_ptr<shm_segment>& segment, rank self) {
  const auto net = std::move(*shm_endpoint::open(segment, self));
  if (!net->attach(4099, k_both, false, {})) return 2;
  *net->put_on_record(4099, 4099, "allreduce/ring #4099") = 2;
  net->note_wait({.instance = 4099, .round = 3, .op = 5, .peer = 0, .kind = op_kind::recv, .since_ns = monotonic_ns()});
  kill(getpid(), SIGKILL);
  return 1;
}

void expect_place(const recorded_rank& one) {
  EXPECT_NE(one.process, 0);
  EXPECT_EQ(one.closed_ns, 0);
  EXPECT_EQ(one.wait.instance, 4099);
  EXPECT_EQ(one.wait.round, 3);
  EXPECT_EQ(one.wait.op, 5);
  EXPECT_EQ(one.wait.peer, 0);
  EXPECT_EQ(one.wait.kind, op_kind::recv);
  EXPECT_GT(one.wait.since_ns, monotonic_ns() - 100'000'000'000);
  const recorded_schedule* const its = one.find(4099);
  ASSERT_NE(its, nullptr);
  EXPECT_EQ(its->label, "allreduce/ring #4099");
  EXPECT_EQ(its->entered, 2);
}

TEST_F(shm_recording, tells_where_a_rank_was_that_has_been_killed) {
  for (const bool has_file : {false, true}) {
    auto segment = has_file ? segment_for(2) : shm_segment::create(2, k_stride);
    ASSERT_TRUE(segment) << segment.error().text;
    testing::child_ranks ranks(1, [&](rank) { return wait_and_be_killed(*segment, 1); });
    EXPECT_EQ(ranks.wait(), "rank 0 was ended by signal 9; ");
    const auto in_segment = shm_segment::read_recording((*segment)->descriptor());
    ASSERT_TRUE(in_segment) << in_segment.error().text;
    segment->reset();
    EXPECT_TRUE(!has_file || *in_segment == content());
    const auto read = parsed(*in_segment);
    ASSERT_TRUE(read) << read.error().text;
    EXPECT_TRUE(read->is_of_this_boot);
    ASSERT_EQ(read->ranks.size(), 2);
    EXPECT_EQ(read->ranks[0].process, 0);
    EXPECT_EQ(read->ranks[1].number, 1);
    expect_place(read->ranks[1]);
  }
}

TEST_F(shm_recording, holds_what_is_there_and_nothing_of_what_has_ended) {
  const auto segment = *segment_for(2);
  const auto peer = std::move(*shm_endpoint::open(segment, 1));
  ASSERT_TRUE(peer->attach(5, k_both, false, {}));
  {
    const auto net = std::move(*shm_endpoint::open(segment, 0));
    ASSERT_TRUE(net->attach(0, k_both, false, {}));
    ASSERT_TRUE(net->attach(1, k_both, false, {}));
    *net->put_on_record(0, 0, std::string(200, 'x') + " #17") = 7;
    *net->put_on_record(1, 1, "short") = 8;
    const std::array<member_address, 2> all{net->address_of(0), peer->address_of(5)};
    ASSERT_EQ(net->link(0, all), status::ok);
    ASSERT_EQ(peer->link(5, all), status::ok);
    net->note_wait({.instance = 1, .round = 8});
    net->note_wait({});
    const recorded_rank open = parsed(content())->ranks[0];
    EXPECT_EQ(open.wait.round, 0);
    ASSERT_EQ(open.schedules.size(), 2);
    EXPECT_EQ(open.schedules[0].label, std::string(shm_record::k_label_bytes - 5, 'x') + " #17");
    net->detach(0);
    const recorded_rank after = parsed(content())->ranks[0];
    const recorded_schedule* const destroyed = after.find(0);
    ASSERT_NE(destroyed, nullptr) << "peers may still wait in the schedule";
    EXPECT_EQ(destroyed->label, "");
    EXPECT_EQ(destroyed->entered, 7);
    EXPECT_EQ(peer->entered_by(0, 5), 7);
    peer->detach(5);
    ASSERT_TRUE(net->attach(2, k_both, false, {})) << "attach checks which schedules are over";
    EXPECT_EQ(parsed(content())->ranks[0].find(0), nullptr);
  }
  EXPECT_NE(parsed(content())->ranks[0].closed_ns, 0);
}

TEST_F(shm_recording, replaces_a_recording_and_leaves_the_old_one_to_those_who_write_it) {
  const auto before = *segment_for(1);
  before->record(0).process.store(1);
  const auto after = *segment_for(3);
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(parsed(content())->ranks.size(), 3);
  EXPECT_EQ(parsed(content())->ranks[2].number, 2) << "a rank that never joined has its number";
  before->record(0).process.store(2);
  EXPECT_EQ(parsed(content())->ranks[0].process, 0);
  EXPECT_EQ(read_record(before->record(0)).process, 2);
}

TEST_F(shm_recording, is_shared_by_those_who_adopt_the_segment) {
  const auto segment = *segment_for(2);
  const auto of_a_peer = shm_segment::adopt(dup(segment->descriptor()));
  ASSERT_TRUE(of_a_peer) << of_a_peer.error().text;
  (*of_a_peer)->record(1).process.store(42);
  EXPECT_EQ(segment->record(1).process.load(), 42);
  EXPECT_EQ(parsed(content())->ranks[1].process, 42);
}

TEST_F(shm_recording, is_not_adopted_when_another_file_has_its_place) {
  const auto segment = *segment_for(2);
  std::filesystem::remove(path());
  EXPECT_EQ(shm_segment::adopt(dup(segment->descriptor())).error().code, status::transport);
  const auto other = *segment_for(2);
  const auto refused = shm_segment::adopt(dup(segment->descriptor()));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("was replaced"), std::string::npos);
}

TEST_F(shm_recording, replaces_nothing_but_recordings) {
  write("the only copy of a thesis");
  const auto refused = segment_for(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, status::argument);
  EXPECT_EQ(content(), "the only copy of a thesis");
  EXPECT_EQ(files(), 1);
  write("");
  EXPECT_TRUE(segment_for(1));
}

TEST_F(shm_recording, names_the_file_that_cannot_be_made) {
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  for (const std::string& name : {folder_ + "/none/ranks", folder_, folder_ + "/pipe", "/" + std::string(2000, 'x')}) {
    const auto refused = shm_segment::create(1, k_stride, 0, name);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, status::argument);
    EXPECT_NE(refused.error().text.find(name), std::string::npos) << refused.error().text;
  }
}

TEST_F(shm_recording, of_another_version_or_size_is_refused) {
  const auto segment = *segment_for(2);
  const std::string good = content();
  ASSERT_TRUE(parsed(good));
  EXPECT_EQ(parsed("").error().code, status::version);
  EXPECT_EQ(parsed(good.substr(0, 4096)).error().code, status::version);
  EXPECT_EQ(parsed(good.substr(0, good.size() - 1)).error().code, status::version);
  EXPECT_EQ(parsed(good + '\0').error().code, status::version);
  for (const std::size_t byte : {0u, 8u, 15u}) {  // bytes of the magic number, and of the number of ranks
    std::string other = good;
    other[byte] = static_cast<char>(other[byte] ^ 0x81);
    EXPECT_EQ(parsed(other).error().code, status::version) << byte;
  }
}

TEST_F(shm_recording, that_is_damaged_is_read_nevertheless) {
  const auto segment = *segment_for(1);
  std::string garbage = content();
  for (std::size_t i = 4096; i < garbage.size(); ++i) garbage[i] = static_cast<char>(i * 2654435761u >> 13 | 1);
  const auto read = parsed(garbage);
  ASSERT_TRUE(read);
  EXPECT_LE(read->ranks[0].wait.kind, op_kind::capture);
  EXPECT_EQ(read->ranks[0].schedules.size(), shm_record::k_places);
  for (const recorded_schedule& each : read->ranks[0].schedules)
    EXPECT_LE(each.label.size(), shm_record::k_label_bytes);
}

TEST_F(shm_recording, of_an_earlier_start_of_the_machine_is_known) {
  const auto segment = *segment_for(1);
  std::string other = content();
  EXPECT_TRUE(parsed(other)->is_of_this_boot);
  other[24] ^= 1;  // changes a byte of the boot id
  EXPECT_FALSE(parsed(other)->is_of_this_boot);
}

}  // namespace
}  // namespace lsched
