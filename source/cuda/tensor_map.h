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
/// Of f16 or bf16.
CUtensorMapDataType MapType(DType dtype);

/// Elements of a row of a box: 128 bytes, what the permutation of rows covers.
inline constexpr int kMapDepth = 64;

/// A matrix of 16-bit numbers, at an address of whole 16 bytes.
struct MappedMatrix {
  const void* data = nullptr;
  int64_t columns = 0, rows = 0;
  int64_t pitch = 0;  ///< elements from row to row, multiples of 8
};
/// Boxes of `box_rows` (up to 256) by kMapDepth elements, with rows permuted for MatrixAt of
/// warpgroup.cuh. Zeros stand for what is outside.
CUtensorMap MatrixMapOf(DType dtype, const MappedMatrix& matrix, int box_rows);

/// Records of `bytes` (whole 16, up to 2048) that follow each other in lines: boxes of a record of
/// each of `box_lines` lines. Zeros stand for what is outside.
inline constexpr int kRecordElement = 8;  // bytes of what the map counts
struct MappedRecords {
  const void* data = nullptr;
  int64_t bytes = 0, line_records = 0, lines = 0;
};
CUtensorMap RecordMapOf(const MappedRecords& records, int box_lines);

}  // namespace oort::cuda
