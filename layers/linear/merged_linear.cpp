// SPDX-License-Identifier: MIT
// Several products of one operand in one: their weights are packed behind each other, and each
// result is written where it belongs.
#include "core/checked.h"
#include "core/scratch_vector.h"
#include "layers/composite/decomposition.h"
#include "layers/precision_param.h"
#include "layers/weight_arg.h"

namespace oort {
namespace {

/// Rows of a matrix, of which each product's begin a panel.
class MergedRows final : public PanelSource {
 public:
  MergedRows(const GemmKernels& kernels, const float* rows, int64_t depth,
             std::span<const GemmColumns> parts)
      : kernels_(kernels), rows_(rows), depth_(depth), parts_(parts) {}

  void Pack(int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
            float* panel) const override {
    const Range range = Find(i0, i1);
    MatrixSource(kernels_, {range.rows, 1, depth_}).Pack(k0, k1, 0, range.count, width, panel);
  }
  void PackFor(const GemmKernels& kernels, int64_t k0, int64_t k1, int64_t i0, int64_t i1,
               const PanelPart& part) const override {
    const Range range = Find(i0, i1);
    MatrixSource(kernels_, {range.rows, 1, depth_}).PackFor(kernels, k0, k1, 0, range.count, part);
  }

 private:
  struct Range {
    const float* rows;
    int64_t count;
  };
  Range Find(int64_t begin, int64_t end) const {
    const float* rows = rows_;
    size_t i = 0;
    for (; i + 1 < parts_.size() && parts_[i + 1].begin <= begin; ++i) {
      rows += parts_[i].count * depth_;
    }
    const GemmColumns& part = parts_[i];
    return {rows + (begin - part.begin) * depth_, std::min(end, part.begin + part.count) - begin};
  }

  const GemmKernels& kernels_;
  const float* rows_;
  int64_t depth_;
  std::span<const GemmColumns> parts_;
};

/// One product after another.
Decomposition ProductsApart(const LayerInit& init) {
  return [input = init.Arg("input"), weight = init.Arg("@weight"), bias = init.Arg("@bias"),
          counts = init.Ints("out_features")](const Decomposer& call, const Args& args) {
    std::vector<Value> results;
    int64_t begin = 0;
    for (const int64_t count : counts) {
      const int64_t end = begin + count;
      std::map<std::string, Tensor> weights = {{"weight", args.tensor(weight).Rows(begin, end)}};
      if (args.Has(bias)) weights.emplace("bias", args.tensor(bias).Rows(begin, end));
      results.push_back(call.Module("nn.Linear", {{"", args[input]}}, std::move(weights)).front());
      begin = end;
    }
    return results;
  };
}

class MergedLinear final : public Layer {
 public:
  explicit MergedLinear(const LayerInit& init)
      : input_(init.Arg("input")),
        weight_(init, "weight"),
        bias_(init, "bias"),
        kernels_(GemmKernelsFor(init.isa(), ReadRowsPrecision(init))),
        apart_(init, ProductsApart(init)) {
    const Tensor& weight = weight_.constant();
    const Tensor& bias = bias_.constant();
    if (!weight.defined() || weight.rank() != 2) {
      throw Error(ErrorCode::kInvalidModel, "expected a constant weight of rank 2");
    }
    depth_ = weight.dim(1);
    int64_t rows = 0;
    for (int64_t count : init.Ints("out_features")) {
      if (count < 1 || count > weight.dim(0)) {
        throw Error(ErrorCode::kInvalidModel,
                    "expected out_features from 1 to the rows of the weight");
      }
      parts_.push_back({columns_, count});
      rows = CheckedAdd(rows, count);
      columns_ = CheckedAdd(columns_, CheckedMultiply<int64_t>(CeilDivide(count, kernels_.columns),
                                                               kernels_.columns));
    }
    if (parts_.size() != init.outputs().size() || rows != weight.dim(0) ||
        (bias.defined() && !(bias.shape() == Shape{rows}))) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected as many outputs as out_features, and weights of their sum");
    }
    const MergedRows source(kernels_, weight.data<float>(), depth_, parts_);
    packed_ = PackedMatrix(kernels_, GemmSide::kB, columns_, depth_, source);
    if (bias.defined()) SpreadBias(bias);
    weight_.Forget();
    bias_.Forget();
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& input = args.shape(input_);
    if (input.rank() == 0 || input[input.rank() - 1] != depth_) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input whose last axis is " +
                                                   std::to_string(depth_) + ", got " +
                                                   input.ToString());
    }
    std::vector<Value> outputs;
    for (const GemmColumns& part : parts_) {
      Shape shape = input;
      shape[shape.rank() - 1] = part.count;
      shape.elements();
      outputs.emplace_back(Tensor::Meta(args.tensor(input_).dtype(), shape));
    }
    return outputs;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    if (args.tensor(input_).dtype() != DType::kF32) {
      return apart_.Get([&] { return Weights(); }).Forward(context, args, outputs);
    }
    ScratchVector<GemmColumns> parts(parts_.begin(), parts_.end());
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].c = outputs[i].AsTensor().data<float>();
      parts[i].ldc = parts[i].count;
    }
    const MatrixSource rows(kernels_, {args.tensor(input_).data<float>(), 1, depth_});
    GemmProblem problem;
    problem.size = SizeOf(args);
    problem.packed = packed_.panels();
    problem.a = &rows;
    problem.parts = parts;
    problem.column_bias = spread_bias_.empty() ? nullptr : spread_bias_.data();
    Gemm(kernels_, problem, context.threads(), context.workspace<float>());
  }

  bool Packs(int argument) const override {
    return weight_.Packed(argument) || bias_.Packed(argument);
  }

  size_t Workspace(const Args& args, int threads) const override {
    if (args.tensor(input_).dtype() != DType::kF32) return 0;
    const int64_t floats = GemmWorkspace(kernels_, SizeOf(args), threads);
    return CheckedMultiply(static_cast<size_t>(floats), sizeof(float));
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    for (const GemmColumns& part : parts_) {
      cost.flops += 2.0 * static_cast<double>(SizeOf(args).m) * static_cast<double>(part.count) *
                    static_cast<double>(depth_);
    }
    return cost;
  }

 private:
  GemmSize SizeOf(const Args& args) const {
    const Shape& input = args.shape(input_);
    return {input.Product(0, input.rank() - 1), columns_, depth_, false, true};
  }

  void SpreadBias(const Tensor& bias) {
    spread_bias_.assign(static_cast<size_t>(columns_), 0.0f);
    const float* from = bias.data<float>();
    for (const GemmColumns& part : parts_) {
      std::copy_n(from, part.count, spread_bias_.begin() + part.begin);
      from += part.count;
    }
  }

  /// The weights of all products, as the file has them.
  std::map<std::string, Tensor> Weights() const {
    Tensor spread(DType::kF32, {columns_, depth_});
    UnpackMatrix(kernels_, GemmSide::kB, columns_, depth_, packed_.panels(), spread.data<float>());
    int64_t rows = 0;
    for (const GemmColumns& part : parts_) rows += part.count;
    Tensor weight(DType::kF32, {rows, depth_}), bias(DType::kF32, {rows});
    int64_t row = 0;
    for (const GemmColumns& part : parts_) {
      std::copy_n(spread.data<float>() + part.begin * depth_, part.count * depth_,
                  weight.data<float>() + row * depth_);
      if (!spread_bias_.empty()) {
        std::copy_n(spread_bias_.begin() + part.begin, part.count, bias.data<float>() + row);
      }
      row += part.count;
    }
    std::map<std::string, Tensor> weights = {{"weight", weight}};
    if (!spread_bias_.empty()) weights.emplace("bias", bias);
    return weights;
  }

  int input_;
  WeightArg weight_, bias_;
  const GemmKernels& kernels_;
  int64_t depth_ = 0, columns_ = 0;  // columns with those between parts
  std::vector<GemmColumns> parts_;   // without a place
  PackedMatrix packed_;
  std::vector<float> spread_bias_;  // of all columns
  Fallback apart_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(merged_linear) {
  using namespace oort;
  OperatorSchema schema = OperatorSchema({"oort.MergedLinear"},
                                         "x W^T + b over the last axis for several W, each with an "
                                         "output; made by passes, no file needs it")
                              .Tensor("input", kFloats)
                              .Attribute("weight", kF32Only)
                              .OptionalAttribute("bias", kF32Only)
                              .Ints("out_features")
                              .Outputs(1, -1);
  AddPrecisionParam(schema);
  registry.Add(schema, Create<MergedLinear>());
}
