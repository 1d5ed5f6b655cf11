// SPDX-License-Identifier: MIT
#include "oort/reranker.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>

#include "load.h"
#include "network.h"
#include "reranker.h"
#include "unlocked.h"

namespace oort::python {
namespace {

/// Ctrl-C is looked for between so many texts.
constexpr size_t kPairsAtATime = 256;

/// One at a time uses it; others wait.
class SharedReranker {
 public:
  SharedReranker(const std::string& folder, const nb::dict& given) {
    RerankerOptions options;
    options.raw_scores = nb::cast<bool>(given["raw_scores"]);
    options.max_tokens = nb::cast<int64_t>(given["max_tokens"]);
    options.threads = nb::cast<int>(given["threads"]);
    options.precision = PrecisionOf(nb::cast<std::string>(given["precision"]));
    options.device = DeviceOfName(nb::cast<std::string>(given["device"]));
    RunUnlocked(true, [&](const std::stop_token&) {
      const ReadingOperators reading;
      reranker_ = std::make_unique<Reranker>(folder, options);
    });
  }

  std::vector<float> Score(const std::string& query, const std::vector<std::string>& texts) {
    std::vector<float> scores;
    RunUnlocked(true, [&](const std::stop_token& stop) {
      const std::lock_guard lock(mutex_);
      for (size_t begin = 0; begin < texts.size(); begin += kPairsAtATime) {
        if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "the run was cancelled");
        const size_t count = std::min(kPairsAtATime, texts.size() - begin);
        const auto some = reranker_->Score(query, std::span(texts).subspan(begin, count)).values;
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
