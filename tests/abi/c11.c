/* Checks that the public header is plain C11, needs no other header, can be included twice, and links from C. */
#include "lsched.h"

#include <string.h>

#include "lsched.h"

int main(void) {
  const char* name = lsched_status_name(LSCHED_OK);
  return name != NULL && strlen(name) > 0 ? 0 : 1;
}
