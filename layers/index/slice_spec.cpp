// SPDX-License-Identifier: MIT
#include "layers/index/slice_spec.h"

#include <algorithm>

#include "layers/repair_log.h"
#include "layers/shape/slice_range.h"

namespace oort {
namespace {

constexpr int64_t kNoSelect = 2147483647;

}  // namespace

OperatorSchema& DeclareSlices(OperatorSchema& schema) {
  for (const char* name : {"dim", "start", "end", "step", "select"}) {
    schema.Int(name).Nullable().Dynamic();
  }
  for (const char* name : {"dims", "starts", "ends", "steps", "selects"}) {
    schema.Ints(name).Nullable().Dynamic();
  }
  return schema;
}

SliceSpec::SliceSpec(const LayerInit& init)
    : dim_{init.Arg("dim"), init.Arg("dims")},
      start_{init.Arg("start"), init.Arg("starts")},
      end_{init.Arg("end"), init.Arg("ends")},
      step_{init.Arg("step"), init.Arg("steps")},
      select_{init.Arg("select"), init.Arg("selects")} {
  const Value &dims = init.Constant("dims"), &selects = init.Constant("selects");
  if (!dims.IsList() || !selects.IsList() || dims.AsList().size() < 2) return;
  const Value& first = dims.AsList().front();
  const bool picks = std::any_of(
      selects.AsList().begin(), selects.AsList().end(),
      [](const Value& select) { return select.IsInt() && select.AsInt() != kNoSelect; });
  if (picks && first.IsInt() && first.AsInt() < 0) {
    LogRepair(init, "took dims=" + dims.ToString() + " for axes of what each select left");
  }
}

bool SliceSpec::IsKnown(const Args& args) const {
  for (const Field& field : {dim_, start_, end_, step_, select_}) {
    if (!args[field.one].IsConcrete() || !args[field.many].IsConcrete()) return false;
  }
  return true;
}

/// Entry i; a list that is too short has None for the rest.
Value SliceSpec::At(const Args& args, const Field& field, size_t i) const {
  if (!args.Has(field.many)) return args[field.one];
  const Value& list = args[field.many];
  if (!list.IsList()) return i == 0 ? list : Value();
  return i < list.AsList().size() ? list.AsList()[i] : Value();
}

Strided SliceSpec::View(const Shape& shape, const Args& args) const {
  const std::vector<int64_t> dims = args.Has(dim_.many)  ? args[dim_.many].AsInts()
                                    : args.Has(dim_.one) ? args[dim_.one].AsInts()
                                                         : std::vector<int64_t>{0};
  Strided view(shape);
  int64_t selected = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (view.rank() == 0) throw Error(ErrorCode::kInvalidArgument, "cannot slice a scalar");
    // pnnx added the number of axes selected so far to each axis, also to negative ones. Taking
    // it off again gives the axis of what is left, as it stood in the program.
    const int dim = NormalizeAxis(dims[i] - selected, view.rank());
    const Value select = At(args, select_, i);
    if (!select.IsNone() && select.AsInt() != kNoSelect) {
      view = view.Selected(dim, NormalizeIndex(select.AsInt(), view[dim].extent));
      ++selected;
      continue;
    }
    const SliceRange range =
        ResolveSlice(view[dim].extent, At(args, start_, i), At(args, end_, i), At(args, step_, i));
    view = view.Sliced(dim, range.start, range.length, range.step);
  }
  return view;
}

}  // namespace oort
