// SPDX-License-Identifier: MIT
// Any bytes as the body of a request for text; the first one says to which address. An error that
// is the client's, or requests an engine can take: with prompts of real tokens that fit the
// context.
#include <algorithm>
#include <filesystem>
#include <string_view>

#include "harness.h"
#include "oort/error.h"
#include "openai/generate_call.h"
#include "openai/request_error.h"

namespace {

using oort::openai::GenerateCall;
using oort::openai::ServedModel;

void Check(bool holds) {
  if (!holds) __builtin_trap();
}

const ServedModel& Served() {
  static const ServedModel served = [] {
    ServedModel model;
    model.model = oort::LanguageModel::Load(OORT_FUZZ_STORYTELLER, {.exact = true});
    model.name = "storyteller";
    model.context = model.model->info().context;
    return model;
  }();
  return served;
}

void CheckCall(const GenerateCall& call) {
  const auto& info = Served().model->info();
  Check(!call.requests.empty() && call.choices() <= 64u * 16u);
  Check(call.prompts.size() == call.requests.size() && call.n >= 1);
  for (const oort::GenerateRequest& request : call.requests) {
    Check(request.n == call.n && (request.best_of == 0 || request.best_of >= request.n));
    Check(static_cast<int64_t>(request.prompt.size()) <= Served().context);
    for (const int32_t token : request.prompt) Check(token >= 0 && token < info.vocabulary);
  }
}

}  // namespace

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const auto json = oort::openai::ParseBody(body);
    CheckCall(data[0] == 'p' ? oort::openai::ParseCompletionsRequest(json, Served())
                             : oort::openai::ParseChatRequest(json, Served()));
    oort::fuzz::CountWhole();
  } catch (...) {
    const oort::openai::ApiError error = oort::openai::ApiErrorOf(std::current_exception());
    Check(error.status >= 400 && error.status < 500 && !error.message.empty());
  }
  return 0;
}
