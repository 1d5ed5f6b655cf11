// SPDX-License-Identifier: MIT
// The memory of a language model: keys and values of past tokens, in blocks that sequences share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "oort/layer.h"
#include "oort/tensor.h"

namespace oort {

namespace cuda {
class SequenceTable;  // layers/attention/paged/sequence_table.h
}
class SequenceState;  // oort/sequence_state.h

/// How keys and values are kept. kInt8 has a scale for each token and head, of keys that are spread
/// over their head (layers/attention/paged/kv_spread.h), as queries then are, too. kFp8 (e4m3:
/// three bits behind the point, up to 448) has none, and is for a GPU alone. kK6V4 has keys of 6
/// bits around what the first token of their block has, and values of 4 bits, both in groups of 32
/// elements; it is for the CPU alone.
enum class KvType : unsigned char { kF32, kF16, kInt8, kFp8, kK6V4 };
std::string_view Name(KvType type);
/// Throws kInvalidArgument unless it is a name of one.
KvType KvTypeOf(std::string_view name);

struct KvShape {
  int64_t layers = 0;    ///< 0: no layer has keys and values, and blocks take no memory
  int64_t heads = 0;     ///< of keys and values
  int64_t head_dim = 0;  ///< of both
  KvType type = KvType::kF16;
};

/// Keys and values of all layers, in blocks of kBlockTokens tokens. Whose tokens are in which block
/// is the caller's book-keeping. Thread contract: one thread at a time.
class KvCache {
 public:
  static constexpr int64_t kBlockTokens = 16;

  KvCache(const KvShape& shape, int64_t blocks);
  /// In memory of the caller's, of Bytes(shape, blocks) or more: that of a GPU, for example, where
  /// keys lie like values.
  KvCache(const KvShape& shape, int64_t blocks, std::shared_ptr<Buffer> memory);

  const KvShape& shape() const { return shape_; }
  int64_t blocks() const { return blocks_; }
  /// Blocks that `tokens` of one sequence need.
  static int64_t BlocksFor(int64_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }
  /// Bytes of one block over all layers.
  static size_t BlockBytes(const KvShape& shape);
  static size_t Bytes(const KvShape& shape, int64_t blocks);
  Device device() const { return buffer_->device(); }

  /// Where a layer's keys of one head stand in a block: (head_dim, kBlockTokens), a row for each
  /// element, so that scores of all tokens are made at once. Values: (kBlockTokens, head_dim). Of
  /// kInt8 the kBlockTokens scales of the tokens, f32, stand behind the elements. Of kK6V4 see
  /// layers/attention/paged/cpu/k6v4_layout.h.
  std::byte* Keys(int64_t layer, int32_t block, int64_t head) const;
  std::byte* Values(int64_t layer, int32_t block, int64_t head) const {
    return Keys(layer, block, head) + key_bytes_;
  }

  /// Copies all that a block holds into another one: on a GPU in the order of `stream`, which is
  /// not read elsewhere.
  void CopyBlock(int32_t from, int32_t to, cuda::Stream* stream = nullptr) const;

 private:
  KvShape shape_;
  int64_t blocks_ = 0;
  size_t key_bytes_ = 0;    // of one head in a block
  size_t head_bytes_ = 0;   // with its values
  size_t layer_bytes_ = 0;  // of all blocks
  std::shared_ptr<Buffer> buffer_;
};

/// What an encoder-decoder (T5, BART) has read: what each layer of its decoder sees of the text.
struct EncodedText {
  /// (1, heads, tokens, head_dim) of f32 for each layer; heads of this rank.
  std::vector<Tensor> keys, values;
  int64_t number = -1;  ///< by which other ranks know it; below 0: there are none
};

/// Tokens of one sequence among the rows of a step.
struct SequenceSlice {
  int64_t first = 0;                ///< row of its first token in this step
  int64_t count = 0;                ///< of its tokens in this step
  int64_t position = 0;             ///< of its first token in the sequence
  std::span<const int32_t> blocks;  ///< of the sequence, for position + count tokens at least
  /// That the sequence is known to come to, where that is more than position + count: of a prompt
  /// that is read in parts.
  int64_t length = 0;
  int32_t adapter = -1;               ///< of LanguageModel::adapters; below 0: none
  const EncodedText* text = nullptr;  ///< that the sequence is about, of an encoder-decoder
  SequenceState* state = nullptr;     ///< at `position`, of a model whose layers have such
};

/// A row of a step that stands for part of a picture: what goes in place of its token's embedding.
struct PictureRow {
  int64_t row = 0;
  const float* embedding = nullptr;
};

/// Whose tokens the rows of one step are, and where their keys and values lie; together the slices
/// cover all rows in order.
class SequenceBatch final : public RunState {
 public:
  /// `table`: the slices in the memory of the cache's GPU; null for a cache in host memory.
  /// `rows_alone`: the rows of answers have to be what they are alone, bit by bit. `pictures`: rows
  /// that are not those of their tokens; on the CPU alone.
  SequenceBatch(std::span<const SequenceSlice> slices, KvCache* cache,
                cuda::SequenceTable* table = nullptr, bool rows_alone = true,
                std::span<const PictureRow> pictures = {})
      : slices_(slices),
        cache_(cache),
        table_(table),
        rows_alone_(rows_alone),
        pictures_(pictures) {}
  /// That of a run; null outside of language models.
  static const SequenceBatch* Of(const Context& context) {
    return dynamic_cast<const SequenceBatch*>(context.state());
  }

  std::span<const SequenceSlice> slices() const { return slices_; }
  KvCache* cache() const { return cache_; }
  cuda::SequenceTable* table() const { return table_; }
  bool rows_alone() const { return rows_alone_; }
  std::span<const PictureRow> pictures() const { return pictures_; }

  /// Unset without a table: what layers read of the host's sequences is other each time.
  std::optional<Key> RecordingKey() const override;
  void Enqueue(cuda::Stream& stream) const override;

 private:
  std::span<const SequenceSlice> slices_;
  KvCache* cache_;
  cuda::SequenceTable* table_;
  bool rows_alone_;
  std::span<const PictureRow> pictures_;
};

}  // namespace oort
