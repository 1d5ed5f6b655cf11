// SPDX-License-Identifier: MIT
#include "cpu/vec.h"
#include "layers/convolution/conv_kernels.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kMaxWidth = 64;      // of a panel
constexpr int kMaxSegments = 512;  // described at once; bounds the stack

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

/// Copies fewer floats than a vector holds.
void CopyFew(const float* from, float* to, int count) {
  for (int step = Vec::kWidth / 2; step > 0; step /= 2) {
    if ((count & step) == 0) continue;
    for (int i = 0; i < step; ++i) to[i] = from[i];
    from += step;
    to += step;
  }
}

/// `room` floats may be written at `to`, and what goes beyond `count` does not matter.
void Copy(const float* from, const float* end, float* to, int count, int room) {
  int i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) Vec::Load(from + i).Store(to + i);
  if (i == count) return;
  if (room - i >= Vec::kWidth && end - (from + i) >= Vec::kWidth) {
    Vec::Load(from + i).Store(to + i);
  } else {
    CopyFew(from + i, to + i, count - i);
  }
}

void CopyStrided(const float* from, const float* end, int64_t stride, float* to, int count,
                 int room) {
  int i = 0;
  if (stride == 2) {
    for (; i + Vec::kWidth <= room && i < count; i += Vec::kWidth) {
      if (end - (from + 2 * i) < 2 * Vec::kWidth) break;
      Vec::LoadEven(from + 2 * i).Store(to + i);
    }
  }
  for (; i < count; ++i) to[i] = from[i * stride];
}

void Zero(float* to, int count) {
  for (int i = 0; i < count; ++i) to[i] = 0.0f;
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

  void Pack(int64_t k0, int64_t k1, float* panel) {
    int64_t first_tap = 0;
    while (first_tap < taps_) {
      const int64_t last_tap = Describe(first_tap);
      for (int64_t channel = k0 / taps_; channel * taps_ < k1; ++channel) {
        PackTaps(channel, first_tap, last_tap, k0, k1, panel);
      }
      first_tap = last_tap;
    }
  }

 private:
  /// Lists the segments of as many taps from `first` as fit; returns the tap behind them.
  int64_t Describe(int64_t first) {
    int count = 0;
    int64_t tap = first;
    for (; tap < taps_ && count + 3 * run_count_ <= kMaxSegments; ++tap) {
      starts_[tap - first] = count;
      const int64_t kw = tap % w_.kernel, kh = tap / w_.kernel % h_.kernel;
      const int64_t kd = tap / w_.kernel / h_.kernel;
      for (int r = 0; r < run_count_; ++r) count = AddRun(runs_[r], kd, kh, kw, count);
    }
    starts_[tap - first] = count;
    return tap;
  }

  int AddRun(const Run& run, int64_t kd, int64_t kh, int64_t kw, int count) {
    const int64_t d = run.d * d_.stride - d_.pad + kd * d_.dilation;
    const int64_t h = run.h * h_.stride - h_.pad + kh * h_.dilation;
    if (d < 0 || d >= d_.in || h < 0 || h >= h_.in) {
      return Add(-1, run.position, run.count, count);
    }
    // Pixel j of the run reads column w + j * stride; those in [first, last) are in the image.
    const int64_t w = run.w * w_.stride - w_.pad + kw * w_.dilation;
    const int first = Clip(w < 0 ? (-w + w_.stride - 1) / w_.stride : 0, run.count);
    const int last = Clip(w < w_.in ? (w_.in - w + w_.stride - 1) / w_.stride : 0, run.count);
    if (first >= last) return Add(-1, run.position, run.count, count);
    count = Add(-1, run.position, first, count);
    const int64_t offset = (d * h_.in + h) * w_.in + w + first * w_.stride;
    count = Add(offset, run.position + first, last - first, count);
    return Add(-1, run.position + last, run.count - last, count);
  }

  static int Clip(int64_t value, int most) { return value < most ? static_cast<int>(value) : most; }

  int Add(int64_t offset, int position, int length, int count) {
    if (length > 0) segments_[count++] = {offset, position, length};
    return count;
  }

  void PackTaps(int64_t channel, int64_t first, int64_t last, int64_t k0, int64_t k1,
                float* panel) const {
    const float* source = image_.image + channel * plane_;
    const int64_t base = channel * taps_;
    const int64_t begin = first > k0 - base ? first : k0 - base;
    const int64_t end = last < k1 - base ? last : k1 - base;
    for (int64_t tap = begin; tap < end; ++tap) {
      float* row = panel + (base + tap - k0) * width_;
      for (int s = starts_[tap - first]; s < starts_[tap - first + 1]; ++s) {
        PackSegment(source, segments_[s], row);
      }
      for (int i = used_; i < width_; ++i) row[i] = 0.0f;
    }
  }

  void PackSegment(const float* source, const Segment& segment, float* row) const {
    float* to = row + segment.position;
    const int room = width_ - segment.position;  // later segments overwrite what is too much
    if (segment.offset < 0) return Zero(to, segment.count);
    const float* from = source + segment.offset;
    if (w_.stride == 1) return Copy(from, image_.image_end, to, segment.count, room);
    CopyStrided(from, image_.image_end, w_.stride, to, segment.count, room);
  }

  const Im2col& image_;
  const ConvAxis &d_, &h_, &w_;
  int used_, width_;
  int64_t taps_, plane_;
  int run_count_ = 0;
  Run runs_[kMaxWidth];
  Segment segments_[kMaxSegments];
  int starts_[kMaxSegments + 1];
};

void Pack(const Im2col& image, int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
          float* panel) {
  if (k0 == k1) return;
  Packer(image, i0, i1, width).Pack(k0, k1, panel);
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(Im2colKernels, {.pack = Pack})
