// SPDX-License-Identifier: MIT
#include "core/checked.h"
#include "core/wrapping.h"
#include "layers/composite/decomposition.h"
#include "layers/composite/float_dtypes.h"
#include "layers/epilogue.h"
#include "layers/linear/dense.h"
#include "layers/linear/f16_linear.h"
#include "layers/linear/linear_shapes.h"
#include "layers/precision_param.h"

namespace oort {
namespace {

class Linear : public LinearLayer {
 public:
  explicit Linear(const LayerInit& init)
      : LinearLayer(init),
        f32_weight_(init, "weight"),
        f32_bias_(init, "bias"),
        kernels_(GemmKernelsFor(init.isa(), ReadRowsPrecision(init))) {
    const Tensor& weight = f32_weight_.constant();
    if (!weight.defined()) return;
    const MatrixSource columns(kernels_, {weight.data<float>(), 1, In(weight.shape())});
    packed_ =
        PackedMatrix(kernels_, GemmSide::kB, Out(weight.shape()), In(weight.shape()), columns);
    f32_weight_.Forget();
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Multiply(context, args, nullptr, {}, outputs[0].AsTensor());
  }

  bool Packs(int argument) const override { return f32_weight_.Packed(argument); }

  size_t Workspace(const Args& args, int threads) const override {
    const int64_t floats = GemmWorkspace(kernels_, PackedSize(args), threads);
    return CheckedMultiply(static_cast<size_t>(floats), sizeof(float));
  }

 protected:
  bool weight_packed() const { return !packed_.empty(); }
  Tensor UnpackWeight(const Shape& shape) const {
    Tensor weight(DType::kF32, shape);
    UnpackMatrix(kernels_, GemmSide::kB, Out(shape), In(shape), packed_.panels(),
                 weight.data<float>());
    return weight;
  }
  /// activation(x W^T + b + addend); the addend is null or has the shape of the output.
  void Multiply(const Context& context, const Args& args, const float* addend,
                const ActivationSpec& activation, Tensor& output) const {
    GemmProblem problem;
    problem.size = PackedSize(args);
    const int64_t k = problem.size.k;
    const MatrixSource rows(kernels_, {args.tensor(input_).data<float>(), 1, k});
    const MatrixSource columns(kernels_, {f32_weight_.data(args), 1, k});
    if (problem.size.b_packed) problem.packed = packed_.panels();
    problem.a = &rows;
    problem.b = &columns;
    problem.c = output.data<float>();
    problem.ldc = problem.size.n;
    problem.column_bias = f32_bias_.data(args);
    problem.addend = addend;
    problem.addend_stride = problem.size.n;
    problem.activation = activation;
    Gemm(kernels_, problem, context.threads(), context.workspace<float>());
  }

 private:
  GemmSize PackedSize(const Args& args) const {
    GemmSize size = SizeOf(args);
    size.b_packed = !packed_.empty();
    return size;
  }

  WeightArg f32_weight_, f32_bias_;
  const GemmKernels& kernels_;
  PackedMatrix packed_;
};

/// What oort.Linear is made of.
Decomposition LinearAndEpilogue(const LayerInit& init) {
  return [input = init.Arg("input"), addend = init.Arg("addend"), weight = init.Arg("@weight"),
          bias = init.Arg("@bias"), activation = ActivationText(ReadActivation(init))](
             const Decomposer& call, const Args& args) -> std::vector<Value> {
    std::map<std::string, Tensor> weights = {{"weight", args.tensor(weight)}};
    if (args.Has(bias)) weights.emplace("bias", args.tensor(bias));
    Value value = call.Module("nn.Linear", {{"", args[input]}}, std::move(weights)).front();
    if (args.Has(addend)) value = call.Formula("add(@0,@1)", {value, args[addend]});
    return {activation.empty() ? value : call.Formula(activation, {value})};
  };
}

/// What passes make of a linear operator and what follows it. What the product cannot do on its way
/// out, other dtypes than f32 and an addend of another shape, is done by the parts.
class FusedLinear final : public Linear {
 public:
  explicit FusedLinear(const LayerInit& init)
      : Linear(init),
        addend_(init.Arg("addend")),
        activation_(ReadActivation(init)),
        rank_(init.Int("rank")),
        attributes_(init.op().attributes),
        parts_(init, LinearAndEpilogue(init)) {
    // The parts of products in 64 bits need more of a weight than its packed form has.
    const auto weight = attributes_.find("weight");
    if (weight_packed() && weight != attributes_.end() && weight->second.dtype() != DType::kF64) {
      attributes_.erase(weight);
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    if (rank_ != 0 && args.shape(input_).rank() != rank_) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input of rank " +
                                                   std::to_string(rank_) + ", got " +
                                                   args.shape(input_).ToString());
    }
    return Fits(args) ? Linear::Infer(args) : Parts(args).Infer(args);
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    if (!Fits(args)) return Parts(args).Forward(context, args, outputs);
    const float* addend = args.Has(addend_) ? args.tensor(addend_).data<float>() : nullptr;
    Multiply(context, args, addend, activation_, outputs[0].AsTensor());
  }

  size_t Workspace(const Args& args, int threads) const override {
    return Fits(args) ? Linear::Workspace(args, threads) : 0;
  }

 private:
  bool Fits(const Args& args) const {
    if (args.tensor(input_).dtype() != DType::kF32) return false;
    if (!args.Has(addend_)) return true;
    const Tensor& addend = args.tensor(addend_);
    const Shape &input = args.shape(input_), &weight = weight_.shape(args);
    if (addend.dtype() != DType::kF32 || addend.rank() != input.rank()) return false;
    const int last = input.rank() - 1;
    for (int i = 0; i < last; ++i) {
      if (addend.dim(i) != input[i]) return false;
    }
    return last >= 0 && addend.dim(last) == Out(weight);
  }

  const Layer& Parts(const Args& args) const {
    return parts_.Get([&] {
      std::map<std::string, Tensor> attributes = attributes_;
      // The parts find it by the dtype that calls give it, which is the file's.
      if (attributes.count("weight") == 0 && weight_packed()) {
        const Tensor& given = args.tensor(weight_.arg());
        attributes.emplace("weight", UnpackWeight(given.shape()).To(given.dtype()));
      }
      return attributes;
    });
  }

  int addend_;
  ActivationSpec activation_;
  int64_t rank_;                              // that the input must have; 0 for any
  std::map<std::string, Tensor> attributes_;  // without a weight that unpacks
  Fallback parts_;
};

/// In any other dtype.
class LinearPlain final : public LinearLayer {
 public:
  using LinearLayer::LinearLayer;

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const GemmSize size = SizeOf(args);
    Tensor& output = outputs[0].AsTensor();
    VisitPlain(output.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      MultiplyPlain<T>(context.threads(), size.m, {args.tensor(input_).data<T>(), size.k},
                       {weight_.given<T>(args), size.k}, size.n, size.k, bias_.given<T>(args),
                       {output.data<T>(), size.n});
    });
  }
};

}  // namespace
}  // namespace oort

OORT_LAYERS(linear) {
  using namespace oort;
  const char* doc = "x W^T + b over the last axis";
  constexpr DTypeSet kDTypes = kFloats | kPlainDTypes;
  for (OperatorSchema schema : {OperatorSchema({"nn.Linear"}, doc)
                                    .Tensor("input", kDTypes)
                                    .Attribute("weight", kDTypes)
                                    .OptionalAttribute("bias", kDTypes)
                                    .Ignored("in_features")
                                    .Ignored("out_features")
                                    .Ignored("bias")
                                    .Product()
                                    .F16OnCpu(),
                                OperatorSchema({"F.linear"}, doc)
                                    .Tensor("input", kDTypes)
                                    .Tensor("weight", kDTypes)
                                    .OptionalTensor("bias", kDTypes)}) {
    AddPrecisionParam(schema);
    registry.Add(schema, OrF16Linear(WithFloats(schema, Create<Linear>(), Create<LinearPlain>())));
  }
  OperatorSchema fused = OperatorSchema({"oort.Linear"},
                                        "activation(x W^T + b + addend) over the last axis; "
                                        "made by passes, no file needs it")
                             .Tensor("input", kDTypes)
                             .OptionalTensor("addend", kAllDTypes)
                             .Attribute("weight", kFloats)
                             .OptionalAttribute("bias", kFloats)
                             .Int("rank", 0)
                             .Product()
                             .F16OnCpu();
  AddEpilogueParams(fused);
  AddPrecisionParam(fused);
  registry.Add(fused, OrF16Linear(Create<FusedLinear>()));
}
