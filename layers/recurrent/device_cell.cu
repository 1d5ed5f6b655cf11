// SPDX-License-Identifier: MIT
#include "layers/recurrent/device_cell.h"

#include "cuda/launch.h"
#include "layers/convolution/cuda/conv_algorithms.h"

namespace oort {
namespace {

__device__ float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ float StepOf(const DeviceCellStep& step, int64_t n, int64_t j) {
  const int64_t hidden = step.hidden;
  const float *x = step.x + n * step.x_step + j, *h = step.h + n * step.h_step + j;
  const auto gate = [&](int64_t g) { return x[g * hidden] + h[g * hidden]; };
  switch (step.kind) {
    case CellKind::kLstm: {
      float& c = step.c[n * hidden + j];
      c = Sigmoid(gate(1)) * c + Sigmoid(gate(0)) * tanhf(gate(2));
      return Sigmoid(gate(3)) * tanhf(c);
    }
    case CellKind::kGru: {
      const float reset = Sigmoid(gate(0)), keep = Sigmoid(gate(1));
      const float fresh = tanhf(x[2 * hidden] + reset * h[2 * hidden]);
      return (1.0f - keep) * fresh + keep * step.last[n * step.last_step + j];
    }
    case CellKind::kRelu: {
      const float sum = gate(0);
      return sum < 0.0f ? 0.0f : sum;
    }
    default: return tanhf(gate(0));
  }
}

__global__ void StepCells(const DeviceCellStep step) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= step.batch * step.hidden) return;
  const int64_t n = index / step.hidden, j = index % step.hidden;
  step.y[n * step.y_step + j] = StepOf(step, n, j);
}

}  // namespace

void StepCellsOnDevice(cuda::Stream& stream, const DeviceCellStep& step) {
  constexpr int kThreads = 128;
  cuda::Launch(stream, {cuda::BlocksFor(step.batch * step.hidden, kThreads), kThreads}, StepCells,
               step);
}

namespace {}  // namespace

/// A convolution of one tap.
void MultiplyRowsOnDevice(cuda::Stream& stream, const DeviceRows& product) {
  cuda::ConvCall call;
  call.in = product.x;
  call.weight = product.weight;
  call.depth = product.depth;
  call.epilogue.bias = product.bias;
  call.out = product.y;
  call.batch = product.rows;
  call.channels = static_cast<int>(product.in);
  call.filters = static_cast<int>(product.out);
  call.in_pixel = product.x_step;
  call.out_pixel = product.y_step;
  cuda::RunConv(stream, {call, cuda::ConvMath::kF32, stream.device()});
}

}  // namespace oort
