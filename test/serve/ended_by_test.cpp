// SPDX-License-Identifier: MIT
// What ends an answer, in the words of each API.
#include "openai/response.h"
#include "serve/anthropic.h"
#include "serve/responses.h"
#include "serve/served_model.h"

namespace oort::serve {
namespace {

openai::ServedModel ServedStoryteller() {
  openai::ServedModel served;
  served.model = Storyteller();
  served.name = "storyteller";
  return served;
}

/// The data of the last event of a type.
Json LastEvent(const std::string& events, const std::string& type) {
  const size_t at = events.rfind("event: " + type + "\ndata: ");
  if (at == std::string::npos) return {};
  const size_t begin = events.find("data: ", at) + 6;
  return Json::parse(events.substr(begin, events.find('\n', begin) - begin));
}

TEST(EndedBy, ADeadlineIsToldAsWhatEachApiHas) {
  const openai::ServedModel served = ServedStoryteller();
  const openai::GenerateCall call =
      openai::ParseChatRequest(openai::ParseBody(Chat().dump()), served);
  std::vector<GenerateResult> results(1);
  results[0].text = "Once";
  results[0].tokens = {5};
  for (const bool late : {false, true}) {
    const Json want = late ? Json("deadline") : Json();
    results[0].finish = late ? FinishReason::kDeadline : FinishReason::kLength;
    const Json message = Json::parse(AnthropicFormat(call, served)->Whole(results));
    EXPECT_EQ(message["stop_reason"], "max_tokens");
    EXPECT_EQ(message.value("ended_by", Json()), want);
    const auto anthropic = AnthropicFormat(call, served);
    anthropic->First(0);
    const Json delta = LastEvent(anthropic->Last(0, results[0]), "message_delta")["delta"];
    EXPECT_EQ(delta["stop_reason"], "max_tokens");
    EXPECT_EQ(delta.value("ended_by", Json()), want);

    const Json response =
        Json::parse(ResponsesFormat(call, served, openai::Json::object())->Whole(results));
    EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
    EXPECT_EQ(response["incomplete_details"].value("ended_by", Json()), want);
    const auto responses = ResponsesFormat(call, served, openai::Json::object());
    std::string events = responses->First(0) + responses->Last(0, results[0]);
    events += responses->End(results);
    const Json end = LastEvent(events, "response.incomplete")["response"];
    EXPECT_EQ(end["incomplete_details"].value("ended_by", Json()), want);
  }
}

}  // namespace
}  // namespace oort::serve
