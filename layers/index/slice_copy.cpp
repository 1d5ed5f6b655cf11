// SPDX-License-Identifier: MIT
#include "layers/index/slice_spec.h"
#include "layers/shape/slice_range.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// A copy of `self` in which `src` stands in the region that a subclass names.
class ReplaceLayer : public Layer {
 public:
  ReplaceLayer(const LayerInit& init, const char* self)
      : self_(init.Arg(self)),
        src_(init.Arg("src")),
        on_device_(init.device().type != DeviceType::kCpu) {
    if (init.inputs().size() > 1) RequireOne(init.inputs()[0]->dtype, init.inputs()[1]->dtype);
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& self = args.tensor(self_);
    RequireOne(self.dtype(), args.tensor(src_).dtype());
    if (IsKnown(args)) CheckedRegion(args);
    return {Tensor::Meta(self.dtype(), self.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& self = args.tensor(self_);
    const size_t item = ItemSize(self.dtype());
    const Strided region = CheckedRegion(args);
    const Tensor src = args.tensor(src_).To(self.dtype());
    Tensor& output = OutputTensor(outputs[0], self.dtype(), self.shape());
    CopyBytes(context, self.raw(), output.raw(), self.bytes());
    CopyStrided(context, item, src.raw(), Strided(src.shape()).Broadcast(region.shape()),
                output.raw(), region);
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, self_, 0, 0}}; }

 protected:
  virtual bool IsKnown(const Args& args) const = 0;
  virtual Strided Region(const Shape& self, const Args& args) const = 0;
  /// Whether src may have extents of 1 or fewer axes than the region.
  virtual bool Broadcasts() const = 0;

 private:
  /// The GPU copies elements as they are.
  void RequireOne(DType a, DType b) const {
    if (!on_device_ || a == b || a == DType::kNull || b == DType::kNull) return;
    throw Error(ErrorCode::kUnsupported, "joins tensors of several dtypes");
  }

  Strided CheckedRegion(const Args& args) const {
    const Strided region = Region(args.shape(self_), args);
    const Shape shape = region.shape();
    const Shape& src = args.shape(src_);
    const bool fits = Broadcasts() ? BroadcastsTo(src, shape) : shape == src;
    if (!fits) {
      throw Error(ErrorCode::kInvalidArgument,
                  "src " + src.ToString() + " does not fit the region " + shape.ToString());
    }
    return region;
  }

  int self_, src_;
  bool on_device_;
};

class SliceCopyLayer final : public ReplaceLayer {
 public:
  explicit SliceCopyLayer(const LayerInit& init) : ReplaceLayer(init, "self"), spec_(init) {}

 protected:
  bool IsKnown(const Args& args) const override { return spec_.IsKnown(args); }
  Strided Region(const Shape& self, const Args& args) const override {
    return spec_.View(self, args);
  }
  bool Broadcasts() const override { return true; }

 private:
  SliceSpec spec_;
};

/// Tensor.copy: the region is everything.
class CopyLayer final : public ReplaceLayer {
 public:
  explicit CopyLayer(const LayerInit& init) : ReplaceLayer(init, "self") {}

 protected:
  bool IsKnown(const Args&) const override { return true; }
  Strided Region(const Shape& self, const Args&) const override { return Strided(self); }
  bool Broadcasts() const override { return true; }
};

class SliceScatterLayer final : public ReplaceLayer {
 public:
  explicit SliceScatterLayer(const LayerInit& init)
      : ReplaceLayer(init, "input"),
        dim_(init.Arg("dim")),
        start_(init.Arg("start")),
        end_(init.Arg("end")),
        step_(init.Arg("step")) {}

 protected:
  bool IsKnown(const Args& args) const override {
    return args[dim_].IsConcrete() && args[start_].IsConcrete() && args[end_].IsConcrete() &&
           args[step_].IsConcrete();
  }
  Strided Region(const Shape& self, const Args& args) const override {
    const int dim = NormalizeAxis(args[dim_].AsInt(), self.rank());
    if (self.rank() == 0) throw Error(ErrorCode::kInvalidArgument, "cannot slice a scalar");
    const SliceRange range = ResolveSlice(self[dim], args[start_], args[end_], args[step_]);
    return Strided(self).Sliced(dim, range.start, range.length, range.step);
  }
  bool Broadcasts() const override { return false; }

 private:
  int dim_, start_, end_, step_;
};

class SelectScatterLayer final : public ReplaceLayer {
 public:
  explicit SelectScatterLayer(const LayerInit& init)
      : ReplaceLayer(init, "input"), dim_(init.Arg("dim")), index_(init.Arg("index")) {}

 protected:
  bool IsKnown(const Args& args) const override {
    return args[dim_].IsConcrete() && args[index_].IsConcrete();
  }
  Strided Region(const Shape& self, const Args& args) const override {
    const int dim = NormalizeAxis(args[dim_].AsInt(), self.rank());
    if (self.rank() == 0) throw Error(ErrorCode::kInvalidArgument, "cannot select from a scalar");
    return Strided(self).Selected(dim, NormalizeIndex(args[index_].AsInt(), self[dim]));
  }
  bool Broadcasts() const override { return false; }

 private:
  int dim_, index_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(slice_copy) {
  using namespace oort;
  OperatorSchema slice_copy({"Tensor.slice_copy"},
                            "self with src in the place of the slice that Tensor.slice would take");
  slice_copy.Tensor("self", kAllDTypes).Tensor("src", kAllDTypes);
  registry.Add(DeclareSlices(slice_copy), Create<SliceCopyLayer>());
  registry.Add(OperatorSchema({"Tensor.copy"}, "src in the shape and dtype of self")
                   .Tensor("self", kAllDTypes)
                   .Tensor("src", kAllDTypes)
                   .Ignored("non_blocking"),
               Create<CopyLayer>());
  registry.Add(OperatorSchema({"torch.slice_scatter"}, "input with src in the place of a slice")
                   .Tensor("input", kAllDTypes)
                   .Tensor("src", kAllDTypes)
                   .Int("dim", 0)
                   .Dynamic()
                   .Int("start")
                   .Nullable()
                   .Dynamic()
                   .Int("end")
                   .Nullable()
                   .Dynamic()
                   .Int("step", 1)
                   .Dynamic(),
               Create<SliceScatterLayer>());
  registry.Add(OperatorSchema({"torch.select_scatter"}, "input with src at one position of an axis")
                   .Tensor("input", kAllDTypes)
                   .Tensor("src", kAllDTypes)
                   .Int("dim")
                   .Dynamic()
                   .Int("index")
                   .Dynamic(),
               Create<SelectScatterLayer>());
}
