// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cpu/quantized_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/checked.h"
#include "core/host_memory.h"
#include "core/parallel.h"

namespace oort {
namespace {

/// Kernels take groups that are a multiple of this; weights in others are dequantized to f32.
constexpr int kGroupStep = 16;
/// Bytes behind the panels that kernels may read.
constexpr size_t kQuantizedSlack = 128;

/// The layout that keeps every scale and minimum as it is stored.
PanelLayout PlainLayout(const StoredMatrix& stored) {
  PanelLayout layout;
  const GroupLayout groups = LayoutOf(stored);
  if (groups.bits == 0) {
    if (stored.format == WeightFormat::kF16) layout.type = WeightType::kF16;
    if (stored.format == WeightFormat::kBf16) layout.type = WeightType::kBf16;
    return layout;
  }
  const bool signed_nibbles = groups.bits == 4 && groups.is_signed;
  if (groups.group % kGroupStep != 0 || (signed_nibbles && groups.has_minimum)) return layout;
  layout.type = groups.bits == 4 ? WeightType::kInt4 : WeightType::kInt8;
  layout.group = groups.group;
  layout.has_minimum = groups.has_minimum;
  layout.scales = groups.f16_scales ? ScaleType::kF16 : ScaleType::kF32;
  layout.zero = signed_nibbles ? 8 : 0;
  return layout;
}

/// The same with weights of 5 or 6 bits where the file has no more, and kernels for them.
PanelLayout UsedBits(PanelLayout layout, const GroupLayout& groups) {
  if (layout.type != WeightType::kInt8) return layout;
  const WeightType type = groups.used_bits == 5   ? WeightType::kInt5
                          : groups.used_bits == 6 ? WeightType::kInt6
                                                  : WeightType::kInt8;
  if (!WeightTypeExists(type, layout.scales)) return layout;
  layout.type = type;
  if (type != WeightType::kInt8 && !layout.has_minimum) {
    layout.zero = type == WeightType::kInt5 ? 16 : 32;
  }
  return layout;
}

/// Whether ScaleStorage::kBytes makes a difference to a matrix.
bool AsksForBytes(const StoredMatrix& stored, ScaleStorage scales) {
  if (scales != ScaleStorage::kBytes || !PlainLayout(stored).quantized()) return false;
  const GroupLayout groups = LayoutOf(stored);
  return groups.span == 0 && groups.bits == 4 && groups.has_minimum;
}

/// The layouts to try, the smallest first: scales that do not fit one are packed to the next, and
/// they always fit the last.
std::vector<PanelLayout> LayoutsFor(const StoredMatrix& stored, ScaleStorage scales) {
  const PanelLayout plain = PlainLayout(stored);
  if (!plain.quantized()) return {plain};
  const GroupLayout groups = LayoutOf(stored);
  PanelLayout bytes = plain;
  bytes.scales = groups.has_minimum ? ScaleType::kByte : ScaleType::kSignedByte;
  if (groups.span != 0) {
    bytes.span = groups.span / groups.group;
    if (groups.has_minimum) bytes.zero = groups.middle;
    return {UsedBits(bytes, groups), plain};
  }
  if (AsksForBytes(stored, scales)) {
    bytes.span = stored.columns / groups.group;
    bytes.zero = 8;
    return {bytes, plain};
  }
  return {UsedBits(plain, groups)};
}

/// The 16 rows of a panel as the file has them.
struct PanelRows {
  std::vector<int8_t> q;
  std::vector<float> scale, minimum;
  /// Scales of the scales and minimums, one for each super-block, where the file has them.
  std::vector<float> scale_step, minimum_step;

  PanelRows(const StoredMatrix& stored)
      : PanelRows(stored.columns, stored.columns / LayoutOf(stored).group, LayoutOf(stored).span) {}
  /// Rows beyond the last are zeros.
  void Read(const StoredMatrix& stored, int64_t begin, int64_t end) {
    if (end - begin < kPanelRows) {
      std::fill(q.begin(), q.end(), int8_t{0});
      std::fill(scale.begin(), scale.end(), 0.0f);
      std::fill(minimum.begin(), minimum.end(), 0.0f);
    }
    ReadGroups(stored, begin, end, q.data(), scale.data(), minimum.data());
    if (scale_step.empty()) return;
    std::fill(scale_step.begin(), scale_step.end(), 0.0f);
    std::fill(minimum_step.begin(), minimum_step.end(), 0.0f);
    ReadSteps(stored, begin, end, scale_step.data(), minimum_step.data());
  }
  /// No dequantized weight is larger; infinite where a scale is not a number.
  float Largest(const PanelLayout& layout) const {
    const float most = layout.type == WeightType::kInt4   ? 16.0f
                       : layout.type == WeightType::kInt5 ? 32.0f
                       : layout.type == WeightType::kInt6 ? 64.0f
                                                          : 256.0f;
    float largest = 0;
    for (size_t i = 0; i < scale.size(); ++i) {
      const float bound = most * std::abs(scale[i]) + std::abs(minimum[i]);
      largest = bound <= largest ? largest : bound >= 0 ? bound : INFINITY;
    }
    return largest;
  }

 private:
  PanelRows(int64_t columns, int64_t groups, int64_t span)
      : q(static_cast<size_t>(columns * kPanelRows)),
        scale(static_cast<size_t>(groups * kPanelRows)),
        minimum(static_cast<size_t>(groups * kPanelRows)),
        scale_step(static_cast<size_t>(span == 0 ? 0 : columns / span * kPanelRows)),
        minimum_step(scale_step.size()) {}
};

void WriteHalf(float value, std::byte* to) {
  const uint16_t half = FloatToHalf(value);
  std::memcpy(to, &half, sizeof(half));
}

void WriteScales(const float* from, int64_t stride, ScaleType type, std::byte* to) {
  for (int row = 0; row < kPanelRows; ++row) {
    const float value = from[row * stride];
    if (type == ScaleType::kByte || type == ScaleType::kSignedByte) {
      to[row] = static_cast<std::byte>(static_cast<int>(value));
    } else if (type == ScaleType::kF16) {
      WriteHalf(value, to + 2 * row);
    } else {
      std::memcpy(to + 4 * row, &value, 4);
    }
  }
}

/// Quantizes the scales, or the minimums, of a row to a byte each: `start` plus 0 to 255 steps.
struct ByteSteps {
  float step = 0, start = 0;  ///< as f16 holds them, the step times 256

  /// For numbers from `first`, which f16 holds exactly, to `most`.
  ByteSteps(float most, float first)
      : step(HalfToFloat(FloatToHalf((most - first) * (256.0f / 255)))), start(first) {}
  float Byte(float value) const {
    const float steps = step > 0 ? (value - start) * (256 / step) : 0.0f;
    return std::nearbyint(std::clamp(steps, 0.0f, 255.0f));
  }
  float Value(float byte) const { return byte * (step / 256) + start; }
};

/// Divides the scales, or the minimums, of a super-block by its step, which gives the integers of
/// the file again. False where the step is too large for a panel, which holds 256 times it in f16.
bool CountSteps(float step, int64_t groups, float* numbers) {
  constexpr float kMostStep = 65504.0f / 256;
  if (!(std::fabs(step) <= kMostStep)) return false;
  for (int64_t g = 0; g < groups; ++g) {
    numbers[g] = step == 0 ? 0.0f : std::nearbyint(numbers[g] / step);
  }
  return true;
}

/// Makes the scales and minimums of a panel bytes again, as the super-blocks of the file have them,
/// without loss. False where the panel cannot hold the steps.
bool TakeSteps(const PanelLayout& layout, int64_t columns, PanelRows& rows, std::byte* panel) {
  const int64_t groups = layout.span, spans = columns / layout.group / groups;
  for (int64_t i = 0; i < spans * kPanelRows; ++i) {
    const int64_t row = i / spans, first = i % spans * groups;
    float* scale = rows.scale.data() + i * groups;
    float* minimum = rows.minimum.data() + i * groups;
    const float step = rows.scale_step[static_cast<size_t>(i)];
    const float minimum_step = rows.minimum_step[static_cast<size_t>(i)];
    if (layout.has_minimum && layout.zero != 0) {
      for (int64_t g = 0; g < groups; ++g) minimum[g] += static_cast<float>(layout.zero) * scale[g];
    }
    if (!CountSteps(step, groups, scale) || !CountSteps(minimum_step, groups, minimum)) {
      return false;
    }
    std::byte* to = panel + layout.steps_at(first) + 2 * row;
    WriteHalf(256 * step, to);
    if (!layout.has_minimum) continue;
    WriteHalf(256 * minimum_step, to + 2 * kPanelRows);
    WriteHalf(0, to + 4 * kPanelRows);
  }
  return true;
}

/// Quantizes the scales and minimums of a panel to bytes. The zero point becomes 8, so that the
/// minimum is the value at the middle of q's range, where an error of the scale has no effect.
/// False where weights would move by more than a sixteenth of their scale: they are off by up to
/// half of it already.
bool RoundScales(int64_t groups, PanelRows& rows, std::byte* panel) {
  constexpr float kMiddle = 8, kLittle = 1.0f / 16;
  double moved = 0, size = 0;
  bool fits = true;
  for (int row = 0; row < kPanelRows; ++row) {
    float* scale = rows.scale.data() + row * groups;
    float* minimum = rows.minimum.data() + row * groups;
    for (int64_t g = 0; g < groups; ++g) {
      minimum[g] += kMiddle * scale[g];
      fits = fits && scale[g] >= 0 && std::isfinite(minimum[g]);
    }
    if (!fits) return false;
    const float least = *std::min_element(minimum, minimum + groups);
    const float most = *std::max_element(minimum, minimum + groups);
    const ByteSteps scales(*std::max_element(scale, scale + groups), 0);
    const ByteSteps minimums(most, HalfToFloat(FloatToHalf(least)));
    for (int64_t g = 0; g < groups; ++g) {
      const float s = scales.Byte(scale[g]), m = minimums.Byte(minimum[g]);
      const double error = kMiddle * std::fabs(scales.Value(s) - scale[g]) +
                           std::fabs(minimums.Value(m) - minimum[g]);
      moved += error * error;
      size += double{scale[g]} * scale[g];
      scale[g] = s;
      minimum[g] = m;
    }
    WriteHalf(scales.step, panel + 2 * row);
    WriteHalf(minimums.step, panel + 2 * (kPanelRows + row));
    WriteHalf(minimums.start, panel + 2 * (2 * kPanelRows + row));
  }
  return moved <= kLittle * kLittle * size;
}

bool ScalesToBytes(const PanelLayout& layout, int64_t columns, PanelRows& rows, std::byte* panel) {
  if (!rows.scale_step.empty()) return TakeSteps(layout, columns, rows, panel);
  return RoundScales(columns / layout.group, rows, panel);
}

/// Byte j of each row's four: weight j in the low nibble, weight 4 + j in the high nibble.
void WriteNibbles(const int8_t* q, int64_t stride, int group, int zero, std::byte* to) {
  const uint32_t offset = static_cast<uint32_t>(zero) * 0x01010101u;
  for (int k = 0; k < group; k += 8, to += 64) {
    for (int row = 0; row < kPanelRows; ++row) {
      uint32_t low, high;
      std::memcpy(&low, q + row * stride + k, 4);
      std::memcpy(&high, q + row * stride + k + 4, 4);
      // Four bits of -8 to 7 with the highest one turned are 0 to 15.
      low = (low & 0x0f0f0f0fu) ^ offset;
      high = (high & 0x0f0f0f0fu) ^ offset;
      const uint32_t both = low | (high << 4);
      std::memcpy(to + 4 * row, &both, 4);
    }
  }
}

/// Four weights of a row plus the zero point, each in a byte. No sum is above 63.
uint32_t FourSteps(const int8_t* q, uint32_t zero) {
  uint32_t four;
  std::memcpy(&four, q, sizeof(four));
  // Without carries from one byte to the next.
  return ((four & 0x7f7f7f7fu) + zero) ^ (four & 0x80808080u);
}

/// Weights of 5 or 6 bits packed into whole bytes, in the order that byte_lines.h unpacks.
void JoinFive(const uint32_t (&four)[8], uint32_t (&lines)[5]) {
  constexpr uint32_t kOne = 0x01010101u, kTwo = 3 * kOne, kThree = 7 * kOne;
  const uint32_t upper[5] = {four[5] >> 2 & kThree, (four[5] & kTwo) << 1 | (four[7] >> 1 & kOne),
                             four[6] >> 2 & kThree, (four[6] & kTwo) << 1 | (four[7] & kOne),
                             four[7] >> 2 & kThree};
  for (int i = 0; i < 5; ++i) lines[i] = four[i] | upper[i] << 5;
}
void JoinSix(const uint32_t (&four)[4], uint32_t (&lines)[3]) {
  constexpr uint32_t kTwo = 0x03030303u;
  for (int i = 0; i < 3; ++i) lines[i] = four[i] | (four[3] >> (4 - 2 * i) & kTwo) << 6;
}

template <int fours, int lines, typename Join>
void WriteJoined(const int8_t* q, int64_t stride, int zero, Join join, std::byte* to) {
  const uint32_t zeros = 0x01010101u * static_cast<uint32_t>(zero);
  for (int row = 0; row < kPanelRows; ++row, q += stride) {
    uint32_t four[fours], joined[lines];
    for (int i = 0; i < fours; ++i) four[i] = FourSteps(q + 4 * i, zeros);
    join(four, joined);
    for (int i = 0; i < lines; ++i) std::memcpy(to + 64 * i + 4 * row, joined + i, 4);
  }
}

void WriteBytes(const int8_t* q, int64_t stride, int group, std::byte* to) {
  for (int k = 0; k < group; k += 4, to += 64) {
    for (int row = 0; row < kPanelRows; ++row) std::memcpy(to + 4 * row, q + row * stride + k, 4);
  }
}

void WritePanel(const PanelLayout& layout, int64_t columns, const PanelRows& rows, std::byte* to) {
  const int64_t groups = columns / layout.group;
  const int64_t scales = kPanelRows * layout.scale_bytes();
  for (int64_t g = 0; g < groups; ++g) {
    std::byte* const group = to + layout.group_at(g);
    WriteScales(rows.scale.data() + g, groups, layout.scales, group);
    if (layout.has_minimum) {
      WriteScales(rows.minimum.data() + g, groups, layout.scales, group + scales);
    }
    const int8_t* q = rows.q.data() + g * layout.group;
    const int zero = layout.has_minimum ? 0 : layout.zero;
    std::byte* lines = group + layout.head_bytes();
    switch (layout.type) {
      case WeightType::kInt4: WriteNibbles(q, columns, layout.group, zero, lines); break;
      case WeightType::kInt5: WriteJoined<8, 5>(q, columns, zero, JoinFive, lines); break;
      case WeightType::kInt6: WriteJoined<4, 3>(q, columns, zero, JoinSix, lines); break;
      default: WriteBytes(q, columns, layout.group, lines);
    }
  }
}

/// (rows, columns) to (columns, 16); rows beyond the last are zeros.
template <typename T>
void Transpose(const T* from, int64_t rows, int64_t columns, T* to) {
  for (int64_t k = 0; k < columns; ++k, to += kPanelRows) {
    for (int64_t row = 0; row < kPanelRows; ++row) {
      to[row] = row < rows ? from[row * columns + k] : T{};
    }
  }
}

/// Identifies a stored matrix as long as its memory is not given back.
using SharedKey = std::tuple<const std::byte*, WeightFormat, int64_t, int64_t, ScaleStorage>;
struct SharedEntry {
  std::weak_ptr<Buffer> source;
  std::weak_ptr<const QuantizedMatrix> packed;
};
struct SharedMatrices {
  std::mutex mutex;
  std::map<SharedKey, SharedEntry> entries;
};
SharedMatrices& AllShared() {
  static SharedMatrices all;
  return all;
}

}  // namespace

QuantizedMatrix::QuantizedMatrix(int64_t rows, int64_t columns, const PanelLayout& layout)
    : rows_(rows), columns_(columns) {
  Allocate(layout);
}

void QuantizedMatrix::Allocate(const PanelLayout& layout) {
  layout_ = layout;
  static_cast<void>(CheckedMultiply<int64_t>(columns_, 8 * kPanelRows));
  panel_bytes_ = layout_.panel_bytes(columns_);
  const int64_t bytes = CheckedMultiply(panels(), panel_bytes_);
  buffer_ = AllocatePages(CheckedAdd(static_cast<size_t>(bytes), kQuantizedSlack));
}

QuantizedMatrix::QuantizedMatrix(const StoredMatrix& stored, int threads, ScaleStorage scales)
    : rows_(stored.rows), columns_(stored.columns) {
  Check(stored);
  for (const PanelLayout& layout : LayoutsFor(stored, scales)) {
    Allocate(layout);
    if (layout.quantized() && PackQuantized(stored, threads)) return;
    if (!layout.quantized()) PackFloat(stored, threads);
  }
}

int64_t QuantizedMatrix::panels() const { return CeilDivide(rows_, kPanelRows); }

/// Matrices whose largest weight lies between these lose less to f16 than to bf16.
constexpr float kLeastForF16 = 1.0f / 1024, kMostForF16 = 32768;

bool QuantizedMatrix::PackQuantized(const StoredMatrix& stored, int threads) {
  std::atomic<bool> fits = true;
  std::mutex mutex;
  float largest = 0;
  ParallelFor(threads, panels(), GrainOf({static_cast<double>(panel_bytes_) * 8, 0}),
              [&](int64_t begin, int64_t end) {
                PanelRows read(stored);
                float most = 0;
                for (int64_t p = begin; p < end; ++p) {
                  const int64_t first = p * kPanelRows;
                  read.Read(stored, first, std::min(first + kPanelRows, rows_));
                  most = std::max(most, read.Largest(layout_));
                  std::byte* to = buffer_->data() + p * panel_bytes_;
                  if (layout_.byte_scales() && !ScalesToBytes(layout_, columns_, read, to)) {
                    fits = false;
                    return;
                  }
                  WritePanel(layout_, columns_, read, to);
                }
                const std::scoped_lock lock(mutex);
                largest = std::max(largest, most);
              });
  fits_f16_ = largest >= kLeastForF16 && largest <= kMostForF16;
  return fits;
}

void QuantizedMatrix::PackFloat(const StoredMatrix& stored, int threads) {
  const bool copies = layout_.type != WeightType::kF32;  // 16 bits stay as they are stored
  ParallelFor(threads, panels(), GrainOf({static_cast<double>(panel_bytes_) * 8, 0}),
              [&](int64_t begin, int64_t end) {
                std::vector<float> values(copies ? 0 : static_cast<size_t>(kPanelRows * columns_));
                for (int64_t p = begin; p < end; ++p) {
                  const int64_t first = p * kPanelRows, last = std::min(first + kPanelRows, rows_);
                  std::byte* to = buffer_->data() + p * panel_bytes_;
                  if (copies) {
                    Transpose(
                        reinterpret_cast<const uint16_t*>(stored.data.raw()) + first * columns_,
                        last - first, columns_, reinterpret_cast<uint16_t*>(to));
                  } else {
                    ReadRows(stored, first, last, values.data());
                    Transpose(values.data(), last - first, columns_, reinterpret_cast<float*>(to));
                  }
                }
              });
}

void QuantizedMatrix::ReadRow(int64_t row, float* values) const {
  const int lane = static_cast<int>(row % kPanelRows);
  const DequantizeKernels& kernels = DequantizeKernelsFor(Isa::kScalar);
  constexpr int64_t kSteps = 64;
  float steps[kSteps * kPanelRows];
  for (int64_t k = 0; k < columns_; k += kSteps) {
    const int64_t end = std::min(k + kSteps, columns_);
    kernels.unpack(layout_, panel(row / kPanelRows), k, end, steps, kPanelRows);
    for (int64_t i = k; i < end; ++i) values[i] = steps[(i - k) * kPanelRows + lane];
  }
}

namespace {

/// Requantizes one row of a group from 8 to 4 bits.
void CoarsenRow(const PanelLayout& fine, const std::byte* from, int row, std::byte* to) {
  // The largest weight becomes 7 or -7, so that both signs have the same range.
  constexpr float kMost = 7.49f;
  float scale;
  if (fine.scales == ScaleType::kF16) {
    uint16_t half;
    std::memcpy(&half, from + 2 * row, 2);
    scale = HalfToFloat(half);
  } else {
    std::memcpy(&scale, from + 4 * row, 4);
  }
  const int8_t* q = reinterpret_cast<const int8_t*>(from + fine.head_bytes()) + 4 * row;
  const auto at = [&](int k) { return q[16 * (k - k % 4) + k % 4]; };
  int most = 0;
  for (int k = 0; k < fine.group; ++k) most = std::max(most, std::abs(int{at(k)}));
  const uint16_t coarse_half = FloatToHalf(scale * static_cast<float>(most) / kMost);
  const float coarse = HalfToFloat(coarse_half), ratio = coarse == 0 ? 0.0f : scale / coarse;
  std::memcpy(to + 2 * row, &coarse_half, 2);
  // 0 to 15 stands for -8 to 7; adding 0.5 rounds to the nearest.
  const auto nibble = [&](int k) {
    const float moved = static_cast<float>(at(k)) * ratio + 8.5f;
    return static_cast<unsigned>(std::min(15, static_cast<int>(moved)));
  };
  std::byte* line = to + 2 * kPanelRows + 4 * row;
  for (int k = 0; k < fine.group; k += 8, line += 64) {
    for (int j = 0; j < 4; ++j) line[j] = std::byte(nibble(k + j) | (nibble(k + 4 + j) << 4));
  }
}

}  // namespace

std::shared_ptr<const QuantizedMatrix> QuantizedMatrix::Coarse(const QuantizedMatrix& fine,
                                                               int threads) {
  PanelLayout layout = fine.layout_;
  layout.type = WeightType::kInt4;
  layout.scales = ScaleType::kF16;
  layout.zero = 8;
  const std::shared_ptr<QuantizedMatrix> coarse(
      new QuantizedMatrix(fine.rows_, fine.columns_, layout));
  const int64_t groups = fine.columns_ / layout.group;
  ParallelFor(threads, fine.panels(), GrainOf({static_cast<double>(fine.panel_bytes_) * 8, 0}),
              [&](int64_t begin, int64_t end) {
                const std::byte* from = fine.panel(begin);
                std::byte* to = coarse->buffer_->data() + begin * coarse->panel_bytes_;
                for (int64_t i = 0; i < (end - begin) * groups; ++i) {
                  for (int row = 0; row < kPanelRows; ++row) {
                    CoarsenRow(fine.layout_, from, row, to);
                  }
                  from += fine.layout_.group_bytes();
                  to += layout.group_bytes();
                }
              });
  return coarse;
}

std::shared_ptr<const QuantizedMatrix> QuantizedMatrix::Shared(const StoredMatrix& stored,
                                                               int threads, ScaleStorage scales) {
  SharedMatrices& all = AllShared();
  const std::shared_ptr<Buffer>& source = stored.data.buffer();
  if (!AsksForBytes(stored, scales)) scales = ScaleStorage::kStored;
  const SharedKey key{stored.data.raw(), stored.format, stored.rows, stored.columns, scales};
  {
    const std::scoped_lock lock(all.mutex);
    std::erase_if(all.entries, [](const auto& entry) { return entry.second.packed.expired(); });
    const auto found = all.entries.find(key);
    // The address says nothing once the memory there was given back.
    if (found != all.entries.end() && found->second.source.lock() == source && source != nullptr) {
      if (auto packed = found->second.packed.lock()) return packed;
    }
  }
  auto packed = std::make_shared<const QuantizedMatrix>(stored, threads, scales);
  const std::scoped_lock lock(all.mutex);
  all.entries[key] = {source, packed};
  return packed;
}

}  // namespace oort
