// SPDX-License-Identifier: MIT
#include "llm_quantize/outputs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "core/problems.h"
#include "decoder/converted.h"
#include "parser/gguf/gguf_checkpoint.h"
#include "parser/gguf/gguf_writer.h"

namespace oort::llm_quantize {
namespace {

/// What is said of a file as a whole, and is other in the new one.
bool IsOfTheOldFile(std::string_view key) {
  return key.starts_with("split.") || key.starts_with("quantize.") || key == "general.file_type" ||
         key == "general.quantization_version" || key == "general.alignment";
}

/// The layer of "blk.7.attn_q.weight"; those of no layer come last.
int64_t LayerOf(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  int64_t layer = std::numeric_limits<int64_t>::max();
  if (!name.starts_with(kBlock)) return layer;
  std::from_chars(name.data() + kBlock.size(), name.data() + name.size(), layer);
  return layer;
}

class GgufOutput final : public ModelOutput {
 public:
  GgufOutput(const std::filesystem::path& model, const std::filesystem::path& output,
             OverlayCheckpoint& weights, const FormatOf& format_of)
      : files_(gguf::ReadFiles(model)), weights_(weights) {
    for (const gguf::File& file : files_) {
      for (const gguf::TensorEntry& entry : file.tensors) {
        tensors_.push_back({&file, &entry, LayerOf(entry.name),
                            gguf::NamesOf(weights.config(), file, entry), entry.rank >= 2});
      }
    }
    std::ranges::stable_sort(tensors_, {}, &Stored::layer);
    Describe(format_of);
    writer_.Begin(output);
  }

  void FinishLayer(int64_t layer) override {
    for (; next_ < tensors_.size() && tensors_[next_].layer <= layer; ++next_) {
      WriteTensor(tensors_[next_]);
      for (const std::string& name : tensors_[next_].names) weights_.DropMatrix(name);
    }
  }
  void Finish() override {
    FinishLayer(std::numeric_limits<int64_t>::max());
    writer_.Finish();
  }

 private:
  struct Stored {
    const gguf::File* file;
    const gguf::TensorEntry* entry;
    int64_t layer;
    std::vector<std::string> names;
    bool is_matrix;
  };

  void Describe(const FormatOf& format_of) {
    for (const gguf::RawPair& pair : files_.front().metadata.pairs()) {
      if (!IsOfTheOldFile(pair.key)) writer_.AddPair(pair);
    }
    std::map<WeightFormat, int64_t> elements;
    std::vector<WeightFormat> formats;
    for (const Stored& stored : tensors_) {
      const gguf::TensorEntry& entry = *stored.entry;
      WeightFormat format = WeightFormat::kF32;
      if (stored.is_matrix && !stored.names.empty()) {
        format = format_of(stored.names.front());
        elements[format] += entry.dims[0] * entry.dims[1];
      }
      formats.push_back(format);
    }
    const auto most =
        std::ranges::max_element(elements, {}, [](const auto& pair) { return pair.second; });
    writer_.AddInteger("general.quantization_version", 2);
    if (most != elements.end()) {
      writer_.AddInteger("general.file_type", GgufFileType(most->first));
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const gguf::TensorEntry& entry = *tensors_[i].entry;
      if (tensors_[i].is_matrix && !tensors_[i].names.empty()) {
        const auto dims = std::span(entry.dims).first(static_cast<size_t>(entry.rank));
        writer_.AddTensor(entry.name, dims, formats[i]);
      } else {
        writer_.AddTensor(entry);
      }
    }
  }

  void WriteTensor(const Stored& stored) {
    if (stored.is_matrix && !stored.names.empty()) {
      for (const std::string& name : stored.names) {
        const StoredMatrix matrix = weights_.Matrix(name);
        writer_.Write({matrix.data.raw(), matrix.data.bytes()});
      }
      return;
    }
    const bool changed = stored.names.size() == 1 && weights_.HasOwnVector(stored.names.front());
    if (changed) {
      if (stored.entry->type->format != WeightFormat::kF32) {
        throw Error(ErrorCode::kUnsupported,
                    Quote(stored.entry->name) + " is not f32: its model cannot be scaled by AWQ");
      }
      const Tensor vector = weights_.Vector(stored.names.front());
      writer_.Write({vector.raw(), vector.bytes()});
      return;
    }
    const auto buffer = stored.file->source->MapOrRead(stored.entry->offset, stored.entry->bytes);
    writer_.Write({buffer->data(), static_cast<size_t>(stored.entry->bytes)});
  }

  std::vector<gguf::File> files_;
  OverlayCheckpoint& weights_;
  std::vector<Stored> tensors_;
  size_t next_ = 0;
  gguf::Writer writer_;
};

class ParamOutput final : public ModelOutput {
 public:
  ParamOutput(std::filesystem::path output, const OverlayCheckpoint& weights)
      : output_(std::move(output)), weights_(weights) {}
  void FinishLayer(int64_t) override {}
  void Finish() override {
    WriteConverted(weights_, output_, std::filesystem::path(output_).replace_extension(".bin"), {});
  }

 private:
  std::filesystem::path output_;
  const OverlayCheckpoint& weights_;
};

}  // namespace

uint32_t GgufFileType(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF16: return 1;
    case WeightFormat::kQ4_0: return 2;
    case WeightFormat::kQ4_1: return 3;
    case WeightFormat::kQ8_0: return 7;
    case WeightFormat::kQ5_0: return 8;
    case WeightFormat::kQ5_1: return 9;
    case WeightFormat::kQ4K: return 15;
    case WeightFormat::kQ5K: return 17;
    case WeightFormat::kQ6K: return 18;
    case WeightFormat::kBf16: return 32;
    default: return 0;
  }
}

std::unique_ptr<ModelOutput> MakeGgufOutput(const std::filesystem::path& model,
                                            const std::filesystem::path& output,
                                            OverlayCheckpoint& weights, const FormatOf& format_of) {
  std::array<char, 4> magic{};
  std::error_code ignored;
  if (std::filesystem::is_directory(model, ignored)) {
    return MakeHubGgufOutput(model, output, weights, format_of);
  }
  const auto source = ByteSource::File(model);
  if (source->size() >= magic.size()) {
    source->ReadAt(0, std::as_writable_bytes(std::span(magic)));
  }
  if (std::string_view(magic.data(), magic.size()) != "GGUF") {
    throw Error(ErrorCode::kUnsupported,
                "a GGUF is written of a GGUF or of a folder of Hugging Face, whose tokenizer it "
                "takes over; for " +
                    Quote(model.string()) + " write a .pnnx.param");
  }
  return std::make_unique<GgufOutput>(model, output, weights, format_of);
}

std::unique_ptr<ModelOutput> MakeParamOutput(const std::filesystem::path& output,
                                             const OverlayCheckpoint& weights) {
  return std::make_unique<ParamOutput>(output, weights);
}

}  // namespace oort::llm_quantize
