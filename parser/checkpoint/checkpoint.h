// SPDX-License-Identifier: MIT
// One view of a language model's files: GGUF, a Hugging Face folder, a llama2.c checkpoint.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oort/tensor.h"
#include "parser/checkpoint/decoder_config.h"
#include "weights/weight_format.h"

namespace oort {

/// Where the tokenizer of a checkpoint is: text of a tokenizer.json, bytes of a sentencepiece model
/// or of llama2.c's tokenizer.bin, or what a GGUF holds. (Filled in by who reads the file; made
/// into a Tokenizer by source/llm.)
struct TokenizerSource;
class CheckpointMatrix;
struct VisionFiles;  // parser/huggingface/vision.h

struct NamedTemplate {
  std::string name;  ///< "default", "tool_use", …
  std::string text;
};

/// A language model's files, opened and checked; weights are read on demand. Names of tensors are
/// those of the Hugging Face llama layout, whatever the file calls them:
///   model.embed_tokens.weight, model.layers.N.{input_layernorm, self_attn.{q,k,v,o}_proj,
///   self_attn.{q,k}_norm, post_attention_layernorm, pre_feedforward_layernorm,
///   post_feedforward_layernorm, mlp.{gate,up,down}_proj}.{weight,bias}, model.norm.{weight,bias},
///   model.embed_positions.weight, lm_head.weight
/// Fused tensors of a file (qkv, gate_up) are cut into these; transposed ones (gpt2) are turned;
/// gemma's norms are stored as w + 1 everywhere.
/// Thread contract: const methods run concurrently.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  /// Recognised by content: a GGUF (or the first of its parts), a folder with config.json, a
  /// llama2.c .bin. Throws an Error that says what it expected.
  static std::unique_ptr<Checkpoint> Open(const std::filesystem::path& path);

  virtual const DecoderConfig& config() const = 0;
  virtual bool Has(std::string_view name) const = 0;
  /// A weight of two dimensions: views of the mapped file wherever its layout allows. Each maps its
  /// own part of the file, whose pages go with it.
  virtual StoredMatrix Matrix(std::string_view name) const = 0;
  /// Not null where a matrix lies in several parts of the files, so that Matrix has to put it
  /// together: who needs some of its rows gets them here.
  virtual std::shared_ptr<const CheckpointMatrix> Scattered(std::string_view /*name*/) const {
    return nullptr;
  }
  /// A bias or norm, as f32.
  virtual Tensor Vector(std::string_view name) const = 0;
  virtual size_t file_bytes() const = 0;

  virtual const TokenizerSource& tokenizer() const = 0;
  virtual const std::vector<NamedTemplate>& chat_templates() const = 0;
  /// Tokens that end an answer (generation_config.json, tokenizer.ggml.eos_token_id and eot).
  virtual const std::vector<int32_t>& end_tokens() const = 0;
  /// The part that reads pictures; null where there is none.
  virtual const VisionFiles* vision() const { return nullptr; }
};

/// Whether Open would try: by the first bytes, or by a config.json in a folder.
bool LooksLikeCheckpoint(const std::filesystem::path& path);

}  // namespace oort
