// SPDX-License-Identifier: MIT
#include "decoder/quantized_checkpoint.h"

#include <algorithm>

#include "core/cpu_limits.h"
#include "core/parallel.h"
#include "parser/pnnx/promised.h"
#include "parser/pnnx/weights.h"
#include "weights/quantize_weights.h"

namespace oort {
namespace {

constexpr int64_t kSmallestGroup = 16;
constexpr int64_t kRowsAtOnce = 16;

bool IsEightBits(WeightFormat format) {
  return format == WeightFormat::kInt8 || format == WeightFormat::kUint8;
}
bool IsQuantized(WeightFormat format) {
  return IsEightBits(format) || format == WeightFormat::kInt4 || format == WeightFormat::kUint4;
}

std::optional<WeightFormat> FormatFor(const ConvertOptions& options) {
  if (options.weights.empty()) return std::nullopt;
  if (options.weights == "int8") {
    return options.asymmetric ? WeightFormat::kUint8 : WeightFormat::kInt8;
  }
  if (options.weights == "int4") {
    return options.asymmetric ? WeightFormat::kUint4 : WeightFormat::kInt4;
  }
  const auto format = WeightFormatNamed(options.weights);
  if (format && *format <= WeightFormat::kBf16) return format;
  throw Error(ErrorCode::kInvalidArgument,
              "weights can be stored as int8, int4, bf16, f16 or f32, "
              "not as '" +
                  options.weights + "'");
}

/// What a matrix becomes; nothing where it stays as it is.
std::optional<QuantizeOptions> TargetOf(std::string_view name, const StoredMatrix& from,
                                        const ConvertOptions& options) {
  const auto format = FormatFor(options);
  if (!format || from.format == *format) return std::nullopt;
  QuantizeOptions target{*format, options.group, DType::kF16};
  if (!IsQuantized(*format)) return target;
  if (name == "model.embed_positions.weight") return std::nullopt;
  // They say how streams mix, and are few.
  if (name.find(".altup.") != std::string_view::npos) return std::nullopt;
  // What all tokens go through keeps 8 bits: it is little of the work and much of the answer.
  const bool is_table = name == "model.embed_tokens.weight" || name == "lm_head.weight";
  if (is_table && !IsEightBits(*format)) {
    target.format = options.asymmetric ? WeightFormat::kUint8 : WeightFormat::kInt8;
  }
  while (target.group > kSmallestGroup && from.columns % target.group != 0) target.group /= 2;
  if (from.columns % target.group != 0) return std::nullopt;
  if (const auto exact = LosslessOptions(from, target)) return exact;
  return target;
}

class QuantizedCheckpoint final : public Checkpoint {
 public:
  QuantizedCheckpoint(const Checkpoint& inner, const ConvertOptions& options)
      : inner_(inner), options_(options) {
    if (options.group < 1) {
      throw Error(ErrorCode::kInvalidArgument, "a group has at least one weight");
    }
    FormatFor(options);
  }

  const DecoderConfig& config() const override { return inner_.config(); }
  bool Has(std::string_view name) const override { return inner_.Has(name); }
  Tensor Vector(std::string_view name) const override { return inner_.Vector(name); }
  size_t file_bytes() const override { return inner_.file_bytes(); }
  const TokenizerSource& tokenizer() const override { return inner_.tokenizer(); }
  const std::vector<NamedTemplate>& chat_templates() const override {
    return inner_.chat_templates();
  }
  const std::vector<int32_t>& end_tokens() const override { return inner_.end_tokens(); }

  /// Its tensors are promises.
  StoredMatrix Matrix(std::string_view name) const override {
    const StoredMatrix from = inner_.Matrix(name);
    const auto target = TargetOf(name, from, options_);
    const int64_t one_row = std::min<int64_t>(1, from.rows);
    // The same parts as the whole matrix will have, of one row.
    const StoredMatrix like = target ? AllocateStored(*target, one_row, from.columns) : from;
    total_ += static_cast<uint64_t>(from.rows);
    const size_t parts = 1 + (like.scale.defined() ? 1 : 0) + (like.minimum.defined() ? 1 : 0);
    auto promise = std::make_shared<Promise>(
        parts, [this, stored = std::string(name), target] { return Make(stored, target); });
    StoredMatrix matrix{like.format, from.rows, from.columns, {}, {}, {}};
    size_t index = 0;
    const auto promised = [&](const Tensor& part) {
      if (!part.defined()) return Tensor();
      return PromisedBuffer::Make(part.dtype(), {from.rows, part.dim(1)}, promise, index++);
    };
    matrix.data = promised(like.data);
    matrix.scale = promised(like.scale);
    matrix.minimum = promised(like.minimum);
    return matrix;
  }

 private:
  std::vector<Tensor> Make(const std::string& name,
                           const std::optional<QuantizeOptions>& target) const {
    pnnx::CheckStop(options_.stop);
    const StoredMatrix from = inner_.Matrix(name);
    const StoredMatrix made = target ? Convert(from, *target) : from;
    done_ += static_cast<uint64_t>(from.rows);
    if (options_.progress) options_.progress({"convert", done_, total_});
    std::vector<Tensor> parts{made.data};
    if (made.scale.defined()) parts.push_back(made.scale);
    if (made.minimum.defined()) parts.push_back(made.minimum);
    return parts;
  }

  static StoredMatrix Convert(const StoredMatrix& from, const QuantizeOptions& target) {
    const bool exact = LosslessOptions(from, target).has_value();
    StoredMatrix to = AllocateStored(target, from.rows, from.columns);
    const int threads = AvailableThreads();
    const ThreadLease lease(threads);
    const int64_t pieces = (from.rows + kRowsAtOnce - 1) / kRowsAtOnce;
    ParallelFor(threads, pieces, 1, [&](int64_t first, int64_t last) {
      std::vector<float> values(static_cast<size_t>(exact ? 0 : kRowsAtOnce * from.columns));
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t begin = piece * kRowsAtOnce;
        const int64_t end = std::min(from.rows, begin + kRowsAtOnce);
        if (exact) {
          CopyGroups(from, begin, end, to);
        } else {
          ReadRows(from, begin, end, values.data());
          QuantizeRows(values.data(), begin, end, to);
        }
      }
    });
    return to;
  }

  const Checkpoint& inner_;
  const ConvertOptions& options_;
  mutable uint64_t done_ = 0, total_ = 0;  // one thread builds the graph and writes it
};

}  // namespace

std::unique_ptr<Checkpoint> MakeQuantized(const Checkpoint& checkpoint,
                                          const ConvertOptions& options) {
  return std::make_unique<QuantizedCheckpoint>(checkpoint, options);
}

}  // namespace oort
