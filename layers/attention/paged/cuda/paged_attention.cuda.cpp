// SPDX-License-Identifier: MIT
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "layers/attention/paged/cuda/device_paged_attention.h"
#include "layers/attention/paged/paged_attention_base.h"

namespace oort {
namespace {

class CudaPagedAttention final : public PagedAttentionBase {
 public:
  explicit CudaPagedAttention(const LayerInit& init) : PagedAttentionBase(init) {
    // A block of the cache has fewer elements than an int can count.
    if (heads_ * head_dim_ > INT32_MAX / (4 * KvCache::kBlockTokens) ||
        !cuda::CanAttend(static_cast<int>(heads_), static_cast<int>(kv_heads_),
                         static_cast<int>(head_dim_))) {
      throw Error(ErrorCode::kUnsupported,
                  "on the GPU heads have a multiple of 8 elements, 256 at most, and there are not "
                  "millions of them");
    }
    if (!has_whole_groups()) {
      throw Error(ErrorCode::kUnsupported,
                  "has a part of the queries that share a key, which attention on the GPU does not "
                  "know");
    }
    if (bias_.defined()) {
      throw Error(ErrorCode::kUnsupported,
                  "has a bias for distances, which attention on the GPU does not know");
    }
    if (sinks_.defined()) {
      throw Error(ErrorCode::kUnsupported, "has sinks, which attention on the GPU does not know");
    }
    if (key_centre_.defined()) centre_on_device_ = cuda::ToDevice(key_centre_, init.device());
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const int64_t rows = args.shape(query_)[0];
    const Batch batch = BatchOf(context, rows);
    cuda::SequenceTable* table = batch.sequences.table();
    if (table == nullptr || batch.cache.device().type != DeviceType::kCuda) {
      throw Error(ErrorCode::kInvalidArgument, "the cache is not in the GPU's memory");
    }
    if (batch.cache.shape().type == KvType::kK6V4) {
      throw Error(
          ErrorCode::kUnsupported,
          "attention on the GPU has keys and values of f32, f16, int8 or fp8, but the cache "
          "keeps k6v4: that is for a CPU");
    }
    if (rows == 0) return;
    cuda::AttentionArgs call = CallOf(args, outputs, batch);
    call.sequences = table->device();
    const cuda::Stream& stream = *context.stream();
    const int64_t single = table->single_rows();
    // A row for each sequence: nobody reads what another row writes.
    if (single == rows && cuda::CanTurnAtOnce(call) &&
        !cuda::GroupsFillGpu(stream.device(), call)) {
      cuda::AttendNewest(stream, call, true);
      return;
    }
    float* turned = context.workspace<float>();
    cuda::WriteKeysAndValues(stream, call, turned, true);
    call.query = turned;
    constexpr int64_t kPromptRows = 16;  // fewer would leave tensor cores idle
    const bool in_tiles = rows - single >= kPromptRows && cuda::CanAttendTiles(call);
    if (in_tiles) {
      cuda::AttendTiles(stream, call, table->tiles(), true);
      call.rows = static_cast<int>(single);
    }
    if (call.rows == 0) return;
    if (call.rows == single && cuda::GroupsFillGpu(stream.device(), call)) {
      cuda::AttendGroups(stream, call, true);
    } else {
      cuda::AttendWritten(stream, call, true);
    }
  }

  size_t Workspace(const Args& args, int) const override { return args.tensor(query_).bytes(); }

 private:
  cuda::AttentionArgs CallOf(const Args& args, std::span<Value> outputs, const Batch& batch) const {
    cuda::AttentionArgs call;
    call.rows = static_cast<int>(args.shape(query_)[0]);
    call.heads = static_cast<int>(heads_);
    call.kv_heads = static_cast<int>(kv_heads_);
    call.head_dim = static_cast<int>(head_dim_);
    call.query = args.tensor(query_).data<float>();
    call.key = args.tensor(key_).data<float>();
    call.value = args.tensor(value_).data<float>();
    if (args.Has(angles_)) {
      call.angles = args.tensor(angles_).data<float>();
      call.pairs = static_cast<int>(args.shape(angles_)[2]);
    }
    if (centre_on_device_.defined()) call.key_centre = centre_on_device_.data<float>();
    call.interleaved = interleaved_;
    call.scale = scale_;
    call.softcap = softcap_;
    call.window = static_cast<int>(std::min<int64_t>(window_, INT32_MAX));
    call.chunked = chunked_;
    call.out = outputs[0].AsTensor().data<float>();
    call.kv = KvOf(batch.cache);
    return call;
  }

  cuda::DeviceKv KvOf(const KvCache& cache) const {
    const KvType type = cache.shape().type;
    const size_t item = type == KvType::kF32 ? 4 : type == KvType::kF16 ? 2 : 1;
    cuda::DeviceKv kv;
    kv.type = type;
    kv.keys = cache.Keys(layer_, 0, 0);
    kv.values = cache.Values(layer_, 0, 0);
    const auto elements = [&](const std::byte* to, const std::byte* from) {
      return static_cast<int64_t>(static_cast<size_t>(to - from) / item);
    };
    kv.head_stride = elements(cache.Keys(layer_, 0, 1), cache.Keys(layer_, 0, 0));
    kv.block_stride = kv.head_stride * kv_heads_;
    return kv;
  }

  Tensor centre_on_device_;
};

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(paged_attention) {
  using namespace oort;
  registry.AddDevice({"oort.PagedAttention"}, DeviceType::kCuda, Create<CudaPagedAttention>());
}
