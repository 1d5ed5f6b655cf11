// SPDX-License-Identifier: MIT
#include "oort/embedder.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

#include "arrays.h"
#include "embedder.h"
#include "load.h"
#include "network.h"
#include "unlocked.h"

namespace oort::python {
namespace {

/// Ctrl-C is looked for between so many texts.
constexpr size_t kTextsAtATime = 256;

/// One at a time uses it; others wait.
class SharedEmbedder {
 public:
  SharedEmbedder(const std::string& folder, const EmbedderOptions& options) {
    RunUnlocked(true, [&](const std::stop_token&) {
      const ReadingOperators reading;
      embedder_ = std::make_unique<Embedder>(folder, options);
    });
  }

  nb::tuple Embed(const std::vector<std::string>& texts) {
    const int64_t width = embedder_->dimensions();
    Tensor vectors(DType::kF32, Shape{static_cast<int64_t>(texts.size()), width});
    int64_t tokens = 0, truncated = 0;
    RunUnlocked(true, [&](const std::stop_token& stop) {
      const std::lock_guard lock(mutex_);
      auto* to = vectors.data<float>();
      for (size_t begin = 0; begin < texts.size(); begin += kTextsAtATime) {
        if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "the run was cancelled");
        const size_t count = std::min(kTextsAtATime, texts.size() - begin);
        const Embeddings some = embedder_->Embed(std::span(texts).subspan(begin, count));
        to = std::copy(some.values.begin(), some.values.end(), to);
        tokens += some.tokens;
        truncated += some.truncated;
      }
    });
    return nb::make_tuple(ArrayOf(vectors, Framework::kNumpy), tokens, truncated);
  }

  const Embedder& embedder() const { return *embedder_; }

 private:
  std::mutex mutex_;
  std::unique_ptr<Embedder> embedder_;
};

EmbedderOptions OptionsOf(const nb::dict& options) {
  EmbedderOptions result;
  const auto pooling = nb::cast<std::string>(options["pooling"]);
  if (pooling == "mean") {
    result.pooling = Pooling::kMean;
  } else if (pooling == "cls") {
    result.pooling = Pooling::kCls;
  } else if (pooling != "auto") {
    throw Error(ErrorCode::kInvalidArgument, "pooling '" + pooling + "' is not auto, mean or cls");
  }
  result.normalize = nb::cast<bool>(options["normalize"]);
  result.max_tokens = nb::cast<int64_t>(options["max_tokens"]);
  result.threads = nb::cast<int>(options["threads"]);
  result.precision = PrecisionOf(nb::cast<std::string>(options["precision"]));
  result.device = DeviceOfName(nb::cast<std::string>(options["device"]));
  return result;
}

}  // namespace

void BindEmbedder(nb::module_& module) {
  nb::class_<SharedEmbedder>(module, "Embedder")
      .def(
          "__init__",
          [](SharedEmbedder* self, const std::string& folder, const nb::dict& options) {
            new (self) SharedEmbedder(folder, OptionsOf(options));
          },
          nb::arg("folder"), nb::arg("options"))
      .def("embed", &SharedEmbedder::Embed, nb::arg("texts"))
      .def("tokenizer", [](const SharedEmbedder& self) { return self.embedder().tokenizer(); })
      .def_prop_ro("dimensions",
                   [](const SharedEmbedder& self) { return self.embedder().dimensions(); })
      .def_prop_ro("max_tokens",
                   [](const SharedEmbedder& self) { return self.embedder().max_tokens(); });
  module.def("is_encoder", [](const std::string& path) { return IsEncoder(path); });
}

}  // namespace oort::python
