// SPDX-License-Identifier: MIT
// Maps of tensors for the copy engine of Hopper (the tensor memory accelerator).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "oort/dtype.h"

namespace oort::cuda {

/// A function of the driver, to which the library is not linked. Throws where there is none.
void* FindDriverFunction(const char* name);
template <typename Function>
Function DriverFunction(const char* name) {
  return reinterpret_cast<Function>(FindDriverFunction(name));
}

/// Throws unless the driver made the map.
void CheckMap(CUresult result);
/// Of f16, bf16 or bytes.
CUtensorMapDataType MapType(DType dtype);
/// How rows of 128 or 64 bytes are permuted.
CUtensorMapSwizzle MapSwizzle(int row_bytes);

/// A row of a box: what the permutation of rows covers.
inline constexpr int kMapBytes = 128;
/// The same in 16-bit elements.
inline constexpr int kMapDepth = kMapBytes / 2;

/// A matrix of 16-bit numbers or of bytes, at an address of whole 16 bytes.
struct MappedMatrix {
  const void* data = nullptr;
  int64_t columns = 0, rows = 0;
  int64_t pitch = 0;  ///< elements from row to row, whole 16 bytes
};
/// Boxes of `box_rows` (up to 256) of kMapBytes, with rows permuted for MatrixAt of warpgroup.cuh.
/// Zeros stand for what is outside.
CUtensorMap MatrixMapOf(DType dtype, const MappedMatrix& matrix, int box_rows);
/// The same with rows of `box_bytes`: 128, or 64, of which pairs are permuted alike.
CUtensorMap MatrixMapOf(DType dtype, const MappedMatrix& matrix, int box_rows, int box_bytes);

/// Records of `bytes` (whole 16, up to 2048) that follow each other in lines: boxes of a record of
/// each of `box_lines` lines. Zeros stand for what is outside.
inline constexpr int kRecordElement = 8;  // bytes of what the map counts
struct MappedRecords {
  const void* data = nullptr;
  int64_t bytes = 0, line_records = 0, lines = 0;
};
CUtensorMap RecordMapOf(const MappedRecords& records, int box_lines);

}  // namespace oort::cuda
