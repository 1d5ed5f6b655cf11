// SPDX-License-Identifier: MIT
// Answers as OpenAI's API writes them: whole, or as the chunks of a stream.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "openai/answer_message.h"
#include "openai/generate_call.h"
#include "openai/json_writer.h"
#include "openai/logprobs.h"

namespace oort::openai {

/// What an answer is told by, besides its content.
struct ResponseHead {
  std::string id;       ///< see NewResponseId
  int64_t created = 0;  ///< seconds since 1970
};

/// "chatcmpl-" or "cmpl-" and 24 random characters; now as `created`.
ResponseHead NewResponseHead(Endpoint endpoint);

/// The body of a whole answer; results stand as call.requests did.
std::string ResponseBody(const GenerateCall& call, const ServedModel& served,
                         const ResponseHead& head, std::span<const GenerateResult> results);

/// Tokens that answers and prompts took.
struct Usage {
  int64_t prompt = 0, completion = 0;
  int64_t cached = 0;     ///< of the prompt
  int64_t reasoning = 0;  ///< of the answers
};
/// Of a call whose results stand as its requests do.
Usage UsageOf(const GenerateCall& call, const ServedModel& served,
              std::span<const GenerateResult> results);

/// The chunks of a stream, each a line of JSON without "data: ". All text of a choice's chunks
/// together is the text of the whole answer. Thread contract: one thread at a time.
class ChunkWriter {
 public:
  /// The call and the model must outlive it.
  ChunkWriter(const GenerateCall& call, const ServedModel& served, ResponseHead head);

  /// The log-probabilities of prompt p, where it is echoed with these: before the first of its
  /// choices.
  void Prompt(size_t prompt, std::vector<float> logprobs,
              std::vector<std::vector<TokenLogprob>> top);
  /// What begins choice i: the role of a chat, the echoed prompt of a completion, the ids of the
  /// prompt; empty where there is nothing to say.
  std::string First(int64_t choice);
  /// A piece of choice i, with log-probabilities where the call asks for these. Empty where the
  /// piece has nothing that a client would see.
  std::string Piece(int64_t choice, const GeneratedPiece& piece);
  /// The end of choice i: one chunk, behind others where text was held back.
  std::vector<std::string> Last(int64_t choice, const GeneratedAnswer& answer);
  /// Behind the last choice, where the call asks for it; else empty.
  std::string UsageChunk(const Usage& usage);

 private:
  struct Choice {
    explicit Choice(const GenerateCall& call) : message(call) {}
    MessageReader message;
    int64_t offset = 0;        ///< characters of the choice's text so far
    std::vector<int32_t> ids;  ///< that wait for a chunk with text; of all tokens, the last too
    /// Tokens of the text whose log-probabilities wait likewise.
    std::vector<int32_t> held;
    std::vector<float> logprobs;
    std::vector<std::vector<TokenLogprob>> top;
  };
  /// What is known of the tokens of a prompt but the first.
  struct ScoredPrompt {
    std::vector<float> logprobs;
    std::vector<std::vector<TokenLogprob>> top;
  };

  JsonWriter Begin() const;
  /// A chunk of one choice: a part of it, why it ended, and what was held. The one that `begins` it
  /// tells of the prompt.
  std::string Chunk(int64_t choice, const AnswerDelta& delta, const GeneratedAnswer* end,
                    const ScoredTokens& echoed = {}, bool begins = false);
  void WritePromptIds(JsonWriter& out, int64_t choice) const;
  AnswerDelta Part(Choice& state, std::string_view text) const;
  void WriteHeld(JsonWriter& out, Choice& choice, std::string_view text,
                 const ScoredTokens& echoed) const;

  const GenerateCall& call_;
  const ServedModel& served_;
  ResponseHead head_;
  std::vector<Choice> choices_;
  std::vector<ScoredPrompt> prompts_;
  Usage running_;
};

}  // namespace oort::openai
