// SPDX-License-Identifier: MIT
// Every tile of convolutions of bytes, and every split, gives the bits of the plain kernel, which
// the tests of nhwc.IntegerConv2d hold against the CPU.
#include "layers/quantize/cuda/byte_conv.h"

#include <cstring>

#include "device_case.h"

namespace oort::cuda {
namespace {

struct ByteCase {
  int batch, height, width, channels, filters;  // of one group
  int kernel, stride, pad, dilation, groups;
  bool in_signed = false, addend = false, bytes = true;
  Activation activation = Activation::kNone;
  bool no_zero_point = false;
  bool pairs = false;  // of pixels: a window is 4 of them wide, which are walked one by one
};

template <typename T>
Tensor RandomIntegers(DType dtype, int64_t count, unsigned seed, int low, int high) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> draw(low, high);
  Tensor tensor(dtype, {count});
  for (int64_t i = 0; i < count; ++i) tensor.data<T>()[i] = static_cast<T>(draw(random));
  return tensor;
}

class ByteFixture {
 public:
  explicit ByteFixture(const ByteCase& test) : stream_(0) {
    const auto walk = [&](int in) {
      const int out = (in + 2 * test.pad - test.dilation * (test.kernel - 1) - 1) / test.stride + 1;
      return ConvWalk{in, out, test.kernel, test.stride, test.dilation, test.pad};
    };
    call.batch = test.batch;
    call.height = walk(test.height);
    call.width = walk(test.width);
    if (test.pairs) call.width = {test.width, test.width + 2 * test.pad - 3, 4, 1, 1, test.pad};
    call.groups = test.groups;
    call.channels = call.tap_channels = test.channels;
    call.filters = test.filters;
    call.in_pixel = int64_t{test.channels} * test.groups;
    call.out_pixel = int64_t{test.filters} * test.groups;
    call.in_image = call.in_pixel * test.height * test.width;
    call.out_image = call.out_pixel * call.height.out * call.width.out;
    call.depth = (call.taps() * test.channels + 15) / 16 * 16;
    call.in_signed = test.in_signed;
    call.zero_point = test.no_zero_point ? 0 : test.in_signed ? -9 : 117;
    in_ = Keep(RandomIntegers<uint8_t>(DType::kU8, call.batch * call.in_image, 1, 0, 255));
    call.in = in_.raw();
    PackFilters();
    SetEpilogue(test);
  }

  void Expect(const BytePlan& plan) {
    SCOPED_TRACE("tile " + std::to_string(plan.tile) + ", splits " + std::to_string(plan.splits));
    for (int run = 0; run < 2; ++run) {
      stream_.Fill(out_.raw(), 0xee, out_.bytes());
      ConvolveBytes(stream_, call, plan);
      ASSERT_EQ(Bits(), expected_);
    }
  }

  ByteConvCall call;

 private:
  Tensor Keep(const Tensor& host) { return ToDevice(host, Device::Cuda(0)); }

  /// Filters as tiles read them, their sums, and what the zero point adds.
  void PackFilters() {
    const int padded = call.padded_filters(), all = padded * call.groups;
    const int kernel = call.height.kernel, along = call.width.kernel;
    const int64_t terms = call.taps() * call.channels;
    const Tensor drawn =
        RandomIntegers<int8_t>(DType::kI8, call.groups * call.filters * terms, 2, -128, 127);
    Tensor packed = Tensor::Zeros(DType::kI8, {all * call.depth});
    Tensor sums = Tensor::Zeros(DType::kI32, {int64_t{kernel + 1} * (along + 1) * all});
    Tensor starts = Tensor::Zeros(DType::kI32, {all});
    for (int f = 0; f < call.groups * call.filters; ++f) {
      const int group = f / call.filters, in = f % call.filters, place = group * padded + in;
      const int8_t* filter = drawn.data<int8_t>() + f * terms;
      std::memcpy(packed.data<int8_t>() + (group * padded + PlaceOfFilter(in)) * call.depth, filter,
                  static_cast<size_t>(terms));
      const auto at = [&](int r, int s) -> int& {
        return sums.data<int32_t>()[int64_t{r * (along + 1) + s} * all + place];
      };
      for (int r = 1; r <= kernel; ++r) {
        for (int s = 1; s <= along; ++s) {
          int here = 0;
          for (int c = 0; c < call.channels; ++c) {
            here += filter[((r - 1) * along + s - 1) * call.channels + c];
          }
          at(r, s) = here + at(r - 1, s) + at(r, s - 1) - at(r - 1, s - 1);
        }
      }
      const int zero_point = call.zero_point + (call.in_signed ? 128 : 0);
      starts.data<int32_t>()[place] = -zero_point * at(kernel, along);
    }
    weight_ = Keep(packed);
    sums_ = Keep(sums);
    starts_ = Keep(starts);
    call.weight = weight_.raw();
    call.epilogue.starts = starts_.data<int32_t>();
    if (call.height.pad > 0) {
      call.padding = {call.zero_point, sums_.data<int32_t>(), all, call.height, call.width};
    }
  }

  /// Numbers of filters are the same in all groups, so that padded and other places agree.
  void SetEpilogue(const ByteCase& test) {
    const int padded = call.padded_filters();
    const float factor = 60.0f / (128 * 74 * std::sqrt(static_cast<float>(call.depth)));
    Tensor scale(DType::kF32, {int64_t{padded} * call.groups});
    Tensor bias(DType::kF32, {int64_t{padded} * call.groups});
    for (int i = 0; i < padded * call.groups; ++i) {
      scale.data<float>()[i] = factor * static_cast<float>(1 + i % padded % 7 * 0.1);
      bias.data<float>()[i] = static_cast<float>(i % padded % 5) - 2.3f;
    }
    // The plain kernel has no padded places.
    Tensor own_scale(DType::kF32, {int64_t{call.filters} * call.groups});
    Tensor own_bias(DType::kF32, {int64_t{call.filters} * call.groups});
    for (int f = 0; f < call.filters * call.groups; ++f) {
      const int place = f / call.filters * padded + f % call.filters;
      own_scale.data<float>()[f] = scale.data<float>()[place];
      own_bias.data<float>()[f] = bias.data<float>()[place];
    }
    numbers_ = {Keep(scale), Keep(bias), Keep(own_scale), Keep(own_bias)};
    const int64_t results = call.rows() * call.out_pixel;
    if (test.addend) {
      addend_ = Keep(RandomIntegers<uint8_t>(DType::kU8, results, 3, 0, 255));
      call.epilogue.addend = addend_.raw();
      call.epilogue.addend_scale = 0.13f;
      call.epilogue.addend_signed = test.in_signed;
    }
    call.epilogue.least = test.in_signed ? -128 : 0;
    // Odd and even ones are rounded in different ways.
    call.epilogue.zero_point = (test.in_signed ? -7 : 101) + (test.addend ? 1 : 0);
    call.epilogue.low = static_cast<float>(call.epilogue.least - call.epilogue.zero_point);
    call.epilogue.high = 120;
    if (test.stride == 2) call.epilogue.low = -99;
    call.epilogue.bytes = test.bytes;
    call.epilogue.activated = test.activation != Activation::kNone;
    call.epilogue.activation = test.activation;
    call.epilogue.inverse = 1.7f;
    out_ = Poisoned(stream_, test.bytes ? DType::kU8 : DType::kF32, {results});
    call.out = out_.raw();
    call.epilogue.scale = numbers_[2].data<float>();
    call.epilogue.bias = numbers_[3].data<float>();
    ConvolveBytesPlain(stream_, call);
    expected_ = Bits();
    call.epilogue.scale = numbers_[0].data<float>();
    call.epilogue.bias = numbers_[1].data<float>();
  }

  std::vector<std::byte> Bits() {
    stream_.Synchronize();
    const Tensor host = ToHost(out_);
    return {host.raw(), host.raw() + host.bytes()};
  }

  Stream stream_;
  Tensor in_, weight_, sums_, starts_, addend_, out_;
  std::vector<Tensor> numbers_;
  std::vector<std::byte> expected_;
};

void ExpectAllTiles(const ByteCase& test) {
  ByteFixture fixture(test);
  ASSERT_TRUE(ConvolvesBytes(fixture.call));
  int plans = 0;
  for (size_t tile = 0; tile < ByteTiles().size(); ++tile) {
    for (int splits : {1, 2, 3, 4, 8}) {
      const BytePlan plan = {static_cast<int>(tile), splits};
      if (!BytePlanFits(fixture.call, plan, 0)) continue;
      fixture.Expect(plan);
      ++plans;
    }
  }
  EXPECT_GT(plans, 1);
  fixture.Expect(ChooseBytePlan(fixture.call, 0));
}

TEST(CudaByteConv, TilesAreThePlainKernel) {
  OORT_SKIP_WITHOUT_GPU();
  ExpectAllTiles({1, 13, 11, 64, 96, 1, 1, 0, 1, 1});
  ExpectAllTiles({2, 13, 11, 64, 96, 3, 1, 1, 1, 1});
  ExpectAllTiles({2, 15, 16, 16, 33, 3, 2, 1, 1, 1});
  ExpectAllTiles({1, 19, 18, 32, 40, 3, 1, 2, 2, 1});
  ExpectAllTiles({1, 9, 7, 256, 130, 3, 1, 1, 1, 1});
  ExpectAllTiles({3, 7, 7, 512, 72, 1, 1, 0, 1, 1});
}

TEST(CudaByteConv, TilesTakeWordsAndGroups) {
  OORT_SKIP_WITHOUT_GPU();
  ExpectAllTiles({2, 21, 24, 4, 64, 7, 2, 3, 1, 1});
  ExpectAllTiles({2, 21, 24, 8, 64, 7, 1, 3, 1, 1});
  ExpectAllTiles({1, 10, 9, 24, 144, 1, 1, 0, 1, 1});
  ExpectAllTiles({1, 10, 9, 12, 20, 3, 1, 1, 1, 3});
  ExpectAllTiles({2, 8, 9, 32, 32, 3, 1, 1, 1, 4});
}

TEST(CudaByteConv, TilesAddAndActivate) {
  OORT_SKIP_WITHOUT_GPU();
  for (const bool is_signed : {false, true}) {
    for (const bool bytes : {true, false}) {
      for (const Activation activation : {Activation::kNone, Activation::kHardswish}) {
        for (const int filters : {64, 30}) {
          ByteCase test{1, 11, 12, 128, filters, 3, 1, 1, 1, 1};
          test.in_signed = is_signed;
          test.bytes = bytes;
          test.activation = activation;
          test.addend = filters == 64;
          ExpectAllTiles(test);
        }
      }
    }
  }
}

/// Blocks that stay take several tiles each, by turns of two warpgroups.
TEST(CudaByteConv, TilesTakeTurns) {
  OORT_SKIP_WITHOUT_GPU();
  for (const bool addend : {false, true}) {
    for (ByteCase test :
         {ByteCase{9, 61, 59, 64, 144, 1, 1, 0, 1, 1}, ByteCase{9, 61, 59, 192, 144, 1, 1, 0, 1, 1},
          ByteCase{5, 45, 43, 128, 80, 3, 1, 1, 1, 1}, ByteCase{5, 45, 43, 48, 64, 3, 1, 2, 2, 1},
          ByteCase{12, 45, 43, 160, 256, 3, 2, 1, 1, 1}}) {
      test.addend = addend;
      test.no_zero_point = test.pad > 0;
      ExpectAllTiles(test);
    }
  }
}

TEST(CudaByteConv, TilesTakePairsOfPixels) {
  OORT_SKIP_WITHOUT_GPU();
  for (const int filters : {64, 40, 96}) {
    for (const int pad : {0, 3}) {
      ByteCase test{2, 31, 23, 8, filters, 7, 2, pad, 1, 1};
      test.pairs = true;
      test.no_zero_point = pad > 0;
      ExpectAllTiles(test);
    }
  }
}

/// A zero point of 0 leaves nothing to do for padding.
TEST(CudaByteConv, TilesPadWithZeros) {
  OORT_SKIP_WITHOUT_GPU();
  for (const bool is_signed : {false, true}) {
    ByteCase test{2, 12, 12, 64, 64, 3, 1, 1, 1, 1};
    test.in_signed = is_signed;
    test.addend = test.no_zero_point = true;
    ExpectAllTiles(test);
  }
}

}  // namespace
}  // namespace oort::cuda
