// SPDX-License-Identifier: MIT
#include "layers/resize/nhwc/device_nhwc_resize.h"

#include "layers/device_kernel.h"
#include "layers/resize/nhwc/resized.h"

namespace oort {
namespace {

cuda::NhwcResizeMode CudaResizeMode(ResizeMode mode) {
  switch (mode) {
    case ResizeMode::kNearest: return cuda::NhwcResizeMode::kNearest;
    case ResizeMode::kNearestExact: return cuda::NhwcResizeMode::kNearestExact;
    case ResizeMode::kCubic: return cuda::NhwcResizeMode::kCubic;
    default: return cuda::NhwcResizeMode::kLinear;
  }
}

class CudaNhwcResize final : public Layer {
 public:
  explicit CudaNhwcResize(const LayerInit& init) : params_(init, nullptr, false, false) {
    if (!params_.Copies()) RequireFloatsOnDevice(init);
  }

  std::vector<Value> Infer(const Args& args) const override {
    return {ResizedImage(params_, args)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const ResizeGeometry geometry = PixelGeometry(params_, args);
    const NhwcImage image(args.shape(0));
    const bool align = !params_.Copies() && params_.AlignCorners(args);
    const auto axis = [&](const ResizeAxis& from) {
      return cuda::NhwcResizeAxis{from.in, from.out, CoordinateStep<float>(from, align)};
    };
    cuda::NhwcResizeCall call;
    call.in = args.tensor(0).raw();
    call.out = output.raw();
    call.batch = image.batch;
    call.channels = image.channels;
    call.height = axis(geometry.axes[1]);
    call.width = axis(geometry.axes[2]);
    call.mode = CudaResizeMode(params_.mode());
    call.align_corners = align;
    cuda::ResizePixels(*context.stream(), call, output.dtype());
  }

 private:
  ResizeParams params_;
};

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(nhwc_resize) {
  using namespace oort;
  registry.AddDevice({"nhwc.Upsample"}, DeviceType::kCuda, Create<CudaNhwcResize>());
}
