// SPDX-License-Identifier: MIT
// What the operators of rotary position embedding say of themselves, for the layers of all devices.
#pragma once

#include <string>
#include <vector>

#include "layers/rotary/head_turner.h"
#include "layers/weight_arg.h"
#include "oort/layer.h"

namespace oort {

/// Cosines and sines of the angles by which the pairs of a head turn at each token's position.
class RotaryAnglesBase : public Layer {
 public:
  explicit RotaryAnglesBase(const LayerInit& init)
      : positions_(init.Arg("positions")),
        magnitude_(init.Float("magnitude")),
        long_magnitude_(init.Float("long_magnitude")),
        original_context_(init.Int("original_context")),
        frequencies_(Frequencies(init, "frequencies")),
        long_frequencies_(Frequencies(init, "long_frequencies")) {
    if (original_context_ > 0 && long_frequencies_.size() != frequencies_.size()) {
      throw Error(ErrorCode::kInvalidModel,
                  "original_context needs as many long_frequencies as frequencies");
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& positions = args.shape(positions_);
    if (positions.rank() != 1) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a position for each token, got " + positions.ToString());
    }
    const int64_t pairs = static_cast<int64_t>(frequencies_.size());
    return {Tensor::Meta(DType::kF32, Shape{positions[0], 2, pairs})};
  }

 protected:
  int positions_;
  double magnitude_, long_magnitude_;
  int64_t original_context_;
  std::vector<float> frequencies_, long_frequencies_;

 private:
  static std::vector<float> Frequencies(const LayerInit& init, const std::string& name) {
    const Tensor tensor = ReadWeight<float>(init, name);
    if (!tensor.defined()) return {};
    if (tensor.rank() != 1) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected a list of " + name + ", got " + tensor.ToString());
    }
    return {tensor.span<float>().begin(), tensor.span<float>().end()};
  }
};

/// Turns pairs of elements of each head of queries and keys.
class RotaryBase : public Layer {
 public:
  explicit RotaryBase(const LayerInit& init)
      : query_(init.Arg("query")),
        key_(init.Arg("key")),
        angles_(init.Arg("angles")),
        head_dim_(init.Int("head_dim")),
        interleaved_(init.Bool("interleaved")) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& angles = args.shape(angles_);
    HeadTurner::Check(angles, head_dim_);
    std::vector<Value> outputs;
    for (int arg : {query_, key_}) {
      const Shape& shape = args.shape(arg);
      if (shape.rank() != 2 || shape[1] % head_dim_ != 0 || shape[0] != angles[0]) {
        throw Error(ErrorCode::kInvalidArgument, "expected (" + std::to_string(angles[0]) +
                                                     ", heads * " + std::to_string(head_dim_) +
                                                     "), got " + shape.ToString());
      }
      outputs.emplace_back(Tensor::Meta(DType::kF32, shape));
    }
    return outputs;
  }

  std::vector<Reuse> Reuses(const Args&) const override {
    return {{Reuse::kInPlace, query_, 0, 0}, {Reuse::kInPlace, key_, 1, 0}};
  }

 protected:
  int query_, key_, angles_;
  int64_t head_dim_;
  bool interleaved_;
};

}  // namespace oort
