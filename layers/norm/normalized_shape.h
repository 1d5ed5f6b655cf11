// SPDX-License-Identifier: MIT
// The last axes of an input, which layer_norm and rms_norm normalize together.
#pragma once

#include "layers/norm/norm_common.h"

namespace oort {

class NormalizedShape {
 public:
  explicit NormalizedShape(const LayerInit& init) : shape_(init.Ints("normalized_shape")) {
    if (shape_.rank() == 0) {
      throw Error(ErrorCode::kInvalidArgument, "normalized_shape must have at least one extent");
    }
    shape_.elements();  // throws for negative extents
  }
  const Shape& shape() const { return shape_; }

  void Check(const Shape& input) const {
    const int skip = input.rank() - shape_.rank();
    bool fits = skip >= 0;
    for (int i = 0; fits && i < shape_.rank(); ++i) fits = input[skip + i] == shape_[i];
    if (!fits) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input whose last extents are " +
                                                   shape_.ToString() + ", got " + input.ToString());
    }
  }

  /// Calls row(in, out, count) for each run of normalized elements; there must be some.
  template <typename T, typename Row>
  void ForRows(const Context& context, const Tensor& x, Tensor& y, Row row) const {
    const int64_t count = shape_.elements();
    const T* in = x.data<T>();
    T* out = y.data<T>();
    context.ParallelFor(x.elements() / count, RowGrain(count), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) row(in + r * count, out + r * count, count);
    });
  }

 private:
  Shape shape_;
};

}  // namespace oort
