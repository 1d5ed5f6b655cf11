// SPDX-License-Identifier: MIT
// sentencepiece's .model file: a protocol buffer.
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/guard.h"
#include "oort/error.h"
#include "text/json.h"
#include "text/utf8.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/spm.h"

namespace oort::tokenizer {
namespace {

Error BadFile(const std::string& what) {
  return {ErrorCode::kInvalidModel, "the sentencepiece model " + what};
}

/// One field of a message.
struct Field {
  uint32_t number = 0;
  uint64_t value = 0;      ///< of a varint or a fixed number
  std::string_view bytes;  ///< of a string or a message
  bool is_bytes = false;
};

class Message {
 public:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  bool Next(Field& field) {
    if (bytes_.empty()) return false;
    const uint64_t key = Varint();
    field = {};
    if (key >> 3 == 0 || key >> 3 > (1U << 29)) throw BadFile("has a field without a number");
    field.number = static_cast<uint32_t>(key >> 3);
    switch (key & 7) {
      case 0: field.value = Varint(); break;
      case 1: field.value = Fixed(8); break;
      case 2:
        field.bytes = Take(Varint());
        field.is_bytes = true;
        break;
      case 5: field.value = Fixed(4); break;
      default: throw BadFile("has a field of an unknown type");
    }
    return true;
  }

 private:
  std::string_view Take(uint64_t size) {
    if (size > bytes_.size()) throw BadFile("is cut off");
    const std::string_view part = bytes_.substr(0, static_cast<size_t>(size));
    bytes_.remove_prefix(static_cast<size_t>(size));
    return part;
  }
  uint64_t Fixed(size_t size) {
    const std::string_view part = Take(size);
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      value |= uint64_t{static_cast<unsigned char>(part[i])} << (8 * i);
    }
    return value;
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(Take(1)[0]);
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    throw BadFile("has a number that is too long");
  }
  std::string_view bytes_;
};

std::string_view BytesOf(const Field& field) {
  if (!field.is_bytes) throw BadFile("has a number where text belongs");
  return field.bytes;
}

struct SpmFile {
  SpmVocabulary vocabulary;
  SpmOptions options;
  SpmTextOptions text;
  std::string charsmap;
  std::string unk_surface = " \xE2\x81\x87 ";
  std::string bos = "<s>", eos = "</s>";
  int unknowns = 0;
};

void ReadPiece(std::string_view bytes, SpmFile& file) {
  std::string piece;
  float score = 0;
  uint64_t type = 1;
  Message message(bytes);
  for (Field field; message.Next(field);) {
    if (field.number == 1) piece = BytesOf(field);
    if (field.number == 2) score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == 3) type = field.value;
  }
  const auto id = static_cast<int32_t>(file.vocabulary.pieces.size());
  if (piece.empty() || !text::IsValidUtf8(piece)) {
    throw BadFile("has no UTF-8 text for piece " + std::to_string(id));
  }
  if (type < 1 || type > 6) throw BadFile("gives '" + piece + "' an unknown type");
  if (!std::isfinite(score)) throw BadFile("gives '" + piece + "' a score that is not finite");
  if (type == static_cast<uint64_t>(PieceType::kUnknown)) {
    if (++file.unknowns > 1) throw BadFile("has two unknown pieces");
    file.vocabulary.unk = id;
  }
  file.vocabulary.pieces.push_back(std::move(piece));
  file.vocabulary.scores.push_back(score);
  file.vocabulary.types.push_back(static_cast<PieceType>(type));
}

void ReadTrainer(std::string_view bytes, SpmFile& file) {
  Message message(bytes);
  for (Field field; message.Next(field);) {
    switch (field.number) {
      case 3:
        if (field.value < 1 || field.value > 4) throw BadFile("is of an unknown kind");
        file.options.algorithm = field.value == 1   ? SpmAlgorithm::kUnigram
                                 : field.value == 2 ? SpmAlgorithm::kBpe
                                 : field.value == 3 ? SpmAlgorithm::kWord
                                                    : SpmAlgorithm::kCharacter;
        break;
      case 24: file.options.suffix_spaces = file.text.suffix_spaces = field.value != 0; break;
      case 35: file.vocabulary.byte_fallback = field.value != 0; break;
      case 44: file.unk_surface = BytesOf(field); break;
      case 46:
        if (!BytesOf(field).empty()) file.bos = BytesOf(field);
        break;
      case 47:
        if (!BytesOf(field).empty()) file.eos = BytesOf(field);
        break;
      default: break;
    }
  }
}

void ReadNormalizerSpec(std::string_view bytes, SpmFile& file) {
  Message message(bytes);
  for (Field field; message.Next(field);) {
    if (field.number == 2) file.charsmap = BytesOf(field);
    if (field.number == 3) file.text.add_dummy_prefix = field.value != 0;
    if (field.number == 4) file.text.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) file.text.escape_whitespaces = field.value != 0;
  }
}

void RefuseDenormalizer(std::string_view bytes) {
  Message message(bytes);
  for (Field field; message.Next(field);) {
    if (field.number == 2 && !BytesOf(field).empty()) {
      throw Error(ErrorCode::kUnsupported,
                  "the sentencepiece model rewrites decoded text (denormalizer_spec), which is not "
                  "supported");
    }
  }
}

SpmFile ReadFile(std::string_view bytes) {
  SpmFile file;
  Message message(bytes);
  for (Field field; message.Next(field);) {
    if (field.number == 1) ReadPiece(BytesOf(field), file);
    if (field.number == 2) ReadTrainer(BytesOf(field), file);
    if (field.number == 3) ReadNormalizerSpec(BytesOf(field), file);
    if (field.number == 5) RefuseDenormalizer(BytesOf(field));
  }
  if (file.vocabulary.pieces.empty()) throw BadFile("has no pieces");
  if (file.unknowns == 0) throw BadFile("has no unknown piece");
  return file;
}

std::optional<int32_t> ControlPiece(const SpmVocabulary& vocabulary, const std::string& piece) {
  for (size_t i = 0; i < vocabulary.pieces.size(); ++i) {
    if (vocabulary.pieces[i] == piece && vocabulary.types[i] == PieceType::kControl) {
      return static_cast<int32_t>(i);
    }
  }
  return std::nullopt;
}

}  // namespace

SpmVocabulary ReadSpmVocabulary(std::string_view bytes, SpmAlgorithm& algorithm) {
  SpmFile file = ReadFile(bytes);
  algorithm = file.options.algorithm;
  return std::move(file.vocabulary);
}

}  // namespace oort::tokenizer

namespace oort {

Tokenizer Tokenizer::FromSentencePiece(std::string_view bytes, std::string_view config) {
  return Guarded([&] {
    using namespace tokenizer;
    SpmFile file = ReadFile(bytes);
    const SpmVocabulary& vocabulary = file.vocabulary;
    std::vector<std::string> kept;
    Pipeline pipeline;
    for (size_t i = 0; i < vocabulary.pieces.size(); ++i) {
      if (vocabulary.types[i] == PieceType::kUserDefined) kept.push_back(vocabulary.pieces[i]);
      pipeline.special.push_back(vocabulary.types[i] == PieceType::kControl);
    }
    pipeline.bos = ControlPiece(vocabulary, file.bos);
    pipeline.eos = ControlPiece(vocabulary, file.eos);
    pipeline.normalizer = MakeSpmNormalizer(file.charsmap, file.text, kept);
    pipeline.takes_any_bytes = true;
    pipeline.decoder =
        MakeSpmDecoder(file.text, vocabulary.byte_fallback,
                       vocabulary.pieces[static_cast<size_t>(vocabulary.unk)], file.unk_surface);
    if (!config.empty()) {
      const json::Json parsed = json::Parse(config, "tokenizer_config.json");
      const json::Object settings(parsed, "tokenizer_config.json");
      std::vector<TemplatePart> parts = {{{}, 0}};
      if (pipeline.bos && settings.Bool("add_bos_token").value_or(false)) {
        parts.insert(parts.begin(), {{*pipeline.bos}, -1});
      }
      if (pipeline.eos && settings.Bool("add_eos_token").value_or(false)) {
        parts.push_back({{*pipeline.eos}, -1});
      }
      pipeline.post_processor = MakeTemplate(std::move(parts), {});
    }
    pipeline.model = MakeSpm(std::move(file.vocabulary), file.options);
    return MakeTokenizer(std::move(pipeline));
  });
}

}  // namespace oort
