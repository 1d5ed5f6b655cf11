// SPDX-License-Identifier: MIT
#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/convolution/planar/conv_kernels.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kMaxWidth = 64;  // of a panel

/// Output pixels of one row that stand side by side in a panel.
struct Run {
  int64_t d, h, w;
  int position, count;
};

/// Pixels of a run that read neighbouring inputs, or all padding, for one tap.
struct Segment {
  int64_t offset;  // into a channel; -1 for padding
  int position, count;
};

/// One segment in all channels.
struct Copy {
  const float* from;
  int64_t from_step;  // from channel to channel
  float* to;
  int64_t to_step;
  int64_t channels;
};

template <int stride>
Vec LoadStep(const float* p) {
  if constexpr (stride == 1) {
    return Vec::Load(p);
  } else {
    return Vec::LoadEven(p);
  }
}

/// `whole` vectors and `rest` elements.
template <int stride, int whole>
void CopyVectors(Copy copy, int rest) {
  for (int64_t c = 0; c < copy.channels; ++c) {
    // The next panel reads on from here.
    __builtin_prefetch(copy.from + 2 * whole * Vec::kWidth * stride);
    Unroll<whole>([&](auto v) {
      LoadStep<stride>(copy.from + v * Vec::kWidth * stride).Store(copy.to + v * Vec::kWidth);
    });
    if (rest > 0) {
      const float* from = copy.from + whole * Vec::kWidth * stride;
      float* to = copy.to + whole * Vec::kWidth;
      if constexpr (stride == 1) {
        Vec::LoadPartial(from, rest).StorePartial(to, rest);
      } else {
        for (int i = 0; i < rest; ++i) to[i] = from[i * stride];
      }
    }
    copy.from += copy.from_step;
    copy.to += copy.to_step;
  }
}

template <int stride>
void CopyAny(const Copy& copy, int whole, int rest) {
  switch (whole) {
    case 0: return CopyVectors<stride, 0>(copy, rest);
    case 1: return CopyVectors<stride, 1>(copy, rest);
    case 2: return CopyVectors<stride, 2>(copy, rest);
    case 3: return CopyVectors<stride, 3>(copy, rest);
    case 4: return CopyVectors<stride, 4>(copy, rest);
    default: break;
  }
  Copy front = copy, back = copy;
  CopyVectors<stride, 4>(front, 0);
  back.from += 4 * Vec::kWidth * stride;
  back.to += 4 * Vec::kWidth;
  CopyAny<stride>(back, whole - 4, rest);
}

void CopyElements(const Copy& copy, int64_t stride, int count) {
  for (int64_t c = 0; c < copy.channels; ++c) {
    const float* from = copy.from + c * copy.from_step;
    float* to = copy.to + c * copy.to_step;
    for (int i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

/// `room` floats may be written, and what goes beyond `count` does not matter.
template <int stride>
void CopyStep(Copy copy, const float* end, int count, int room) {
  int whole = count / Vec::kWidth, rest = count % Vec::kWidth;
  if (rest > 0 && room >= (whole + 1) * Vec::kWidth) {
    ++whole;
    rest = 0;
  }
  // In the last channels (several, where a plane is smaller than a vector) whole vectors would
  // reach behind the image.
  for (; copy.channels > 0; --copy.channels) {
    const float* last = copy.from + (copy.channels - 1) * copy.from_step;
    if (end - last >= whole * Vec::kWidth * stride) break;
    CopyElements({last, 0, copy.to + (copy.channels - 1) * copy.to_step, 0, 1}, stride, count);
  }
  CopyAny<stride>(copy, whole, rest);
}

void ZeroChannels(const Copy& copy, int count) {
  for (int64_t c = 0; c < copy.channels; ++c) {
    float* to = copy.to + c * copy.to_step;
    for (int i = 0; i < count; ++i) to[i] = 0.0f;
  }
}

class Packer {
 public:
  Packer(const Im2col& image, int64_t i0, int64_t i1, int width)
      : image_(image),
        d_(image.axes[0]),
        h_(image.axes[1]),
        w_(image.axes[2]),
        used_(static_cast<int>(i1 - i0)),
        width_(width),
        taps_(d_.kernel * h_.kernel * w_.kernel),
        plane_(d_.in * h_.in * w_.in) {
    int64_t w = i0 % w_.out, h = i0 / w_.out % h_.out, d = i0 / w_.out / h_.out;
    for (int position = 0; position < used_;) {
      const int64_t rest = w_.out - w;
      const int count = used_ - position < rest ? used_ - position : static_cast<int>(rest);
      runs_[run_count_++] = {d, h, w, position, count};
      position += count;
      w = 0;
      if (++h == h_.out) {
        h = 0;
        ++d;
      }
    }
  }

  /// Tap by tap: what a tap reads is described once and copied from all channels.
  void Pack(int64_t k0, int64_t k1, float* panel) {
    const int64_t count = k1 - k0 < taps_ ? k1 - k0 : taps_;
    int64_t channel = k0 / taps_, tap = k0 % taps_;
    int64_t kw = tap % w_.kernel, kh = tap / w_.kernel % h_.kernel,
            kd = tap / w_.kernel / h_.kernel;
    int64_t channels = (k1 - k0 + taps_ - 1) / taps_;
    const int64_t longer = k1 - k0 - (channels - 1) * taps_;  // taps that have that many channels
    for (int64_t i = 0; i < count; ++i) {
      if (i == longer) --channels;
      Describe(kw, kh, kd);
      const Copy copy{image_.image + channel * plane_, plane_, panel + i * width_, taps_ * width_,
                      channels};
      for (int s = 0; s < segment_count_; ++s) CopySegment(copy, segments_[s]);
      if (++kw < w_.kernel) continue;
      kw = 0;
      if (++kh < h_.kernel) continue;
      kh = 0;
      if (++kd < d_.kernel) continue;
      kd = 0;
      ++channel;
    }
  }

 private:
  void Describe(int64_t kw, int64_t kh, int64_t kd) {
    segment_count_ = 0;
    for (int r = 0; r < run_count_; ++r) AddRun(runs_[r], kd, kh, kw);
    Add(-1, used_, width_ - used_);
  }

  void AddRun(const Run& run, int64_t kd, int64_t kh, int64_t kw) {
    const int64_t d = run.d * d_.stride - d_.pad + kd * d_.dilation;
    const int64_t h = run.h * h_.stride - h_.pad + kh * h_.dilation;
    if (d < 0 || d >= d_.in || h < 0 || h >= h_.in) return Add(-1, run.position, run.count);
    // Pixel j of the run reads column w + j * stride; those in [first, last) are in the image.
    const int64_t w = run.w * w_.stride - w_.pad + kw * w_.dilation;
    int first = 0, last = run.count;
    if (w < 0) first = Clip((-w + w_.stride - 1) / w_.stride, run.count);
    if (w + (run.count - 1) * w_.stride >= w_.in) {
      last = w < w_.in ? Clip((w_.in - w + w_.stride - 1) / w_.stride, run.count) : 0;
    }
    if (first >= last) return Add(-1, run.position, run.count);
    Add(-1, run.position, first);
    Add((d * h_.in + h) * w_.in + w + first * w_.stride, run.position + first, last - first);
    Add(-1, run.position + last, run.count - last);
  }

  static int Clip(int64_t value, int most) { return value < most ? static_cast<int>(value) : most; }

  void Add(int64_t offset, int position, int length) {
    if (length > 0) segments_[segment_count_++] = {offset, position, length};
  }

  void CopySegment(Copy copy, const Segment& segment) const {
    copy.to += segment.position;
    const int room = width_ - segment.position;  // later segments overwrite what is too much
    if (segment.offset < 0) return ZeroChannels(copy, segment.count);
    copy.from += segment.offset;
    if (w_.stride == 1) return CopyStep<1>(copy, image_.image_end, segment.count, room);
    if (w_.stride == 2) return CopyStep<2>(copy, image_.image_end, segment.count, room);
    CopyElements(copy, w_.stride, segment.count);
  }

  const Im2col& image_;
  const ConvAxis &d_, &h_, &w_;
  int used_, width_;
  int64_t taps_, plane_;
  int run_count_ = 0, segment_count_ = 0;
  Run runs_[kMaxWidth];
  Segment segments_[3 * kMaxWidth + 1];
};

void Pack(const Im2col& image, int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
          float* panel) {
  if (k0 == k1) return;
  Packer(image, i0, i1, width).Pack(k0, k1, panel);
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(Im2colKernels, {.pack = Pack})
