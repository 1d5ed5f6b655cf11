// SPDX-License-Identifier: MIT
#include "layers/pooling/nhwc/device_nhwc_pool.h"

#include "layers/pooling/nhwc/pooled.h"

namespace oort {
namespace {

int CudaPoolInt(int64_t value) {
  constexpr int64_t kMost = int64_t{1} << 29;
  if (value < kMost) return static_cast<int>(value);
  throw Error(ErrorCode::kUnsupported,
              "the pooling is too large for the GPU: " + std::to_string(value));
}

cuda::PoolWalk CudaPoolWalk(const WindowAxis& axis) {
  return {CudaPoolInt(axis.in),     CudaPoolInt(axis.out), CudaPoolInt(axis.kernel),
          CudaPoolInt(axis.stride), CudaPoolInt(axis.pad), CudaPoolInt(axis.dilation)};
}

cuda::NhwcPoolCall CudaPoolCall(const Args& args, Tensor& output) {
  const NhwcImage image(args.shape(0));
  cuda::NhwcPoolCall call;
  call.in = args.tensor(0).raw();
  call.out = output.raw();
  call.batch = image.batch;
  call.channels = CudaPoolInt(image.channels);
  return call;
}

class CudaNhwcPool final : public Layer {
 public:
  CudaNhwcPool(const LayerInit& init, bool max) : window_(init, 2), max_(max) {
    if (max) {
      ThrowIfIndices(init);
    } else {
      divisor_.emplace(init);
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    const DType dtype = args.tensor(0).dtype();
    const bool bytes = dtype == DType::kU8 || dtype == DType::kI8;
    if (!IsFloat(dtype) && !(max_ && bytes)) {
      throw Error(ErrorCode::kUnsupported,
                  "expected an image of floats on a GPU, or the largest "
                  "of bytes, got dtype " +
                      std::string(Name(dtype)));
    }
    return {Pooled(window_, args)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const PoolGeometry geometry = window_.Geometry(ToNchw(args.shape(0)));
    cuda::NhwcPoolCall call = CudaPoolCall(args, output);
    call.height = CudaPoolWalk(geometry.window[1]);
    call.width = CudaPoolWalk(geometry.window[2]);
    call.max = max_;
    if (divisor_) {
      call.include_pad = divisor_->include_pad;
      call.divisor = divisor_->override_with;
    }
    cuda::PoolPixels(*context.stream(), call, output.dtype());
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    return window_.Work(Layer::Work(args, outputs), outputs[0]);
  }

 private:
  WindowParams window_;
  bool max_;
  std::optional<PoolDivisorParams> divisor_;
};

class CudaNhwcAdaptivePool final : public PerElementLayer<1> {
 public:
  CudaNhwcAdaptivePool(const LayerInit& init, bool max) : max_(max) {
    if (max) ThrowIfIndices(init);
  }

  std::vector<Value> Infer(const Args& args) const override { return {Adapted(args)}; }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const AdaptiveGeometry geometry = AdaptedGeometry(args);
    cuda::NhwcPoolCall call = CudaPoolCall(args, output);
    call.height = {CudaPoolInt(geometry.axes[1].in), CudaPoolInt(geometry.axes[1].out)};
    call.width = {CudaPoolInt(geometry.axes[2].in), CudaPoolInt(geometry.axes[2].out)};
    call.adaptive = true;
    call.max = max_;
    cuda::PoolPixels(*context.stream(), call, output.dtype());
  }

 private:
  bool max_;
};

template <typename L>
LayerCreator CreateCudaPool(bool max) {
  return [max](const LayerInit& init) { return std::make_unique<L>(init, max); };
}

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(nhwc_pool) {
  using namespace oort;
  constexpr DeviceType kCuda = DeviceType::kCuda;
  registry.AddDevice({"nhwc.MaxPool2d"}, kCuda, CreateCudaPool<CudaNhwcPool>(true));
  registry.AddDevice({"nhwc.AvgPool2d"}, kCuda, CreateCudaPool<CudaNhwcPool>(false));
  registry.AddDevice({"nhwc.AdaptiveMaxPool2d"}, kCuda, CreateCudaPool<CudaNhwcAdaptivePool>(true));
  registry.AddDevice({"nhwc.AdaptiveAvgPool2d"}, kCuda,
                     CreateCudaPool<CudaNhwcAdaptivePool>(false));
}
