// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/checked.h"
#include "core/parallel.h"
#include "layers/language/cached_attention_base.h"
#include "layers/language/kv_kernels.h"
#include "oort/layer.h"

namespace oort {
namespace {

class CachedAttention final : public CachedAttentionBase {
 public:
  explicit CachedAttention(const LayerInit& init)
      : CachedAttentionBase(init), kernels_(KvKernelsFor(init.isa())) {}

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Batch batch = BatchOf(context, args.shape(query_)[0]);
    if (batch.cache.device().type != DeviceType::kCpu) {
      throw Error(ErrorCode::kInvalidArgument,
                  "attention runs on the CPU, but the cache is in the memory of " +
                      batch.cache.device().ToString());
    }
    const float* query = args.tensor(query_).data<float>();
    const float* keys = args.tensor(key_).data<float>();
    if (args.Has(angles_)) {
      float* turned = context.workspace<float>();
      float* turned_keys = turned + args.tensor(query_).elements();
      Turn(context, args, turned, turned_keys);
      query = turned;
      keys = turned_keys;
    }
    WriteNew(context, batch, keys, args.tensor(value_).data<float>());
    Attend(context, batch, query, outputs[0].AsTensor().data<float>());
  }

  size_t Workspace(const Args& args, int) const override {
    if (!args.Has(angles_)) return 0;
    return CheckedAdd(args.tensor(query_).bytes(), args.tensor(key_).bytes());
  }

 private:
  /// A few rows of one sequence that share a head of keys and values.
  struct Chunk {
    const SequenceSlice* slice;
    int64_t head;
    int64_t row;  ///< the first, counting the queries of all tokens that use this head
    int rows;
  };

  void Turn(const Context& context, const Args& args, float* query, float* key) const {
    const HeadTurner turner(args.tensor(angles_), head_dim_, interleaved_);
    const double width = static_cast<double>((heads_ + kv_heads_) * head_dim_) * sizeof(float);
    context.ParallelFor(
        args.shape(query_)[0], GrainOf({width * 2, 0}), [&](int64_t begin, int64_t end) {
          for (int64_t token = begin; token < end; ++token) {
            turner.Token(args.tensor(query_).data<float>(), query, heads_ * head_dim_, token);
            turner.Token(args.tensor(key_).data<float>(), key, kv_heads_ * head_dim_, token);
          }
        });
  }

  void WriteNew(const Context& context, const Batch& batch, const float* keys,
                const float* values) const {
    const int64_t grain = GrainOf({static_cast<double>(head_dim_) * 24, 0});
    for (const SequenceSlice& slice : batch.sequences.slices) {
      context.ParallelFor(slice.count * kv_heads_, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t token = i / kv_heads_, head = i % kv_heads_;
          const int64_t position = slice.position + token;
          const int32_t block = slice.blocks[static_cast<size_t>(position / KvCache::kBlockTokens)];
          const int64_t from = ((slice.first + token) * kv_heads_ + head) * head_dim_;
          kernels_.write(batch.cache.shape().type, keys + from, values + from, head_dim_,
                         position % KvCache::kBlockTokens, batch.cache.Keys(layer_, block, head),
                         batch.cache.Values(layer_, block, head));
        }
      });
    }
  }

  std::vector<Chunk> Chunks(const Batch& batch) const {
    const int64_t group = heads_ / kv_heads_;
    std::vector<Chunk> chunks;
    for (const SequenceSlice& slice : batch.sequences.slices) {
      const int64_t rows = slice.count * group;
      for (int64_t row = 0; row < rows; row += kKvRows) {
        for (int64_t head = 0; head < kv_heads_; ++head) {
          chunks.push_back(
              {&slice, head, row, static_cast<int>(std::min<int64_t>(kKvRows, rows - row))});
        }
      }
    }
    return chunks;
  }

  /// Cuts the last chunks where they do not divide by the threads: three heads on two threads would
  /// take as long as four. What a row comes to does not depend on the other rows of its chunk.
  static void Balance(std::vector<Chunk>& chunks, int threads) {
    const size_t team = static_cast<size_t>(std::max(1, threads)), rest = chunks.size() % team;
    if (rest == 0 || 2 * rest > team || chunks.size() > 4 * team) return;
    const int parts = static_cast<int>(team / rest);
    const std::vector<Chunk> last(chunks.end() - static_cast<std::ptrdiff_t>(rest), chunks.end());
    chunks.resize(chunks.size() - rest);
    for (const Chunk& chunk : last) {
      for (int part = 0; part < parts; ++part) {
        const int begin = chunk.rows * part / parts, end = chunk.rows * (part + 1) / parts;
        if (begin < end)
          chunks.push_back({chunk.slice, chunk.head, chunk.row + begin, end - begin});
      }
    }
  }

  void Attend(const Context& context, const Batch& batch, const float* query, float* out) const {
    std::vector<Chunk> chunks = Chunks(batch);
    Balance(chunks, context.threads());
    double grains = 0;
    for (const Chunk& chunk : chunks) {
      grains += static_cast<double>(chunk.slice->position + chunk.slice->count) *
                static_cast<double>(head_dim_) * kKvRows / (16 * kGrainNanoseconds);
    }
    const int pieces =
        static_cast<int>(std::min<size_t>(static_cast<size_t>(context.threads()), chunks.size()));
    if (pieces == 0) return;
    // Later tokens see more: every thread takes its share of early and of late ones.
    ParallelPieces(context.threads(), pieces, grains, [&](int piece) {
      std::vector<KvBlock> blocks;
      for (size_t i = static_cast<size_t>(piece); i < chunks.size();
           i += static_cast<size_t>(pieces)) {
        AttendChunk(batch, chunks[i], query, out, blocks);
      }
    });
  }

  void AttendChunk(const Batch& batch, const Chunk& chunk, const float* query, float* out,
                   std::vector<KvBlock>& blocks) const {
    const SequenceSlice& slice = *chunk.slice;
    const int64_t group = heads_ / kv_heads_;
    KvAttention attention;
    attention.type = batch.cache.shape().type;
    attention.head_dim = head_dim_;
    attention.rows = chunk.rows;
    attention.scale = scale_;
    attention.softcap = softcap_;
    attention.begin = INT64_MAX;
    for (int r = 0; r < chunk.rows; ++r) {
      const int64_t row = chunk.row + r, token = row / group;
      const int64_t head = chunk.head * group + row % group;
      const int64_t at = ((slice.first + token) * heads_ + head) * head_dim_;
      attention.query[r] = query + at;
      attention.sums[r] = out + at;
      attention.last[r] = slice.position + token;
      attention.first[r] = window_ > 0 ? std::max<int64_t>(0, attention.last[r] - window_ + 1) : 0;
      attention.begin = std::min(attention.begin, attention.first[r]);
      attention.end = std::max(attention.end, attention.last[r] + 1);
    }
    blocks.resize(static_cast<size_t>(KvCache::BlocksFor(attention.end)));
    for (size_t i = 0; i < blocks.size(); ++i) {
      blocks[i] = {batch.cache.Keys(layer_, slice.blocks[i], chunk.head),
                   batch.cache.Values(layer_, slice.blocks[i], chunk.head)};
    }
    attention.blocks = blocks.data();
    kernels_.attend(attention);
    for (int r = 0; r < chunk.rows; ++r) {
      const float inverse = 1.0f / attention.weight[r];
      for (int64_t d = 0; d < head_dim_; ++d) attention.sums[r][d] *= inverse;
    }
  }

  const KvKernels& kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(cached_attention) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"oort.CachedAttention"},
                     "Causal attention with grouped heads: writes keys and values (tokens, "
                     "kv_heads * head_dim) of the new tokens into the blocks of their sequences, "
                     "then lets each query see all tokens of its sequence up to its own, or the "
                     "last `window` of them. With angles, queries and keys turn first, as in "
                     "oort.Rotary. Sequences and cache come with the run")
          .Tensor("query", kF32Only)
          .Tensor("key", kF32Only)
          .Tensor("value", kF32Only)
          .OptionalTensor("angles", kF32Only)
          .Int("layer")
          .AtLeast(0)
          .Int("heads")
          .AtLeast(1)
          .Int("kv_heads")
          .AtLeast(1)
          .Int("head_dim")
          .AtLeast(1)
          .Float("scale")
          .Float("softcap", 0.0)
          .AtLeast(0)
          .Int("window", 0)
          .AtLeast(0)
          .Bool("interleaved", false)
          .Random(),
      Create<CachedAttention>());
}
