// SPDX-License-Identifier: MIT
// How answers look on the wire: whole, or as the events of a stream.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "openai/generate_call.h"
#include "openai/request_error.h"

namespace oort::serve {

/// One answer in the form of one API. Thread contract: one thread at a time.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  virtual std::string Whole(std::span<const GenerateResult> results) = 0;
  virtual std::string ErrorBody(const openai::ApiError& error) const = 0;

  // Of a stream: events as they are sent, empty where nothing is to be said.
  virtual std::string_view stream_type() const = 0;
  /// What is known of the tokens of a prompt, before the first of its choices; says nothing yet.
  virtual void Prompt(size_t, std::vector<float>, std::vector<std::vector<TokenLogprob>>) {}
  virtual std::string First(int64_t choice) = 0;
  virtual std::string Piece(int64_t choice, const GeneratedPiece& piece) = 0;
  virtual std::string Last(int64_t choice, const GeneratedAnswer& answer) = 0;
  virtual std::string End(std::span<const GenerateResult> results) = 0;
  /// In the middle of a stream; nothing follows.
  virtual std::string Failure(const openai::ApiError& error) = 0;
  /// What keeps a connection open while there is nothing to say.
  virtual std::string Wait() { return ": wait\n\n"; }
};

/// OpenAI's, for both of its endpoints. Call and model must outlive it.
std::unique_ptr<AnswerFormat> OpenAiFormat(const openai::GenerateCall& call,
                                           const openai::ServedModel& served);

}  // namespace oort::serve
