// SPDX-License-Identifier: MIT
#include "core/host_memory.h"

#include <gtest/gtest.h>
#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <vector>

#include "core/exact_buffers.h"

namespace oort {
namespace {

constexpr size_t kBlock = size_t{256} << 10, kBlocks = 48;  // several large pages

std::byte MarkOf(size_t block) { return static_cast<std::byte>(block + 1); }

std::vector<std::shared_ptr<Buffer>> MarkedBlocks() {
  std::vector<std::shared_ptr<Buffer>> blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(AllocatePages(kBlock));
    std::fill_n(blocks.back()->data(), kBlock, MarkOf(i));
  }
  return blocks;
}

void ExpectMarks(const std::vector<std::shared_ptr<Buffer>>& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] == nullptr) continue;
    const std::byte* data = blocks[i]->data();
    ASSERT_TRUE(std::all_of(data, data + kBlock, [&](std::byte b) { return b == MarkOf(i); })) << i;
  }
}

TEST(HostMemory, BlocksKeepTheirElementsWhenPagesBecomeLarge) {
  const auto blocks = MarkedBlocks();
  TrimPages();
  ExpectMarks(blocks);
  const auto more = MarkedBlocks();
  TrimPages();
  ExpectMarks(blocks);
  ExpectMarks(more);
}

#if defined(__linux__) && !defined(OORT_EXACT_BUFFERS)
size_t ResidentPages(const std::byte* begin, size_t bytes) {
  std::vector<unsigned char> states(bytes / static_cast<size_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(::mincore(const_cast<std::byte*>(begin), bytes, states.data()), 0);
  return static_cast<size_t>(
      std::count_if(states.begin(), states.end(), [](int s) { return (s & 1) != 0; }));
}

/// Memory that was given back does not come again with a large page around it.
TEST(HostMemory, HolesStayHoles) {
  auto blocks = MarkedBlocks();
  std::vector<const std::byte*> gone;
  for (size_t i = 0; i < kBlocks; i += 4) {
    gone.push_back(blocks[i]->data());
    blocks[i] = nullptr;
  }
  TrimPages();
  for (const std::byte* hole : gone) EXPECT_EQ(ResidentPages(hole, kBlock), 0u);
  ExpectMarks(blocks);
}
#endif

}  // namespace
}  // namespace oort
