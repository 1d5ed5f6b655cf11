// SPDX-License-Identifier: MIT
// Tiny vision-language models answer about pictures as transformers does; see
// test/checkpoints/make_vision.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm/engine_impl.h"
#include "oort/engine.h"
#include "oort/picture_reader.h"
#include "text/json.h"

namespace oort {
namespace {

namespace fs = std::filesystem;
using Pictures = std::vector<std::shared_ptr<const Picture>>;

const fs::path kCheckpoints = TestData() / "checkpoints";

json::Json AnswersOf(const std::string& name) {
  return json::Parse(testing::FileBytes(kCheckpoints / (name + ".json")), name)["answers"];
}

std::shared_ptr<const LanguageModel> Model(const std::string& name) {
  return LanguageModel::Load(kCheckpoints / name, {.exact = true});
}

std::vector<float> Floats(const json::Json& list) { return list.get<std::vector<float>>(); }
std::vector<int32_t> Tokens(const json::Json& list) { return list.get<std::vector<int32_t>>(); }

/// A message with pictures before its text.
ChatInputs Asked(const std::string& question, size_t pictures = 1) {
  json::Json content = json::Json::array();
  for (size_t i = 0; i < pictures; ++i) content.push_back({{"type", "image"}});
  content.push_back({{"type", "text"}, {"text", question}});
  ChatInputs inputs;
  inputs.messages = json::Json::array({{{"role", "user"}, {"content", content}}}).dump();
  return inputs;
}

GenerateRequest Greedy(std::vector<int32_t> prompt, Pictures pictures, int64_t tokens) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.pictures = std::move(pictures);
  request.max_tokens = tokens;
  request.ignore_end = true;
  request.sampling.temperature = 0;
  return request;
}

class VisionModel : public ::testing::TestWithParam<std::string> {};

TEST_P(VisionModel, CutsPicturesAsTheProcessor) {
  const auto model = Model(GetParam());
  for (const json::Json& item : AnswersOf(GetParam())) {
    SCOPED_TRACE(item["picture"].dump());
    const PictureFormat& format = *model->picture_format();
    const PictureTiles tiles =
        CutTiles(ReadImage(kCheckpoints / item["picture"].get<std::string>()), format);
    EXPECT_EQ(tiles.rows, item["rows"].get<int64_t>());
    EXPECT_EQ(tiles.columns, item["columns"].get<int64_t>());
    const std::vector<float> want = Floats(item["pixels"]);
    const std::span<const float> got = tiles.pixels.span<float>();
    ASSERT_EQ((got.size() + 96) / 97, want.size());
    // Pillow's weights have a few bits: two levels of 255, which are from -1 to 1 here.
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[97 * i], want[i], 2.01 * 2 / 255) << i;
  }
}

TEST_P(VisionModel, GivesTheRowsAndTokensOfTransformers) {
  const auto model = Model(GetParam());
  PictureReader reader(model);
  for (const json::Json& item : AnswersOf(GetParam())) {
    SCOPED_TRACE(item["picture"].dump());
    const std::string file = item["picture"];
    const Pictures pictures = {reader.Read(kCheckpoints / file)};
    // A picture that is a tile as it is has the very pixels that transformers saw.
    const bool same = GetParam() == "idefics3" && file == "vision_square.png";
    const float tolerance = same ? 2e-4F : 0.15F;
    const Tensor& rows = pictures[0]->embeddings;
    for (const size_t end : {size_t{0}, size_t{1}}) {
      const std::vector<float> want = Floats(item["features"][end]);
      const int64_t row = end == 0 ? 0 : rows.dim(0) - 1;
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_NEAR(rows.data<float>()[row * rows.dim(1) + static_cast<int64_t>(i)], want[i],
                    tolerance);
      }
    }
    EXPECT_EQ(model->EncodeChat(Asked(item["question"]), "default", {}, pictures),
              Tokens(item["prompt"]));
  }
}

/// The logits behind a prompt that is read in parts, where pixels are the very same.
TEST(VisionLogits, AreThoseOfTransformers) {
  const auto model = Model("idefics3");
  PictureReader reader(model);
  for (const json::Json& item : AnswersOf("idefics3")) {
    if (item["picture"] != "vision_square.png") continue;
    const std::vector<int32_t> prompt = Tokens(item["prompt"]);
    const PicturePlaces places({reader.Read(kCheckpoints / "vision_square.png")}, prompt,
                               model->picture_format()->token, model->info().hidden);
    const std::vector<int32_t> marked = places.Marked(prompt);
    for (const size_t step : {marked.size(), size_t{7}, size_t{1}}) {
      DecoderRunner runner(model, KvType::kF32, 64, 1);
      CachedSequence sequence;
      sequence.pictures = &places;
      std::span<const float> logits;
      for (size_t at = 0; at < marked.size(); at += step) {
        const StepItem part{&sequence,
                            std::span(marked).subspan(at, std::min(step, marked.size() - at))};
        logits = runner.Step({&part, 1});
      }
      const std::vector<float> want = Floats(item["logits"]);
      ASSERT_EQ(logits.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(logits[i], want[i], 5e-4) << i;
      sequence = {};
    }
  }
}

/// Side by side with texts and each other, in parts of several sizes, with and without room in the
/// cache for all of them.
TEST_P(VisionModel, AnswersAsTransformers) {
  const auto model = Model(GetParam());
  PictureReader reader(model);
  const json::Json answers = AnswersOf(GetParam());
  const std::vector<int32_t> text = model->EncodeChat(Asked("Hello", 0));
  Engine alone(model, {.threads = 1, .kv = KvType::kF32});
  const std::vector<int32_t> said = alone.Generate(Greedy(text, {}, 10)).tokens;
  checks_steps = true;
  for (const int64_t chunk : {512, 40, 17, 1}) {
    for (const int64_t cache : {1024, 192}) {
      SCOPED_TRACE(std::to_string(chunk) + " tokens a step, a cache of " + std::to_string(cache));
      Engine engine(model, {.threads = 1,
                            .kv = KvType::kF32,
                            .cache_tokens = cache,
                            .prompt_chunk = chunk,
                            .reserve_cache = false});
      std::vector<int64_t> ids;
      for (const json::Json& item : answers) {
        const auto picture = reader.Read(kCheckpoints / item["picture"].get<std::string>());
        ids.push_back(engine.Submit(Greedy(Tokens(item["prompt"]), {picture}, 10)));
        ids.push_back(engine.Submit(Greedy(text, {}, 10)));
      }
      while (engine.Step()) {
      }
      for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(engine.Take(ids[i])->tokens, i % 2 == 1 ? said : Tokens(answers[i / 2]["tokens"]))
            << i;
      }
    }
  }
  checks_steps = false;
}

/// Who talks about a picture goes on while a large one is read for somebody else.
TEST(PictureReader, GivesKnownPicturesWhileOthersAreRead) {
  PictureReader reader(Model("smolvlm"));
  const std::string file = testing::FileBytes(kCheckpoints / "vision_tall.png");
  const auto bytes = std::as_bytes(std::span(file));
  const std::shared_ptr<const Picture> known = reader.Read(bytes);
  std::string large = "P6\n2400 1800\n255\n" + std::string(size_t{2400} * 1800 * 3, 'x');
  bool seen = false;
  for (int turn = 0; turn < 100 && !seen; ++turn) {
    large.back() = static_cast<char>(turn);  // another picture
    std::atomic<bool> begun = false, done = false;
    std::thread other([&] {
      begun = true;
      reader.Read(std::as_bytes(std::span(large)));
      done = true;
    });
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(reader.Read(bytes), known);
    seen = !done;
    other.join();
  }
  EXPECT_TRUE(seen);
}

INSTANTIATE_TEST_SUITE_P(Tiny, VisionModel, ::testing::Values("smolvlm", "idefics3"));

/// What the cache holds of one picture must not serve another one of the same shape.
TEST(VisionPrefix, IsSharedOnlyWithTheSamePicture) {
  const auto model = Model("smolvlm");
  PictureReader reader(model);
  const fs::path path = kCheckpoints / "vision_wide.png";
  const auto picture = reader.Read(path);
  Image turned = ReadImage(path);
  std::ranges::reverse(turned.pixels);
  const auto other = model->EncodePicture(CutTiles(turned, *model->picture_format()));
  const std::vector<int32_t> prompt = model->EncodeChat(Asked("What?"), "default", {}, {{picture}});
  ASSERT_EQ(prompt, model->EncodeChat(Asked("What?"), "default", {}, {{other}}));
  Engine engine(model, {.threads = 1, .kv = KvType::kF32});
  const GenerateResult first = engine.Generate(Greedy(prompt, {picture}, 8));
  const GenerateResult second = engine.Generate(Greedy(prompt, {other}, 8));
  const GenerateResult third = engine.Generate(Greedy(prompt, {picture}, 8));
  EXPECT_EQ(second.reused_tokens, 0);  // the text before the picture is shorter than a block
  EXPECT_NE(first.tokens, second.tokens);
  EXPECT_GE(third.reused_tokens, 80);
  EXPECT_EQ(first.tokens, third.tokens);
}

/// Where the cache has no room for all answers, some give way, and are read once more with their
/// picture.
TEST(VisionPrefix, IsReadAgainWithItsPicture) {
  const auto model = Model("smolvlm");
  PictureReader reader(model);
  const auto picture = reader.Read(kCheckpoints / "vision_tall.png");
  const std::vector<int32_t> prompt = model->EncodeChat(Asked("What?"), "default", {}, {{picture}});
  GenerateRequest request = Greedy(prompt, {picture}, 40);
  request.sampling.temperature = 1;
  request.n = 6;
  const auto answers_of = [](const GenerateResult& result) {
    std::vector<std::vector<int32_t>> answers = {result.tokens};
    for (const GeneratedAnswer& other : result.others) answers.push_back(other.tokens);
    return answers;
  };
  EngineOptions options{.threads = 1, .kv = KvType::kF32};
  options.cache_tokens = 2048;
  Engine large(model, options);
  const auto want = answers_of(large.Generate(request));
  for (const bool shares : {true, false}) {
    options.cache_tokens = 192;
    options.reuse_prefixes = shares;
    Engine small(model, options);
    EXPECT_EQ(answers_of(small.Generate(request)), want);
    EXPECT_GT(small.stats().preemptions, 0);
  }
}

TEST(VisionPrefix, SamplesBeamsAndGuessesSeeThePicture) {
  const auto model = Model("smolvlm");
  PictureReader reader(model);
  const auto picture = reader.Read(kCheckpoints / "vision_wide.png");
  const std::vector<int32_t> prompt = model->EncodeChat(Asked("What?"), "default", {}, {{picture}});
  Engine plain(model, {.threads = 1, .kv = KvType::kF32});
  const std::vector<int32_t> want = plain.Generate(Greedy(prompt, {picture}, 8)).tokens;
  GenerateRequest search = Greedy(prompt, {picture}, 8);
  search.beams.width = 1;
  EXPECT_EQ(plain.Generate(search).tokens, want);
  for (const DraftOptions::Source source : {DraftOptions::kNgram, DraftOptions::kModel}) {
    EngineOptions options{.threads = 1, .kv = KvType::kF32};
    options.draft = {.source = source, .model = model, .tokens = 3};
    Engine guessing(model, options);
    EXPECT_EQ(guessing.Generate(Greedy(prompt, {picture}, 8)).tokens, want);
  }
}

TEST(VisionRequest, IsRefusedWhereRowsAndTokensDiffer) {
  const auto model = Model("smolvlm");
  PictureReader reader(model);
  const auto picture = reader.Read(kCheckpoints / "vision_tall.png");
  const std::vector<int32_t> prompt = model->EncodeChat(Asked("What?"), "default", {}, {{picture}});
  Engine engine(model, {.threads = 1});
  testing::ExpectThrows(
      [&] {
        engine.Submit(Greedy({7, 8}, {picture}, 1));
      },
      ErrorCode::kInvalidArgument, "0 tokens for pictures");
  testing::ExpectThrows(
      [&] {
        engine.Submit(Greedy(prompt, {picture, picture}, 1));
      },
      ErrorCode::kInvalidArgument, "tokens for pictures");
  testing::ExpectThrows([&] { engine.Submit(Greedy(prompt, {nullptr}, 1)); },
                        ErrorCode::kInvalidArgument, "is none that this model has read");
  testing::ExpectThrows([&] { model->EncodeChat(Asked("What?", 2), "default", {}, {{picture}}); },
                        ErrorCode::kInvalidArgument, "for pictures than");
  testing::ExpectThrows([&] { model->EncodeChat(Asked("What?", 0), "default", {}, {{picture}}); },
                        ErrorCode::kInvalidArgument, "for pictures than");
  testing::ExpectThrows([&] { model->EncodePicture({}); }, ErrorCode::kInvalidArgument,
                        "CutTiles makes them");
  // Without pictures the tokens are what they are.
  EXPECT_EQ(engine.Generate(Greedy(prompt, {}, 2)).tokens.size(), 2U);
}

/// What a user writes is no picture, however it looks.
TEST(VisionRequest, HasPicturesWhereTheTemplatePutsThem) {
  const auto model = Model("smolvlm");
  PictureReader reader(model);
  const auto picture = reader.Read(kCheckpoints / "vision_tall.png");
  const int32_t token = model->picture_format()->token;
  const std::vector<int32_t> prompt =
      model->EncodeChat(Asked("see <image> here"), "default", {}, {{picture}});
  EXPECT_EQ(std::ranges::count(prompt, token), picture->embeddings.dim(0));
  EXPECT_EQ(std::ranges::count(model->EncodeChat(Asked("<image>", 0)), token), 0);
  // A message that is plain text is one for such a template, too.
  const ChatMessage plain{"user", "Hello"};
  EXPECT_EQ(model->EncodeChat({&plain, 1}), model->EncodeChat(Asked("Hello", 0)));
}

TEST(VisionRequest, IsRefusedByAModelOfText) {
  const auto model = Model("llama");
  EXPECT_EQ(model->picture_format(), nullptr);
  PictureReader reader(model);
  testing::ExpectThrows([&] { reader.Read(kCheckpoints / "vision_tall.png"); },
                        ErrorCode::kUnsupported, "reads text alone");
  Engine engine(model, {.threads = 1});
  testing::ExpectThrows([&] { engine.Submit(Greedy({3}, {nullptr}, 1)); }, ErrorCode::kUnsupported,
                        "reads text alone");
}

TEST(PictureReader, RefusesWhatIsNoPictureOrTooLarge) {
  const auto model = Model("smolvlm");
  PictureReader reader(model, {.most_pixels = 40 * 40});
  const std::string text = "no picture";
  testing::ExpectThrows([&] { reader.Read(std::as_bytes(std::span(text))); },
                        ErrorCode::kInvalidModel, "neither");
  testing::ExpectThrows([&] { reader.Read(kCheckpoints / "vision_wide.png"); }, ErrorCode::kLimit,
                        "more than");
  testing::ExpectThrows([&] { reader.Read(std::span<const std::byte>()); },
                        ErrorCode::kInvalidModel, "neither");
  const std::string whole = testing::FileBytes(kCheckpoints / "vision_tall.png");
  for (size_t length = 0; length < whole.size(); length += 7) {
    const std::string cut = whole.substr(0, length);
    try {
      reader.Read(std::as_bytes(std::span(cut)));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidModel) << length;
    }
  }
}

TEST(PictureReader, KeepsWhatItHasRead) {
  const auto model = Model("idefics3");
  const fs::path tall = kCheckpoints / "vision_tall.png", wide = kCheckpoints / "vision_wide.png";
  PictureReader reader(model);
  const auto first = reader.Read(tall);
  EXPECT_NE(first, reader.Read(wide));
  EXPECT_EQ(first, reader.Read(tall));
  PictureReader small(model, {.kept_bytes = 3000});  // one of them
  const auto again = small.Read(tall);
  EXPECT_NE(again->number, first->number);
  small.Read(wide);
  EXPECT_NE(small.Read(tall), again);
}

/// Pixels that are decoded already are the same picture.
TEST(PictureReader, ReadsPixels) {
  const auto model = Model("idefics3");
  PictureReader reader(model, {.most_pixels = 60 * 60});
  const fs::path path = kCheckpoints / "vision_wide.png";
  const Image image = ReadImage(path);
  const auto first = reader.Read(image);
  const Tensor file = reader.Read(path)->embeddings;
  EXPECT_TRUE(std::ranges::equal(first->embeddings.span<float>(), file.span<float>()));
  EXPECT_EQ(reader.Read(image), first);
  EXPECT_NE(reader.Read(MakeImage(31, 53, 3, 7)), reader.Read(MakeImage(53, 31, 3, 7)));
  Image wrong = image;
  wrong.pixels.pop_back();
  testing::ExpectThrows([&] { reader.Read(wrong); }, ErrorCode::kInvalidArgument, "1 or 3");
  testing::ExpectThrows([&] { reader.Read(Image()); }, ErrorCode::kInvalidArgument, "1 or 3");
  testing::ExpectThrows([&] { reader.Read(MakeImage(61, 60, 1)); }, ErrorCode::kLimit, "at most");
}

/// What reads pictures counts where memory is limited.
TEST(VisionMemory, IsWithinTheLimit) {
  const auto model = Model("smolvlm");
  const ReaderMemory reader = model->reader_memory();
  const PictureFormat& format = *model->picture_format();
  EXPECT_GT(reader.weights, 0U);
  const int64_t pixels = format.most_tiles * 3 * format.tile * format.tile;
  EXPECT_GT(reader.activations, static_cast<size_t>(pixels) * sizeof(float));
  EngineOptions options{.threads = 1};
  const MemoryNeeds needs = NeedsOf(*model, options);
  EXPECT_GT(needs.weights, reader.weights);
  EXPECT_GT(needs.activations, reader.activations);
  options.memory_limit = needs.weights + needs.activations + needs.block;
  EXPECT_EQ(Engine(model, options).cache_tokens(), KvCache::kBlockTokens);
  --options.memory_limit;
  testing::ExpectThrows([&] { Engine(model, options); }, ErrorCode::kLimit, "leaves no room");
  EXPECT_EQ(Model("llama")->reader_memory().weights, 0U);
}

/// The thinnest and the largest become tiles, too.
TEST(CutTiles, TakesPicturesOfEveryShape) {
  const auto model = Model("smolvlm");
  const PictureFormat& format = *model->picture_format();
  for (const auto& [width, height] :
       {std::pair(1, 1), {1, 3000}, {3000, 1}, {25, 24}, {71, 72}, {2000, 1999}}) {
    const PictureTiles tiles = CutTiles(MakeImage(width, height, 1, 90), format);
    EXPECT_EQ(tiles.pixels.dim(0), tiles.rows * tiles.columns + 1);
    EXPECT_LE(tiles.pixels.dim(0), format.most_tiles);
    EXPECT_EQ(std::max(tiles.rows, tiles.columns), 3);
    for (const float pixel : tiles.pixels.span<float>()) {
      ASSERT_NEAR(pixel, 90 / 127.5 - 1, 1.1 / 127.5);
    }
  }
  PictureFormat unlimited = format;
  unlimited.longest_side = 0;
  unlimited.most_tiles = 10;
  testing::ExpectThrows([&] { CutTiles(MakeImage(3000, 3000, 3), unlimited); }, ErrorCode::kLimit,
                        "make it smaller");
}

}  // namespace
}  // namespace oort
