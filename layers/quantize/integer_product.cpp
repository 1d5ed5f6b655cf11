// SPDX-License-Identifier: MIT
#include "layers/quantize/integer_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/checked.h"
#include "core/machine.h"
#include "core/scratch_bytes.h"

namespace oort {
namespace {

/// Vectors read so many bytes beyond the last number.
constexpr int64_t kBeyond = 64;
/// Of rows that a depthwise convolution stages at a time.
constexpr int64_t kBandBytes = 96 << 10;

/// The largest magnitude that any input makes a sum of products. `positive` and `negative` are the
/// sums of the weights above 0 and below it, as magnitudes.
int64_t LargestSum(int64_t positive, int64_t negative, int64_t zero_point) {
  // Where bytes are i8, the same numbers are 128 more.
  const int64_t above = std::max(255 - zero_point, 127 - zero_point);
  const int64_t below = std::max(zero_point, zero_point + 128);
  return std::max(positive * above + negative * below, positive * below + negative * above);
}

bool HasExponentials(Activation kind) {
  switch (kind) {
    case Activation::kSilu:
    case Activation::kSigmoid:
    case Activation::kTanh:
    case Activation::kGelu:
    case Activation::kGeluTanh:
    case Activation::kElu:
    case Activation::kMish: return true;
    default: return false;
  }
}

int64_t RoundUp(int64_t value, int64_t to) { return CeilDivide(value, to) * to; }

}  // namespace

IntegerProduct::IntegerProduct(Isa isa, const Tensor& weight, const Tensor& scales,
                               const Tensor& bias, const IntegerForm& form,
                               const IntegerScales& numbers)
    : kernels_(IntegerKernelsFor(isa)),
      elements_(QuantizeKernelsFor(isa)),
      numbers_(numbers),
      out_(weight.dim(0)),
      group_in_(weight.dim(1)),
      height_(weight.dim(2)),
      width_(weight.dim(3)),
      groups_(form.groups),
      depthwise_(groups_ > 1 && group_in_ == 1 && out_ == groups_),
      neighbours_(form.neighbours && groups_ == 1),
      winograd_(form.winograd && kernels_.winograd_product != nullptr && groups_ == 1 &&
                height_ == 3 && width_ == 3 && group_in_ % kWinogradDepth == 0 &&
                group_in_ * 9 <= kMostWinogradTerms && out_ >= kernels_.panel) {
  const int64_t terms = CheckedMultiply(group_in_, CheckedMultiply(height_, width_));
  if (terms > kMostIntegerTerms) {
    throw Error(ErrorCode::kUnsupported,
                "expected at most " + std::to_string(kMostIntegerTerms) +
                    " weights a channel, whose sums fit into 32 bits, got " +
                    std::to_string(terms));
  }
  found_ = IntegerNumbersOf(numbers_, scales.span<float>(),
                            bias.defined() ? bias.span<float>() : std::span<const float>());
  if (depthwise_) {
    PackDepthwise(weight.data<int8_t>());
  } else if (winograd_) {
    PackWinograd(weight.data<int8_t>());
  } else {
    PackFilters(weight.data<int8_t>());
  }
  packed_ = Tensor(DType::kI8, {static_cast<int64_t>(packing_.size())});
  std::memcpy(packed_.raw(), packing_.data(), packing_.size());
  packing_ = {};
  Prepare(weight.data<int8_t>());
  MakeTable();
}

size_t IntegerProduct::AddWeights(int64_t numbers) {
  const size_t at = packing_.size();
  const auto bytes = static_cast<size_t>(CheckedMultiply<int64_t>(numbers, kernels_.staged_bytes));
  packing_.resize(CheckedAdd(at, bytes));
  return at;
}

void IntegerProduct::PutWeight(size_t at, int64_t number, int8_t value) {
  const int16_t wide = value;
  const auto size = static_cast<size_t>(kernels_.staged_bytes);
  std::byte* to = packing_.data() + at + static_cast<size_t>(number) * size;
  if (size == 1) {
    std::memcpy(to, &value, 1);
  } else {
    std::memcpy(to, &wide, 2);
  }
}

/// Run by run and step by step the neighbours of all channels of a panel; zeros fill the last step
/// of a run, so that what kernels read beyond it does not count.
void IntegerProduct::PackFilters(const int8_t* weight) {
  const int64_t group_out = out_ / groups_, step = kernels_.step;
  const int64_t together = kernels_.group == 0 ? step : kernels_.group;
  runs_ = neighbours_ ? height_ : height_ * width_;
  run_numbers_ = neighbours_ ? width_ * group_in_ : group_in_;
  run_steps_ = CeilDivide(run_numbers_, step);
  const int64_t padded_out = RoundUp(group_out, kernels_.lanes);
  for (int64_t group = 0; group < groups_; ++group) {
    for (int64_t first = 0; first < group_out; first += kernels_.panel) {
      Panel panel;
      panel.group = group;
      panel.channel = group * group_out + first;
      panel.padded = group * padded_out + first;
      panel.count = std::min<int64_t>(kernels_.panel, group_out - first);
      const int64_t wide = RoundUp(panel.count, kernels_.lanes);
      panel.weights = AddWeights(CheckedMultiply(CheckedMultiply(runs_, run_steps_), step * wide));
      for (int64_t c = 0; c < panel.count; ++c) {
        const int8_t* filter = weight + (panel.channel + c) * group_in_ * height_ * width_;
        for (int64_t i = 0; i < group_in_; ++i) {
          for (int64_t tap = 0; tap < height_ * width_; ++tap) {
            const int64_t run = neighbours_ ? tap / width_ : tap;
            const int64_t k = neighbours_ ? tap % width_ * group_in_ + i : i;
            const int64_t before = run * run_steps_ * step + k / together * together;
            const int64_t at = before * wide + c * together;
            PutWeight(panel.weights, at + k % together, filter[i * height_ * width_ + tap]);
          }
        }
      }
      panels_.push_back(panel);
    }
  }
}

void IntegerProduct::PackDepthwise(const int8_t* weight) {
  const int64_t rows = kernels_.depthwise_rows, row_groups = CeilDivide(height_, rows);
  const int64_t padded = RoundUp(out_, kernels_.depthwise_lanes);
  AddWeights(CheckedMultiply(CheckedMultiply(width_, row_groups), padded * rows));
  for (int64_t c = 0; c < out_; ++c) {
    for (int64_t y = 0; y < height_; ++y) {
      for (int64_t x = 0; x < width_; ++x) {
        PutWeight(0, ((x * row_groups + y / rows) * padded + c) * rows + y % rows,
                  weight[(c * height_ + y) * width_ + x]);
      }
    }
  }
}

/// Zero points of the input and of the addend are constants of each channel: they go into the first
/// value of the sums and into the bias. For bytes all is in steps of the output.
void IntegerProduct::Prepare(const int8_t* weight) {
  const int64_t group_out = out_ / groups_;
  const int64_t lanes = depthwise_ ? kernels_.depthwise_lanes : kernels_.lanes;
  const int64_t padded_out = depthwise_ ? RoundUp(out_, lanes) : RoundUp(group_out, lanes);
  const auto padded = static_cast<size_t>(depthwise_ ? padded_out : groups_ * padded_out);
  scale_.assign(padded, 0);
  bias_.assign(padded, 0);
  for (auto& starts : starts_) starts.assign(padded, 0);
  small_sums_ = kernels_.small_sums;
  fits_ = true;
  const int64_t terms = group_in_ * height_ * width_;
  for (int64_t c = 0; c < out_; ++c) {
    const auto at =
        static_cast<size_t>(depthwise_ ? c : c / group_out * padded_out + c % group_out);
    int64_t sum = 0, positive = 0;
    for (int64_t k = 0; k < terms; ++k) {
      sum += weight[c * terms + k];
      positive += std::max<int64_t>(weight[c * terms + k], 0);
    }
    const int64_t most = LargestSum(positive, positive - sum, numbers_.input.zero_point);
    small_sums_ = small_sums_ && most < int64_t{1} << 22;
    for (int is_signed = 0; is_signed < 2; ++is_signed) {
      int64_t zero_point = numbers_.input.zero_point;
      if (kernels_.staged_bytes == 1 && kernels_.staged_signed != (is_signed == 1)) {
        zero_point += is_signed == 1 ? 128 : -128;
      }
      starts_[is_signed][at] =
          static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(-zero_point * sum)));
    }
    scale_[at] = found_.scale[static_cast<size_t>(c)];
    bias_[at] = found_.bias[static_cast<size_t>(c)];
    fits_ = fits_ && std::fabs(static_cast<float>(most) * scale_[at]) + std::fabs(bias_[at]) +
                             256 * std::fabs(found_.addend_scale) <
                         0x1p30f;
  }
  found_.scale = found_.bias = {};
  if (small_sums_) {
    for (auto& starts : starts_) {
      for (int32_t& start : starts) {
        start = static_cast<int32_t>(static_cast<uint32_t>(start) + uint32_t{kSmallSums});
      }
    }
  }
  for (int i = 0; i < 2; ++i) {
    starts_are_zero_[i] =
        std::all_of(starts_[i].begin(), starts_[i].end(), [](int32_t start) { return start == 0; });
  }
}

bool IntegerProduct::Stages(const ConvGeometry& g, bool input_signed) const {
  const bool padded = g.axes[1].pad + g.axes[1].pad_after + g.axes[2].pad + g.axes[2].pad_after > 0;
  const bool beyond = depthwise_ ? out_ % kernels_.depthwise_lanes != 0
                                 : run_numbers_ % kernels_.step != 0 && !kernels_.finds_windows;
  return padded || beyond || kernels_.staged_bytes != 1 || kernels_.staged_signed != input_signed;
}

size_t IntegerProduct::Scratch(const ConvGeometry& g, bool input_signed) const {
  if (depthwise_ || winograd_ || !Stages(g, input_signed)) return 0;
  const int64_t height = g.axes[1].in + g.axes[1].pad + g.axes[1].pad_after;
  const int64_t width = g.axes[2].in + g.axes[2].pad + g.axes[2].pad_after;
  const int64_t numbers = CheckedMultiply(CheckedMultiply(height, width), g.in_channels);
  return CheckedAdd(static_cast<size_t>(CheckedMultiply<int64_t>(numbers, kernels_.staged_bytes)),
                    static_cast<size_t>(kBeyond));
}

/// Rows from `begin` to `end` of an image around which the zero point lies, as zeros lie around one
/// of numbers.
void IntegerProduct::StageRows(const ConvGeometry& g, bool input_signed, const std::byte* image,
                               int64_t begin, int64_t end, std::byte* staged) const {
  const ConvAxis &rows = g.axes[1], &columns = g.axes[2];
  const int64_t channels = g.in_channels, size = kernels_.staged_bytes;
  const int64_t width = columns.in + columns.pad + columns.pad_after;
  const auto zero_point = static_cast<uint8_t>(numbers_.input.zero_point);
  ScratchVector<uint8_t> zeros;
  const auto stage = [&](const void* from, int64_t count, std::byte* to) {
    if (count == 0) return;  // memory of none may be null
    kernels_.stage(from, input_signed, count, to);
  };
  const auto fill = [&](std::byte* to, int64_t count) {
    zeros.resize(static_cast<size_t>(count), zero_point);
    stage(zeros.data(), count, to);
  };
  for (int64_t y = begin; y < end; ++y, staged += width * channels * size) {
    if (y < rows.pad || y >= rows.pad + rows.in) {
      fill(staged, width * channels);
      continue;
    }
    fill(staged, columns.pad * channels);
    std::byte* to = staged + columns.pad * channels * size;
    stage(image + (y - rows.pad) * columns.in * channels, columns.in * channels, to);
    fill(to + columns.in * channels * size, columns.pad_after * channels);
  }
}

IntegerProduct::Image IntegerProduct::StageImage(const Context& context, const ConvGeometry& g,
                                                 const IntegerCall& call, const std::byte* image,
                                                 std::byte* staged) const {
  const ConvAxis &rows = g.axes[1], &columns = g.axes[2];
  const int64_t height = rows.in + rows.pad + rows.pad_after;
  const int64_t width = columns.in + columns.pad + columns.pad_after;
  const int64_t pixel_bytes = g.in_channels * kernels_.staged_bytes;
  const int64_t row_bytes = width * pixel_bytes;
  context.ParallelFor(height, 32768 / (row_bytes + 1) + 1, [&](int64_t begin, int64_t end) {
    StageRows(g, call.input_signed, image, begin, end, staged + begin * row_bytes);
  });
  return {staged, staged + height * row_bytes + kBeyond, row_bytes, pixel_bytes, width};
}

IntegerEpilogue IntegerProduct::Epilogue(const IntegerCall& call, int64_t place,
                                         int64_t padded) const {
  IntegerEpilogue epilogue;
  epilogue.scale = scale_.data() + padded;
  epilogue.bias = bias_.data() + padded;
  if (call.addend != nullptr) {
    epilogue.addend = static_cast<const std::byte*>(call.addend) + place;
    epilogue.addend_signed = call.addend_signed;
    epilogue.addend_stride = out_;
    epilogue.addend_scale = found_.addend_scale;
  }
  epilogue.low = found_.low;
  epilogue.high = found_.high;
  epilogue.zero_point = numbers_.output.zero_point;
  epilogue.small_sums = small_sums_;
  epilogue.fits = fits_;
  epilogue.result = numbers_.result == DType::kF32  ? IntegerResult::kF32
                    : numbers_.result == DType::kU8 ? IntegerResult::kU8
                                                    : IntegerResult::kI8;
  if (!direct()) epilogue.result = IntegerResult::kF32;
  epilogue.out = static_cast<std::byte*>(call.output) + place * result_bytes();
  epilogue.stride = out_;
  return epilogue;
}

/// Activations with exponentials cost more than most products: bytes of them are looked up. A step
/// of the result has at least eight of the table, so that no result is further off by more than a
/// fifteenth of its step; where that takes too large a table, there is none.
void IntegerProduct::MakeTable() {
  if (!HasExponentials(numbers_.activation.kind) || numbers_.result == DType::kF32) return;
  // Whatever instruction set multiplies, bytes are those of one.
  const QuantizeKernels& kernels = QuantizeKernelsFor(Isa::kScalar);
  const auto fill = [&](std::vector<float> values, uint8_t* bytes) {
    kernels.activate(numbers_.activation, values.data(), static_cast<int>(values.size()));
    kernels.quantize(values.data(), static_cast<int64_t>(values.size()),
                     1.0f / numbers_.output.scale, numbers_.output.zero_point,
                     LeastByte(numbers_.result), MostByte(numbers_.result), bytes);
  };
  // From where on the byte changes no more, by powers of 2^(1/4).
  const auto reach = [&](float sign) {
    std::vector<float> values;
    for (int i = 400; i > -80; --i) values.push_back(sign * std::exp2(static_cast<float>(i) / 4));
    std::vector<uint8_t> bytes(values.size());
    fill(values, bytes.data());
    size_t last = 1;
    while (last + 1 < bytes.size() && bytes[last] == bytes[0]) ++last;
    return std::fabs(values[last - 1]);
  };
  constexpr float kMostEntries = 30000, kFine = 16, kCoarse = 8;
  const float below = reach(-1), above = reach(1), step = numbers_.output.scale;
  table_inverse_ = std::min(kMostEntries / (below + above), kFine / step);
  if (table_inverse_ * step < kCoarse) return;
  table_low_ = -std::ceil(below * table_inverse_);
  table_high_ = std::ceil(above * table_inverse_);
  std::vector<float> values;
  for (float at = table_low_; at <= table_high_; ++at) values.push_back(at / table_inverse_);
  table_.resize(values.size());
  fill(std::move(values), table_.data());
}

/// Activates `count` numbers and makes results of them.
void IntegerProduct::Finish(float* values, int64_t count, std::byte* results) const {
  if (!table_.empty()) {
    return elements_.look_up(values, count, table_inverse_, table_low_, table_high_,
                             table_.data() - static_cast<std::ptrdiff_t>(table_low_),
                             reinterpret_cast<uint8_t*>(results));
  }
  elements_.activate(numbers_.activation, values, static_cast<int>(count));
  if (numbers_.result == DType::kF32) {
    std::memcpy(results, values, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  elements_.quantize(values, count, 1.0f / numbers_.output.scale, numbers_.output.zero_point,
                     LeastByte(numbers_.result), MostByte(numbers_.result), results);
}

/// The same of `rows` outputs with `width` channels each, of which `to` is the first.
void IntegerProduct::FinishRows(float* values, int64_t rows, int64_t width, std::byte* to) const {
  alignas(64) std::byte results[kFinishedWindows * kMostPanel * sizeof(float)];
  Finish(values, rows * width, results);
  const int64_t bytes = width * result_bytes(), stride = out_ * result_bytes();
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * stride, results + i * bytes, static_cast<size_t>(bytes));
  }
}

/// Outputs of one call of a kernel. Packed ones stay in the second cache, and where kernels can do
/// more than a few at a time, blocks are alike and as many as keep all threads busy.
int64_t IntegerProduct::BlockWindows(int64_t outputs, int threads) const {
  const int64_t most = direct() ? kernels_.block : std::min(kernels_.block, kFinishedWindows);
  if (kernels_.pack == nullptr) return most;
  const double part = kernels_.finds_windows ? 0.5 : 0.25;
  const int64_t packed = CacheBlock(kernels_.block_bytes, ThisMachine().l2, part);
  const int64_t fit = packed / (runs_ * run_steps_ * kernels_.step + 1);
  const int64_t tiles = std::clamp<int64_t>(fit / kernels_.pack_rows, 1, most / kernels_.pack_rows);
  if (!kernels_.finds_windows) return std::min(tiles * kernels_.pack_rows, outputs);
  int64_t blocks = CeilDivide(outputs, tiles * kernels_.pack_rows);
  const auto panels = static_cast<int64_t>(panels_.size());
  if (panels % threads != 0 && panels * blocks < 8 * threads) blocks = RoundUp(blocks, threads);
  return std::min(RoundUp(CeilDivide(outputs, blocks), kernels_.pack_rows), outputs);
}

size_t IntegerProduct::PackedBytes(int64_t windows) const {
  if (kernels_.pack == nullptr) return 0;
  const int64_t rows = RoundUp(windows, kernels_.pack_rows);
  const int64_t steps = runs_ * run_steps_;
  const int64_t all = CheckedMultiply(rows, steps * kernels_.step + kernels_.pack_head);
  // Units with such a head also keep where the steps of a window are, in whole lines of a cache.
  const int64_t head = kernels_.pack_head == 0 ? 0 : 16 * steps + 256;
  return static_cast<size_t>(all + head);
}

/// Where the windows of `count` outputs from `first` on begin.
void IntegerProduct::FindWindows(const ConvGeometry& g, const Image& image, int64_t group,
                                 int64_t first, int64_t count, const std::byte** windows) const {
  const ConvAxis &rows = g.axes[1], &columns = g.axes[2];
  const std::byte* origin = image.first + group * group_in_ * kernels_.staged_bytes;
  int64_t y = first / columns.out, x = first % columns.out;
  for (int64_t i = 0; i < count; ++y, x = 0) {
    const std::byte* row = origin + y * rows.stride * image.row_bytes;
    for (; x < columns.out && i < count; ++x, ++i) {
      windows[i] = row + x * columns.stride * image.pixel_bytes;
    }
  }
}

void IntegerProduct::RunFilters(const Context& context, const ConvGeometry& g, const Image& image,
                                const IntegerCall& call, int64_t n) const {
  const ConvAxis &rows = g.axes[1], &columns = g.axes[2];
  ScratchVector<int64_t> runs(static_cast<size_t>(runs_));
  for (int64_t run = 0; run < runs_; ++run) {
    const int64_t y = neighbours_ ? run : run / width_, x = neighbours_ ? 0 : run % width_;
    runs[static_cast<size_t>(run)] =
        y * rows.dilation * image.row_bytes + x * columns.dilation * image.pixel_bytes;
  }
  const int64_t outputs = g.out_plane(), block = BlockWindows(outputs, context.threads());
  const int64_t blocks = CeilDivide(outputs, block);
  const int64_t work =
      std::min(outputs, block) * kernels_.panel * runs_ * run_steps_ * kernels_.step;
  const auto panels = static_cast<int64_t>(panels_.size());
  context.ParallelFor(panels * blocks, 200000 / (work + 1) + 1, [&](int64_t begin, int64_t end) {
    const std::byte* windows[kMostIntegerBlock];
    ScratchBytes packed(PackedBytes(block));
    const std::vector<int32_t>& starts = starts_[call.input_signed ? 1 : 0];
    int64_t packed_block = -1, packed_group = -1;
    for (int64_t task = begin; task < end; ++task) {
      // Where windows are packed, all panels of a block follow each other, else all blocks of a
      // panel.
      const bool packs = kernels_.pack != nullptr;
      const Panel& panel = panels_[static_cast<size_t>(packs ? task % panels : task / blocks)];
      const int64_t at = packs ? task / panels : task % blocks;
      const int64_t first = at * block, count = std::min(block, outputs - first);
      const int64_t place = (n * outputs + first) * out_ + panel.channel;
      IntegerWindows job{.windows = windows,
                         .count = count,
                         .runs = runs.data(),
                         .run_count = runs_,
                         .run_steps = run_steps_,
                         .run_numbers = run_numbers_,
                         .first = first,
                         .columns = columns.out,
                         .distance = columns.stride * image.pixel_bytes,
                         .row_distance = rows.stride * image.row_bytes,
                         .image = image.first + panel.group * group_in_ * kernels_.staged_bytes,
                         .image_end = image.end,
                         .outputs = out_ / groups_,
                         .packed = packed.data(),
                         .weights = packed_.raw() + panel.weights,
                         .starts = starts.data() + panel.padded,
                         .starts_are_zero = starts_are_zero_[call.input_signed ? 1 : 0],
                         .channels = panel.count,
                         .epilogue = Epilogue(call, place, panel.padded)};
      if (!packs || at != packed_block || panel.group != packed_group) {
        if (!kernels_.finds_windows) FindWindows(g, image, panel.group, first, count, windows);
        if (packs) kernels_.pack(job, packed.data());
        packed_block = at;
        packed_group = panel.group;
      }
      if (direct()) {
        kernels_.product(job);
        continue;
      }
      alignas(64) float values[kFinishedWindows * kMostPanel];
      job.epilogue.out = values;
      job.epilogue.stride = panel.count;
      kernels_.product(job);
      FinishRows(values, count, panel.count,
                 static_cast<std::byte*>(call.output) + place * result_bytes());
    }
  });
}

/// Band by band of rows: what is staged of an image stays in the second cache, which a whole image
/// might leave.
void IntegerProduct::RunDepthwise(const Context& context, const ConvGeometry& g,
                                  const std::byte* from, const IntegerCall& call, int64_t n) const {
  const ConvAxis &rows = g.axes[1], &columns = g.axes[2];
  const int64_t touched = (columns.out - 1) * columns.stride + columns.reach();
  const int64_t scratch = RoundUp(DepthwiseScratch(kernels_, touched, height_), kBeyond);
  const int64_t row = columns.out * out_;
  const bool stages = Stages(g, call.input_signed);
  const int64_t width = stages ? columns.in + columns.pad + columns.pad_after : columns.in;
  const int64_t row_bytes = width * out_ * (stages ? kernels_.staged_bytes : 1);
  int64_t band = (kBandBytes / row_bytes - rows.reach()) / rows.stride + 1;
  band = std::clamp<int64_t>(band, 1, CeilDivide(rows.out, context.threads()));
  const int64_t staged = stages ? ((band - 1) * rows.stride + rows.reach()) * row_bytes : 0;
  const int64_t grain = 65536 / (row * height_ * band + 1) + 1;
  context.ParallelFor(CeilDivide(rows.out, band), grain, [&](int64_t begin, int64_t end) {
    ScratchBytes memory(static_cast<size_t>(scratch + staged) + 2 * static_cast<size_t>(kBeyond));
    std::byte* interleaved = memory.data();
    interleaved += -reinterpret_cast<uintptr_t>(interleaved) % kBeyond;  // whole lines of a cache
    std::byte* staging = interleaved + scratch;
    ScratchVector<float> values(static_cast<size_t>(direct() ? 0 : row));
    const int64_t last = std::min(end * band, rows.out);
    for (int64_t y = begin * band; y < last; ++y) {
      const int64_t first = y / band * band;  // of this band
      if (y == first && stages) {
        const int64_t count = std::min(band, last - first);
        StageRows(g, call.input_signed, from, first * rows.stride,
                  (first + count - 1) * rows.stride + rows.reach(), staging);
      }
      const std::byte* image = stages ? staging + (y - first) * rows.stride * row_bytes
                                      : from + y * rows.stride * row_bytes;
      const int64_t place = (n * rows.out + y) * row;
      IntegerDepthwise job{.image = image,
                           .row_bytes = rows.dilation * row_bytes,
                           .columns = touched,
                           .kernel_height = height_,
                           .kernel_width = width_,
                           .stride = columns.stride,
                           .dilation = columns.dilation,
                           .channels = out_,
                           .count = columns.out,
                           .weights = packed_.raw(),
                           .starts = starts_[call.input_signed ? 1 : 0].data(),
                           .scratch = interleaved,
                           .epilogue = Epilogue(call, place, 0)};
      if (!direct()) job.epilogue.out = values.data();
      kernels_.depthwise(job);
      if (direct()) continue;
      Finish(values.data(), row, static_cast<std::byte*>(call.output) + place * result_bytes());
    }
  });
}

void IntegerProduct::Run(const Context& context, const ConvGeometry& g,
                         const IntegerCall& call) const {
  if (g.out_plane() == 0) return;  // no rows: there may be no memory to read, either
  const int64_t image_bytes = g.in_plane() * g.in_channels;
  const bool stages = !winograd_ && Stages(g, call.input_signed);
  const std::byte* end = static_cast<const std::byte*>(call.input) + g.batch * image_bytes;
  for (int64_t n = 0; n < g.batch; ++n) {
    const std::byte* from = static_cast<const std::byte*>(call.input) + n * image_bytes;
    if (depthwise_) {
      RunDepthwise(context, g, from, call, n);
      continue;
    }
    if (winograd_) {
      RunWinograd(context, g, from, call, n);
      continue;
    }
    const Image image =
        stages ? StageImage(context, g, call, from, context.workspace())
               : Image{from, end, g.axes[2].in * g.in_channels, g.in_channels, g.axes[2].in};
    RunFilters(context, g, image, call, n);
  }
}

}  // namespace oort
