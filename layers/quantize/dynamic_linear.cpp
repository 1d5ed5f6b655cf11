// SPDX-License-Identifier: MIT
// Linear operators whose weights are bytes in the file, and whose inputs become bytes row by row
// while the network runs: no samples are needed beforehand.
#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "layers/epilogue.h"
#include "layers/quantize/dynamic_rows.h"
#include "layers/quantize/integer_product.h"

namespace oort {

RowQuantizer QuantizerOfRow(const RowRange& range, bool symmetric) {
  RowQuantizer row;
  if (symmetric) {
    row.scale = std::max(-range.low, range.high) / 127;
    row.least = -127;
    row.most = 127;
  } else {
    row.scale = (range.high / 255) - (range.low / 255);
  }
  // Nothing that a product could show is lost of numbers so small.
  if (row.scale < 0x1p-100f) row.scale = 1;
  if (!symmetric) {
    const float zero = std::nearbyint(-range.low / row.scale);
    row.zero_point = zero >= 0 && zero <= 255 ? static_cast<int32_t>(zero) : 0;
  }
  return row;
}

namespace {

int64_t CountRows(const Shape& shape) { return shape.Product(0, shape.rank() - 1); }

void RequireRows(const Shape& shape) {
  if (shape.rank() > 0) return;
  throw Error(ErrorCode::kInvalidArgument, "expected rows along the last axis, got a scalar");
}

class DynamicQuantizeLayer final : public Layer {
 public:
  explicit DynamicQuantizeLayer(const LayerInit& init)
      : kernels_(DynamicKernelsFor(init.isa())), symmetric_(init.Bool("symmetric")) {}

  std::vector<Value> Infer(const Args& args) const override {
    RequireRows(args.shape(0));
    return {Tensor::Meta(DType::kF32, args.shape(0))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    if (input.elements() == 0) return;
    const int64_t rows = CountRows(input.shape()), width = input.elements() / rows;
    float* y = outputs[0].AsTensor().data<float>();
    context.ParallelFor(rows, 16384 / width + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* x = input.data<float>() + i * width;
        const RowQuantizer row = QuantizerOfRow(kernels_.range(x, width), symmetric_);
        kernels_.round(x, width, 1 / row.scale, row.scale,
                       static_cast<float>(row.least - row.zero_point),
                       static_cast<float>(row.most - row.zero_point), y + i * width);
      }
    });
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, 0, 0, 0}}; }

 private:
  const DynamicKernels& kernels_;
  bool symmetric_;
};

class DynamicLinearLayer final : public Layer {
 public:
  explicit DynamicLinearLayer(const LayerInit& init)
      : kernels_(DynamicKernelsFor(init.isa())),
        bytes_(QuantizeKernelsFor(init.isa())),
        weight_(init.Arg("@weight")),
        symmetric_(init.Bool("symmetric")),
        // Bytes are counted as the units want them, which changes no result.
        signed_(symmetric_ || IntegerKernelsFor(init.isa()).staged_signed),
        activation_(ReadActivation(init)) {
    const Tensor& weight = init.Constant("@weight").AsTensor();
    const Tensor& scales = init.Constant("@scales").AsTensor();
    if (weight.rank() != 2 || weight.elements() == 0 || scales.shape() != Shape{weight.dim(0)}) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected a weight (out, in) and a scale for each output, got " +
                      weight.shape().ToString() + " and " + scales.shape().ToString());
    }
    out_ = weight.dim(0);
    in_ = weight.dim(1);
    for (const float scale : scales.span<float>()) CheckedScale(static_cast<double>(scale));
    IntegerScales numbers;  // of rows whose scale is 1; each row is given its own behind them
    numbers.result = DType::kF32;
    product_ = std::make_unique<IntegerProduct>(init.isa(), weight.Reshaped({out_, in_, 1, 1}),
                                                scales, Tensor(), IntegerForm(), numbers);
    SumWeights(weight, scales);
    bias_.assign(static_cast<size_t>(out_), 0);
    const Value& bias = init.Constant("@bias");
    if (bias.IsNone()) return;
    if (bias.AsTensor().shape() != Shape{out_}) {
      throw Error(ErrorCode::kInvalidModel, "expected a bias for each of " + std::to_string(out_) +
                                                " outputs, got " +
                                                bias.AsTensor().shape().ToString());
    }
    std::copy_n(bias.AsTensor().data<float>(), out_, bias_.begin());
  }

  std::vector<Value> Infer(const Args& args) const override {
    Shape shape = args.shape(0);
    RequireRows(shape);
    if (shape[shape.rank() - 1] != in_) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected rows of " + std::to_string(in_) + " elements, got " + shape.ToString());
    }
    shape[shape.rank() - 1] = out_;
    return {Tensor::Meta(DType::kF32, shape)};
  }

  size_t Workspace(const Args& args, int) const override {
    const ConvGeometry g = Geometry(args);
    return CheckedAdd(PlacesOf(args).all, product_->Scratch(g, signed_));
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const int64_t rows = CountRows(args.shape(0));
    const Places places = PlacesOf(args);
    std::byte* memory = context.workspace();
    auto* quantizers = reinterpret_cast<RowQuantizer*>(memory + places.quantizers);
    const float* x = args.tensor(0).data<float>();
    context.ParallelFor(rows, 16384 / in_ + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        quantizers[i] = QuantizerOfRow(kernels_.range(x + i * in_, in_), symmetric_);
        Shift(quantizers[i]);
        const RowQuantizer& row = quantizers[i];
        bytes_.quantize(x + i * in_, in_, 1 / row.scale, row.zero_point, row.least, row.most,
                        memory + i * in_);
      }
    });
    IntegerCall call{.input = memory, .input_signed = signed_, .output = output.raw()};
    const ConvGeometry g = Geometry(args);
    product_->Run(Context(context.threads(), {memory + places.all, product_->Scratch(g, signed_)}),
                  g, call);
    float* y = output.data<float>();
    context.ParallelFor(rows, 16384 / out_ + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const RowQuantizer& row = quantizers[i];
        kernels_.finish(y + i * out_, out_, row.scale, static_cast<float>(row.zero_point),
                        sums_.data(), bias_.data());
        if (activation_.kind == Activation::kNone) continue;
        kernels_.activate(activation_, y + i * out_, static_cast<int>(out_));
      }
    });
  }

  bool Packs(int argument) const override { return argument == weight_; }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * Geometry(args).multiplications();
    return cost;
  }

 private:
  /// Where things lie in the workspace; the bytes of the rows come first.
  struct Places {
    size_t quantizers, all;
  };
  Places PlacesOf(const Args& args) const {
    const int64_t rows = CountRows(args.shape(0));
    Places places;
    places.quantizers = AlignUp(static_cast<size_t>(CheckedMultiply(rows, in_)), 64);
    const auto size = static_cast<int64_t>(sizeof(RowQuantizer));
    places.all = CheckedAdd(places.quantizers,
                            AlignUp(static_cast<size_t>(CheckedMultiply(rows, size)), 64));
    return places;
  }

  ConvGeometry Geometry(const Args& args) const {
    return ConvParams({1, 1}, {0, 0}, {1, 1}, 1)
        .Geometry({1, in_, 1, CountRows(args.shape(0))}, {out_, in_, 1, 1});
  }

  void Shift(RowQuantizer& row) const {
    if (symmetric_ || !signed_) return;
    row.zero_point -= 128;
    row.least -= 128;
    row.most -= 128;
  }

  /// What one step of the zero point adds to each output.
  void SumWeights(const Tensor& weight, const Tensor& scales) {
    for (int64_t c = 0; c < out_; ++c) {
      int64_t sum = 0;
      for (int64_t k = 0; k < in_; ++k) sum += weight.data<int8_t>()[c * in_ + k];
      sums_.push_back(static_cast<float>(static_cast<double>(sum) *
                                         static_cast<double>(scales.data<float>()[c])));
    }
  }

  const DynamicKernels& kernels_;
  const QuantizeKernels& bytes_;
  int weight_;
  bool symmetric_, signed_;
  ActivationSpec activation_;
  int64_t out_ = 0, in_ = 0;
  std::unique_ptr<IntegerProduct> product_;
  std::vector<float> sums_, bias_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(dynamic_linear) {
  using namespace oort;
  registry.Add(OperatorSchema({"oort.DynamicQuantize"},
                              "What is left of each row along the last axis when it is held in 8 "
                              "bits with a scale of its own: from 0 to 255 with a zero point or, "
                              "where it is symmetric, from -127 to 127")
                   .Tensor("input", kF32Only)
                   .Bool("symmetric", false),
               Create<DynamicQuantizeLayer>());
  OperatorSchema linear({"oort.DynamicLinear"},
                        "nn.Linear of weights of bytes with rows that oort.DynamicQuantize would "
                        "give, summed in 32 bits, through an activation. Made by passes");
  linear.Tensor("input", kF32Only)
      .Attribute("weight", DTypeSet(DType::kI8))
      .Attribute("scales", kF32Only)
      .OptionalAttribute("bias", kF32Only)
      .Bool("symmetric", false);
  AddEpilogueParams(linear);
  registry.Add(std::move(linear), Create<DynamicLinearLayer>());
}
