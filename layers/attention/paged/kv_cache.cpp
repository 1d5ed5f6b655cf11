// SPDX-License-Identifier: MIT
#include "oort/kv_cache.h"

#include <array>
#include <cstring>
#include <string>

#include "core/checked.h"
#include "cuda/stream.h"
#include "layers/attention/paged/cpu/k6v4_layout.h"

namespace oort {
namespace {

constexpr std::array<std::string_view, 5> kKvTypeNames = {"f32", "f16", "int8", "fp8", "k6v4"};

size_t ItemBytes(KvType type) {
  switch (type) {
    case KvType::kF32: return 4;
    case KvType::kF16: return 2;
    default: return 1;
  }
}

/// Of one head in one block.
struct HeadBytes {
  size_t keys = 0, values = 0;
  size_t both() const { return CheckedAdd(keys, values); }
};

size_t UpTo(size_t multiple, size_t bytes) {
  return CheckedAdd(bytes, multiple - 1) / multiple * multiple;
}

/// Multiples of 64 bytes; of kK6V4, whose loads are shorter, of 16.
HeadBytes BytesOfHead(const KvShape& shape) {
  if (shape.type == KvType::kK6V4) {
    CheckedMultiply<int64_t>(shape.head_dim, KvCache::kBlockTokens);  // more than a side's bytes
    const K6V4Layout layout(shape.head_dim);
    return {UpTo(16, static_cast<size_t>(layout.key_bytes())),
            UpTo(16, static_cast<size_t>(layout.value_bytes()))};
  }
  const size_t elements = CheckedMultiply(static_cast<size_t>(shape.head_dim),
                                          static_cast<size_t>(KvCache::kBlockTokens));
  const size_t scales =
      shape.type == KvType::kInt8 ? static_cast<size_t>(KvCache::kBlockTokens) * sizeof(float) : 0;
  const size_t bytes = CheckedAdd(CheckedMultiply(elements, ItemBytes(shape.type)), scales);
  return {UpTo(64, bytes), UpTo(64, bytes)};
}

}  // namespace

std::string_view Name(KvType type) { return kKvTypeNames[static_cast<size_t>(type)]; }

KvType KvTypeOf(std::string_view name) {
  for (size_t i = 0; i < kKvTypeNames.size(); ++i) {
    if (kKvTypeNames[i] == name) return static_cast<KvType>(i);
  }
  throw Error(ErrorCode::kInvalidArgument,
              "keys and values are kept as f32, f16, int8, fp8 or k6v4, not as '" +
                  std::string(name) + "'");
}

size_t KvCache::BlockBytes(const KvShape& shape) {
  if (shape.layers == 0) return 0;
  const size_t heads = CheckedMultiply(static_cast<size_t>(shape.heads), BytesOfHead(shape).both());
  return CheckedMultiply(heads, static_cast<size_t>(shape.layers));
}

size_t KvCache::Bytes(const KvShape& shape, int64_t blocks) {
  if (shape.layers < 0 || shape.heads < 1 || shape.head_dim < 1 || blocks < 1 ||
      blocks > INT32_MAX) {
    throw Error(ErrorCode::kInvalidArgument,
                "a KvCache needs heads, elements and blocks, at least one of each");
  }
  return CheckedMultiply(BlockBytes(shape), static_cast<size_t>(blocks));
}

KvCache::KvCache(const KvShape& shape, int64_t blocks)
    : KvCache(shape, blocks, AllocateHost(Bytes(shape, blocks))) {}

KvCache::KvCache(const KvShape& shape, int64_t blocks, std::shared_ptr<Buffer> memory)
    : shape_(shape), blocks_(blocks), buffer_(std::move(memory)) {
  if (buffer_->size() < Bytes(shape, blocks)) {
    throw Error(ErrorCode::kInvalidArgument, "a KvCache of these blocks needs more memory");
  }
  const HeadBytes head = BytesOfHead(shape);
  key_bytes_ = head.keys;
  head_bytes_ = head.both();
  const size_t block = CheckedMultiply(static_cast<size_t>(shape.heads), head_bytes_);
  layer_bytes_ = CheckedMultiply(block, static_cast<size_t>(blocks));
}

std::byte* KvCache::Keys(int64_t layer, int32_t block, int64_t head) const {
  return buffer_->data() + static_cast<size_t>(layer) * layer_bytes_ +
         (static_cast<size_t>(block) * static_cast<size_t>(shape_.heads) +
          static_cast<size_t>(head)) *
             head_bytes_;
}

void KvCache::CopyBlock(int32_t from, int32_t to, cuda::Stream* stream) const {
  const size_t bytes = static_cast<size_t>(shape_.heads) * head_bytes_;
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    std::byte* const target = Keys(layer, to, 0);
    const std::byte* const source = Keys(layer, from, 0);
    if (stream != nullptr) {
      stream->CopyOnDevice(target, source, bytes);
    } else {
      std::memcpy(target, source, bytes);
    }
  }
}

}  // namespace oort
