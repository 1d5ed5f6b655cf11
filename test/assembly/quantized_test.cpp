// SPDX-License-Identifier: MIT
// Rows times quantized panels in assembly, beside their twins.
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
  const int64_t count = layout.head_bytes() / layout.scale_bytes();
  for (int64_t group = 0; group < panels * k / layout.group; ++group) {
    std::byte* head = all.data() + group * layout.group_bytes();
    for (int64_t i = 0; i < count; ++i) {
      const float value = numbers.Real() / 64;
      const Half narrow(value);
      const void* from = layout.scale_bytes() == 4 ? static_cast<const void*>(&value) : &narrow;
      std::memcpy(head + i * layout.scale_bytes(), from, static_cast<size_t>(layout.scale_bytes()));
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

template <typename Dot, typename Kernels>
void ExpectSame(Dot dot, const Kernels& assembly, const Kernels& twin) {
  std::vector<float> first(static_cast<size_t>(dot.rows * dot.y_stride), -7.0f), second = first;
  dot.y = first.data();
  assembly.dot(dot);
  dot.y = second.data();
  twin.dot(dot);
  EXPECT_TRUE(Same(first, second))
      << "k " << dot.k << ", " << dot.rows << " rows, " << dot.panels << " panels, group "
      << dot.layout.group << ", minimums " << dot.layout.has_minimum;
}

void CompareDots(const PanelLayout& layout, int64_t k, int64_t panels, int rows) {
  Numbers numbers(10);
  const std::vector<std::byte> data = Panels(numbers, layout, k, panels);
  ByteRows x;
  x.piece = 32;
  x.block = rows == 1 ? 1 : kBlockRows;
  x.pieces = k / x.piece;
  const int64_t count = x.number_at((rows + x.block - 1) / x.block * x.block, 0);
  std::vector<int8_t> q = numbers.Wholes<int8_t>(count * x.piece, -127, 127);
  std::vector<int8_t> fine = numbers.Wholes<int8_t>(count * x.piece, -127, 127);
  std::vector<uint8_t> is_fine = numbers.Wholes<uint8_t>(count, 0, 1);
  std::vector<float> scale = numbers.Reals<float>(count);
  std::vector<float> offset = numbers.Reals<float>(count);
  std::vector<int32_t> sum = numbers.Wholes<int32_t>(count, -4000, 4000);
  x.q = q.data();
  x.fine = fine.data();
  x.is_fine = is_fine.data();
  x.of_4_bits = {scale.data(), sum.data(), offset.data()};
  x.of_8_bits = x.of_4_bits;
  QuantizedDot dot;
  SetPanels(dot, layout, k, panels, rows, data);
  dot.x = x;
  ExpectSame(dot, neon_dot::QuantizedDotKernelsGet(), neon_dot_twin::QuantizedDotKernelsGet());
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

void CompareNibbles(bool minimums, int64_t k, int64_t panels, int rows) {
  const PanelLayout layout{WeightType::kInt4, 32, minimums, ScaleType::kF16, 1, minimums ? 0 : 8};
  Numbers numbers(11);
  const std::vector<std::byte> data = Panels(numbers, layout, k, panels);
  NibbleRows x;
  x.q_stride = k + 32;
  x.piece_stride = k / 32 + 1;
  std::vector<int8_t> q(static_cast<size_t>(2 * rows * x.q_stride));
  std::vector<uint8_t> is_fine(static_cast<size_t>(rows * x.piece_stride));
  std::vector<uint16_t> number(static_cast<size_t>(2 * rows * x.piece_stride));
  std::vector<int32_t> start(static_cast<size_t>(4 * rows * x.piece_stride));
  std::vector<float> power(static_cast<size_t>(rows));
  const NibbleKernels& assembly = neon_i8mm::NibbleKernelsGet();
  for (int row = 0; row < rows; ++row) {
    NibbleRows of = x;
    of.q = q.data() + row * x.q_stride;
    of.fine = of.q + rows * x.q_stride;
    of.is_fine = is_fine.data() + row * x.piece_stride;
    of.numbers = number.data() + 2 * row * x.piece_stride;
    of.start = start.data() + 4 * row * x.piece_stride;
    of.power = power.data() + row;
    std::vector<float> values = numbers.Reals<float>(k);
    // Pieces whose largest element stands out get a second byte.
    for (int64_t piece = 0; piece < k / 32; ++piece) {
      if (numbers.Whole(0, 2) == 0) values[static_cast<size_t>(32 * piece + 5)] = 40.0f;
    }
    assembly.quantize(values.data(), k, of);
  }
  x.q = q.data();
  x.fine = q.data() + rows * x.q_stride;
  x.is_fine = is_fine.data();
  x.numbers = number.data();
  x.start = start.data();
  x.power = power.data();
  NibbleDot dot;
  SetPanels(dot, layout, k, panels, rows, data);
  dot.x = x;
  ExpectSame(dot, assembly, neon_i8mm_twin::NibbleKernelsGet());
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

/// Pieces as kernels make them: of 4 bits, sums begin near kPairMagic, and some have second bytes.
std::vector<PairPiece> Pieces(Numbers& numbers, int64_t pairs, int64_t count) {
  std::vector<PairPiece> all(static_cast<size_t>(pairs * count));
  for (size_t i = all.size(); i-- > 0;) {
    PairPiece& piece = all[i];
    for (auto* bytes : {&piece.q, &piece.fine}) {
      for (int8_t& byte : std::span(&(*bytes)[0][0][0], sizeof(*bytes))) {
        byte = static_cast<int8_t>(numbers.Whole(-127, 127));
      }
    }
    for (float& scale : piece.scale) scale = numbers.Real();
    for (uint16_t& offset : piece.offset) offset = FloatToHalf(numbers.Real());
    for (int32_t& start : piece.start) {
      start = kPairMagic + static_cast<int32_t>(numbers.Whole(-200000, 200000));
    }
    for (uint32_t& fine : piece.is_fine) fine = numbers.Whole(0, 5) == 0 ? ~0u : 0u;
    const bool is_last = (i + 1) % static_cast<size_t>(count) == 0;
    piece.plain =
        (piece.is_fine[0] | piece.is_fine[1]) != 0 ? 0 : 1 + (is_last ? 0 : all[i + 1].plain);
  }
  return all;
}

void ComparePairs(const PanelLayout& layout, int64_t k, int64_t panels, int rows) {
  Numbers numbers(12);
  const std::vector<std::byte> data = Panels(numbers, layout, k, panels);
  std::vector<PairPiece> pieces = Pieces(numbers, (rows + 1) / 2, k / 32);
  std::vector<float> power = numbers.Reals<float>(rows);
  PairDot dot;
  SetPanels(dot, layout, k, panels, rows, data);
  dot.x = {pieces.data(), layout.type == WeightType::kInt4 ? power.data() : nullptr, k / 32};
  ExpectSame(dot, neon_i8mm::PairKernelsGet(), neon_i8mm_twin::PairKernelsGet());
}

TEST(Assembly, PairDot) {
  if (!ThisCpu().arm_i8mm) GTEST_SKIP() << "this processor has no matrix unit for bytes";
  const PanelLayout layouts[] = {{WeightType::kInt4, 32, false, ScaleType::kF16, 1, 8},
                                 {WeightType::kInt4, 32, true, ScaleType::kF16, 1, 0},
                                 {WeightType::kInt8, 32, false, ScaleType::kF16, 1, 0}};
  for (const PanelLayout& layout : layouts) {
    for (const int64_t groups : {1, 2, 5, 18}) {
      for (int rows = 1; rows <= 16; ++rows) ComparePairs(layout, 32 * groups, 2, rows);
    }
  }
}

}  // namespace
}  // namespace oort::assembly_test
