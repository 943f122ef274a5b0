#include <gtest/gtest.h>

#include "libsched/shm_endpoint.h"
#include "tests/conformance/endpoint_exam.h"

namespace lsched {
namespace {

constexpr std::size_t k_stride = std::size_t{64} << 20;

class shm_exam_world final : public exam::exam_world {
 public:
  std::vector<endpoint*> make(rank ranks) override {
    ends_.clear();
    const std::shared_ptr<shm_segment> segment = *shm_segment::create(ranks, k_stride);
    for (rank r = 0; r < ranks; ++r) ends_.push_back(std::move(*shm_endpoint::open(segment, r)));
    std::vector<endpoint*> all;
    for (const auto& end : ends_) all.push_back(end.get());
    return all;
  }

 private:
  std::vector<std::unique_ptr<shm_endpoint>> ends_;
};

class shm_exam : public testing::TestWithParam<exam::question> {};

TEST_P(shm_exam, passes) {
  shm_exam_world world;
  EXPECT_EQ(exam::ask(GetParam(), world), "");
}

INSTANTIATE_TEST_SUITE_P(every, shm_exam, testing::ValuesIn(exam::k_questions), exam::name_of_question);

}  // namespace
}  // namespace lsched
