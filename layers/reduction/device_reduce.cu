// SPDX-License-Identifier: MIT
#include "layers/reduction/device_reduce.h"

#include "cuda/divide.h"
#include "cuda/elements.h"
#include "cuda/launch.h"

namespace oort {
namespace {

constexpr int kReduceAxes = Shape::kMaxRank;

struct ReduceAxis {
  cuda::Divider extent;
  int64_t stride;
};

/// Merged axes, innermost first.
struct ReduceShape {
  ReduceAxis kept[kReduceAxes], reduced[kReduceAxes];
  int kept_count = 0, reduced_count = 0;
  unsigned results = 0, count = 0;
};

__device__ int64_t OffsetAt(const ReduceAxis* axes, int count, unsigned index) {
  int64_t offset = 0;
  for (int i = 0; i < count; ++i) {
    unsigned position;
    index = axes[i].extent.Divide(index, &position);
    offset += position * axes[i].stride;
  }
  return offset;
}

template <typename A>
struct ReduceState {
  A value;
  int64_t index;
};

template <typename A>
__device__ ReduceState<A> StartOf(Reduction op) {
  if (op == Reduction::kProduct) return {A(1), -1};
  return {A(0), -1};
}

/// Takes `b` into `a`. Of equal extremes the first stays; the first NaN beats everything.
template <typename A>
__device__ ReduceState<A> Join(Reduction op, ReduceState<A> a, ReduceState<A> b) {
  switch (op) {
    case Reduction::kSum:
    case Reduction::kMean: return {a.value + b.value, 0};
    case Reduction::kProduct: return {a.value * b.value, 0};
    default: break;
  }
  if (a.index < 0) return b;
  if (b.index < 0) return a;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan || b_nan) {
    if (a_nan && b_nan) return a.index < b.index ? a : b;
    return a_nan ? a : b;
  }
  if (a.value == b.value) return a.index < b.index ? a : b;
  return (op == Reduction::kMax) == (a.value > b.value) ? a : b;
}

/// Sums are made in f64 or i64, so that the order of threads changes little.
template <typename A, typename T>
__device__ A ReadElement(const T* x, int64_t offset) {
  if constexpr (std::is_same_v<T, bool>) {
    return A(reinterpret_cast<const uint8_t*>(x)[offset] != 0 ? 1 : 0);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<A>(x[offset]);
  } else {
    return static_cast<A>(cuda::Widen(x[offset]));
  }
}

struct ReduceResult {
  std::byte* values;  // or null
  int64_t* indices;   // or null
  DType dtype;        // of the values
  double divisor;
};

template <typename A>
__device__ void WriteResult(const ReduceResult& to, unsigned i, ReduceState<A> state) {
  if (to.indices != nullptr) to.indices[i] = state.index;
  if (to.values == nullptr) return;
  switch (to.dtype) {
    case DType::kI64:
      reinterpret_cast<int64_t*>(to.values)[i] = static_cast<int64_t>(state.value);
      return;
    case DType::kI32:
      reinterpret_cast<int32_t*>(to.values)[i] = static_cast<int32_t>(state.value);
      return;
    case DType::kI16:
      reinterpret_cast<int16_t*>(to.values)[i] = static_cast<int16_t>(state.value);
      return;
    case DType::kI8:
      reinterpret_cast<int8_t*>(to.values)[i] = static_cast<int8_t>(state.value);
      return;
    case DType::kU8:
      reinterpret_cast<uint8_t*>(to.values)[i] = static_cast<uint8_t>(state.value);
      return;
    case DType::kBool: reinterpret_cast<uint8_t*>(to.values)[i] = state.value != 0 ? 1 : 0; return;
    default: break;
  }
  const double value = static_cast<double>(state.value) / to.divisor;
  switch (to.dtype) {
    case DType::kF64: reinterpret_cast<double*>(to.values)[i] = value; return;
    case DType::kF16: cuda::Narrow(reinterpret_cast<__half*>(to.values)[i], value); return;
    case DType::kBF16: cuda::Narrow(reinterpret_cast<__nv_bfloat16*>(to.values)[i], value); return;
    default: cuda::Narrow(reinterpret_cast<float*>(to.values)[i], value); return;
  }
}

template <typename A>
__device__ ReduceState<A> FromLane(ReduceState<A> state, int offset) {
  return {__shfl_xor_sync(0xffffffffu, state.value, offset),
          __shfl_xor_sync(0xffffffffu, state.index, offset)};
}

/// One block for each result, where the innermost axis is reduced.
template <typename T, typename A>
__global__ void ReduceRunsKernel(const T* x, const __grid_constant__ ReduceShape shape,
                                 Reduction op, ReduceResult to) {
  __shared__ ReduceState<A> shared[32];
  const unsigned result = blockIdx.x;
  x += OffsetAt(shape.kept, shape.kept_count, result);
  ReduceState<A> state = StartOf<A>(op);
  for (unsigned i = threadIdx.x; i < shape.count; i += blockDim.x) {
    const int64_t offset = shape.reduced_count == 1
                               ? i * shape.reduced[0].stride
                               : OffsetAt(shape.reduced, shape.reduced_count, i);
    state = Join(op, state, {ReadElement<A>(x, offset), static_cast<int64_t>(i)});
  }
  for (int offset = 16; offset > 0; offset /= 2) state = Join(op, state, FromLane(state, offset));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = state;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned i = 1; i < blockDim.x / 32; ++i) state = Join(op, state, shared[i]);
  WriteResult(to, result, state);
}

constexpr unsigned kReduceRows = 8;

/// Neighbouring results by neighbouring threads; threadIdx.y shares out what is reduced.
template <typename T, typename A>
__global__ void ReduceColumnsKernel(const T* x, const __grid_constant__ ReduceShape shape,
                                    Reduction op, ReduceResult to) {
  __shared__ ReduceState<A> shared[kReduceRows][32];
  const unsigned result = blockIdx.x * 32 + threadIdx.x;
  ReduceState<A> state = StartOf<A>(op);
  if (result < shape.results) {
    x += OffsetAt(shape.kept, shape.kept_count, result);
    for (unsigned i = threadIdx.y; i < shape.count; i += kReduceRows) {
      const int64_t offset = shape.reduced_count == 1
                                 ? i * shape.reduced[0].stride
                                 : OffsetAt(shape.reduced, shape.reduced_count, i);
      state = Join(op, state, {ReadElement<A>(x, offset), static_cast<int64_t>(i)});
    }
  }
  shared[threadIdx.y][threadIdx.x] = state;
  __syncthreads();
  if (threadIdx.y != 0 || result >= shape.results) return;
  for (unsigned i = 1; i < kReduceRows; ++i) state = Join(op, state, shared[i][threadIdx.x]);
  WriteResult(to, result, state);
}

ReduceShape ShapeOf(const ReducePlan& plan) {
  if (plan.results > INT32_MAX || plan.count > INT32_MAX) {
    throw Error(ErrorCode::kUnsupported, "too many elements to reduce on the GPU");
  }
  ReduceShape shape;
  const auto take = [](const ScratchVector<ReducePlan::Axis>& from, ReduceAxis* to, int* count) {
    for (size_t i = from.size(); i-- > 0;) {
      if (from[i].extent == 1) continue;
      to[(*count)++] = {cuda::Divider(static_cast<unsigned>(std::max<int64_t>(1, from[i].extent))),
                        from[i].stride};
    }
  };
  take(plan.kept, shape.kept, &shape.kept_count);
  take(plan.reduced, shape.reduced, &shape.reduced_count);
  shape.results = static_cast<unsigned>(plan.results);
  shape.count = static_cast<unsigned>(plan.count);
  return shape;
}

template <typename T, typename A>
void StartReduce(cuda::Stream& stream, const ReducePlan& plan, Reduction op, const Tensor& x,
                 const ReduceResult& to) {
  const ReduceShape shape = ShapeOf(plan);
  const T* const data = reinterpret_cast<const T*>(x.raw());
  if (plan.contiguous || plan.results < 32) {
    const unsigned most = plan.results < 132 ? 1024 : 256;
    cuda::Launch(stream, {dim3(shape.results), dim3(cuda::ThreadsFor(plan.count, 4, most))},
                 &ReduceRunsKernel<T, A>, data, shape, op, to);
  } else {
    cuda::Launch(stream, {dim3((shape.results + 31) / 32), dim3(32, kReduceRows)},
                 &ReduceColumnsKernel<T, A>, data, shape, op, to);
  }
}

}  // namespace

void ReduceOnDevice(cuda::Stream& stream, const ReducePlan& plan, Reduction op, const Tensor& x,
                    Tensor* values, Tensor* indices) {
  ReduceResult to{};
  to.divisor = op == Reduction::kMean ? static_cast<double>(plan.count) : 1;
  if (values != nullptr) {
    to.values = values->raw();
    to.dtype = values->dtype();
  }
  if (indices != nullptr) to.indices = reinterpret_cast<int64_t*>(indices->raw());
  const bool whole = values == nullptr || IsInteger(to.dtype) || to.dtype == DType::kBool;
  const auto integers = [&]<typename T>(T*) {
    if (whole) {
      StartReduce<T, int64_t>(stream, plan, op, x, to);
    } else {
      StartReduce<T, double>(stream, plan, op, x, to);
    }
  };
  switch (x.dtype()) {
    case DType::kI64: return integers(static_cast<int64_t*>(nullptr));
    case DType::kI32: return integers(static_cast<int32_t*>(nullptr));
    case DType::kI16: return integers(static_cast<int16_t*>(nullptr));
    case DType::kI8: return integers(static_cast<int8_t*>(nullptr));
    case DType::kU8: return integers(static_cast<uint8_t*>(nullptr));
    case DType::kBool: return integers(static_cast<bool*>(nullptr));
    default: break;
  }
  cuda::VisitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (whole && values != nullptr) {
      StartReduce<T, int64_t>(stream, plan, op, x, to);
    } else {
      StartReduce<T, double>(stream, plan, op, x, to);
    }
  });
}

}  // namespace oort
