// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "layers/rotary/rotary.h"
#include "oort/kv_cache.h"

namespace oort {
namespace {

class RotaryAngles final : public RotaryAnglesBase {
 public:
  using RotaryAnglesBase::RotaryAnglesBase;

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor positions = args.tensor(positions_).To(DType::kI64);
    const std::vector<bool> is_long = LongTokens(context, positions.span<int64_t>());
    const int64_t pairs = static_cast<int64_t>(frequencies_.size());
    float* angles = outputs[0].AsTensor().data<float>();
    // A sine or a cosine counts as fifty simple operations.
    const int64_t grain = GrainOf({0, static_cast<double>(pairs) * 100});
    context.ParallelFor(positions.elements(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) {
        Write(positions.data<int64_t>()[token], is_long[static_cast<size_t>(token)],
              angles + token * 2 * pairs);
      }
    });
  }

 private:
  /// Whether a token belongs to a sequence that is known to be longer than the original context.
  std::vector<bool> LongTokens(const Context& context, std::span<const int64_t> positions) const {
    std::vector<bool> is_long(positions.size(), false);
    if (original_context_ == 0) return is_long;
    const SequenceBatch* batch = SequenceBatch::Of(context);
    if (batch == nullptr) {
      int64_t length = 0;
      for (int64_t position : positions) length = std::max(length, position + 1);
      is_long.assign(positions.size(), length > original_context_);
      return is_long;
    }
    for (const SequenceSlice& slice : batch->slices()) {
      const int64_t length = std::max(slice.position + slice.count, slice.length);
      for (int64_t i = 0; i < slice.count; ++i) {
        is_long[static_cast<size_t>(slice.first + i)] = length > original_context_;
      }
    }
    return is_long;
  }

  /// Angles are products of f32, as in torch; their sine and cosine are taken in f64.
  void Write(int64_t position, bool is_long, float* out) const {
    const std::vector<float>& frequencies = is_long ? long_frequencies_ : frequencies_;
    const double magnitude = is_long ? long_magnitude_ : magnitude_;
    const size_t pairs = frequencies.size();
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(static_cast<float>(position) * frequencies[i]);
      out[i] = static_cast<float>(std::cos(angle) * magnitude);
      out[pairs + i] = static_cast<float>(std::sin(angle) * magnitude);
    }
  }
};

class Rotary final : public RotaryBase {
 public:
  explicit Rotary(const LayerInit& init)
      : RotaryBase(init), kernels_(RotaryKernelsFor(init.isa())) {}

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& angles = args.tensor(angles_);
    const HeadTurner turn(kernels_, angles, head_dim_, interleaved_);
    const double width =
        static_cast<double>(args.shape(query_)[1] + args.shape(key_)[1]) * sizeof(float);
    context.ParallelFor(angles.dim(0), GrainOf({width * 2, 0}), [&](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) {
        for (int i = 0; i < 2; ++i) {
          const Tensor& from = args.tensor(i == 0 ? query_ : key_);
          turn.Token(from.data<float>(), outputs[static_cast<size_t>(i)].AsTensor().data<float>(),
                     from.dim(1), token);
        }
      }
    });
  }

 private:
  const RotaryKernels& kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(rotary) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"oort.RotaryAngles"},
                     "(tokens, 2, pairs): magnitude times cosine and sine of position * "
                     "frequencies[i]; of sequences longer than original_context (unless 0) with "
                     "long_frequencies and long_magnitude")
          .Tensor("positions", kIntegers)
          .Float("magnitude", 1.0)
          .Float("long_magnitude", 1.0)
          .Int("original_context", 0)
          .AtLeast(0)
          .Attribute("frequencies", kF32Only)
          .OptionalAttribute("long_frequencies", kF32Only),
      Create<RotaryAngles>());
  registry.Add(
      OperatorSchema({"oort.Rotary"},
                     "Rotary position embedding of queries and keys (tokens, heads * head_dim): "
                     "pair i of each head, elements (i, pairs + i) or, interleaved, (2i, 2i + 1), "
                     "turns by the angle that oort.RotaryAngles gives")
          .Tensor("query", kF32Only)
          .Tensor("key", kF32Only)
          .Tensor("angles", kF32Only)
          .Int("head_dim")
          .AtLeast(2)
          .Bool("interleaved", false)
          .Outputs(2),
      Create<Rotary>());
}
