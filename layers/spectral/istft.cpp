// SPDX-License-Identifier: MIT
// From overlapping frames of a spectrum back to the signal.
#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "layers/shape/strided_layer.h"
#include "layers/spectral/stft_frames.h"

namespace oort {
namespace {

/// One inverse transform: of (…, frequencies, frames) to (…, length).
struct IstftCall {
  IstftCall(const StftOptions& options, const Tensor& input, const Value& window,
            const Value& length, bool gives_complex);

  bool wide, complex;  // of the result; a real one comes from the first half of the frequencies
  int64_t batch = 1, points, frames;
  int64_t whole;       // of all frames
  int64_t begin, end;  // of the result, in the whole; it may reach beyond
  Shape output;

  DType dtype() const {
    if (complex) return wide ? DType::kC128 : DType::kC64;
    return wide ? DType::kF64 : DType::kF32;
  }
  FftKind kind() const { return complex ? FftKind::kComplex : FftKind::kComplexToReal; }
};

IstftCall::IstftCall(const StftOptions& options, const Tensor& input, const Value& window,
                     const Value& length, bool gives_complex)
    : wide(IsStftDouble(input, window)), complex(gives_complex) {
  CheckStftWindow(options, window);
  const Shape& shape = input.shape();
  const int rank = shape.rank();
  if (rank < 2 || input.elements() == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected frequencies and frames, and some of both, got shape " + shape.ToString());
  }
  points = shape[rank - 2];
  frames = shape[rank - 1];
  batch = shape.Product(0, rank - 2);
  const bool onesided = options.onesided.value_or(points != options.n_fft);
  const int64_t wanted = onesided ? options.n_fft / 2 + 1 : options.n_fft;
  if (points != wanted) {
    throw Error(ErrorCode::kInvalidArgument, "expected " + std::to_string(wanted) +
                                                 " frequencies, got " + std::to_string(points));
  }
  if (complex && onesided) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected all n_fft frequencies for a complex result, got the first half");
  }
  whole = CheckedAdd(CheckedMultiply(options.hop, frames - 1), options.n_fft);
  begin = options.center ? options.n_fft / 2 : 0;
  end = length.IsNone() ? whole - begin : CheckedAdd(begin, length.AsInt());
  if (end <= begin || begin >= whole) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected a signal of at least 1 point, got " + std::to_string(end - begin));
  }
  output = shape;
  output.Erase(rank - 1);
  output[rank - 2] = end - begin;
}

/// The frames of one signal, times the window, added up and divided by the window's own sum.
template <typename T>
struct OverlapAdd {
  const T* frames;  // n_fft elements a frame
  int64_t count, n_fft, hop;
  int64_t item;  // numbers of an element: 2 where it is complex
  const T* window;
  const T* envelope;

  /// Fills `to` with elements [begin, end) of the signal.
  void Run(int64_t begin, int64_t end, T* to) const {
    std::fill_n(to, (end - begin) * item, T(0));
    const int64_t first = begin < n_fft ? 0 : (begin - n_fft) / hop + 1;
    for (int64_t f = first; f < count && f * hop < end; ++f) {
      const int64_t low = std::max(begin, f * hop), high = std::min(end, f * hop + n_fft);
      const T* from = frames + (f * n_fft + low - f * hop) * item;
      const T* factor = window + low - f * hop;
      T* sum = to + (low - begin) * item;
      if (item == 1) {
        for (int64_t i = 0; i < high - low; ++i) sum[i] += from[i] * factor[i];
      } else {
        for (int64_t i = 0; i < 2 * (high - low); ++i) sum[i] += from[i] * factor[i / 2];
      }
    }
    if (item == 1) {
      for (int64_t i = 0; i < end - begin; ++i) to[i] /= envelope[begin + i];
    } else {
      for (int64_t i = 0; i < 2 * (end - begin); ++i) to[i] /= envelope[begin + i / 2];
    }
  }
};

class IstftLayer final : public Layer {
 public:
  IstftLayer(const LayerInit& init, bool torchaudio)
      : isa_(init.isa()),
        input_(init.Arg(torchaudio ? "spectrogram" : "input")),
        window_(init.Arg("window")),
        length_(init.Arg("length")),
        options_(init, true),
        by_window_(torchaudio && StftScaledByWindow(init)),
        by_length_(torchaudio ? StftScaledByLength(init) : init.Bool("normalized")),
        complex_result_(!torchaudio && init.Bool("return_complex")),
        cut_(torchaudio ? init.Int("pad") : 0) {
    if (options_.hop > options_.win) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a hop_length of at most win_length=" + std::to_string(options_.win) +
                      ", got " + std::to_string(options_.hop));
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    if (!args[length_].IsConcrete()) return {Value::Deferred()};
    const IstftCall call = MakeCall(args);
    return {Tensor::Meta(call.dtype(), call.output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const IstftCall call = MakeCall(args);
    Tensor& output = OutputTensor(outputs[0], call.dtype(), call.output);
    if (call.wide) {
      Run<double>(context, args, call, output);
    } else {
      Run<float>(context, args, call, output);
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    const Value& length = args[length_];
    if (!length.IsConcrete()) return 0;
    const IstftCall call = MakeCall(args);
    return call.wide ? MemoryOf<double>(args, call, threads).all()
                     : MemoryOf<float>(args, call, threads).all();
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    if (!args[length_].IsConcrete()) return cost;
    const IstftCall call = MakeCall(args);
    cost.flops = FftFlops(options_.n_fft, call.batch * call.frames);
    return cost;
  }

 private:
  IstftCall MakeCall(const Args& args) const {
    Value length = args[length_];
    if (length.IsNone() || cut_ == 0) {
      return {options_, args.tensor(input_), args[window_], length, complex_result_};
    }
    // torchaudio asks for the padded signal and cuts off what was added.
    length = CheckedAdd(length.AsInt(), 2 * cut_);
    IstftCall call(options_, args.tensor(input_), args[window_], length, complex_result_);
    call.begin += cut_;
    call.end -= cut_;
    if (call.end <= call.begin) {
      throw Error(ErrorCode::kInvalidArgument, "expected a length of at least 1");
    }
    call.output[call.output.rank() - 1] = call.end - call.begin;
    return call;
  }

  /// Bytes of the parts of the workspace.
  struct Memory {
    size_t converted = 0, window = 0, envelope = 0, frames = 0, runner = 0;
    size_t all() const {
      return CheckedAdd(CheckedAdd(converted, window),
                        CheckedAdd(envelope, CheckedAdd(frames, runner)));
    }
  };

  template <typename T>
  Memory MemoryOf(const Args& args, const IstftCall& call, int threads) const {
    const auto bytes = [](int64_t numbers) {
      return AlignUp(CheckedMultiply(static_cast<size_t>(numbers), sizeof(T)), 64);
    };
    Memory memory;
    const Tensor& input = args.tensor(input_);
    if (input.dtype() != ComplexOf<T>()) {
      memory.converted = bytes(CheckedMultiply<int64_t>(2, input.elements()));
    }
    memory.window = bytes(options_.n_fft);
    memory.envelope = bytes(call.whole);
    const int64_t numbers = CheckedMultiply<int64_t>(options_.n_fft, call.complex ? 2 : 1);
    memory.frames = bytes(CheckedMultiply(call.frames, numbers));
    memory.runner =
        FftRunner<T>(isa_, call.kind(), options_.n_fft, call.frames, threads).workspace();
    return memory;
  }

  template <typename T>
  static constexpr DType ComplexOf() {
    return sizeof(T) == sizeof(float) ? DType::kC64 : DType::kC128;
  }

  double Scale(const Args& args) const {
    const auto points = static_cast<double>(options_.n_fft);
    const double scale = by_length_ ? 1 / std::sqrt(points) : 1 / points;
    return by_window_ ? scale * std::sqrt(WindowPower(options_, args[window_])) : scale;
  }

  /// Σ w² of the frames that lie over each point.
  template <typename T>
  void FillEnvelope(const IstftCall& call, const T* window, T* envelope) const {
    std::fill_n(envelope, call.whole, T(0));
    for (int64_t f = 0; f < call.frames; ++f) {
      T* const at = envelope + f * options_.hop;
      for (int64_t i = 0; i < options_.n_fft; ++i) at[i] += window[i] * window[i];
    }
    const int64_t end = std::min(call.end, call.whole);
    for (int64_t i = call.begin; i < end; ++i) {
      if (!(std::abs(envelope[i]) > T(1e-11))) {
        throw Error(ErrorCode::kInvalidArgument,
                    "expected windows that add up to more than 0 everywhere, got " +
                        std::to_string(envelope[i]) + " at point " + std::to_string(i));
      }
    }
  }

  template <typename T>
  void Run(const Context& context, const Args& args, const IstftCall& call, Tensor& output) const {
    const Memory memory = MemoryOf<T>(args, call, context.threads());
    std::byte* at = context.workspace();
    const auto take = [&](size_t bytes) {
      T* const taken = reinterpret_cast<T*>(at);
      at += bytes;
      return taken;
    };
    const Tensor& input = args.tensor(input_);
    const T* source = reinterpret_cast<const T*>(input.raw());
    if (memory.converted > 0) {
      Tensor converted = Tensor::Borrow(take(memory.converted), ComplexOf<T>(), input.shape());
      CopyElements(input, converted);
      source = reinterpret_cast<const T*>(converted.raw());
    }
    T* const window = take(memory.window);
    FillStftWindow(options_, args[window_], window);
    T* const envelope = take(memory.envelope);
    FillEnvelope(call, window, envelope);
    T* const frames = take(memory.frames);

    FftJob<T> job = MakeJob(call, frames);
    job.scale = Scale(args);
    const FftRunner<T> runner(isa_, job.kind, job.n, call.frames, context.threads());
    const int64_t item = job.target_step, length = call.end - call.begin;
    const OverlapAdd<T> add{frames, call.frames, options_.n_fft, options_.hop,
                            item,   window,      envelope};
    T* to = reinterpret_cast<T*>(output.raw());
    for (int64_t b = 0; b < call.batch; ++b, to += length * item) {
      job.source = source + b * 2 * call.points * call.frames;
      runner.Run(job, take(0));
      const int64_t there = std::clamp<int64_t>(call.whole - call.begin, 0, length);
      context.ParallelFor(there, 4096, [&](int64_t begin, int64_t end) {
        add.Run(call.begin + begin, call.begin + end, to + begin * item);
      });
      std::fill(to + there * item, to + length * item, T(0));
    }
  }

  template <typename T>
  FftJob<T> MakeJob(const IstftCall& call, T* frames) const {
    const int64_t item = call.complex ? 2 : 1;
    FftJob<T> job;
    job.kind = call.kind();
    job.n = options_.n_fft;
    job.inverse = true;
    job.source_step = 2 * call.frames;
    job.source_count = call.points;
    job.target = frames;
    job.target_step = item;
    job.axes[0] = {call.frames, call.frames, 2, options_.n_fft * item};
    job.axis_count = 1;
    return job;
  }

  Isa isa_;
  int input_, window_, length_;
  StftOptions options_;
  bool by_window_, by_length_;
  bool complex_result_;
  int64_t cut_;
};

LayerCreator CreateIstft(bool torchaudio) {
  return [torchaudio](const LayerInit& init) {
    return std::make_unique<IstftLayer>(init, torchaudio);
  };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(istft) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.istft", "aten::istft"},
                              "The signal whose frames have these Fourier transforms")
                   .Tensor("input", DType::kC64 | DType::kC128)
                   .Int("n_fft")
                   .AtLeast(1)
                   .Int("hop_length")
                   .Nullable()
                   .Int("win_length")
                   .Nullable()
                   .OptionalTensor("window", kStftWindows)
                   .Bool("center", true)
                   .Bool("normalized", false)
                   .Bool("onesided")
                   .Nullable()
                   .Int("length")
                   .Nullable()
                   .Dynamic()
                   .Bool("return_complex", false),
               CreateIstft(false));
  registry.Add(OperatorSchema({"torchaudio.functional.inverse_spectrogram"},
                              "The signal that has this complex spectrogram")
                   .Tensor("spectrogram", DType::kC64 | DType::kC128)
                   .Int("length")
                   .Nullable()
                   .Dynamic()
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
                   .Any("normalized", false)
                   .Bool("center", true)
                   .Ignored("pad_mode")
                   .Bool("onesided", true)
                   .Nullable(),
               CreateIstft(true));
}
