/* Gradients of an embedding, as sparse vectors.  lsched run -n 3 build/examples/embedding
 *
 * A table has a row of two numbers for each possible word. The gradient of a step has a row for each word of a batch,
 * in the order of the batch. A word that occurs twice has two rows, and most words of the table do not occur. Each rank
 * contributes such a gradient, and every rank gets the sum of all gradients. */
#include <lsched.h>
#include <stdio.h>

enum { k_words = 4, k_columns = 2, k_room = k_words * k_columns, k_most = 1024 };

static const uint64_t k_rows = 3ull << 30; /* so large that indices of the table need more than 32 bits */

/* The batch of a rank: word 7 twice, a word that only this rank has, and the last word of the table. */
static uint64_t word_of(int32_t rank, int place) {
  const uint64_t batch[k_words] = {7, k_rows - 1, 100 + (uint64_t)rank, 7};
  return batch[place];
}

/* Checks a sum. In round r, every rank contributes r in column 0 and 2 r in column 1. */
static int is_right(const uint64_t* indices, const float* values, uint64_t count, int32_t ranks, int round) {
  if (count != (2 + (uint64_t)ranks) * k_columns) return 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t row = indices[i] / k_columns, column = indices[i] % k_columns;
    const int times = row == 7 ? 2 * ranks : row == k_rows - 1 ? ranks : 1;
    if ((i > 0 && indices[i - 1] >= indices[i]) || values[i] != (float)(times * round * (int)(column + 1))) return 0;
  }
  return 1;
}

int main(void) {
  lsched_world* world = NULL;
  lsched_schedule* sum = NULL;
  lsched_diagnostic why = {.struct_size = sizeof why};
  if (lsched_world_open(NULL, &world, &why)) return fprintf(stderr, "%s\n", why.text), 1;
  const int32_t rank = lsched_rank(world), ranks = lsched_size(world);
  if (ranks < 2)
    return fprintf(stderr, "the table needs at least two ranks: lsched run -n 3 build/examples/embedding\n"), 1;

  uint64_t indices[k_room], out_indices[k_most], item_count = 0, out_count = 0;
  float values[k_room], out_values[k_most];
  const lsched_coo_desc desc = {.struct_size = sizeof desc,
                                .indices = indices,
                                .values = values,
                                .item_count = &item_count,
                                .room = k_room,
                                .out_indices = out_indices,
                                .out_values = out_values,
                                .out_count = &out_count,
                                .out_room = k_most,
                                .count = k_rows * k_columns,
                                .dtype = LSCHED_F32};
  if (lsched_coo_allreduce_create(world, &desc, &sum, &why)) return fprintf(stderr, "%s\n", why.text), 1;

  int all_right = 1;
  for (int round = 1; round <= 3; ++round) {
    item_count = 0;
    for (int place = 0; place < k_words; ++place)
      for (uint64_t column = 0; column < k_columns; ++column, ++item_count) {
        indices[item_count] = word_of(rank, place) * k_columns + column;
        values[item_count] = (float)(round * (int)(column + 1));
      }
    if (lsched_run(sum, LSCHED_FOREVER, &why)) return fprintf(stderr, "%s\n", why.text), 1;
    all_right = all_right && is_right(out_indices, out_values, out_count, ranks, round);
    if (rank == 0) printf("round %d: %d items, word 7 has %g\n", round, (int)out_count, (double)out_values[0]);
  }
  const int is_closed = lsched_schedule_destroy(sum, 0, &why) == LSCHED_OK && lsched_world_close(world) == LSCHED_OK;
  return is_closed && all_right ? 0 : 1;
}
