// SPDX-License-Identifier: MIT
// A GEMM for rows of x by packed weights on Hopper. The weights are the tensor cores' left matrix,
// whose tiles are 64 rows high, and the rows of x are its columns: so a tile takes all rows of x,
// and each weight is read and unpacked once. A warp has the copy engine (TMA) fetch records of the
// weights and boxes of x through a ring of stages, several steps of 64 columns ahead; warpgroups
// unpack the weights of a step to f16 in registers while the tensor cores multiply those of the
// step before.
//
// Where the sums over columns are split, the splits of a tile are a cluster of blocks: they sum up
// their results through each other's shared memory, always in the same order.
#include "cuda/kernel_launch.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/tensor_map.h"
#include "cuda/tiles.h"
#include "cuda/warpgroup.cuh"
#include "layers/quantized_linear/cuda/packed_tiles.h"
#include "layers/quantized_linear/cuda/row_activation.h"
#include "layers/quantized_linear/cuda/warpgroup_gemm.h"

namespace oort::cuda {
namespace {

constexpr int kGroupRows = 64, kGroupThreads = 128, kRowBytes = kMapDepth * 2;
static_assert(kMapDepth == kStepColumns);

/// `groups` warpgroups have 64 rows of the weights each, for `rows` rows of x.
template <bool nibbles_, typename Scale_, int groups_, int rows_>
struct GemmShape {
  using Scale = Scale_;
  static constexpr bool kNibbles = nibbles_;
  static constexpr int kGroups = groups_, kRows = rows_;
  static constexpr int kHeight = kGroups * kGroupRows, kStrips = kHeight / kStripRows;
  static constexpr int kWeightBytes = kNibbles ? 512 : 1024;
  /// Of a record with scales and minimums for each chunk; others leave some of it empty.
  static constexpr int kRecord =
      kWeightBytes + 2 * kStripRows * kChunksPerStep * static_cast<int>(sizeof(Scale));
  static constexpr int kXBytes = kRows * kRowBytes, kStageBytes = kXBytes + kStrips * kRecord;
  /// As many as fit, and as are of use.
  static constexpr int kMostShared = 227 << 10, kMostStages = 12;
  static constexpr int kFitting = (kMostShared - 2048) / kStageBytes;
  static constexpr int kStages = kFitting < kMostStages ? kFitting : kMostStages;
  static constexpr int kMultipliers = kGroups * kGroupThreads;
  static constexpr int kThreads = kMultipliers + 32;
  /// Columns of one instruction, and how many of them a step has.
  static constexpr int kColumns = kRows % 128 == 0 ? 128 : 64, kTiles = kRows / kColumns;
  /// Of a row of results in shared memory. Lanes that write at once then hit all banks.
  static constexpr int kPitch = kHeight + 4;
  static constexpr int kBarriers = kStages * kStageBytes;
  static constexpr int kSharedBytes = 1024 + kBarriers + 2 * kStages * 8;
  static_assert(kRows * kPitch * 4 <= kBarriers, "results take the place of the stages");
};

/// What the kernel is given.
struct GemmArgs {
  CUtensorMap weights, x;
  WarpgroupProduct product;
  int splits;
  uint32_t record_bytes, scale_bytes;
};

template <typename Shape>
struct GemmMemory {
  uint32_t base;
  __device__ uint32_t X(int stage) const { return base + stage * Shape::kXBytes; }
  __device__ uint32_t Records(int stage) const {
    return base + Shape::kStages * Shape::kXBytes + stage * Shape::kStrips * Shape::kRecord;
  }
  __device__ uint32_t Full(int stage) const { return base + Shape::kBarriers + stage * 8; }
  __device__ uint32_t Empty(int stage) const { return Full(Shape::kStages + stage); }
  /// A result: a row of x and a row of the tile.
  __device__ uint32_t Result(int row, int column) const {
    return base + (row * Shape::kPitch + column) * 4;
  }
};

/// Where a block works.
struct GemmPlace {
  int tile_row, x_row;    // the first ones
  int first_step, steps;  // of the columns
  int split;
};

/// Fetches the steps of a block; one thread.
template <typename Shape>
class StepFetcher {
 public:
  __device__ StepFetcher(const GemmArgs& args, const GemmMemory<Shape>& memory,
                         const GemmPlace& place)
      : args_(args), memory_(memory), place_(place), ahead_(min(Shape::kStages, place.steps)) {}

  /// No kernel writes the weights, so the first ones are fetched while the preceding kernel still
  /// runs.
  __device__ void Begin() {
    for (int step = 0; step < ahead_; ++step) FetchWeights(step, step);
  }
  __device__ void Run() {
    WaitForPredecessor();
    for (int step = 0; step < ahead_; ++step) FetchX(step, step);
    Ring<Shape::kStages> stage;
    for (int step = ahead_; step < place_.steps; ++step) {
      WaitFor(memory_.Empty(stage.at), stage.parity);
      FetchWeights(step, stage.at);
      FetchX(step, stage.at);
      stage.Next();
    }
  }

 private:
  __device__ void FetchWeights(int step, int stage) const {
    ArriveAndExpect(memory_.Full(stage), Shape::kXBytes + Shape::kStrips * args_.record_bytes);
    FetchBox(memory_.Records(stage), args_.weights, memory_.Full(stage),
             (place_.first_step + step) * static_cast<int>(args_.record_bytes) / kRecordElement,
             place_.tile_row / kStripRows);
  }
  __device__ void FetchX(int step, int stage) const {
    FetchBox(memory_.X(stage), args_.x, memory_.Full(stage), (place_.first_step + step) * kMapDepth,
             place_.x_row);
  }

  const GemmArgs& args_;
  const GemmMemory<Shape>& memory_;
  const GemmPlace& place_;
  const int ahead_;
};

constexpr int kStepTiles = kStepColumns / 16;
using StepTiles = uint32_t[kChunksPerStep][2][4];  // two tiles a chunk

/// Unpacks, and multiplies what is unpacked.
template <typename Shape>
class Multiplier {
 public:
  using Scale = typename Shape::Scale;
  using Sums = float[Shape::kTiles][Shape::kColumns / 2];

  __device__ Multiplier(const GemmArgs& args, const GemmMemory<Shape>& memory)
      : memory_(memory),
        record_(static_cast<int>(threadIdx.x) / 32 * static_cast<int>(args.record_bytes)),
        scale_bytes_(args.scale_bytes),
        places_(PlacesOfScales<Scale>(args.product.weights.chunk_scales)),
        has_minimum_(args.product.weights.has_minimum),
        offset_(PackedOffset(Shape::kNibbles, args.product.weights.zero_based)) {}

  __device__ void Run(int steps, Sums& sums) {
    // The tensor cores read one while the other is written. Nothing but products may touch the sums
    // between two steps, or else the compiler has each product wait for the one before.
    StepTiles even, odd;
    if (steps % 2 != 0) {
      Step(even, sums);
      WaitForProducts<0>();
    }
    for (int pairs = steps / 2; pairs > 0; --pairs) {
      Step(even, sums);
      Step(odd, sums);
    }
    WaitForProducts<0>();
#pragma unroll
    for (int tile = 0; tile < Shape::kTiles; ++tile) HoldSums(sums[tile]);
  }

 private:
  __device__ __forceinline__ void Step(StepTiles& tiles, Sums& sums) {
    WaitFor(memory_.Full(stage_.at), stage_.parity);
    Unpack(memory_.Records(stage_.at) + record_, tiles);
    BeginProducts();
#pragma unroll
    for (int tile = 0; tile < Shape::kTiles; ++tile) {
      const uint64_t x = MatrixAt(memory_.X(stage_.at) + tile * Shape::kColumns * kRowBytes);
#pragma unroll
      for (int k = 0; k < kStepTiles; ++k) {
        MultiplyTiles(sums[tile], tiles[k / 2][k % 2], x + 2 * k);
      }
    }
    CommitProducts();
    WaitForProducts<1>();  // those of the step before
    if (before_ >= 0 && threadIdx.x % 32 == 0) Arrive(memory_.Empty(before_));
    before_ = stage_.at;
    stage_.Next();
  }

  __device__ __forceinline__ void Unpack(uint32_t record, StepTiles& tiles) const {
    const uint32_t scales = record + Shape::kWeightBytes;
    PackedWords words;
#pragma unroll
    for (int chunk = 0; chunk < kChunksPerStep; ++chunk) {
      if (!Shape::kNibbles || chunk == 0) words = LoadPackedWords<Shape::kNibbles>(record, chunk);
      RowScale<Scale> scale[2], minimum[2] = {};
      LoadScales<Scale>(scales, places_, chunk, scale);
      if (has_minimum_) LoadScales<Scale>(scales + scale_bytes_, places_, chunk, minimum);
      UnpackTiles<Shape::kNibbles, Scale>(words, chunk, offset_, scale, minimum, tiles[chunk]);
    }
  }

  const GemmMemory<Shape>& memory_;
  const int record_;  // where in the records of a step that of the warp begins
  const uint32_t scale_bytes_;
  const PackedScales places_;
  const bool has_minimum_;
  const __half2 offset_;
  Ring<Shape::kStages> stage_;
  int before_ = -1;  // the stage of the step before
};

/// Leaves the sums of a thread in shared memory, where the stages were.
template <typename Shape>
__device__ void LeaveSums(const GemmMemory<Shape>& memory, int group,
                          const float (&sums)[Shape::kTiles][Shape::kColumns / 2]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kGroupThreads / 32;
  const int column = group * kGroupRows + warp * 16 + lane / 4;
#pragma unroll
  for (int tile = 0; tile < Shape::kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < Shape::kColumns / 2; ++i) {
      const int row = tile * Shape::kColumns + i / 4 * 8 + lane % 4 * 2 + i % 2;
      StoreShared4(memory.Result(row, column + i % 4 / 2 * 8), sums[tile][i]);
    }
  }
}

/// Four results of a row of x, behind each other, of all splits.
template <int splits, typename Shape>
__device__ __forceinline__ float4 SumSplits(const GemmMemory<Shape>& memory, int row, int column) {
  const uint32_t here = memory.Result(row, column);
  if constexpr (splits == 1) {
    const uint4 bits = LoadShared16(here);
    return make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                       __uint_as_float(bits.w));
  } else {
    float4 parts[splits];
#pragma unroll
    for (int i = 0; i < splits; ++i) parts[i] = LoadFromCluster(AddressIn(i, here));
    float4 sum = parts[0];
#pragma unroll
    for (int i = 1; i < splits; ++i) {
      sum.x += parts[i].x, sum.y += parts[i].y, sum.z += parts[i].z, sum.w += parts[i].w;
    }
    return sum;
  }
}

/// Multiplies by the row's factor and adds the bias of a row of the packed weights.
__device__ __forceinline__ float4 Biased(float4 v, float factor, const float* bias, int at) {
  v.x *= factor, v.y *= factor, v.z *= factor, v.w *= factor;
  if (bias == nullptr) return v;
  const float4 b = *reinterpret_cast<const float4*>(bias + at);
  return make_float4(v.x + b.x, v.y + b.y, v.z + b.z, v.w + b.w);
}

/// Writes up to four results at `column` of a row of `width`.
__device__ __forceinline__ void StoreFour(float* y, const float* addend, Activation activation,
                                          int64_t row, int column, int width, float4 v) {
  const int64_t at = row * width + column;
  if (width % 4 == 0 && column + 4 <= width) {
    if (addend != nullptr) {
      const float4 a = *reinterpret_cast<const float4*>(addend + at);
      v = make_float4(v.x + a.x, v.y + a.y, v.z + a.z, v.w + a.w);
    }
    *reinterpret_cast<float4*>(y + at) =
        make_float4(Activate(activation, v.x), Activate(activation, v.y), Activate(activation, v.z),
                    Activate(activation, v.w));
    return;
  }
  const float all[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (column + i >= width) return;
    y[at + i] = Activate(activation, all[i] + (addend != nullptr ? addend[at + i] : 0.0f));
  }
}

/// Sums up the splits of a tile and writes results. The blocks of a cluster take rows by turns, a
/// thread four columns of several rows, and all its loads are on their way before it uses the
/// first.
template <int splits, typename Shape>
__device__ void FinishTile(const WarpgroupProduct& p, const GemmMemory<Shape>& memory,
                           const GemmPlace& place) {
  constexpr int kPieces = Shape::kHeight / 4, kLines = Shape::kMultipliers / kPieces, kBatch = 4;
  const int column = static_cast<int>(threadIdx.x) % kPieces * 4;
  const int packed = place.tile_row + column;
  int part = 0, at = packed;
#pragma unroll
  for (int i = 0; i + 1 < kMostProducts; ++i) {
    const int end = (p.part_rows[i] + kStripRows - 1) / kStripRows * kStripRows;
    if (part == i && i + 1 < p.parts && at >= end) {
      at -= end;
      ++part;
    }
  }
  const int width = part == 0 ? p.part_rows[0] : part == 1 ? p.part_rows[1] : p.part_rows[2];
  float* const y = part == 0 ? p.y[0] : part == 1 ? p.y[1] : p.y[2];
  if (at >= width) return;
  const float* const addend = part == 0 ? p.addend : nullptr;
  const int rows = min(Shape::kRows, p.rows - place.x_row);
  for (int row = static_cast<int>(threadIdx.x) / kPieces * splits + place.split; row < rows;
       row += kBatch * kLines * splits) {
    float4 sums[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      sums[i] = SumSplits<splits>(memory, min(row + i * kLines * splits, rows - 1), column);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int this_row = row + i * kLines * splits;
      if (this_row >= rows) break;
      const int64_t y_row = place.x_row + this_row;
      const float factor = p.factors != nullptr ? p.factors[y_row] : 1.0f;
      StoreFour(y, addend, p.activation, y_row, at, width, Biased(sums[i], factor, p.bias, packed));
    }
  }
}

/// The same where strips have eight rows of the gate and eight of what it gates.
template <int splits, typename Shape>
__device__ void GateTile(const WarpgroupProduct& p, const GemmMemory<Shape>& memory,
                         const GemmPlace& place) {
  constexpr int kPieces = Shape::kHeight / 8, kLines = Shape::kMultipliers / kPieces, kBatch = 2;
  const int column = static_cast<int>(threadIdx.x) % kPieces * 4;
  const int gate = column / 8 * kStripRows + column % 8, up = gate + 8;
  const int at = place.tile_row / 2 + column;
  if (at >= p.part_rows[0]) return;
  const int rows = min(Shape::kRows, p.rows - place.x_row);
  for (int row = static_cast<int>(threadIdx.x) / kPieces * splits + place.split; row < rows;
       row += kBatch * kLines * splits) {
    float4 gates[kBatch], ups[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int this_row = min(row + i * kLines * splits, rows - 1);
      gates[i] = SumSplits<splits>(memory, this_row, gate);
      ups[i] = SumSplits<splits>(memory, this_row, up);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int this_row = row + i * kLines * splits;
      if (this_row >= rows) break;
      const int64_t y_row = place.x_row + this_row;
      const float factor = p.factors != nullptr ? p.factors[y_row] : 1.0f;
      const float4 g = Biased(gates[i], factor, p.bias, place.tile_row + gate);
      const float4 u = Biased(ups[i], factor, p.bias, place.tile_row + up);
      StoreFour(p.y[0], nullptr, Activation::kNone, y_row, at, p.part_rows[0],
                make_float4(Activate(p.activation, g.x) * u.x, Activate(p.activation, g.y) * u.y,
                            Activate(p.activation, g.z) * u.z, Activate(p.activation, g.w) * u.w));
    }
  }
}

template <int splits, typename Shape>
__device__ void FinishSplits(const WarpgroupProduct& p, const GemmMemory<Shape>& memory,
                             const GemmPlace& place) {
  p.gated ? GateTile<splits>(p, memory, place) : FinishTile<splits>(p, memory, place);
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    WarpgroupGemmKernel(const __grid_constant__ GemmArgs args) {
  extern __shared__ unsigned char gemm_shared[];
  const GemmMemory<Shape> memory = {(SharedAddress(gemm_shared) + 1023) / 1024 * 1024};
  const int thread = static_cast<int>(threadIdx.x);
  const int splits = args.splits, split = static_cast<int>(blockIdx.x) % splits;
  const int steps = args.product.weights.steps, first = steps * split / splits;
  const GemmPlace place = {static_cast<int>(blockIdx.x) / splits * Shape::kHeight,
                           static_cast<int>(blockIdx.y) * Shape::kRows, first,
                           steps * (split + 1) / splits - first, split};
  StepFetcher<Shape> fetcher(args, memory, place);
  LaunchDependents();
  if (thread == Shape::kMultipliers) {
    PrefetchMap(args.weights);
    PrefetchMap(args.x);
    for (int i = 0; i < Shape::kStages; ++i) {
      InitBarrier(memory.Full(i), 1);
      InitBarrier(memory.Empty(i), Shape::kMultipliers / 32);
    }
    PublishBarriers();
    fetcher.Begin();
  }
  __syncthreads();
  if (thread >= Shape::kMultipliers) {
    if (thread == Shape::kMultipliers) fetcher.Run();
    __syncwarp();
  } else {
    typename Multiplier<Shape>::Sums sums = {};
    Multiplier<Shape>(args, memory).Run(place.steps, sums);
    // All have read the stages.
    asm volatile("bar.sync 1, %0;" ::"n"(Shape::kMultipliers) : "memory");
    LeaveSums(memory, thread / kGroupThreads, sums);
    WaitForPredecessor();  // who wrote the addend, and who read what is in the place of y
  }
  SynchronizeCluster();  // all splits have left their results
  if (thread < Shape::kMultipliers) {
    switch (splits) {
      case 1: FinishSplits<1>(args.product, memory, place); break;
      case 2: FinishSplits<2>(args.product, memory, place); break;
      default: FinishSplits<4>(args.product, memory, place); break;
    }
  }
  SynchronizeCluster();  // others may read this block's results up to here
}

template <typename Shape>
void LaunchShape(const Stream& stream, const WarpgroupProduct& product) {
  const DeviceWeights& w = product.weights;
  GemmArgs args = {};
  args.x = MatrixMapOf(DType::kF16, {product.x, w.row_elements, product.rows, w.row_elements},
                       Shape::kRows);
  args.record_bytes = static_cast<uint32_t>(RecordBytes(w));
  args.scale_bytes = static_cast<uint32_t>(ScaleBytes(w));
  args.weights = RecordMapOf({w.data, args.record_bytes, w.steps, w.strips}, Shape::kStrips);
  args.product = product;
  args.splits = WarpgroupSplits(w.strips, w.steps, TraitsOf(stream.device()).multiprocessors);
  KernelLaunch launch;
  launch.kernel = reinterpret_cast<const void*>(&WarpgroupGemmKernel<Shape>);
  launch.blocks = dim3(BlocksFor(w.strips, Shape::kStrips) * static_cast<unsigned>(args.splits),
                       BlocksFor(product.rows, Shape::kRows));
  launch.threads = Shape::kThreads;
  launch.cluster = static_cast<unsigned>(args.splits);
  launch.shared = Shape::kSharedBytes;
  launch.overlap = true;
  PreferShared(launch.kernel);
  Launch(stream, launch, &args);
}

template <bool kNibbles, typename Scale>
void LaunchRows(const Stream& stream, const WarpgroupProduct& product) {
  if (product.rows <= 64) return LaunchShape<GemmShape<kNibbles, Scale, 3, 64>>(stream, product);
  LaunchShape<GemmShape<kNibbles, Scale, 3, 128>>(stream, product);
}

template <bool kNibbles>
void LaunchScales(const Stream& stream, const WarpgroupProduct& product) {
  product.weights.f32_scales ? LaunchRows<kNibbles, float>(stream, product)
                             : LaunchRows<kNibbles, __half>(stream, product);
}

}  // namespace

bool HasWarpgroupGemm(int device) { return TraitsOf(device).bulk; }

void RunWarpgroupGemm(const Stream& stream, const WarpgroupProduct& product) {
  product.weights.format == DeviceFormat::kInt4 ? LaunchScales<true>(stream, product)
                                                : LaunchScales<false>(stream, product);
}

}  // namespace oort::cuda
