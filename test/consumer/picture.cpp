// SPDX-License-Identifier: MIT
// A program of a stranger's with a network and a picture: oort::media of an installed Oort.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "oort/image.h"
#include "oort/runtime_graph.h"
#include "oort/session.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "picture NETWORK.pnnx.param NETWORK.pnnx.bin PICTURE\n");
    return 2;
  }
  try {
    oort::Session session(oort::RuntimeGraph::Load(argv[1], argv[2]));
    const oort::Image gray = oort::Resize(oort::ToGray(oort::ReadImage(argv[3])), 28, 28);
    oort::Tensor input(oort::DType::kF32, oort::Shape{1, 1, 28, 28});
    std::transform(gray.pixels.begin(), gray.pixels.end(), input.data<float>(),
                   [](float pixel) { return pixel / 255; });
    const oort::Tensor scores = session.Forward({input}).at(0);
    const float* const begin = scores.data<float>();
    std::printf("this is a %d\n", static_cast<int>(std::max_element(begin, begin + 10) - begin));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
