// SPDX-License-Identifier: MIT
#include "oort/reranker.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "options.h"
#include "reranker.h"
#include "unlocked.h"

namespace oort::python {
namespace {

/// So many texts are tokens at a time: their memory does not grow with the list.
constexpr size_t kPairsAtATime = 4096;

/// One at a time uses it; others wait.
class SharedReranker {
 public:
  SharedReranker(const std::string& folder, const nb::dict& given) {
    RerankerOptions options;
    Set(options.raw_scores, given, "raw_scores");
    Set(options.max_tokens, given, "max_tokens");
    Set(options.threads, given, "threads");
    SetNamed(options.precision, given, "precision", PrecisionOf);
    SetDevice(options.device, given);
    RunUnlocked(true, [&](const std::stop_token& stop) {
      options.stop = stop;
      reranker_ = std::make_unique<Reranker>(folder, options);
    });
  }

  std::vector<float> Score(const std::string& query, const std::vector<std::string>& texts) {
    std::vector<float> scores;
    RunUnlocked(true, [&](const std::stop_token& stop) {
      const std::lock_guard lock(mutex_);
      for (size_t begin = 0; begin < texts.size(); begin += kPairsAtATime) {
        const size_t count = std::min(kPairsAtATime, texts.size() - begin);
        const auto part = std::span(texts).subspan(begin, count);
        const auto some = reranker_->Score(query, part, stop).values;
        scores.insert(scores.end(), some.begin(), some.end());
      }
    });
    return scores;
  }

  const Reranker& reranker() const { return *reranker_; }

 private:
  std::mutex mutex_;
  std::unique_ptr<Reranker> reranker_;
};

}  // namespace

void BindReranker(nb::module_& module) {
  nb::class_<SharedReranker>(module, "Reranker")
      .def(nb::init<const std::string&, const nb::dict&>(), nb::arg("folder"), nb::arg("options"))
      .def("score", &SharedReranker::Score, nb::arg("query"), nb::arg("texts"))
      .def("tokenizer", [](const SharedReranker& self) { return self.reranker().tokenizer(); })
      .def_prop_ro("max_tokens",
                   [](const SharedReranker& self) { return self.reranker().max_tokens(); });
}

}  // namespace oort::python
