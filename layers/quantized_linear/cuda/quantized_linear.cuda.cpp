// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>

#include "core/checked.h"
#include "core/cpu_limits.h"
#include "cuda/blas.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "layers/precision_param.h"
#include "layers/quantized_linear/cuda/byte_linear.h"
#include "layers/quantized_linear/cuda/byte_product.h"
#include "layers/quantized_linear/cuda/dequantize.h"
#include "layers/quantized_linear/cuda/device_matrix.h"
#include "layers/quantized_linear/cuda/gemv.h"
#include "layers/quantized_linear/cuda/packed_gemm.h"
#include "layers/quantized_linear/cuda/split_gemv.h"
#include "layers/quantized_linear/cuda/warpgroup_gemm.h"
#include "layers/quantized_linear/quantized_linear_spec.h"

namespace oort {
namespace {

/// Weights that are multiplied at once, and which results they give.
struct DeviceProduct {
  std::shared_ptr<const cuda::DeviceMatrix> matrix;
  int first_part = 0, parts = 1;
  Tensor bias;             ///< for each row of the packed matrix, on the device; undefined for none
  int64_t split_rows = 0;  ///< most of a launch of RunSplitGemv
};

class CudaQuantizedLinear final : public Layer {
 public:
  /// `bytes`: weights become i8, and so does x where it has many rows.
  explicit CudaQuantizedLinear(const LayerInit& init, bool bytes)
      : spec_(init),
        bytes_(bytes),
        device_(init.device()),
        most_shared_(cuda::MostSharedBytes(device_.index)),
        multiprocessors_(cuda::MultiprocessorCount(device_.index)),
        has_warpgroups_(cuda::HasWarpgroupGemm(device_.index)),
        exact_(ReadPrecision(init) == Precision::kF32),
        has_addend_(init.op().inputs.size() > 1),
        activation_(cuda::ActivationBehind(spec_, has_addend_)) {
    if (bytes_) spec_.RoundToBytes(AvailableThreads());
    const std::span<const StoredMatrix> stored = spec_.stored();
    if (bytes_) {
      row_scales_ = cuda::PackScales(stored, spec_.gated(), device_);
      AddProduct(stored, 0);
    } else if (spec_.gated() || cuda::DeviceMatrix::Alike(stored)) {
      AddProduct(stored, 0);
    } else {
      for (int part = 0; part < spec_.parts(); ++part) {
        AddProduct(stored.subspan(static_cast<size_t>(part), 1), part);
      }
    }
    if (spec_.norm().defined()) {
      norm_ = cuda::ToDevice(spec_.norm(), device_);
      norm_fits_f16_ = NormFitsF16(spec_.norm());
    }
    spec_.LetGo();
  }

  LayerTraits Traits() const override {
    // Of more rows cuBLAS, and kernels that unpack weights to f16, are faster.
    constexpr int64_t kFewRows = 8;
    const int64_t most = std::min<int64_t>(cuda::RowsToSplit().most, cuda::kGemvRows);
    const bool split = std::ranges::all_of(
        products_, [&](const DeviceProduct& product) { return Splits(product, most); });
    return {.batch_invariant_rows = cuda::kGemvRows,
            .fast_invariant_rows = split ? std::max(most, kFewRows) : kFewRows};
  }

  std::vector<Value> Infer(const Args& args) const override { return spec_.Infer(args); }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const int64_t rows = spec_.Rows(args);
    if (rows == 0) return;
    if (MultipliesBytes(rows)) return RunBytes(context, args, outputs);
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
    if (MultipliesBytes(rows)) {
      return CheckedAdd(UnpackedBytes(), BytesOf(nullptr).Workspace(rows));
    }
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
    product.bias =
        cuda::PackBiases(parts, spec_.gated(),
                         std::span(spec_.biases()).subspan(static_cast<size_t>(first)), device_);
    product.split_rows = MostSplitRows(product);
    products_.push_back(std::move(product));
  }

  /// Whether both sides of a product are bytes. Of fewer rows kernels that leave weights packed are
  /// as fast.
  bool MultipliesBytes(int64_t rows) const {
    std::string ignored;
    return bytes_ && rows > cuda::kMostWarpgroupRows && cuda::HasBlas(&ignored);
  }
  /// Of the weights as plain rows.
  size_t UnpackedBytes() const {
    const cuda::DeviceWeights& w = products_[0].matrix->weights();
    return CheckedMultiply(static_cast<size_t>(w.strips) * cuda::kStripRows,
                           static_cast<size_t>(w.row_elements));
  }
  /// The only product, with weights as plain rows that are there.
  cuda::ByteProduct BytesOf(const void* rows) const {
    const cuda::DeviceWeights& w = products_[0].matrix->weights();
    cuda::ByteProduct product;
    product.spec = &spec_;
    product.weights = {ByteKind::kInt8, static_cast<const uint8_t*>(rows),
                       row_scales_.data<float>(), w.strips, static_cast<int>(w.row_elements)};
    if (products_[0].bias.defined()) product.bias = products_[0].bias.data<float>();
    if (norm_.defined()) product.norm = norm_.data<float>();
    product.activation = activation_;
    product.device = device_.index;
    return product;
  }
  void RunBytes(const Context& context, const Args& args, std::span<Value> outputs) const {
    std::byte* const unpacked = context.workspace();
    cuda::UnpackBytes(*context.stream(), products_[0].matrix->weights(), unpacked);
    BytesOf(unpacked).Run(*context.stream(), args, outputs, unpacked + UnpackedBytes());
  }

  /// What an RMS norm gives is at most its gain times the root of the row's length.
  static bool NormFitsF16(const Tensor& gain) {
    float largest = 0;
    for (float value : gain.span<float>()) largest = std::max(largest, std::abs(value));
    return largest * std::sqrt(static_cast<float>(gain.elements())) <= 32768.0f;
  }
  /// Whether the rows of a product of many are cast in units of their own: what comes in might be
  /// too large or too small for f16.
  bool HasUnits(const DeviceProduct& product) const {
    if (!ComputesInF16(product)) return false;
    return exact_ || !(norm_.defined() && norm_fits_f16_);
  }
  /// Whether products of many rows are of f16, else of bf16. Exact ones have weights in units.
  bool ComputesInF16(const DeviceProduct& product) const {
    const cuda::DeviceWeights& w = product.matrix->weights();
    return cuda::MultipliesF16(w) || InHalves(product);
  }
  /// Whether weights are multiplied as two f16 each.
  bool InHalves(const DeviceProduct& product) const {
    return exact_ && cuda::IsPacked(product.matrix->weights().format);
  }

  cuda::GemvProduct FewOf(const DeviceProduct& product, int64_t rows) const {
    cuda::GemvProduct few;
    few.weights = product.matrix->weights();
    few.rows = static_cast<int>(rows);
    few.columns = static_cast<int>(spec_.columns());
    few.few_digits = !exact_;
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
  int64_t MostGemvRows(const DeviceProduct& product) const {
    const bool few_digits = !exact_ && cuda::IsPacked(product.matrix->weights().format);
    int64_t rows = few_digits ? cuda::kFewDigitRows : cuda::kGemvRows;
    while (rows > 0 && cuda::GemvShared(FewOf(product, rows)) > most_shared_) --rows;
    return rows;
  }
  /// The same where clusters of blocks split the columns; 0 where they cannot.
  int64_t MostSplitRows(const DeviceProduct& product) const {
    if (!cuda::CanSplitGemv(device_.index, FewOf(product, 1))) return 0;
    int64_t rows = cuda::kSplitGemvRows;
    while (rows > 0 && cuda::SplitGemvShared(device_.index, FewOf(product, rows)) > most_shared_) {
      --rows;
    }
    return rows;
  }
  bool Splits(const DeviceProduct& product, int64_t rows) const {
    return product.split_rows > 0 && cuda::RowsToSplit().Has(rows);
  }
  bool UsesFew(const DeviceProduct& product, int64_t rows) const {
    if (Splits(product, rows)) return true;
    if (MostGemvRows(product) == 0) return false;
    std::string ignored;  // without cuBLAS it is slower, but it works
    return rows <= cuda::kGemvRows || !(MultipliesPacked(product, rows) || cuda::HasBlas(&ignored));
  }

  void RunFew(const Context& context, const DeviceProduct& product, const Args& args,
              std::span<Value> outputs, int64_t rows) const {
    const bool splits = Splits(product, rows);
    const int64_t most = splits ? product.split_rows : MostGemvRows(product);
    const int64_t launches = (rows + most - 1) / most;
    for (int64_t launch = 0; launch < launches; ++launch) {
      const int64_t first = rows * launch / launches, end = rows * (launch + 1) / launches;
      cuda::GemvProduct few = FewOf(product, end - first);
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
      splits ? cuda::RunSplitGemv(*context.stream(), few, true)
             : cuda::RunGemv(*context.stream(), few, true);
    }
  }

  float* ResultOf(std::span<Value> outputs, const DeviceProduct& product, int part) const {
    return outputs[static_cast<size_t>(product.first_part + part)].AsTensor().data<float>();
  }

  /// Results of a product with many rows: those of the parts, or both sides of a gate in one.
  int ResultsOf(const DeviceProduct& product) const { return spec_.gated() ? 1 : product.parts; }
  int64_t WidthOf(const DeviceProduct& product, int result) const {
    return spec_.gated() ? int64_t{product.matrix->weights().strips} * cuda::kStripRows
                         : spec_.part_rows(product.first_part + result);
  }
  /// Whether weights become f16 in registers; else cuBLAS takes them as they are, or unpacked.
  bool MultipliesPacked(const DeviceProduct& product, int64_t rows) const {
    const cuda::DeviceWeights& w = product.matrix->weights();
    return cuda::IsPacked(w.format) && cuda::MultipliesF16(w) && !exact_ &&
           rows <= (has_warpgroups_ ? cuda::kMostWarpgroupRows : cuda::kMostPackedGemmRows);
  }
  /// Whether one kernel multiplies packed weights and does all that is behind the product.
  bool MultipliesByWarpgroups(const DeviceProduct& product, int64_t rows) const {
    return has_warpgroups_ && rows >= cuda::kLeastWarpgroupRows && MultipliesPacked(product, rows);
  }

  /// Whether cuBLAS multiplies all parts as one matrix: they follow each other without a gap. One
  /// product fills the GPU better than several, until copying the parts apart costs more.
  bool JoinsParts(const DeviceProduct& product, int64_t rows) const {
    constexpr int64_t kMostRows = 512;
    if (spec_.gated() || product.parts == 1 || has_addend_ || rows > kMostRows) return false;
    for (int i = 0; i + 1 < product.parts; ++i) {
      if (WidthOf(product, i) % cuda::kStripRows != 0) return false;
    }
    return !MultipliesPacked(product, rows);
  }
  /// Whether cuBLAS can add the addend: nothing else comes between.
  bool AddsInProduct(const DeviceProduct& product) const {
    return has_addend_ && !spec_.gated() && product.parts == 1 && product.first_part == 0 &&
           !exact_ && !product.bias.defined() && !HasUnits(product) &&
           activation_ == Activation::kNone;
  }

  /// How a product of many rows is computed, and its scratch.
  struct ManyLayout {
    size_t x = 0, factors = 0, weights = 0, sums = 0, blas = 0, total = 0;
    int splits = 1;
    bool joined = false;  ///< all parts are one result
    int results = 0;
    std::array<int64_t, cuda::kMostProducts> widths{};  ///< of the results
    ManyLayout(const CudaQuantizedLinear& layer, const DeviceProduct& product, int64_t rows) {
      const cuda::DeviceWeights& w = product.matrix->weights();
      const auto take = [&](size_t bytes) {
        const size_t at = total;
        total = CheckedAdd(total, CheckedAdd(bytes, size_t{511}) / 512 * 512);
        return at;
      };
      const size_t row_bytes = static_cast<size_t>(w.row_elements) * (layer.exact_ ? 4 : 2);
      const size_t packed_rows = static_cast<size_t>(w.strips) * cuda::kStripRows;
      x = take(CheckedMultiply(static_cast<size_t>(rows), row_bytes));
      if (layer.HasUnits(product)) factors = take(static_cast<size_t>(rows) * sizeof(float));
      if (layer.MultipliesByWarpgroups(product, rows)) return;
      const bool own = layer.MultipliesPacked(product, rows);
      if (own) splits = cuda::PackedGemmSplits(w.strips, w.steps, rows, layer.multiprocessors_);
      if (cuda::IsPacked(w.format) && !own) weights = take(CheckedMultiply(packed_rows, row_bytes));
      joined = layer.JoinsParts(product, rows);
      results = joined ? 1 : layer.ResultsOf(product);
      for (int i = 0; i < layer.ResultsOf(product); ++i) {
        widths[joined ? 0 : static_cast<size_t>(i)] += layer.WidthOf(product, i);
      }
      if (layer.spec_.gated() || splits > 1 || joined) {
        const size_t all = CheckedMultiply(static_cast<size_t>(rows), packed_rows * sizeof(float));
        sums = take(CheckedMultiply(all, static_cast<size_t>(splits)));
      }
      size_t most = 0;
      for (int i = 0; i < (own ? 0 : results); ++i) {
        const int64_t width = widths[static_cast<size_t>(i)];
        for (const Term& term : layer.TermsOf(product)) {
          most = std::max(most, layer.MatmulOf(product, width, rows, term)->workspace());
        }
      }
      if (!own && layer.AddsInProduct(product)) {
        const Term adds = {0, 0, w.row_elements, true};
        most = std::max(most, layer.MatmulOf(product, widths[0], rows, adds)->workspace());
      }
      blas = take(most);
    }
  };

  /// One of the products of 16-bit numbers whose sum is the product of many rows: from which
  /// element of each row of x and of the weights on, and how many.
  struct Term {
    int64_t x = 0, weights = 0, count = 0;
    bool adds = false;  ///< to what the term before left, or to an addend
  };
  /// Exact ones have x as rounded numbers and, behind them, what those leave. So do packed weights,
  /// the other way round: one product has what is left of either beside the other's rounded
  /// numbers. Left times left is below f32's last digit.
  std::vector<Term> TermsOf(const DeviceProduct& product) const {
    const int64_t n = product.matrix->weights().row_elements;
    if (!exact_) return {{0, 0, n, false}};
    if (InHalves(product)) return {{0, 0, 2 * n, false}, {0, n, n, true}};
    return {{n, 0, n, false}, {0, 0, n, true}};
  }

  std::shared_ptr<const cuda::Matmul> MatmulOf(const DeviceProduct& product, int64_t width,
                                               int64_t rows, const Term& term) const {
    const cuda::DeviceWeights& w = product.matrix->weights();
    cuda::Product shape;
    shape.m = rows;
    shape.n = width;
    shape.k = term.count;
    shape.transpose_b = true;
    shape.input = ComputesInF16(product) ? DType::kF16 : DType::kBF16;
    shape.row_a = w.row_elements * (exact_ ? 2 : 1);
    shape.row_b = w.row_elements * (InHalves(product) ? 2 : 1);
    shape.alpha = InHalves(product) ? w.unit : 1.0f;
    shape.beta = term.adds ? 1.0f : 0.0f;
    return cuda::Matmul::For(shape, device_.index);
  }

  using Results = std::array<float*, cuda::kMostProducts>;

  /// The whole of a product of packed weights.
  void MultiplyByWarpgroups(const Context& context, const DeviceProduct& product, const Args& args,
                            std::span<Value> outputs, const ManyLayout& layout, int64_t rows,
                            const float* factors) const {
    cuda::WarpgroupProduct whole;
    whole.weights = product.matrix->weights();
    whole.x = context.workspace() + layout.x;
    whole.rows = static_cast<int>(rows);
    whole.factors = factors;
    if (product.bias.defined()) whole.bias = product.bias.data<float>();
    if (product.first_part == 0) whole.addend = spec_.epilogue().addend(args);
    whole.activation = activation_;
    whole.gated = spec_.gated();
    whole.parts = ResultsOf(product);
    for (int i = 0; i < whole.parts; ++i) {
      whole.y[i] = ResultOf(outputs, product, i);
      whole.part_rows[i] = static_cast<int>(spec_.part_rows(product.first_part + i));
    }
    cuda::RunWarpgroupGemm(*context.stream(), whole);
  }

  /// Products with weights as they are packed.
  void MultiplyPacked(const Context& context, const DeviceProduct& product,
                      const ManyLayout& layout, int64_t rows, const Results& results) const {
    cuda::PackedGemmProduct packed;
    packed.weights = product.matrix->weights();
    packed.x = context.workspace() + layout.x;
    packed.rows = static_cast<int>(rows);
    packed.splits = layout.splits;
    packed.parts = ResultsOf(product);
    for (int i = 0; i < packed.parts; ++i) {
      packed.y[i] = results[static_cast<size_t>(i)];
      packed.part_rows[i] = static_cast<int>(WidthOf(product, i));
    }
    cuda::RunPackedGemm(*context.stream(), packed);
  }

  /// Products by cuBLAS, plus the addend if it is not null.
  void MultiplyPlain(const Context& context, const DeviceProduct& product, const ManyLayout& layout,
                     int64_t rows, const float* addend, const Results& results) const {
    constexpr int64_t kBytes = 2;  // of a number on either side
    const cuda::Stream& stream = *context.stream();
    const cuda::DeviceWeights& w = product.matrix->weights();
    std::byte* scratch = context.workspace();
    const std::byte* weights = static_cast<const std::byte*>(w.data);
    if (cuda::IsPacked(w.format)) {
      weights = scratch + layout.weights;
      InHalves(product) ? cuda::UnpackInHalves(stream, w, scratch + layout.weights)
                        : cuda::UnpackWeights(stream, w, scratch + layout.weights);
    }
    const int64_t row_bytes = w.row_elements * kBytes * (InHalves(product) ? 2 : 1);
    for (int i = 0; i < layout.results; ++i) {
      const int64_t width = layout.widths[static_cast<size_t>(i)];
      for (Term term : TermsOf(product)) {
        term.adds = term.adds || addend != nullptr;
        MatmulOf(product, width, rows, term)
            ->Run(stream, scratch + layout.x + term.x * kBytes, weights + term.weights * kBytes,
                  results[static_cast<size_t>(i)], nullptr, scratch + layout.blas, addend);
      }
      weights += StripsFor(width) * cuda::kStripRows * row_bytes;
    }
  }
  static int64_t StripsFor(int64_t rows) {
    return (rows + cuda::kStripRows - 1) / cuda::kStripRows;
  }

  void RunMany(const Context& context, const DeviceProduct& product, const Args& args,
               std::span<Value> outputs, int64_t rows) const {
    const cuda::Stream& stream = *context.stream();
    const cuda::DeviceWeights& w = product.matrix->weights();
    const ManyLayout layout(*this, product, rows);
    std::byte* scratch = context.workspace();
    float* factors =
        HasUnits(product) ? reinterpret_cast<float*>(scratch + layout.factors) : nullptr;
    cuda::RowCast cast{args.tensor(spec_.input()).data<float>(), rows, spec_.columns(),
                       w.row_elements};
    if (norm_.defined()) cast.gain = norm_.data<float>();
    cast.epsilon = static_cast<float>(spec_.norm_epsilon());
    cast.numbers = ComputesInF16(product) ? cuda::RowNumbers::kF16 : cuda::RowNumbers::kBf16;
    cast.in_halves = exact_;
    cast.for_tiles = MultipliesByWarpgroups(product, rows);
    cuda::CastRows(stream, cast, scratch + layout.x, factors);
    if (cast.for_tiles) {
      return MultiplyByWarpgroups(context, product, args, outputs, layout, rows, factors);
    }
    // Where they need no second look, results are written where they belong.
    const bool apart = spec_.gated() || layout.splits > 1 || layout.joined;
    Results results{};
    float* sums = reinterpret_cast<float*>(scratch + layout.sums);
    for (int i = 0; i < layout.results; ++i) {
      results[static_cast<size_t>(i)] = apart ? sums : ResultOf(outputs, product, i);
      sums += layout.splits * rows * layout.widths[static_cast<size_t>(i)];
    }
    const float* addend = product.first_part == 0 ? spec_.epilogue().addend(args) : nullptr;
    if (MultipliesPacked(product, rows)) {
      MultiplyPacked(context, product, layout, rows, results);
    } else {
      const bool adds = AddsInProduct(product) && IsPlanned(addend);
      MultiplyPlain(context, product, layout, rows, adds ? addend : nullptr, results);
      if (adds) return;
    }
    cuda::RowSums all{results[0], layout.splits, rows};
    all.factors = factors;
    all.activation = activation_;
    if (layout.joined) {
      FinishJoined(context, product, outputs, all, layout.widths[0]);
    } else {
      Finish(context, product, addend, outputs, all, results);
    }
  }
  /// Whether memory lies as cuBLAS was told.
  static bool IsPlanned(const float* data) {
    return reinterpret_cast<uintptr_t>(data) % uintptr_t{cuda::Product{}.alignment} == 0;
  }

  /// Copies the parts of one result apart.
  void FinishJoined(const Context& context, const DeviceProduct& product, std::span<Value> outputs,
                    cuda::RowSums sums, int64_t width) const {
    sums.width = width;
    if (product.bias.defined()) sums.bias = product.bias.data<float>();
    cuda::RowParts parts;
    parts.count = product.parts;
    for (int i = 0; i < product.parts; ++i) {
      parts.y[i] = ResultOf(outputs, product, i);
      parts.width[i] = WidthOf(product, i);
    }
    cuda::SplitRows(*context.stream(), sums, parts);
  }

  /// What is behind the products. `all`: what the results have in common.
  void Finish(const Context& context, const DeviceProduct& product, const float* addend,
              std::span<Value> outputs, const cuda::RowSums& all, const Results& results) const {
    const float* bias = product.bias.defined() ? product.bias.data<float>() : nullptr;
    for (int i = 0; i < ResultsOf(product); ++i) {
      cuda::RowSums sums = all;
      sums.sums = results[static_cast<size_t>(i)];
      sums.width = WidthOf(product, i);
      sums.bias = bias;
      float* y = ResultOf(outputs, product, i);
      const float* plus = i == 0 ? addend : nullptr;
      if (spec_.gated()) {
        cuda::GateRows(*context.stream(), sums, spec_.part_rows(0), y);
      } else if (y != sums.sums || sums.factors != nullptr || bias != nullptr || plus != nullptr ||
                 activation_ != Activation::kNone) {
        cuda::FinishRows(*context.stream(), sums, plus, y);
      }
      if (bias != nullptr) bias += StripsFor(sums.width) * cuda::kStripRows;
    }
  }

  QuantizedLinearSpec spec_;
  bool bytes_;
  Device device_;
  int64_t most_shared_;
  int multiprocessors_;
  bool has_warpgroups_;
  bool exact_;
  bool has_addend_;
  Activation activation_;
  std::vector<DeviceProduct> products_;
  Tensor norm_;
  Tensor row_scales_;  ///< of the packed rows, where `bytes_`
  bool norm_fits_f16_ = false;
};

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(quantized_linear) {
  using namespace oort;
  registry.AddDevice({"oort.QuantizedLinear"}, DeviceType::kCuda,
                     [](const LayerInit& init) -> std::unique_ptr<Layer> {
                       const std::optional<ByteKind> kind = ByteKindOf(init);
                       if (!kind) return std::make_unique<CudaQuantizedLinear>(init, false);
                       // Rows that are whole chunks are read fastest as other weights of 8 bits
                       // are.
                       const bool packs = init.Int("in_features") % cuda::kChunkColumns == 0;
                       if (*kind == ByteKind::kFp8 || !packs) return MakeByteLinear(init);
                       return std::make_unique<CudaQuantizedLinear>(init, true);
                     });
}
