/* Prints the version of the header. Proves that the header and the library are found and fit together. */
#include <lsched.h>
#include <stdio.h>

int main(void) {
  if (lsched_status_name(LSCHED_OK) == NULL) return 1;
  printf("%d.%d.%d\n", LSCHED_VERSION_MAJOR, LSCHED_VERSION_MINOR, LSCHED_VERSION_PATCH);
  return 0;
}
