// SPDX-License-Identifier: MIT
// Sampling without logits, where the model itself says which token is the likeliest.
#pragma once

#include "oort/sampler.h"

namespace oort {

/// Whether a Sampler with these options picks the likeliest token, always, and tells nothing more.
bool PicksLikeliest(const SamplingOptions& options);
/// What Sample gives for logits whose likeliest token this is; -1: there is none.
SampledToken SampleLikeliest(Sampler& sampler, int32_t token);

}  // namespace oort
