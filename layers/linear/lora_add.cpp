// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/parallel.h"
#include "cuda/memory.h"
#include "layers/attention/paged/sequence_table.h"
#include "layers/linear/device_lora.h"
#include "layers/linear/lora_kernels.h"
#include "oort/kv_cache.h"
#include "oort/layer.h"

namespace oort {
namespace {

/// Adds what the adapter of each row's sequence changes in a product; rows without one stay as they
/// are. Each row is computed by itself, in the same order of sums whatever stands beside it.
class LoraAdd final : public Layer {
 public:
  explicit LoraAdd(const LayerInit& init)
      : kernels_(LoraKernelsFor(init.isa())),
        base_(init.Arg("base")),
        input_(init.Arg("input")),
        down_arg_(init.Arg("@down")),
        up_arg_(init.Arg("@up")),
        down_(init.Weight("down")),
        up_(init.Weight("up")) {
    const std::vector<int64_t> ranks = init.Ints("ranks");
    const int64_t rows = down_.rank() == 2 ? down_.dim(0) : -1;
    const bool in_range =
        std::ranges::all_of(ranks, [&](int64_t rank) { return rank >= 0 && rank <= rows; });
    if (!in_range || std::accumulate(ranks.begin(), ranks.end(), int64_t{0}) != rows ||
        up_.rank() != 2 || up_.dim(0) != rows) {
      throw Error(
          ErrorCode::kInvalidModel,
          "expected matrices down and up with as many rows as the ranks have together, got " +
              down_.shape().ToString() + " and " + up_.shape().ToString());
    }
    for (int64_t first = 0; const int64_t each : ranks) {
      parts_.push_back({first, each});
      first += each;
      most_rank_ = std::max(most_rank_, each);
    }
    if (init.device().type == DeviceType::kCuda) Upload(init.device());
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  bool Packs(int argument) const override {
    return on_device_parts_.defined() && (argument == down_arg_ || argument == up_arg_);
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& base = args.shape(base_);
    const Shape& input = args.shape(input_);
    if (base.rank() != 2 || input.rank() != 2 || base[0] != input[0] || base[1] != up_.dim(1) ||
        input[1] != down_.dim(1)) {
      throw Error(ErrorCode::kInvalidArgument, "expected (tokens, " + std::to_string(up_.dim(1)) +
                                                   ") and (tokens, " +
                                                   std::to_string(down_.dim(1)) + "), got " +
                                                   base.ToString() + " and " + input.ToString());
    }
    return {Tensor::Meta(DType::kF32, base)};
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, base_, 0}}; }

  /// Of each row: the products with down, and the part that is for it.
  size_t Workspace(const Args& args, int) const override {
    const auto rows = static_cast<size_t>(args.shape(base_)[0]);
    return rows * (sizeof(const Part*) + static_cast<size_t>(most_rank_) * sizeof(float));
  }

  Cost Work(const Args& args, std::span<const Value>) const override {
    const auto rows = static_cast<double>(args.shape(base_)[0]);
    const auto widths = static_cast<double>(down_.dim(1) + up_.dim(1));
    const auto rank = static_cast<double>(most_rank_);
    return {2 * rows * rank * widths, sizeof(float) * widths * (rows + rank)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    if (context.stream() != nullptr) return ForwardOnDevice(context, args, outputs);
    const Tensor& base = args.tensor(base_);
    Tensor& out = outputs[0].AsTensor();
    if (out.raw() != base.raw() && base.bytes() > 0) {
      std::memcpy(out.raw(), base.raw(), base.bytes());
    }
    const int64_t rows = base.dim(0);
    const auto** parts = context.workspace<const Part*>();
    if (!FindParts(context, parts, rows)) return;
    auto* factors = reinterpret_cast<float*>(parts + rows);
    MultiplyDown(context, args.tensor(input_), parts, factors);
    AddUp(context, parts, factors, out);
  }

 private:
  static constexpr int64_t kBlock = 256;  ///< outputs that one item of a loop writes

  /// The rows of down and up that are an adapter's; none where it leaves this weight alone.
  struct Part {
    int64_t first = 0, rank = 0;
  };

  /// Which part is for each row, null for none. Returns whether there is one.
  bool FindParts(const Context& context, const Part** parts, int64_t rows) const {
    std::fill_n(parts, rows, nullptr);
    const SequenceBatch* batch = SequenceBatch::Of(context);
    if (batch == nullptr) return false;
    bool any = false;
    for (const SequenceSlice& slice : batch->slices()) {
      if (slice.adapter < 0) continue;
      if (slice.adapter >= std::ssize(parts_) || slice.first < 0 || slice.count < 0 ||
          slice.count > rows - slice.first) {
        throw Error(ErrorCode::kInvalidArgument,
                    "expected an adapter below " + std::to_string(parts_.size()) +
                        " and rows below " + std::to_string(rows) + ", got " +
                        std::to_string(slice.adapter) + " and " + std::to_string(slice.first) +
                        " + " + std::to_string(slice.count));
      }
      const Part& part = parts_[static_cast<size_t>(slice.adapter)];
      if (part.rank == 0) continue;
      std::fill_n(parts + slice.first, slice.count, &part);
      any |= slice.count > 0;
    }
    return any;
  }

  void Upload(Device device) {
    Tensor parts(DType::kI64, {std::ssize(parts_), 2});
    int64_t* out = parts.data<int64_t>();
    for (const Part& part : parts_) {
      *out++ = part.first;
      *out++ = part.rank;
    }
    on_device_parts_ = cuda::ToDevice(parts, device);
    down_ = cuda::ToDevice(down_, device);
    up_ = cuda::ToDevice(up_, device);
  }

  /// A recorded step is replayed for sequences of other adapters: kernels read whose a row is from
  /// the table of the step.
  void ForwardOnDevice(const Context& context, const Args& args, std::span<Value> outputs) const {
    const SequenceBatch* batch = SequenceBatch::Of(context);
    if (batch == nullptr || batch->table() == nullptr) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "expected the sequences of a step in the GPU's memory: it is for language models");
    }
    const LoraOnDevice lora = {.down = down_.data<float>(),
                               .up = up_.data<float>(),
                               .parts = on_device_parts_.data<int64_t>(),
                               .adapters = std::ssize(parts_),
                               .most_rank = most_rank_,
                               .inputs = down_.dim(1),
                               .outputs = up_.dim(1)};
    AddLoraOnDevice(*context.stream(), lora, batch->table()->device().adapters, args.tensor(base_),
                    args.tensor(input_), context.workspace<float>(), outputs[0].AsTensor());
  }

  void MultiplyDown(const Context& context, const Tensor& input, const Part* const* parts,
                    float* factors) const {
    const int64_t inputs = down_.dim(1);
    const double bytes = sizeof(float) * static_cast<double>(inputs);
    context.ParallelFor(
        input.dim(0) * most_rank_, GrainOf({2 * bytes, 0}), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t row = i / most_rank_, r = i % most_rank_;
            if (parts[row] == nullptr || r >= parts[row]->rank) continue;
            factors[i] = kernels_.dot(down_.data<float>() + (parts[row]->first + r) * inputs,
                                      input.data<float>() + row * inputs, inputs);
          }
        });
  }

  void AddUp(const Context& context, const Part* const* parts, const float* factors,
             Tensor& out) const {
    const int64_t outputs = up_.dim(1), blocks = (outputs + kBlock - 1) / kBlock;
    const double bytes = sizeof(float) * static_cast<double>(kBlock * most_rank_);
    context.ParallelFor(out.dim(0) * blocks, GrainOf({bytes, 0}), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / blocks, first = i % blocks * kBlock;
        if (parts[row] == nullptr) continue;
        kernels_.add_rows(factors + row * most_rank_, parts[row]->rank,
                          up_.data<float>() + parts[row]->first * outputs + first, outputs,
                          out.data<float>() + row * outputs + first,
                          std::min(kBlock, outputs - first));
      }
    });
  }

  const LoraKernels& kernels_;
  int base_, input_, down_arg_, up_arg_;
  Tensor down_, up_;         ///< (ranks, inputs) and (ranks, outputs)
  Tensor on_device_parts_;   ///< the numbers of parts_ beside down_ and up_ in a GPU's memory
  std::vector<Part> parts_;  ///< of each adapter
  int64_t most_rank_ = 0;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(lora_add) {
  using namespace oort;
  registry.Add(OperatorSchema(
                   {"oort.LoraAdd"},
                   "base + input down_a^T up_a for the rows of sequences with the LoRA adapter a; "
                   "the matrices of adapter a are the next ranks[a] rows of down and up. Rows "
                   "without an adapter are those of base")
                   .Tensor("base", kF32Only)
                   .Tensor("input", kF32Only)
                   .Ints("ranks")
                   .Attribute("down", kF32Only)
                   .Attribute("up", kF32Only),
               Create<LoraAdd>());
}

OORT_CUDA_LAYERS(lora_add) { registry.AddDevice({"oort.LoraAdd"}, DeviceType::kCuda); }
