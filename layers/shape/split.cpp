// SPDX-License-Identifier: MIT
#include <algorithm>

#include "layers/nhwc_role.h"
#include "layers/shape/slice_range.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// More parts than this can only come from a damaged file: an operator names each of them.
constexpr int64_t kMostParts = 1 << 20;

/// A stretch of the axis that is cut.
struct Part {
  int64_t start, length;
};
using Parts = ScratchVector<Part>;

[[noreturn]] void ThrowCut(int64_t extent, const std::string& how) {
  throw Error(ErrorCode::kInvalidArgument,
              "cannot cut an axis of " + std::to_string(extent) + " into " + how);
}

/// Parts of `size`, the last one shorter; one empty part of an empty axis.
Parts PartsOfSize(int64_t extent, int64_t size) {
  if (size < 0 || (size == 0 && extent != 0) || (size > 0 && extent / size >= kMostParts)) {
    ThrowCut(extent, "parts of " + std::to_string(size));
  }
  Parts parts;
  for (int64_t at = 0; at < extent; at += size) parts.push_back({at, std::min(size, extent - at)});
  if (parts.empty()) parts.push_back({0, 0});
  return parts;
}

/// Parts of the given lengths, which must make up the whole axis.
Parts PartsOfLengths(int64_t extent, const Value& lengths) {
  Parts parts;
  int64_t left = extent;
  for (int64_t length : lengths.AsInts()) {
    if (length < 0 || length > left) ThrowCut(extent, lengths.ToString());
    parts.push_back({extent - left, length});
    left -= length;
  }
  if (left != 0) ThrowCut(extent, lengths.ToString());
  return parts;
}

/// Each part is a Python slice, so indices may be negative, out of range or out of order.
Parts PartsBetween(int64_t extent, const Value& indices) {
  Parts parts;
  Value start = 0;
  const auto add = [&](const Value& end) {
    const SliceRange range = ResolveSlice(extent, start, end, Value());
    parts.push_back({range.start, range.length});
    start = end;
  };
  for (int64_t index : indices.AsInts()) add(index);
  add(Value());
  return parts;
}

/// `count` parts whose lengths differ by one at most, the longer ones first.
Parts EvenParts(int64_t extent, int64_t count) {
  Parts parts;
  for (int64_t i = 0, at = 0; i < count; ++i) {
    parts.push_back({at, extent / count + (i < extent % count)});
    at += parts.back().length;
  }
  return parts;
}

/// A number of parts, which an operator must hold one by one.
int64_t PartCount(const Value& value) {
  const int64_t count = value.AsInt();
  if (count < 1 || count > kMostParts) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected a number of parts, got " + std::to_string(count));
  }
  return count;
}

/// A layer that gives parts. On a GPU each must be an output: lists of tensors are made on the
/// host.
class PartsLayer : public StridedLayer {
 public:
  explicit PartsLayer(const LayerInit& init) : StridedLayer(init) {
    if (init.device().type == DeviceType::kCpu || init.op().outputs.size() != 1) return;
    throw Error(ErrorCode::kUnsupported, "gives a list, which the GPU does not");
  }
};

/// Cuts axis `dim` into the stretches that a subclass gives.
class AxisPartsLayer : public PartsLayer {
 public:
  explicit AxisPartsLayer(const LayerInit& init) : PartsLayer(init), dim_(init.Arg("dim")) {}

 protected:
  virtual Parts Cut(const Args& args, int64_t extent) const = 0;

  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const int dim = NormalizeAxis(args[dim_].AsInt(), input.rank());
    if (input.rank() == 0) {
      throw Error(ErrorCode::kInvalidArgument, "expected a rank of at least 1, got 0");
    }
    ScratchVector<StridedOutput> views;
    for (const Part& part : Cut(args, input[dim])) {
      views.push_back(Strided(input).Sliced(dim, part.start, part.length));
    }
    return views;
  }

 private:
  int dim_;
};

class ChunkLayer final : public AxisPartsLayer {
 public:
  explicit ChunkLayer(const LayerInit& init) : AxisPartsLayer(init), chunks_(init.Arg("chunks")) {}

 protected:
  Parts Cut(const Args& args, int64_t extent) const override {
    const int64_t chunks = PartCount(args[chunks_]);
    // An empty axis gives as many empty chunks as were asked for, any other perhaps fewer.
    if (extent == 0) return EvenParts(extent, chunks);
    return PartsOfSize(extent, extent / chunks + (extent % chunks != 0));
  }

 private:
  int chunks_;
};

class SplitLayer final : public AxisPartsLayer {
 public:
  explicit SplitLayer(const LayerInit& init)
      : AxisPartsLayer(init), sizes_(init.Arg("split_size_or_sections")) {}

 protected:
  Parts Cut(const Args& args, int64_t extent) const override {
    const Value& sizes = args[sizes_];
    return sizes.IsList() ? PartsOfLengths(extent, sizes) : PartsOfSize(extent, sizes.AsInt());
  }

 private:
  int sizes_;
};

class TensorSplitLayer final : public AxisPartsLayer {
 public:
  explicit TensorSplitLayer(const LayerInit& init)
      : AxisPartsLayer(init), indices_(init.Arg("indices")), sections_(init.Arg("sections")) {}

 protected:
  Parts Cut(const Args& args, int64_t extent) const override {
    if (args.Has(indices_)) return PartsBetween(extent, args[indices_]);
    if (args.Has(sections_)) return EvenParts(extent, PartCount(args[sections_]));
    throw Error(ErrorCode::kInvalidArgument, "expected 'indices' or 'sections', got neither");
  }

 private:
  int indices_, sections_;
};

/// numpy's hsplit, vsplit and dsplit: equal parts of an axis that the name implies, or the parts
/// between indices.
class NumpySplitLayer final : public PartsLayer {
 public:
  NumpySplitLayer(const LayerInit& init, int axis) : PartsLayer(init), axis_(axis) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    // hsplit cuts columns; a vector has none but its elements.
    const int least = axis_ == 1 ? 1 : std::max(axis_ + 1, 2);
    if (input.rank() < least) {
      throw Error(ErrorCode::kInvalidArgument, "expected a rank of at least " +
                                                   std::to_string(least) + ", got shape " +
                                                   input.ToString());
    }
    const int axis = std::min(axis_, input.rank() - 1);
    ScratchVector<StridedOutput> views;
    for (const Part& part : Cut(args[1], input[axis])) {
      views.push_back(Strided(input).Sliced(axis, part.start, part.length));
    }
    return views;
  }

 private:
  static Parts Cut(const Value& how, int64_t extent) {
    if (how.IsList()) return PartsBetween(extent, how);
    const int64_t count = PartCount(how);
    if (extent % count != 0) ThrowCut(extent, std::to_string(count) + " equal parts");
    return EvenParts(extent, count);
  }

  int axis_;
};

/// One output for each position along `dim`, without that axis.
class UnbindLayer final : public PartsLayer {
 public:
  explicit UnbindLayer(const LayerInit& init) : PartsLayer(init), dim_(init.Arg("dim")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const int dim = NormalizeAxis(args[dim_].AsInt(), input.rank());
    if (input.rank() == 0 || input[dim] > kMostParts) {
      throw Error(ErrorCode::kInvalidArgument, "cannot unbind shape " + input.ToString());
    }
    ScratchVector<StridedOutput> views;
    for (int64_t i = 0; i < input[dim]; ++i) views.push_back(Strided(input).Selected(dim, i));
    return views;
  }

 private:
  int dim_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(split) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.chunk", "aten::unsafe_chunk"},
                              "At most `chunks` parts of equal length, the last perhaps shorter")
                   .Tensor("input", kAllDTypes)
                   .Int("chunks")
                   .Dynamic()
                   .Int("dim", 0)
                   .Dynamic()
                   .Outputs(1, -1)
                   .KeepsDType()
                   .F16OnCpu()
                   .HasNhwcForm("nhwc.chunk", FollowsAlongKnownAxis),
               Create<ChunkLayer>());
  registry.Add(OperatorSchema({"torch.split"},
                              "Parts of one length (the last perhaps shorter) or of given lengths")
                   .Tensor("tensor", kAllDTypes)
                   .Any("split_size_or_sections")
                   .Dynamic()
                   .Int("dim", 0)
                   .Dynamic()
                   .Outputs(1, -1)
                   .KeepsDType()
                   .F16OnCpu()
                   .HasNhwcForm("nhwc.split", FollowsAlongKnownAxis),
               Create<SplitLayer>());
  registry.Add(
      OperatorSchema({"torch.tensor_split"},
                     "The parts between `indices`, or `sections` parts of nearly one length")
          .Tensor("input", kAllDTypes)
          .Ints("indices")
          .Nullable()
          .Dynamic()
          .Int("sections")
          .Nullable()
          .Dynamic()
          .Int("dim", 0)
          .Dynamic()
          .Outputs(1, -1),
      Create<TensorSplitLayer>());
  int axis = 0;
  for (const std::string name : {"vsplit", "hsplit", "dsplit"}) {
    registry.Add(
        OperatorSchema({"torch." + name, "aten::" + name},
                       "Equal parts along axis " + std::to_string(axis) +
                           (axis == 1 ? " (0 of a vector)" : "") + ", or the parts between indices")
            .Tensor("input", kAllDTypes)
            .Any("indices_or_sections")
            .Dynamic()
            .Outputs(1, -1),
        [axis](const LayerInit& init) { return std::make_unique<NumpySplitLayer>(init, axis); });
    ++axis;
  }
  registry.Add(OperatorSchema({"torch.unbind"}, "The slices along `dim`, without that axis")
                   .Tensor("input", kAllDTypes)
                   .Int("dim", 0)
                   .Dynamic()
                   .Outputs(1, -1),
               Create<UnbindLayer>());
}
