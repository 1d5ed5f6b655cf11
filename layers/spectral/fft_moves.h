// SPDX-License-Identifier: MIT
// From lines in memory to the lanes of a block and back. Only for *.simd.cpp files.
#pragma once

#include <utility>

#include "layers/spectral/fft_butterfly.h"

namespace oort::OORT_ISA {

/// Shuffles of vectors of T, as many as V has lanes.
template <typename V, typename T>
struct Shuffles {
  static constexpr int kWidth = V::kWidth;
  typedef T Raw __attribute__((vector_size(sizeof(T) * V::kWidth)));
  using Lanes = std::make_integer_sequence<int, kWidth>;

  static Raw Load(const T* p) {
    Raw raw;
    __builtin_memcpy(&raw, p, sizeof(raw));
    return raw;
  }
  static void Store(Raw raw, T* p) { __builtin_memcpy(p, &raw, sizeof(raw)); }
  static V ToVec(Raw raw) {
    V vec;
    __builtin_memcpy(&vec.v, &raw, sizeof(raw));
    return vec;
  }
  static Raw FromVec(V vec) {
    Raw raw;
    __builtin_memcpy(&raw, &vec.v, sizeof(raw));
    return raw;
  }

  // Real and imaginary parts of the pairs in two vectors, and the way back.
  template <int... l>
  static Raw Even(Raw a, Raw b, std::integer_sequence<int, l...>) {
    return __builtin_shufflevector(a, b, 2 * l...);
  }
  template <int... l>
  static Raw Odd(Raw a, Raw b, std::integer_sequence<int, l...>) {
    return __builtin_shufflevector(a, b, 2 * l + 1 ...);
  }
  template <int first, int... l>
  static Raw Zip(Raw a, Raw b, std::integer_sequence<int, l...>) {
    return __builtin_shufflevector(a, b, (first + l / 2 + l % 2 * kWidth)...);
  }

  /// Exchanges the blocks of `size` beside the diagonal, for sizes 1, 2, 4, …
  template <int size = 1>
  static void Transpose(Raw* rows) {
    if constexpr (size < kWidth) {
      for (int i = 0; i < kWidth; ++i) {
        if ((i & size) != 0) continue;
        const Raw a = rows[i], b = rows[i | size];
        rows[i] = Upper<size>(a, b, Lanes{});
        rows[i | size] = Lower<size>(a, b, Lanes{});
      }
      Transpose<2 * size>(rows);
    }
  }

 private:
  template <int size, int... l>
  static Raw Upper(Raw a, Raw b, std::integer_sequence<int, l...>) {
    return __builtin_shufflevector(a, b, ((l & size) != 0 ? kWidth + (l ^ size) : l)...);
  }
  template <int size, int... l>
  static Raw Lower(Raw a, Raw b, std::integer_sequence<int, l...>) {
    return __builtin_shufflevector(a, b, ((l & size) != 0 ? kWidth + l : (l ^ size))...);
  }
};

/// Puts loaded elements into their places.
template <typename V, typename T>
class BlockWriter {
 public:
  BlockWriter(const FftLoad<T>& load, const int32_t* order, T* block)
      : load_(load), order_(order), block_(block), sign_(V::Broadcast(load.im_sign)) {}

  void Put(int64_t j, V re, V im) const {
    if (load_.window != nullptr) {
      const T* factor = load_.window + j * load_.window_step;
      re = re * V::Broadcast(factor[0]);
      im = im * V::Broadcast(factor[load_.window_im]);
    }
    im = im * sign_;
    if (load_.hermitian > 0) {
      if (j == 0) im = V::Zero();  // that of a real line; nobody reads another
      if (j > 0) StoreComplex<V, T>({re, -im}, At(load_.hermitian - j));
    }
    StoreComplex<V, T>({re, im}, At(j));
  }

 private:
  T* At(int64_t j) const { return block_ + (order_ != nullptr ? order_[j] : j) * 2 * V::kWidth; }

  const FftLoad<T>& load_;
  const int32_t* order_;
  T* block_;
  V sign_;
};

/// Element j of all lanes, of which one part or both may be missing.
template <typename V, typename T>
inline ComplexVec<V> FetchAny(const FftLoad<T>& load, int64_t j) {
  T re[V::kWidth] = {}, im[V::kWidth] = {};
  const int64_t at = j * load.step;
  if (j < load.re_count) {
    for (int l = 0; l < V::kWidth; ++l) re[l] = load.lanes[l][at];
  }
  if (load.im_offset != 0 && j < load.im_count) {
    for (int l = 0; l < V::kWidth; ++l) im[l] = load.lanes[l][at + load.im_offset];
  }
  return {V::Load(re), V::Load(im)};
}

/// Lines of pairs: a square of them is transposed at a time. Returns how far it came.
template <typename V, typename T>
inline int64_t LoadRows(const FftLoad<T>& load, int64_t count, const BlockWriter<V, T>& to) {
  using S = Shuffles<V, T>;
  constexpr int kElements = V::kWidth / 2;
  int64_t j = 0;
  for (; j + kElements <= count; j += kElements) {
    typename S::Raw rows[V::kWidth];
    for (int l = 0; l < V::kWidth; ++l) rows[l] = S::Load(load.lanes[l] + 2 * j);
    S::Transpose(rows);
    for (int i = 0; i < kElements; ++i) {
      to.Put(j + i, S::ToVec(rows[2 * i]), S::ToVec(rows[2 * i + 1]));
    }
  }
  return j;
}

/// Lines of pairs that lie side by side.
template <typename V, typename T>
inline int64_t LoadColumns(const FftLoad<T>& load, int64_t count, const BlockWriter<V, T>& to) {
  using S = Shuffles<V, T>;
  typename S::Lanes lanes;
  for (int64_t j = 0; j < count; ++j) {
    const T* from = load.lanes[0] + j * load.step;
    const typename S::Raw a = S::Load(from), b = S::Load(from + V::kWidth);
    to.Put(j, S::ToVec(S::Even(a, b, lanes)), S::ToVec(S::Odd(a, b, lanes)));
  }
  return count;
}

/// Lines of numbers that lie side by side.
template <typename V, typename T>
inline int64_t LoadPlainColumns(const FftLoad<T>& load, int64_t count,
                                const BlockWriter<V, T>& to) {
  for (int64_t j = 0; j < count; ++j) {
    const T* from = load.lanes[0] + j * load.step;
    to.Put(j, V::Load(from), load.im_offset != 0 ? V::Load(from + load.im_offset) : V::Zero());
  }
  return count;
}

template <typename V, typename T>
void LoadBlock(const FftLoad<T>& load, const int32_t* order, T* block) {
  const BlockWriter<V, T> to(load, order, block);
  const bool pairs = load.im_offset != 0;
  const int64_t there = pairs && load.im_count < load.re_count ? load.im_count : load.re_count;
  const int64_t count = there < load.total ? there : load.total;
  int64_t j = 0;
  if constexpr (V::kWidth > 1) {
    if (load.lane_step == 1) {
      j = LoadPlainColumns<V, T>(load, count, to);
    } else if (load.lane_step == 2 && load.im_offset == 1) {
      j = LoadColumns<V, T>(load, count, to);
    } else if (load.step == 2 && load.im_offset == 1) {
      j = LoadRows<V, T>(load, count, to);
    }
  }
  for (; j < load.total; ++j) {
    const ComplexVec<V> item = FetchAny<V, T>(load, j);
    to.Put(j, item.re, item.im);
  }
}

/// Gives the elements as they are to be stored: position p holds element p, or the conjugate of
/// element hermitian-p.
template <typename V, typename T>
class BlockReader {
 public:
  BlockReader(const FftStore<T>& store, const T* block, bool mirrored)
      : block_(block),
        mirror_(mirrored ? store.hermitian : 0),
        re_(V::Broadcast(store.re_scale)),
        im_(V::Broadcast(mirrored ? -store.im_scale : store.im_scale)) {}

  ComplexVec<V> Get(int64_t p) const {
    const int64_t element = mirror_ != 0 ? mirror_ - p : p;
    const ComplexVec<V> item = LoadComplex<V>(block_ + element * 2 * V::kWidth);
    return {item.re * re_, item.im * im_};
  }

 private:
  const T* block_;
  int64_t mirror_;
  V re_, im_;
};

template <typename V, typename T>
inline int64_t StoreRows(const FftStore<T>& store, const BlockReader<V, T>& from, int64_t p,
                         int64_t end) {
  using S = Shuffles<V, T>;
  constexpr int kElements = V::kWidth / 2;
  for (; p + kElements <= end; p += kElements) {
    typename S::Raw rows[V::kWidth];
    for (int i = 0; i < kElements; ++i) {
      const ComplexVec<V> item = from.Get(p + i);
      rows[2 * i] = S::FromVec(item.re);
      rows[2 * i + 1] = S::FromVec(item.im);
    }
    S::Transpose(rows);
    if (store.lane_count == V::kWidth) {
      for (int l = 0; l < V::kWidth; ++l) S::Store(rows[l], store.lanes[l] + 2 * p);
    } else {
      for (int l = 0; l < store.lane_count; ++l) S::Store(rows[l], store.lanes[l] + 2 * p);
    }
  }
  return p;
}

template <typename V, typename T>
inline int64_t StoreColumns(const FftStore<T>& store, const BlockReader<V, T>& from, int64_t p,
                            int64_t end) {
  using S = Shuffles<V, T>;
  typename S::Lanes lanes;
  for (; p < end; ++p) {
    const ComplexVec<V> item = from.Get(p);
    const typename S::Raw re = S::FromVec(item.re), im = S::FromVec(item.im);
    T* to = store.lanes[0] + p * store.step;
    S::Store(S::template Zip<0>(re, im, lanes), to);
    S::Store(S::template Zip<V::kWidth / 2>(re, im, lanes), to + V::kWidth);
  }
  return p;
}

template <typename V, typename T>
inline int64_t StorePlainColumns(const FftStore<T>& store, const BlockReader<V, T>& from, int64_t p,
                                 int64_t end) {
  for (; p < end; ++p) {
    const ComplexVec<V> item = from.Get(p);
    T* to = store.lanes[0] + p * store.step;
    item.re.Store(to);
    if (store.im_offset != 0) item.im.Store(to + store.im_offset);
  }
  return p;
}

template <typename V, typename T>
inline void StoreAny(const FftStore<T>& store, ComplexVec<V> item, int64_t p) {
  T re[V::kWidth], im[V::kWidth];
  item.re.Store(re);
  item.im.Store(im);
  const int64_t at = p * store.step;
  for (int l = 0; l < store.lane_count; ++l) store.lanes[l][at] = re[l];
  if (store.im_offset == 0) return;
  for (int l = 0; l < store.lane_count; ++l) store.lanes[l][at + store.im_offset] = im[l];
}

template <typename V, typename T>
inline void StorePart(const FftStore<T>& store, const BlockReader<V, T>& from, int64_t p,
                      int64_t end) {
  if constexpr (V::kWidth > 1) {
    const bool full = store.lane_count == V::kWidth;
    if (full && store.lane_step == 1) {
      p = StorePlainColumns<V, T>(store, from, p, end);
    } else if (full && store.lane_step == 2 && store.im_offset == 1) {
      p = StoreColumns<V, T>(store, from, p, end);
    } else if (store.step == 2 && store.im_offset == 1) {
      p = StoreRows<V, T>(store, from, p, end);
    }
  }
  for (; p < end; ++p) StoreAny<V, T>(store, from.Get(p), p);
}

template <typename V, typename T>
void StoreBlock(const FftStore<T>& store, const T* block) {
  StorePart<V, T>(store, {store, block, false}, 0, store.count);
  if (store.hermitian == 0) return;
  StorePart<V, T>(store, {store, block, true}, store.count, store.hermitian);
}

}  // namespace oort::OORT_ISA
