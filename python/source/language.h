// SPDX-License-Identifier: MIT
// A language model as Python sees it: requests from any thread or task, run together by one engine.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "oort/engine_loop.h"
#include "oort/grammar.h"
#include "openai/answer_parts.h"
#include "pictures.h"
#include "stream.h"

namespace oort::python {

namespace nb = nanobind;

/// The model, its engine on a thread of its own, and its grammars. The engine starts with the first
/// request.
class Model {
 public:
  Model(std::shared_ptr<const LanguageModel> model, const EngineLoopOptions& options)
      : model_(std::move(model)), options_(options) {}
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const LanguageModel& model() const { return *model_; }
  std::unique_ptr<Stream> Submit(const nb::dict& request);
  nb::dict Stats() const;
  /// Bytes of a file, or an array of pixels.
  PictureHandle ReadPicture(const nb::object& given);

 private:
  std::shared_ptr<EngineThread> Engine();
  std::shared_ptr<const TokenConstraint> Constraint(const nb::object& form,
                                                    const std::optional<openai::ToolUse>& tools);

  std::shared_ptr<const LanguageModel> model_;
  EngineLoopOptions options_;
  mutable std::mutex mutex_;  // of what follows
  std::shared_ptr<EngineThread> engine_;
  std::unique_ptr<GrammarCompiler> grammars_;
  std::shared_ptr<PictureSource> pictures_;
};

void BindLanguage(nb::module_& module);

}  // namespace oort::python
