// SPDX-License-Identifier: MIT
#include "layers/pooling/adaptive.h"

#include "core/checked.h"

namespace oort {

AdaptiveGeometry AdaptTo(const Shape& input, const Value& output_size, int spatial_rank) {
  CheckPoolInput(input, spatial_rank);
  const std::span<const Value> sizes = output_size.IsList()
                                           ? std::span<const Value>(output_size.AsList())
                                           : std::span(&output_size, 1);
  if (sizes.size() != 1 && sizes.size() != static_cast<size_t>(spatial_rank)) {
    throw Error(ErrorCode::kInvalidArgument, "expected " + std::to_string(spatial_rank) +
                                                 " values in output_size, got " +
                                                 output_size.ToString());
  }
  AdaptiveGeometry geometry;
  geometry.output = input;
  geometry.planes = input.Product(0, input.rank() - spatial_rank);
  for (int i = 0; i < spatial_rank; ++i) {
    const Value& size = sizes[sizes.size() == 1 ? 0 : static_cast<size_t>(i)];
    const int axis = input.rank() - spatial_rank + i;
    const int64_t wanted = size.IsNone() ? 0 : size.AsInt();
    if (wanted < 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "output_size " + output_size.ToString() + " has a negative extent");
    }
    AdaptiveAxis& window = geometry.axes[static_cast<size_t>(3 - spatial_rank + i)];
    window.in = input[axis];
    window.out = wanted == 0 ? window.in : wanted;
    // The products in Begin and End must not overflow.
    CheckedAdd(CheckedMultiply(window.in, CheckedAdd<int64_t>(window.out, 1)), window.out);
    geometry.output[axis] = window.out;
  }
  geometry.output.elements();  // throws where the output is too large to exist
  return geometry;
}

OperatorSchema AdaptiveSchema(const std::string& module, const std::string& function, int rank,
                              std::string doc) {
  // Any, because a list may hold None; AdaptTo checks what comes.
  return OperatorSchema(PoolTypes(module, function, rank), std::move(doc))
      .Tensor("input", kFloats)
      .Any("output_size")
      .Dynamic();
}

}  // namespace oort
