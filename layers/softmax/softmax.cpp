// SPDX-License-Identifier: MIT
#include <cmath>

#include "core/dispatch.h"
#include "layers/nhwc_role.h"
#include "layers/per_element_layer.h"
#include "layers/reduction/accumulate.h"
#include "layers/softmax/device_softmax.h"
#include "layers/softmax/softmax_kernels.h"

namespace oort {
namespace {

enum class Form { kSoftmax, kLogSoftmax, kSoftmin };

/// An input as (outer, axis, inner).
struct AxisView {
  int64_t outer, extent, inner;
  AxisView(const Shape& shape, int axis)
      : outer(shape.Product(0, axis)),
        extent(shape.rank() == 0 ? 1 : shape[axis]),
        inner(shape.Product(std::min(axis + 1, shape.rank()), shape.rank())) {}
};

/// One run of elements `step` apart, in f64.
template <typename T>
void SoftmaxRun(const T* x, T* y, int64_t count, int64_t step, bool log, double sign) {
  const auto at = [&](int64_t i) { return sign * ConvertElement<double>(x[i * step]); };
  double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = at(i);
    if (value > max || value != value) max = value;
  }
  for (int64_t i = 0; i < count; ++i) sum += std::exp(at(i) - max);
  const double log_sum = std::log(sum);
  for (int64_t i = 0; i < count; ++i) {
    const double shifted = at(i) - max;
    y[i * step] = ConvertElement<T>(log ? shifted - log_sum : std::exp(shifted) / sum);
  }
}

class Softmax : public PerElementLayer<5> {
 public:
  Softmax(const LayerInit& init, Form form)
      : log_(form == Form::kLogSoftmax),
        sign_(form == Form::kSoftmin ? -1.0f : 1.0f),
        image_(init.type() == "nn.Softmax2d"),
        kernels_(SoftmaxKernelsFor(init.isa())) {
    RequireFloatsOnDevice(init);
    if (!image_ && !init.Constant("dim").IsNone()) dim_ = init.Int("dim");
    implicit_dim_ = !image_ && init.Constant("dim").IsNone();
    if (const DType dtype = WantedDType(init); IsFloat(dtype)) wanted_ = dtype;
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    Axis(x.shape());
    return {Tensor::Meta(ResultType(x.dtype()), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& y = outputs[0].AsTensor();
    if (context.stream() != nullptr) {
      const AxisView view(y.shape(), Axis(y.shape()));
      SoftmaxOnDevice(*context.stream(), args.tensor(0), y,
                      {view.outer, view.extent, view.inner, log_, sign_});
      return;
    }
    const Tensor x = args.tensor(0).To(y.dtype());
    const AxisView view(x.shape(), Axis(x.shape()));
    if (x.elements() == 0) return;
    if (x.dtype() == DType::kF32) {
      return ForwardF32(context, view, x.data<float>(), y.data<float>());
    }
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        const T* in = x.data<T>();
        T* out = y.data<T>();
        context.ParallelFor(
            view.outer * view.inner, 4096 / view.extent + 1, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) {
                const int64_t at = i / view.inner * view.extent * view.inner + i % view.inner;
                SoftmaxRun(in + at, out + at, view.extent, view.inner, log_, sign_);
              }
            });
      }
    });
  }

  std::vector<Reuse> Reuses(const Args& args) const override {
    const DType dtype = args.tensor(0).dtype();
    if (ResultType(dtype) != dtype) return {};  // the input is converted into a copy
    return {{Reuse::kInPlace, 0, 0, 0}};
  }

 private:
  int Axis(const Shape& shape) const {
    if (image_) {
      if (shape.rank() != 3 && shape.rank() != 4) {
        throw Error(ErrorCode::kInvalidArgument,
                    "expected an input of rank 3 or 4, got " + shape.ToString());
      }
      return shape.rank() - 3;
    }
    // torch's old rule for dim=None.
    if (implicit_dim_) return shape.rank() == 0 || shape.rank() == 1 || shape.rank() == 3 ? 0 : 1;
    return NormalizeAxis(dim_, shape.rank());
  }

  DType ResultType(DType input) const {
    if (wanted_ != DType::kNull) return wanted_;
    return IsFloat(input) ? input : DType::kF32;
  }

  void ForwardF32(const Context& context, const AxisView& view, const float* x, float* y) const {
    constexpr int64_t kWork = 4096;  // elements that are worth a thread
    if (view.inner == 1) {
      const auto run = log_ ? kernels_.log_softmax_row : kernels_.softmax_row;
      context.ParallelFor(view.outer, kWork / view.extent + 1, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          run(x + r * view.extent, y + r * view.extent, view.extent, sign_);
        }
      });
      return;
    }
    constexpr int64_t kColumns = 64;
    const auto run = log_ ? kernels_.log_softmax_columns : kernels_.softmax_columns;
    const int64_t chunks = (view.inner + kColumns - 1) / kColumns;
    const int64_t grain = kWork / (view.extent * std::min(view.inner, kColumns)) + 1;
    context.ParallelFor(view.outer * chunks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = i % chunks * kColumns;
        const int64_t at = i / chunks * view.extent * view.inner + column;
        run({x + at, y + at, view.extent, view.inner, std::min(kColumns, view.inner - column)},
            sign_);
      }
    });
  }

  bool log_;
  float sign_;
  bool image_;
  bool implicit_dim_ = false;
  int64_t dim_ = 0;
  DType wanted_ = DType::kNull;
  const SoftmaxKernels& kernels_;
};

LayerCreator CreateSoftmax(Form form) {
  return [form](const LayerInit& init) { return std::make_unique<Softmax>(init, form); };
}

OperatorSchema SoftmaxSchema(std::vector<std::string> types, std::string doc) {
  return OperatorSchema(std::move(types), std::move(doc))
      .Tensor("input", kReals)
      .Int("dim")
      .Nullable()
      .DTypeName("dtype")
      .Nullable();
}

}  // namespace
}  // namespace oort

OORT_LAYERS(softmax) {
  registry.Add(SoftmaxSchema({"nn.Softmax", "F.softmax", "torch.softmax"},
                             "exp(x) / sum of exp(x) along an axis.")
                   .KeepsDType()
                   .HasNhwcForm("nhwc.softmax", FollowsAlongKnownAxis),
               CreateSoftmax(Form::kSoftmax));
  registry.Add(SoftmaxSchema({"nn.LogSoftmax", "F.log_softmax", "torch.log_softmax"},
                             "log(softmax(x)) along an axis.")
                   .HasNhwcForm("nhwc.log_softmax", FollowsAlongKnownAxis),
               CreateSoftmax(Form::kLogSoftmax));
  registry.Add(SoftmaxSchema({"nn.Softmin", "F.softmin"}, "softmax(-x) along an axis."),
               CreateSoftmax(Form::kSoftmin));
  registry.Add(OperatorSchema({"nn.Softmax2d"}, "softmax over the channels of an image.")
                   .Tensor("input", kFloats),
               CreateSoftmax(Form::kSoftmax));
}
