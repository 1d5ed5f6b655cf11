// SPDX-License-Identifier: MIT
// The slices and selections of Tensor.slice and its relatives, as pnnx merges them.
#pragma once

#include "layers/shape/strided.h"
#include "oort/layer.h"

namespace oort {

/// Declares dim/start/end/step/select and dims/starts/ends/steps/selects, each perhaps computed.
OperatorSchema& DeclareSlices(OperatorSchema& schema);

/// Reads what DeclareSlices declared.
class SliceSpec {
 public:
  explicit SliceSpec(const LayerInit& init);
  /// The part of a dense tensor of this shape that the arguments name.
  Strided View(const Shape& shape, const Args& args) const;
  /// Whether all of the arguments are known.
  bool IsKnown(const Args& args) const;

 private:
  struct Field {
    int one, many;  // the argument for one axis, and that for several
  };
  Value At(const Args& args, const Field& field, size_t i) const;
  Field dim_, start_, end_, step_, select_;
};

}  // namespace oort
