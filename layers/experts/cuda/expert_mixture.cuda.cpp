// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "cuda/memory.h"
#include "layers/experts/cuda/expert_products.h"
#include "layers/experts/cuda/mixture_scratch.h"
#include "layers/experts/expert_mixture_spec.h"
#include "layers/precision_param.h"
#include "layers/quantized_linear/cuda/device_matrix.h"
#include "layers/quantized_linear/cuda/gemv.h"

namespace oort {
namespace {

/// Routes tokens, multiplies by the experts that they go to, and sums up: a launch each, of a shape
/// that the number of tokens gives.
class CudaExpertMixture final : public Layer {
 public:
  explicit CudaExpertMixture(const LayerInit& init)
      : spec_(init),
        device_(init.device()),
        planes_(ReadPrecision(init) == Precision::kF32 ? cuda::kExactPlanes : cuda::kFastPlanes) {
    Refuse(init);
    const auto matrix = [&](std::span<const ExpertPart> parts) {
      return std::make_unique<cuda::DeviceMatrix>(PartsOf(init, parts), parts.size() > 1, device_);
    };
    constexpr std::array<ExpertPart, 2> kUpParts = {kGatePart, kUpPart};
    constexpr std::array<ExpertPart, 1> kDownParts = {kDownPart};
    CheckAlike(PartsOf(init, kUpParts));
    up_ = matrix(kUpParts);
    down_ = matrix(kDownParts);
    for (const ExpertPart part : {kGatePart, kUpPart, kDownPart}) {
      if (const Tensor bias = spec_.Bias(init, part); bias.defined()) {
        biases_[part] = cuda::ToDevice(bias, device_);
      }
    }
    if (spec_.correction().defined()) correction_ = cuda::ToDevice(spec_.correction(), device_);
  }

  std::vector<Value> Infer(const Args& args) const override { return spec_.Infer(args); }

  LayerTraits Traits() const override {
    return {.batch_invariant_rows = cuda::kFewTokens, .fast_invariant_rows = cuda::kFewTokens};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const int64_t tokens = spec_.Tokens(args), most = cuda::MixtureTokensAtOnce(ShapeOfMixture());
    for (int64_t first = 0; first < tokens; first += most) {
      Run(context, args, outputs, first, std::min(most, tokens - first));
    }
  }

  size_t Workspace(const Args& args, int) const override {
    const cuda::MixtureShape shape = ShapeOfMixture();
    const int64_t tokens = std::min(spec_.Tokens(args), cuda::MixtureTokensAtOnce(shape));
    return cuda::MixtureScratch(shape, tokens).total;
  }

  bool Packs(int argument) const override { return spec_.Packs(argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    return spec_.Work(args, outputs, up_->bytes() + down_->bytes());
  }

 private:
  void Refuse(const LayerInit& init) const {
    const RoutingRule& rule = spec_.rule();
    const auto refuse = [](const std::string& reason) {
      throw Error(ErrorCode::kUnsupported, reason);
    };
    if (init.Bool("on_host")) refuse("has weights that do not fit on the GPU");
    if (!spec_.sums()) refuse("gives rows that are not summed up, which the GPU does not");
    const Activation activation = spec_.epilogue().activation().kind;
    if (!cuda::SupportsActivation(activation)) {
      refuse("has the activation '" + std::string(Name(activation)) +
             "', which has no kernel on the GPU");
    }
    if (rule.experts > cuda::kMostRoutedExperts || rule.used > cuda::kMostUsedExperts ||
        rule.groups > cuda::kMostRoutedGroups) {
      refuse("has more experts, groups or experts of a token than kernels on the GPU take");
    }
  }

  static void CheckAlike(const std::vector<StoredMatrix>& parts) {
    if (cuda::DeviceMatrix::Alike(parts)) return;
    throw Error(
        ErrorCode::kUnsupported,
        "has gates and what they gate in two formats, which the GPU cannot multiply at once");
  }

  /// Expert by expert, and of an expert those parts: so each begins at a whole strip.
  std::vector<StoredMatrix> PartsOf(const LayerInit& init,
                                    std::span<const ExpertPart> parts) const {
    std::vector<StoredMatrix> all, cut;
    for (const ExpertPart part : parts) all.push_back(spec_.Weights(init, part));
    for (int64_t expert = 0; expert < spec_.held(); ++expert) {
      for (size_t i = 0; i < parts.size(); ++i) {
        cut.push_back(StoredRows(all[i], expert, spec_.RowsOf(parts[i])));
      }
    }
    return cut;
  }

  cuda::MixtureShape ShapeOfMixture() const {
    return {spec_.hidden(), spec_.intermediate(), spec_.held(), spec_.rule().used, planes_};
  }

  static cuda::RoutedPairs PairsAt(std::byte* scratch, const cuda::MixtureScratch& layout) {
    const auto numbers = [&](size_t at) { return reinterpret_cast<int*>(scratch + at); };
    return {numbers(layout.experts), reinterpret_cast<float*>(scratch + layout.weights),
            numbers(layout.order), numbers(layout.starts), numbers(layout.in_use)};
  }

  /// What both products of a call have in common.
  cuda::ExpertProduct ProductOf(const cuda::DeviceMatrix& matrix, const cuda::RoutedPairs& pairs,
                                int64_t tokens) const {
    cuda::ExpertProduct product;
    product.weights = matrix.weights();
    product.strips = static_cast<int>(matrix.weights().strips / spec_.held());
    product.planes = planes_;
    product.tokens = tokens;
    product.used = static_cast<int>(spec_.rule().used);
    product.held = static_cast<int>(spec_.held());
    product.pairs = pairs;
    return product;
  }

  const float* BiasOf(ExpertPart part) const {
    return biases_[part].defined() ? biases_[part].data<float>() : nullptr;
  }

  /// Tokens [first, first + tokens) of a call.
  void Run(const Context& context, const Args& args, std::span<Value> outputs, int64_t first,
           int64_t tokens) const {
    const cuda::Stream& stream = *context.stream();
    std::byte* scratch = context.workspace();
    const cuda::MixtureScratch layout(ShapeOfMixture(), tokens);
    const cuda::RoutedPairs pairs = PairsAt(scratch, layout);
    cuda::RoutingStep step;
    step.rule = spec_.rule();
    step.rule.correction = correction_.defined() ? correction_.data<float>() : nullptr;
    step.first = spec_.first();
    step.held = spec_.held();
    step.logits = spec_.logits(args) + first * step.rule.experts;
    step.tokens = tokens;
    step.x = spec_.x(args) + first * spec_.hidden();
    step.columns = spec_.hidden();
    step.pairs = pairs;
    step.split_x = scratch + layout.x;
    step.planes = planes_;
    cuda::RouteExperts(stream, step);

    cuda::ExpertProduct up = ProductOf(*up_, pairs, tokens);
    up.x = step.split_x;
    up.rows = static_cast<int>(spec_.intermediate());
    up.gated = true;
    up.bias = BiasOf(kGatePart);
    up.up_bias = BiasOf(kUpPart);
    up.scales_inputs = step.rule.scales_inputs;
    up.limit = spec_.limit();
    up.activation = spec_.epilogue().activation().kind;
    up.hidden = scratch + layout.hidden;
    cuda::RunExperts(stream, up);

    cuda::ExpertProduct down = ProductOf(*down_, pairs, tokens);
    down.x = up.hidden;
    down.rows = static_cast<int>(spec_.hidden());
    down.bias = BiasOf(kDownPart);
    down.y = reinterpret_cast<float*>(scratch + layout.rows);
    cuda::RunExperts(stream, down);

    cuda::ExpertSum sum;
    sum.rows = down.y;
    sum.out = outputs[0].AsTensor().data<float>() + first * spec_.hidden();
    if (const float* addend = spec_.epilogue().addend(args)) {
      sum.addend = addend + first * spec_.hidden();
    }
    sum.tokens = tokens;
    sum.width = spec_.hidden();
    sum.used = down.used;
    sum.held = down.held;
    sum.weighted = !step.rule.scales_inputs;
    sum.pairs = pairs;
    cuda::SumExperts(stream, sum);
  }

  ExpertMixtureSpec spec_;
  Device device_;
  int planes_;
  std::unique_ptr<cuda::DeviceMatrix> up_, down_;
  std::array<Tensor, kExpertParts> biases_;
  Tensor correction_;
};

}  // namespace

}  // namespace oort

OORT_CUDA_LAYERS(expert_mixture) {
  using namespace oort;
  registry.AddDevice({"oort.ExpertMixture"}, DeviceType::kCuda, Create<CudaExpertMixture>());
}
