// SPDX-License-Identifier: MIT
// Matrix products on the GPU by cuBLASLt.
#include <algorithm>
#include <optional>

#include "cuda/blas.h"
#include "cuda/memory.h"
#include "layers/epilogue.h"
#include "layers/expression/engine.h"
#include "layers/linear/device_activation.h"
#include "layers/linear/device_product.h"
#include "layers/linear/linear_shapes.h"
#include "layers/linear/product.h"
#include "layers/linear/thin_product.h"
#include "layers/precision_param.h"

namespace oort {
namespace {

bool HasBlasProduct(DType dtype) { return kFloats.Contains(dtype); }

/// The operator stays on the CPU where cuBLAS is missing, or was traced for what it has not.
void CheckBlas(const LayerInit& init) {
  RequireProductsOnDevice();
  for (const Operand* input : init.inputs()) {
    if (input->dtype == DType::kNull || HasBlasProduct(input->dtype)) continue;
    throw Error(ErrorCode::kUnsupported,
                "multiplies " + std::string(Name(input->dtype)) + ", which cuBLAS does not");
  }
}

void CheckBlasDType(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype() && HasBlasProduct(a.dtype())) return;
  throw Error(ErrorCode::kUnsupported,
              "no product of " + a.ToString() + " and " + b.ToString() + " on the GPU");
}

class CudaMatmul final : public Layer {
 public:
  CudaMatmul(const LayerInit& init, const MatmulForm& form)
      : form_(form),
        a_(init.Arg("input")),
        b_(init.Arg(form.b)),
        device_(init.device().index),
        tf32_(ReadPrecision(init) != Precision::kF32) {
    CheckBlas(init);
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor &a = args.tensor(a_), &b = args.tensor(b_);
    CheckMatmul(form_, a, b);
    CheckBlasDType(a, b);
    return {Tensor::Meta(a.dtype(), MatmulProduct(a.shape(), b.shape()).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& c = outputs[0].AsTensor();
    if (c.elements() == 0) return;
    const Product product = MatmulProduct(args.shape(a_), args.shape(b_));
    if (product.k == 0) return context.stream()->Fill(c.raw(), 0, c.bytes());
    const DType dtype = c.dtype();
    const auto matmul = cuda::Matmul::For(ProductOf(product, dtype), device_);
    const std::byte *a = args.tensor(a_).raw(), *b = args.tensor(b_).raw();
    if (IsRegular(product)) {
      matmul->Run(*context.stream(), a, b, c.raw(), nullptr, context.workspace());
      return;
    }
    const int64_t item = static_cast<int64_t>(ItemSize(dtype));
    for (int64_t i = 0; i < product.count(); ++i) {
      const int64_t a_index = StackIndex(product.batch, product.a_batch, i);
      const int64_t b_index = StackIndex(product.batch, product.b_batch, i);
      matmul->Run(*context.stream(), a + a_index * product.m * product.k * item,
                  b + b_index * product.k * product.n * item,
                  c.raw() + i * product.m * product.n * item, nullptr, context.workspace());
    }
  }

  size_t Workspace(const Args& args, int) const override {
    const Product product = MatmulProduct(args.shape(a_), args.shape(b_));
    if (product.output.elements() == 0 || product.k == 0) return 0;
    return cuda::Matmul::For(ProductOf(product, args.tensor(a_).dtype()), device_)->workspace();
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * MatmulProduct(args.shape(a_), args.shape(b_)).multiplications();
    return cost;
  }

 private:
  /// Whether each operand has one matrix for all products, or one for each in order.
  static bool IsRegular(const Product& product) {
    const auto regular = [&](const Shape& batch) {
      return batch.elements() == 1 || batch.elements() == product.count();
    };
    return regular(product.a_batch) && regular(product.b_batch);
  }

  cuda::Product ProductOf(const Product& from, DType dtype) const {
    cuda::Product to;
    to.m = from.m;
    to.n = from.n;
    to.k = from.k;
    to.input = to.output = dtype;
    to.tf32 = tf32_;
    if (!IsRegular(from)) {
      to.alignment = static_cast<int>(ItemSize(dtype));  // a matrix may begin anywhere
      return to;
    }
    const bool one_b = from.b_batch.elements() == 1;
    if (one_b && from.a_batch.elements() == from.count()) {
      to.m *= from.count();  // a stack times one matrix is one tall product
      return to;
    }
    to.batch = from.count();
    to.stride_a = from.a_batch.elements() == 1 ? 0 : from.m * from.k;
    to.stride_b = one_b ? 0 : from.k * from.n;
    to.stride_c = from.m * from.n;
    return to;
  }

  MatmulForm form_;
  int a_, b_;
  int device_;
  bool tf32_;
};

/// nn.Linear, F.linear, and oort.Linear with its activation and addend.
class CudaLinear final : public LinearLayer {
 public:
  explicit CudaLinear(const LayerInit& init)
      : LinearLayer(init),
        addend_(init.Arg("addend")),
        rank_(init.Arg("rank") >= 0 ? init.Int("rank") : 0),
        device_(init.device().index),
        tf32_(ReadRowsPrecision(init) != Precision::kF32),
        add_(expression::Parse("add(@0,@1)"), init.isa()) {
    CheckBlas(init);
    if (init.Arg("activation") >= 0) {
      spec_ = ReadActivation(init);
      const std::string text = ActivationText(spec_);
      if (!text.empty()) activation_.emplace(expression::Parse(text), init.isa());
    }
    weight_data_ = Uploaded(init, "weight");
    bias_data_ = Uploaded(init, "bias");
    if (bias_data_.defined()) {
      const Tensor bias = init.Constant(init.Arg("@bias") >= 0 ? "@bias" : "bias").AsTensor();
      wide_bias_ = cuda::ToDevice(bias.To(bias_data_.dtype()).To(DType::kF32), init.device());
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& input = args.shape(input_);
    if (rank_ != 0 && input.rank() != rank_) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "expected an input of rank " + std::to_string(rank_) + ", got " + input.ToString());
    }
    std::vector<Value> outputs = LinearLayer::Infer(args);
    CheckBlasDType(args.tensor(input_),
                   weight_data_.defined() ? weight_data_ : args.tensor(weight_.arg()));
    if (args.Has(addend_)) {
      const Shape& output = outputs[0].AsTensor().shape();
      const Tensor& addend = args.tensor(addend_);
      if (addend.dtype() != args.tensor(input_).dtype() ||
          !(BroadcastShapes(addend.shape(), output) == output)) {
        throw Error(ErrorCode::kUnsupported,
                    "cannot add " + addend.ToString() + " to the product on the GPU");
      }
    }
    return outputs;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const bool fused = AddendFits(args, output.shape());
    if (ForwardThin(context, args, fused, output)) return;
    const Tensor bias = Has(args, bias_, bias_data_);
    const cuda::Product product = ProductOf(args);
    if (product.k == 0) {
      context.stream()->Fill(output.raw(), 0, output.bytes());
      if (bias.defined()) Apply(context, add_, output, bias);
    } else {
      cuda::Matmul::For(product, device_)
          ->Run(*context.stream(), args.tensor(input_).raw(),
                Has(args, weight_, weight_data_).raw(), output.raw(),
                bias.defined() ? bias.raw() : nullptr, context.workspace(),
                fused ? args.tensor(addend_).raw() : nullptr);
    }
    if (args.Has(addend_) && (!fused || product.k == 0)) {
      Apply(context, add_, output, args.tensor(addend_));
    }
    if (activation_ && !ActivateOnDevice(*context.stream(), spec_, output)) {
      Apply(context, *activation_, output, output);
    }
  }

  bool Packs(int argument) const override {
    return (argument == weight_.arg() && weight_data_.defined()) ||
           (argument == bias_.arg() && bias_data_.defined());
  }

  size_t Workspace(const Args& args, int) const override {
    const cuda::Product product = ProductOf(args);
    if (product.m == 0 || product.n == 0 || product.k == 0) return 0;
    return cuda::Matmul::For(product, device_)->workspace();
  }

 private:
  static Tensor Uploaded(const LayerInit& init, const std::string& name) {
    const Value& value = init.Constant(init.Arg("@" + name) >= 0 ? "@" + name : name);
    if (!value.IsTensor()) return {};
    // A model of half weights that was traced in f32 is computed in f32.
    const DType traced = init.inputs().empty() ? DType::kNull : init.inputs()[0]->dtype;
    const Tensor host = HasBlasProduct(traced) ? value.AsTensor().To(traced) : value.AsTensor();
    return cuda::ToDevice(host, init.device());
  }

  /// What was uploaded, or what the call has; undefined if neither.
  static Tensor Has(const Args& args, const AnyWeightArg& weight, const Tensor& uploaded) {
    if (uploaded.defined()) return uploaded;
    return weight.Has(args) ? args.tensor(weight.arg()) : Tensor();
  }

  /// What has few rows, and all that follows the product in it; false: the product has not.
  bool ForwardThin(const Context& context, const Args& args, bool fused, Tensor& output) const {
    const GemmSize size = SizeOf(args);
    const DType dtype = output.dtype();
    const bool known = weight_data_.defined() && (bias_data_.defined() || !bias_.Has(args));
    if (!known || !IsThin(size, dtype) || (args.Has(addend_) && !fused)) return false;
    const cuda::ConvMath math = ThinMath(dtype, tf32_);
    const cuda::ConvCall call =
        ThinCall(size, args.tensor(input_), weight_data_,
                 wide_bias_.defined() ? wide_bias_.data<float>() : nullptr,
                 fused ? args.tensor(addend_).raw() : nullptr, spec_, output);
    if (!cuda::Convolves(call, math)) return false;
    const cuda::Stream& stream = *context.stream();
    cuda::Convolve(stream, call, math, cuda::ChooseConvPlan(call, math, stream.device()));
    return true;
  }

  bool AddendFits(const Args& args, const Shape& output) const {
    return args.Has(addend_) && args.shape(addend_) == output;
  }

  static void Apply(const Context& context, const expression::Engine& engine, Tensor& output,
                    const Tensor& other) {
    const Value first(output), second(other);
    const std::array<const Value*, 2> operands = {&first, &second};
    Value result(output);
    engine.Forward(context, operands, result);
  }

  cuda::Product ProductOf(const Args& args) const {
    const GemmSize size = SizeOf(args);
    cuda::Product product;
    product.m = size.m;
    product.n = size.n;
    product.k = size.k;
    product.transpose_b = true;
    product.input = product.output = args.tensor(input_).dtype();
    product.tf32 = tf32_;
    const bool bias = bias_data_.defined() || bias_.Has(args);
    product.epilogue = bias ? cuda::Product::kBias : cuda::Product::kNone;
    Shape output = args.shape(input_);
    if (output.rank() > 0) output[output.rank() - 1] = size.n;
    product.beta = AddendFits(args, output) ? 1.0f : 0.0f;
    return product;
  }

  int addend_;
  int64_t rank_;
  int device_;
  bool tf32_;
  expression::Engine add_;
  ActivationSpec spec_;
  std::optional<expression::Engine> activation_;
  Tensor weight_data_, bias_data_, wide_bias_;  // the last is the bias in f32
};

std::shared_ptr<const cuda::Matmul> BlasProductOf(const DeviceProduct& from, int device,
                                                  int alignment) {
  cuda::Product to;
  to.m = from.m;
  to.n = from.n;
  to.k = from.k;
  to.transpose_a = from.transpose_a;
  to.transpose_b = from.transpose_b;
  to.input = to.output = from.dtype;
  to.alignment = alignment;
  to.batch = from.count;
  if (from.count > 1) {
    to.stride_a = from.m * from.k;
    to.stride_b = from.k * from.n;
    to.stride_c = from.m * from.n;
  }
  return cuda::Matmul::For(to, device);
}

bool IsNothing(const DeviceProduct& product) {
  return product.count == 0 || product.m == 0 || product.n == 0 || product.k == 0;
}

constexpr int kPlanned = cuda::Product{}.alignment;
int ItemAlignment(const DeviceProduct& product) {
  return static_cast<int>(ItemSize(product.dtype));
}

}  // namespace

void RequireProductsOnDevice() {
  std::string reason;
  if (!cuda::HasBlas(&reason)) throw Error(ErrorCode::kUnsupported, reason);
}

/// Where operands will be is not known yet.
size_t ProductBytesOnDevice(const DeviceProduct& product, int device) {
  if (IsNothing(product)) return 0;
  size_t bytes = 0;
  for (int alignment : {kPlanned, ItemAlignment(product)}) {
    bytes = std::max(bytes, BlasProductOf(product, device, alignment)->workspace());
  }
  return bytes;
}

void ProductOnDevice(cuda::Stream& stream, const DeviceProduct& product, const void* a,
                     const void* b, void* c, void* workspace) {
  if (IsNothing(product)) {
    const auto elements = static_cast<size_t>(product.count * product.m * product.n);
    return stream.Fill(c, 0, elements * ItemSize(product.dtype));
  }
  const auto all = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) |
                   reinterpret_cast<uintptr_t>(c);
  const int alignment = all % kPlanned == 0 ? kPlanned : ItemAlignment(product);
  BlasProductOf(product, stream.device(), alignment)->Run(stream, a, b, c, nullptr, workspace);
}

}  // namespace oort

OORT_CUDA_LAYERS(blas_products) {
  using namespace oort;
  for (const MatmulForm& form : kMatmulForms) {
    registry.AddDevice({form.type}, DeviceType::kCuda, [&form](const LayerInit& init) {
      return std::make_unique<CudaMatmul>(init, form);
    });
  }
  registry.AddDevice({"nn.Linear", "F.linear", "oort.Linear"}, DeviceType::kCuda,
                     Create<CudaLinear>());
}
