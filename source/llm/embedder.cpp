// SPDX-License-Identifier: MIT
#include "oort/embedder.h"

#include <algorithm>
#include <cmath>

#include "core/guard.h"
#include "llm/text_encoder.h"
#include "oort/error.h"
#include "oort/source.h"
#include "text/json.h"

namespace oort {
namespace {

namespace fs = std::filesystem;

constexpr const char* kParam = "model.pnnx.param";
constexpr const char* kPooling = "1_Pooling/config.json";

json::Json ReadJson(const fs::path& path) {
  const auto source = ByteSource::File(path);
  std::string text(source->size(), '\0');
  source->ReadAt(0, std::as_writable_bytes(std::span(text)));
  return json::Parse(text, path.string());
}

/// What sentence-transformers does with vectors besides pooling and normalizing.
void CheckModules(const fs::path& folder) {
  const fs::path path = folder / "modules.json";
  if (!fs::exists(path)) return;
  const json::Json file = ReadJson(path);
  if (!file.is_array()) throw Error(ErrorCode::kInvalidModel, path.string() + ": no list");
  for (const json::Json& entry : file) {
    const json::Object module(entry, path.string());
    const std::string type = module.RequireText("type");
    if (type.ends_with(".Transformer") || type.ends_with(".Pooling") ||
        type.ends_with(".Normalize")) {
      continue;
    }
    throw Error(ErrorCode::kUnsupported,
                path.string() + ": " + type +
                    " cannot be computed; Transformer, Pooling and Normalize can");
  }
}

Pooling ReadPooling(const fs::path& folder, Pooling wanted) {
  if (wanted != Pooling::kAuto) return wanted;
  const fs::path path = folder / kPooling;
  if (!fs::exists(path)) return Pooling::kMean;
  const json::Json file = ReadJson(path);
  const json::Object config(file, path.string());
  // Files say a name, old ones which of several are true.
  const json::Json* name = config.Find("pooling_mode");
  const auto mode = [&](const char* now, const char* then) {
    if (name != nullptr) return name->is_string() && *name == now;
    return config.Bool(std::string("pooling_mode_") + then).value_or(false);
  };
  const bool cls = mode("cls", "cls_token"), mean = mode("mean", "mean_tokens");
  if (cls != mean) return cls ? Pooling::kCls : Pooling::kMean;
  throw Error(ErrorCode::kUnsupported,
              path.string() + ": pooling is the mean of all tokens or the first token alone");
}

void Normalize(std::span<float> vector) {
  double sum = 0;
  for (const float value : vector) sum += static_cast<double>(value) * value;
  const auto scale = static_cast<float>(1 / std::max(std::sqrt(sum), 1e-12));
  for (float& value : vector) value *= scale;
}

}  // namespace

struct Embedder::Impl {
  EmbedderOptions options;
  Tokenizer tokenizer;
  TextEncoder encoder;
  Pooling pooling;
  int64_t max_tokens, dimensions = 0;
  std::vector<int32_t> before, behind;  ///< tokens around a text

  Impl(const fs::path& folder, const EmbedderOptions& given)
      : options(given),
        tokenizer(ReadEncoderTokenizer(folder)),
        encoder(folder, {.batch_tokens = given.batch_tokens,
                         .threads = given.threads,
                         .precision = given.precision,
                         .isa = given.isa,
                         .device = given.device,
                         .stop = given.stop,
                         .progress = given.progress}),
        pooling(ReadPooling(folder, given.pooling)),
        max_tokens(ReadMaxTokens(folder, given.max_tokens, encoder.most_tokens())) {
    CheckModules(folder);
    encoder.SetLongest(max_tokens);
    FindFrame();
    const std::vector<int32_t> probe = tokenizer.Encode("a");
    dimensions = Run({&probe, 1}, given.stop).dimensions;
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

  Embeddings Run(std::span<const std::vector<int32_t>> texts, const std::stop_token& stop);
  void Take(const TextBatch& batch, std::span<const std::vector<int32_t>> texts,
            const Tensor& output, Embeddings& result) const;
};

namespace {

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

void Embedder::Impl::Take(const TextBatch& batch, std::span<const std::vector<int32_t>> texts,
                          const Tensor& output, Embeddings& result) const {
  const size_t rows = batch.texts.size(), length = batch.length;
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

Embeddings Embedder::Impl::Run(std::span<const std::vector<int32_t>> texts,
                               const std::stop_token& stop) {
  Embeddings result;
  result.dimensions = dimensions;
  for (const auto& ids : texts) CheckEncoderTokens(ids, max_tokens, tokenizer);
  encoder.Run(texts, {}, stop, [&](const TextBatch& batch, const Tensor& output) {
    Take(batch, texts, output, result);
  });
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

Embeddings Embedder::Embed(std::span<const std::string> texts, const std::stop_token& stop) {
  return Guarded([&] {
    std::vector<std::vector<int32_t>> ids;
    ids.reserve(texts.size());
    int64_t cut = 0;
    for (const std::string& text : texts) {
      bool truncated = false;
      ids.push_back(Encode(text, &truncated));
      cut += truncated;
    }
    Embeddings result = impl_->Run(ids, stop);
    result.truncated = cut;
    return result;
  });
}

Embeddings Embedder::EmbedTokens(std::span<const std::vector<int32_t>> texts,
                                 const std::stop_token& stop) {
  return Guarded([&] { return impl_->Run(texts, stop); });
}

int64_t Embedder::dimensions() const { return impl_->dimensions; }
int64_t Embedder::max_tokens() const { return impl_->max_tokens; }
const Tokenizer& Embedder::tokenizer() const { return impl_->tokenizer; }

bool IsEncoder(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / kParam, ignored)) return fs::exists(folder / kPooling, ignored);
  return IsTextEncoder(folder) && !HasScoringHead(folder);
}

}  // namespace oort
