// SPDX-License-Identifier: MIT
#include "layers/spectral/fft_butterfly.h"
#include "layers/spectral/fft_moves.h"

namespace oort::OORT_ISA {
namespace {

template <typename V, typename T, int radix>
inline void Butterfly(ComplexVec<V>* x) {
  if constexpr (radix == 2) Butterfly2<V, T>(x);
  if constexpr (radix == 3) Butterfly3<V, T>(x);
  if constexpr (radix == 4) Butterfly4<V, T>(x);
  if constexpr (radix == 5) Butterfly5<V, T>(x);
  if constexpr (radix == 8) Butterfly8<V, T>(x);
}

/// One butterfly over the elements p[0], p[step], …; factors only where there are any.
template <typename V, typename T, int radix, bool turned>
inline void Step(T* p, int64_t step, const T* twiddles) {
  ComplexVec<V> x[radix];
  x[0] = LoadComplex<V>(p);
  for (int k = 1; k < radix; ++k) {
    x[k] = LoadComplex<V>(p + k * step);
    if constexpr (turned) x[k] = x[k] * SpreadComplex<V>(twiddles + 2 * (k - 1));
  }
  Butterfly<V, T, radix>(x);
  for (int k = 0; k < radix; ++k) StoreComplex(x[k], p + k * step);
}

template <typename V, typename T, int radix>
void RunStage(const FftStage& stage, int64_t length, const T* table, T* block) {
  constexpr int64_t kItem = 2 * V::kWidth;
  const int64_t step = stage.span * kItem;
  T* const end = block + length * kItem;
  for (T* p = block; p < end; p += radix * step) {
    // The first element of a transform has factors of 1.
    Step<V, T, radix, false>(p, step, nullptr);
    const T* twiddles = table + stage.twiddles;
    for (int64_t j = 1; j < stage.span; ++j) {
      twiddles += 2 * (radix - 1);
      Step<V, T, radix, true>(p + j * kItem, step, twiddles);
    }
  }
}

template <typename V, typename T>
void RunOddStage(const FftStage& stage, int64_t length, const T* table, T* block) {
  constexpr int64_t kItem = 2 * V::kWidth;
  const int64_t step = stage.span * kItem;
  T* const end = block + length * kItem;
  ComplexVec<V> x[kFftMaxRadix];
  for (T* p = block; p < end; p += stage.radix * step) {
    const T* twiddles = table + stage.twiddles;
    for (int64_t j = 0; j < stage.span; ++j) {
      T* const first = p + j * kItem;
      x[0] = LoadComplex<V>(first);
      for (int k = 1; k < stage.radix; ++k, twiddles += 2) {
        x[k] = LoadComplex<V>(first + k * step) * SpreadComplex<V>(twiddles);
      }
      ButterflyOdd<V, T>(x, stage.radix, table + stage.roots);
      for (int k = 0; k < stage.radix; ++k) StoreComplex(x[k], first + k * step);
    }
  }
}

template <typename V, typename T>
void RunStages(const FftProgram<T>& program, T* block) {
  for (int i = 0; i < program.stage_count; ++i) {
    const FftStage& stage = program.stages[i];
    switch (stage.radix) {
      case 2: RunStage<V, T, 2>(stage, program.length, program.table, block); break;
      case 3: RunStage<V, T, 3>(stage, program.length, program.table, block); break;
      case 4: RunStage<V, T, 4>(stage, program.length, program.table, block); break;
      case 5: RunStage<V, T, 5>(stage, program.length, program.table, block); break;
      case 8: RunStage<V, T, 8>(stage, program.length, program.table, block); break;
      default: RunOddStage<V, T>(stage, program.length, program.table, block); break;
    }
  }
}

/// With jk = (j² + k² - (k-j)²) / 2 a transform is a convolution with a chirp.
template <typename V, typename T>
void Convolve(const FftProgram<T>& program, T* block, T* scratch) {
  constexpr int64_t kItem = 2 * V::kWidth;
  const FftProgram<T>& inner = *program.inner;
  T* const other = scratch + inner.length * kItem;
  const ComplexVec<V> zero = {V::Zero(), V::Zero()};
  for (int64_t j = 0; j < inner.length; ++j) {
    T* const to = scratch + inner.order[j] * kItem;
    if (j < program.length) {
      StoreComplex(LoadComplex<V>(block + j * kItem) * SpreadComplex<V>(program.chirp + 2 * j), to);
    } else {
      StoreComplex(zero, to);
    }
  }
  RunStages<V, T>(inner, scratch);
  // A transform of conjugates is the conjugate of the inverse transform.
  for (int64_t j = 0; j < inner.length; ++j) {
    const ComplexVec<V> product =
        LoadComplex<V>(scratch + j * kItem) * SpreadComplex<V>(program.spectrum + 2 * j);
    StoreComplex(Conjugate(product), other + inner.order[j] * kItem);
  }
  RunStages<V, T>(inner, other);
  for (int64_t k = 0; k < program.length; ++k) {
    const ComplexVec<V> sum = Conjugate(LoadComplex<V>(other + k * kItem));
    StoreComplex(sum * SpreadComplex<V>(program.chirp + 2 * k), block + k * kItem);
  }
}

template <typename V, typename T>
void Transform(const FftProgram<T>& program, T* block, T* scratch) {
  if (program.inner != nullptr) {
    Convolve<V, T>(program, block, scratch);
  } else {
    RunStages<V, T>(program, block);
  }
}

template <typename V, typename T>
void SplitReal(T* block, int64_t h, const T* turns) {
  constexpr int64_t kItem = 2 * V::kWidth;
  const ComplexVec<V> first = LoadComplex<V>(block);
  StoreComplex<V, T>({first.re + first.im, V::Zero()}, block);
  StoreComplex<V, T>({first.re - first.im, V::Zero()}, block + h * kItem);
  const V half = V::Broadcast(T(0.5));
  for (int64_t k = 1; 2 * k <= h; ++k) {
    T *const low = block + k * kItem, *const high = block + (h - k) * kItem;
    const ComplexVec<V> a = LoadComplex<V>(low), b = Conjugate(LoadComplex<V>(high));
    const ComplexVec<V> even = {half * (a.re + b.re), half * (a.im + b.im)};
    const ComplexVec<V> odd = Quarter(ComplexVec<V>{half * (a.re - b.re), half * (a.im - b.im)});
    const ComplexVec<V> turned = odd * Conjugate(SpreadComplex<V>(turns + 2 * k));
    StoreComplex(Conjugate(even - turned), high);
    StoreComplex(even + turned, low);
  }
}

template <typename V, typename T>
void JoinReal(T* block, int64_t h, const int32_t* order, const T* turns) {
  constexpr int64_t kItem = 2 * V::kWidth;
  const V a = V::Load(block), b = V::Load(block + h * kItem);
  StoreComplex<V, T>({a + b, b - a}, block);
  for (int64_t k = 1; 2 * k <= h; ++k) {
    T* const low = block + (order != nullptr ? order[k] : k) * kItem;
    T* const high = block + (order != nullptr ? order[h - k] : h - k) * kItem;
    const ComplexVec<V> x = LoadComplex<V>(low), y = Conjugate(LoadComplex<V>(high));
    const ComplexVec<V> even = x + y;
    const ComplexVec<V> turned = Quarter((x - y) * SpreadComplex<V>(turns + 2 * k));
    StoreComplex(even + turned, high);
    StoreComplex(Conjugate(even - turned), low);
  }
}

template <typename V, typename T>
void Rotate(T* block, int64_t count, const FftRotation<T>& rotation) {
  constexpr int64_t kItem = 2 * V::kWidth;
  const int lanes = rotation.lane_count;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t at = k * rotation.step;
    const ComplexVec<V> factor = {V::LoadPartial(rotation.re + at, lanes),
                                  V::LoadPartial(rotation.im + at, lanes)};
    StoreComplex(LoadComplex<V>(block + k * kItem) * factor, block + k * kItem);
  }
}

template <typename V, typename T>
constexpr FftLaneKernels<T> MakeFftKernels() {
  return {.lanes = V::kWidth,
          .load = LoadBlock<V, T>,
          .transform = Transform<V, T>,
          .split_real = SplitReal<V, T>,
          .join_real = JoinReal<V, T>,
          .rotate = Rotate<V, T>,
          .store = StoreBlock<V, T>};
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(FftKernels, {.f32 = OORT_ISA::MakeFftKernels<OORT_ISA::Vec, float>(),
                                 .f64 = OORT_ISA::MakeFftKernels<OORT_ISA::DoubleVec, double>()})
