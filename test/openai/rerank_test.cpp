// SPDX-License-Identifier: MIT
// Requests of /v1/rerank, and their answers.
#include "openai/rerank.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "openai/generate_call.h"

namespace oort::openai {
namespace {

RerankCall ParseRerank(const std::string& body) {
  RerankLimits limits;
  limits.documents = 4;
  return ParseRerankRequest(ParseBody(body), "bge", {"ranker"}, false, limits);
}

TEST(Rerank, ReadsQueryAndDocuments) {
  const RerankCall call = ParseRerank(
      R"({"model":"ranker","query":"q","documents":["a",{"text":"b"},""],"top_n":2,"user":"u"})");
  EXPECT_EQ(call.query, "q");
  EXPECT_EQ(call.documents, (std::vector<std::string>{"a", "b", ""}));
  EXPECT_EQ(call.top, 2u);
  EXPECT_TRUE(call.with_documents);
  EXPECT_FALSE(
      ParseRerank(R"({"query":"q","documents":["a"],"return_documents":false})").with_documents);
}

TEST(Rerank, RefusesByField) {
  struct RefusedRerank {
    const char* body;
    const char* param;
  };
  const RefusedRerank refusals[] = {
      {R"({"documents":["a"]})", "query"},
      {R"({"query":"","documents":["a"]})", "query"},
      {R"({"query":["a"],"documents":["a"]})", "query"},
      {R"({"query":"q"})", "documents"},
      {R"({"query":"q","documents":"a"})", "documents"},
      {R"({"query":"q","documents":[]})", "documents"},
      {R"({"query":"q","documents":["a","b","c","d","e"]})", "documents"},
      {R"({"query":"q","documents":["a",1]})", "documents[1]"},
      {R"({"query":"q","documents":[{"image":"x"}]})", "documents[0].text"},
      {R"({"query":"q","documents":[{"text":"x","image":"y"}]})", "documents[0].image"},
      {R"({"query":"q","documents":["a"],"top_n":0})", "top_n"},
      {R"({"query":"q","documents":["a"],"return_documents":1})", "return_documents"},
      {R"({"query":"q","documents":["a"],"max_chunks_per_doc":1})", "max_chunks_per_doc"},
      {R"({"model":"other","query":"q","documents":["a"]})", "model"},
  };
  for (const RefusedRerank& refusal : refusals) {
    try {
      ParseRerank(refusal.body);
      ADD_FAILURE() << refusal.body;
    } catch (const RequestError& error) {
      EXPECT_EQ(error.content().param, refusal.param) << refusal.body;
    }
  }
}

TEST(Rerank, AnswersBestFirst) {
  const std::vector<float> scores = {0.25F, 0.75F, 0.5F};
  RerankCall call = ParseRerank(R"({"query":"q","documents":["a","b","c"],"top_n":2})");
  EXPECT_EQ(RerankResults(call, scores),
            R"([{"index":1,"relevance_score":0.75,"document":{"text":"b"}},)"
            R"({"index":2,"relevance_score":0.5,"document":{"text":"c"}}])");
  call.with_documents = false;
  call.top = 0;
  const Json body = ParseBody(RerankBody(call, "rerank-1", "bge", scores, {12, 1}));
  EXPECT_EQ(body["id"], "rerank-1");
  EXPECT_EQ(body["model"], "bge");
  EXPECT_EQ(body["usage"]["total_tokens"], 12);
  EXPECT_EQ(body["truncated"], 1);
  ASSERT_EQ(body["results"].size(), 3u);
  EXPECT_EQ(body["results"][2].dump(), R"({"index":0,"relevance_score":0.25})");
}

}  // namespace
}  // namespace oort::openai
