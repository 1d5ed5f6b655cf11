// SPDX-License-Identifier: MIT
// Short-time Fourier transforms and spectrograms.
#include <cmath>

#include "core/checked.h"
#include "layers/spectral/stft_frames.h"

namespace oort {
namespace {

constexpr DTypeSet kStftSignals = DType::kF32 | DType::kF64 | DType::kC64 | DType::kC128;

DType PartsOf(DType dtype) { return dtype == DType::kC128 ? DType::kF64 : DType::kF32; }

StftPadding StftPaddingOf(const LayerInit& init, const StftOptions& options) {
  StftPadding padding;
  const bool align = init.Arg("align_to_window") >= 0 &&
                     !init.Constant("align_to_window").IsNone() && init.Bool("align_to_window");
  if (align) {
    if (options.center) {
      throw Error(ErrorCode::kInvalidArgument, "expected center=False with align_to_window");
    }
    padding.zeros_before = options.window_start();
    padding.zeros_after = options.n_fft - options.win - options.window_start();
  }
  if (init.Arg("pad") >= 0) padding.zeros_before = padding.zeros_after = init.Int("pad");
  if (options.center) padding.mirrored = options.n_fft / 2;
  if (init.Arg("pad_mode") >= 0) padding.mode = ParsePadMode(init.String("pad_mode"));
  return padding;
}

class StftLayer final : public Layer {
 public:
  explicit StftLayer(const LayerInit& init)
      : isa_(init.isa()),
        input_(init.Arg("input")),
        window_(init.Arg("window")),
        options_(init, false),
        padding_(StftPaddingOf(init, options_)),
        normalized_(init.Bool("normalized")),
        pairs_(GivesPairs(init)) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& signal = args.tensor(input_);
    if (signal.rank() != 1 && signal.rank() != 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a signal of rank 1 or 2, got shape " + signal.shape().ToString());
    }
    const StftCall call(options_, padding_, signal, args[window_]);
    Shape shape = call.shape();
    if (!pairs_) return {Tensor::Meta(call.dtype(), shape)};
    shape.Append(2);
    return {Tensor::Meta(PartsOf(call.dtype()), shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const StftCall call(options_, padding_, args.tensor(input_), args[window_]);
    const double scale = normalized_ ? 1 / std::sqrt(static_cast<double>(options_.n_fft)) : 1;
    call.Run(context, isa_, scale, args.tensor(input_), args[window_], outputs[0].AsTensor().raw(),
             context.workspace());
  }

  size_t Workspace(const Args& args, int threads) const override {
    return StftCall(options_, padding_, args.tensor(input_), args[window_])
        .Workspace(isa_, threads);
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = StftCall(options_, padding_, args.tensor(input_), args[window_]).Flops();
    return cost;
  }

 private:
  /// Older models do not say; what came out then says it.
  static bool GivesPairs(const LayerInit& init) {
    if (!init.Constant("return_complex").IsNone()) return !init.Bool("return_complex");
    const auto outputs = init.outputs();
    return !outputs.empty() && IsFloat(outputs[0]->dtype);
  }

  Isa isa_;
  int input_, window_;
  StftOptions options_;
  StftPadding padding_;
  bool normalized_, pairs_;
};

template <typename T>
void MagnitudePower(const Context& context, const T* pairs, T* to, int64_t count, double power) {
  context.ParallelFor(count, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T re = pairs[2 * i], im = pairs[2 * i + 1];
      const T size = std::hypot(re, im);
      to[i] = power == 1 ? size : power == 2 ? size * size : std::pow(size, static_cast<T>(power));
    }
  });
}

/// torchaudio's: an stft of all lines, and powers of its magnitudes.
class SpectrogramLayer final : public Layer {
 public:
  explicit SpectrogramLayer(const LayerInit& init)
      : isa_(init.isa()),
        input_(init.Arg("waveform")),
        window_(init.Arg("window")),
        options_(init, true),
        padding_(StftPaddingOf(init, options_)),
        by_window_(StftScaledByWindow(init)),
        by_length_(StftScaledByLength(init)) {
    const Value& power = init.Constant("power");
    if (!power.IsNone()) power_ = power.AsFloat();
  }

  std::vector<Value> Infer(const Args& args) const override {
    const StftCall call = MakeCall(args);
    return {Tensor::Meta(power_ ? PartsOf(call.dtype()) : call.dtype(), call.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const StftCall call = MakeCall(args);
    Tensor& output = outputs[0].AsTensor();
    double scale = by_length_ ? 1 / std::sqrt(static_cast<double>(options_.n_fft)) : 1;
    if (by_window_) scale = 1 / std::sqrt(WindowPower(options_, args[window_]));
    std::byte* const workspace = context.workspace();
    std::byte* const target = power_ ? workspace : output.raw();
    call.Run(context, isa_, scale, args.tensor(input_), args[window_], target,
             workspace + Points(call));
    if (!power_) return;
    if (output.dtype() == DType::kF64) {
      MagnitudePower(context, reinterpret_cast<const double*>(target), output.data<double>(),
                     output.elements(), *power_);
    } else {
      MagnitudePower(context, reinterpret_cast<const float*>(target), output.data<float>(),
                     output.elements(), *power_);
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    const StftCall call = MakeCall(args);
    return CheckedAdd(Points(call), call.Workspace(isa_, threads));
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = MakeCall(args).Flops();
    return cost;
  }

 private:
  StftCall MakeCall(const Args& args) const {
    return {options_, padding_, args.tensor(input_), args[window_]};
  }
  /// The memory of the transformed points, where they are not the result.
  size_t Points(const StftCall& call) const {
    if (!power_) return 0;
    const auto elements = static_cast<size_t>(call.shape().elements());
    return AlignUp(CheckedMultiply(elements, ItemSize(call.dtype())), 64);
  }

  Isa isa_;
  int input_, window_;
  StftOptions options_;
  StftPadding padding_;
  bool by_window_, by_length_;
  std::optional<double> power_;
};

void AddStft(LayerRegistry& registry) {
  const std::string doc = "Fourier transforms of overlapping frames of a signal";
  registry.Add(OperatorSchema({"torch.stft"}, doc)
                   .Tensor("input", kStftSignals)
                   .Int("n_fft")
                   .AtLeast(1)
                   .Int("hop_length")
                   .Nullable()
                   .Int("win_length")
                   .Nullable()
                   .OptionalTensor("window", kStftWindows)
                   .Bool("center", true)
                   .String("pad_mode", "reflect")
                   .OneOf({"constant", "reflect", "replicate", "circular"})
                   .Bool("normalized", false)
                   .Bool("onesided")
                   .Nullable()
                   .Bool("return_complex")
                   .Nullable()
                   .Bool("align_to_window")
                   .Nullable(),
               Create<StftLayer>());
  registry.Add(OperatorSchema({"aten::stft"}, doc + ", which is padded already")
                   .Tensor("input", kStftSignals)
                   .Int("n_fft")
                   .AtLeast(1)
                   .Int("hop_length")
                   .Nullable()
                   .Int("win_length")
                   .Nullable()
                   .OptionalTensor("window", kStftWindows)
                   .Bool("normalized", false)
                   .Bool("onesided")
                   .Nullable()
                   .Bool("return_complex")
                   .Nullable()
                   .Bool("align_to_window")
                   .Nullable(),
               Create<StftLayer>());
}

}  // namespace
}  // namespace oort

OORT_LAYERS(stft) {
  using namespace oort;
  AddStft(registry);
  registry.Add(
      OperatorSchema({"torchaudio.functional.spectrogram"},
                     "Magnitudes to some power of the Fourier transforms of overlapping frames")
          .Tensor("waveform", kStftSignals)
          .Int("pad", 0)
          .AtLeast(0)
          .AtMost(kFftMaxLength)
          .OptionalTensor("window", kStftWindows)
          .Int("n_fft")
          .AtLeast(1)
          .Int("hop_length")
          .Nullable()
          .Int("win_length")
          .Nullable()
          .Float("power")
          .Nullable()
          .Any("normalized", false)
          .Bool("center", true)
          .String("pad_mode", "reflect")
          .OneOf({"constant", "reflect", "replicate", "circular"})
          .Bool("onesided", true)
          .Nullable()
          .Ignored("return_complex"),
      Create<SpectrogramLayer>());
}
