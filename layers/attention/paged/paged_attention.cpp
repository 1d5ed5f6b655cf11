// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numbers>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "core/parallel.h"
#include "layers/attention/paged/cpu/kv_kernels.h"
#include "layers/attention/paged/kv_spread.h"
#include "layers/attention/paged/paged_attention_base.h"
#include "layers/precision_param.h"
#include "oort/layer.h"

namespace oort {

namespace {

/// Whether queries and weights may be rounded, as keys and values are.
bool MayRound(const LayerInit& init) { return ReadPrecision(init) != Precision::kF32; }

class PagedAttention final : public PagedAttentionBase {
 public:
  explicit PagedAttention(const LayerInit& init)
      : PagedAttentionBase(init),
        kernels_(KvKernelsFor(init.isa())),
        many_(KvManyRowsKernelsFor(init.isa())),
        write_(KvWriteKernelsFor(init.isa())),
        spread_(KvSpreadKernelsFor(init.isa())),
        rotary_(RotaryKernelsFor(init.isa())),
        halves_(MayRound(init) && !bias_.defined() ? KvF16KernelsFor(init.isa()) : nullptr),
        tiles_(MayRound(init) && !bias_.defined() && FillsKvTiles(head_dim_)
                   ? KvTileKernelsFor(init.isa())
                   : nullptr) {
    if (!bias_.defined()) return;
    const std::span<const float> bias = bias_.span<float>();
    const auto distances = static_cast<std::ptrdiff_t>(bias_.dim(1));
    for (auto head = bias.begin(); head != bias.end(); head += distances) {
      far_first_.insert(far_first_.end(), std::make_reverse_iterator(head + distances),
                        std::make_reverse_iterator(head));
    }
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Batch batch = BatchOf(context, args.shape(query_)[0]);
    if (batch.cache.device().type != DeviceType::kCpu) {
      throw Error(ErrorCode::kInvalidArgument,
                  "attention runs on the CPU, but the cache is in the memory of " +
                      batch.cache.device().ToString());
    }
    if (batch.cache.shape().type == KvType::kFp8) {
      throw Error(ErrorCode::kUnsupported,
                  "attention on the CPU has keys and values of f32, f16, int8 or k6v4, but the "
                  "cache keeps fp8: that is for a GPU");
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
    std::byte* scratch = context.workspace() + TurnedBytes(args);
    Attend(context, batch, query, outputs[0].AsTensor().data<float>(), scratch);
  }

  size_t Workspace(const Args& args, int threads) const override {
    const Kind kind = KindOf(args.shape(query_)[0]);
    const int64_t scratch = CheckedMultiply<int64_t>(ScratchBytes(kind), std::max(1, threads));
    return CheckedAdd(TurnedBytes(args), static_cast<size_t>(scratch));
  }

 private:
  /// Some kernels compute with powers of 2.
  static constexpr float kLn2 = std::numbers::ln2_v<float>;

  /// How rows are computed: the more of one sequence, the more is shared.
  enum class Kind : unsigned char { kFew, kMany, kTiled };

  /// A few rows of one sequence that share a head of keys and values.
  struct Chunk {
    const SequenceSlice* slice;
    int64_t head;
    int64_t row;  ///< the first, counting the queries of all tokens that use this head
    int rows;
    Kind kind;
  };

  /// How so many tokens of a sequence are computed. More tokens than a sequence has, as of a whole
  /// step, never need less memory.
  Kind KindOf(int64_t tokens) const {
    constexpr int64_t kFewTokens = 12;
    if (tiles_ != nullptr && tokens > kFewTokens) return Kind::kTiled;
    const bool is_many = tokens * group_ > kKvRows;
    return is_many && halves_ == nullptr && KvManyRows::Takes(head_dim_) ? Kind::kMany : Kind::kFew;
  }
  /// Of one thread, in whole lines of the cache.
  int64_t ScratchBytes(Kind kind) const {
    const int64_t many = KvManyRows::ScratchFloats(head_dim_) * static_cast<int64_t>(sizeof(float));
    if (kind == Kind::kFew) return 0;
    // A step of tiles may have sequences of few tokens, too.
    const int64_t most =
        kind == Kind::kTiled ? std::max(KvTiles::ScratchBytes(head_dim_), many) : many;
    return (most + 63) / 64 * 64;
  }

  /// Of queries and keys that turn here, in whole lines of the cache.
  size_t TurnedBytes(const Args& args) const {
    if (!args.Has(angles_)) return 0;
    const size_t bytes = CheckedAdd(args.tensor(query_).bytes(), args.tensor(key_).bytes());
    return CheckedAdd<size_t>(bytes, 63) / 64 * 64;
  }

  void Turn(const Context& context, const Args& args, float* query, float* key) const {
    const HeadTurner turner(rotary_, args.tensor(angles_), head_dim_, interleaved_);
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
    constexpr int64_t kBlock = KvCache::kBlockTokens;
    const std::span<const SequenceSlice> slices = batch.sequences.slices();
    std::vector<int64_t> ends;  // of the blocks that each sequence and those before it write to
    ends.reserve(slices.size());
    for (const SequenceSlice& slice : slices) {
      const int64_t first = slice.position / kBlock, last = slice.position + slice.count - 1;
      const int64_t blocks = slice.count == 0 ? 0 : last / kBlock + 1 - first;
      ends.push_back((ends.empty() ? 0 : ends.back()) + blocks);
    }
    const double bytes = static_cast<double>(head_dim_ * kBlock) * 12;
    const int64_t all = ends.empty() ? 0 : ends.back() * kv_heads_;
    context.ParallelFor(all, GrainOf({bytes, 0}), [&](int64_t begin, int64_t end) {
      std::vector<float> spread;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t block = i / kv_heads_;
        const auto which = std::ranges::upper_bound(ends, block) - ends.begin();
        const SequenceSlice& slice = slices[static_cast<size_t>(which)];
        const int64_t before = which == 0 ? 0 : ends[static_cast<size_t>(which - 1)];
        WriteBlock(batch, slice, slice.position / kBlock + block - before, i % kv_heads_, keys,
                   values, spread);
      }
    });
  }

  /// The new tokens of a sequence that lie in its block `block`, for one head. `spread` is memory
  /// for their keys.
  void WriteBlock(const Batch& batch, const SequenceSlice& slice, int64_t block, int64_t head,
                  const float* keys, const float* values, std::vector<float>& spread) const {
    constexpr int64_t kBlock = KvCache::kBlockTokens;
    const int32_t place = slice.blocks[static_cast<size_t>(block)];
    KvTokens tokens;
    tokens.type = batch.cache.shape().type;
    tokens.head_dim = head_dim_;
    const int64_t position = std::max(slice.position, block * kBlock);
    const int64_t token = slice.first + position - slice.position;
    tokens.stride = kv_heads_ * head_dim_;
    tokens.keys = keys + token * tokens.stride + head * head_dim_;
    tokens.values = values + token * tokens.stride + head * head_dim_;
    tokens.slot = position - block * kBlock;
    tokens.count = std::min(slice.position + slice.count, (block + 1) * kBlock) - position;
    tokens.to_keys = batch.cache.Keys(layer_, place, head);
    tokens.to_values = batch.cache.Values(layer_, place, head);
    if (tokens.type == KvType::kInt8) tokens.keys = SpreadKeys(tokens, head, spread);
    write_.write(tokens);
  }

  /// Without what they have in common, and spread.
  const float* SpreadKeys(const KvTokens& tokens, int64_t head, std::vector<float>& spread) const {
    const int64_t width = KvSpreadWidth(tokens.type, head_dim_);
    if (width == 1 && !key_centre_.defined()) return tokens.keys;
    spread.resize(static_cast<size_t>(tokens.count * tokens.stride));
    for (int64_t t = 0; t < tokens.count; ++t) {
      const float* from = tokens.keys + t * tokens.stride;
      float* const to = spread.data() + t * tokens.stride;
      if (key_centre_.defined()) {
        const float* const centre = key_centre_.data<float>() + head * head_dim_;
        std::transform(from, from + head_dim_, centre, to, std::minus<>());
        from = to;
      }
      if (width > 1) spread_.spread(from, to, head_dim_, width);
    }
    return spread.data();
  }

  /// Rows of a chunk, such that the last one is not much smaller than the others: each costs what
  /// unpacking the keys and values takes.
  static int64_t EvenRows(int64_t rows) {
    const int64_t chunks = (rows + kKvManyRows - 1) / kKvManyRows;
    return chunks == 0 ? kKvManyRows : (rows + chunks - 1) / chunks;
  }

  std::vector<Chunk> Chunks(const Batch& batch) const {
    std::vector<Chunk> chunks;
    for (const SequenceSlice& slice : batch.sequences.slices()) {
      const Kind kind = KindOf(slice.count);
      const auto rows_of = [&](int64_t head) { return slice.count * GroupOf(head).count; };
      const auto most_of = [&](int64_t rows) -> int64_t {
        if (kind == Kind::kTiled) return kKvTileRows;
        return kind == Kind::kMany ? EvenRows(rows) : kKvRows;
      };
      // Neighbours are of different heads: all of them early, or all of them late.
      bool is_more = true;
      for (int64_t turn = 0; std::exchange(is_more, false); ++turn) {
        for (int64_t head = 0; head < kv_heads_; ++head) {
          const int64_t rows = rows_of(head), most = most_of(rows), row = turn * most;
          if (row >= rows) continue;
          is_more = true;
          chunks.push_back({&slice, head, row, static_cast<int>(std::min(most, rows - row)), kind});
        }
      }
    }
    return chunks;
  }

  /// Cuts the last chunks in two where their number is no multiple of the threads: three heads on
  /// two threads would take as long as four. The result of a row does not depend on the other rows
  /// of its chunk.
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
          chunks.push_back({chunk.slice, chunk.head, chunk.row + begin, end - begin, chunk.kind});
      }
    }
  }

  /// Later tokens see more keys, so each thread gets a share of the early and of the late ones.
  static void Deal(std::vector<Chunk>& chunks, int threads) {
    const std::vector<Chunk> all = std::exchange(chunks, {});
    const size_t team = static_cast<size_t>(std::max(1, threads));
    for (size_t thread = 0; thread < team; ++thread) {
      for (size_t i = thread; i < all.size(); i += team) chunks.push_back(all[i]);
    }
  }

  void Attend(const Context& context, const Batch& batch, const float* query, float* out,
              std::byte* scratch) const {
    std::vector<Chunk> chunks = Chunks(batch);
    Balance(chunks, context.threads());
    double grains = 0;
    for (const Chunk& chunk : chunks) {
      grains += static_cast<double>(chunk.slice->position + chunk.slice->count) *
                static_cast<double>(head_dim_) * chunk.rows / (16 * kGrainNanoseconds);
    }
    Deal(chunks, context.threads());
    const int64_t count = static_cast<int64_t>(chunks.size());
    int64_t tokens = 0;
    for (const SequenceSlice& slice : batch.sequences.slices()) tokens += slice.count;
    const int64_t scratch_bytes = ScratchBytes(KindOf(tokens));
    ParallelPlaces(context.threads(), count, grains, [&](int place, int64_t begin, int64_t end) {
      std::vector<KvBlock> blocks;
      std::vector<float> spread;
      for (int64_t i = begin; i < end; ++i) {
        const Chunk& chunk = chunks[static_cast<size_t>(i)];
        std::byte* const own = scratch + place * scratch_bytes;
        if (chunk.kind == Kind::kTiled) {
          KvTiles tiles;
          tiles.scratch = own;
          // What came in earlier steps; the first rows bring it for the others.
          tiles.fetches_ahead = chunk.slice->position > 0 && chunk.row < kKvTileRows;
          SetChunk(batch, chunk, query, out, blocks, spread, tiles);
          tiles_->attend(tiles);
          AddSinks(chunk, kLn2, tiles);
        } else if (chunk.kind == Kind::kMany) {
          KvManyRows rows;
          rows.scratch = reinterpret_cast<float*>(own);
          SetChunk(batch, chunk, query, out, blocks, spread, rows);
          many_.attend(rows);
          AddSinks(chunk, 1, rows);
        } else {
          KvAttention rows;
          SetChunk(batch, chunk, query, out, blocks, spread, rows);
          const bool in_halves = halves_ != nullptr && halves_->attend(rows);
          if (!in_halves) kernels_.attend(rows);
          AddSinks(chunk, in_halves ? kLn2 : 1, rows);
        }
      }
    });
  }

  /// Sinks take a share of each row's weights. Kernels leave the largest score of a row, in units
  /// of `unit`, and the sum of its weights relative to that.
  template <typename Queries>
  void AddSinks(const Chunk& chunk, float unit, const Queries& attention) const {
    if (!sinks_.defined()) return;
    const Group group = GroupOf(chunk.head);
    for (int r = 0; r < chunk.rows; ++r) {
      const int64_t head = group.first + (chunk.row + r) % group.count;
      const float sink = std::exp(sinks_.data<float>()[head] - attention.max[r] * unit);
      const float share = attention.weight[r] / (attention.weight[r] + sink);
      float* const sums = attention.sums[r];
      for (int64_t d = 0; d < head_dim_; ++d) sums[d] *= share;
    }
  }

  /// As the keys of their cache are. Each row is in one chunk, so none is spread twice.
  template <typename Queries>
  void SpreadQueries(int64_t width, std::vector<float>& spread, Queries& attention) const {
    if (width == 1) return;
    spread.resize(static_cast<size_t>(attention.rows * head_dim_));
    for (int r = 0; r < attention.rows; ++r) {
      float* const to = spread.data() + r * head_dim_;
      spread_.spread(attention.query[r], to, head_dim_, width);
      attention.query[r] = to;
    }
  }

  template <typename Queries>
  void SetChunk(const Batch& batch, const Chunk& chunk, const float* query, float* out,
                std::vector<KvBlock>& blocks, std::vector<float>& spread,
                Queries& attention) const {
    const SequenceSlice& slice = *chunk.slice;
    const Group group = GroupOf(chunk.head);
    attention.type = batch.cache.shape().type;
    attention.head_dim = head_dim_;
    attention.rows = chunk.rows;
    attention.scale = scale_;
    attention.softcap = softcap_;
    attention.begin = INT64_MAX;
    for (int r = 0; r < chunk.rows; ++r) {
      const int64_t row = chunk.row + r, token = row / group.count;
      const int64_t head = group.first + row % group.count;
      const int64_t at = ((slice.first + token) * heads_ + head) * head_dim_;
      attention.query[r] = query + at;
      attention.sums[r] = out + at;
      attention.last[r] = slice.position + token;
      if (bias_.defined()) {
        attention.distances = bias_.dim(1);
        attention.bias[r] = far_first_.data() + head * attention.distances;
      }
      attention.first[r] = FirstSeen(attention.last[r]);
      attention.begin = std::min(attention.begin, attention.first[r]);
      attention.end = std::max(attention.end, attention.last[r] + 1);
    }
    SpreadQueries(KvSpreadWidth(attention.type, head_dim_), spread, attention);
    blocks.resize(static_cast<size_t>(KvCache::BlocksFor(attention.end)));
    for (size_t i = 0; i < blocks.size(); ++i) {
      blocks[i] = {batch.cache.Keys(layer_, slice.blocks[i], chunk.head),
                   batch.cache.Values(layer_, slice.blocks[i], chunk.head)};
    }
    attention.blocks = blocks.data();
  }

  const KvKernels& kernels_;
  const KvManyRowsKernels& many_;
  const KvWriteKernels& write_;
  const KvSpreadKernels& spread_;
  const RotaryKernels& rotary_;
  const KvF16Kernels* halves_;    // null: exact, or no such products
  const KvTileKernels* tiles_;    // likewise
  std::vector<float> far_first_;  // bias_ of each head, from the furthest distance on
};

}  // namespace
}  // namespace oort

OORT_LAYERS(paged_attention) {
  using namespace oort;
  OperatorSchema schema =
      OperatorSchema(
          {"oort.PagedAttention"},
          "Causal attention with grouped heads: writes keys and values (tokens, "
          "kv_heads * head_dim) of the new tokens into the blocks of their sequences, "
          "then lets each query see all tokens of its sequence up to its own, or the "
          "last `window` of them; chunked: those since the last multiple of `window`. With angles, "
          "queries and keys turn first, as in "
          "oort.Rotary. sinks: of each head a score that takes its share of the softmax "
          "without a value. distance_bias: (heads, distances), what is added to the score of a "
          "token so far before the query, of those further away as of the last. key_centre: "
          "(kv_heads * head_dim), what keys have in common once they turned; int8 caches keep the "
          "rest. Sequences and cache come with the run. A rank may "
          "begin with query first_query of the group of its first key, and end within one: "
          "group then says how many queries share a key. precision=bf16 may round "
          "both factors to bf16 where a sequence has many new tokens")
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
          .Int("group", 0)
          .AtLeast(0)
          .Int("first_query", 0)
          .AtLeast(0)
          .Float("scale")
          .Float("softcap", 0.0)
          .AtLeast(0)
          .Int("window", 0)
          .AtLeast(0)
          .Bool("chunked", false)
          .Bool("interleaved", false)
          .OptionalAttribute("sinks", kF32Only)
          .OptionalAttribute("distance_bias", kF32Only)
          .OptionalAttribute("key_centre", kF32Only)
          .Random();
  AddPrecisionParam(schema);
  registry.Add(schema, Create<PagedAttention>());
}
