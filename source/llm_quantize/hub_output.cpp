// SPDX-License-Identifier: MIT
// A GGUF from a folder of Hugging Face: what the folder says is said again in llama.cpp's words.
#include <algorithm>
#include <limits>
#include <map>

#include "core/problems.h"
#include "llm_quantize/outputs.h"
#include "parser/checkpoint/tokenizer_source.h"
#include "parser/gguf/gguf_describe.h"
#include "parser/gguf/gguf_names.h"
#include "parser/huggingface/config.h"
#include "tokenizer/gguf_spec.h"

namespace oort::llm_quantize {
namespace {

/// Where a row of a head stands once pairs that are rotated together are neighbours.
int64_t SourceRow(int64_t row, int64_t head_rows) {
  const int64_t in_head = row % head_rows;
  return row - in_head + in_head / 2 + (in_head % 2) * (head_rows / 2);
}

class HubGgufOutput final : public ModelOutput {
 public:
  HubGgufOutput(const std::filesystem::path& folder, const std::filesystem::path& output,
                OverlayCheckpoint& weights, const FormatOf& format_of)
      : weights_(weights), config_(weights.config()) {
    const std::string architecture = gguf::ArchitectureOf(config_);
    if (weights.Has("lm_head.bias")) {
      throw Error(ErrorCode::kUnsupported,
                  "the head has a bias, which a GGUF has no place for; write a .pnnx.param");
    }
    const VocabularySpec vocabulary =
        tokenizer::GgufSpecOf(RequireTokenizer(folder), architecture, config_.vocabulary);
    const RotarySource rotary =
        config_.learned_positions ? RotarySource{} : huggingface::ReadRotarySource(folder, config_);
    rotary_ = gguf::DescribeModel(config_, rotary, writer_);
    const std::filesystem::path named =
        folder.has_filename() ? folder.filename() : folder.parent_path().filename();
    writer_.AddText("general.name", named.string());
    gguf::DescribeTokenizer(vocabulary, weights.end_tokens(), weights.chat_templates(), writer_);
    tensors_ =
        gguf::NewTensorsOf(config_, [&](const std::string& name) { return weights.Has(name); });
    DescribeTensors(format_of);
    writer_.Begin(output);
    for (const gguf::RotaryTensor& tensor : rotary_) {
      writer_.Write(std::as_bytes(std::span(tensor.values)));
    }
  }

  void FinishLayer(int64_t layer) override {
    for (; next_ < tensors_.size() && LayerOf(tensors_[next_]) <= layer; ++next_) {
      const gguf::NewTensor& tensor = tensors_[next_];
      for (const std::string& name : tensor.ours) {
        Write(name, tensor.heads);
        weights_.DropMatrix(name);
      }
    }
  }
  void Finish() override {
    FinishLayer(std::numeric_limits<int64_t>::max());
    writer_.Finish();
  }

 private:
  static int64_t LayerOf(const gguf::NewTensor& tensor) {
    return tensor.layer < 0 ? std::numeric_limits<int64_t>::max() : tensor.layer;
  }
  /// As in Checkpoint: norms and biases are vectors.
  static bool IsMatrix(const std::string& name) {
    return name.ends_with("_proj.weight") || name.ends_with("lm_head.weight") ||
           name.find(".embed_") != name.npos;
  }

  const TokenizerSource& RequireTokenizer(const std::filesystem::path& folder) const {
    const TokenizerSource& source = weights_.tokenizer();
    if (source.kind != TokenizerSource::Kind::kNone) return source;
    throw Error(ErrorCode::kNotFound,
                Quote(folder.string()) +
                    " has no tokenizer.json or tokenizer.model, and a GGUF needs a tokenizer: put "
                    "one there, or write a .pnnx.param");
  }

  /// Parts of one tensor must be stored alike.
  WeightFormat FormatOfAll(const gguf::NewTensor& tensor, const FormatOf& format_of) const {
    const WeightFormat format = format_of(tensor.ours.front());
    for (const std::string& name : tensor.ours) {
      if (format_of(name) == format) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  Quote(tensor.ours.front()) + " and " + Quote(name) +
                      " are one tensor in a GGUF of this family: give both one type");
    }
    return format;
  }

  void DescribeTensors(const FormatOf& format_of) {
    std::map<WeightFormat, int64_t> elements;
    std::vector<WeightFormat> formats;
    for (const gguf::NewTensor& tensor : tensors_) {
      WeightFormat format = WeightFormat::kF32;
      if (IsMatrix(tensor.ours.front())) {
        format = FormatOfAll(tensor, format_of);
        elements[format] += DimsOf(tensor)[0] * DimsOf(tensor)[1];
      }
      formats.push_back(format);
    }
    const auto most =
        std::ranges::max_element(elements, {}, [](const auto& pair) { return pair.second; });
    writer_.AddInteger("general.quantization_version", 2);
    writer_.AddInteger("general.file_type", GgufFileType(most->first));
    for (const gguf::RotaryTensor& tensor : rotary_) {
      const auto count = static_cast<int64_t>(tensor.values.size());
      writer_.AddTensor(tensor.name, {&count, 1}, WeightFormat::kF32);
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      writer_.AddTensor(tensors_[i].name, DimsOf(tensors_[i]), formats[i]);
    }
  }

  /// Innermost first.
  std::vector<int64_t> DimsOf(const gguf::NewTensor& tensor) const {
    std::vector<int64_t> dims;
    for (const std::string& name : tensor.ours) {
      if (IsMatrix(name)) {
        const StoredMatrix matrix = weights_.Matrix(name);
        dims.resize(2);
        dims[0] = matrix.columns;
        dims[1] += matrix.rows;
      } else {
        dims.resize(1);
        dims[0] += weights_.Vector(name).elements();
      }
    }
    return dims;
  }

  void Write(const std::string& name, int64_t heads) {
    if (!IsMatrix(name)) {
      const Tensor vector = weights_.Vector(name);
      return WriteRows({vector.raw(), vector.bytes()}, vector.elements(), heads);
    }
    const StoredMatrix matrix = weights_.Matrix(name);
    WriteRows({matrix.data.raw(), matrix.data.bytes()}, matrix.rows, heads);
  }
  void WriteRows(std::span<const std::byte> bytes, int64_t rows, int64_t heads) {
    if (heads == 0) return writer_.Write(bytes);
    const size_t row_bytes = bytes.size() / static_cast<size_t>(rows);
    std::vector<std::byte> turned;
    turned.reserve(bytes.size());
    for (int64_t row = 0; row < rows; ++row) {
      const auto from = static_cast<size_t>(SourceRow(row, rows / heads)) * row_bytes;
      const auto part = bytes.subspan(from, row_bytes);
      turned.insert(turned.end(), part.begin(), part.end());
    }
    writer_.Write(turned);
  }

  OverlayCheckpoint& weights_;
  const DecoderConfig& config_;
  std::vector<gguf::RotaryTensor> rotary_;
  std::vector<gguf::NewTensor> tensors_;
  size_t next_ = 0;
  gguf::Writer writer_;
};

}  // namespace

std::unique_ptr<ModelOutput> MakeHubGgufOutput(const std::filesystem::path& folder,
                                               const std::filesystem::path& output,
                                               OverlayCheckpoint& weights,
                                               const FormatOf& format_of) {
  return std::make_unique<HubGgufOutput>(folder, output, weights, format_of);
}

}  // namespace oort::llm_quantize
