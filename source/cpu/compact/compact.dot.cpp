// SPDX-License-Identifier: MIT
// Products of weights of 8 and 4 bits with bytes, on units that sum four products of bytes.
#include "cpu/compact/compact_kernels.h"
#include "cpu/compact/compact_scales.h"
#include "cpu/unroll.h"
#include "cpu/vec.h"

#if defined(OORT_UNIT_neon_dot)
#include "cpu/compact/byte_sums_neon.h"
#elif defined(OORT_UNIT_avx512_vnni)
#include "cpu/compact/byte_sums_vnni.h"
#elif defined(OORT_UNIT_avx2_dot)
#include "cpu/compact/byte_sums_avx2.h"
#endif

namespace oort::OORT_ISA {
namespace {

// A header byte_sums_*.h defines
//   kMostRows                  rows that are multiplied at a time
//   ByteSums                   16 sums, with Start(s) (all sums are s), AddToFloat(scale, Vec*)
//   Bytes<piece>               the bytes of one row in one piece, loaded
//   AddPiece<type, piece, rows>(lines, bytes, sums)  which multiplies the lines of a piece
//   kOffset8                   what AddPiece adds to each weight of 8 bits
constexpr int kFloats = kCompactRows / Vec::kWidth;

template <CompactType type, int piece, int rows, bool minimums>
void DotRows(const CompactDot& dot, int first) {
  constexpr int kPieceLines = type == CompactType::kInt4 ? piece / 8 : piece / 4;
  const CompactLayout& layout = dot.layout;
  const int64_t groups = dot.k / layout.group;
  const int pieces = layout.group / piece;
  const int zero = layout.zero + (type == CompactType::kInt8 ? kOffset8 : 0);
  const int64_t scales = kCompactRows * layout.scale_bytes();
  const std::byte* data = dot.panel;
  Vec total[rows][kFloats];
  Unroll<rows>([&](auto r) { Unroll<kFloats>([&](auto i) { total[r][i] = Vec(0.0f); }); });
  int64_t p = 0;
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* head = data;
    data += layout.head_bytes();
    Vec partial[rows][kFloats];
    float x_sum[rows] = {};
    Unroll<rows>([&](auto r) { Unroll<kFloats>([&](auto i) { partial[r][i] = Vec(0.0f); }); });
    for (int piece_of_group = 0; piece_of_group < pieces; ++piece_of_group, ++p) {
      ByteSums sums[rows];
      Bytes<piece> bytes[rows];
      Unroll<rows>([&](auto r) {
        const int64_t row = first + r;
        sums[r].Start(-zero * dot.x.sum[row * dot.x.piece_stride + p]);
        bytes[r].Load(dot.x.q + row * dot.x.q_stride + p * piece);
      });
      AddPiece<type, piece, rows>(data, bytes, sums);
      data += kPieceLines * 64;
      Unroll<rows>([&](auto r) {
        const int64_t at = (first + r) * dot.x.piece_stride + p;
        const float scale = dot.x.scale[at];
        sums[r].AddToFloat(scale, partial[r]);
        if constexpr (minimums) {
          x_sum[r] += scale * static_cast<float>(dot.x.sum[at]);
        }
      });
    }
    Unroll<kFloats>([&](auto i) {
      const Vec scale = LoadScale(head, i * Vec::kWidth, layout.f16_scales);
      Unroll<rows>([&](auto r) { total[r][i] = Fma(partial[r][i], scale, total[r][i]); });
      if constexpr (minimums) {
        const Vec minimum = LoadScale(head + scales, i * Vec::kWidth, layout.f16_scales);
        Unroll<rows>([&](auto r) { total[r][i] = Fma(minimum, Vec(x_sum[r]), total[r][i]); });
      }
    });
  }
  Unroll<rows>([&](auto r) {
    Unroll<kFloats>(
        [&](auto i) { total[r][i].Store(dot.y + (first + r) * kCompactRows + i * Vec::kWidth); });
  });
}

template <CompactType type, int piece, bool minimums>
void DotAllRows(const CompactDot& dot) {
  int row = 0;
  for (; row + kMostRows <= dot.rows; row += kMostRows) {
    DotRows<type, piece, kMostRows, minimums>(dot, row);
  }
  for (; row < dot.rows; ++row) DotRows<type, piece, 1, minimums>(dot, row);
}

template <CompactType type, bool minimums>
void DotPieces(const CompactDot& dot) {
  if (dot.x.piece == 16) return DotAllRows<type, 16, minimums>(dot);
  DotAllRows<type, 32, minimums>(dot);
}

template <CompactType type>
void DotType(const CompactDot& dot) {
  if (dot.layout.has_minimum) return DotPieces<type, true>(dot);
  DotPieces<type, false>(dot);
}

void Dot(const CompactDot& dot) {
  if (dot.layout.type == CompactType::kInt4) return DotType<CompactType::kInt4>(dot);
  DotType<CompactType::kInt8>(dot);
}

}  // namespace

const CompactDotKernels& CompactDotKernelsGet() {
  static constexpr CompactDotKernels kTable = {.dot = Dot};
  return kTable;
}

}  // namespace oort::OORT_ISA
