// SPDX-License-Identifier: MIT
// Convolutions and dense layers between bytes, which the pass integer-regions makes of convolutions
// between oort.Dequantize and oort.Quantize.
#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "layers/convolution/conv_algorithm.h"
#include "layers/epilogue.h"
#include "layers/nhwc_role.h"
#include "layers/quantize/integer_product.h"
#include "layers/quantize/integer_shape.h"

namespace oort {
namespace {

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
  IntegerConvLayer(const LayerInit& init, IntegerLayout layout) : shape_(init, layout) {
    const IntegerFilters filters = shape_.Filters(init);
    product_ = std::make_unique<IntegerProduct>(init.isa(), filters.weight, filters.scales,
                                                filters.bias, FormOf(init), shape_.numbers());
  }

  std::vector<Value> Infer(const Args& args) const override { return shape_.Infer(args); }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const ConvGeometry g = shape_.Geometry(args);
    const Tensor& input = args.tensor(shape_.input());
    IntegerCall call{
        .input = input.raw(), .input_signed = input.dtype() == DType::kI8, .output = output.raw()};
    if (args.Has(shape_.addend())) {
      call.addend = args.tensor(shape_.addend()).raw();
      call.addend_signed = args.tensor(shape_.addend()).dtype() == DType::kI8;
    }
    if (!IsPlanar()) return product_->Run(context, g, call);
    RunPlanes(context, g, call);
  }

  size_t Workspace(const Args& args, int) const override {
    const ConvGeometry g = shape_.Geometry(args);
    const bool is_signed = args.tensor(shape_.input()).dtype() == DType::kI8;
    const size_t scratch = product_->Scratch(g, is_signed);
    if (!IsPlanar()) return scratch;
    const Moved moved(g, shape_.result_bytes(), args.Has(shape_.addend()));
    return CheckedAdd(moved.all, scratch);
  }

  bool Packs(int argument) const override { return argument == shape_.weight(); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * shape_.Geometry(args).multiplications();
    if (product_->winograd()) cost.algorithm = kConvWinogradF2;
    return cost;
  }

 private:
  IntegerForm FormOf(const LayerInit& init) const {
    const ConvParams& params = shape_.params();
    IntegerForm form{.groups = params.groups(), .neighbours = params.dilation(1) == 1};
    if (shape_.layout() == IntegerLayout::kRows) return form;
    const std::string wanted = ReadConvAlgorithm(init);
    form.winograd = (wanted.empty() || wanted == kConvWinogradF2) && form.neighbours &&
                    params.dilation(0) == 1 && params.stride(0) == 1 && params.stride(1) == 1;
    return form;
  }

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

  bool IsPlanar() const { return shape_.layout() == IntegerLayout::kNchw; }

  void RunPlanes(const Context& context, const ConvGeometry& g, const IntegerCall& call) const {
    const Moved moved(g, shape_.result_bytes(), call.addend != nullptr);
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
    const int64_t size = shape_.result_bytes();
    for (int64_t n = 0; n < g.batch; ++n) {
      TransposeElements(memory + moved.output + n * out * size, g.out_plane(), g.out_channels, size,
                        static_cast<std::byte*>(call.output) + n * out * size);
    }
  }

  IntegerConvShape shape_;
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
    AddConvAlgorithmParam(schema);
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
