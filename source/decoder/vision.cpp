// SPDX-License-Identifier: MIT
#include "decoder/vision.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/problems.h"
#include "cpu/activation.h"
#include "decoder/table_writer.h"
#include "oort/error.h"

namespace oort {
namespace {

/// Which of the learned positions along a side each patch of a tile has. The sums are those of
/// transformers, in the precision that it takes: in another one, a patch at the border of two
/// positions has the other.
std::vector<int64_t> PlacesAlong(int64_t patches, int64_t positions) {
  const double step = 1.0 / static_cast<double>(positions);
  const float part = 1.0F / static_cast<float>(patches);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < patches; ++i) {
    const float at = std::min(static_cast<float>(i) * part, static_cast<float>(1.0 - 1e-6));
    int64_t place = 0;
    for (int64_t k = 0; k + 1 < positions; ++k) {
      place += static_cast<float>(step + static_cast<double>(k) * step) <= at ? 1 : 0;
    }
    places.push_back(place);
  }
  return places;
}

/// `x` is (patches, hidden) throughout.
class VisionWriter : TableWriter {
 public:
  VisionWriter(const VisionFiles& files, UsedTensors& used)
      : TableWriter(used), config_(files.config) {}

  Graph Write() {
    const int64_t tile = config_.format.tile;
    int x = Embed(Input(DType::kF32, Shape{1, 3, tile, tile}));
    for (int64_t i = 0; i < config_.layers; ++i) {
      const std::string layer = kModel + "encoder.layers." + std::to_string(i) + ".";
      x = Attention(layer, x);
      x = FeedForward(layer, x);
    }
    return Finish({Connect(Norm(kModel + "post_layernorm", x))});
  }

 private:
  const std::string kModel = "model.vision_model.";

  int Embed(int pixels) {
    const std::string name = kModel + "embeddings.patch_embedding";
    const int64_t patch = config_.patch, hidden = config_.hidden;
    const StoredMatrix matrix = Matrix(name, hidden, 3 * patch * patch);
    Tensor weight(DType::kF32, Shape{hidden, 3, patch, patch});
    ReadRows(matrix, 0, matrix.rows, weight.data<float>());
    const auto pair = [](int64_t value) { return Value(Value::List{Value(value), Value(value)}); };
    Written convolution{"nn.Conv2d", name};
    convolution.Attach("weight", weight)
        .Attach("bias", Vector(name + ".bias", hidden))
        .Set("in_channels", Value(int64_t{3}))
        .Set("out_channels", Value(hidden))
        .Set("kernel_size", pair(patch))
        .Set("stride", pair(patch))
        .Set("padding", pair(0))
        .Set("dilation", pair(1))
        .Set("groups", Value(int64_t{1}))
        .Set("bias", Value(true))
        .Set("padding_mode", Value(std::string("zeros")));
    const int patches = graph_.AddOne(std::move(convolution), {pixels});
    const int rows =
        Permute(name + ".rows", Reshape(name + ".flat", patches, {hidden, -1}), {1, 0});
    return Expression(kModel + "embeddings", "add(@0,@1)", {rows, Positions()});
  }

  /// What is added to each patch.
  int Positions() {
    const std::string name = kModel + "embeddings.position_embedding";
    const int64_t hidden = config_.hidden, side = config_.positions, patches = config_.patches();
    const StoredMatrix table = Matrix(name, side * side, hidden);
    const std::vector<int64_t> places = PlacesAlong(patches, side);
    Tensor positions(DType::kF32, Shape{patches * patches, hidden});
    float* row = positions.data<float>();
    for (const int64_t y : places) {
      for (const int64_t x : places) {
        ReadRows(table, y * side + x, y * side + x + 1, row);
        row += hidden;
      }
    }
    Written constant{"pnnx.Attribute", name};
    constant.Attach("data", positions);
    return graph_.AddOne(std::move(constant), {});
  }

  int Attention(const std::string& layer, int x) {
    const std::string name = layer + "self_attn.";
    const int64_t hidden = config_.hidden, heads = config_.heads, head_dim = hidden / heads;
    const std::vector<std::string> parts = {name + "q_proj", name + "k_proj", name + "v_proj"};
    std::vector<int> sides =
        graph_.Add(LinearOf(parts, hidden, hidden), {Norm(layer + "layer_norm1", x)}, 3);
    for (size_t i = 0; i < sides.size(); ++i) {
      sides[i] = SplitHeads(parts[i], sides[i], heads, head_dim);
    }
    const auto scale = static_cast<float>(std::pow(static_cast<double>(head_dim), -0.5));
    const int attended = Attend(name, sides, -1, scale, hidden);
    return Linear(name + "out_proj", {attended, x}, hidden, hidden);
  }

  int FeedForward(const std::string& layer, int x) {
    Written up = LinearOf({layer + "mlp.fc1"}, config_.intermediate, config_.hidden);
    up.Set("activation", Value(std::string(Name(config_.activation))));
    const int hidden = graph_.AddOne(std::move(up), {Norm(layer + "layer_norm2", x)});
    return Linear(layer + "mlp.fc2", {hidden, x}, config_.hidden, config_.intermediate);
  }

  /// A square of patches becomes one row, which is made a token's.
  int Connect(int x) {
    const int64_t merged = config_.merged, side = config_.patches() / merged;
    const int64_t width = merged * merged * config_.hidden;
    const int split = Reshape("squares.split", x, {side, merged, side, merged, config_.hidden});
    const int turned = Permute("squares.turned", split, {0, 2, 1, 3, 4});
    const int squares = Reshape("squares", turned, {side * side, width});
    return Linear("model.connector.modality_projection.proj", {squares}, config_.output, width);
  }

  int Norm(const std::string& name, int x) {
    return TableWriter::Norm(name, x, config_.hidden, config_.epsilon);
  }

  const VisionConfig& config_;
};

}  // namespace

Graph BuildVision(const VisionFiles& files) {
  UsedTensors used(files.tensors);
  Graph graph = VisionWriter(files, used).Write();
  for (const auto& [name, placed] : files.tensors.tensors()) {
    if (used.IsUsed(name)) continue;
    throw Error(ErrorCode::kUnsupported,
                Quote(name) + " has no place in the part of a model that reads pictures");
  }
  return graph;
}

}  // namespace oort
