// SPDX-License-Identifier: MIT
// Tokenizers by file name, and llama2.c's format.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/guard.h"
#include "decoder/converted.h"
#include "oort/error.h"
#include "oort/source.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/contents.h"
#include "parser/gguf/gguf.h"
#include "parser/gguf/gguf_tokenizer.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/spm.h"
#include "tokenizer/tokenizer_of.h"

namespace oort {
namespace {

namespace fs = std::filesystem;
using namespace tokenizer;

constexpr size_t kUntilTheEnd = std::numeric_limits<size_t>::max();

std::string ReadWhole(const fs::path& path) {
  constexpr uint64_t kMost = uint64_t{1} << 30;
  const auto source = ByteSource::File(path);
  if (source->size() > kMost) {
    throw Error(ErrorCode::kLimit, path.string() + " is too large for a tokenizer");
  }
  std::string bytes(static_cast<size_t>(source->size()), '\0');
  if (!bytes.empty()) source->ReadAt(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

uint32_t Little32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

/// Reads up to `count` tokens; says why not in `problem`.
bool ReadLlama2c(std::string_view bytes, size_t count, SpmVocabulary& out, std::string& problem) {
  if (bytes.size() < 4) {
    problem = "it is shorter than its header";
    return false;
  }
  size_t at = 4;  // after the length of the longest token
  while (out.pieces.size() < count) {
    if (at == bytes.size() && count == kUntilTheEnd) break;
    if (bytes.size() - at < 8) {
      problem = "it ends after " + std::to_string(out.pieces.size()) + " tokens";
      return false;
    }
    const float score = std::bit_cast<float>(Little32(bytes, at));
    const uint32_t length = Little32(bytes, at + 4);
    at += 8;
    if (length > bytes.size() - at || !std::isfinite(score)) {
      problem = "token " + std::to_string(out.pieces.size()) + " is damaged";
      return false;
    }
    out.pieces.emplace_back(bytes.substr(at, length));
    out.scores.push_back(score);
    at += length;
  }
  if (out.pieces.size() < 3 + 256) {
    problem = "it has " + std::to_string(out.pieces.size()) +
              " tokens, expected at least 3 special ones and 256 bytes";
    return false;
  }
  return true;
}

Tokenizer MakeLlama2c(SpmVocabulary vocabulary) {
  constexpr size_t kFirstByte = 3;
  Pipeline pipeline;
  for (size_t i = 0; i < vocabulary.pieces.size(); ++i) {
    PieceType type = PieceType::kNormal;
    if (i < kFirstByte) type = i == 0 ? PieceType::kUnknown : PieceType::kControl;
    if (i >= kFirstByte && i < kFirstByte + 256) {
      // Some vocabularies spell byte pieces as the byte itself; what counts is where they stand.
      type = PieceType::kByte;
      vocabulary.pieces[i] = BytePiece(static_cast<unsigned char>(i - kFirstByte));
    }
    vocabulary.types.push_back(type);
    pipeline.special.push_back(i < kFirstByte);
  }
  vocabulary.byte_fallback = true;
  SpmOptions options;
  options.algorithm = SpmAlgorithm::kBpe;
  options.bytes_first = true;
  pipeline.normalizer = MakePrepend(" ");
  pipeline.model = MakeSpm(std::move(vocabulary), options);
  pipeline.bos = 1;
  pipeline.eos = 2;
  pipeline.post_processor = MakeTemplate({{{1}, -1}, {{}, 0}}, {});
  std::vector<DecoderPtr> steps;
  steps.push_back(MakeByteFallbackDecoder());
  steps.push_back(MakeFuseDecoder());
  steps.push_back(MakeStripDecoder(' ', 1, 0));
  pipeline.decoder = MakeDecoderSequence(std::move(steps));
  return MakeTokenizer(std::move(pipeline));
}

bool IsGguf(const ByteSource& source) {
  char magic[4] = {};
  if (source.size() < sizeof(magic)) return false;
  source.ReadAt(0, std::as_writable_bytes(std::span(magic)));
  return std::memcmp(magic, "GGUF", sizeof(magic)) == 0;
}

Tokenizer FromGguf(std::shared_ptr<const ByteSource> source) {
  const gguf::File file = gguf::ReadFile(std::move(source));
  if (const auto json = file.metadata.Text("tokenizer.huggingface.json")) {
    return Tokenizer::FromJson(*json);
  }
  return Tokenizer::FromVocabulary(gguf::ReadVocabulary(file.metadata));
}

std::string ConfigBeside(const fs::path& path) {
  const fs::path config = path.parent_path() / "tokenizer_config.json";
  std::error_code ignored;
  return fs::is_regular_file(config, ignored) ? ReadWhole(config) : std::string();
}

fs::path FileInFolder(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model",
                           "sentencepiece.bpe.model", "tokenizer.bin"}) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name, ignored)) return folder / name;
  }
  throw Error(ErrorCode::kNotFound, "the folder " + folder.string() +
                                        " has no tokenizer.json, tokenizer.model or tokenizer.bin");
}

}  // namespace

Tokenizer Tokenizer::FromLlama2c(std::string_view bytes, size_t vocab_size) {
  return Guarded([&] {
    SpmVocabulary vocabulary;
    std::string problem;
    if (!ReadLlama2c(bytes, vocab_size, vocabulary, problem)) {
      throw Error(ErrorCode::kInvalidModel, "the llama2.c tokenizer cannot be read: " + problem);
    }
    return MakeLlama2c(std::move(vocabulary));
  });
}

Tokenizer Tokenizer::FromFile(const fs::path& given) {
  return Guarded([&] {
    std::error_code ignored;
    const fs::path path = fs::is_directory(given, ignored) ? FileInFolder(given) : given;
    const auto source = ByteSource::File(path);
    if (IsGguf(*source)) return FromGguf(source);
    if (LooksConverted(path)) {
      ReadOptions read;
      read.verify_checksums = false;  // of weights that nobody looks at
      return TokenizerOf(ReadConverted(path, read).about.tokenizer);
    }
    const std::string bytes = ReadWhole(path);
    const size_t first = bytes.find_first_not_of(" \t\r\n");
    if (first != std::string::npos && bytes[first] == '{') {
      return FromJson(bytes, ConfigBeside(path));
    }
    SpmVocabulary vocabulary;
    std::string problem;
    if (ReadLlama2c(bytes, kUntilTheEnd, vocabulary, problem)) {
      return MakeLlama2c(std::move(vocabulary));
    }
    if (LooksLikeLlama2c(*source)) return TokenizerOf(Checkpoint::Open(path)->tokenizer());
    try {
      return FromSentencePiece(bytes, ConfigBeside(path));
    } catch (const Error& error) {
      throw Error(error.code(), path.string() +
                                    " is neither a tokenizer.json nor a tokenizer.bin (" + problem +
                                    ") nor a sentencepiece model: " + error.what());
    }
  });
}

}  // namespace oort
