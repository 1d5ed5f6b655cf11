// SPDX-License-Identifier: MIT
#include "parser/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "core/guard.h"
#include "core/problems.h"
#include "parser/checkpoint/contents.h"
#include "parser/pnnx/sniff.h"

namespace oort {
namespace {

/// All formats look the same once they are read.
class FilesCheckpoint final : public Checkpoint {
 public:
  explicit FilesCheckpoint(CheckpointContents contents) : contents_(std::move(contents)) {}

  const DecoderConfig& config() const override { return contents_.config; }
  bool Has(std::string_view name) const override { return contents_.tensors.Find(name) != nullptr; }
  StoredMatrix Matrix(std::string_view name) const override {
    return Guarded([&] { return contents_.tensors.Matrix(name); });
  }
  std::shared_ptr<const CheckpointMatrix> Scattered(std::string_view name) const override {
    const PlacedTensor* placed = contents_.tensors.Find(name);
    return placed != nullptr && placed->first_row == 0 ? placed->packed : nullptr;
  }
  Tensor Vector(std::string_view name) const override {
    return Guarded([&] { return contents_.tensors.Vector(name); });
  }
  size_t file_bytes() const override { return static_cast<size_t>(contents_.file_bytes); }
  const TokenizerSource& tokenizer() const override { return contents_.tokenizer; }
  const std::vector<NamedTemplate>& chat_templates() const override { return contents_.templates; }
  const std::vector<int32_t>& end_tokens() const override { return contents_.end_tokens; }
  const VisionFiles* vision() const override { return contents_.vision.get(); }

 private:
  CheckpointContents contents_;
};

enum class Format : unsigned char { kNone, kGguf, kHuggingFace, kLlama2c };

Format FormatOf(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return Format::kHuggingFace;
  const auto source = ByteSource::File(path);
  char magic[4] = {};
  if (source->size() >= sizeof(magic)) source->ReadAt(0, std::as_writable_bytes(std::span(magic)));
  if (std::memcmp(magic, "GGUF", sizeof(magic)) == 0) return Format::kGguf;
  return LooksLikeLlama2c(*source) ? Format::kLlama2c : Format::kNone;
}

CheckpointContents ReadAny(const std::filesystem::path& path) {
  switch (FormatOf(path)) {
    case Format::kGguf: return ReadGguf(path);
    case Format::kHuggingFace: return ReadHuggingFace(path);
    case Format::kLlama2c: return ReadLlama2c(path);
    case Format::kNone: break;
  }
  const std::string_view foreign = pnnx::ForeignFile(*ByteSource::File(path));
  throw Error(ErrorCode::kInvalidModel,
              Quote(path.filename().string()) +
                  " is no language model: a GGUF file, a folder of Hugging Face with config.json, "
                  "or a checkpoint of llama2.c was expected" +
                  (foreign.empty() ? "" : "; " + std::string(foreign)));
}

/// Bytes of the character that begins here, 0 if it is none.
size_t LengthOfCharacter(std::string_view text) {
  const auto byte = [&](size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool beyond = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

}  // namespace

std::unique_ptr<Checkpoint> Checkpoint::Open(const std::filesystem::path& path) {
  return Guarded([&] { return std::make_unique<FilesCheckpoint>(ReadAny(path)); });
}

bool LooksLikeCheckpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return std::filesystem::exists(path / "config.json", ignored);
  }
  return std::filesystem::is_regular_file(path, ignored) && FormatOf(path) != Format::kNone;
}

void AddEndToken(CheckpointContents& contents, int64_t token) {
  if (token < 0 || token >= contents.config.vocabulary) return;
  std::vector<int32_t>& tokens = contents.end_tokens;
  const auto id = static_cast<int32_t>(token);
  if (std::find(tokens.begin(), tokens.end(), id) == tokens.end()) tokens.push_back(id);
}

void RequireUtf8(std::string_view text, std::string_view what) {
  while (!text.empty()) {
    const size_t length = LengthOfCharacter(text);
    if (length == 0) {
      throw Error(ErrorCode::kInvalidModel, std::string(what) + " is not UTF-8");
    }
    text.remove_prefix(length);
  }
}

}  // namespace oort
