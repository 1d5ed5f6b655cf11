// SPDX-License-Identifier: MIT
#include "oort/embedder.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

#include "arrays.h"
#include "embedder.h"
#include "oort/error.h"
#include "options.h"
#include "unlocked.h"

namespace oort::python {
namespace {

/// So many texts are tokens at a time: their memory does not grow with the list.
constexpr size_t kTextsAtATime = 4096;

Pooling PoolingOf(const std::string& name) {
  if (name == "auto") return Pooling::kAuto;
  if (name == "mean") return Pooling::kMean;
  if (name == "cls") return Pooling::kCls;
  throw Error(ErrorCode::kInvalidArgument, "pooling '" + name + "' is not auto, mean or cls");
}

EmbedderOptions EmbedderOptionsOf(const nb::dict& given) {
  EmbedderOptions options;
  SetNamed(options.pooling, given, "pooling", PoolingOf);
  Set(options.normalize, given, "normalize");
  Set(options.max_tokens, given, "max_tokens");
  Set(options.threads, given, "threads");
  SetNamed(options.precision, given, "precision", PrecisionOf);
  SetDevice(options.device, given);
  return options;
}

/// One at a time uses it; others wait.
class SharedEmbedder {
 public:
  SharedEmbedder(const std::string& folder, const nb::dict& given) {
    EmbedderOptions options = EmbedderOptionsOf(given);
    RunUnlocked(true, [&](const std::stop_token& stop) {
      options.stop = stop;
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
        const size_t count = std::min(kTextsAtATime, texts.size() - begin);
        const Embeddings some = embedder_->Embed(std::span(texts).subspan(begin, count), stop);
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

}  // namespace

void BindEmbedder(nb::module_& module) {
  nb::class_<SharedEmbedder>(module, "Embedder")
      .def(nb::init<const std::string&, const nb::dict&>(), nb::arg("folder"), nb::arg("options"))
      .def("embed", &SharedEmbedder::Embed, nb::arg("texts"))
      .def("tokenizer", [](const SharedEmbedder& self) { return self.embedder().tokenizer(); })
      .def_prop_ro("dimensions",
                   [](const SharedEmbedder& self) { return self.embedder().dimensions(); })
      .def_prop_ro("max_tokens",
                   [](const SharedEmbedder& self) { return self.embedder().max_tokens(); });
  module.def("is_encoder", [](const std::string& path) { return IsEncoder(path); });
}

}  // namespace oort::python
