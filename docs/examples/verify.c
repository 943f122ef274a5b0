/* Proves that every execution of the schedules in a file gives the specified outputs. The program
 * needs no ranks.
 * build/examples/verify docs/examples/scan.sched */
#include <lsched.h>
#include <stdio.h>

enum { k_most_bytes = 1 << 16, k_most_findings = 4 };

int main(int count, char** words) {
  static char text[k_most_bytes];
  FILE* file = count == 2 ? fopen(words[1], "rb") : NULL;
  if (file == NULL) return fprintf(stderr, "usage: %s docs/examples/scan.sched\n", words[0]), 2;
  const size_t bytes = fread(text, 1, sizeof text, file);
  fclose(file);

  const lsched_verify_desc world = {.struct_size = sizeof world, .text = text, .bytes = bytes};
  lsched_verification answer = {.struct_size = sizeof answer};
  lsched_finding found[k_most_findings];
  lsched_diagnostic why = {.struct_size = sizeof why};
  if (lsched_verify(&world, &answer, found, k_most_findings, &why) != LSCHED_OK)
    return fprintf(stderr, "%s: %s\n", words[1], why.text), 2;

  for (size_t i = 0; i < answer.findings + answer.notes; ++i)
    printf("%s%s: %s\n", i < answer.findings ? "" : "note: ", found[i].property, found[i].text);
  if (!answer.holds) return 1;
  printf("proved, %d ranks: %d messages, %d hops; promise for the outputs: %s\n", (int)answer.ranks,
         (int)answer.messages, (int)answer.hops, answer.collective != NULL ? answer.collective : "nothing");
  return 0;
}
