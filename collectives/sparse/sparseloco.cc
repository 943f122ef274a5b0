// SparseLoCo: an allgather of one message of fixed size for each rank. Every rank then decodes and sums all messages.
// (Sarfi and others, Communication Efficient LLM Pre-training with SparseLoCo, arXiv 2508.15706, 2025.)
//
//   message    The vector is cut into chunks of 4096 elements. Of each chunk, a rank sends the largest elements, in the
//              proportion k/n. Each of them has an index of 12 bits and a value of 2 bits. Two levels belong to a
//              chunk. With 64 elements of each chunk of f32, these are 64 * (12 + 2) + 32 = 928 bits for 4096 elements.
//   size       Messages have empty slots if a chunk has too few elements. So the size depends on the problem only. The
//              gathering needs no lengths, no guards and no lists, unlike that of topka.
//   gathering  Messages are gathered by dissemination, for any P, in ceil(log2 P) steps. A rank sends and receives P-1
//              messages.
//   proof      A message is a value of several elements that one function has made (`split`). The last function
//              combines whole values (`fold`), in rank order.
//
// The computations of a rank between messages are functions (sparseloco_steps.h).
#include "collectives/allgather/allgather.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/sparseloco_steps.h"

namespace lsched {
namespace {

constexpr std::uint32_t number_of(sparseloco_step step) { return static_cast<std::uint32_t>(step); }

}  // namespace

fragment add_sparseloco(builder& to, const sparse_problem& problem, const sparse_ends& ends) {
  const std::uint64_t bytes = chunk_plan(problem).message_bytes();
  const buffer_id mine = to.scratch(dtype::u8, bytes), all = to.scratch(dtype::u8, bytes * problem.ranks());
  const op_id exit = to.nop();
  const op_id selected = to.apply(kernel::split, number_of(sparseloco_step::select), ends.gradient, k_no_buffer, mine);
  const fragment gathered = add_allgather_dissemination(to, {.count = bytes, .type = dtype::u8}, mine, all, selected);
  const op_id settled = to.apply(kernel::fold, number_of(sparseloco_step::settle), all, ends.contributor_count,
                                 ends.update, {gathered.exit, ends.counted});
  to.dep(settled, exit);
  return {.exit = exit};
}

}  // namespace lsched
