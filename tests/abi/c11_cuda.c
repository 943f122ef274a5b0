/* Checks lsched_cuda.h as c11.c checks lsched.h. The header must not need a header of CUDA. Every build of the library
 * must have the functions of the header. */
#include "lsched_cuda.h"

#include <string.h>

#include "lsched_cuda.h"

int main(void) {
  lsched_cuda_config config;
  lsched_cuda_config_init(&config);
  lsched_diagnostic why = {.struct_size = sizeof why};
  const lsched_status status = lsched_cuda_attach(NULL, &config, &why);
  return status == LSCHED_ERR_ARGUMENT && strcmp(why.text, "world is null") == 0 ? 0 : 1;
}
