// SPDX-License-Identifier: MIT
#include "openai/response.h"
#include "serve/answer_format.h"

namespace oort::serve {
namespace {

std::string Event(const std::string& json) {
  return json.empty() ? std::string() : "data: " + json + "\n\n";
}

class OpenAi : public AnswerFormat {
 public:
  OpenAi(const openai::GenerateCall& call, const openai::ServedModel& served)
      : call_(call),
        served_(served),
        head_(openai::NewResponseHead(call.endpoint)),
        chunks_(call, served, head_) {}

  std::string Whole(std::span<const GenerateResult> results) override {
    return openai::ResponseBody(call_, served_, head_, results);
  }
  std::string ErrorBody(const openai::ApiError& error) const override {
    return openai::ErrorBody(error);
  }
  std::string_view stream_type() const override { return "text/event-stream; charset=utf-8"; }
  void Prompt(size_t prompt, std::vector<float> logprobs,
              std::vector<std::vector<TokenLogprob>> top) override {
    chunks_.Prompt(prompt, std::move(logprobs), std::move(top));
  }
  std::string First(int64_t choice) override { return Event(chunks_.First(choice)); }
  std::string Piece(int64_t choice, const GeneratedPiece& piece) override {
    return Event(chunks_.Piece(choice, piece));
  }
  std::string Last(int64_t choice, const GeneratedAnswer& answer) override {
    std::string events;
    for (const std::string& chunk : chunks_.Last(choice, answer)) events += Event(chunk);
    return events;
  }
  std::string End(std::span<const GenerateResult> results) override {
    return Event(chunks_.UsageChunk(openai::UsageOf(call_, served_, results))) + "data: [DONE]\n\n";
  }
  std::string Failure(const openai::ApiError& error) override {
    return Event(openai::ErrorBody(error));
  }

 private:
  const openai::GenerateCall& call_;
  const openai::ServedModel& served_;
  const openai::ResponseHead head_;
  openai::ChunkWriter chunks_;
};

}  // namespace

std::unique_ptr<AnswerFormat> OpenAiFormat(const openai::GenerateCall& call,
                                           const openai::ServedModel& served) {
  return std::make_unique<OpenAi>(call, served);
}

}  // namespace oort::serve
