// SPDX-License-Identifier: MIT
#include "oort/embedder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/guard.h"
#include "core/problems.h"
#include "oort/session.h"
#include "oort/source.h"
#include "text/json.h"

namespace oort {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kDefaultTokens = 512;
constexpr size_t kMostRows = 64;
// Lengths that texts are padded to: each is a plan of its own, and the graph keeps 64.
constexpr size_t kLengthStep = 8;

constexpr const char* kParam = "model.pnnx.param";
constexpr const char* kPooling = "1_Pooling/config.json";

std::string ReadText(const fs::path& path) {
  const auto source = ByteSource::File(path);
  std::string text(source->size(), '\0');
  source->ReadAt(0, std::as_writable_bytes(std::span(text)));
  return text;
}

json::Json ReadJson(const fs::path& path) { return json::Parse(ReadText(path), path.string()); }

/// Without what the file says about lengths: how many tokens the model takes is known elsewhere.
Tokenizer ReadTokenizer(const fs::path& folder) {
  json::Json file = ReadJson(folder / "tokenizer.json");
  if (!file.is_object()) {
    throw Error(ErrorCode::kInvalidModel,
                (folder / "tokenizer.json").string() + ": no JSON object");
  }
  file["truncation"] = nullptr;
  file["padding"] = nullptr;
  return Tokenizer::FromJson(file.dump());
}

int64_t ReadMaxTokens(const fs::path& folder, int64_t wanted) {
  if (wanted > 0) return wanted;
  const fs::path path = folder / "sentence_bert_config.json";
  if (!fs::exists(path)) return kDefaultTokens;
  const json::Json file = ReadJson(path);
  const json::Object config(file, path.string());
  return std::clamp<int64_t>(config.Integer("max_seq_length").value_or(kDefaultTokens), 1, 1 << 20);
}

Pooling ReadPooling(const fs::path& folder, Pooling wanted) {
  if (wanted != Pooling::kAuto) return wanted;
  const fs::path path = folder / kPooling;
  if (!fs::exists(path)) return Pooling::kMean;
  const json::Json file = ReadJson(path);
  const json::Object config(file, path.string());
  const auto mode = [&](const char* name) {
    return config.Bool(std::string("pooling_mode_") + name).value_or(false);
  };
  if (mode("cls_token") && !mode("mean_tokens")) return Pooling::kCls;
  if (mode("mean_tokens") && !mode("cls_token")) return Pooling::kMean;
  throw Error(ErrorCode::kUnsupported,
              path.string() + ": pooling is the mean of all tokens or the first token alone");
}

void Normalize(std::span<float> vector) {
  double sum = 0;
  for (const float value : vector) sum += static_cast<double>(value) * value;
  const auto scale = static_cast<float>(1 / std::max(std::sqrt(sum), 1e-12));
  for (float& value : vector) value *= scale;
}

/// Texts that run together: their places among all, and the length that they are padded to.
struct TextBatch {
  std::vector<size_t> texts;
  size_t length = 0;
};

}  // namespace

struct Embedder::Impl {
  EmbedderOptions options;
  Tokenizer tokenizer;
  std::shared_ptr<const RuntimeGraph> graph;
  Session session;
  Pooling pooling;
  int64_t max_tokens, dimensions = 0;
  std::vector<int32_t> before, behind;  ///< tokens around a text

  Impl(const fs::path& folder, const EmbedderOptions& given)
      : options(given),
        tokenizer(ReadTokenizer(folder)),
        graph(LoadGraph(folder, given)),
        session(graph, SessionOptions{.threads = given.threads}),
        pooling(ReadPooling(folder, given.pooling)),
        max_tokens(ReadMaxTokens(folder, given.max_tokens)) {
    FindFrame();
    const std::vector<int32_t> probe = tokenizer.Encode("a");
    dimensions = Run({&probe, 1}).dimensions;
  }

  static std::shared_ptr<const RuntimeGraph> LoadGraph(const fs::path& folder,
                                                       const EmbedderOptions& options) {
    LoadOptions load;
    load.device = options.device;
    load.isa = options.isa;
    load.precision = options.precision;
    auto graph = RuntimeGraph::Load(folder / kParam, folder / "model.pnnx.bin", load);
    if (graph->inputs().empty() || graph->inputs().size() > 3 || graph->outputs().empty()) {
      throw Error(ErrorCode::kUnsupported,
                  "an encoder takes token ids, their mask and, if it must, types of tokens: this "
                  "graph has " +
                      std::to_string(graph->inputs().size()) + " inputs");
    }
    return graph;
  }

  /// What the tokenizer puts around a text.
  void FindFrame() {
    const std::vector<int32_t> plain = tokenizer.Encode("a", {.add_special = false});
    const std::vector<int32_t> whole = tokenizer.Encode("a");
    const auto at = std::search(whole.begin(), whole.end(), plain.begin(), plain.end());
    if (plain.empty() || at == whole.end()) {
      throw Error(ErrorCode::kUnsupported, "the tokenizer puts no fixed tokens around a text");
    }
    before.assign(whole.begin(), at);
    behind.assign(at + static_cast<std::ptrdiff_t>(plain.size()), whole.end());
    if (max_tokens <= static_cast<int64_t>(before.size() + behind.size())) {
      throw Error(ErrorCode::kInvalidArgument, "max_tokens leaves no room for a text");
    }
  }

  std::vector<int32_t> Join(std::span<const int32_t> plain) const {
    std::vector<int32_t> ids = before;
    ids.insert(ids.end(), plain.begin(), plain.end());
    ids.insert(ids.end(), behind.begin(), behind.end());
    return ids;
  }

  Embeddings Run(std::span<const std::vector<int32_t>> texts);
  std::vector<TextBatch> MakeBatches(std::span<const std::vector<int32_t>> texts) const;
  void RunBatch(const TextBatch& batch, std::span<const std::vector<int32_t>> texts,
                Embeddings& result);
  void CheckTokens(std::span<const int32_t> ids) const;
};

void Embedder::Impl::CheckTokens(std::span<const int32_t> ids) const {
  if (ids.empty() || static_cast<int64_t>(ids.size()) > max_tokens) {
    throw Error(ErrorCode::kInvalidArgument, "a text has 1 to " + std::to_string(max_tokens) +
                                                 " tokens, this one " + std::to_string(ids.size()));
  }
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= tokenizer.size()) {
      throw Error(ErrorCode::kInvalidArgument, "token " + std::to_string(id) +
                                                   " is not among the model's " +
                                                   std::to_string(tokenizer.size()));
    }
  }
}

/// Longest first, so that what needs most memory comes first; a power of two of texts each, so that
/// few shapes come up.
std::vector<TextBatch> Embedder::Impl::MakeBatches(
    std::span<const std::vector<int32_t>> texts) const {
  const bool masked = graph->inputs().size() > 1;
  const size_t step = masked ? kLengthStep : 1;
  const auto padded = [&](size_t text) {
    const size_t length = (texts[text].size() + step - 1) / step * step;
    return std::min(length, std::max(static_cast<size_t>(max_tokens), texts[text].size()));
  };
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return texts[a].size() > texts[b].size(); });
  std::vector<TextBatch> batches;
  for (size_t begin = 0; begin < order.size();) {
    const size_t length = padded(order[begin]);
    size_t alike = begin;
    while (alike < order.size() && padded(order[alike]) == length) ++alike;
    const size_t room = std::max<size_t>(static_cast<size_t>(options.batch_tokens) / length, 1);
    const size_t rows = std::bit_floor(std::min({alike - begin, room, kMostRows}));
    const auto first = order.begin() + static_cast<ptrdiff_t>(begin);
    batches.push_back({{first, first + static_cast<ptrdiff_t>(rows)}, length});
    begin += rows;
  }
  return batches;
}

namespace {

/// A matrix of ids, mask or types as the graph wants it.
Tensor TokenMatrix(const Port& port, const std::vector<int64_t>& values, Shape shape) {
  if (port.dtype == DType::kI32) {
    const std::vector<int32_t> narrow(values.begin(), values.end());
    return Tensor::From(std::span<const int32_t>(narrow), std::move(shape));
  }
  if (port.dtype == DType::kF32) {
    const std::vector<float> real(values.begin(), values.end());
    return Tensor::From(std::span<const float>(real), std::move(shape));
  }
  return Tensor::From(std::span<const int64_t>(values), std::move(shape));
}

/// The mean of the first `tokens` rows, or the first row.
void Pool(std::span<const float> states, size_t tokens, Pooling pooling, std::span<float> vector) {
  const size_t rows = pooling == Pooling::kCls ? 1 : tokens;
  std::vector<double> sums(vector.size(), 0);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < vector.size(); ++i) sums[i] += states[row * vector.size() + i];
  }
  for (size_t i = 0; i < vector.size(); ++i) {
    vector[i] = static_cast<float>(sums[i] / static_cast<double>(rows));
  }
}

}  // namespace

void Embedder::Impl::RunBatch(const TextBatch& batch, std::span<const std::vector<int32_t>> texts,
                              Embeddings& result) {
  const size_t rows = batch.texts.size(), length = batch.length;
  std::vector<std::vector<int64_t>> columns(3, std::vector<int64_t>(rows * length, 0));
  for (size_t row = 0; row < rows; ++row) {
    const std::vector<int32_t>& ids = texts[batch.texts[row]];
    std::ranges::copy(ids, columns[0].begin() + static_cast<ptrdiff_t>(row * length));
    std::fill_n(columns[1].begin() + static_cast<ptrdiff_t>(row * length), ids.size(), 1);
  }
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < graph->inputs().size(); ++i) {
    inputs.push_back(TokenMatrix(graph->inputs()[i], columns[i],
                                 {static_cast<int64_t>(rows), static_cast<int64_t>(length)}));
  }
  const Tensor output = session.Forward(inputs).at(0);
  const Shape& shape = output.shape();
  const bool states = shape.rank() == 3 && shape[1] == static_cast<int64_t>(length);
  const bool fits = (states || shape.rank() == 2) && shape[0] == static_cast<int64_t>(rows) &&
                    output.dtype() == DType::kF32;
  if (!fits) {
    throw Error(ErrorCode::kUnsupported,
                "an encoder gives hidden states (texts, tokens, width) or vectors (texts, width) "
                "of f32; this graph gives " +
                    output.ToString());
  }
  const auto width = static_cast<size_t>(shape[shape.rank() - 1]);
  result.dimensions = static_cast<int64_t>(width);
  result.values.resize(texts.size() * width);
  const std::span<const float> numbers = output.span<float>();
  for (size_t row = 0; row < rows; ++row) {
    const size_t text = batch.texts[row];
    const std::span<float> vector = std::span(result.values).subspan(text * width, width);
    const size_t stride = states ? length * width : width;
    Pool(numbers.subspan(row * stride, stride), texts[text].size(),
         states ? pooling : Pooling::kCls, vector);
    if (options.normalize) Normalize(vector);
    result.tokens += static_cast<int64_t>(texts[text].size());
  }
}

Embeddings Embedder::Impl::Run(std::span<const std::vector<int32_t>> texts) {
  Embeddings result;
  result.dimensions = dimensions;
  for (const auto& ids : texts) CheckTokens(ids);
  for (const TextBatch& batch : MakeBatches(texts)) RunBatch(batch, texts, result);
  return result;
}

Embedder::Embedder(const fs::path& folder, const EmbedderOptions& options)
    : impl_(Guarded([&] {
        if (options.batch_tokens < 1 || options.max_tokens < 0) {
          throw Error(ErrorCode::kInvalidArgument, "numbers of tokens are not negative");
        }
        return std::make_unique<Impl>(folder, options);
      })) {}
Embedder::~Embedder() = default;
Embedder::Embedder(Embedder&&) noexcept = default;
Embedder& Embedder::operator=(Embedder&&) noexcept = default;

std::vector<int32_t> Embedder::Encode(std::string_view text, bool* truncated) const {
  return Guarded([&] {
    std::vector<int32_t> plain = impl_->tokenizer.Encode(text, {.add_special = false});
    const size_t room =
        static_cast<size_t>(impl_->max_tokens) - impl_->before.size() - impl_->behind.size();
    if (truncated != nullptr) *truncated = plain.size() > room;
    if (plain.size() > room) plain.resize(room);
    return impl_->Join(plain);
  });
}

Embeddings Embedder::Embed(std::span<const std::string> texts) {
  return Guarded([&] {
    std::vector<std::vector<int32_t>> ids;
    ids.reserve(texts.size());
    int64_t cut = 0;
    for (const std::string& text : texts) {
      bool truncated = false;
      ids.push_back(Encode(text, &truncated));
      cut += truncated;
    }
    Embeddings result = impl_->Run(ids);
    result.truncated = cut;
    return result;
  });
}

Embeddings Embedder::EmbedTokens(std::span<const std::vector<int32_t>> texts) {
  return Guarded([&] { return impl_->Run(texts); });
}

int64_t Embedder::dimensions() const { return impl_->dimensions; }
int64_t Embedder::max_tokens() const { return impl_->max_tokens; }
const Tokenizer& Embedder::tokenizer() const { return impl_->tokenizer; }

bool IsEncoder(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kParam, ignored) && fs::exists(folder / kPooling, ignored);
}

}  // namespace oort
