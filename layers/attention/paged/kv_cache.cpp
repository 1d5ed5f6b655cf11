// SPDX-License-Identifier: MIT
#include "oort/kv_cache.h"

#include <array>
#include <cstring>
#include <string>

#include "core/checked.h"
#include "cuda/stream.h"

namespace oort {
namespace {

constexpr std::array<std::string_view, 4> kKvTypeNames = {"f32", "f16", "int8", "fp8"};

size_t ItemBytes(KvType type) {
  switch (type) {
    case KvType::kF32: return 4;
    case KvType::kF16: return 2;
    case KvType::kInt8:
    case KvType::kFp8: return 1;
  }
  return 4;
}

/// Keys, or values, of one head in one block: a multiple of 64 bytes.
size_t SideBytes(const KvShape& shape) {
  const size_t elements = CheckedMultiply(static_cast<size_t>(shape.head_dim),
                                          static_cast<size_t>(KvCache::kBlockTokens));
  const size_t scales =
      shape.type == KvType::kInt8 ? static_cast<size_t>(KvCache::kBlockTokens) * sizeof(float) : 0;
  const size_t bytes = CheckedAdd(CheckedMultiply(elements, ItemBytes(shape.type)), scales);
  return CheckedAdd(bytes, size_t{63}) / 64 * 64;
}

}  // namespace

std::string_view Name(KvType type) { return kKvTypeNames[static_cast<size_t>(type)]; }

KvType KvTypeOf(std::string_view name) {
  for (size_t i = 0; i < kKvTypeNames.size(); ++i) {
    if (kKvTypeNames[i] == name) return static_cast<KvType>(i);
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      "keys and values are kept as f32, f16, int8 or fp8, not as '" + std::string(name) + "'");
}

size_t KvCache::BlockBytes(const KvShape& shape) {
  const size_t heads = CheckedMultiply(static_cast<size_t>(shape.heads), SideBytes(shape));
  return CheckedMultiply(CheckedMultiply(heads, size_t{2}), static_cast<size_t>(shape.layers));
}

size_t KvCache::Bytes(const KvShape& shape, int64_t blocks) {
  if (shape.layers < 1 || shape.heads < 1 || shape.head_dim < 1 || blocks < 1 ||
      blocks > INT32_MAX) {
    throw Error(ErrorCode::kInvalidArgument,
                "a KvCache needs layers, heads, elements and blocks, at least one of each");
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
  side_bytes_ = SideBytes(shape);
  block_bytes_ = CheckedMultiply(static_cast<size_t>(shape.heads), side_bytes_ * 2);
  layer_bytes_ = CheckedMultiply(block_bytes_, static_cast<size_t>(blocks));
}

std::byte* KvCache::Keys(int64_t layer, int32_t block, int64_t head) const {
  return buffer_->data() + static_cast<size_t>(layer) * layer_bytes_ +
         static_cast<size_t>(block) * block_bytes_ + static_cast<size_t>(head) * side_bytes_ * 2;
}

void KvCache::CopyBlock(int32_t from, int32_t to, cuda::Stream* stream) const {
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    std::byte* const target = Keys(layer, to, 0);
    const std::byte* const source = Keys(layer, from, 0);
    if (stream != nullptr) {
      stream->CopyOnDevice(target, source, block_bytes_);
    } else {
      std::memcpy(target, source, block_bytes_);
    }
  }
}

}  // namespace oort
