// SPDX-License-Identifier: MIT
// What an `oort.ExpertMixture` says of itself, on every device.
#pragma once

#include <array>
#include <vector>

#include "layers/epilogue.h"
#include "layers/experts/expert_routing.h"
#include "layers/quantized_linear/stored_weight.h"

namespace oort {

/// The weights of an expert.
enum ExpertPart : unsigned char { kGatePart, kUpPart, kDownPart };
inline constexpr int kExpertParts = 3;

class ExpertMixtureSpec {
 public:
  explicit ExpertMixtureSpec(const LayerInit& init);

  int64_t hidden() const { return hidden_; }
  int64_t intermediate() const { return intermediate_; }
  int64_t held() const { return held_; }    ///< experts that are here
  int64_t first() const { return first_; }  ///< of these among all that the router knows
  bool sums() const { return sums_; }
  float limit() const { return limit_; }
  const RoutingRule& rule() const { return rule_; }
  const Tensor& correction() const { return correction_; }  ///< undefined for none
  FusedEpilogue& epilogue() { return epilogue_; }
  const FusedEpilogue& epilogue() const { return epilogue_; }

  /// Of one expert.
  int64_t RowsOf(ExpertPart part) const { return part == kDownPart ? hidden_ : intermediate_; }
  /// Those of all experts, one behind the other.
  StoredMatrix Weights(const LayerInit& init, ExpertPart part) const;
  /// (experts * rows), or undefined.
  Tensor Bias(const LayerInit& init, ExpertPart part) const;

  int64_t Tokens(const Args& args) const { return args.shape(input_)[0]; }
  const float* x(const Args& args) const { return args.tensor(input_).data<float>(); }
  const float* logits(const Args& args) const { return args.tensor(router_).data<float>(); }

  std::vector<Value> Infer(const Args& args) const;
  bool Packs(int argument) const { return IsAmong(packed_, argument); }
  /// `weight_bytes`: of all experts that are here.
  Cost Work(const Args& args, std::span<const Value> outputs, size_t weight_bytes) const;

 private:
  int input_, router_;
  int64_t hidden_, intermediate_;
  int64_t held_, first_;
  bool sums_;
  Tensor correction_;  ///< before the rule, which looks at it
  RoutingRule rule_;
  float limit_;
  FusedEpilogue epilogue_;
  std::vector<int> packed_;
};

}  // namespace oort
