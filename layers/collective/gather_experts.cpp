// SPDX-License-Identifier: MIT
#include <cstring>
#include <numeric>

#include "core/checked.h"
#include "layers/collective/group_of.h"
#include "layers/experts/expert_routing.h"

namespace oort {
namespace {

/// What the experts of all ranks make of their tokens, added up in the order of the experts: the
/// bits of one rank that has all of them. Each rank knows from the router how many rows come from
/// whom.
class GatherExperts final : public Layer {
 public:
  explicit GatherExperts(const LayerInit& init)
      : name_(NameInGroup(init)),
        input_(init.Arg("input")),
        router_(init.Arg("router")),
        addend_(init.Arg("addend")),
        parts_(init.Ints("parts")),
        correction_(init.Weight("correction")),
        rule_(ReadRoutingRule(init, ExpertsOf(parts_), correction_)) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Shape &input = args.shape(input_), &router = args.shape(router_);
    const bool fits = router.rank() == 2 && input.rank() == 2 && router[1] == rule_.experts &&
                      input[0] == CheckedMultiply(router[0], rule_.used);
    if (!fits) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a router's logits (tokens," + std::to_string(rule_.experts) + ") and " +
                      std::to_string(rule_.used) + " rows for each token, got " +
                      router.ToString() + " and " + input.ToString());
    }
    const Shape shape = {router[0], input[1]};
    if (args.Has(addend_) && args.shape(addend_) != shape) {
      throw Error(ErrorCode::kInvalidArgument, "expected an addend of " + shape.ToString() +
                                                   ", got " + args.shape(addend_).ToString());
    }
    return {Tensor::Meta(DType::kF32, shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Collective& group = GroupOfRun();
    if (parts_.size() != static_cast<size_t>(group.ranks())) {
      throw Error(ErrorCode::kInvalidArgument,
                  "its parts are those of " + std::to_string(parts_.size()) + " ranks, not of " +
                      std::to_string(group.ranks()));
    }
    Tensor& out = outputs[0].AsTensor();
    if (args.Has(addend_)) {
      std::memcpy(out.raw(), args.tensor(addend_).raw(), out.bytes());
    } else {
      std::memset(out.raw(), 0, out.bytes());
    }
    const int64_t tokens = out.dim(0), width = out.dim(1);
    const ExpertRouting routing(rule_, args.tensor(router_).data<float>(), tokens);
    const std::vector<size_t> sizes = SizesOf(routing, width);
    const std::span<const std::byte> mine(args.tensor(input_).raw(),
                                          sizes[static_cast<size_t>(group.rank())]);
    int64_t expert = 0;
    group.Exchange(name_, mine, sizes, [&](int rank, std::span<const std::byte> bytes) {
      const float* rows = reinterpret_cast<const float*>(bytes.data());
      const int64_t end = expert + parts_[static_cast<size_t>(rank)];
      for (; expert < end; ++expert) {
        const int64_t count = routing.count(expert);
        if (count == 0) continue;
        AddWeighted(context, rows, routing.begin(expert), count, width, out.data<float>());
        rows += count * width;
      }
    });
  }

 private:
  static int64_t ExpertsOf(const std::vector<int64_t>& parts) {
    int64_t experts = 0;
    for (const int64_t part : parts) {
      if (part < 1) throw Error(ErrorCode::kInvalidModel, "each of the parts has an expert");
      experts = CheckedAdd(experts, part);
    }
    return experts;
  }

  /// Bytes that each rank has to hand over.
  std::vector<size_t> SizesOf(const ExpertRouting& routing, int64_t width) const {
    std::vector<size_t> sizes;
    int64_t expert = 0;
    for (const int64_t part : parts_) {
      int64_t rows = 0;
      for (const int64_t end = expert + part; expert < end; ++expert) rows += routing.count(expert);
      sizes.push_back(static_cast<size_t>(rows * width) * sizeof(float));
    }
    return sizes;
  }

  std::string name_;
  int input_, router_, addend_;
  std::vector<int64_t> parts_;
  Tensor correction_;  ///< before the rule, which looks at it
  RoutingRule rule_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(gather_experts) {
  using namespace oort;
  OperatorSchema schema(
      {"oort.GatherExperts"},
      "What oort.ExpertMixture with sum=False gives on all ranks, weighted by the router and added "
      "up in the order of the experts, of which each rank has so many as parts says, plus addend; "
      "one rank's part of a model has it");
  schema.Tensor("input", kF32Only).Tensor("router", kF32Only).OptionalTensor("addend", kF32Only);
  schema.Ints("parts");
  AddRoutingParams(schema);
  registry.Add(schema, Create<GatherExperts>());
}
