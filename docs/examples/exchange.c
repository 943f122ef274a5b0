/* Every rank sends blocks of any length to other ranks. The lengths change in each round, and a receiver does not know
 * the lengths beforehand. Then a message travels around the ring. */
#include <lsched.h>
#include <stdio.h>

enum { k_most_ranks = 8, k_most = 5 };

static int fail(const lsched_diagnostic* why) { return fprintf(stderr, "%s\n", why->text), 1; }

int main(void) {
  lsched_diagnostic why = {.struct_size = sizeof why};
  lsched_world* world;
  if (lsched_world_open(NULL, &world, &why)) return fail(&why);
  const int self = lsched_rank(world), ranks = lsched_size(world);
  if (ranks > k_most_ranks) return fputs("at most 8 ranks\n", stderr), 1;

  lsched_collective_desc desc = {sizeof desc, "alltoallv", .dtype = LSCHED_I32, .capacity = k_most};
  lsched_schedule* exchange;
  if (lsched_collective_create(world, &desc, &exchange, &why)) return fail(&why);
  for (int round = 0; round < 100; ++round) {
    int32_t input[k_most_ranks * k_most], output[k_most_ranks * k_most];
    uint64_t counts[k_most_ranks], room[k_most_ranks], begins[k_most_ranks], received[k_most_ranks], sent = 0;
    for (int to = 0; to < ranks; ++to) {
      counts[to] = (uint64_t)(self + to + round) % (k_most + 1);
      for (uint64_t i = 0; i < counts[to]; ++i) input[sent++] = 100 * self + to;
      room[to] = k_most, begins[to] = (uint64_t)(to * k_most);
    }
    const lsched_counts all = {sizeof all, counts, NULL, room, begins, received};
    const void* from = input;
    void* into = output;
    lsched_ticket ticket;
    if (lsched_start_with(exchange, &from, &into, &all, &ticket)) return 1;
    if (lsched_wait(ticket, LSCHED_FOREVER, &why)) return fail(&why);
    for (int source = 0; source < ranks; ++source) {
      if (received[source] != (uint64_t)(source + self + round) % (k_most + 1))
        return fputs("a wrong count\n", stderr), 1;
      for (uint64_t i = 0; i < received[source]; ++i)
        if (output[source * k_most + (int)i] != 100 * source + self) return fputs("a wrong number\n", stderr), 1;
    }
  }

  lsched_mailbox* box;
  if (lsched_mailbox_create(world, &box, &why)) return fail(&why);
  int32_t first = 1, next = 0, seen = 0;
  lsched_message *got, *sent;
  if (lsched_receive_post(box, LSCHED_ANY_RANK, 0, &seen, sizeof seen, &got)) return 1;
  if (self == 0 && lsched_send_post(box, 1 % ranks, 0, &first, sizeof first, &sent)) return 1;
  lsched_arrival from = {.struct_size = sizeof from};
  if (lsched_message_wait(&got, LSCHED_FOREVER, &from, &why)) return fail(&why);
  next = seen + 1;
  if (self != 0 && lsched_send_post(box, (self + 1) % ranks, 0, &next, sizeof next, &sent)) return 1;
  if (lsched_message_wait(&sent, LSCHED_FOREVER, NULL, &why)) return fail(&why);
  if (self == 0) printf("the token came back from rank %d as %d\n", from.rank, seen);
  return lsched_mailbox_destroy(box) || lsched_schedule_destroy(exchange, 0, NULL) || lsched_world_close(world);
}
