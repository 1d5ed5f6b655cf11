// SPDX-License-Identifier: MIT
// The committed digits model on the digits that its training never saw.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "oort/npy.h"
#include "oort/oort.h"

namespace oort {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(OORT_SOURCE_DIR) / "models" / "digits";

/// The number after the first "key": in accuracy.json, where the held-out digits come first.
int64_t HeldOut(const std::string& key) {
  std::ifstream file(kFolder / "accuracy.json");
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
  const Tensor pixels = ReadNpy(kFolder / "heldout" / "in0.npy");
  const Tensor labels = ReadNpy(kFolder / "heldout" / "labels.npy");
  ASSERT_EQ(labels.elements(), HeldOut("count"));

  Tensor input = Tensor::Zeros(DType::kF32, pixels.shape());
  std::transform(pixels.data<uint8_t>(), pixels.data<uint8_t>() + pixels.elements(),
                 input.data<float>(), [](uint8_t pixel) { return pixel / 255.0f; });
  Session session(RuntimeGraph::Load(kFolder / "digits.pnnx.param", kFolder / "digits.pnnx.bin"));
  const std::vector<Tensor> outputs = session.Forward({input});
  ASSERT_EQ(outputs.size(), 1u);
  ASSERT_EQ(outputs[0].shape(), (Shape{labels.elements(), 10}));
  // One digit may lie so near a border that rounding decides.
  EXPECT_NEAR(CountCorrect(outputs[0], labels), HeldOut("correct"), 1);
}

}  // namespace
}  // namespace oort
