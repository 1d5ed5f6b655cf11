// SPDX-License-Identifier: MIT
// Checkpoints of llama2.c: a header of seven numbers, then the tensors in a fixed order.
// KuiperLLama writes such files, too, and one of its own: int8 behind a header of eight numbers.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/checked.h"
#include "core/problems.h"
#include "parser/checkpoint/contents.h"
#include "parser/checkpoint/families.h"
#include "parser/checkpoint/rotary.h"

namespace oort {
namespace llama2c {
namespace {

constexpr uint32_t kMagic = 0x616b3432;  // "24ka" in the file
constexpr uint64_t kLegacyHeader = 28, kKuiperHeader = 32, kHeader = 256;
constexpr uint64_t kSharedAt = 36, kGroupAt = 37;
constexpr uint64_t kLargestVocabulary = uint64_t{1} << 28;

struct Header {
  /// 0: floats without a magic number, 1: floats, 2: int8, 3: int8 of KuiperLLama, without a magic
  /// number
  int version = 0;
  int64_t dim = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, vocabulary = 0, context = 0;
  bool shared_head = true;
  int64_t group = 0;
  uint64_t bytes = 0;  ///< of the header
};

template <typename T>
T ReadNumber(const ByteSource& source, uint64_t offset) {
  T value;
  source.ReadAt(offset, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

void ReadSizes(const ByteSource& source, uint64_t offset, Header& header) {
  int64_t* const sizes[] = {&header.dim,      &header.hidden,     &header.layers, &header.heads,
                            &header.kv_heads, &header.vocabulary, &header.context};
  for (int64_t* size : sizes) {
    *size = ReadNumber<int32_t>(source, offset);
    offset += sizeof(int32_t);
  }
}

/// Nothing unless the numbers could be sizes.
std::optional<Header> ReadHeader(const ByteSource& source) {
  if (source.size() < kLegacyHeader) return std::nullopt;
  Header header;
  if (ReadNumber<uint32_t>(source, 0) == kMagic) {
    if (source.size() < kHeader) return std::nullopt;
    header.version = ReadNumber<int32_t>(source, 4);
    header.bytes = kHeader;
    ReadSizes(source, 8, header);
    header.shared_head = ReadNumber<uint8_t>(source, kSharedAt) != 0;
    if (header.version == 2) header.group = ReadNumber<int32_t>(source, kGroupAt);
  } else {
    header.bytes = kLegacyHeader;
    ReadSizes(source, 0, header);
    header.shared_head = header.vocabulary > 0;
    header.vocabulary = header.vocabulary < 0 ? -header.vocabulary : header.vocabulary;
  }
  for (const int64_t size : {header.dim, header.hidden, header.layers, header.heads,
                             header.kv_heads, header.vocabulary, header.context}) {
    if (size < 1) return std::nullopt;
  }
  if (header.dim % header.heads != 0 || header.heads % header.kv_heads != 0) return std::nullopt;
  return header;
}

/// Tensors that lie one behind the other, one for the model or one for each layer.
struct Piece {
  std::string_view name;  ///< empty: nobody needs it
  int rank = 2;
  int64_t rows = 1, columns = 0;
  bool of_layers = true;
  bool quantized = false;
};

std::vector<Piece> PiecesOf(const Header& h) {
  const int64_t keys = h.dim / h.heads * h.kv_heads;
  const bool q = h.version >= 2;
  const Piece embeddings{"model.embed_tokens", 2, h.vocabulary, h.dim, false, h.version == 2};
  const Piece attention_norm{"input_layernorm", 1, 1, h.dim};
  const Piece feed_norm{"post_attention_layernorm", 1, 1, h.dim};
  const Piece norm{"model.norm", 1, 1, h.dim, false};
  const Piece head{"lm_head", 2, h.vocabulary, h.dim, false, q};
  const Piece attention[] = {{"self_attn.q_proj", 2, h.dim, h.dim, true, q},
                             {"self_attn.k_proj", 2, keys, h.dim, true, q},
                             {"self_attn.v_proj", 2, keys, h.dim, true, q},
                             {"self_attn.o_proj", 2, h.dim, h.dim, true, q}};
  const Piece feed[] = {{"mlp.gate_proj", 2, h.hidden, h.dim, true, q},
                        {"mlp.down_proj", 2, h.dim, h.hidden, true, q},
                        {"mlp.up_proj", 2, h.hidden, h.dim, true, q}};
  std::vector<Piece> pieces;
  const auto append = [&](std::span<const Piece> more) {
    for (const Piece& piece : more) pieces.push_back(piece);
  };
  if (h.version == 0) {
    // The tables of cosines and sines: seq_len times half a head, twice.
    const Piece turns{"", 2, h.context, 2 * (h.dim / h.heads / 2), false};
    pieces = {embeddings, attention_norm};
    append(attention);
    pieces.push_back(feed_norm);
    append(feed);
    pieces.push_back(norm);
    pieces.push_back(turns);
  } else if (h.version == 3) {
    append(attention);
    append(feed);
    if (!h.shared_head) pieces.push_back(head);
    append(std::array{embeddings, attention_norm, feed_norm, norm});
    return pieces;
  } else {
    pieces = {attention_norm, feed_norm, norm, embeddings};
    append(attention);
    append(feed);
  }
  if (!h.shared_head) pieces.push_back(head);
  return pieces;
}

/// Bytes of one tensor; nothing where groups do not fit or the size overflows.
std::optional<uint64_t> BytesOf(const Piece& piece, int64_t group) {
  uint64_t elements = 0, bytes = 0;
  if (MultiplyOverflows(static_cast<uint64_t>(piece.rows), static_cast<uint64_t>(piece.columns),
                        &elements)) {
    return std::nullopt;
  }
  if (piece.quantized) {
    if (group < 1 || piece.columns % group != 0) return std::nullopt;
    const uint64_t scales = elements / static_cast<uint64_t>(group);
    if (MultiplyOverflows(scales, uint64_t{4}, &bytes) || AddOverflows(bytes, elements, &bytes)) {
      return std::nullopt;
    }
    return bytes;
  }
  if (MultiplyOverflows(elements, uint64_t{4}, &bytes)) return std::nullopt;
  return bytes;
}

/// The size of a file with this header; nothing where there can be none.
std::optional<uint64_t> FileBytes(const Header& header) {
  uint64_t total = header.bytes;
  for (const Piece& piece : PiecesOf(header)) {
    const auto one = BytesOf(piece, header.group);
    const uint64_t count = piece.of_layers ? static_cast<uint64_t>(header.layers) : 1;
    uint64_t all = 0;
    if (!one || MultiplyOverflows(*one, count, &all) || AddOverflows(total, all, &total)) {
      return std::nullopt;
    }
  }
  return total;
}

/// Also of files without a magic number, which are told apart by their exact size.
std::optional<Header> ReadAnyHeader(const ByteSource& source) {
  const auto header = ReadHeader(source);
  if (!header || header->version != 0 || source.size() < kKuiperHeader ||
      FileBytes(*header) == source.size()) {
    return header;
  }
  Header other = *header;
  other.version = 3;
  other.bytes = kKuiperHeader;
  other.group = ReadNumber<int32_t>(source, kLegacyHeader);
  return FileBytes(other) == source.size() ? other : header;
}

void PlaceAll(const Header& header, const std::shared_ptr<const ByteSource>& source,
              TensorTable& table) {
  uint64_t offset = header.bytes;
  for (const Piece& piece : PiecesOf(header)) {
    const uint64_t bytes = *BytesOf(piece, header.group);
    const int64_t count = piece.of_layers ? header.layers : 1;
    for (int64_t i = 0; i < count; ++i, offset += bytes) {
      if (piece.name.empty()) continue;
      PlacedTensor placed{.source = source, .offset = offset, .rank = piece.rank};
      placed.rows = piece.rows;
      placed.columns = piece.columns;
      if (piece.quantized) {
        placed.format = WeightFormat::kInt8;
        placed.group = header.group;
        placed.scale_offset = offset + static_cast<uint64_t>(piece.rows * piece.columns);
      }
      const std::string prefix =
          piece.of_layers ? "model.layers." + std::to_string(i) + "." : std::string();
      table.Add(prefix + std::string(piece.name) + ".weight", std::move(placed));
    }
  }
}

DecoderConfig ConfigOf(const Header& header) {
  DecoderConfig config = RequireFamily("llama");
  config.vocabulary = header.vocabulary;
  config.hidden = header.dim;
  config.layers = header.layers;
  config.heads = header.heads;
  config.kv_heads = header.kv_heads;
  config.head_dim = header.dim / header.heads;
  config.intermediate = header.hidden;
  config.context = header.context;
  config.norm_epsilon = 1e-5F;
  config.tied_head = header.shared_head;
  config.rotary = MakeRotary(config.head_dim, 10000, {});
  config.rotary.interleaved = true;
  FinishConfig(config);
  return config;
}

/// tokenizer.bin, or the tok512.bin that belongs to a vocabulary of 512; beside files of
/// KuiperLLama lies the tokenizer.model that they were made with.
void FindTokenizer(const std::filesystem::path& model, CheckpointContents& contents) {
  const std::string own = "tok" + std::to_string(contents.config.vocabulary) + ".bin";
  const std::string pieces = "tokenizer.model";
  for (const std::string& name : {std::string("tokenizer.bin"), own, pieces}) {
    const std::filesystem::path path = model.parent_path() / name;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) continue;
    const auto source = ByteSource::File(path);
    if (source->size() > kLargestVocabulary) continue;
    TokenizerSource& tokenizer = contents.tokenizer;
    using Kind = TokenizerSource::Kind;
    tokenizer.kind = name == pieces ? Kind::kSentencePiece : Kind::kLlama2c;
    tokenizer.bytes.resize(static_cast<size_t>(source->size()));
    source->ReadAt(0, std::as_writable_bytes(std::span(tokenizer.bytes)));
    tokenizer.vocabulary_size = static_cast<size_t>(contents.config.vocabulary);
    return;
  }
}

}  // namespace
}  // namespace llama2c

bool LooksLikeLlama2c(const ByteSource& source) {
  if (source.size() < sizeof(uint32_t)) return false;
  if (llama2c::ReadNumber<uint32_t>(source, 0) == llama2c::kMagic) return true;
  const auto header = llama2c::ReadAnyHeader(source);
  return header && llama2c::FileBytes(*header) == source.size();
}

CheckpointContents ReadLlama2c(const std::shared_ptr<const ByteSource>& source) {
  using namespace llama2c;
  const std::string& name = source->name();
  const auto header = ReadAnyHeader(*source);
  if (!header) {
    throw Error(ErrorCode::kInvalidModel, name + ": the header of llama2.c makes no sense");
  }
  if ((header->bytes == kHeader && header->version > 2) || header->version < 0) {
    throw Error(ErrorCode::kUnsupported, name + ": version " + std::to_string(header->version) +
                                             " of llama2.c's checkpoints; 0 to 2 can be read");
  }
  if (header->version >= 2 && (header->group < 1 || header->dim % header->group != 0 ||
                               header->hidden % header->group != 0)) {
    throw Error(ErrorCode::kUnsupported, name + ": groups of " + std::to_string(header->group) +
                                             " elements that do not fit the rows");
  }
  const auto bytes = FileBytes(*header);
  if (bytes != source->size()) {
    throw Error(ErrorCode::kInvalidModel, name + " has " + std::to_string(source->size()) +
                                              " bytes, but its header asks for " +
                                              (bytes ? std::to_string(*bytes) : "more"));
  }
  CheckpointContents contents;
  contents.config = ConfigOf(*header);
  PlaceAll(*header, source, contents.tensors);
  CheckTensors(contents.config, contents.tensors, name);
  contents.file_bytes = source->size();
  // A text begins with token 1 and ends where the next one would begin.
  AddEndToken(contents, 1);
  AddEndToken(contents, 2);
  return contents;
}

CheckpointContents ReadLlama2c(const std::filesystem::path& path) {
  CheckpointContents contents = ReadLlama2c(ByteSource::File(path));
  llama2c::FindTokenizer(path, contents);
  return contents;
}

}  // namespace oort
