// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/device_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "core/checked.h"
#include "core/cpu_limits.h"
#include "core/parallel.h"
#include "cuda/memory.h"
#include "layers/quantized_linear/cuda/gemv.h"

namespace oort::cuda {
namespace {

/// Matrices whose largest weight lies between keep f16's precision, and are far from its ends.
constexpr float kLeastForF16 = 1.0f / 256, kMostForF16 = 32768;

/// The power of two in whose units such a number lies between 2^14 and 2^15, where f16 has room
/// for what rounding leaves of it as well; 1 for zero and for what is not finite.
float UnitFor(float largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  return std::ldexp(1.0f, std::max(std::ilogb(largest) - 14, -126));
}

/// Most bytes that wait in host memory to be copied.
constexpr int64_t kPieceBytes = int64_t{32} << 20;

int64_t StripsForRows(int64_t rows) { return (rows + kStripRows - 1) / kStripRows; }

DeviceFormat FormatOf(const StoredMatrix& matrix) {
  const GroupLayout layout = LayoutOf(matrix);
  if (layout.bits == 0) {
    return matrix.format == WeightFormat::kBf16 ? DeviceFormat::kBf16 : DeviceFormat::kF16;
  }
  if (layout.group % kChunkColumns != 0) return DeviceFormat::kF16;
  return layout.bits == 4 ? DeviceFormat::kInt4 : DeviceFormat::kInt8;
}

DeviceWeights LayoutFor(const StoredMatrix& matrix) {
  DeviceWeights weights;
  weights.format = FormatOf(matrix);
  if (!IsPacked(weights.format)) return weights;
  const GroupLayout layout = LayoutOf(matrix);
  weights.f32_scales = !layout.f16_scales;
  weights.has_minimum = layout.has_minimum;
  weights.zero_based = layout.bits == 4 && !layout.is_signed;
  weights.chunk_scales = layout.group % kStepColumns != 0;
  return weights;
}

/// Scratch for the rows of one strip.
struct StripReader {
  const StoredMatrix* parts;
  DeviceWeights weights;
  int64_t columns;
  std::vector<int8_t> q;
  std::vector<float> scale, minimum, values;
  float largest = 0;  ///< bound of all packed weights

  StripReader(const StoredMatrix* from, const DeviceWeights& to, int64_t count)
      : parts(from), weights(to), columns(count) {}

  void WriteScale(std::byte* to, int place, float value) const {
    if (weights.f32_scales) {
      std::memcpy(to + static_cast<size_t>(place) * 4, &value, 4);
    } else {
      const Half half(value);
      std::memcpy(to + static_cast<size_t>(place) * 2, &half, 2);
    }
  }

  /// Row r of a strip from the row of a part, into the strip's records.
  void Pack(const StripRow& from, int r, std::byte* records) {
    const StoredMatrix& matrix = parts[from.part];
    const GroupLayout layout = LayoutOf(matrix);
    const int64_t groups = columns / layout.group;
    q.resize(static_cast<size_t>(columns));
    scale.resize(static_cast<size_t>(groups));
    minimum.resize(static_cast<size_t>(groups));
    ReadGroups(matrix, from.row, from.row + 1, q.data(), scale.data(), minimum.data());
    const bool four = weights.format == DeviceFormat::kInt4;
    // What is or-ed into a byte is never negative.
    const int bias = !four ? 128 : layout.is_signed ? 8 : 0;
    const int record_bytes = RecordBytes(weights), weight_bytes = WeightBytes(weights.format);
    for (int64_t column = 0; column < columns; ++column) {
      std::byte* record = records + column / kStepColumns * record_bytes;
      const WeightPlace place = PlaceOf(weights.format, r, static_cast<int>(column % kStepColumns));
      const int value = q[static_cast<size_t>(column)] + bias;
      record[place.byte] |= static_cast<std::byte>(value << place.shift);
    }
    const float most = four ? 15.0f : 128.0f;
    for (size_t group = 0; group < scale.size(); ++group) {
      largest = std::max(largest, std::abs(scale[group]) * most + std::abs(minimum[group]));
    }
    const int64_t span = weights.chunk_scales ? kChunkColumns : kStepColumns;
    for (int64_t column = 0; column < columns; column += span) {
      std::byte* scales = records + column / kStepColumns * record_bytes + weight_bytes;
      const int chunk = static_cast<int>(column % kStepColumns / kChunkColumns);
      const int place = ScalePlace(weights, r, chunk);
      const size_t group = static_cast<size_t>(column / layout.group);
      WriteScale(scales, place, scale[group]);
      if (weights.has_minimum) {
        WriteScale(scales + ScaleBytes(weights), place, minimum[group]);
      }
    }
  }

  /// The same as a plain row of 16-bit numbers.
  void Convert(const StripRow& from, std::byte* to) {
    const StoredMatrix& matrix = parts[from.part];
    const bool same =
        (matrix.format == WeightFormat::kBf16) == (weights.format == DeviceFormat::kBf16) &&
        (matrix.format == WeightFormat::kBf16 || matrix.format == WeightFormat::kF16);
    if (same) {
      std::memcpy(to, matrix.data.raw() + from.row * columns * 2, static_cast<size_t>(columns) * 2);
      return;
    }
    values.resize(static_cast<size_t>(columns));
    ReadRows(matrix, from.row, from.row + 1, values.data());
    for (int64_t i = 0; i < columns; ++i) {
      const Half half(values[static_cast<size_t>(i)]);
      std::memcpy(to + i * 2, &half, 2);
    }
  }
};

}  // namespace

namespace {

/// Of a part, or of a gate and what it gates.
int64_t StripsOfPart(const StoredMatrix& part, bool gated) {
  return StripsForRows(gated ? 2 * ((part.rows + 7) / 8 * 8) : part.rows);
}

}  // namespace

int64_t StripsOf(std::span<const StoredMatrix> parts, bool gated) {
  int64_t strips = 0;
  for (size_t part = 0; part < parts.size(); part += gated ? 2 : 1) {
    strips += StripsOfPart(parts[part], gated);
  }
  return strips;
}

std::vector<StripRow> RowsOfStrip(std::span<const StoredMatrix> parts, bool gated, int64_t strip) {
  std::vector<StripRow> rows(kStripRows);
  int part = 0;
  for (int64_t own = 0; strip >= (own = StripsOfPart(parts[static_cast<size_t>(part)], gated));) {
    strip -= own;
    part += gated ? 2 : 1;
  }
  for (int r = 0; r < kStripRows; ++r) {
    StripRow& row = rows[static_cast<size_t>(r)];
    row.part = gated ? part + r / 8 : part;
    row.row = gated ? strip * 8 + r % 8 : strip * kStripRows + r;
    if (row.row >= parts[static_cast<size_t>(row.part)].rows) row.part = -1;
  }
  return rows;
}

Tensor PackBiases(std::span<const StoredMatrix> parts, bool gated, std::span<const Tensor> biases,
                  Device device) {
  const auto has_bias = [&](size_t part) { return biases[part].defined(); };
  bool any = false;
  for (size_t part = 0; part < parts.size(); ++part) any = any || has_bias(part);
  if (!any) return {};
  const int64_t strips = StripsOf(parts, gated);
  Tensor packed = Tensor::Zeros(DType::kF32, Shape{strips * kStripRows});
  for (int64_t strip = 0; strip < strips; ++strip) {
    const auto rows = RowsOfStrip(parts, gated, strip);
    for (int r = 0; r < kStripRows; ++r) {
      const StripRow& row = rows[static_cast<size_t>(r)];
      if (row.part < 0 || !has_bias(static_cast<size_t>(row.part))) continue;
      packed.data<float>()[strip * kStripRows + r] =
          biases[static_cast<size_t>(row.part)].data<float>()[row.row];
    }
  }
  return ToDevice(packed, device);
}

Tensor PackScales(std::span<const StoredMatrix> parts, bool gated, Device device) {
  std::vector<Tensor> scales;
  for (const StoredMatrix& part : parts) scales.push_back(part.scale);
  return PackBiases(parts, gated, scales, device);
}

Activation ActivationBehind(const QuantizedLinearSpec& spec, bool has_addend) {
  const Activation activation = spec.epilogue().activation().kind;
  if (!SupportsActivation(activation)) {
    throw Error(ErrorCode::kUnsupported,
                "no activation '" + std::string(Name(activation)) + "' behind products on the GPU");
  }
  if (!spec.gated() && spec.parts() > 1 && activation != Activation::kNone) {
    throw Error(ErrorCode::kUnsupported, "no activation behind several products on the GPU");
  }
  if (spec.gated() && has_addend) {
    throw Error(ErrorCode::kUnsupported, "no addend to gated products on the GPU");
  }
  return activation;
}

bool DeviceMatrix::Alike(std::span<const StoredMatrix> parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const StoredMatrix& part) {
    const DeviceWeights a = LayoutFor(parts[0]), b = LayoutFor(part);
    return a.format == b.format && a.f32_scales == b.f32_scales && a.has_minimum == b.has_minimum &&
           a.zero_based == b.zero_based && a.chunk_scales == b.chunk_scales &&
           part.columns == parts[0].columns;
  });
}

DeviceMatrix::DeviceMatrix(std::span<const StoredMatrix> parts, bool gated, Device device)
    : columns_(parts[0].columns), device_(device), weights_(LayoutFor(parts[0])) {
  constexpr int64_t kMost = int64_t{1} << 30;  // kernels count rows and columns in 32 bits
  const int64_t strips = StripsOf(parts, gated);
  if (columns_ > kMost || strips > kMost / kStripRows) {
    throw Error(ErrorCode::kUnsupported, "a matrix of weights is too large for the GPU's kernels");
  }
  const int64_t steps = (columns_ + kStepColumns - 1) / kStepColumns;
  weights_.strips = static_cast<int>(strips);
  weights_.steps = static_cast<int>(steps);
  weights_.row_elements = steps * kStepColumns;
  Upload(parts, gated);
}

int64_t DeviceMatrix::StripBytes() const {
  return IsPacked(weights_.format) ? static_cast<int64_t>(weights_.steps) * RecordBytes(weights_)
                                   : kStripRows * weights_.row_elements * 2;
}

float DeviceMatrix::WriteStrips(std::span<const StoredMatrix> parts, bool gated, int64_t first,
                                int64_t count, std::byte* to) const {
  const int64_t strip_bytes = StripBytes();
  std::memset(to, 0, static_cast<size_t>(count * strip_bytes));
  std::mutex mutex;
  float largest = 0;
  ParallelFor(AvailableThreads(), count, 1, [&](int64_t begin, int64_t end) {
    StripReader reader(parts.data(), weights_, columns_);
    for (int64_t strip = begin; strip < end; ++strip) {
      std::byte* records = to + strip * strip_bytes;
      const std::vector<StripRow> rows = RowsOfStrip(parts, gated, first + strip);
      for (int r = 0; r < kStripRows; ++r) {
        const StripRow& row = rows[static_cast<size_t>(r)];
        if (row.part < 0) continue;
        if (IsPacked(weights_.format)) {
          reader.Pack(row, r, records);
        } else {
          reader.Convert(row, records + r * weights_.row_elements * 2);
        }
      }
    }
    const std::scoped_lock lock(mutex);
    largest = std::max(largest, reader.largest);
  });
  return largest;
}

void DeviceMatrix::Upload(std::span<const StoredMatrix> parts, bool gated) {
  const int64_t strip_bytes = StripBytes(), strips = weights_.strips;
  buffer_ =
      AllocateDevice(CheckedMultiply(static_cast<size_t>(strips), static_cast<size_t>(strip_bytes)),
                     device_.index);
  const int64_t piece_strips = std::max<int64_t>(1, kPieceBytes / strip_bytes);
  const std::shared_ptr<Buffer> piece =
      AllocateHost(static_cast<size_t>(std::min(piece_strips, strips) * strip_bytes));
  float largest = 0;
  for (int64_t first = 0; first < strips; first += piece_strips) {
    const int64_t count = std::min(piece_strips, strips - first);
    largest = std::max(largest, WriteStrips(parts, gated, first, count, piece->data()));
    cuda::Upload(buffer_->data() + first * strip_bytes, piece->data(),
                 static_cast<size_t>(count * strip_bytes), device_.index);
  }
  weights_.data = buffer_->data();
  weights_.fits_f16 = largest >= kLeastForF16 && largest <= kMostForF16;
  weights_.unit = UnitFor(largest);
}

std::shared_ptr<const DeviceMatrix> DeviceMatrix::Shared(const StoredMatrix& part, Device device) {
  struct Entry {
    std::weak_ptr<Buffer> source;
    std::weak_ptr<const DeviceMatrix> matrix;
  };
  using Key = std::tuple<const std::byte*, WeightFormat, int64_t, int64_t, int>;
  static std::mutex mutex;
  static std::map<Key, Entry> entries;
  const std::shared_ptr<Buffer>& source = part.data.buffer();
  const Key key{part.data.raw(), part.format, part.rows, part.columns, device.index};
  {
    const std::scoped_lock lock(mutex);
    std::erase_if(entries, [](const auto& entry) { return entry.second.matrix.expired(); });
    const auto found = entries.find(key);
    // The address says nothing once the memory there was given back.
    if (found != entries.end() && found->second.source.lock() == source && source != nullptr) {
      if (auto matrix = found->second.matrix.lock()) return matrix;
    }
  }
  auto matrix = std::make_shared<const DeviceMatrix>(std::span(&part, 1), false, device);
  const std::scoped_lock lock(mutex);
  entries[key] = {source, matrix};
  return matrix;
}

}  // namespace oort::cuda
