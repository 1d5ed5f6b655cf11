// SPDX-License-Identifier: MIT
#include "cuda/tensor_map.h"

#include <cuda_runtime_api.h>

#include <array>
#include <string>

#include "cuda/error.h"
#include "oort/error.h"

namespace oort::cuda {

void* FindDriverFunction(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = {};
  Check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result), name);
  if (result == cudaDriverEntryPointSuccess) return found;
  throw Error(ErrorCode::kDevice, std::string("the driver has no ") + name);
}

void CheckMap(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  throw Error(ErrorCode::kDevice, "a tensor map was refused, code " + std::to_string(result));
}

CUtensorMapDataType MapType(DType dtype) {
  switch (dtype) {
    case DType::kF16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kBF16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

CUtensorMapSwizzle MapSwizzle(int row_bytes) {
  return row_bytes == kMapBytes ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
}

namespace {

/// A map of two dimensions: elements of a line, and lines `pitch` bytes apart.
struct LinesMap {
  CUtensorMapDataType type;
  const void* data;
  int64_t elements, lines, pitch;
  int box_elements, box_lines;
  CUtensorMapSwizzle swizzle;
};
CUtensorMap Encode(const LinesMap& lines) {
  static const auto kEncode =
      DriverFunction<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  const std::array<cuuint64_t, 2> sizes = {static_cast<cuuint64_t>(lines.elements),
                                           static_cast<cuuint64_t>(lines.lines)};
  const std::array<cuuint64_t, 1> pitches = {static_cast<cuuint64_t>(lines.pitch)};
  const std::array<cuuint32_t, 2> box = {static_cast<cuuint32_t>(lines.box_elements),
                                         static_cast<cuuint32_t>(lines.box_lines)};
  const std::array<cuuint32_t, 2> steps = {1, 1};
  CUtensorMap map = {};
  CheckMap(kEncode(&map, lines.type, 2, const_cast<void*>(lines.data), sizes.data(), pitches.data(),
                   box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, lines.swizzle,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

}  // namespace

CUtensorMap MatrixMapOf(DType dtype, const MappedMatrix& matrix, int box_rows) {
  return MatrixMapOf(dtype, matrix, box_rows, kMapBytes);
}

CUtensorMap MatrixMapOf(DType dtype, const MappedMatrix& matrix, int box_rows, int box_bytes) {
  const auto item = static_cast<int>(ItemSize(dtype));
  return Encode({MapType(dtype), matrix.data, matrix.columns, matrix.rows, matrix.pitch * item,
                 box_bytes / item, box_rows, MapSwizzle(box_bytes)});
}

CUtensorMap RecordMapOf(const MappedRecords& records, int box_lines) {
  return Encode({CU_TENSOR_MAP_DATA_TYPE_INT64, records.data,
                 records.line_records * records.bytes / kRecordElement, records.lines,
                 records.line_records * records.bytes,
                 static_cast<int>(records.bytes / kRecordElement), box_lines,
                 CU_TENSOR_MAP_SWIZZLE_NONE});
}

}  // namespace oort::cuda
