// SPDX-License-Identifier: MIT
#include "layers/experts/expert_mixture_spec.h"

#include <algorithm>

#include "core/checked.h"

namespace oort {

ExpertMixtureSpec::ExpertMixtureSpec(const LayerInit& init)
    : input_(init.Arg("input")),
      router_(init.Arg("router")),
      hidden_(init.Int("in_features")),
      intermediate_(init.Int("intermediate")),
      held_(init.Int("experts")),
      first_(init.Int("first_expert")),
      sums_(init.Bool("sum")),
      correction_(init.Weight("correction")),
      rule_(ReadRoutingRule(init, std::max(init.Int("all_experts"), held_), correction_)),
      limit_(static_cast<float>(init.Float("limit"))),
      epilogue_(init),
      packed_(StoredArguments(init, kExpertParts)) {
  if (first_ <= rule_.experts - held_) return;
  throw Error(ErrorCode::kInvalidModel, std::to_string(held_) + " experts from expert " +
                                            std::to_string(first_) + " on are no part of " +
                                            std::to_string(rule_.experts));
}

StoredMatrix ExpertMixtureSpec::Weights(const LayerInit& init, ExpertPart part) const {
  const int64_t columns = part == kDownPart ? intermediate_ : hidden_;
  return ReadStored(init, part, CheckedMultiply<int64_t>(held_, RowsOf(part)), columns);
}

Tensor ExpertMixtureSpec::Bias(const LayerInit& init, ExpertPart part) const {
  Tensor bias = init.Weight(PartName("bias", part));
  const int64_t rows = held_ * RowsOf(part);
  if (!bias.defined() || bias.shape() == Shape{rows}) return bias;
  throw Error(ErrorCode::kInvalidModel,
              "expected a bias of " + std::to_string(rows) + " elements, got " + bias.ToString());
}

std::vector<Value> ExpertMixtureSpec::Infer(const Args& args) const {
  const Shape& shape = args.shape(input_);
  if (shape.rank() != 2 || shape[1] != hidden_ ||
      args.shape(router_) != Shape{shape[0], rule_.experts}) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected an input (tokens," + std::to_string(hidden_) +
                    ") and a router's logits (tokens," + std::to_string(rule_.experts) + "), got " +
                    shape.ToString() + " and " + args.shape(router_).ToString());
  }
  epilogue_.Check(args, shape);
  if (sums_) return {Tensor::Meta(DType::kF32, shape)};
  if (epilogue_.has_addend(args)) {
    throw Error(ErrorCode::kInvalidArgument, "rows that are not summed up get no addend");
  }
  return {Tensor::Meta(DType::kF32, {CheckedMultiply(shape[0], rule_.used), hidden_})};
}

Cost ExpertMixtureSpec::Work(const Args& args, std::span<const Value> outputs,
                             size_t weight_bytes) const {
  const auto tokens = static_cast<double>(args.shape(input_)[0]);
  const auto experts = static_cast<double>(rule_.experts), used = static_cast<double>(rule_.used);
  const double at_most = std::min(tokens * used, experts);
  Cost cost;
  const double share = static_cast<double>(held_) / experts;
  cost.flops =
      6 * tokens * used * static_cast<double>(hidden_) * static_cast<double>(intermediate_) * share;
  cost.bytes = static_cast<double>(weight_bytes) / experts * at_most +
               static_cast<double>(args.tensor(input_).bytes()) +
               static_cast<double>(outputs[0].AsTensor().bytes());
  return cost;
}

}  // namespace oort
