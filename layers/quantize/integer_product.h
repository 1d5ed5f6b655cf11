// SPDX-License-Identifier: MIT
// Convolutions of bytes with bytes: (…, H, W, C) of u8 or i8 times filters of i8, summed in s32.
#pragma once

#include <vector>

#include "layers/convolution/conv_geometry.h"
#include "layers/quantize/integer_kernels.h"
#include "layers/quantize/integer_numbers.h"
#include "layers/quantize/quantize_kernels.h"

namespace oort {

/// One call.
struct IntegerCall {
  const void* input;
  bool input_signed;
  const void* addend = nullptr;  ///< like the output, but bytes
  bool addend_signed = false;
  void* output;
};

/// What the packing of weights depends on.
struct IntegerForm {
  int64_t groups = 1;
  /// Pixels of a window's row lie side by side, because nothing is dilated.
  bool neighbours = true;
  /// Windows do, too, and Winograd's tiles may be taken.
  bool winograd = false;
};

class IntegerProduct {
 public:
  /// `weight` is i8 (out, in / groups, height, width), `scales` f32 (out), `bias` f32 (out) or
  /// undefined.
  IntegerProduct(Isa isa, const Tensor& weight, const Tensor& scales, const Tensor& bias,
                 const IntegerForm& form, const IntegerScales& numbers);

  /// Bytes of scratch for images of this geometry.
  size_t Scratch(const ConvGeometry& g, bool input_signed) const;
  void Run(const Context& context, const ConvGeometry& g, const IntegerCall& call) const;
  bool winograd() const { return winograd_; }

 private:
  /// An image as kernels read it.
  struct Image {
    const std::byte* first;  // number under the first window
    const std::byte* end;
    int64_t row_bytes, pixel_bytes, width;
  };
  struct Panel {
    int64_t channel, padded;  // of the results, and in arrays that are padded
    int64_t count;
    size_t weights;  // where among those that are packed
    int64_t group;
  };

  void PackFilters(const int8_t* weight);
  void PackDepthwise(const int8_t* weight);
  void PackWinograd(const int8_t* weight);
  void Prepare(const int8_t* weight);
  size_t AddWeights(int64_t numbers);
  void PutWeight(size_t at, int64_t number, int8_t value);
  bool Stages(const ConvGeometry& g, bool input_signed) const;
  void StageRows(const ConvGeometry& g, bool input_signed, const std::byte* image, int64_t begin,
                 int64_t end, std::byte* staged) const;
  Image StageImage(const Context& context, const ConvGeometry& g, const IntegerCall& call,
                   const std::byte* image, std::byte* staged) const;
  int64_t BlockWindows(int64_t outputs, int threads) const;
  size_t PackedBytes(int64_t windows) const;
  void FindWindows(const ConvGeometry& g, const Image& image, int64_t group, int64_t first,
                   int64_t count, const std::byte** windows) const;
  void RunFilters(const Context& context, const ConvGeometry& g, const Image& image,
                  const IntegerCall& call, int64_t n) const;
  void RunWinograd(const Context& context, const ConvGeometry& g, const std::byte* from,
                   const IntegerCall& call, int64_t n) const;
  void MultiplyTiles(const IntegerWinograd& job, std::byte* output) const;
  void RunDepthwise(const Context& context, const ConvGeometry& g, const std::byte* from,
                    const IntegerCall& call, int64_t n) const;
  IntegerEpilogue Epilogue(const IntegerCall& call, int64_t place, int64_t padded) const;
  void MakeTable();
  void Finish(float* values, int64_t count, std::byte* results) const;
  void FinishRows(float* values, int64_t rows, int64_t width, std::byte* to) const;
  /// Whether the kernels make the results; else they leave numbers to Finish.
  bool direct() const { return found_.direct; }
  /// Outputs of one call of a kernel that leaves them to Finish, and channels of any panel.
  static constexpr int64_t kFinishedWindows = 96, kMostPanel = 64;
  int64_t result_bytes() const { return numbers_.result == DType::kF32 ? 4 : 1; }

  const IntegerKernels& kernels_;
  const QuantizeKernels& elements_;
  IntegerScales numbers_;
  int64_t out_, group_in_, height_, width_, groups_;
  bool depthwise_, neighbours_, winograd_, small_sums_ = false, fits_ = false;
  IntegerNumbers found_;  // whose arrays are let go of for padded ones
  int64_t run_numbers_ = 0, run_steps_ = 0, runs_ = 0;
  std::vector<Panel> panels_;
  std::vector<std::byte> packing_;  // while the constructor runs
  Tensor packed_;                   // the same, aligned to the lines of a cache
  std::vector<int32_t> starts_[2];  // for u8 and for i8
  bool starts_are_zero_[2] = {};
  std::vector<float> scale_, bias_;
  // The byte of the activation of each number from `table_low_` to `table_high_` in steps of which
  // `table_inverse_` make 1; empty where activations are computed.
  std::vector<uint8_t> table_;
  float table_inverse_ = 0, table_low_ = 0, table_high_ = 0;
};

}  // namespace oort
