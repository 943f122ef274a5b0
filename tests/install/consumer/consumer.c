/* Prints the version of the header. Shows that an installed header and library are found and match. */
#include <lsched.h>
#include <stdio.h>

int main(void) {
  if (lsched_status_name(LSCHED_OK) == NULL) return 1;
  printf("%d.%d.%d\n", LSCHED_VERSION_MAJOR, LSCHED_VERSION_MINOR, LSCHED_VERSION_PATCH);
  return 0;
}
