// SPDX-License-Identifier: MIT
// A language model: its graph, tokenizer and chat template, from whatever files it came in.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oort/chat_template.h"
#include "oort/kv_cache.h"
#include "oort/picture.h"
#include "oort/runtime_graph.h"
#include "oort/sequence_state.h"
#include "oort/tokenizer.h"

namespace oort {

struct DecoderGraph;
class RankGroup;  // llm/rank_group.h

/// A LoRA adapter: a folder of PEFT (adapter_config.json, adapter_model.safetensors) for a model
/// from a folder of Hugging Face, or a GGUF for one from a GGUF.
struct AdapterFile {
  std::string name;
  std::filesystem::path path;
};

/// Several ranks compute one model together, on CPUs or on GPUs: each has its part of the weights
/// and of the cache. All of them compute the same bits in every run.
struct RankOptions {
  /// Ranks that are threads of this process; each of them runs EngineOptions::threads threads, or,
  /// where that is 0, its share of those that the process may use.
  int count = 1;
  /// This process is one rank of those that mpirun has started. Ranks other than 0 load the same
  /// model with the same options, and call Follow.
  bool mpi = false;
  /// This process is one rank of those that find each other over TCP, by themselves. Ranks other
  /// than 0 do as with mpi.
  struct Tcp {
    int rank = 0;
    int ranks = 0;        ///< 0: not over TCP
    std::string address;  ///< HOST:PORT, where rank 0 listens
    std::string secret;   ///< that all ranks know, and nobody else; 16 bytes at least
    double join = 60;     ///< seconds until all have come
  } tcp;
  /// Rank `lone` of `count` alone, without the others: to measure what it computes. Its results are
  /// no answers. -1: none.
  int lone = -1;
  /// Ranks have whole layers, one behind the other, and hand over a row of numbers for each token:
  /// for slow networks. Results have the bits of one rank, which is also as fast.
  bool pipeline = false;
  /// Results have the bits of one rank; else sums of products are split, too, which takes half as
  /// many exchanges and may give other last digits.
  bool exact = false;
  /// Seconds after which a rank that does not come to an exchange has failed, and with it all.
  double deadline = 10;
  /// Ranks on GPUs: those of one machine take its GPUs in turns, from LanguageModelOptions::device
  /// on, and share them where they are more. Else all of this process are on that one.
  bool spread = true;
  /// How ranks on GPUs exchange numbers: by NCCL, by way of the host's memory, or by NCCL where all
  /// ranks have it and a GPU of their own.
  enum class Exchange : unsigned char { kAuto, kHost, kNccl } exchange = Exchange::kAuto;
};

struct LanguageModelOptions {
  /// Requests may name one of these; all of them share the model's weights. On the CPU alone.
  std::vector<AdapterFile> adapters;
  /// Activations stay f32 throughout. Else products round them to bytes in groups, or to 16 bits:
  /// much faster, and seldom another answer. Unset: false, but true on a GPU for models with less
  /// than 512 MB of weights, whose prompts take milliseconds either way.
  std::optional<bool> exact;
  /// What weights become while they are loaded, one by one: "int8", "int4", "bf16", "f16" or "f32",
  /// as ConvertOptions says; empty: as they are in the file. Not for a .param: convert does that.
  std::string weights;
  int64_t group = 32;  ///< weights that share a scale
  /// "int8" or "fp8" (e4m3), on a GPU of compute capability 9.0: weights of the layers that have
  /// more than 4 bits have 8 there, with a scale for each output, and products of many rows (int8:
  /// more than 256, fp8: more than 8) round activations to 8 bits, too, with a scale for each
  /// token. Empty: neither.
  std::string activations;
  /// A folder of heads that guess later tokens from what the model's own head reads, as Medusa's
  /// scripts write it, for DraftOptions::kHeads; empty: none. Their weights stay as they are there.
  std::filesystem::path draft_heads;
  Isa isa = DefaultIsa();
  Device device;
  RankOptions ranks;
  std::stop_token stop;
  ProgressFunction progress;
};

/// What a model is made of, for people.
struct LanguageModelInfo {
  std::string family;  ///< "llama", "qwen2", …
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t vocabulary = 0;
  int64_t context = 0;  ///< longest sequence that the model was made for
  bool vision = false;  ///< of a family that reads pictures; see picture_format()
  /// Of an encoder-decoder (T5, BART): `context` is that of an answer, whatever the prompt has.
  bool encodes_prompts = false;
  size_t weight_bytes = 0;  ///< of all weights as they lie in the file
  size_t step_bytes = 0;    ///< of those that a step of one token reads
  size_t file_bytes = 0;
  int64_t draft_heads = 0;      ///< that guess later tokens
  size_t draft_head_bytes = 0;  ///< of all of them; in weight_bytes, but not in step_bytes
  /// Of a model whose layers have a state of each sequence: what one takes, whatever its length, on
  /// all ranks together.
  size_t state_bytes = 0;
};

/// What reads pictures, or the texts of an encoder-decoder, takes of memory besides the graph.
struct ReaderMemory {
  size_t weights = 0;
  size_t activations = 0;  ///< of the largest picture, or of the longest text
};

/// What who runs the graph of a model must know, as it was built for a device.
struct DecoderFacts {
  Device attention_device;    ///< where the cache of keys and values must be
  Device logits_device;       ///< where logits are made and can stay
  bool caches_tokens = true;  ///< some layers have keys and values, if perhaps those of other ranks
  /// Positions of longer sequences, all of theirs, turn by other angles (longrope); 0: never.
  int64_t short_context = 0;
  /// Most sequences of one token each in a step, so that what each gets does not depend on the
  /// others.
  int64_t decode_rows = 1;
  /// Most sequences of one token each in a step where the last digits of one may depend on how many
  /// others there are: at least decode_rows, and more where that is much faster.
  int64_t step_rows = 1;
  /// Up to how many sequences a step is as fast if what each gets does not depend on the others.
  int64_t fast_decode_rows = 1;
  /// Of an encoder-decoder: the token that its decoder begins with instead of the prompt, and the
  /// one that every answer begins with.
  std::optional<int32_t> start_token, first_token;
};

/// Thread contract: immutable; share it between any number of engines and threads.
class LanguageModel : public std::enable_shared_from_this<LanguageModel> {
 public:
  /// A GGUF file, a folder of Hugging Face, a checkpoint of llama2.c, a .pnnx.param that
  /// ConvertLanguageModel wrote, or one that pnnx traced of a causal decoder. Encoder-decoders are
  /// folders, run on the CPU, and are exact unless options say otherwise. Throws an Error.
  static std::shared_ptr<const LanguageModel> Load(const std::filesystem::path& path,
                                                   const LanguageModelOptions& options = {});
  /// A model of a well-known shape ("llama2-7b", see RandomNames) with random weights of bf16, f16,
  /// int8 or int4 in groups of `group`, without a tokenizer: to measure speed at size.
  static std::shared_ptr<const LanguageModel> Random(std::string_view name,
                                                     std::string_view weights, int64_t group,
                                                     const LanguageModelOptions& options = {});
  static std::vector<std::string_view> RandomNames();
  ~LanguageModel();
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;

  const LanguageModelInfo& info() const;
  const DecoderFacts& facts() const;
  /// Inputs: tokens, positions, and the rows whose logits are wanted, i32; outputs: logits, and the
  /// argmax of each of these rows, i32, and where there are draft_heads() what they read of each.
  /// It runs with a SequenceBatch as RunOptions::state.
  const std::shared_ptr<const RuntimeGraph>& graph() const;
  /// Of rows of the third output of graph() the logits of each head that guesses; null for none.
  const std::shared_ptr<const RuntimeGraph>& draft_heads() const;
  KvShape kv_shape(KvType type) const;
  /// What layers of this rank keep of each sequence besides; without layers for most models.
  const StateShape& state_shape() const;
  /// Names of the LoRA adapters.
  const std::vector<std::string>& adapters() const;
  /// The place of that name among them; -1 if it is not there.
  int32_t FindAdapter(std::string_view name) const;
  /// f32 where activations stay f32, else f16.
  KvType default_kv() const;

  /// Of several ranks that compute it together, which one this is, and how many there are.
  int rank() const;
  int ranks() const;
  /// How they exchange numbers: "host", "nccl", or "none" for one rank, and for one that is
  /// measured alone.
  std::string_view exchange() const;
  /// On ranks other than 0: computes what rank 0 asks for, until that lets go of the model. Throws
  /// what ended it before its time, on whatever rank that was.
  void Follow() const;
  /// Null for one rank.
  const std::shared_ptr<RankGroup>& rank_group() const;

  bool has_tokenizer() const;
  /// Throws kUnsupported where the files hold none.
  const Tokenizer& tokenizer() const;
  /// Tokens that end an answer.
  std::span<const int32_t> end_tokens() const;
  bool IsEnd(int32_t token) const;

  /// Of an encoder-decoder: reads a prompt, one at a time: others wait. Of several ranks, rank 0
  /// has the others read it, too, and each has what its heads see. Throws kUnsupported for other
  /// models, and kInvalidArgument for tokens that it cannot read.
  std::shared_ptr<const EncodedText> EncodePrompt(std::span<const int32_t> tokens) const;
  /// Throws what EncodePrompt would, without reading anything.
  void CheckPrompt(std::span<const int32_t> tokens) const;
  /// Of what reads pictures or prompts, which graph() has nothing of.
  ReaderMemory reader_memory() const;

  /// How it wants pictures; null where it reads none.
  const PictureFormat* picture_format() const;
  /// Reads a picture, one at a time: others wait. Throws kUnsupported where the model reads none,
  /// and kInvalidArgument for tiles that are not as picture_format() has them.
  std::shared_ptr<const Picture> EncodePicture(const PictureTiles& tiles) const;

  bool has_chat_template() const;
  std::vector<std::string> chat_template_names() const;
  /// The text of a template; empty where there is none of this name.
  std::string_view ChatTemplateSource(std::string_view name = "default") const;
  /// What keeps a template from being used; empty where nothing does. A model with such a template
  /// runs, and FormatChat throws it.
  std::string ChatTemplateProblem(std::string_view name = "default") const;
  /// The conversation as the model wants it, with the template that it came with. Special tokens
  /// are in the text: encode it without adding any. `name` picks one of several templates; with
  /// tools the default is "tool_use" where there is one.
  std::string FormatChat(const ChatInputs& inputs, std::string_view name = "default",
                         const ChatLimits& limits = {}) const;
  /// The same as tokens. What the inputs bring is text and nothing else: "<|im_end|>" in a message
  /// is encoded by its characters, and ends nothing.
  /// Each place where the template puts a picture (content parts {"type": "image"}) becomes the
  /// tokens of the next of `pictures`; throws kInvalidArgument unless there are as many of both.
  std::vector<int32_t> EncodeChat(
      const ChatInputs& inputs, std::string_view name = "default", const ChatLimits& limits = {},
      std::span<const std::shared_ptr<const Picture>> pictures = {}) const;
  /// The same for messages of text alone.
  std::vector<int32_t> EncodeChat(std::span<const ChatMessage> messages) const;

 private:
  struct Impl;
  explicit LanguageModel(std::unique_ptr<Impl> impl);
  static std::shared_ptr<const LanguageModel> LoadRank(const std::filesystem::path& path,
                                                       const LanguageModelOptions& options,
                                                       const std::shared_ptr<RankGroup>& group);
  static std::shared_ptr<const LanguageModel> LoadEncoderDecoder(
      const std::filesystem::path& path, LanguageModelOptions options,
      const std::shared_ptr<RankGroup>& group);
  static std::shared_ptr<const LanguageModel> Finish(std::unique_ptr<Impl> impl,
                                                     DecoderGraph decoder,
                                                     const LanguageModelOptions& options);
  std::unique_ptr<Impl> impl_;
};

struct ConvertOptions {
  /// "int8", "int4", "bf16", "f16" or "f32"; empty: as they are in the file. Weights that a GGUF
  /// has in no more bits and in groups that fit are copied, not rounded again. With int4,
  /// embeddings and head keep 8 bits.
  std::string weights;
  int64_t group = 32;       ///< weights that share a scale; halved where a row has no whole groups
  bool asymmetric = false;  ///< each group has a minimum, too
  std::stop_token stop;
  ProgressFunction progress;
};

/// Whether the path is a GGUF file, a folder of Hugging Face or a checkpoint of llama2.c, from its
/// first bytes.
bool IsLanguageModel(const std::filesystem::path& path);

/// Writes a language model as .pnnx.param and .pnnx.bin, with all that Load needs in them. Weights
/// go through memory one by one; neither file appears unless both are whole.
void ConvertLanguageModel(const std::filesystem::path& model, const std::filesystem::path& param,
                          const std::filesystem::path& bin, const ConvertOptions& options = {});

}  // namespace oort
