// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "core/checked.h"
#include "cuda/blas.h"
#include "cuda/compact/few_rows.h"
#include "cuda/compact/many_rows.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "layers/language/compact_linear_spec.h"
#include "layers/language/device_matrix.h"
#include "layers/precision_param.h"

namespace oort {
namespace {

cuda::RowActivation RowActivationOf(const ActivationSpec& spec) {
  switch (spec.kind) {
    case Activation::kNone: return cuda::RowActivation::kNone;
    case Activation::kRelu: return cuda::RowActivation::kRelu;
    case Activation::kSilu: return cuda::RowActivation::kSilu;
    case Activation::kGelu: return cuda::RowActivation::kGelu;
    case Activation::kGeluTanh: return cuda::RowActivation::kGeluTanh;
    default: break;
  }
  throw Error(ErrorCode::kUnsupported,
              "no activation '" + std::string(Name(spec.kind)) + "' behind products on the GPU");
}

/// Weights that are multiplied at once, and which results they give.
struct DeviceProduct {
  std::shared_ptr<const cuda::DeviceMatrix> matrix;
  int first_part = 0, parts = 1;
  Tensor bias;  ///< for each row of the packed matrix, on the device; undefined for none
};

class CudaCompactLinear final : public Layer {
 public:
  explicit CudaCompactLinear(const LayerInit& init)
      : spec_(init),
        device_(init.device()),
        most_shared_(cuda::MostSharedBytes(device_.index)),
        exact_(ReadPrecision(init) == Precision::kF32),
        activation_(RowActivationOf(spec_.epilogue().activation())) {
    if (!spec_.gated() && spec_.parts() > 1 && activation_ != cuda::RowActivation::kNone) {
      throw Error(ErrorCode::kUnsupported, "no activation behind several products on the GPU");
    }
    if (spec_.gated() && init.op().inputs.size() > 1) {
      throw Error(ErrorCode::kUnsupported, "no addend to gated products on the GPU");
    }
    const std::span<const StoredMatrix> stored = spec_.stored();
    if (spec_.gated() || cuda::DeviceMatrix::Alike(stored)) {
      AddProduct(stored, 0);
    } else {
      for (int part = 0; part < spec_.parts(); ++part) {
        AddProduct(stored.subspan(static_cast<size_t>(part), 1), part);
      }
    }
    if (spec_.norm().defined()) norm_ = cuda::ToDevice(spec_.norm(), device_);
    spec_.LetGo();
  }

  std::vector<Value> Infer(const Args& args) const override { return spec_.Infer(args); }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const int64_t rows = spec_.Rows(args);
    if (rows == 0) return;
    for (const DeviceProduct& product : products_) {
      if (UsesFew(product, rows)) {
        RunFew(context, product, args, outputs, rows);
      } else {
        RunMany(context, product, args, outputs, rows);
      }
    }
  }

  size_t Workspace(const Args& args, int) const override {
    const int64_t rows = spec_.Rows(args);
    size_t bytes = 0;
    for (const DeviceProduct& product : products_) {
      if (rows > 0 && !UsesFew(product, rows)) {
        bytes = std::max(bytes, ManyLayout(*this, product, rows).total);
      }
    }
    return bytes;
  }

  bool Packs(int argument) const override { return spec_.Packs(argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    size_t bytes = 0;
    for (const DeviceProduct& product : products_) bytes += product.matrix->bytes();
    return spec_.Work(args, outputs, bytes);
  }

 private:
  void AddProduct(std::span<const StoredMatrix> parts, int first) {
    DeviceProduct product;
    product.first_part = first;
    product.parts = static_cast<int>(parts.size());
    product.matrix = parts.size() == 1
                         ? cuda::DeviceMatrix::Shared(parts[0], device_)
                         : std::make_shared<cuda::DeviceMatrix>(parts, spec_.gated(), device_);
    product.bias = PackedBias(parts, first);
    products_.push_back(std::move(product));
  }

  /// In the order of the packed rows.
  Tensor PackedBias(std::span<const StoredMatrix> parts, int first) const {
    const auto bias_of = [&](int part) -> const Tensor& {
      return spec_.biases()[static_cast<size_t>(first + part)];
    };
    bool any = false;
    for (int part = 0; part < static_cast<int>(parts.size()); ++part) {
      any = any || bias_of(part).defined();
    }
    if (!any) return {};
    const int64_t strips = cuda::StripsOf(parts, spec_.gated());
    Tensor packed = Tensor::Zeros(DType::kF32, Shape{strips * cuda::kStripRows});
    for (int64_t strip = 0; strip < strips; ++strip) {
      const auto rows = cuda::RowsOfStrip(parts, spec_.gated(), strip);
      for (int r = 0; r < cuda::kStripRows; ++r) {
        const cuda::StripRow& row = rows[static_cast<size_t>(r)];
        if (row.part < 0 || !bias_of(row.part).defined()) continue;
        packed.data<float>()[strip * cuda::kStripRows + r] =
            bias_of(row.part).data<float>()[row.row];
      }
    }
    return cuda::ToDevice(packed, device_);
  }

  cuda::FewRowsProduct FewOf(const DeviceProduct& product, int64_t rows) const {
    cuda::FewRowsProduct few;
    few.weights = product.matrix->weights();
    few.rows = static_cast<int>(rows);
    few.columns = static_cast<int>(spec_.columns());
    if (norm_.defined()) {
      few.gain = norm_.data<float>();
      few.epsilon = static_cast<float>(spec_.norm_epsilon());
    }
    if (product.bias.defined()) few.bias = product.bias.data<float>();
    few.activation = activation_;
    few.gated = spec_.gated();
    few.parts = spec_.gated() ? 1 : product.parts;
    return few;
  }

  /// Rows that one launch can take: its shared memory holds them.
  int64_t MostFewRows(const DeviceProduct& product) const {
    int64_t rows = cuda::kFewRows;
    while (rows > 0 && cuda::FewRowsShared(FewOf(product, rows)) > most_shared_) rows /= 2;
    return rows;
  }
  bool UsesFew(const DeviceProduct& product, int64_t rows) const {
    const int64_t most = MostFewRows(product);
    return most > 0 && (exact_ || rows <= cuda::kFewRows);
  }

  void RunFew(const Context& context, const DeviceProduct& product, const Args& args,
              std::span<Value> outputs, int64_t rows) const {
    const int64_t most = MostFewRows(product);
    for (int64_t first = 0; first < rows; first += most) {
      cuda::FewRowsProduct few = FewOf(product, std::min(most, rows - first));
      few.x = args.tensor(spec_.input()).data<float>() + first * spec_.columns();
      for (int i = 0; i < few.parts; ++i) {
        const int64_t width = spec_.part_rows(product.first_part + i);
        few.part_rows[i] = static_cast<int>(width);
        few.y[i] = ResultOf(outputs, product, i) + first * width;
      }
      if (product.first_part == 0) {
        if (const float* addend = spec_.epilogue().addend(args)) {
          few.addend = addend + first * spec_.part_rows(0);
        }
      }
      cuda::RunFewRows(*context.stream(), few, true);
    }
  }

  float* ResultOf(std::span<Value> outputs, const DeviceProduct& product, int part) const {
    return outputs[static_cast<size_t>(product.first_part + part)].AsTensor().data<float>();
  }

  /// Scratch of a product of many rows.
  struct ManyLayout {
    size_t x = 0, weights = 0, both = 0, blas = 0, total = 0;
    ManyLayout(const CudaCompactLinear& layer, const DeviceProduct& product, int64_t rows) {
      const cuda::DeviceWeights& w = product.matrix->weights();
      const auto take = [&](size_t bytes) {
        const size_t at = total;
        total = CheckedAdd(total, CheckedAdd(bytes, size_t{511}) / 512 * 512);
        return at;
      };
      const size_t row_bytes = static_cast<size_t>(w.row_elements) * 2;
      const size_t packed_rows = static_cast<size_t>(w.strips) * cuda::kStripRows;
      x = take(CheckedMultiply(static_cast<size_t>(rows), row_bytes));
      const bool packed =
          w.format == cuda::DeviceFormat::kInt8 || w.format == cuda::DeviceFormat::kInt4;
      weights = take(packed ? CheckedMultiply(packed_rows, row_bytes) : 0);
      both = take(layer.spec_.gated()
                      ? CheckedMultiply(static_cast<size_t>(rows), packed_rows * sizeof(float))
                      : 0);
      size_t most = 0;
      for (int i = 0; i < (layer.spec_.gated() ? 1 : product.parts); ++i) {
        most = std::max(most, layer.MatmulOf(product, i, rows)->workspace());
      }
      blas = take(most);
    }
  };

  /// The product with one part, or with all rows where gated.
  std::shared_ptr<const cuda::Matmul> MatmulOf(const DeviceProduct& product, int part,
                                               int64_t rows) const {
    const cuda::DeviceWeights& w = product.matrix->weights();
    cuda::Product shape;
    shape.m = rows;
    shape.n = spec_.gated() ? static_cast<int64_t>(w.strips) * cuda::kStripRows
                            : spec_.part_rows(product.first_part + part);
    shape.k = w.row_elements;
    shape.transpose_b = true;
    shape.input = w.format == cuda::DeviceFormat::kF16 ? DType::kF16 : DType::kBF16;
    return cuda::Matmul::For(shape, device_.index);
  }

  void RunMany(const Context& context, const DeviceProduct& product, const Args& args,
               std::span<Value> outputs, int64_t rows) const {
    const cuda::Stream& stream = *context.stream();
    const cuda::DeviceWeights& w = product.matrix->weights();
    const ManyLayout layout(*this, product, rows);
    std::byte* scratch = context.workspace();
    cuda::CastRows(stream, args.tensor(spec_.input()).data<float>(), rows, spec_.columns(),
                   w.row_elements, norm_.defined() ? norm_.data<float>() : nullptr,
                   static_cast<float>(spec_.norm_epsilon()), w.format == cuda::DeviceFormat::kF16,
                   scratch + layout.x);
    const std::byte* weights = static_cast<const std::byte*>(w.data);
    if (layout.both != layout.weights) {
      cuda::UnpackWeights(stream, w, scratch + layout.weights);
      weights = scratch + layout.weights;
    }
    const float* bias = product.bias.defined() ? product.bias.data<float>() : nullptr;
    const float* addend = product.first_part == 0 ? spec_.epilogue().addend(args) : nullptr;
    if (spec_.gated()) {
      const int64_t width = static_cast<int64_t>(w.strips) * cuda::kStripRows;
      float* both = reinterpret_cast<float*>(scratch + layout.both);
      MatmulOf(product, 0, rows)
          ->Run(stream, scratch + layout.x, weights, both, nullptr, scratch + layout.blas);
      cuda::GateRows(stream, both, width, rows, spec_.part_rows(0), bias, activation_,
                     ResultOf(outputs, product, 0));
      return;
    }
    int64_t first_row = 0;
    for (int i = 0; i < product.parts; ++i) {
      const int64_t width = spec_.part_rows(product.first_part + i);
      float* y = ResultOf(outputs, product, i);
      MatmulOf(product, i, rows)
          ->Run(stream, scratch + layout.x, weights + first_row * w.row_elements * 2, y, nullptr,
                scratch + layout.blas);
      const float* part_bias = bias != nullptr ? bias + first_row : nullptr;
      const float* part_addend = i == 0 ? addend : nullptr;
      if (part_bias != nullptr || part_addend != nullptr ||
          activation_ != cuda::RowActivation::kNone) {
        cuda::FinishRows(stream, y, rows, width, part_bias, activation_, part_addend);
      }
      first_row += (width + cuda::kStripRows - 1) / cuda::kStripRows * cuda::kStripRows;
    }
  }

  CompactLinearSpec spec_;
  Device device_;
  int64_t most_shared_;
  bool exact_;
  cuda::RowActivation activation_;
  std::vector<DeviceProduct> products_;
  Tensor norm_;
};

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(compact_linear) {
  using namespace oort;
  registry.AddDevice({"oort.CompactLinear"}, DeviceType::kCuda, Create<CudaCompactLinear>());
}
