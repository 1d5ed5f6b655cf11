// SPDX-License-Identifier: MIT
#include "layers/index/device_index.h"

#include "cuda/divide.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"

namespace oort {
namespace {

constexpr int kIndexThreads = 256;

/// Rows of `inner` items, by index; a thread moves one item.
template <typename T, typename I>
__global__ void SelectKernel(const T* x, const I* index, T* y, int64_t total, int64_t count,
                             int64_t extent, int64_t inner) {
  cuda::LaunchDependents();
  cuda::WaitForPredecessor();
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += step) {
    const int64_t row = i / inner, column = i - row * inner;
    const int64_t outer = row / count;
    const int64_t from = static_cast<int64_t>(index[row - outer * count]);
    const bool there = from >= 0 && from < extent;
    y[i] = there ? x[(outer * extent + from) * inner + column] : T{};
  }
}

struct GatherShape {
  cuda::Divider extents[Shape::kMaxRank];  // of the index, innermost first
  int64_t strides[Shape::kMaxRank];        // of x
  int rank, axis;                          // axis counted from the innermost
  int64_t extent;                          // of x along it
};

template <typename T, typename I>
__global__ void GatherKernel(const T* x, const I* index, T* y, unsigned total,
                             const __grid_constant__ GatherShape shape) {
  const unsigned step = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
    const int64_t named = static_cast<int64_t>(index[i]);
    unsigned rest = i;
    int64_t from = 0;
    for (int axis = 0; axis < shape.rank; ++axis) {
      unsigned position;
      rest = shape.extents[axis].Divide(rest, &position);
      from += (axis == shape.axis ? named : static_cast<int64_t>(position)) * shape.strides[axis];
    }
    y[i] = named >= 0 && named < shape.extent ? x[from] : T{};
  }
}

/// Calls body with types of the item and of the index.
template <typename Body>
void VisitIndexed(size_t item, DType index, const Body& body) {
  const auto with_index = [&]<typename T>(T*) {
    switch (index) {
      case DType::kI64: return body(static_cast<T*>(nullptr), static_cast<int64_t*>(nullptr));
      case DType::kI32: return body(static_cast<T*>(nullptr), static_cast<int32_t*>(nullptr));
      default: break;
    }
    throw Error(ErrorCode::kUnsupported,
                "no indices of " + std::string(Name(index)) + " on the GPU");
  };
  switch (item) {
    case 1: return with_index(static_cast<uint8_t*>(nullptr));
    case 2: return with_index(static_cast<uint16_t*>(nullptr));
    case 4: return with_index(static_cast<uint32_t*>(nullptr));
    case 8: return with_index(static_cast<uint2*>(nullptr));
    default: return with_index(static_cast<uint4*>(nullptr));
  }
}

}  // namespace

void SelectOnDevice(cuda::Stream& stream, const Tensor& x, const Tensor& index, int axis,
                    Tensor& output) {
  if (output.elements() == 0) return;
  const Shape& shape = x.shape();
  const int64_t extent = shape.rank() == 0 ? 1 : shape[axis];
  int64_t inner = shape.rank() == 0 ? 1 : shape.Product(axis + 1, shape.rank());
  size_t item = ItemSize(x.dtype());
  // Several elements of a row at once, where all rows begin at such an address.
  const auto addresses =
      reinterpret_cast<uintptr_t>(x.raw()) | reinterpret_cast<uintptr_t>(output.raw());
  while (item < 16 && inner % 2 == 0 && addresses % (2 * item) == 0) {
    item *= 2;
    inner /= 2;
  }
  const int64_t count = index.elements();
  const int64_t total = output.elements() / (static_cast<int64_t>(item / ItemSize(x.dtype())));
  VisitIndexed(item, index.dtype(), [&]<typename T, typename I>(T*, I*) {
    cuda::Launch(
        stream,
        {dim3(cuda::BlocksFor(total, kIndexThreads, 2, 132 * 32)), dim3(kIndexThreads), 0, true},
        &SelectKernel<T, I>, reinterpret_cast<const T*>(x.raw()),
        reinterpret_cast<const I*>(index.raw()), reinterpret_cast<T*>(output.raw()), total, count,
        extent, inner);
  });
}

namespace {}  // namespace

void GatherOnDevice(cuda::Stream& stream, const Tensor& x, const Tensor& index, int axis,
                    Tensor& output) {
  if (output.elements() == 0) return;
  if (output.elements() > INT32_MAX) {
    throw Error(ErrorCode::kUnsupported, "too many elements to gather on the GPU");
  }
  const Shape source = x.rank() == 0 ? Shape{1} : x.shape();
  const Shape target = index.rank() == 0 ? Shape{1} : index.shape();
  GatherShape shape{};
  shape.rank = source.rank();
  int64_t stride = 1;
  for (int i = 0; i < shape.rank; ++i) {
    const int at = source.rank() - 1 - i;
    shape.extents[i] = cuda::Divider(static_cast<unsigned>(target[at]));
    shape.strides[i] = stride;
    if (at == axis) {
      shape.axis = i;
      shape.extent = source[at];
    }
    stride *= source[at];
  }
  const unsigned total = static_cast<unsigned>(output.elements());
  VisitIndexed(ItemSize(x.dtype()), index.dtype(), [&]<typename T, typename I>(T*, I*) {
    cuda::Launch(
        stream, {dim3(cuda::BlocksFor(total, kIndexThreads, 1, 132 * 32)), dim3(kIndexThreads)},
        &GatherKernel<T, I>, reinterpret_cast<const T*>(x.raw()),
        reinterpret_cast<const I*>(index.raw()), reinterpret_cast<T*>(output.raw()), total, shape);
  });
}

namespace {

struct TableShape {
  int64_t outer_stride, table, inner;
  Strided::Axis axes[Strided::kMaxAxes];  // of the inner part
  int rank;
};

template <typename T>
__global__ void TableKernel(const T* x, const int64_t* table, T* y, int64_t total,
                            const __grid_constant__ TableShape shape) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += step) {
    int64_t rest = i % shape.inner;
    const int64_t row = i / shape.inner;
    int64_t from = row / shape.table * shape.outer_stride + table[row % shape.table];
    for (int axis = shape.rank - 1; axis >= 0; --axis) {
      from += rest % shape.axes[axis].extent * shape.axes[axis].stride;
      rest /= shape.axes[axis].extent;
    }
    y[i] = x[from];
  }
}

}  // namespace

void CopyIndexedOnDevice(cuda::Stream& stream, size_t item, const std::byte* x,
                         const IndexPlan& plan, const int64_t* table, std::byte* result) {
  const int64_t total = plan.result.elements();
  if (total == 0) return;
  TableShape shape{};
  shape.outer_stride = plan.outer_stride;
  shape.table = static_cast<int64_t>(plan.table.size());
  shape.inner = plan.inner.shape().elements();
  shape.rank = plan.inner.rank();
  for (int i = 0; i < shape.rank; ++i) shape.axes[i] = plan.inner[i];
  VisitIndexed(item, DType::kI64, [&]<typename T, typename I>(T*, I*) {
    cuda::Launch(stream,
                 {dim3(cuda::BlocksFor(total, kIndexThreads, 1, 132 * 32)), dim3(kIndexThreads)},
                 &TableKernel<T>, reinterpret_cast<const T*>(x) + plan.inner.offset(), table,
                 reinterpret_cast<T*>(result), total, shape);
  });
}

}  // namespace oort
