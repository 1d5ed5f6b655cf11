// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "layers/composite/float_dtypes.h"
#include "layers/pooling/nhwc/nhwc_pool_kernels.h"
#include "layers/pooling/nhwc/pooled.h"

namespace oort {
namespace {

/// Pools over windows of one size. All outputs of a row whose windows do not reach into the padding
/// are one call of the kernel.
class NhwcPool : public Layer {
 public:
  explicit NhwcPool(const LayerInit& init) : window_(init, 2), kernels_(init.isa()) {}

  LayerTraits Traits() const override { return {.native_f16 = kernels_.takes_f16()}; }

  std::vector<Value> Infer(const Args& args) const override { return {Pooled(window_, args)}; }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const DType dtype = args.tensor(0).dtype();
    if (dtype == DType::kF16) {
      ForwardAs<Half>(context, args.tensor(0), outputs[0].AsTensor());
    } else if (dtype == DType::kU8) {
      ForwardAs<uint8_t>(context, args.tensor(0), outputs[0].AsTensor());
    } else if (dtype == DType::kI8) {
      ForwardAs<int8_t>(context, args.tensor(0), outputs[0].AsTensor());
    } else {
      ForwardAs<float>(context, args.tensor(0), outputs[0].AsTensor());
    }
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    return window_.Work(Layer::Work(args, outputs), outputs[0]);
  }

 protected:
  /// Pools `windows`, the first of which is output (y, x).
  virtual void Fold(const PlaneWindow& window, const PixelWindowsOf<float>& windows, int64_t y,
                    int64_t x) const = 0;
  virtual void Fold(const PlaneWindow& window, const PixelWindowsOf<Half>& windows, int64_t y,
                    int64_t x) const = 0;
  /// Only for operators whose schema takes bytes.
  virtual void Fold(const PlaneWindow&, const PixelWindowsOf<uint8_t>&, int64_t, int64_t) const {}
  virtual void Fold(const PlaneWindow&, const PixelWindowsOf<int8_t>&, int64_t, int64_t) const {}

  WindowParams window_;
  const NhwcPoolTables kernels_;

 private:
  template <typename T>
  void ForwardAs(const Context& context, const Tensor& input, Tensor& output) const {
    if (output.elements() == 0) return;
    const PoolGeometry geometry = window_.Geometry(ToNchw(input.shape()));
    const NhwcImage image(input.shape());
    const WindowAxis &height = geometry.window[1], &width = geometry.window[2];
    const int64_t row_work = width.out * image.channels * (height.kernel < 16 ? 9 : 64);
    context.ParallelFor(
        image.batch * height.out, 65536 / row_work + 1, [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            const int64_t plane = r / height.out * image.pixels() * image.channels;
            PoolOneRow(geometry.window, image, input.data<T>() + plane, r % height.out,
                       output.data<T>() + r * width.out * image.channels);
          }
        });
  }

  template <typename T>
  void PoolOneRow(const PlaneWindow& window, const NhwcImage& image, const T* in, int64_t y,
                  T* out) const {
    const WindowAxis &height = window[1], &width = window[2];
    const WindowAxis::Taps rows = height.At(y);
    // Outputs from `left` to `right` have all their taps.
    const int64_t last_start = width.in + width.pad - 1 - width.dilation * (width.kernel - 1);
    const int64_t left = std::min(width.out, (width.pad + width.stride - 1) / width.stride);
    const int64_t right =
        last_start < 0 ? left : std::clamp(last_start / width.stride + 1, left, width.out);
    for (int64_t x = 0; x < width.out;) {
      const WindowAxis::Taps columns = width.At(x);
      const bool empty = rows.count == 0 || columns.count == 0;
      PixelWindowsOf<T> windows;
      windows.first = empty ? in : in + (rows.begin * width.in + columns.begin) * image.channels;
      windows.height = empty ? 0 : rows.count;
      windows.row_step = height.dilation * width.in * image.channels;
      windows.width = columns.count;
      windows.column_step = width.dilation * image.channels;
      windows.count = x == left && left < right ? right - left : 1;
      windows.step = width.stride * image.channels;
      windows.channels = image.channels;
      windows.out = out + x * image.channels;
      windows.out_step = image.channels;
      Fold(window, windows, y, x);
      x += windows.count;
    }
  }
};

/// The largest byte of each channel; the least of its dtype where a window holds nothing.
template <typename T>
void MaxOfBytes(const PixelWindowsOf<T>& call) {
  const PixelWindowsOf<T> windows = call;  // which the bytes that are stored cannot be a part of
  for (int64_t i = 0; i < windows.count; ++i) {
    T* __restrict out = windows.out + i * windows.out_step;
    std::fill_n(out, windows.channels, std::numeric_limits<T>::lowest());
    const T* first = windows.first + i * windows.step;
    for (int64_t y = 0; y < windows.height; ++y) {
      for (int64_t x = 0; x < windows.width; ++x) {
        const T* __restrict in = first + y * windows.row_step + x * windows.column_step;
        for (int64_t c = 0; c < windows.channels; ++c) out[c] = out[c] > in[c] ? out[c] : in[c];
      }
    }
  }
}

class NhwcMaxPool final : public NhwcPool {
 public:
  explicit NhwcMaxPool(const LayerInit& init) : NhwcPool(init) { ThrowIfIndices(init); }

 protected:
  void Fold(const PlaneWindow&, const PixelWindowsOf<float>& windows, int64_t,
            int64_t) const override {
    kernels_.For<float>().max(windows);
  }
  void Fold(const PlaneWindow&, const PixelWindowsOf<Half>& windows, int64_t,
            int64_t) const override {
    kernels_.For<Half>().max(windows);
  }
  void Fold(const PlaneWindow&, const PixelWindowsOf<uint8_t>& windows, int64_t,
            int64_t) const override {
    MaxOfBytes(windows);
  }
  void Fold(const PlaneWindow&, const PixelWindowsOf<int8_t>& windows, int64_t,
            int64_t) const override {
    MaxOfBytes(windows);
  }
};

class NhwcAvgPool final : public NhwcPool {
 public:
  explicit NhwcAvgPool(const LayerInit& init) : NhwcPool(init), divisor_(init) {
    window_.KernelElements();  // the divisor must be representable
  }

 protected:
  using NhwcPool::Fold;  // bytes have none
  void Fold(const PlaneWindow& window, const PixelWindowsOf<float>& windows, int64_t y,
            int64_t x) const override {
    kernels_.For<float>().mean(windows, Divisor(window, y, x));
  }
  void Fold(const PlaneWindow& window, const PixelWindowsOf<Half>& windows, int64_t y,
            int64_t x) const override {
    kernels_.For<Half>().mean(windows, Divisor(window, y, x));
  }

 private:
  float Divisor(const PlaneWindow& window, int64_t y, int64_t x) const {
    const PoolDivisor divisor(window, divisor_);
    return static_cast<float>(divisor.Along(1, y) * divisor.Along(2, x));
  }

  PoolDivisorParams divisor_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(nhwc_pool) {
  using namespace oort;
  static constexpr DTypeSet kDTypes = kF32Only | DType::kF16 | DType::kBF16;
  const auto schema = [](const char* type, const char* doc, DTypeSet dtypes) {
    return OperatorSchema({type}, doc)
        .KeepsDType()
        .F16OnCpu()
        .Tensor("input", dtypes)
        .Ints("kernel_size", 2)
        .Ints("stride", 2)
        .Nullable()
        .Ints("padding", 2, Value(0));
  };
  const OperatorSchema max =
      schema("nhwc.MaxPool2d", "nn.MaxPool2d of (…, H, W, C). Made by the NHWC pass",
             kDTypes | DType::kU8 | DType::kI8)
          .Ints("dilation", 2, Value(1))
          .Bool("ceil_mode", false)
          .Bool("return_indices", false);
  registry.Add(max, WithHalves(max, Create<NhwcMaxPool>()));
  const OperatorSchema mean =
      schema("nhwc.AvgPool2d", "nn.AvgPool2d of (…, H, W, C). Made by the NHWC pass", kDTypes)
          .Bool("ceil_mode", false)
          .Bool("count_include_pad", true)
          .Int("divisor_override")
          .Nullable();
  registry.Add(mean, WithHalves(mean, Create<NhwcAvgPool>()));
}
