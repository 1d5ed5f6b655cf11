// SPDX-License-Identifier: MIT
// The instructions of Hopper that move and multiply tiles: barriers in shared memory, copies by the
// tensor memory accelerator, products by warpgroups of 128 threads. For *.sm90a.cu files.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace oort::cuda {

__device__ inline void InitBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialized barriers visible to the copy engine, after the thread block has synchronized.
__device__ inline void PublishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives once; the phase also waits for that many bytes of copies.
__device__ inline void ArriveAndExpect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Returns when the phase of this parity is complete. The phase before the first one always is.
__device__ inline void WaitFor(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ inline void PrefetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
/// A box of a matrix: x along a row.
__device__ inline void FetchBox(uint32_t to, const CUtensorMap& map, uint32_t barrier, int x,
                                int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
/// Channels of pixels that follow each other in the order of windows, moved by a tap.
__device__ inline void FetchPixels(uint32_t to, const CUtensorMap& map, uint32_t barrier,
                                   int channel, int x, int y, int image, int along, int down) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(channel), "r"(x), "r"(y), "r"(image),
      "h"(static_cast<uint16_t>(along)), "h"(static_cast<uint16_t>(down))
      : "memory");
}
__device__ inline void StoreBox(const CUtensorMap& map, uint32_t from, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
      "r"(from), "r"(x), "r"(y)
      : "memory");
}
__device__ inline void CommitStores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until all but `pending` groups of stores of this thread have read shared memory.
template <int pending>
__device__ inline void WaitForReads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
__device__ inline void WaitForStores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
/// Makes what this thread wrote to shared memory visible to the copy engine and the tensor cores.
__device__ inline void PublishShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// A position in a ring of `count` places; the parity changes with each round.
template <int count>
struct Ring {
  int at = 0;
  uint32_t parity = 0;
  __device__ void Next() {
    if (++at == count) {
      at = 0;
      parity ^= 1;
    }
  }
  __device__ void Skip(int places) {
    at += places;
    parity ^= at / count & 1;
    at %= count;
  }
};

/// A warpgroup gives registers back, or gets some that others gave back: up to `count` a thread.
template <int count>
__device__ inline void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ inline void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

/// Waits for all threads of the blocks of a cluster, which then see what each other wrote to shared
/// memory. For whole warps.
__device__ inline void SynchronizeCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// Where another block of the cluster has what this one has at an address of its shared memory.
__device__ inline uint32_t AddressIn(uint32_t rank, uint32_t address) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
__device__ inline float4 LoadFromCluster(uint32_t address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address));
  return v;
}

/// Of a matrix in shared memory with rows of 128 bytes, permuted as in PieceAt, or of 64, of which
/// pairs are permuted alike: 8 rows follow each other. 32 bytes further along a row are 2 more.
template <int row_bytes = 128>
__device__ inline uint64_t MatrixAt(uint32_t address) {
  static_assert(row_bytes == 128 || row_bytes == 64);
  constexpr uint64_t kEightRows = uint64_t{8 * row_bytes >> 4} << 32;
  constexpr uint64_t kPermuted = uint64_t{row_bytes == 128 ? 1 : 2} << 62;
  return kPermuted | kEightRows | uint64_t{1} << 16 | ((address & 0x3ffff) >> 4);
}
__device__ inline void BeginProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void CommitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
__device__ inline void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
/// A compiler barrier for the sums: the compiler does not know that asynchronous products write
/// them later.
template <int count>
__device__ inline void HoldSums(float (&sums)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

#define OORT_SUMS_64                                                               \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21," \
  "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define OORT_OPERANDS_64                                                                          \
  "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), \
      "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]),    \
      "+f"(s[15]), "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]),  \
      "+f"(s[22]), "+f"(s[23]), "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]),  \
      "+f"(s[29]), "+f"(s[30]), "+f"(s[31])
#define OORT_SUMS_128                                                                \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,"   \
  "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41," \
  "%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61," \
  "%62,%63"
#define OORT_OPERANDS_128                                                                         \
  "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), \
      "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]),    \
      "+f"(s[15]), "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]),  \
      "+f"(s[22]), "+f"(s[23]), "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]),  \
      "+f"(s[29]), "+f"(s[30]), "+f"(s[31]), "+f"(s[32]), "+f"(s[33]), "+f"(s[34]), "+f"(s[35]),  \
      "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39]), "+f"(s[40]), "+f"(s[41]), "+f"(s[42]),  \
      "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47]), "+f"(s[48]), "+f"(s[49]),  \
      "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]), "+f"(s[55]), "+f"(s[56]),  \
      "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]), "+f"(s[61]), "+f"(s[62]), "+f"(s[63])

/// `add`, the last operand, says that the product is added to what the sums are.
#define OORT_WARPGROUP_PRODUCT(columns, type, sums, operands, a_at, b_at, add_at)         \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" add_at                            \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type \
               " {" sums "}, %" a_at ", %" b_at ", add, 1, 1, 0, 0;\n}\n"                 \
               : operands                                                                 \
               : "l"(a), "l"(b), "r"(1))

/// Adds the product of 64 rows and 64 columns, 16 elements (f16 or bf16) deep, of matrices given by
/// MatrixAt.
/// Lane l of warp w has of rows 16 w + l / 4 and 8 below the columns 8 j + 2 (l % 4) and the next:
/// s[4 j], s[4 j + 1], s[4 j + 2], s[4 j + 3].
template <typename T>
__device__ inline void MultiplyRows(float (&s)[32], uint64_t a, uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    OORT_WARPGROUP_PRODUCT("64", "f16", OORT_SUMS_64, OORT_OPERANDS_64, "32", "33", "34");
  } else {
    OORT_WARPGROUP_PRODUCT("64", "bf16", OORT_SUMS_64, OORT_OPERANDS_64, "32", "33", "34");
  }
}
/// The same for 128 columns.
template <typename T>
__device__ inline void MultiplyRows(float (&s)[64], uint64_t a, uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    OORT_WARPGROUP_PRODUCT("128", "f16", OORT_SUMS_128, OORT_OPERANDS_128, "64", "65", "66");
  } else {
    OORT_WARPGROUP_PRODUCT("128", "bf16", OORT_SUMS_128, OORT_OPERANDS_128, "64", "65", "66");
  }
}

/// The same with the left matrix of f16 in registers, laid out as the tiles of mma.m16n8k16: each
/// warp has 16 rows.
#define OORT_WARPGROUP_TILE_PRODUCT(columns, sums, operands, a0, a1, a2, a3, b_at, add_at) \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" add_at                             \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns "k16.f32.f16.f16 {" sums  \
               "}, {%" a0 ",%" a1 ",%" a2 ",%" a3 "}, %" b_at ", add, 1, 1, 0;\n}\n"       \
               : operands                                                                  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))
__device__ inline void MultiplyTiles(float (&s)[32], const uint32_t (&a)[4], uint64_t b) {
  OORT_WARPGROUP_TILE_PRODUCT("64", OORT_SUMS_64, OORT_OPERANDS_64, "32", "33", "34", "35", "36",
                              "37");
}
__device__ inline void MultiplyTiles(float (&s)[64], const uint32_t (&a)[4], uint64_t b) {
  OORT_WARPGROUP_TILE_PRODUCT("128", OORT_SUMS_128, OORT_OPERANDS_128, "64", "65", "66", "67", "68",
                              "69");
}

}  // namespace oort::cuda
