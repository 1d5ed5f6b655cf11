// SPDX-License-Identifier: MIT
#pragma once

#include "oort/c_network.h"
#include "oort/tensor.h"

struct oort_tensor {
  oort::Tensor tensor;
};
