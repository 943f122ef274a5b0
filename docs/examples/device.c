/* A sum in GPU memory. The ranks add up vectors of the host into device memory, and copy the maximum of all sums back
 * to the host. Both rounds run in the order of a CUDA stream. The program needs no header and no library of CUDA. Run
 * by: lsched run -n 3 ./device. Without a GPU the program prints the reason, and exits with 77. */
#include <lsched_cuda.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000 };

static lsched_diagnostic why = {.struct_size = sizeof why};

static void must(lsched_status code, const char* what) {
  if (code == LSCHED_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, lsched_status_text(code), why.text);
  exit(code == LSCHED_ERR_UNSUPPORTED ? 77 : 1);
}

static lsched_schedule* create(lsched_world* world, const float* input, float* output, lsched_reduction reduction) {
  lsched_collective_desc desc = {.struct_size = sizeof desc,
                                 .collective = "allreduce",
                                 .input = input,
                                 .output = output,
                                 .count = COUNT,
                                 .dtype = LSCHED_F32,
                                 .reduction = reduction};
  lsched_schedule* made;
  must(lsched_collective_create(world, &desc, &made, &why), "create");
  return made;
}

int main(void) {
  lsched_world* world;
  must(lsched_world_open(NULL, &world, &why), "open");
  must(lsched_cuda_attach(world, NULL, &why), "attach"); /* every rank, before any rank creates */

  void* on_device; /* memory of cudaMalloc works too */
  must(lsched_cuda_alloc(world, COUNT * sizeof(float), &on_device), "alloc");
  float mine[COUNT], result[COUNT];
  lsched_schedule* sum = create(world, mine, on_device, LSCHED_SUM);
  lsched_schedule* most = create(world, on_device, result, LSCHED_MAX);

  void* stream = NULL; /* the default stream; a cudaStream_t or a CUstream works too */
  lsched_ticket summed, taken;
  for (int i = 0; i < COUNT; ++i) mine[i] = (float)(i * (lsched_rank(world) + 1));
  must(lsched_start_on_stream(sum, stream, &summed), "start");
  must(lsched_wait_on_stream(summed, stream), "wait"); /* the stream continues when the sum is ready */
  must(lsched_start_on_stream(most, stream, &taken), "start");
  must(lsched_wait(taken, 10000000000, &why), "wait");

  const int ranks = lsched_size(world);
  for (int i = 0; i < COUNT; ++i)
    if (result[i] != (float)(i * ranks * (ranks + 1) / 2)) return fprintf(stderr, "%d: %g\n", i, result[i]), 1;
  if (lsched_rank(world) == 0) printf("%d ranks have added up %d numbers on a GPU\n", ranks, COUNT);
  must(lsched_schedule_destroy(most, 1000000000, &why), "destroy");
  must(lsched_schedule_destroy(sum, 1000000000, &why), "destroy");
  must(lsched_cuda_free(world, on_device), "free");
  must(lsched_world_close(world), "close");
  return 0;
}
