// SPDX-License-Identifier: MIT
// Convolutions and dense layers between bytes, which the pass integer-regions makes of convolutions
// between oort.Dequantize and oort.Quantize.
#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "layers/epilogue.h"
#include "layers/layout/axes.h"
#include "layers/nhwc_role.h"
#include "layers/quantize/integer_product.h"

namespace oort {
namespace {

enum class IntegerLayout { kNhwc, kNchw, kRows };

IntegerScales ScalesOf(const LayerInit& init) {
  IntegerScales numbers;
  numbers.input = {CheckedScale(init.Float("input_scale")),
                   static_cast<int32_t>(init.Int("input_zero_point"))};
  numbers.result = ParseDType(init.String("dtype"));
  if (numbers.result != DType::kF32) {
    numbers.output = {CheckedScale(init.Float("scale")),
                      CheckedZeroPoint(init.Int("zero_point"), numbers.result)};
  }
  numbers.addend = {CheckedScale(init.Float("addend_scale")),
                    static_cast<int32_t>(init.Int("addend_zero_point"))};
  numbers.activation = ReadActivation(init);
  return numbers;
}

/// A constant of the operator with this many elements.
Tensor ChannelNumbers(const LayerInit& init, const char* name, int64_t channels) {
  const Value& value = init.Constant(name);
  if (value.IsNone()) return {};
  if (value.AsTensor().shape() != Shape{channels}) {
    throw Error(ErrorCode::kInvalidModel, std::string("expected ") + name + " of shape " +
                                              Shape{channels}.ToString() + ", got " +
                                              value.AsTensor().shape().ToString());
  }
  return value.AsTensor();
}

/// The weight as (out, in, height, width).
Tensor FiltersOf(const LayerInit& init, bool rows) {
  const Value& value = init.Constant("@weight");
  if (!value.IsTensor()) {
    throw Error(ErrorCode::kInvalidModel, "expected a weight that is stored with the operator");
  }
  const Tensor& weight = value.AsTensor();
  if (weight.rank() != (rows ? 2 : 4)) {
    throw Error(ErrorCode::kInvalidModel, "expected a weight of rank " +
                                              std::string(rows ? "2" : "4") + ", got " +
                                              weight.shape().ToString());
  }
  return rows ? weight.Reshaped({weight.dim(0), weight.dim(1), 1, 1}) : weight;
}

/// to[column][row] = from[row][column], of elements of `size` bytes.
void TransposeElements(const std::byte* from, int64_t rows, int64_t columns, int64_t size,
                       std::byte* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      std::memcpy(to + (c * rows + r) * size, from + (r * columns + c) * size,
                  static_cast<size_t>(size));
    }
  }
}

class IntegerConvLayer final : public Layer {
 public:
  IntegerConvLayer(const LayerInit& init, IntegerLayout layout)
      : layout_(layout),
        input_(init.Arg("input")),
        addend_(init.Arg("addend")),
        weight_(init.Arg("@weight")),
        numbers_(ScalesOf(init)),
        params_(ParamsOf(init, layout)),
        weight_shape_(FiltersOf(init, layout == IntegerLayout::kRows).shape()) {
    params_.CheckWeight(weight_shape_);
    const Tensor scales = ChannelNumbers(init, "@scales", weight_shape_[0]);
    for (const float scale : scales.span<float>()) CheckedScale(static_cast<double>(scale));
    const bool neighbours = params_.dilation(1) == 1;
    product_ = std::make_unique<IntegerProduct>(
        init.isa(), FiltersOf(init, layout == IntegerLayout::kRows), scales,
        ChannelNumbers(init, "@bias", weight_shape_[0]), params_.groups(), neighbours, numbers_);
  }

  std::vector<Value> Infer(const Args& args) const override {
    CheckedZeroPoint(numbers_.input.zero_point, args.tensor(input_).dtype());
    CheckPadding(Geometry(args));
    const Shape output = Output(args);
    if (args.Has(addend_)) {
      CheckedZeroPoint(numbers_.addend.zero_point, args.tensor(addend_).dtype());
      if (args.shape(addend_) != output) {
        throw Error(ErrorCode::kInvalidArgument, "expected an addend of shape " +
                                                     output.ToString() + ", got " +
                                                     args.shape(addend_).ToString());
      }
    }
    return {Tensor::Meta(numbers_.result, output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const ConvGeometry g = Geometry(args);
    const Tensor& input = args.tensor(input_);
    IntegerCall call{
        .input = input.raw(), .input_signed = input.dtype() == DType::kI8, .output = output.raw()};
    if (args.Has(addend_)) {
      call.addend = args.tensor(addend_).raw();
      call.addend_signed = args.tensor(addend_).dtype() == DType::kI8;
    }
    if (layout_ != IntegerLayout::kNchw) return product_->Run(context, g, call);
    RunPlanes(context, g, call);
  }

  size_t Workspace(const Args& args, int) const override {
    const ConvGeometry g = Geometry(args);
    const bool is_signed = args.tensor(input_).dtype() == DType::kI8;
    const size_t scratch = product_->Scratch(g, is_signed);
    if (layout_ != IntegerLayout::kNchw) return scratch;
    const Moved moved(g, ResultBytes(), args.Has(addend_));
    return CheckedAdd(moved.all, scratch);
  }

  bool Packs(int argument) const override { return argument == weight_; }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * Geometry(args).multiplications();
    return cost;
  }

 private:
  /// Where images in NHWC lie in the workspace while those of the graph are in NCHW.
  struct Moved {
    Moved(const ConvGeometry& g, int64_t result_bytes, bool has_addend) {
      const int64_t in = CheckedMultiply(g.batch, CheckedMultiply(g.in_plane(), g.in_channels));
      const int64_t out = CheckedMultiply(g.batch, CheckedMultiply(g.out_plane(), g.out_channels));
      addend = AlignUp(static_cast<size_t>(in), 64);
      output = CheckedAdd(addend, has_addend ? AlignUp(static_cast<size_t>(out), 64) : 0);
      all =
          CheckedAdd(output, AlignUp(static_cast<size_t>(CheckedMultiply(out, result_bytes)), 64));
    }
    size_t addend, output, all;
  };

  static ConvParams ParamsOf(const LayerInit& init, IntegerLayout layout) {
    if (layout == IntegerLayout::kRows) return {{1, 1}, {0, 0}, {1, 1}, 1};
    return {init, 2, false};
  }

  /// The padding is written out, so it must not be larger than what windows can see of it.
  static void CheckPadding(const ConvGeometry& g) {
    for (const ConvAxis& axis : g.axes) {
      if (std::max(axis.pad, axis.pad_after) <= axis.reach()) continue;
      throw Error(ErrorCode::kUnsupported, "expected padding of at most " +
                                               std::to_string(axis.reach()) +
                                               ", as far as a window reaches, got " +
                                               std::to_string(std::max(axis.pad, axis.pad_after)) +
                                               "; without the pass integer-regions it may be more");
    }
  }

  int64_t ResultBytes() const { return numbers_.result == DType::kF32 ? 4 : 1; }

  ConvGeometry Geometry(const Args& args) const {
    const Shape& shape = args.shape(input_);
    if (layout_ == IntegerLayout::kNchw) return params_.Geometry(shape, weight_shape_);
    if (layout_ == IntegerLayout::kNhwc) return params_.Geometry(ToNchw(shape), weight_shape_);
    if (shape.rank() == 0 || shape[shape.rank() - 1] != weight_shape_[1]) {
      throw Error(ErrorCode::kInvalidArgument, "expected rows of " +
                                                   std::to_string(weight_shape_[1]) +
                                                   " elements, got " + shape.ToString());
    }
    return params_.Geometry({1, weight_shape_[1], 1, shape.Product(0, shape.rank() - 1)},
                            weight_shape_);
  }

  Shape Output(const Args& args) const {
    const ConvGeometry g = Geometry(args);
    if (layout_ == IntegerLayout::kNchw) return g.output;
    if (layout_ == IntegerLayout::kNhwc) return ToNhwc(g.output);
    Shape output = args.shape(input_);
    output[output.rank() - 1] = weight_shape_[0];
    return output;
  }

  void RunPlanes(const Context& context, const ConvGeometry& g, const IntegerCall& call) const {
    const Moved moved(g, ResultBytes(), call.addend != nullptr);
    std::byte* memory = context.workspace();
    const int64_t in = g.in_plane() * g.in_channels, out = g.out_plane() * g.out_channels;
    IntegerCall inner = call;
    inner.input = memory;
    inner.output = memory + moved.output;
    if (call.addend != nullptr) inner.addend = memory + moved.addend;
    for (int64_t n = 0; n < g.batch; ++n) {
      TransposeElements(static_cast<const std::byte*>(call.input) + n * in, g.in_channels,
                        g.in_plane(), 1, memory + n * in);
      if (call.addend == nullptr) continue;
      TransposeElements(static_cast<const std::byte*>(call.addend) + n * out, g.out_channels,
                        g.out_plane(), 1, memory + moved.addend + n * out);
    }
    const size_t scratch = product_->Scratch(g, call.input_signed);
    product_->Run(Context(context.threads(), {memory + moved.all, scratch}), g, inner);
    const int64_t size = ResultBytes();
    for (int64_t n = 0; n < g.batch; ++n) {
      TransposeElements(memory + moved.output + n * out * size, g.out_plane(), g.out_channels, size,
                        static_cast<std::byte*>(call.output) + n * out * size);
    }
  }

  IntegerLayout layout_;
  int input_, addend_, weight_;
  IntegerScales numbers_;
  ConvParams params_;
  Shape weight_shape_;
  std::unique_ptr<IntegerProduct> product_;
};

LayerCreator CreateIntegerConv(IntegerLayout layout) {
  return
      [layout](const LayerInit& init) { return std::make_unique<IntegerConvLayer>(init, layout); };
}

NhwcRole IntegerConvRole(const Operator&, int) { return NhwcRole::kBegins; }

OperatorSchema IntegerSchema(const char* type, const char* doc, bool rows) {
  OperatorSchema schema({type}, doc);
  schema.Tensor("input", kBytes)
      .OptionalTensor("addend", kBytes)
      .Attribute("weight", DTypeSet(DType::kI8))
      .Attribute("scales", kF32Only)
      .OptionalAttribute("bias", kF32Only);
  if (!rows) {
    schema.Ints("stride", 2, Value(1))
        .AtLeast(1)
        .Ints("padding", -1, Value(0))
        .AtLeast(0)
        .OneOf({"same", "valid"})
        .Ints("dilation", 2, Value(1))
        .AtLeast(1)
        .Int("groups", 1)
        .AtLeast(1);
  }
  schema.Float("input_scale")
      .Int("input_zero_point", 0)
      .AtLeast(-128)
      .AtMost(255)
      .Float("addend_scale", 1)
      .Int("addend_zero_point", 0)
      .AtLeast(-128)
      .AtMost(255)
      .String("dtype")
      .OneOf({"u8", "i8", "f32"})
      .Float("scale", 1)
      .Int("zero_point", 0);
  AddEpilogueParams(schema);
  return schema;
}

}  // namespace
}  // namespace oort

OORT_LAYERS(integer_conv) {
  using namespace oort;
  registry.Add(IntegerSchema("oort.IntegerConv2d",
                             "nn.Conv2d of bytes with sums in 32 bits, plus an addend of bytes, "
                             "through an activation, as bytes or f32. Made by passes",
                             false)
                   .HasNhwcForm("nhwc.IntegerConv2d", IntegerConvRole),
               CreateIntegerConv(IntegerLayout::kNchw));
  registry.Add(IntegerSchema("nhwc.IntegerConv2d",
                             "oort.IntegerConv2d of (…, H, W, C). Made by the NHWC pass", false),
               CreateIntegerConv(IntegerLayout::kNhwc));
  registry.Add(IntegerSchema("oort.IntegerLinear",
                             "nn.Linear of bytes, as oort.IntegerConv2d. Made by passes", true),
               CreateIntegerConv(IntegerLayout::kRows));
}
