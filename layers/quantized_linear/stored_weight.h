// SPDX-License-Identifier: MIT
// Weights of 32 to 4 bits as attributes of an operator: `weight` in the parameter `format`, and
// `scale` and `minimum` where the format has them. A second and a third weight have "_1" and "_2"
// behind each of these names.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "layers/quantized_linear/cpu/quantized_matrix.h"
#include "oort/layer.h"

namespace oort {

inline constexpr int kMostParts = 3;
inline constexpr DTypeSet kStoredDTypes =
    DType::kF32 | DType::kF16 | DTypeSet(DType::kBF16) | DType::kI8 | DType::kU8;

/// "weight" of part 0, "weight_1" of part 1.
inline std::string PartName(const std::string& name, int part) {
  return part == 0 ? name : name + "_" + std::to_string(part);
}

/// Declares what ReadStored reads of one part; all but the first may be absent.
inline void AddStoredWeight(OperatorSchema& schema, int part) {
  const auto name = [&](const char* text) { return PartName(text, part); };
  if (part == 0) {
    schema.Attribute(name("weight"), kStoredDTypes);
  } else {
    schema.OptionalAttribute(name("weight"), kStoredDTypes);
  }
  schema.OptionalAttribute(name("scale"), DType::kF16 | DType::kF32)
      .OptionalAttribute(name("minimum"), DType::kF16 | DType::kF32)
      .String(name("format"), "f32");
}

inline Tensor StoredTensor(const LayerInit& init, const std::string& name) {
  const Value& value = init.Constant("@" + name);
  return value.IsTensor() ? value.AsTensor() : Tensor();
}

/// A weight of `rows` outputs and `columns` inputs; throws unless its parts agree.
inline StoredMatrix ReadStored(const LayerInit& init, int part, int64_t rows, int64_t columns) {
  const std::string& format = init.String(PartName("format", part));
  const auto known = WeightFormatNamed(format);
  if (!known) {
    throw Error(ErrorCode::kInvalidModel, "format='" + format + "' is no format of weights");
  }
  StoredMatrix stored;
  stored.format = *known;
  stored.rows = rows;
  stored.columns = columns;
  stored.data = StoredTensor(init, PartName("weight", part));
  stored.scale = StoredTensor(init, PartName("scale", part));
  stored.minimum = StoredTensor(init, PartName("minimum", part));
  if (!stored.data.has_data()) {
    throw Error(ErrorCode::kUnsupported,
                "'" + PartName("weight", part) + "' must be a constant of the model");
  }
  Check(stored);
  return stored;
}

/// The `part`th run of `rows` rows of a weight, such as those of one expert or of one head.
inline StoredMatrix StoredRows(const StoredMatrix& all, int64_t part, int64_t rows) {
  const auto cut = [&](const Tensor& tensor) {
    return tensor.defined() ? tensor.Rows(part * rows, (part + 1) * rows) : Tensor();
  };
  return {all.format, rows, all.columns, cut(all.data), cut(all.scale), cut(all.minimum)};
}

/// For Layer::Packs: the arguments that hold the first `parts` weights.
inline std::vector<int> StoredArguments(const LayerInit& init, int parts) {
  std::vector<int> arguments;
  for (int part = 0; part < parts; ++part) {
    for (const char* name : {"weight", "scale", "minimum"}) {
      arguments.push_back(init.Arg("@" + PartName(name, part)));
    }
  }
  return arguments;
}

inline bool IsAmong(const std::vector<int>& arguments, int argument) {
  return std::find(arguments.begin(), arguments.end(), argument) != arguments.end();
}

}  // namespace oort
