// SPDX-License-Identifier: MIT
#include "parser/huggingface/scaled_weights.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/e4m3.h"
#include "weights/quantize_weights.h"

namespace oort::huggingface {
namespace {

using Sizes2 = std::pair<int64_t, int64_t>;  // rows and columns

Sizes2 RequireMatrix(const std::string& name, const safetensors::Entry& entry) {
  if (entry.shape.size() != 2 || entry.shape[0] < 1 || entry.shape[1] < 1) {
    FailPacked(name, "weights should be a matrix, but are " + ShapeOf(entry));
  }
  return {entry.shape[0], entry.shape[1]};
}

int64_t BlocksIn(int64_t size, int64_t block) { return (size - 1) / block + 1; }

/// The scales of a matrix: one for all of it, or for each row, group or block.
class ScaleGrid {
 public:
  ScaleGrid(const std::string& name, const PackedPart& part, const Sizes2& sizes,
            const Quantization& quantization) {
    const std::vector<int64_t>& shape = part.entry.shape;
    const auto [rows, columns] = sizes;
    const bool one = std::ranges::all_of(shape, [](int64_t dim) { return dim == 1; });
    const bool by_rows = (shape.size() == 1 || shape.size() == 2) && shape[0] == rows;
    const int64_t groups = shape.size() == 2 ? shape[1] : 1;
    const bool by_blocks = quantization.block_rows > 0 && shape.size() == 2 &&
                           shape[0] == BlocksIn(rows, quantization.block_rows) &&
                           shape[1] == BlocksIn(columns, quantization.block_columns);
    if (one) {
      block_rows_ = rows;
      block_columns_ = columns;
    } else if (by_blocks) {
      block_rows_ = quantization.block_rows;
      block_columns_ = quantization.block_columns;
    } else if (by_rows && groups > 0 && columns % groups == 0) {
      block_columns_ = columns / groups;
    } else {
      FailPacked(name, "scales " + ShapeOf(part.entry) + " do not fit weights of (" +
                           std::to_string(rows) + "," + std::to_string(columns) + ")");
    }
    across_ = BlocksIn(columns, block_columns_);
    values_ = ReadFinite(name, part);
  }

  int64_t block_columns() const { return block_columns_; }
  int64_t across() const { return across_; }  ///< scales of a row
  /// The number of a scale: of a row and one of its groups.
  size_t Index(int64_t row, int64_t group) const {
    return static_cast<size_t>(row / block_rows_ * across_ + group);
  }
  float At(int64_t row, int64_t group) const { return values_[Index(row, group)]; }

 private:
  int64_t block_rows_ = 1, block_columns_ = 1, across_ = 1;
  std::vector<float> values_;
};

class ScaledMatrix : public CheckpointMatrix {
 public:
  const Sizes2& sizes() const { return sizes_; }
  int64_t columns() const { return sizes_.second; }

 protected:
  Sizes2 sizes_;
};

const PackedPart& RequireScale(const std::string& name, const PackedParts& parts) {
  const PackedPart* inverse = FindPart(parts, "weight_scale_inv");
  return inverse != nullptr ? *inverse : RequirePart(name, parts, "weight_scale");
}

/// FP8 as the products with its scales, which torch rounds to f32, too.
class Float8Matrix final : public ScaledMatrix {
 public:
  Float8Matrix(const std::string& name, const PackedParts& parts, const Quantization& quantization)
      : weight_(RequirePart(name, parts, "weight")) {
    sizes_ = RequireMatrix(name, weight_.entry);
    scales_.emplace(name, RequireScale(name, parts), sizes_, quantization);
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = ValueOfE4m3(static_cast<uint8_t>(i));
  }

  StoredMatrix Rows(int64_t begin, int64_t count) const override {
    StoredMatrix to = AllocateStored({WeightFormat::kF32, 1, DType::kF32}, count, columns());
    const auto bytes = static_cast<uint64_t>(count * columns());
    const auto buffer = weight_.source->MapOrRead(
        weight_.entry.offset + static_cast<uint64_t>(begin * columns()), bytes);
    const std::byte* from = buffer->data();
    float* value = to.data.data<float>();
    for (int64_t row = begin; row < begin + count; ++row) {
      for (int64_t k = 0; k < columns(); ++k) {
        const float scale = scales_->At(row, k / scales_->block_columns());
        *value++ = values_[std::to_integer<size_t>(*from++)] * scale;
      }
    }
    return to;
  }

 private:
  PackedPart weight_;
  std::optional<ScaleGrid> scales_;
  std::array<float, 256> values_{};
};

/// Whole numbers of 8 bits as they are, or of 4 or 8 in words of 32, with zero points or without.
class IntegerMatrix final : public ScaledMatrix {
 public:
  IntegerMatrix(const std::string& name, const PackedParts& parts, const Quantization& quantization)
      : name_(name), words_(FindPart(parts, "weight_packed") != nullptr) {
    weight_ = RequirePart(name, parts, words_ ? "weight_packed" : "weight");
    sizes_ = RequireMatrix(name, weight_.entry);
    if (words_) ReadPackedShape(RequirePart(name, parts, "weight_shape"));
    scales_.emplace(name, RequireScale(name, parts), sizes_, quantization);
    if (columns() % scales_->block_columns() != 0 || (bits_ == 4 && columns() % 2 != 0)) {
      FailPacked(name, "groups of " + std::to_string(scales_->block_columns()) +
                           " would cross the ends of rows of " + std::to_string(columns()) +
                           " weights");
    }
    if (const PackedPart* zeros = FindPart(parts, "weight_zero_point")) ReadZeroPoints(*zeros);
    if (const PackedPart* order = FindPart(parts, "weight_g_idx")) ReadGroupOrder(*order);
  }

  StoredMatrix Rows(int64_t begin, int64_t count) const override {
    const std::vector<std::byte> bytes = ReadBytes(weight_);
    if (!group_of_.empty()) return Scattered(bytes, begin, count);
    const bool shifted = !zeros_.empty();
    const WeightFormat format = bits_ == 4 ? shifted ? WeightFormat::kUint4 : WeightFormat::kInt4
                                : shifted  ? WeightFormat::kUint8
                                           : WeightFormat::kInt8;
    // Minimums are products of two numbers, which f16 would round.
    StoredMatrix to =
        AllocateStored({format, scales_->block_columns(), DType::kF32}, count, columns());
    const int offset = format == WeightFormat::kInt8 ? 0 : Middle();
    auto* codes = reinterpret_cast<uint8_t*>(to.data.raw());
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t g = 0; g < scales_->across(); ++g) {
        const int64_t at = row * scales_->across() + g;
        const float scale = scales_->At(begin + row, g);
        to.scale.data<float>()[at] = scale;
        if (shifted) {
          const int zero = zeros_[scales_->Index(begin + row, g)] + offset;
          to.minimum.data<float>()[at] = -(scale * static_cast<float>(zero));
        }
      }
      for (int64_t k = 0; k < columns(); ++k) {
        const auto code = static_cast<uint8_t>(CodeAt(bytes, begin + row, k) + offset);
        if (bits_ == 8) {
          codes[row * columns() + k] = code;
        } else {
          uint8_t& byte = codes[(row * columns() + k) / 2];
          byte = k % 2 == 0 ? code : static_cast<uint8_t>(byte | code << 4);
        }
      }
    }
    return to;
  }

 private:
  int Middle() const { return 1 << (bits_ - 1); }

  /// The columns, which padding of words hides, and the bits, which follow from both.
  void ReadPackedShape(const PackedPart& part) {
    const bool wide = part.entry.dtype == "I64";
    if ((!wide && part.entry.dtype != "I32") || part.entry.shape != std::vector<int64_t>{2} ||
        weight_.entry.dtype != "I32") {
      FailPacked(name_, "weight_shape should be two whole numbers beside words of I32, but is " +
                            ShapeOf(part.entry));
    }
    const std::vector<uint32_t> words = ReadWords(part);
    const int64_t rows = words[0], columns = words[wide ? 2 : 1];
    const int64_t across = sizes_.second;
    const bool four = across == BlocksIn(columns, 8), eight = across == BlocksIn(columns, 4);
    if (rows != sizes_.first || columns < 1 || (wide && (words[1] | words[3]) != 0) ||
        (!four && !eight)) {
      FailPacked(name_, "codes " + ShapeOf(weight_.entry) + " do not hold weights of (" +
                            std::to_string(rows) + "," + std::to_string(columns) +
                            ") in 4 or 8 bits");
    }
    bits_ = eight ? 8 : 4;
    sizes_.second = columns;
    row_words_ = across;
  }

  static uint8_t ByteAt(const std::vector<std::byte>& bytes, size_t at) {
    return std::to_integer<uint8_t>(bytes[at]);
  }

  /// Words are little-endian and their lowest bits come first: so do their bytes.
  int Unpacked(const std::vector<std::byte>& bytes, size_t first, int64_t place) const {
    if (bits_ == 8) return ByteAt(bytes, first + static_cast<size_t>(place)) - Middle();
    const uint8_t byte = ByteAt(bytes, first + static_cast<size_t>(place / 2));
    return (place % 2 == 0 ? byte & 15 : byte >> 4) - Middle();
  }

  /// With its sign.
  int CodeAt(const std::vector<std::byte>& bytes, int64_t row, int64_t column) const {
    if (!words_) {
      return static_cast<int8_t>(ByteAt(bytes, static_cast<size_t>(row * columns() + column)));
    }
    return Unpacked(bytes, static_cast<size_t>(row * row_words_ * 4), column);
  }

  /// One for each scale: bytes with a sign, or words that hold those of several rows.
  void ReadZeroPoints(const PackedPart& part) {
    const int64_t across = scales_->across(), rows = sizes_.first;
    const int64_t per_word = 32 / bits_;
    const std::vector<std::byte> bytes = ReadBytes(part);
    const size_t scales = scales_->Index(rows - 1, across - 1) + 1;
    if (part.entry.dtype == "I8" && bytes.size() == scales) {
      for (const std::byte byte : bytes) zeros_.push_back(static_cast<int8_t>(byte));
    } else if (part.entry.dtype == "I32" && words_ &&
               scales == static_cast<size_t>(rows * across) &&
               part.entry.shape == std::vector<int64_t>{BlocksIn(rows, per_word), across}) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t g = 0; g < across; ++g) {
          const int64_t word = row / per_word * across + g;
          zeros_.push_back(Unpacked(bytes, static_cast<size_t>(4 * word), row % per_word));
        }
      }
    } else {
      FailPacked(name_, "zero points " + ShapeOf(part.entry) + " do not fit weights " +
                            ShapeOf(weight_.entry));
    }
    if (std::ranges::all_of(zeros_, [](int zero) { return zero == 0; })) zeros_.clear();
  }

  /// The group of each column; those in their usual order, or -1 for none, say nothing.
  void ReadGroupOrder(const PackedPart& part) {
    if (part.entry.dtype != "I32" || part.entry.shape != std::vector<int64_t>{columns()}) {
      FailPacked(name_, "weight_g_idx should have " + std::to_string(columns()) +
                            " numbers of I32, but is " + ShapeOf(part.entry));
    }
    bool in_order = true, unset = true;
    for (const uint32_t group : ReadWords(part)) {
      const auto k = static_cast<int64_t>(group_of_.size());
      const auto g = static_cast<int64_t>(static_cast<int32_t>(group));
      in_order = in_order && g == k / scales_->block_columns();
      unset = unset && g == -1;
      group_of_.push_back(g);
    }
    if (in_order || unset) return group_of_.clear();
    for (const int64_t g : group_of_) {
      if (g >= 0 && g < scales_->across()) continue;
      FailPacked(name_, "weight_g_idx names group " + std::to_string(g) + ", but there are " +
                            std::to_string(scales_->across()));
    }
  }

  /// Columns of one group do not lie together: no format of groups holds that.
  StoredMatrix Scattered(const std::vector<std::byte>& bytes, int64_t begin, int64_t count) const {
    StoredMatrix to = AllocateStored({WeightFormat::kF32, 1, DType::kF32}, count, columns());
    float* value = to.data.data<float>();
    for (int64_t row = begin; row < begin + count; ++row) {
      for (int64_t k = 0; k < columns(); ++k) {
        const int64_t g = group_of_[static_cast<size_t>(k)];
        const int zero = zeros_.empty() ? 0 : zeros_[scales_->Index(row, g)];
        *value++ = scales_->At(row, g) * static_cast<float>(CodeAt(bytes, row, k) - zero);
      }
    }
    return to;
  }

  std::string name_;
  bool words_;
  int bits_ = 8;
  int64_t row_words_ = 0;
  PackedPart weight_;
  std::optional<ScaleGrid> scales_;
  std::vector<int> zeros_;  ///< with their sign; empty where all are 0
  std::vector<int64_t> group_of_;
};

/// e2m1, doubled.
constexpr std::array<int8_t, 16> kDoubledFp4 = {0, 1,  2,  3,  4,  6,  8,  12,
                                                0, -1, -2, -3, -4, -6, -8, -12};

/// Two numbers of e2m1 in each byte, the first in its low half. Groups of 32 have a power of two
/// (MXFP4), groups of 16 a number of e4m3 and the matrix another (NVFP4).
class Float4Matrix final : public ScaledMatrix {
 public:
  Float4Matrix(const std::string& name, const PackedParts& parts) {
    const bool blocks = FindPart(parts, "weight_blocks") != nullptr;
    weight_ = RequirePart(name, parts, blocks ? "weight_blocks" : "weight_packed");
    const PackedPart& scale = RequirePart(name, parts, blocks ? "weight_scales" : "weight_scale");
    std::vector<int64_t> shape = weight_.entry.shape, scale_shape = scale.entry.shape;
    // In a file of that size none of these products overflows.
    if (blocks && shape.size() == 4 && scale_shape.size() == 3 && shape[0] == scale_shape[0]) {
      shape = {shape[0] * shape[1], shape[2], shape[3]};  // of all experts
      scale_shape = {scale_shape[0] * scale_shape[1], scale_shape[2]};
    }
    if (blocks && shape.size() == 3 && shape[2] == kMxGroup / 2) {
      shape = {shape[0], shape[1] * shape[2]};
    }
    if (weight_.entry.dtype != "U8" || shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
      FailPacked(name, "codes of FP4 should be bytes, but are " + ShapeOf(weight_.entry));
    }
    sizes_ = {shape[0], 2 * shape[1]};
    is_nv_ = scale.entry.dtype == "F8_E4M3";
    group_ = is_nv_ ? kNvGroup : kMxGroup;
    const bool powers = scale.entry.dtype == "U8" || scale.entry.dtype == "F8_E8M0";
    if ((!is_nv_ && !powers) || columns() % group_ != 0 ||
        scale_shape != std::vector<int64_t>{sizes_.first, columns() / group_}) {
      FailPacked(
          name, "scales " + ShapeOf(scale.entry) + " do not fit weights " + ShapeOf(weight_.entry));
    }
    if (is_nv_) {
      ReadNvScales(name, scale, parts);
    } else {
      powers_ = ReadBytes(scale);
      if (std::ranges::find(powers_, std::byte{255}) != powers_.end()) {
        FailPacked(name, "a scale is not finite");
      }
    }
  }

  StoredMatrix Rows(int64_t begin, int64_t count) const override {
    const int64_t bytes = columns() / 2;
    const auto buffer =
        weight_.source->MapOrRead(weight_.entry.offset + static_cast<uint64_t>(begin * bytes),
                                  static_cast<uint64_t>(count * bytes));
    return is_nv_ ? NvRows(buffer->data(), begin, count) : MxRows(buffer->data(), begin, count);
  }

 private:
  static constexpr int64_t kMxGroup = 32, kNvGroup = 16;

  void ReadNvScales(const std::string& name, const PackedPart& scale, const PackedParts& parts) {
    const std::vector<float> whole =
        ReadFinite(name, RequirePart(name, parts, "weight_global_scale"));
    if (whole.size() != 1 || whole[0] == 0) FailPacked(name, "weight_global_scale is no number");
    scales_ = ReadFinite(name, scale);
    for (float& value : scales_) value = value / whole[0];
  }

  static uint8_t CodeAt(const std::byte* bytes, int64_t at) {
    const auto byte = std::to_integer<uint8_t>(bytes[at / 2]);
    return at % 2 == 0 ? byte & 15 : byte >> 4;
  }

  /// The blocks of GGUF: the power, then numbers that lie half a block apart in each byte.
  StoredMatrix MxRows(const std::byte* from, int64_t begin, int64_t count) const {
    StoredMatrix to{WeightFormat::kMxfp4, count, columns(), {}, {}, {}};
    to.data = Tensor(DType::kU8, {count, RowBytes(WeightFormat::kMxfp4, columns())});
    auto* out = to.data.data<uint8_t>();
    const int64_t groups = columns() / kMxGroup;
    for (int64_t g = 0; g < count * groups; ++g) {
      *out++ = std::to_integer<uint8_t>(powers_[static_cast<size_t>(begin * groups + g)]);
      for (int64_t i = 0; i < kMxGroup / 2; ++i) {
        const int64_t at = g * kMxGroup + i;
        *out++ = static_cast<uint8_t>(CodeAt(from, at) | CodeAt(from, at + kMxGroup / 2) << 4);
      }
    }
    return to;
  }

  /// The numbers are doubled, so the scales are halved.
  StoredMatrix NvRows(const std::byte* from, int64_t begin, int64_t count) const {
    StoredMatrix to =
        AllocateStored({WeightFormat::kInt8, kNvGroup, DType::kF32}, count, columns());
    auto* code = to.data.data<int8_t>();
    for (int64_t i = 0; i < count * columns(); ++i) *code++ = kDoubledFp4[CodeAt(from, i)];
    const int64_t groups = columns() / kNvGroup;
    const auto first = scales_.begin() + begin * groups;
    std::transform(first, first + count * groups, to.scale.data<float>(),
                   [](float scale) { return scale / 2; });
    return to;
  }

  PackedPart weight_;
  int64_t group_ = 0;
  bool is_nv_ = false;
  std::vector<std::byte> powers_;
  std::vector<float> scales_;
};

std::shared_ptr<const ScaledMatrix> MakeScaled(const std::string& name, const PackedParts& parts,
                                               const Quantization& quantization) {
  const PackedPart* packed = FindPart(parts, "weight_packed");
  if (FindPart(parts, "weight_blocks") != nullptr ||
      quantization.kind == Quantization::Kind::kMxfp4 ||
      (packed != nullptr && packed->entry.dtype == "U8")) {
    return std::make_shared<Float4Matrix>(name, parts);
  }
  if (packed == nullptr && RequirePart(name, parts, "weight").entry.dtype == "F8_E4M3") {
    return std::make_shared<Float8Matrix>(name, parts, quantization);
  }
  return std::make_shared<IntegerMatrix>(name, parts, quantization);
}

}  // namespace

PlacedTensor PlaceScaled(const std::string& name, const PackedParts& parts,
                         const Quantization& quantization) {
  const auto matrix = MakeScaled(name, parts, quantization);
  PlacedTensor placed;
  placed.rows = matrix->sizes().first;
  placed.columns = matrix->sizes().second;
  placed.packed = matrix;
  return placed;
}

}  // namespace oort::huggingface
