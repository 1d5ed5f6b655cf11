// SPDX-License-Identifier: MIT
#include "openai/rerank.h"

#include "core/problems.h"
#include "oort/reranker.h"
#include "openai/common_fields.h"
#include "openai/json_writer.h"

namespace oort::openai {
namespace {

/// A text, or an object that has nothing but one.
std::string DocumentOf(const Json& document, const std::string& path) {
  if (document.is_string()) return document.get<std::string>();
  if (!document.is_object()) {
    throw RequestError(path, Quote(path) + " must be a text, or an object with a \"text\"");
  }
  Fields fields(document, path);
  const auto text = fields.Text("text");
  if (!text) fields.Fail("text", "is missing: documents are texts");
  fields.CheckAllKnown();
  return std::string(*text);
}

}  // namespace

RerankCall ParseRerankRequest(const Json& body, const std::string& model_name,
                              const std::vector<std::string>& aliases, bool any_name,
                              const RerankLimits& limits) {
  Fields fields(body);
  CheckModelName(fields, model_name, aliases, any_name);
  fields.Ignore({"user"});
  RerankCall call;
  call.query = std::string(fields.Text("query").value_or(""));
  if (call.query.empty()) fields.Fail("query", "must be a text that is not empty");
  call.top = static_cast<size_t>(fields.Integer("top_n", 1, INT32_MAX).value_or(0));
  call.timeout = ReadTimeout(fields);
  call.with_documents = fields.Bool("return_documents").value_or(true);
  const Json* documents = fields.List("documents", limits.documents);
  if (documents == nullptr || documents->empty()) {
    fields.Fail("documents",
                "must be a list of 1 to " + std::to_string(limits.documents) + " texts");
  }
  fields.CheckAllKnown();
  for (size_t i = 0; i < documents->size(); ++i) {
    call.documents.push_back(DocumentOf((*documents)[i], ItemPath("documents", i)));
  }
  return call;
}

std::string RerankResults(const RerankCall& call, std::span<const float> scores) {
  JsonWriter out;
  out.Open('[');
  for (const size_t place : BestScores(scores, call.top)) {
    out.Open('{').Key("index").Integer(static_cast<int64_t>(place));
    out.Key("relevance_score").Number(scores[place]);
    if (call.with_documents) {
      out.Key("document").Open('{').Key("text").String(call.documents[place]).Close('}');
    }
    out.Close('}');
  }
  return out.Close(']').Take();
}

std::string RerankBody(const RerankCall& call, const std::string& id, const std::string& model_name,
                       std::span<const float> scores, const RerankCost& cost) {
  JsonWriter out;
  out.Open('{').Key("id").String(id).Key("object").String("list").Key("model").String(model_name);
  out.Key("usage").Open('{').Key("prompt_tokens").Integer(cost.tokens);
  out.Key("total_tokens").Integer(cost.tokens).Close('}');
  out.Key("truncated").Integer(cost.truncated);
  out.Key("results").Raw(RerankResults(call, scores)).Close('}');
  return out.Take();
}

}  // namespace oort::openai
