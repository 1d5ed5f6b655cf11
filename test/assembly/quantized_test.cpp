// SPDX-License-Identifier: MIT
// Rows times quantized panels in assembly, beside their twins.
#include <algorithm>
#include <span>

#include "cpu/features.h"
#include "twins.h"

namespace oort::assembly_test {
namespace {

/// Panels of random weights with scales and minimums that are numbers.
std::vector<std::byte> Panels(Numbers& numbers, const PanelLayout& layout, int64_t k,
                              int64_t panels) {
  const std::vector<uint8_t> bytes =
      numbers.Wholes<uint8_t>(panels * layout.panel_bytes(k) + 1024, 0, 255);
  std::vector<std::byte> all(bytes.size());
  std::memcpy(all.data(), bytes.data(), bytes.size());
  // Where scales are bytes, what they count is a number.
  const int size = layout.scale_bytes() == 4 ? 4 : 2;
  const int64_t count = (layout.byte_scales() ? layout.steps_bytes() : layout.head_bytes()) / size;
  for (int64_t index = 0; index < panels * k / layout.group; index += layout.span) {
    const int64_t groups = k / layout.group;
    std::byte* head = all.data() + index / groups * layout.panel_bytes(k);
    head +=
        layout.byte_scales() ? layout.steps_at(index % groups) : layout.group_at(index % groups);
    for (int64_t i = 0; i < count; ++i) {
      const float value = numbers.Real() / 64;
      const Half narrow(value);
      const void* from = size == 4 ? static_cast<const void*>(&value) : &narrow;
      std::memcpy(head + i * size, from, static_cast<size_t>(size));
    }
  }
  return all;
}

/// What PanelsTimesRows holds beside its rows.
template <typename Dot>
void SetPanels(Dot& dot, const PanelLayout& layout, int64_t k, int64_t panels, int rows,
               const std::vector<std::byte>& data) {
  dot.layout = layout;
  dot.k = k;
  dot.panels = panels;
  dot.panel = data.data();
  dot.end = data.data() + panels * layout.panel_bytes(k);
  dot.rows = rows;
  dot.y_stride = panels * kPanelRows + 4;
}

template <typename Dot, typename Kernel>
void ExpectSame(Dot dot, Kernel assembly, Kernel twin) {
  std::vector<float> first(static_cast<size_t>(dot.rows * dot.y_stride), -7.0f), second = first;
  dot.y = first.data();
  assembly(dot);
  dot.y = second.data();
  twin(dot);
  EXPECT_TRUE(Same(first, second))
      << "k " << dot.k << ", " << dot.rows << " rows, " << dot.panels << " panels, group "
      << dot.layout.group << ", minimums " << dot.layout.has_minimum;
}

/// Rows of any bytes.
struct RandomBytes {
  ByteRows rows;
  RandomBytes(Numbers& numbers, int64_t k, int piece, int count_rows) {
    rows.piece = piece;
    rows.block = count_rows == 1 ? 1 : kBlockRows;
    rows.pieces = k / piece;
    const int64_t count =
        rows.number_at((count_rows + rows.block - 1) / rows.block * rows.block, 0);
    q_ = numbers.Wholes<int8_t>(count * piece, -127, 127);
    fine_ = numbers.Wholes<int8_t>(count * piece, -127, 127);
    is_fine_ = numbers.Wholes<uint8_t>(count, 0, 1);
    scale_ = numbers.Reals<float>(count);
    offset_ = numbers.Reals<float>(count);
    sum_ = numbers.Wholes<int32_t>(count, -4000, 4000);
    rows.q = q_.data();
    rows.fine = fine_.data();
    rows.is_fine = is_fine_.data();
    rows.of_4_bits = {scale_.data(), sum_.data(), offset_.data()};
    rows.of_8_bits = rows.of_4_bits;
  }

 private:
  std::vector<int8_t> q_, fine_;
  std::vector<uint8_t> is_fine_;
  std::vector<float> scale_, offset_;
  std::vector<int32_t> sum_;
};

void CompareDots(const PanelLayout& layout, int64_t k, int64_t panels, int rows) {
  Numbers numbers(10);
  const std::vector<std::byte> data = Panels(numbers, layout, k, panels);
  const RandomBytes x(numbers, k, 32, rows);
  QuantizedDot dot;
  SetPanels(dot, layout, k, panels, rows, data);
  dot.x = x.rows;
  ExpectSame(dot, neon_dot::QuantizedDotKernelsGet().dot,
             neon_dot_twin::QuantizedDotKernelsGet().dot);
}

TEST(Assembly, QuantizedDot) {
  if (!ThisCpu().arm_dot) GTEST_SKIP() << "this processor has no dot products of bytes";
  for (const WeightType type : {WeightType::kInt4, WeightType::kInt5, WeightType::kInt8}) {
    for (const bool minimums : {false, true}) {
      for (const ScaleType scales : {ScaleType::kF16, ScaleType::kF32}) {
        for (const int group : {32, 64}) {
          if (type == WeightType::kInt5 && (group != 32 || scales != ScaleType::kF16)) continue;
          const int zero = minimums ? 0 : type == WeightType::kInt4 ? 8 : 0;
          const PanelLayout layout{type, group, minimums, scales, 1, zero};
          for (const int64_t groups : {1, 2, 3, 4, 7}) {
            for (const int rows : {1, 2, 3, 4, 7, 13}) {
              CompareDots(layout, groups * group, 1 + groups % 3, rows);
            }
          }
        }
      }
    }
  }
}

/// Rows that kernels have rounded.
struct RoundedRows {
  NibbleRows rows;
  RoundedRows(Numbers& numbers, int64_t k, int count) {
    rows.q_stride = k + 32;
    rows.piece_stride = k / 32 + 1;
    const auto pieces = static_cast<size_t>(count * rows.piece_stride);
    q_.resize(static_cast<size_t>(2 * count * rows.q_stride));
    number_.resize(2 * pieces);
    start_.resize(4 * pieces);
    power_.resize(static_cast<size_t>(count));
    fine_of_.resize(pieces);
    fine_count_.resize(power_.size());
    rows.q = q_.data();
    rows.fine = q_.data() + count * rows.q_stride;
    rows.numbers = number_.data();
    rows.start = start_.data();
    rows.power = power_.data();
    rows.fine_of = fine_of_.data();
    rows.fine_count = fine_count_.data();
    for (int row = 0; row < count; ++row) {
      std::vector<float> values = numbers.Reals<float>(k);
      // Pieces whose largest element stands out get a second byte.
      for (int64_t piece = 0; piece < k / 32; ++piece) {
        if (numbers.Whole(0, 9) == 0) values[static_cast<size_t>(32 * piece + 5)] = 40.0f;
      }
      neon_i8mm::NibbleKernelsGet().quantize(values.data(), k, rows.From(row));
    }
  }

 private:
  std::vector<int8_t> q_;
  std::vector<uint16_t> number_;
  std::vector<int32_t> start_, fine_count_;
  std::vector<float> power_;
  std::vector<FineNibbles> fine_of_;
};

void CompareNibbles(bool minimums, int64_t k, int64_t panels, int rows) {
  const PanelLayout layout{WeightType::kInt4, 32, minimums, ScaleType::kF16, 1, minimums ? 0 : 8};
  Numbers numbers(11);
  const std::vector<std::byte> data = Panels(numbers, layout, k, panels);
  const RoundedRows x(numbers, k, rows);
  NibbleDot dot;
  SetPanels(dot, layout, k, panels, rows, data);
  dot.x = x.rows;
  ExpectSame(dot, neon_i8mm::NibbleKernelsGet().dot, neon_i8mm_twin::NibbleKernelsGet().dot);
}

TEST(Assembly, NibbleDot) {
  if (!ThisCpu().arm_i8mm) GTEST_SKIP() << "this processor has no matrix unit for bytes";
  for (const bool minimums : {false, true}) {
    for (const int64_t groups : {1, 2, 3, 4, 9, 16}) {
      for (const int64_t panels : {1, 2, 5}) {
        for (const int rows : {1, 2, 3, 5, 7}) {
          CompareNibbles(minimums, 32 * groups, panels, rows);
        }
      }
    }
  }
}

void CompareNibblePairs(bool minimums, int64_t k, int64_t panels, int rows) {
  const PanelLayout layout{WeightType::kInt4, 32, minimums, ScaleType::kF16, 1, minimums ? 0 : 8};
  Numbers numbers(12);
  const std::vector<std::byte> data = Panels(numbers, layout, k, panels);
  const RoundedRows x(numbers, k, rows);
  const int64_t count = k / 32, most = 2 * kBlockPairs;
  std::vector<NibblePairPiece> pieces(static_cast<size_t>((rows + 1) / 2 * count));
  std::vector<NibblePairPiece> fine(pieces.size());
  std::vector<int32_t> fine_piece(pieces.size()), fine_count(pieces.size());
  NibblePairDot dot;
  SetPanels(dot, layout, k, panels, rows, data);
  dot.x = {pieces.data(), fine.data(), fine_piece.data(), fine_count.data(), x.rows.power, count};
  for (int64_t row = 0; row < rows; row += most) {
    const int some = static_cast<int>(std::min(most, rows - row));
    for (int pair = 0; 2 * pair < some; ++pair) {
      neon_i8mm::PairKernelsGet().from_nibbles(x.rows.From(row), some, pair, dot.x.From(row));
    }
  }
  ExpectSame(dot, neon_i8mm::PairKernelsGet().dot_nibbles,
             neon_i8mm_twin::PairKernelsGet().dot_nibbles);
}

TEST(Assembly, NibblePairDot) {
  if (!ThisCpu().arm_i8mm) GTEST_SKIP() << "this processor has no matrix unit for bytes";
  for (const bool minimums : {false, true}) {
    for (const int64_t groups : {1, 2, 5, 18, 100}) {
      for (int rows = 1; rows <= 25; ++rows) CompareNibblePairs(minimums, 32 * groups, 2, rows);
    }
  }
}

void CompareBytePairs(int64_t k, int64_t panels, int rows) {
  const PanelLayout layout{WeightType::kInt8, 32, false, ScaleType::kF16, 1, 0};
  Numbers numbers(13);
  const std::vector<std::byte> data = Panels(numbers, layout, k, panels);
  std::vector<BytePairPiece> pieces(static_cast<size_t>((rows + 1) / 2 * (k / 32)));
  for (BytePairPiece& piece : pieces) {
    for (auto* bytes : {&piece.q, &piece.fine}) {
      for (int8_t& byte : std::span(&(*bytes)[0][0][0], sizeof(*bytes))) {
        byte = static_cast<int8_t>(numbers.Whole(-127, 127));
      }
    }
    for (float& scale : piece.scale) scale = numbers.Real();
  }
  BytePairDot dot;
  SetPanels(dot, layout, k, panels, rows, data);
  dot.x = {pieces.data(), k / 32};
  ExpectSame(dot, neon_i8mm::PairKernelsGet().dot_bytes,
             neon_i8mm_twin::PairKernelsGet().dot_bytes);
}

TEST(Assembly, BytePairDot) {
  if (!ThisCpu().arm_i8mm) GTEST_SKIP() << "this processor has no matrix unit for bytes";
  for (const int64_t groups : {1, 2, 5, 18}) {
    for (int rows = 1; rows <= 16; ++rows) CompareBytePairs(32 * groups, 2, rows);
  }
}

template <int steps, typename Join, typename Kernel>
void CompareLowPairs(const PanelLayout& layout, int64_t k, int rows, Join join, Kernel assembly,
                     Kernel twin) {
  Numbers numbers(14);
  const std::vector<std::byte> data = Panels(numbers, layout, k, 2);
  const RandomBytes x(numbers, k, steps, rows);
  const int64_t count = k / steps;
  std::vector<LowPairPiece<steps>> pieces(static_cast<size_t>((rows + 1) / 2 * count));
  std::vector<LowFinePiece<steps>> fine(pieces.size());
  LowPairDot<steps> dot;
  SetPanels(dot, layout, k, 2, rows, data);
  dot.x = {pieces.data(), fine.data(), count};
  for (int row = 0; row < rows; row += 2) {
    join(x.rows, row, std::min(2, rows - row), dot.x.From(row));
  }
  ExpectSame(dot, assembly, twin);
}

TEST(Assembly, LowPairDot) {
  if (!ThisCpu().arm_i8mm) GTEST_SKIP() << "this processor has no matrix unit for bytes";
  const PairKernels &kernels = neon_i8mm::PairKernelsGet(),
                    &twin = neon_i8mm_twin::PairKernelsGet();
  const PanelLayout layouts[] = {{WeightType::kInt4, 32, true, ScaleType::kByte, 8, 0},
                                 {WeightType::kInt4, 32, true, ScaleType::kByte, 8, 8},
                                 {WeightType::kInt5, 32, true, ScaleType::kByte, 8, 0},
                                 {WeightType::kInt5, 32, true, ScaleType::kF16, 1, 0},
                                 {WeightType::kInt5, 32, false, ScaleType::kF16, 1, 16},
                                 {WeightType::kInt6, 16, false, ScaleType::kSignedByte, 16, 32}};
  for (const PanelLayout& layout : layouts) {
    for (const int64_t k : {256, 512, 2816}) {
      for (int rows = 1; rows <= 17; ++rows) {
        if (layout.type == WeightType::kInt6) {
          CompareLowPairs<16>(layout, k, rows, kernels.from_low_16, kernels.dot_low_16,
                              twin.dot_low_16);
        } else {
          CompareLowPairs<32>(layout, k, rows, kernels.from_low_32, kernels.dot_low_32,
                              twin.dot_low_32);
        }
      }
    }
  }
}

}  // namespace
}  // namespace oort::assembly_test
