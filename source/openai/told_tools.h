// SPDX-License-Identifier: MIT
// Tools for models whose chat template knows none: they are told of them in a message, as Hermes
// is, and may call them in its way.
#pragma once

#include "oort/language_model.h"

namespace oort::openai {

/// Whether the model's template takes the tools of a request.
bool TemplateKnowsTools(const LanguageModel& model);

/// For a model whose template does not: moves `tools` into the first message where that is the
/// system's (or the developer's), into a system message of their own, or before what the user says
/// first, whichever the template takes. Where it knows no calls of before either, these and their
/// results become text: results are what the user says, in one message with what the user says
/// beside them.
void TellOfTools(const LanguageModel& model, const ChatLimits& limits, ChatInputs& inputs);

}  // namespace oort::openai
