// SPDX-License-Identifier: MIT
#include "layers/rotary/device_angles.h"

#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"

namespace oort::cuda {
namespace {

constexpr int kAngleThreads = 128;

__global__ void AnglesKernel(const int32_t* positions, int64_t count, const float* frequencies,
                             int64_t pairs, double magnitude, float* out) {
  LaunchDependents();
  WaitForPredecessor();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kAngleThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t token = i / pairs, pair = i % pairs;
  // The product in f32, as in torch; sine and cosine of it in f64.
  const double angle =
      static_cast<double>(static_cast<float>(positions[token]) * frequencies[pair]);
  out[token * 2 * pairs + pair] = static_cast<float>(cos(angle) * magnitude);
  out[token * 2 * pairs + pairs + pair] = static_cast<float>(sin(angle) * magnitude);
}

/// A thread a pair, or an element behind the pairs.
__global__ void TurnKernel(const float* from, float* to, int64_t count, int64_t width,
                           int64_t head_dim, const float* angles, int64_t pairs, bool interleaved) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kAngleThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t each = head_dim - pairs, heads = width / head_dim;
  const int64_t item = i % each, head = i / each % heads, token = i / each / heads;
  const int64_t at = token * width + head * head_dim;
  if (item >= pairs) {
    to[at + pairs + item] = from[at + pairs + item];
    return;
  }
  const int64_t first = at + (interleaved ? 2 * item : item);
  const int64_t second = interleaved ? first + 1 : first + pairs;
  const float cosine = angles[token * 2 * pairs + item];
  const float sine = angles[token * 2 * pairs + pairs + item];
  const float a = from[first], b = from[second];
  to[first] = a * cosine - b * sine;
  to[second] = b * cosine + a * sine;
}

}  // namespace

void RotaryAngles(const Stream& stream, const int32_t* positions, int64_t tokens,
                  const float* frequencies, int64_t pairs, double magnitude, float* out) {
  const int64_t count = tokens * pairs;
  Launch(stream, {dim3(BlocksFor(count, kAngleThreads)), dim3(kAngleThreads), 0, true},
         AnglesKernel, positions, count, frequencies, pairs, magnitude, out);
}

void TurnHeads(const Stream& stream, const float* from, float* to, int64_t tokens, int64_t width,
               int64_t head_dim, const float* angles, int64_t pairs, bool interleaved) {
  const int64_t count = tokens * (width / head_dim) * (head_dim - pairs);
  Launch(stream, {dim3(BlocksFor(count, kAngleThreads)), dim3(kAngleThreads)}, TurnKernel, from, to,
         count, width, head_dim, angles, pairs, interleaved);
}

}  // namespace oort::cuda
