// SPDX-License-Identifier: MIT
#include "zoo.h"

#include "kit/files.h"

namespace oort::testing {
namespace {

std::string TextOf(const Graph& graph) { return PnnxParamText(graph); }

bool SameWeights(const Graph& a, const Graph& b) {
  for (const char* name : {"bias", "weight"}) {
    const Tensor& x = a.operators[1].attributes.at(name);
    const Tensor& y = b.operators[1].attributes.at(name);
    if (!std::equal(x.raw(), x.raw() + x.bytes(), y.raw(), y.raw() + y.bytes())) return false;
  }
  return true;
}

/// Loads `model`: an Error, or the very graph of the good model.
void ExpectErrorOrSame(const Model& model, const Graph& good) {
  const MemoryUse use = Measure([&] {
    try {
      const Graph graph = model.Read();
      EXPECT_EQ(TextOf(graph), TextOf(good));
      EXPECT_TRUE(SameWeights(graph, good));
    } catch (const Error& error) {
      EXPECT_EQ(Name(error.code()), Name(ErrorCode::kInvalidModel)) << error.what();
    }
  });
  EXPECT_LE(use.peak, MemoryLimit(model));
  EXPECT_EQ(use.left, 0u);
}

TEST_P(Zoo, IsRefused) {
  Model model;
  GetParam().spoil(model);
  ExpectFailsCheaply(
      model,
      [](const ByteSource& param, std::shared_ptr<const ByteSource> bin) { ReadPnnx(param, bin); },
      GetParam().code, GetParam().text);
}

TEST_P(Zoo, IsRefusedFromFilesToo) {
  Model model;
  GetParam().spoil(model);
  const TemporaryFolder folder;
  WriteFile(folder / "m.param", model.param);
  WriteFile(folder / "m.bin", model.Bin());
  ExpectThrows([&] { RuntimeGraph::Load(folder / "m.param", folder / "m.bin"); }, GetParam().code,
               GetParam().text);
}

TEST(ZooModel, IsGood) {
  Model model;
  EXPECT_EQ(model.Read().operators.size(), 4u);
  EXPECT_EQ(TextOf(model.Read()), model.param);
  model.zip.zip64 = true;
  EXPECT_EQ(model.Read().operators.size(), 4u);
  if (!HasOperator("nn.Conv2d") || !HasOperator("nn.ReLU")) {
    GTEST_SKIP() << "nn.Conv2d or nn.ReLU is not in this build";
  }
  Session session(model.Load());
  EXPECT_EQ(session.Forward({Tensor::Zeros(DType::kF32, {1, 2, 4, 4})}).size(), 1u);
}

TEST(ZooCuts, EveryPrefixOfTheParam) {
  const Model whole;
  const Graph good = whole.Read();
  for (size_t size = 0; size < whole.param.size(); ++size) {
    SCOPED_TRACE(size);
    Model cut;
    cut.param.resize(size);
    ExpectErrorOrSame(cut, good);
    if (size + 40 < whole.param.size()) {
      EXPECT_THROW(cut.Read(), Error);
    }
  }
}

TEST(ZooCuts, EveryPrefixOfTheBin) {
  for (const bool zip64 : {false, true}) {
    Model model;
    model.zip.zip64 = zip64;
    const std::string bin = model.Bin();
    for (size_t size = 0; size < bin.size(); ++size) {
      model.whole_bin = bin.substr(0, size);
      ExpectThrows([&] { model.Read(); }, ErrorCode::kInvalidModel, "cannot load");
    }
  }
}

TEST(ZooCuts, EveryPieceMissingFromTheParam) {
  // Each word left out once; the reader may take it, but must not fail in any other way.
  const Model whole;
  for (size_t at = 0; at < whole.param.size(); ++at) {
    for (const size_t length : {1, 5, 30}) {
      Model model;
      model.param.erase(at, length);
      try {
        model.Read();
      } catch (const Error&) {
      }
    }
  }
}

TEST(ZooFlips, EveryByteOfTheBin) {
  const Graph good = Model().Read();
  for (const bool zip64 : {false, true}) {
    Model model;
    model.zip.zip64 = zip64;
    const std::string bin = model.Bin();
    for (size_t at = 0; at < bin.size(); ++at) {
      for (const int flip : {0x01, 0x80, 0xff}) {
        SCOPED_TRACE(at);
        model.whole_bin = bin;
        (*model.whole_bin)[at] = static_cast<char>(bin[at] ^ flip);
        ExpectErrorOrSame(model, good);
      }
    }
  }
}

TEST(ZooFlips, EveryByteOfTheParam) {
  const Model whole;
  for (size_t at = 0; at < whole.param.size(); ++at) {
    for (const char c : {' ', '\n', '0', '9', '-', '=', ')', '@', '#', '\xff'}) {
      Model model;
      model.param[at] = c;
      const MemoryUse use = Measure([&] {
        try {
          model.Read();
        } catch (const Error&) {
        }
      });
      ASSERT_LE(use.peak, MemoryLimit(model));
      ASSERT_EQ(use.left, 0u);
    }
  }
}

/// Files as dense as they can be made: what a byte may cost at most.
TEST(ZooMemory, DenseFilesStayWithinAFactor) {
  constexpr int kMany = 100000;
  const std::string head = "7767517\n1 1\n";
  std::string inputs = head + "F.x x " + std::to_string(kMany) + " 0";
  std::string operands = head + "F.x x 0 " + std::to_string(kMany);
  std::string words = head + "F.x x 0 0";
  std::string attributes = head + "F.x x 0 0";
  std::string operators = "7767517\n" + std::to_string(kMany) + " 0\n";
  std::string broken = head;
  for (int i = 0; i < kMany; ++i) {
    const std::string number = std::to_string(i);
    inputs += " 0";
    operands += " " + number;
    words += " " + number;
    attributes += " @" + number + "=()u8";
    operators += "F.x " + number + " 0 0\n";
    broken += "F.x x 1 1 1 1\n";
  }
  for (const std::string* text : {&inputs, &operands, &words, &attributes, &operators, &broken}) {
    const auto source = ByteSource::Owned(*text);
    const MemoryUse use = Measure([&] {
      try {
        ReadPnnxParam(*source);
      } catch (const Error& error) {
        EXPECT_LE(error.problems().size(), 103u);
      }
    });
    EXPECT_LE(use.peak, text->size() * 64) << text->substr(0, 40);
    EXPECT_EQ(use.left, 0u);
  }
}

TEST(ZooMemory, CountsReserveNothing) {
  const auto source = ByteSource::Owned("7767517\n2147483647 2147483647\n");
  const MemoryUse use = Measure([&] { EXPECT_THROW(ReadPnnxParam(*source), Error); });
  EXPECT_LE(use.peak, 10000u);
}

TEST(ZooMemory, ManyEntriesOnOnePayloadCostNothing) {
  // A hundred attributes that all claim the same large entry: a "zip bomb" of references.
  Model model;
  std::string line = "pnnx.Attribute big 0 1 9";
  for (int i = 0; i < 100; ++i) line += " @a" + std::to_string(i) + "=(100000)f32";
  model.AddLine(line, 1);
  model.entries.push_back({"big.a0", std::string(400000, 'x')});
  for (int i = 1; i < 100; ++i) {
    ZipSpec same{.name = "big.a" + std::to_string(i), .bytes = ""};
    same.size = 400000;
    same.offset = 0;
    model.entries.push_back(same);
  }
  const std::string bin = model.Bin();
  const auto param = ByteSource::Owned(model.param);
  const auto source = ByteSource::Owned(bin);
  const MemoryUse use = Measure([&] { EXPECT_THROW(ReadPnnx(*param, source), Error); });
  EXPECT_LE(use.peak, 2 * bin.size());
}

}  // namespace
}  // namespace oort::testing
