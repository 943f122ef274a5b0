// Tests of the built device image: its size, and that no kernel needs local memory.
#include "offload/cuda/driver/image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "offload/cuda/driver/launch.h"

namespace lsched {
namespace {

constexpr std::size_t k_most_bytes = std::size_t{1} << 20;
constexpr std::uint32_t k_magic_of_fat_binaries = 0xBA55ED50;

TEST(device_image, is_a_fat_binary_of_at_most_a_mebibyte) {
  const auto image = device_image();
  ASSERT_GT(image.size(), sizeof(std::uint32_t));
  EXPECT_LE(image.size(), k_most_bytes);
  std::uint32_t magic = 0;
  std::memcpy(&magic, image.data(), sizeof magic);
  EXPECT_EQ(magic, k_magic_of_fat_binaries);
}

/// Returns the memory of each kernel as ptxas has reported it, one line for each architecture.
std::map<std::string, std::vector<std::string>> memory_of_kernels() {
  std::ifstream report(LSCHED_TEST_DEVICE_REPORT);
  std::map<std::string, std::vector<std::string>> all;
  std::string kernel;
  for (std::string line; std::getline(report, line);) {
    const auto entry = line.find("Compiling entry function '");
    if (entry != std::string::npos) {
      const auto begin = line.find('\'') + 1;
      kernel = line.substr(begin, line.find('\'', begin) - begin);
    } else if (line.find("bytes stack frame") != std::string::npos) {
      all[kernel].push_back(line.substr(line.find_first_not_of(' ')));
    }
  }
  return all;
}

TEST(device_image, kernels_neither_spill_nor_have_a_stack) {
  const auto all = memory_of_kernels();
  ASSERT_FALSE(all.empty()) << LSCHED_TEST_DEVICE_REPORT;
  const std::size_t architectures = all.begin()->second.size();
  for (const device_symbol& symbol : device_symbols()) {
    const auto found = all.find(symbol.c_str());
    ASSERT_NE(found, all.end()) << symbol.c_str();
    EXPECT_EQ(found->second.size(), architectures) << symbol.c_str();
    for (const std::string& memory : found->second)
      EXPECT_EQ(memory, "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") << symbol.c_str();
  }
}

}  // namespace
}  // namespace lsched
