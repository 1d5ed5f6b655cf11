// SPDX-License-Identifier: MIT
// In Oort itself the build registers what is in layers/; a program of one's own does it by hand.
#include <gtest/gtest.h>

#include "oort/layer.h"

namespace oort::builtin {
void Register_hard_twist(LayerRegistry& registry);
}

int main(int argc, char** argv) {
  oort::builtin::Register_hard_twist(oort::LayerRegistry::Global());
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
