// Tests of the translation of MSCCL programs into algorithm files. After the translation, verify() proves the programs.
// Invalid programs are refused, and the error text names the place of the error.
#include "bindings/cli/msccl/msccl.h"

#include <gtest/gtest.h>

#include <string>

#include "bindings/input_file.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/written/written.h"
#include "libsched/verify/verify.h"

namespace lsched::testing {
namespace {

std::string text_of(const std::string& name) {
  return *content_of(LSCHED_TEST_SOURCE_DIR "/tests/collectives/written/msccl/" + name + ".xml");
}

/// Returns the first error of a program, or an empty string if verify() proves the program. If a program supports
/// in-place calls, verify() must prove these, too.
std::string objection(const std::string& xml, rank size) {
  const auto text = cli::algorithm_of_msccl(xml);
  if (!text) return text.error().text;
  const auto how = add_written(*text);
  if (!how) return how.error().text;
  for (const bool in_place : {false, true}) {
    if (in_place && !(*how)->needs.in_place) continue;
    for (const std::uint64_t count : {0u, 1u, 12u, 60u, 1500u}) {
      shape data =
          typical_shape(*(*how)->of, size, count, dtype::f32, (*how)->of->reduces ? kernel::sum : kernel::none);
      data.in_place = in_place;
      const auto world = generate_world(**how, size, data);
      if (!world && world.error().code == status::constraint && count == 1) continue;  // 1 is no multiple of chunks
      if (!world) return world.error().text;
      const auto answer =
          verify(*world, promise_of(**how, size, data, {}), {.in_place = aliasing_of(*(*how)->of, size, data)});
      if (!answer.holds()) return answer.findings.front().text;
    }
  }
  return "";
}

TEST(msccl, every_construct_is_proved) {
  EXPECT_EQ(objection(text_of("ring_in_place"), 3), "");                // steps s, rrs, rrcs, rcs, r
  EXPECT_EQ(objection(text_of("all_pairs"), 3), "");                    // steps cpy, re, nop; scratch memory, channels,
                                                                        // deps, ranges
  EXPECT_EQ(objection(text_of("allgather_in_place"), 5), "");           // the input is a part of the output
  EXPECT_EQ(objection(text_of("reduce_scatter_in_place"), 3), "");      // step rrc; the output is a part of the input
  EXPECT_EQ(objection(text_of("alltoall"), 3), "");                     //
  EXPECT_EQ(objection(text_of("input_as_workspace"), 2), "");           // the program writes the input
  EXPECT_EQ(objection(text_of("exchange_over_what_was_sent"), 2), "");  // receives need separate memory, because the
                                                                        // sent memory would be overwritten
}

/// The program refers to thread blocks by id, so the order of thread blocks does not matter. Newer names of collectives
/// are accepted, too.
TEST(msccl, other_ways_to_say_the_same) {
  std::string xml = text_of("all_pairs");
  const std::size_t first = xml.find("    <tb id=\"0\""), second = xml.find("    <tb id=\"1\"");
  const std::string block = xml.substr(first, second - first);
  xml.erase(first, block.size()).insert(xml.find("  </gpu>"), block);
  EXPECT_EQ(objection(xml.replace(xml.find("all_pairs"), 9, "by_id"), 3), "");
  std::string scatter = text_of("reduce_scatter_in_place");
  scatter.replace(scatter.find("coll=\"reduce_scatter"), 20, "coll=\"reducescatter");
  EXPECT_EQ(*cli::algorithm_of_msccl(scatter), *cli::algorithm_of_msccl(text_of("reduce_scatter_in_place")));
}

/// One step of the program no longer reduces. The proof must detect this fault.
TEST(msccl, a_damaged_program_is_not_proved) {
  std::string xml = text_of("ring_in_place");
  xml.replace(xml.find("name=\"ring"), 10, "name=\"torn");
  const std::size_t step = xml.find("type=\"rrs\"");
  ASSERT_NE(step, xml.npos);
  xml.replace(step, 10, "type=\"rcs\"");
  EXPECT_NE(objection(xml, 3), "");
}

std::string refusal(const std::string& xml) {
  const auto text = cli::algorithm_of_msccl(xml);
  return text ? "accepted" : std::string(name_of(text.error().code)) + ": " + text.error().text;
}

std::string with(const std::string& steps, const std::string& block = R"(send="1" recv="1" chan="0")") {
  return R"(<algo name="x" coll="allreduce" nchunksperloop="2" ngpus="2"><gpu id="0" s_chunks="0"><tb id="0" )" +
         block + ">" + steps + "</tb></gpu></algo>";
}

TEST(msccl, what_is_wrong_has_a_place) {
  EXPECT_EQ(refusal("<algo"),
            "LSCHED_ERR_ARGUMENT: byte 4: the file is not valid XML: Error parsing start element tag");
  EXPECT_EQ(refusal("<a/>"), "LSCHED_ERR_ARGUMENT: the element <algo> is missing");
  EXPECT_EQ(refusal(R"(<algo coll="custom" ngpus="2" nchunksperloop="2"/>)"),
            "LSCHED_ERR_UNSUPPORTED: the collective \"custom\" is not one of allreduce, allgather, reduce_scatter, "
            "alltoall");
  EXPECT_EQ(refusal(R"(<algo coll="allreduce" ngpus="0" nchunksperloop="2"/>)"),
            "LSCHED_ERR_ARGUMENT: ngpus=\"0\" is not a number from 1 to 1024");
  EXPECT_EQ(refusal(R"(<algo coll="allgather" ngpus="2" nchunksperloop="3"/>)"),
            "LSCHED_ERR_ARGUMENT: nchunksperloop=\"3\" is not a multiple of ngpus=\"2\"");
  EXPECT_EQ(refusal(with(R"(<step type="send"/>)")),
            "LSCHED_ERR_ARGUMENT: gpu 0, thread block 0: step 0: unknown type \"send\": use s, r, rcs, rrs, rrc, "
            "rrcs, cpy, re or nop");
  EXPECT_EQ(refusal(with(R"(<step type="s" srcbuf="x"/>)")),
            "LSCHED_ERR_ARGUMENT: gpu 0, thread block 0: step 0: srcbuf=\"x\" is not one of i, o, s");
  EXPECT_EQ(refusal(with(R"(<step type="s" srcbuf="i" srcoff="2"/>)")),
            "LSCHED_ERR_BOUNDS: gpu 0, thread block 0, step 0: the chunk is outside its buffer");
  EXPECT_EQ(refusal(with(R"(<step type="s"/>)", R"(send="-1" recv="1")")),
            "LSCHED_ERR_ARGUMENT: gpu 0, thread block 0: step 0: the step sends, but send of the thread block is -1 "
            "(no peer)");
  EXPECT_EQ(
      refusal(with(R"(<step type="s" depid="0" deps="1"/><step type="s"/>)")),
      "LSCHED_ERR_ARGUMENT: gpu 0, thread block 0, step 0: the step can never run, because its dependency (depid, "
      "deps) is never satisfied");
  EXPECT_EQ(refusal(with(R"(<step s="1" type="nop"/><step s="1" type="nop"/>)")),
            "LSCHED_ERR_ARGUMENT: gpu 0, thread block 0: steps are not numbered from 0 to 1");
  EXPECT_EQ(
      refusal(with(R"(</tb><tb send="1" chan="0">)")),
      "LSCHED_ERR_ARGUMENT: gpu 0, thread block 1: another thread block of this gpu has the same peer and channel: "
      "set another chan");
}

}  // namespace
}  // namespace lsched::testing
