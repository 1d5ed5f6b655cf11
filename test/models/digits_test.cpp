// SPDX-License-Identifier: MIT
// The committed digits model on drawn digits, beside torch's answers (models/digits/answers.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kit/paths.h"
#include "oort/npy.h"
#include "oort/oort.h"
#include "oort/testing.h"

namespace oort {
namespace {

const std::filesystem::path kFolder = SourceTree() / "models" / "digits";

/// The number after "key": in drawn.json; -1 without one.
int64_t Drawn(const std::string& key) {
  std::ifstream file(kFolder / "drawn.json");
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const size_t at = all.find("\"" + key + "\":");
  return at == std::string::npos ? -1 : std::atoll(all.c_str() + at + key.size() + 3);
}

int64_t CountCorrect(const Tensor& logits, const Tensor& labels) {
  const int64_t classes = logits.shape()[1];
  int64_t correct = 0;
  for (int64_t i = 0; i < labels.elements(); ++i) {
    const float* row = logits.data<float>() + i * classes;
    correct += std::max_element(row, row + classes) - row == labels.data<int64_t>()[i];
  }
  return correct;
}

TEST(Digits, AreRecognisedAsInTorch) {
  const Tensor pixels = ReadNpy(kFolder / "drawn" / "in0.npy");
  const Tensor labels = ReadNpy(kFolder / "drawn" / "labels.npy");
  ASSERT_EQ(labels.elements(), Drawn("count"));
  Tensor input = Tensor::Zeros(DType::kF32, pixels.shape());
  std::transform(pixels.data<uint8_t>(), pixels.data<uint8_t>() + pixels.elements(),
                 input.data<float>(), [](uint8_t pixel) { return pixel / 255.0f; });

  Session session(RuntimeGraph::Load(kFolder / "digits.pnnx.param", kFolder / "digits.pnnx.bin"));
  const Tensor logits = session.Forward({input}).at(0);
  ASSERT_EQ(logits.shape(), (Shape{labels.elements(), 10}));
  testing::ExpectNear(logits, ReadNpy(kFolder / "drawn" / "out0.npy"), {1e-4, 1e-3});
  // The two best answers are nowhere so close that rounding could decide.
  EXPECT_EQ(CountCorrect(logits, labels), Drawn("correct"));
}

}  // namespace
}  // namespace oort
