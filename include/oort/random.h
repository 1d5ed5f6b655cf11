// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace oort {

/// Begins the numbers of random operators (torch.rand, torch.bernoulli …) anew, for the whole
/// process; until then the seed is 0. They are not torch's numbers, but distributed like them. Each
/// run of such an operator takes the next series, so one thread that runs a model after this call
/// gets the same results every time.
/// Thread contract: safe at any time; which series concurrent runs take depends on their order.
void SetRandomSeed(uint64_t seed);

}  // namespace oort
