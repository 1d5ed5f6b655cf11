// SPDX-License-Identifier: MIT
// An interpreter of register code: each thread runs every instruction over a few elements, so that
// reading an instruction costs little beside what it does.
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/memory.h"
#include "layers/expression/device_functions.h"

namespace oort::expression {
namespace {

constexpr int kExpressionThreads = 128;

template <typename R>
inline constexpr int kElements = std::is_same_v<R, float> ? 4 : 2;  ///< of one thread at a time

template <typename R>
struct Lanes {
  R v[kElements<R>];
};

/// The elements of one operand for output elements first, first + 1, …
template <typename R>
__device__ void LoadLanes(const DeviceProgram& program, const DeviceProgram::Operand& operand,
                          unsigned first, int count, Lanes<R>& lanes) {
  constexpr int kCount = kElements<R>;
  const DType dtype = static_cast<DType>(operand.dtype);
  if (operand.single) {
    R value;
    Load(value, operand.data, dtype, 0);
#pragma unroll
    for (int i = 0; i < kCount; ++i) lanes.v[i] = value;
    return;
  }
  if (operand.direct) {
    if constexpr (std::is_same_v<R, float>) {
      if (dtype == DType::kF32 && count == kCount &&
          reinterpret_cast<uintptr_t>(operand.data) % 16 == 0) {
        const float4 four = reinterpret_cast<const float4*>(operand.data)[first / 4];
        lanes.v[0] = four.x;
        lanes.v[1] = four.y;
        lanes.v[2] = four.z;
        lanes.v[3] = four.w;
        return;
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < count) Load(lanes.v[i], operand.data, dtype, first + i);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i >= count) break;
    unsigned rest = first + i;
    int64_t offset = 0;
    for (int axis = 0; axis < program.axes; ++axis) {
      unsigned index;
      rest = program.extents[axis].Divide(rest, &index);
      offset += index * operand.strides[axis];
    }
    Load(lanes.v[i], operand.data, dtype, offset);
  }
}

template <typename R>
__device__ void StoreLanes(const DeviceProgram& program, unsigned first, int count,
                           const Lanes<R>& lanes) {
  const DType dtype = static_cast<DType>(program.output_dtype);
  if constexpr (std::is_same_v<R, float>) {
    if (dtype == DType::kF32 && count == 4 &&
        reinterpret_cast<uintptr_t>(program.output) % 16 == 0) {
      reinterpret_cast<float4*>(program.output)[first / 4] =
          make_float4(lanes.v[0], lanes.v[1], lanes.v[2], lanes.v[3]);
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kElements<R>; ++i) {
    if (i < count) Store(lanes.v[i], program.output, dtype, first + i);
  }
}

template <typename R>
__device__ void Execute(const DeviceProgram::Instruction& instruction, const Lanes<R>& a,
                        const Lanes<R>& b, const Lanes<R>& c, Lanes<R>& y) {
  constexpr int kCount = kElements<R>;
  const DType from = static_cast<DType>(instruction.from), to = static_cast<DType>(instruction.to);
  const Function function = static_cast<Function>(instruction.function);
  if (instruction.kind == Opcode::kRound) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) Put(y.v[i], RoundTo(Get<float>(a.v[i]), to));
  } else if (instruction.kind == Opcode::kConvert) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) Convert(a.v[i], y.v[i], from, to);
  } else if (from == DType::kF32) {
    Call<float, R, kCount>(function, a.v, b.v, c.v, y.v);
  } else if (from == DType::kBool) {
    Call<Bool, R, kCount>(function, a.v, b.v, c.v, y.v);
  } else if constexpr (std::is_same_v<R, WideRegister>) {
    if (from == DType::kF64) {
      Call<double, R, kCount>(function, a.v, b.v, c.v, y.v);
    } else {
      Call<int64_t, R, kCount>(function, a.v, b.v, c.v, y.v);
      if (to != DType::kBool) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          y.v[i].bits = static_cast<uint64_t>(Wrapped(static_cast<int64_t>(y.v[i].bits), to));
        }
      }
    }
  }
}

template <typename R>
__global__ void __launch_bounds__(kExpressionThreads)
    ExpressionKernel(const __grid_constant__ DeviceProgram program) {
  constexpr int kCount = kElements<R>;
  extern __shared__ __align__(16) unsigned char memory[];
  Lanes<R>* const registers = reinterpret_cast<Lanes<R>*>(memory) + threadIdx.x;
  for (int i = 0; i < program.constant_count; ++i) {
    const DeviceProgram::Constant& constant = program.constants[i];
    R value;
    Load(value, reinterpret_cast<const std::byte*>(&constant.bits),
         static_cast<DType>(constant.dtype), 0);
    Lanes<R> lanes;
#pragma unroll
    for (int k = 0; k < kCount; ++k) lanes.v[k] = value;
    registers[constant.slot * kExpressionThreads] = lanes;
  }
  const unsigned total = static_cast<unsigned>(program.count);
  const unsigned step = gridDim.x * kExpressionThreads * kCount;
  // Elements below 2^31 and steps below 2^31: sums do not wrap.
  for (unsigned first = (blockIdx.x * kExpressionThreads + threadIdx.x) * kCount; first < total;
       first += step) {
    const int count = static_cast<int>(min(total - first, static_cast<unsigned>(kCount)));
    for (int i = 0; i < program.operand_count; ++i) {
      Lanes<R> lanes{};
      LoadLanes(program, program.operands[i], first, count, lanes);
      registers[program.operands[i].slot * kExpressionThreads] = lanes;
    }
    for (int i = 0; i < program.instruction_count; ++i) {
      const DeviceProgram::Instruction instruction = program.instructions[i];
      const Lanes<R> a = registers[instruction.args[0] * kExpressionThreads];
      const Lanes<R> b = registers[instruction.args[1] * kExpressionThreads];
      const Lanes<R> c = registers[instruction.args[2] * kExpressionThreads];
      Lanes<R> y{};
      Execute(instruction, a, b, c, y);
      registers[instruction.target * kExpressionThreads] = y;
    }
    StoreLanes(program, first, count, registers[0]);
  }
}

template <typename R>
void Start(cuda::Stream& stream, const DeviceProgram& program) {
  const size_t shared = static_cast<size_t>(program.slots) * kExpressionThreads * sizeof(Lanes<R>);
  const unsigned blocks =
      cuda::BlocksFor(program.count, kExpressionThreads, kElements<R>, 132 * 16);
  cuda::Launch(stream, {dim3(blocks), dim3(kExpressionThreads), shared}, &ExpressionKernel<R>,
               program);
}

/// Elements of a view in memory: up to the last.
size_t BytesOf(const View& view, size_t item) {
  if (view.shape.elements() == 0) return 0;
  int64_t last = 0;
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    last += (view.shape[axis] - 1) * view.strides[static_cast<size_t>(axis)];
  }
  return static_cast<size_t>(last + 1) * item;
}

/// Constants that no layer uploaded; not where the copy would be recorded with an address that is
/// gone when it is replayed.
std::shared_ptr<Buffer> UploadView(cuda::Stream& stream, View& view, size_t item) {
  if (stream.Capturing()) {
    throw Error(ErrorCode::kDevice, "an operand is on the host");
  }
  const size_t bytes = BytesOf(view, item);
  std::shared_ptr<Buffer> buffer = cuda::AllocateDevice(bytes, stream);
  stream.CopyToDevice(buffer->data(), view.data, bytes);
  view.data = buffer->data();
  view.on_host = false;
  return buffer;
}

/// What the kernel lacks is computed by the host, with all that is on its way waited for.
void RunOnHost(cuda::Stream& stream, const Code& code, std::span<const View> operands,
               Tensor& out) {
  stream.Synchronize();
  std::vector<Tensor> copies;
  std::vector<View> views(operands.begin(), operands.end());
  for (const Code::OperandSlot& slot : code.operands) {
    View& view = views[static_cast<size_t>(slot.operand)];
    const size_t bytes = BytesOf(view, slot.item);
    if (bytes == 0 || view.on_host) continue;
    copies.emplace_back(DType::kU8, Shape{static_cast<int64_t>(bytes)});
    stream.CopyToHost(copies.back().raw(), view.data, bytes);
    view.data = copies.back().raw();
    view.on_host = true;
  }
  stream.Synchronize();
  Tensor result(out.dtype(), out.shape());
  Run(code, views, result, Context(1, {}));
  stream.CopyToDevice(out.raw(), result.raw(), result.bytes());
}

}  // namespace

void RunOnDevice(cuda::Stream& stream, const Code& code, std::span<const View> operands,
                 Tensor& out) {
  if (out.device().type == DeviceType::kCpu) {
    throw Error(ErrorCode::kUnsupported, "a list of results is not made on the GPU");
  }
  std::vector<View> views(operands.begin(), operands.end());
  std::vector<std::shared_ptr<Buffer>> uploaded;
  for (const Code::OperandSlot& slot : code.operands) {
    View& view = views[static_cast<size_t>(slot.operand)];
    if (view.on_host) uploaded.push_back(UploadView(stream, view, slot.item));
  }
  std::optional<DeviceProgram> program = Encode(code, views, out.shape());
  if (!program) return RunOnHost(stream, code, operands, out);
  program->output = out.raw();
  if (program->narrow) {
    Start<float>(stream, *program);
  } else {
    Start<WideRegister>(stream, *program);
  }
}

}  // namespace oort::expression
