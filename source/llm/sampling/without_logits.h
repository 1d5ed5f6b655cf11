// SPDX-License-Identifier: MIT
// Sampling by who has the logits: the model itself, or the GPU that made them.
#pragma once

#include "llm/sampling/token_drawer.h"
#include "oort/sampler.h"

namespace oort {

/// Whether a Sampler with these options only draws from the logits: it does not change them, and
/// tells nothing about them.
bool OnlyDraws(const SamplingOptions& options);
/// Whether it then picks the argmax, always.
bool PicksArgmax(const SamplingOptions& options);
/// Whether what it makes of the logits depends on the tokens that it picked.
bool DependsOnTokens(const SamplingOptions& options);
/// How the next token of a Sampler is drawn, but for FindLogitChanges, or the one so many further
/// on.
cuda::TokenDraw NextDraw(const Sampler& sampler, int64_t ahead = 0);
/// What Sample gives for logits from which this token was drawn; -1: there is none. `report`: what
/// the draw tells of its row, where the options ask for log-probabilities.
SampledToken SampleDrawn(Sampler& sampler, int32_t token, const cuda::DrawReport* report = nullptr);

}  // namespace oort
