// SPDX-License-Identifier: MIT
#include "llm/byte_activations.h"

#include "core/problems.h"
#include "cuda/device.h"
#include "layers/precision_param.h"
#include "layers/quantized_linear/byte_rows.h"
#include "layers/quantized_linear/stored_weight.h"

namespace oort {
namespace {

Tensor AttributeOf(const Operator& op, const std::string& name) {
  const auto found = op.attributes.find(name);
  return found == op.attributes.end() ? Tensor() : found->second;
}

StoredMatrix WeightOf(const Operator& op, int part, int64_t rows) {
  StoredMatrix stored;
  stored.rows = rows;
  stored.columns = op.params.at("in_features").value().AsInt();
  if (const auto format = op.params.find(PartName("format", part)); format != op.params.end()) {
    stored.format =
        WeightFormatNamed(format->second.value().AsString()).value_or(WeightFormat::kF32);
  }
  stored.data = AttributeOf(op, PartName("weight", part));
  stored.scale = AttributeOf(op, PartName("scale", part));
  stored.minimum = AttributeOf(op, PartName("minimum", part));
  return stored;
}

/// How many bytes less the weights of an operator are as bytes; none where they stay.
std::optional<int64_t> BytesSaved(const Operator& op, const std::vector<int64_t>& part_rows,
                                  ByteKind kind) {
  int64_t saved = 0;
  for (size_t part = 0; part < part_rows.size(); ++part) {
    const StoredMatrix stored = WeightOf(op, static_cast<int>(part), part_rows[part]);
    if (!stored.data.defined() || !BecomesBytes(stored)) return std::nullopt;
    for (const Tensor* tensor : {&stored.data, &stored.scale, &stored.minimum}) {
      if (tensor->defined()) saved += static_cast<int64_t>(tensor->bytes());
    }
    // i8 is packed with a scale for each 64 columns, which are all the same.
    const auto scale = static_cast<int64_t>(sizeof(float));
    const int64_t scales = kind == ByteKind::kInt8 ? stored.columns / 64 * scale : scale;
    saved -= stored.rows * (stored.columns + scales);
  }
  return saved;
}

}  // namespace

void CheckActivations(const LanguageModelOptions& options) {
  if (options.activations.empty()) return;
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    throw Error(code, "activations as " + Quote(options.activations) + ": " + why);
  };
  if (!ByteKindNamed(options.activations)) {
    refuse(ErrorCode::kInvalidArgument, "int8 and fp8 are what there is");
  }
  if (options.exact.value_or(false)) {
    refuse(ErrorCode::kInvalidArgument, "the exact mode keeps them in f32; leave out one of both");
  }
  if (options.device.type != DeviceType::kCuda) {
    refuse(ErrorCode::kUnsupported,
           "that is for a GPU; on a CPU the fast mode rounds them to bytes by groups where that is "
           "faster");
  }
  std::string reason;
  const std::vector<cuda::DeviceInfo> devices = cuda::Devices(&reason);
  const auto index = static_cast<size_t>(options.device.index);
  if (index >= devices.size()) return;  // who loads the model says so
  const cuda::DeviceInfo& device = devices[index];
  if (device.compute_major >= 9) return;
  refuse(ErrorCode::kUnsupported, "that needs compute capability 9.0 (Hopper) or later, and " +
                                      device.name + " has " + std::to_string(device.compute_major) +
                                      "." + std::to_string(device.compute_minor));
}

int64_t SetActivations(Graph& graph, const std::string& activations, int64_t vocabulary) {
  if (activations.empty()) return 0;
  const ByteKind kind = ByteKindNamed(activations).value();
  int64_t saved = 0;
  bool any = false;
  for (Operator& op : graph.operators) {
    if (op.type != "oort.QuantizedLinear" || op.params.count(kPrecisionParam) > 0) continue;
    const std::vector<int64_t> part_rows = op.params.at("out_features").value().AsInts();
    if (part_rows == std::vector<int64_t>{vocabulary}) continue;  // the head has few rows
    const std::optional<int64_t> less = BytesSaved(op, part_rows, kind);
    if (!less) continue;
    op.params.insert_or_assign(kActivationsParam, Parameter::FromValue(Value(activations)));
    saved += *less;
    any = true;
  }
  if (any) return saved;
  throw Error(ErrorCode::kUnsupported,
              "activations as " + Quote(activations) +
                  ": weights of 4 bits stay as they are, and so do experts, and this model's "
                  "layers have no others");
}

}  // namespace oort
