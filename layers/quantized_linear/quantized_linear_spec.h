// SPDX-License-Identifier: MIT
// What oort.QuantizedLinear says of itself, for the layers of all devices.
#pragma once

#include <string>
#include <vector>

#include "layers/epilogue.h"
#include "layers/quantized_linear/byte_rows.h"
#include "layers/quantized_linear/stored_weight.h"

namespace oort {

class QuantizedLinearSpec {
 public:
  explicit QuantizedLinearSpec(const LayerInit& init)
      : input_(init.Arg("input")),
        columns_(init.Int("in_features")),
        part_rows_(init.Ints("out_features")),
        gated_(init.Bool("gated")),
        epilogue_(init),
        norm_(init.Weight("norm")),
        norm_epsilon_(init.Float("norm_epsilon")) {
    CheckParts();
    ExpectElements(norm_, columns_, "a norm");
    for (int part = 0; part < parts(); ++part) {
      const int64_t rows = part_rows_[static_cast<size_t>(part)];
      stored_.push_back(ReadStored(init, part, rows, columns_));
      biases_.push_back(init.Weight(PartName("bias", part)));
      ExpectElements(biases_.back(), rows, "a bias");
    }
    packed_ = StoredArguments(init, parts());
  }

  int input() const { return input_; }
  int64_t columns() const { return columns_; }
  bool gated() const { return gated_; }
  int parts() const { return static_cast<int>(part_rows_.size()); }
  /// Outputs: one for each part, or one for both where gated.
  int results() const { return gated_ ? 1 : parts(); }
  int64_t part_rows(int part) const { return part_rows_[static_cast<size_t>(part)]; }
  const FusedEpilogue& epilogue() const { return epilogue_; }
  void AllowRough() { epilogue_.AllowRough(); }
  /// The gain of an RMS norm of the input; undefined for none.
  const Tensor& norm() const { return norm_; }
  double norm_epsilon() const { return norm_epsilon_; }
  /// f32; undefined where a part has none.
  const std::vector<Tensor>& biases() const { return biases_; }
  const std::vector<StoredMatrix>& stored() const { return stored_; }
  /// Has all weights be i8, each row with one scale.
  void RoundToBytes(int threads) {
    for (StoredMatrix& stored : stored_) stored = AsBytes(stored, threads);
  }
  /// What is not needed any more once the weights are packed.
  void LetGo() { stored_.clear(); }
  bool Packs(int argument) const { return IsAmong(packed_, argument); }

  int64_t Rows(const Args& args) const {
    const Shape& shape = args.shape(input_);
    return shape.Product(0, shape.rank() - 1);
  }

  std::vector<Value> Infer(const Args& args) const {
    Shape shape = args.shape(input_);
    if (shape.rank() == 0 || shape[shape.rank() - 1] != columns_) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input whose last axis is " +
                                                   std::to_string(columns_) + ", got " +
                                                   shape.ToString());
    }
    std::vector<Value> outputs;
    for (int i = 0; i < results(); ++i) {
      shape[shape.rank() - 1] = part_rows(i);
      shape.elements();
      outputs.emplace_back(Tensor::Meta(DType::kF32, shape));
    }
    epilogue_.Check(args, outputs[0].AsTensor().shape());
    return outputs;
  }

  /// `weight_bytes`: of all parts as they are read.
  Cost Work(const Args& args, std::span<const Value> outputs, size_t weight_bytes) const {
    Cost cost;
    cost.bytes = static_cast<double>(args.tensor(input_).bytes() + weight_bytes);
    for (const Value& output : outputs) {
      cost.bytes += static_cast<double>(output.AsTensor().bytes());
    }
    double results = 0;
    for (int64_t rows : part_rows_) results += static_cast<double>(rows);
    cost.flops = 2 * static_cast<double>(Rows(args)) * results * static_cast<double>(columns_);
    return cost;
  }

 private:
  static void ExpectElements(const Tensor& tensor, int64_t count, const char* what) {
    if (!tensor.defined() || tensor.shape() == Shape{count}) return;
    throw Error(ErrorCode::kInvalidModel, std::string("expected ") + what + " of " +
                                              std::to_string(count) + " elements, got " +
                                              tensor.ToString());
  }

  void CheckParts() const {
    if (part_rows_.empty() || part_rows_.size() > kMostParts) {
      throw Error(ErrorCode::kInvalidModel, "out_features names one to three products, got " +
                                                std::to_string(part_rows_.size()));
    }
    for (int64_t out : part_rows_) {
      if (out < 1) {
        throw Error(ErrorCode::kInvalidModel,
                    "out_features are at least 1, got " + std::to_string(out));
      }
    }
    if (gated_ && (part_rows_.size() != 2 || part_rows_[0] != part_rows_[1])) {
      throw Error(ErrorCode::kInvalidModel, "gated=True needs two products of one size");
    }
  }

  int input_;
  int64_t columns_;
  std::vector<int64_t> part_rows_;
  bool gated_;
  FusedEpilogue epilogue_;
  Tensor norm_;
  double norm_epsilon_;
  std::vector<Tensor> biases_;
  std::vector<StoredMatrix> stored_;
  std::vector<int> packed_;
};

}  // namespace oort
