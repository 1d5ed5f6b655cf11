// SPDX-License-Identifier: MIT
// What keys and queries are multiplied by before keys are rounded, against Hadamard's matrix.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "layers/attention/paged/cpu/kv_kernels.h"
#include "layers/attention/paged/kv_spread.h"
#include "oort/testing.h"

namespace oort {
namespace {

std::vector<float> RandomHead(int64_t head_dim) {
  const Tensor numbers = testing::RandomTensor(DType::kF32, {head_dim}, 3);
  return {numbers.span<float>().begin(), numbers.span<float>().end()};
}

std::vector<float> SpreadBy(Isa isa, const std::vector<float>& head) {
  std::vector<float> spread(head.size());
  const int64_t head_dim = static_cast<int64_t>(head.size());
  KvSpreadKernelsFor(isa).spread(head.data(), spread.data(), head_dim,
                                 KvSpreadWidth(KvType::kInt8, head_dim));
  return spread;
}

TEST(KvSpread, IsAProductWithHadamardsMatrix) {
  for (const int64_t head_dim : {16, 32, 64, 80, 96, 112, 128, 256, 512}) {
    const std::vector<float> head = RandomHead(head_dim);
    const uint64_t width = static_cast<uint64_t>(KvSpreadWidth(KvType::kInt8, head_dim));
    for (const Isa isa : SupportedIsas()) {
      SCOPED_TRACE(std::string(Name(isa)) + ", elements " + std::to_string(head_dim));
      const std::vector<float> spread = SpreadBy(isa, head);
      for (size_t i = 0; i < head.size(); ++i) {
        double want = 0;
        for (size_t j = i / width * width; j < i / width * width + width; ++j) {
          want += std::popcount((i % width) & (j % width)) % 2 == 0 ? head[j] : -head[j];
        }
        ASSERT_NEAR(spread[i], want / std::sqrt(static_cast<double>(width)), 1e-5) << i;
      }
      EXPECT_EQ(spread, SpreadBy(SupportedIsas().front(), head));
    }
  }
}

TEST(KvSpread, TwiceIsNothing) {
  for (const int64_t head_dim : {16, 64, 80, 128}) {
    const std::vector<float> head = RandomHead(head_dim);
    for (const Isa isa : SupportedIsas()) {
      std::vector<float> twice = SpreadBy(isa, head);
      KvSpreadKernelsFor(isa).spread(twice.data(), twice.data(), head_dim,
                                     KvSpreadWidth(KvType::kInt8, head_dim));
      for (size_t i = 0; i < head.size(); ++i) ASSERT_NEAR(twice[i], head[i], 1e-5) << Name(isa);
    }
  }
}

TEST(KvSpread, IsAsWideAsPowersOfTwoDivideTheHead) {
  EXPECT_EQ(KvSpreadWidth(KvType::kInt8, 128), 128);
  EXPECT_EQ(KvSpreadWidth(KvType::kInt8, 96), 32);
  EXPECT_EQ(KvSpreadWidth(KvType::kInt8, 80), 16);
  EXPECT_EQ(KvSpreadWidth(KvType::kInt8, 40), 1);  // by eights it would be worth nothing
  EXPECT_EQ(KvSpreadWidth(KvType::kInt8, 1024), 256);
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kFp8, KvType::kK6V4}) {
    EXPECT_EQ(KvSpreadWidth(type, 128), 1) << Name(type);
  }
}

}  // namespace
}  // namespace oort
