// SPDX-License-Identifier: MIT
#include <algorithm>
#include <complex>
#include <type_traits>

#include "core/checked.h"
#include "core/dispatch.h"
#include "layers/composite/float_dtypes.h"
#include "layers/linear/device_product.h"
#include "layers/linear/einsum_plan.h"
#include "layers/linear/product.h"
#include "layers/reduction/device_reduce.h"
#include "layers/repair_log.h"
#include "layers/shape/strided_copy.h"

namespace oort {
namespace {

/// What sums of T are gathered in: wide enough, and wrapping where torch wraps.
template <typename T>
using SumOf = std::conditional_t<kIsComplex<T>, std::complex<double>,
                                 std::conditional_t<std::is_integral_v<T>, uint64_t, double>>;

template <typename T>
void SumRows(const Context& context, const T* x, int64_t rows, int64_t columns, T* y) {
  context.ParallelFor(rows, 16384 / std::max<int64_t>(1, columns) + 1,
                      [&](int64_t begin, int64_t end) {
                        for (int64_t row = begin; row < end; ++row) {
                          SumOf<T> sum{};
                          for (int64_t i = 0; i < columns; ++i) {
                            sum += static_cast<SumOf<T>>(x[row * columns + i]);
                          }
                          y[row] = static_cast<T>(sum);
                        }
                      });
}

/// Matrices so small that packing them would cost more than the product: elementwise products are
/// products of one number each.
bool IsSmall(const EinsumStep& step) { return step.products() > 0 && step.products() <= 256; }

void MultiplySmall(const StridedMatrix& a, const StridedMatrix& b, const GemmSize& size, float* c) {
  for (int64_t i = 0; i < size.m; ++i) {
    for (int64_t j = 0; j < size.n; ++j) {
      const float *x = a.data + i * a.i_stride, *y = b.data + j * b.i_stride;
      float sum = 0;
      for (int64_t k = 0; k < size.k; ++k) sum += x[k * a.k_stride] * y[k * b.k_stride];
      c[i * size.n + j] = sum;
    }
  }
}

class Einsum final : public Layer {
 public:
  explicit Einsum(const LayerInit& init)
      : equation_(EinsumEquation::Parse(init.String("equation"), init.op().inputs.size())),
        kernels_(GemmKernelsFor(init.isa())),
        device_(init.device()) {
    if (init.inputs().empty()) return;  // a part of another layer, which has no traced shapes
    std::vector<Shape> shapes;
    for (const Operand* input : init.inputs()) {
      if (!input->has_shape) return;
      shapes.push_back(input->shape);
    }
    const Operand& output = *init.outputs()[0];
    const std::vector<EinsumLabels> written = equation_.operands;
    equation_.RestoreEllipsis(shapes, output.has_shape ? &output.shape : nullptr);
    if (equation_.operands != written) LogRepair(init, "put a lost '...' back into its equation");
  }

  std::vector<Value> Infer(const Args& args) const override {
    const std::vector<const Tensor*> operands = Operands(args);
    for (const Tensor* tensor : operands) {
      CheckProductDTypes(*operands[0], *tensor);
      if (device_.type != DeviceType::kCpu) RequireWideFloat(tensor->dtype());
    }
    const Shape output = AxesOf(ShapesOf(operands)).output_shape;
    output.elements();
    PlanOf(args);  // throws where an intermediate result is impossible
    return {Tensor::Meta(ResultDType(operands), output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    std::vector<const Tensor*> operands = Operands(args);
    const EinsumPlan plan = PlanOf(args);
    const DType dtype = output.dtype();
    const Tensor wide = operands[0]->To(dtype);
    if (operands.size() == 1) operands[0] = &wide;
    Run run{context, operands, dtype, ItemSize(dtype), nullptr};
    run.scratch = context.workspace() + GemmBytes(plan, dtype, context.threads());
    for (const EinsumStep& step : plan.steps) {
      std::byte* result =
          step.is_last ? output.raw() : run.scratch + static_cast<size_t>(step.result) * run.item;
      if (step.is_sum) {
        Sum(run, step, result);
      } else {
        Multiply(run, step, result);
      }
    }
    if (plan.rest)
      CopyStrided(context, run.item, run.Data(*plan.rest), plan.rest->view, output.raw());
  }

  size_t Workspace(const Args& args, int threads) const override {
    const DType dtype = ResultDType(Operands(args));
    const EinsumPlan plan = PlanOf(args);
    return CheckedAdd(GemmBytes(plan, dtype, threads),
                      CheckedMultiply(static_cast<size_t>(plan.elements), ItemSize(dtype)));
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    for (const EinsumStep& step : PlanOf(args).steps) {
      cost.flops += (step.is_sum ? 1 : 2) * static_cast<double>(step.count) * step.products();
    }
    return cost;
  }

 private:
  /// A sum of one operand is torch.sum, which widens integers.
  DType ResultDType(const std::vector<const Tensor*>& operands) const {
    const DType dtype = operands[0]->dtype();
    if (operands.size() > 1 || !IsInteger(dtype)) return dtype;
    const EinsumLabels& labels = equation_.operands[0];
    const bool sums = std::any_of(labels.begin(), labels.end(), [&](EinsumLabel label) {
      if (equation_.has_output) return !Contains(equation_.output, label);
      return std::count(labels.begin(), labels.end(), label) > 1;
    });
    return sums ? DType::kI64 : dtype;
  }

  struct Run {
    const Context& context;
    const std::vector<const Tensor*>& operands;
    DType dtype;
    size_t item;
    std::byte* scratch;

    const std::byte* Data(const EinsumTensor& tensor) const {
      if (tensor.input >= 0) return operands[static_cast<size_t>(tensor.input)]->raw();
      return scratch + static_cast<size_t>(tensor.offset) * item;
    }
    /// The elements in the order in which they are needed.
    const std::byte* Ready(const EinsumMatrices& matrices) const {
      const std::byte* data = Data(matrices.tensor);
      const Strided& view = matrices.tensor.view;
      if (!matrices.copied) return data + static_cast<size_t>(view.offset()) * item;
      std::byte* copy = scratch + static_cast<size_t>(matrices.copy) * item;
      CopyStrided(context, item, data, view, copy);
      return copy;
    }
  };

  static std::vector<const Tensor*> Operands(const Args& args) {
    std::vector<const Tensor*> operands;
    for (const Value* value : args.variadic()) operands.push_back(&value->AsTensor());
    return operands;
  }

  static std::vector<Shape> ShapesOf(const std::vector<const Tensor*>& operands) {
    std::vector<Shape> shapes;
    for (const Tensor* tensor : operands) shapes.push_back(tensor->shape());
    return shapes;
  }

  EinsumAxes AxesOf(const std::vector<Shape>& shapes) const {
    EinsumEquation equation = equation_;
    equation.RestoreEllipsis(shapes, nullptr);
    return EinsumAxes::Of(equation, shapes);
  }

  EinsumPlan PlanOf(const Args& args) const {
    const std::vector<const Tensor*> operands = Operands(args);
    const std::vector<Shape> shapes = ShapesOf(operands);
    return EinsumPlan::Of(AxesOf(shapes), shapes, operands[0]->dtype() == DType::kF32);
  }

  static GemmSize SizeOf(const EinsumStep& step) {
    return {step.rows, step.columns, step.inner, false, false};
  }

  static DeviceProduct OnDevice(const EinsumStep& step, DType dtype) {
    return {step.count,        step.rows,         step.columns, step.inner,
            step.a.transposed, step.b.transposed, dtype};
  }

  size_t DeviceBytes(const EinsumPlan& plan, DType dtype) const {
    size_t most = 0;
    for (const EinsumStep& step : plan.steps) {
      if (step.is_sum) continue;
      most = std::max(most, ProductBytesOnDevice(OnDevice(step, dtype), device_.index));
    }
    return AlignUp(most, 256);
  }

  size_t GemmBytes(const EinsumPlan& plan, DType dtype, int threads) const {
    if (device_.type != DeviceType::kCpu) return DeviceBytes(plan, dtype);
    if (dtype != DType::kF32) return 0;
    int64_t floats = 0;
    for (const EinsumStep& step : plan.steps) {
      if (step.is_sum || IsSmall(step)) continue;
      floats = std::max(floats, GemmBatchWorkspace(kernels_, SizeOf(step), step.count, threads));
    }
    return AlignUp(CheckedMultiply(static_cast<size_t>(floats), sizeof(float)), 64);
  }

  static void Sum(const Run& run, const EinsumStep& step, std::byte* result) {
    const std::byte* x = run.Ready(step.a);
    if (run.context.stream() != nullptr) {
      const Shape shape{step.rows, step.inner};
      Tensor sums = Tensor::Borrow(result, run.dtype, Shape{step.rows});
      return ReduceOnDevice(*run.context.stream(), PlanReduction(shape, {1}, false),
                            Reduction::kSum, Tensor::BorrowConst(x, run.dtype, shape), &sums,
                            nullptr);
    }
    VisitDType(run.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!kIsHalf<T>) {
        SumRows(run.context, reinterpret_cast<const T*>(x), step.rows, step.inner,
                reinterpret_cast<T*>(result));
      }
    });
  }

  void Multiply(const Run& run, const EinsumStep& step, std::byte* result) const {
    const std::byte *a = run.Ready(step.a), *b = run.Ready(step.b);
    if (run.context.stream() != nullptr) {
      return ProductOnDevice(*run.context.stream(), OnDevice(step, run.dtype), a, b, result,
                             run.context.workspace());
    }
    if (run.dtype == DType::kF32) {
      MultiplyFloats(run.context, step, reinterpret_cast<const float*>(a),
                     reinterpret_cast<const float*>(b), reinterpret_cast<float*>(result));
      return;
    }
    const Shape a_shape{step.count, step.rows, step.inner};
    const Shape b_shape{step.count, step.inner, step.columns};
    const Product product = MatmulProduct(a_shape, b_shape);
    Tensor output = Tensor::Borrow(result, run.dtype, product.output);
    RunProduct(kernels_, run.context, product, Tensor::BorrowConst(a, run.dtype, a_shape),
               Tensor::BorrowConst(b, run.dtype, b_shape), {}, output);
  }

  /// Element (k, i) of a side at data[k * k_stride + i * i_stride].
  static StridedMatrix Side(const float* data, int64_t extent, int64_t k, bool k_inside) {
    return k_inside ? StridedMatrix{data, 1, k} : StridedMatrix{data, extent, 1};
  }

  void MultiplyFloats(const Context& context, const EinsumStep& step, const float* a,
                      const float* b, float* c) const {
    const GemmSize size = SizeOf(step);
    const auto rows_of = [&](int64_t i) {
      return Side(a + i * size.m * size.k, size.m, size.k, !step.a.transposed);
    };
    const auto columns_of = [&](int64_t i) {
      return Side(b + i * size.k * size.n, size.n, size.k, step.b.transposed);
    };
    if (IsSmall(step)) {
      const int64_t grain = 16384 / static_cast<int64_t>(step.products()) + 1;
      context.ParallelFor(step.count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          MultiplySmall(rows_of(i), columns_of(i), size, c + i * size.m * size.n);
        }
      });
      return;
    }
    GemmBatch(kernels_, size, step.count, context.threads(), context.workspace<float>(),
              [&](int64_t i, int threads, float* workspace) {
                const MatrixSource rows(kernels_, rows_of(i)), columns(kernels_, columns_of(i));
                GemmProblem problem;
                problem.size = size;
                problem.a = &rows;
                problem.b = &columns;
                problem.c = c + i * size.m * size.n;
                problem.ldc = size.n;
                Gemm(kernels_, problem, threads, workspace);
              });
  }

  EinsumEquation equation_;
  const GemmKernels& kernels_;
  Device device_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(einsum) {
  using namespace oort;
  const OperatorSchema schema =
      OperatorSchema({"torch.einsum"},
                     "Sums of products by Einstein's notation. Where pnnx lost a `...` of the "
                     "equation, the traced shapes tell where it was.")
          .Tensors("operands", kProductDTypes)
          .String("equation");
  registry.Add(schema, WithHalves(schema, Create<Einsum>()));
}

OORT_CUDA_LAYERS(einsum) {
  using namespace oort;
  registry.AddDevice({"torch.einsum"}, DeviceType::kCuda, [](const LayerInit& init) {
    RequireProductsOnDevice();
    for (const Operand* input : init.inputs()) RequireWideFloat(input->dtype);
    return std::make_unique<Einsum>(init);
  });
}
