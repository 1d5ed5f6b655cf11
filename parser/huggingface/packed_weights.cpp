// SPDX-License-Identifier: MIT
#include "parser/huggingface/packed_weights.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/checked.h"
#include "parser/huggingface/scaled_weights.h"
#include "weights/quantize_weights.h"

namespace oort::huggingface {
namespace {

constexpr std::array<std::string_view, 4> kPartNames = {"qweight", "qzeros", "scales", "g_idx"};
constexpr std::array<std::string_view, 9> kScaledParts = {
    "weight_packed",    "weight_scale",        "weight_zero_point", "weight_shape", "weight_g_idx",
    "weight_scale_inv", "weight_global_scale", "weight_blocks",     "weight_scales"};
/// How activations, keys and values were rounded: here they stay as they are.
constexpr std::array<std::string_view, 11> kUnread = {
    "input_scale",      "input_zero_point", "input_global_scale",
    "input_scale_ub",   "output_scale",     "output_zero_point",
    "activation_scale", "q_scale",          "k_scale",
    "v_scale",          "kv_scale"};
/// Where AWQ puts the eight numbers of an int32.
constexpr std::array<int64_t, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

/// A matrix as it was packed: codes of (inputs, outputs), zero points and scales of (groups,
/// outputs).
class PackedLinear final : public CheckpointMatrix {
 public:
  PackedLinear(const std::string& name, const PackedParts& parts, const Quantization& quantization)
      : name_(name), quantization_(quantization), per_word_(32 / quantization.bits) {
    weight_ = RequirePart(name, parts, "qweight");
    const PackedPart& zeros = RequirePart(name, parts, "qzeros");
    const PackedPart& scales = RequirePart(name, parts, "scales");
    CheckWords(weight_.entry);
    CheckWords(zeros.entry);
    const std::vector<int64_t>& shape = weight_.entry.shape;
    const bool down = quantization.kind == Quantization::Kind::kGptq;
    inputs_ = CheckedMultiply(shape[0], down ? per_word_ : 1);
    outputs_ = CheckedMultiply(shape[1], down ? 1 : per_word_);
    const int64_t group = quantization.group == 0 ? inputs_ : quantization.group;
    if (inputs_ < 1 || outputs_ < 1 || inputs_ % group != 0) {
      FailPacked(name, "groups of " + std::to_string(group) + " would cross the ends of rows of " +
                           std::to_string(inputs_) + " weights");
    }
    groups_ = inputs_ / group;
    const bool scales_fit = scales.entry.format && *scales.entry.format <= WeightFormat::kBf16 &&
                            scales.entry.shape == std::vector<int64_t>{groups_, outputs_};
    if (!scales_fit || outputs_ % per_word_ != 0 ||
        zeros.entry.shape != std::vector<int64_t>{groups_, outputs_ / per_word_}) {
      FailPacked(name, "scales " + ShapeOf(scales.entry) + " and zero points " +
                           ShapeOf(zeros.entry) + " do not fit weights " + ShapeOf(weight_.entry) +
                           " in groups of " + std::to_string(group));
    }
    scales_ = ReadFinite(name, scales);
    ReadZeros(ReadWords(zeros));
    ReadOrder(parts);
  }

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }

  StoredMatrix Rows(int64_t begin, int64_t count) const override {
    const std::vector<uint32_t> words = ReadWords(weight_);
    if (!in_order_) return ScatteredRows(words, begin, count);
    const bool four = quantization_.bits == 4;
    const WeightFormat format = !four        ? WeightFormat::kUint8
                                : symmetric_ ? WeightFormat::kInt4
                                             : WeightFormat::kUint4;
    // Minimums are products of two numbers, which f16 would round.
    StoredMatrix to = AllocateStored({format, inputs_ / groups_, DType::kF32}, count, inputs_);
    auto* codes = reinterpret_cast<uint8_t*>(to.data.raw());
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t g = 0; g < groups_; ++g) {
        const auto at = static_cast<size_t>(g * outputs_ + begin + row);
        to.scale.data<float>()[row * groups_ + g] = scales_[at];
        if (to.minimum.defined()) {
          to.minimum.data<float>()[row * groups_ + g] =
              -(scales_[at] * static_cast<float>(zeros_[at]));
        }
      }
      for (int64_t k = 0; k < inputs_; ++k) {
        const auto code = static_cast<uint8_t>(CodeAt(words, k, begin + row));
        if (!four) {
          codes[row * inputs_ + k] = code;
        } else {
          uint8_t& byte = codes[(row * inputs_ + k) / 2];
          byte = k % 2 == 0 ? code : static_cast<uint8_t>(byte | code << 4);
        }
      }
    }
    return to;
  }

 private:
  void CheckWords(const safetensors::Entry& entry) const {
    if (entry.dtype == "I32" && entry.shape.size() == 2) return;
    FailPacked(name_, "codes should be a matrix of I32, but are " + ShapeOf(entry));
  }

  /// Number `place` of the eight, or four, in a word.
  uint32_t Unpack(uint32_t word, int64_t place) const {
    if (quantization_.kind == Quantization::Kind::kAwq) {
      place = std::ranges::find(kAwqOrder, place) - kAwqOrder.begin();
    }
    const auto bits = static_cast<uint32_t>(quantization_.bits);
    return word >> (bits * static_cast<uint32_t>(place)) & ((1U << bits) - 1);
  }
  uint32_t CodeAt(const std::vector<uint32_t>& words, int64_t input, int64_t output) const {
    if (quantization_.kind == Quantization::Kind::kGptq) {
      return Unpack(words[static_cast<size_t>(input / per_word_ * outputs_ + output)],
                    input % per_word_);
    }
    const int64_t across = outputs_ / per_word_;
    return Unpack(words[static_cast<size_t>(input * across + output / per_word_)],
                  output % per_word_);
  }

  void ReadZeros(const std::vector<uint32_t>& words) {
    const int64_t across = outputs_ / per_word_;
    const int more = quantization_.zero_less_one ? 1 : 0;
    symmetric_ = true;
    for (int64_t g = 0; g < groups_; ++g) {
      for (int64_t n = 0; n < outputs_; ++n) {
        const uint32_t word = words[static_cast<size_t>(g * across + n / per_word_)];
        zeros_.push_back(static_cast<int>(Unpack(word, n % per_word_)) + more);
        symmetric_ = symmetric_ && zeros_.back() == 8;
      }
    }
  }

  /// The group of each input: one behind the other unless columns were sorted (act-order).
  void ReadOrder(const PackedParts& parts) {
    const auto at = parts.find("g_idx");
    if (at == parts.end()) return;
    const safetensors::Entry& entry = at->second.entry;
    if (entry.dtype != "I32" || entry.shape != std::vector<int64_t>{inputs_}) {
      FailPacked(name_, "g_idx should have " + std::to_string(inputs_) +
                            " numbers of I32, but is " + ShapeOf(entry));
    }
    for (const uint32_t group : ReadWords(at->second)) {
      if (group >= static_cast<uint64_t>(groups_)) {
        FailPacked(name_, "g_idx names group " + std::to_string(static_cast<int32_t>(group)) +
                              ", but there are " + std::to_string(groups_));
      }
      in_order_ = in_order_ && static_cast<int64_t>(group) ==
                                   static_cast<int64_t>(group_of_.size()) / (inputs_ / groups_);
      group_of_.push_back(static_cast<int64_t>(group));
    }
  }

  /// Inputs of one group do not lie together: no format of groups holds that.
  StoredMatrix ScatteredRows(const std::vector<uint32_t>& words, int64_t begin,
                             int64_t count) const {
    StoredMatrix to = AllocateStored({WeightFormat::kF32, 1, DType::kF32}, count, inputs_);
    float* value = to.data.data<float>();
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t k = 0; k < inputs_; ++k) {
        const auto at =
            static_cast<size_t>(group_of_[static_cast<size_t>(k)] * outputs_ + begin + row);
        const int code = static_cast<int>(CodeAt(words, k, begin + row)) - zeros_[at];
        *value++ = scales_[at] * static_cast<float>(code);
      }
    }
    return to;
  }

  std::string name_;
  Quantization quantization_;
  int64_t per_word_;
  PackedPart weight_;
  int64_t inputs_ = 0, outputs_ = 0, groups_ = 0;
  std::vector<float> scales_;
  std::vector<int> zeros_;
  std::vector<int64_t> group_of_;
  bool symmetric_ = false, in_order_ = true;
};

}  // namespace

namespace {

template <size_t kCount>
bool IsOneOf(std::string_view name, const std::array<std::string_view, kCount>& names) {
  return std::ranges::find(names, name) != names.end();
}

bool IsGptqOrAwq(const Quantization& quantization) {
  return quantization.kind == Quantization::Kind::kGptq ||
         quantization.kind == Quantization::Kind::kAwq;
}

}  // namespace

bool PackedWeights::Take(const std::shared_ptr<const ByteSource>& source,
                         const safetensors::Entry& entry) {
  if (quantization_.kind == Quantization::Kind::kNone) return false;
  const size_t dot = entry.name.rfind('.');
  if (dot == entry.name.npos) return false;
  std::string part = entry.name.substr(dot + 1);
  if (quantization_.kind == Quantization::Kind::kMxfp4) {
    // Experts have no modules of their own: "experts.down_proj_blocks".
    for (const std::string ending : {"_blocks", "_scales"}) {
      if (part == "weight" + ending || !part.ends_with(ending)) continue;
      const std::string name = entry.name.substr(0, entry.name.size() - ending.size());
      matrices_[name]["weight" + ending] = {source, entry};
      return true;
    }
  }
  if (IsGptqOrAwq(quantization_)) {
    if (!IsOneOf(part, kPartNames)) return false;
  } else {
    if (IsOneOf(part, kUnread)) return true;
    const bool is_weight = part == "weight" && (entry.dtype == "I8" || entry.dtype == "F8_E4M3");
    if (!is_weight && !IsOneOf(part, kScaledParts)) return false;
  }
  matrices_[entry.name.substr(0, dot)][part] = {source, entry};
  return true;
}

PlacedTensor PackedWeights::Place(const std::string& name) const {
  if (!IsGptqOrAwq(quantization_)) return PlaceScaled(name, matrices_.at(name), quantization_);
  const auto packed = std::make_shared<PackedLinear>(name, matrices_.at(name), quantization_);
  PlacedTensor placed;
  placed.rows = packed->outputs();
  placed.columns = packed->inputs();
  placed.packed = packed;
  return placed;
}

}  // namespace oort::huggingface
