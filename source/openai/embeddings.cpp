// SPDX-License-Identifier: MIT
#include "openai/embeddings.h"

#include <bit>

#include "core/problems.h"
#include "openai/common_fields.h"
#include "openai/json_writer.h"
#include "text/base64.h"

namespace oort::openai {
namespace {

void AddInput(EmbeddingsCall& call, const Json& input, const std::string& path,
              const EmbeddingsLimits& limits) {
  const bool text = input.is_string() && !input.get_ref<const std::string&>().empty();
  if (!text && (!input.is_array() || input.empty())) {
    throw RequestError(
        path, Quote(path) + " must be a text that is not empty, token ids, or a list of these");
  }
  if (text) {
    call.inputs.emplace_back(input.get<std::string>());
  } else {
    call.inputs.emplace_back(ReadIds(input, path, limits.vocabulary));
  }
}

/// Little-endian whatever the machine is.
std::string Bytes(std::span<const float> vector) {
  std::string bytes;
  bytes.reserve(vector.size() * 4);
  for (const float value : vector) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift & 255);
  }
  return bytes;
}

}  // namespace

EmbeddingsCall ParseEmbeddingsRequest(const Json& body, const std::string& model_name,
                                      const std::vector<std::string>& aliases, bool any_name,
                                      int64_t dimensions, const EmbeddingsLimits& limits) {
  Fields fields(body);
  CheckModelName(fields, model_name, aliases, any_name);
  fields.Ignore({"user"});
  EmbeddingsCall call;
  call.timeout = ReadTimeout(fields);
  const std::string format(fields.Text("encoding_format").value_or("float"));
  if (format != "float" && format != "base64") {
    fields.Fail("encoding_format", "must be \"float\" or \"base64\"");
  }
  call.base64 = format == "base64";
  const auto wanted = fields.Integer("dimensions", 1, INT32_MAX);
  if (wanted && *wanted != dimensions) {
    fields.Fail("dimensions",
                "must be " + std::to_string(dimensions) + ": the model has no others");
  }
  const Json* input = fields.Find("input");
  if (input == nullptr) fields.Fail("input", "is missing");
  fields.CheckAllKnown();
  if (input->is_string() || (input->is_array() && !input->empty() && (*input)[0].is_number())) {
    AddInput(call, *input, "input", limits);
    return call;
  }
  if (!input->is_array() || input->empty() || input->size() > limits.inputs) {
    fields.Fail("input",
                "must be a text or a list of 1 to " + std::to_string(limits.inputs) + " texts");
  }
  for (size_t i = 0; i < input->size(); ++i) {
    AddInput(call, (*input)[i], ItemPath("input", i), limits);
  }
  return call;
}

std::string EmbeddingsBody(const EmbeddingsCall& call, const std::string& model_name,
                           std::span<const float> vectors, int64_t dimensions,
                           int64_t prompt_tokens) {
  JsonWriter out;
  out.Open('{').Key("object").String("list").Key("data").Open('[');
  const auto width = static_cast<size_t>(dimensions);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::span<const float> vector = vectors.subspan(i * width, width);
    out.Open('{').Key("object").String("embedding").Key("index").Integer(static_cast<int64_t>(i));
    out.Key("embedding");
    if (call.base64) {
      out.String(text::EncodeBase64(Bytes(vector)));
    } else {
      out.Open('[');
      for (const float value : vector) out.Number(value);
      out.Close(']');
    }
    out.Close('}');
  }
  out.Close(']').Key("model").String(model_name);
  out.Key("usage").Open('{').Key("prompt_tokens").Integer(prompt_tokens);
  out.Key("total_tokens").Integer(prompt_tokens).Close('}').Close('}');
  return out.Take();
}

}  // namespace oort::openai
