// Tests of the layout of the tables that benchmarks print.
#include "microbench/report.h"

#include <gtest/gtest.h>

namespace lsched::bench {
namespace {

std::string printed(const table& lines) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const memory = open_memstream(&text, &bytes);
  lines.print(memory);
  std::fclose(memory);
  const std::string made(text, bytes);
  std::free(text);
  return made;
}

TEST(Report, a_row_is_a_line_however_wide) {
  const std::string wide(90, 'x');
  table lines({"a", "b", "c"});
  lines.add({wide, "2", wide});
  EXPECT_EQ(printed(lines),
            std::string(89, ' ') + "a  b  " + std::string(89, ' ') + "c\n" + wide + "  2  " + wide + "\n");
}

TEST(Report, what_no_row_has_is_no_column) {
  const std::vector<result> rows{{{"us", 1}}, {{"us", 2}, {"of", nullptr}}};
  const std::vector columns{column("us", "us"), column("of MPI", "of_mpi"), column("of", "of")};
  EXPECT_EQ(printed(table_of(rows, columns)), "us  of\n 1    \n 2   -\n");
}

}  // namespace
}  // namespace lsched::bench
