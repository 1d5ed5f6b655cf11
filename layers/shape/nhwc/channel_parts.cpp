// SPDX-License-Identifier: MIT
// What is left to copy where images are joined and cut by their channels.
#include "layers/layout/axes.h"
#include "oort/layer.h"

namespace oort {
namespace {

/// At another rank than the traced one the channels that were cut or joined are another axis.
void CheckTracedRank(const Shape& shape, int64_t rank) {
  if (rank == 0 || shape.rank() == rank) return;
  throw Error(ErrorCode::kInvalidArgument,
              "expected an image of rank " + std::to_string(rank) + ", got " + shape.ToString());
}

void CheckSameDType(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return;
  throw Error(ErrorCode::kInvalidArgument, "expected images of one dtype, got " +
                                               std::string(Name(a.dtype())) + " and " +
                                               std::string(Name(b.dtype())));
}

/// Calls visit with an element of the dtype, which is f32 or f16.
template <typename Visit>
void VisitPixels(DType dtype, const Visit& visit) {
  if (dtype == DType::kF16) return visit(Half());
  visit(0.0f);
}

/// Copies an image to its place among the channels of a wider one, which the others fill.
class PutChannels final : public Layer {
 public:
  explicit PutChannels(const LayerInit& init)
      : into_(init.Arg("into")),
        to_(init.Int("to")),
        width_(init.Int("width")),
        rank_(init.Int("rank")) {}

  std::vector<Value> Infer(const Args& args) const override {
    Shape shape = args.shape(0);
    CheckTracedRank(shape, rank_);
    const int last = shape.rank() - 1;
    if (last < 0 || to_ > width_ || shape[last] > width_ - to_) {
      throw Error(ErrorCode::kInvalidArgument, "expected at most " + std::to_string(width_ - to_) +
                                                   " channels, got shape " + shape.ToString());
    }
    shape[last] = width_;
    if (args.Has(into_)) CheckSameDType(args.tensor(0), args.tensor(into_));
    if (args.Has(into_) && args.shape(into_) != shape) {
      throw Error(ErrorCode::kInvalidArgument, "expected an image 'into' of shape " +
                                                   shape.ToString() + ", got " +
                                                   args.shape(into_).ToString());
    }
    return {Tensor::Meta(args.tensor(0).dtype(), shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    const bool elsewhere = args.Has(into_) && args.tensor(into_).raw() != output.raw();
    if (elsewhere) CopyElements(args.tensor(into_), output);
    if (args.tensor(0).elements() == 0) return;
    VisitPixels(output.dtype(),
                [&](auto element) { Copy<decltype(element)>(context, args.tensor(0), output); });
  }

  std::vector<Reuse> Reuses(const Args& args) const override {
    if (!args.Has(into_)) return {};
    return {{Reuse::kInPlace, into_, 0, 0}};
  }

 private:
  template <typename T>
  void Copy(const Context& context, const Tensor& input, Tensor& output) const {
    const int64_t channels = input.dim(-1);
    const T* from = input.data<T>();
    T* to = output.data<T>() + to_;
    context.ParallelFor(input.elements() / channels, 16384 / channels + 1,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t p = begin; p < end; ++p) {
                            std::copy_n(from + p * channels, channels, to + p * width_);
                          }
                        });
  }

  int into_;
  int64_t to_, width_, rank_;
};

/// Channels of two images in turn: what shuffling two groups of joined channels gives.
class InterleaveChannelPairs final : public Layer {
 public:
  explicit InterleaveChannelPairs(const LayerInit& init)
      : from_(init.Int("from")), of_(init.Int("of")), rank_(init.Int("rank")) {}

  std::vector<Value> Infer(const Args& args) const override {
    Shape first = args.shape(0), second = args.shape(1);
    CheckTracedRank(second, rank_);
    const int last = second.rank() - 1;
    if (from_ >= 0 && last >= 0 && first.rank() == last + 1) {
      const bool fits = first[last] == of_ && from_ <= of_ && second[last] <= of_ - from_;
      if (fits) first[last] = second[last];
    }
    if (last < 0 || first != second) {
      throw Error(ErrorCode::kInvalidArgument, "expected images of the same shape, got " +
                                                   args.shape(0).ToString() + " and " +
                                                   second.ToString());
    }
    CheckSameDType(args.tensor(0), args.tensor(1));
    second[last] *= 2;
    return {Tensor::Meta(args.tensor(0).dtype(), second)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    if (args.tensor(1).elements() == 0) return;
    VisitPixels(args.tensor(0).dtype(), [&](auto element) {
      Interleave<decltype(element)>(context, args.tensor(0), args.tensor(1), outputs[0].AsTensor());
    });
  }

 private:
  template <typename T>
  void Interleave(const Context& context, const Tensor& first, const Tensor& second,
                  Tensor& output) const {
    const int64_t channels = second.dim(-1), step = first.dim(-1);
    const T *a = first.data<T>() + (from_ < 0 ? 0 : from_), *b = second.data<T>();
    T* out = output.data<T>();
    context.ParallelFor(second.elements() / channels, 16384 / channels + 1,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t p = begin; p < end; ++p) {
                            const T *x = a + p * step, *y = b + p * channels;
                            T* to = out + p * 2 * channels;
                            for (int64_t c = 0; c < channels; ++c) {
                              to[2 * c] = x[c];
                              to[2 * c + 1] = y[c];
                            }
                          }
                        });
  }

  int64_t from_, of_, rank_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(channel_parts) {
  using namespace oort;
  registry.Add(OperatorSchema({"nhwc.put"},
                              "An image (…, H, W, C) as the channels from `to` on of one that has "
                              "`width`. Made by passes")
                   .Tensor("input", kF32Only | DType::kF16)
                   .OptionalTensor("into", kF32Only | DType::kF16)
                   .Int("to")
                   .AtLeast(0)
                   .Int("width")
                   .AtLeast(0)
                   .Int("rank", 0)
                   .KeepsDType()
                   .F16OnCpu(),
               Create<PutChannels>());
  registry.Add(OperatorSchema({"nhwc.interleave"},
                              "The channels of two images (…, H, W, C) in turn; the first may be "
                              "those from `from` on of one that has `of`. Made by passes")
                   .Tensor("first", kF32Only | DType::kF16)
                   .Tensor("second", kF32Only | DType::kF16)
                   .Int("from", -1)
                   .Int("of", 0)
                   .Int("rank", 0)
                   .KeepsDType()
                   .F16OnCpu(),
               Create<InterleaveChannelPairs>());
}
