// SPDX-License-Identifier: MIT
// A matrix of weights of 32 to 4 bits, packed once for the kernels, and products with it.
#pragma once

#include <memory>
#include <span>

#include "cpu/activation.h"
#include "cpu/gemm.h"
#include "layers/quantized_linear/cpu/byte_tiles.h"
#include "layers/quantized_linear/cpu/nibble_rows.h"
#include "layers/quantized_linear/cpu/quantized_tiles.h"
#include "layers/quantized_linear/cpu/row_pairs.h"
#include "oort/precision.h"
#include "oort/tensor.h"
#include "weights/weight_format.h"

namespace oort {

/// How a packed matrix holds the scales and minimums of its groups. kStored keeps the precision of
/// the file. kBytes quantizes them to a byte each, with one scale a row, if the weights are
/// asymmetric of 4 bits and the scales of each row are of about one size.
enum class ScaleStorage : unsigned char { kStored, kBytes };

/// Group-wise quantized or 16- and 32-bit weights (rows: outputs, columns: inputs), packed into
/// panels of 16 rows that all instruction sets share. Packing is exact but for
/// ScaleStorage::kBytes. Thread contract: immutable.
class QuantizedMatrix {
 public:
  /// Packs on up to `threads` threads.
  QuantizedMatrix(const StoredMatrix& stored, int threads,
                  ScaleStorage scales = ScaleStorage::kStored);
  /// The one for this stored matrix if it is in use somewhere (an embedding that is the head, too).
  static std::shared_ptr<const QuantizedMatrix> Shared(const StoredMatrix& stored, int threads,
                                                       ScaleStorage scales = ScaleStorage::kStored);

  /// A symmetric matrix of 8 bits, requantized to 4 bits: a weight moves by at most half of its
  /// group's new scale.
  static std::shared_ptr<const QuantizedMatrix> Coarse(const QuantizedMatrix& fine, int threads);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  const PanelLayout& layout() const { return layout_; }
  int64_t panels() const;
  const std::byte* panel(int64_t index) const { return buffer_->data() + index * panel_bytes_; }
  int64_t panel_bytes() const { return panel_bytes_; }
  size_t bytes() const { return buffer_->size(); }
  /// All panels, in the order in which a GEMV reads them.
  std::span<const std::byte> data() const {
    return {buffer_->data(), static_cast<size_t>(panels() * panel_bytes_)};
  }
  /// Whether dequantized weights lose no more to f16 than to bf16.
  bool fits_f16() const { return fits_f16_; }
  /// Dequantizes one row.
  void ReadRow(int64_t row, float* values) const;

 private:
  QuantizedMatrix(int64_t rows, int64_t columns, const PanelLayout& layout);
  void Allocate(const PanelLayout& layout);
  /// Gives whether the layout's scales fit.
  bool PackQuantized(const StoredMatrix& stored, int threads);
  void PackFloat(const StoredMatrix& stored, int threads);

  int64_t rows_, columns_;
  PanelLayout layout_;
  int64_t panel_bytes_ = 0;
  bool fits_f16_ = false;
  std::shared_ptr<Buffer> buffer_;
};

/// y = activation(x W^T + bias + addend), or, of two matrices, activation(x W0^T + bias0) *
/// (x W1^T + bias1).
struct QuantizedProduct {
  int64_t rows = 0;  ///< of x
  const float* x = nullptr;
  int64_t x_stride = 0;
  /// One result for each matrix, or one for both where `gated`.
  std::span<const std::shared_ptr<const QuantizedMatrix>> matrices;
  std::span<const float* const> biases;  ///< null where there is none
  std::span<float* const> y;
  const float* addend = nullptr;  ///< of the first result
  bool gated = false;
  ActivationSpec activation;  ///< of the first matrix's product
  /// Whether each row belongs to someone else, as answers do: then none depends on the others,
  /// however many there are.
  bool apart = false;
  /// What is multiplied after this: each thread prefetches its part. Never read.
  std::span<const std::byte> next;
};

/// How products are computed: which kernels, and what activations are rounded to.
class QuantizedMultiplier {
 public:
  /// kF32 is exact. kBF16 rounds x to bytes in pieces of 16 or 32; of more than InvariantRows both
  /// sides to bf16, or f16 where units like it. Without units for 16 bits these rows are rounded to
  /// bytes, too, but to one byte where weights have 8 bits. `nibbles`: whether to use the kernels
  /// of nibble_rows.h where there are any.
  QuantizedMultiplier(Isa isa, Precision precision, bool nibbles = true);

  /// The most rows that such a product multiplies in the way of one row: with so many, the result
  /// of a row is bit by bit what it is alone. All there can be, where rows are apart, and where
  /// nothing multiplies many rows faster than the units for bytes.
  int64_t InvariantRows(const QuantizedProduct& product) const;
  /// The most rows that are no slower if they are apart.
  int64_t MostAnswers(const QuantizedProduct& product) const;

  size_t Workspace(const QuantizedProduct& product, int threads) const;
  void Run(const QuantizedProduct& product, int threads, std::byte* workspace) const;
  /// Of few rows and one matrix only these panels, 16 results for each panel and row to
  /// y[(panel's place among them * rows + row) * 16], which are those of Run without bias, addend
  /// and activation, bit by bit. The workspace is Run's.
  void RunPanels(const QuantizedProduct& product, std::span<const int32_t> panels, float* y,
                 int threads, std::byte* workspace) const;

  const QuantizedKernels& kernels() const { return kernels_; }
  /// Whether few rows are multiplied as bytes, so about as fast as weights can be read.
  bool multiplies_bytes() const { return dot_ != nullptr; }
  /// Whether many rows are multiplied as numbers of 16 bits, by units that beat those for bytes.
  bool has_16_bit_units() const { return tiles_ != nullptr || gemm_.format.element == 2; }
  /// What it likes matrices to have: bytes where its kernels wait for memory more than they
  /// compute.
  ScaleStorage scales() const;

 private:
  struct Job;
  struct GemvRun;
  struct TileRun;
  void RunGemv(const Job& job) const;
  /// `two_bytes`: whether weights of 8 bits take two bytes of x.
  void RunByteTiles(const Job& job, bool two_bytes) const;
  bool UsesByteTiles(const QuantizedProduct& product, bool two_bytes) const;
  int64_t ByteTileWorkspace(const QuantizedProduct& product, int threads) const;
  /// Whether any number of rows is multiplied as bytes.
  bool OnlyBytes(const QuantizedProduct& product) const;
  void RunGemm(const Job& job) const;
  void RunTiles(const Job& job) const;
  bool MultipliesF16(const QuantizedProduct& product) const;
  void RunAlone(const Job& job, std::span<const bool> fits, std::byte* workspace) const;

  const QuantizedKernels& kernels_;
  const DequantizeKernels& unpack_;
  // Null: exact, or no such units.
  const QuantizedDotKernels* dot_;
  const NibbleKernels* nibbles_;
  const PairKernels* pairs_;
  const ByteTileKernels* byte_tiles_;
  const QuantizedTileKernels *tiles_, *f16_tiles_;
  const GemmKernels& gemm_;
};

}  // namespace oort
