// SPDX-License-Identifier: MIT
// Encoder-decoders on several ranks: each rank reads what rank 0 reads, and keeps it for as long.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/local_collective.h"
#include "decoder/encoder_decoder.h"
#include "decoder/shard.h"
#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "kit/sanitized.h"
#include "llm/followed_texts.h"
#include "llm/rank_group.h"
#include "llm/step_message.h"
#include "llm/text_reader.h"
#include "oort/engine.h"
#include "text/json.h"

namespace oort {
namespace {

using testing::ExpectThrows;

const std::filesystem::path kTextRankModels = TestData() / "checkpoints";

std::shared_ptr<const LanguageModel> TextModelOn(int ranks, const std::string& name, bool exact) {
  LanguageModelOptions options;
  options.ranks.count = ranks;
  options.ranks.exact = exact;
  options.ranks.deadline = 120;  // machines that test are slow now and then
  return LanguageModel::Load(kTextRankModels / name, options);
}

std::vector<std::vector<int32_t>> TextRankPrompts(const std::string& name) {
  const json::Json want = json::Parse(testing::FileBytes(kTextRankModels / (name + ".json")), name);
  std::vector<std::vector<int32_t>> prompts;
  for (const json::Json& answer : want["answers"]) {
    prompts.push_back(answer["text"].get<std::vector<int32_t>>());
  }
  return prompts;
}

/// Greedy ones, samples, several answers and beams; more than run at a time.
std::vector<GenerateRequest> TextRankRequests(const std::string& name) {
  const auto prompts = TextRankPrompts(name);
  std::vector<GenerateRequest> requests;
  for (size_t i = 0; i < 7; ++i) {
    GenerateRequest& request = requests.emplace_back();
    request.prompt = prompts[i % prompts.size()];
    request.max_tokens = static_cast<int64_t>(18 + i);
    request.ignore_end = true;
    request.sampling.temperature = i % 3 == 1 ? 1.0f : 0.0f;
    request.sampling.seed = i;
    if (i % 3 == 1) request.n = 2;
    if (i == 6) request.n = request.beams.width = 2;
  }
  return requests;
}

using TextAnswers = std::vector<std::vector<std::vector<int32_t>>>;

/// Every third request has a neighbour that is cancelled: before it begins, or while it runs.
TextAnswers TextAnswersOn(const std::shared_ptr<const LanguageModel>& model,
                          const std::string& name, const EngineOptions& options,
                          int64_t* preemptions = nullptr) {
  Engine engine(model, options);
  std::vector<int64_t> ids, cancelled;
  for (const GenerateRequest& request : TextRankRequests(name)) {
    ids.push_back(engine.Submit(request));
    if (ids.size() % 3 == 0) cancelled.push_back(engine.Submit(request));
  }
  for (int steps = 0; engine.Step(); ++steps) {
    if (steps % 4 == 3 && !cancelled.empty()) {
      engine.Cancel(cancelled.back());
      cancelled.pop_back();
    }
  }
  if (preemptions != nullptr) *preemptions = engine.stats().preemptions;
  TextAnswers answers;
  for (const int64_t id : ids) {
    const GenerateResult result = engine.Take(id).value();
    auto& all = answers.emplace_back();
    all.push_back(result.tokens);
    for (const GeneratedAnswer& other : result.others) all.push_back(other.tokens);
  }
  return answers;
}

TEST(TextRanks, ManyRequestsAnswerAsOnOneRank) {
  EngineOptions few, tight;
  few.threads = tight.threads = 1;
  few.most_running = 3;  // the others wait
  tight.cache_tokens = 96;
  tight.reserve_cache = false;  // some are read again
  const std::vector<int> counts = testing::TriesFewer() ? std::vector{3} : std::vector{2, 3, 4};
  for (const char* name : {"t5", "t5_gated", "bart"}) {
    const auto alone = TextModelOn(1, name, false);
    const TextAnswers want = TextAnswersOn(alone, name, few);
    EXPECT_EQ(TextAnswersOn(alone, name, tight), want);
    int64_t preemptions = 0;
    EXPECT_EQ(TextAnswersOn(TextModelOn(2, name, true), name, tight, &preemptions), want) << name;
    EXPECT_GT(preemptions, 0);
    if (name != std::string("t5")) continue;
    for (const int ranks : counts) {
      EXPECT_EQ(TextAnswersOn(TextModelOn(ranks, name, true), name, few), want) << ranks;
    }
  }
}

TEST(TextRanks, TheFastSplitAnswersAlikeInEveryRun) {
  const auto model = TextModelOn(3, "t5", false);
  const TextAnswers once = TextAnswersOn(model, "t5", {.threads = 1});
  EXPECT_EQ(TextAnswersOn(model, "t5", {.threads = 1}), once);
  EXPECT_EQ(once[0], TextAnswersOn(TextModelOn(1, "t5", false), "t5", {.threads = 1})[0]);
}

/// The model has 4 heads: what a rank keeps of a text is what its heads see.
TEST(TextRanks, ARankKeepsItsHeadsOfATextAlone) {
  const auto prompt = TextRankPrompts("t5")[0];
  EXPECT_EQ(TextModelOn(1, "t5", false)->EncodePrompt(prompt)->keys.at(0).dim(1), 4);
  for (const bool exact : {false, true}) {
    const auto model = TextModelOn(2, "t5", exact);
    EXPECT_EQ(model->EncodePrompt(prompt)->keys.at(0).dim(1), 2);
    EXPECT_EQ(model->kv_shape(KvType::kF32).heads, 2);
  }
  EXPECT_EQ(TextModelOn(5, "t5", false)->EncodePrompt(prompt)->keys.at(0).dim(1), 4);
}

TEST(TextRanks, OneOfThemAloneRunsToBeMeasured) {
  LanguageModelOptions options;
  options.ranks.count = 2;
  options.ranks.lone = 1;
  const auto model = LanguageModel::Load(kTextRankModels / "bart", options);
  EXPECT_EQ(model->rank(), 0);
  Engine engine(model, {.threads = 1});
  EXPECT_EQ(engine.Generate(TextRankRequests("bart")[0]).tokens.size(), 18U);
}

TEST(TextRanks, ATextThatCannotBeReadEndsNoGroup) {
  const auto model = TextModelOn(2, "bart", true);
  const std::vector<int32_t> wrong = {40}, good = TextRankPrompts("bart")[0];
  ExpectThrows([&] { model->EncodePrompt(wrong); }, ErrorCode::kInvalidArgument,
               "not among the model's 40");
  EXPECT_EQ(model->EncodePrompt(good)->number, 0);
  EXPECT_EQ(model->EncodePrompt(good)->number, 1);
}

/// Of four heads a rank has two or one: their biases, and the keys and values that they see.
TEST(TextRanks, BiasesKeysAndValuesGoWithTheirHeads) {
  const EncoderDecoderFiles files = ReadEncoderDecoder(kTextRankModels / "t5");
  const auto prompt = TextRankPrompts("t5")[2];
  const auto read = [&](Graph encoder) {
    return TextReader(files, std::move(encoder), {}, 1).Read(prompt);
  };
  EncoderDecoderGraphs whole = BuildEncoderDecoder(files);
  const auto all = read(std::move(whole.encoder));
  int64_t heads = 0;
  for (int rank = 0; rank < 3; ++rank) {
    EncoderDecoderGraphs part = BuildEncoderDecoder(files);
    const ShardReport report = Shard(part.decoder, {.rank = rank, .ranks = 3});
    EXPECT_TRUE(part.decoder.Check().empty());
    EXPECT_EQ(report.text_heads.begin, heads);
    EXPECT_EQ(report.kv_heads, report.text_heads.size());
    int64_t layers = 0;
    for (const Operator& op : part.decoder.operators) {
      if (op.type == "oort.TextAttention" || op.type == "oort.PagedAttention") {
        EXPECT_EQ(op.params.at("heads").text(), std::to_string(report.text_heads.size()));
        ++layers;
      }
      const auto bias = op.attributes.find("distance_bias");
      if (bias == op.attributes.end()) continue;
      EXPECT_EQ(bias->second.dim(0), report.text_heads.size());
    }
    EXPECT_EQ(layers, 2 * 3);
    TakeTextHeads(part.encoder, report.text_heads);
    EXPECT_TRUE(part.encoder.Check().empty());
    const auto mine = read(std::move(part.encoder));
    ASSERT_EQ(mine->keys.size(), all->keys.size());
    for (size_t layer = 0; layer < all->keys.size(); ++layer) {
      for (const auto& [own, other] :
           {std::pair(&mine->keys, &all->keys), std::pair(&mine->values, &all->values)}) {
        const Tensor &got = own->at(layer), &from = other->at(layer);
        ASSERT_EQ(got.dim(1), report.text_heads.size());
        const int64_t head = got.dim(2) * got.dim(3);
        EXPECT_EQ(std::memcmp(got.data<float>(), from.data<float>() + heads * head, got.bytes()),
                  0);
      }
    }
    heads += report.text_heads.size();
  }
  EXPECT_EQ(heads, 4);
}

TEST(TextRanks, OthersAreToldWhatToReadAndWhenItEnds) {
  auto places = MakeLocalGroup(2, 120);
  std::vector<RankMessage> heard;
  std::thread other([&] {
    while (heard.empty() || heard.back().command != RankCommand::kStop) {
      std::vector<std::byte> bytes;
      places[1]->Broadcast("the next step", bytes, 0);
      heard.push_back(RankMessage::Read(bytes));
    }
  });
  {
    RankGroup group(std::move(places[0]), 120, false);
    const std::vector<int32_t> first = {3, 4}, second = {5};
    const auto read = [] { return std::make_shared<EncodedText>(); };
    auto one = group.Read(first, read);
    const auto two = group.Read(second, read);
    EXPECT_NE(one->number, two->number);
    one.reset();
    group.Close(7);
    group.Close(7);
  }
  other.join();
  ASSERT_EQ(heard.size(), 5U);
  EXPECT_EQ(heard[0].command, RankCommand::kRead);
  EXPECT_EQ(heard[0].prompt, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(heard[1].prompt, (std::vector<int32_t>{5}));
  EXPECT_TRUE(heard[1].ended_texts.empty());
  EXPECT_EQ(heard[2].ended_texts, std::vector<int64_t>{heard[0].text});
  EXPECT_TRUE(heard[3].ended_texts.empty());
  EXPECT_EQ(heard[4].ended_texts, std::vector<int64_t>{heard[1].text});
}

TEST(FollowedTexts, AreThoseOfRankZero) {
  FollowedTexts texts;
  const auto text = std::make_shared<const EncodedText>();
  texts.Add(4, text);
  EXPECT_EQ(texts.At(4), text.get());
  EXPECT_EQ(texts.At(-1), nullptr);
  ExpectThrows([&] { texts.Add(4, text); }, ErrorCode::kDevice, "a number that is none");
  ExpectThrows([&] { texts.Add(-2, text); }, ErrorCode::kDevice, "a number that is none");
  ExpectThrows([&] { texts.At(5); }, ErrorCode::kDevice, "has not been read");
  const std::vector<int64_t> ended = {4};
  texts.End(ended);
  EXPECT_EQ(texts.size(), 0U);
  EXPECT_EQ(text.use_count(), 1);
  ExpectThrows([&] { texts.End(ended); }, ErrorCode::kDevice, "has not been read");
}

TEST(StepMessage, HasATextToRead) {
  RankMessage message;
  message.command = RankCommand::kRead;
  message.text = 9;
  message.prompt = {1, 2, 3};
  message.ended_texts = {7, 8};
  std::vector<std::byte> bytes = message.Write();
  const RankMessage read = RankMessage::Read(bytes);
  EXPECT_EQ(read.text, 9);
  EXPECT_EQ(read.prompt, message.prompt);
  EXPECT_EQ(read.ended_texts, message.ended_texts);
  const size_t count = bytes.size() - 3 * sizeof(int32_t) - sizeof(uint64_t);
  bytes[count] = std::byte{4};  // more tokens than there are bytes for
  ExpectThrows([&] { RankMessage::Read(bytes); }, ErrorCode::kDevice, "makes no sense");
  bytes[count] = std::byte{2};  // and fewer
  ExpectThrows([&] { RankMessage::Read(bytes); }, ErrorCode::kDevice, "makes no sense");
}

}  // namespace
}  // namespace oort
