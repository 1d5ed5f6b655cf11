// SPDX-License-Identifier: MIT
#include "serve/v2_tensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/problems.h"
#include "openai/fields.h"
#include "openai/json_writer.h"

namespace oort::serve {
namespace {

using openai::Fields;
using openai::Json;
using openai::JsonWriter;
using openai::RequestError;

constexpr std::array<std::pair<std::string_view, DType>, 10> kTypes = {{
    {"BOOL", DType::kBool},
    {"UINT8", DType::kU8},
    {"INT8", DType::kI8},
    {"INT16", DType::kI16},
    {"INT32", DType::kI32},
    {"INT64", DType::kI64},
    {"FP16", DType::kF16},
    {"BF16", DType::kBF16},
    {"FP32", DType::kF32},
    {"FP64", DType::kF64},
}};

constexpr size_t kMostTensors = 256;

/// Calls `use` with a value of the element type.
template <typename Use>
void WithType(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kBool: return use(bool());
    case DType::kU8: return use(uint8_t());
    case DType::kI8: return use(int8_t());
    case DType::kI16: return use(int16_t());
    case DType::kI32: return use(int32_t());
    case DType::kI64: return use(int64_t());
    case DType::kF16: return use(Half());
    case DType::kBF16: return use(BFloat16());
    case DType::kF32: return use(float());
    case DType::kF64: return use(double());
    default: throw Error(ErrorCode::kUnsupported, "the protocol has no name for this type");
  }
}

Shape ReadShape(Fields& fields) {
  const Json* list = fields.List("shape", Shape::kMaxRank);
  if (list == nullptr) fields.Fail("shape", "is missing");
  Shape shape;
  for (const Json& extent : *list) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > INT32_MAX) {
      fields.Fail("shape", "must hold whole numbers from 0 to " + std::to_string(INT32_MAX));
    }
    shape.Append(extent.get<int64_t>());
  }
  return shape;
}

/// Elements of a tensor from JSON, in nested lists or in one.
class ElementReader {
 public:
  ElementReader(Tensor& tensor, std::string path) : tensor_(tensor), path_(std::move(path)) {}

  void Read(const Json& data) {
    if (!data.is_array()) Fail("must be a list");
    const bool nested = !data.empty() && data[0].is_array();
    WithType(tensor_.dtype(), [&]<typename T>(T) {
      if (nested) return ReadAxis<T>(data, 0);
      if (data.size() != static_cast<size_t>(tensor_.elements())) {
        Fail("has " + std::to_string(data.size()) + " elements, and the shape " +
             std::to_string(tensor_.elements()));
      }
      for (const Json& element : data) Add<T>(element);
    });
  }

 private:
  [[noreturn]] void Fail(const std::string& message) const {
    throw RequestError(path_, Quote(path_) + " " + message);
  }

  /// No deeper than the tensor has axes.
  template <typename T>
  void ReadAxis(const Json& data, int axis) {
    if (axis == tensor_.rank()) return Add<T>(data);
    if (!data.is_array() || data.size() != static_cast<size_t>(tensor_.dim(axis))) {
      Fail("is not nested as its shape " + tensor_.shape().ToString() + " says");
    }
    for (const Json& part : data) ReadAxis<T>(part, axis + 1);
  }

  template <typename T>
  void Add(const Json& element) {
    T& target = tensor_.data<T>()[next_++];
    if constexpr (std::is_same_v<T, bool>) {
      if (!element.is_boolean()) Fail("must hold true and false");
      target = element.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      const bool whole = element.is_number_integer() &&
                         !(element.is_number_unsigned() && element.get<uint64_t>() > INT64_MAX);
      const int64_t value = whole ? element.get<int64_t>() : 0;
      if (!whole || value < std::numeric_limits<T>::min() ||
          value > std::numeric_limits<T>::max()) {
        Fail("must hold whole numbers that " + std::string(V2Name(kDTypeOf<T>)) + " has");
      }
      target = static_cast<T>(value);
    } else {
      if (!element.is_number()) Fail("must hold numbers");
      if constexpr (std::is_same_v<T, double>) {
        target = element.get<double>();
      } else {
        target = T(element.get<float>());
      }
    }
  }

  Tensor& tensor_;
  const std::string path_;
  size_t next_ = 0;
};

/// The bytes behind the JSON, handed out from the front.
class BinaryParts {
 public:
  explicit BinaryParts(std::string_view bytes) : rest_(bytes) {}
  void Take(Tensor& tensor, uint64_t bytes, Fields& fields) {
    if (bytes != tensor.bytes()) {
      fields.Fail("parameters", "has a binary_data_size of " + std::to_string(bytes) +
                                    ", and shape and datatype make " +
                                    std::to_string(tensor.bytes()) + " bytes");
    }
    if (bytes > rest_.size()) fields.Fail("parameters", "names more bytes than the body has");
    if (bytes > 0) std::memcpy(tensor.raw(), rest_.data(), bytes);
    rest_.remove_prefix(bytes);
    if (tensor.dtype() != DType::kBool) return;
    // Any other byte would be no bool at all.
    for (std::byte* at = tensor.raw(); at < tensor.raw() + bytes; ++at) {
      *at = std::byte{*at != std::byte{0}};
    }
  }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

Tensor ReadInput(Fields& fields, const Port& port, BinaryParts& parts, size_t body_bytes) {
  const auto type = fields.Text("datatype");
  if (!type) fields.Fail("datatype", "is missing");
  const auto known = std::ranges::find(kTypes, *type, [](const auto& each) { return each.first; });
  if (known == kTypes.end()) fields.Fail("datatype", "is none that is known here: " + Quote(*type));
  if (port.dtype != DType::kNull && port.dtype != known->second) {
    fields.Fail("datatype", "must be " + std::string(V2Name(port.dtype)) + " for this input");
  }
  const Shape shape = ReadShape(fields);
  // Every element takes a byte at least, so that a shape alone takes no memory.
  if (static_cast<uint64_t>(shape.elements()) > body_bytes) {
    fields.Fail("shape", shape.ToString() + " has more elements than the request has bytes");
  }
  Tensor tensor(known->second, shape);
  const Json* data = fields.Find("data");
  std::optional<int64_t> bytes;
  if (const Json* parameters = fields.Object("parameters")) {
    Fields inner(*parameters, fields.PathOf("parameters"));
    bytes = inner.Integer("binary_data_size", 0, INT64_MAX);
    inner.CheckAllKnown();
  }
  if ((data != nullptr) == bytes.has_value()) {
    fields.Fail("data", "must be there, or else the parameter binary_data_size");
  }
  if (bytes) {
    parts.Take(tensor, static_cast<uint64_t>(*bytes), fields);
  } else {
    ElementReader(tensor, fields.PathOf("data")).Read(*data);
  }
  fields.CheckAllKnown();
  return tensor;
}

void ReadInputs(Fields& fields, InferCall& call, const RuntimeGraph& graph, BinaryParts& parts,
                size_t body_bytes) {
  const std::vector<Port>& ports = graph.inputs();
  const Json* inputs = fields.List("inputs", kMostTensors);
  if (inputs == nullptr) fields.Fail("inputs", "is missing");
  call.inputs.resize(ports.size());
  for (size_t i = 0; i < inputs->size(); ++i) {
    Fields input((*inputs)[i], openai::ItemPath("inputs", i));
    const auto name = input.Text("name");
    if (!name) input.Fail("name", "is missing");
    const int index = FindInput(ports, *name);
    if (index < 0) input.Fail("name", "is no input of this model: " + Quote(*name));
    Tensor& target = call.inputs[static_cast<size_t>(index)];
    if (target.defined()) input.Fail("name", "is there twice");
    target = ReadInput(input, ports[static_cast<size_t>(index)], parts, body_bytes);
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    if (!call.inputs[i].defined()) fields.Fail("inputs", "lacks " + Quote(ports[i].name));
  }
  if (parts.left() > 0) {
    fields.Fail("inputs", "leaves " + std::to_string(parts.left()) + " bytes of the body over");
  }
}

size_t FindOutput(const std::vector<Port>& outputs, Fields& fields) {
  const auto name = fields.Text("name");
  if (!name) fields.Fail("name", "is missing");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (*name == outputs[i].name || *name == "out" + std::to_string(i)) return i;
  }
  fields.Fail("name", "is no output of this model: " + Quote(*name));
}

void ReadOutputs(Fields& fields, InferCall& call, const RuntimeGraph& graph) {
  bool binary = false;
  if (const Json* parameters = fields.Object("parameters")) {
    Fields inner(*parameters, "parameters");
    binary = inner.Bool("binary_data_output").value_or(false);
    inner.CheckAllKnown();
  }
  const Json* outputs = fields.List("outputs", kMostTensors);
  if (outputs == nullptr || outputs->empty()) {
    for (size_t i = 0; i < graph.outputs().size(); ++i) call.outputs.push_back({i, binary});
    return;
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    Fields output((*outputs)[i], openai::ItemPath("outputs", i));
    InferCall::Output wanted{FindOutput(graph.outputs(), output), binary};
    if (const Json* parameters = output.Object("parameters")) {
      Fields inner(*parameters, output.PathOf("parameters"));
      wanted.binary = inner.Bool("binary_data").value_or(binary);
      inner.CheckAllKnown();
    }
    output.CheckAllKnown();
    // The limit of results holds for each of the graph's once.
    if (std::ranges::count(call.outputs, wanted.index, &InferCall::Output::index) > 0) {
      output.Fail("name", "is there twice");
    }
    call.outputs.push_back(wanted);
  }
}

void WriteNumber(JsonWriter& out, double value) {
  if (!std::isfinite(value)) {
    throw RequestError({400,
                        "a result is no number or infinite, which JSON cannot say: ask for it "
                        "as binary data"});
  }
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.Raw({digits.data(), static_cast<size_t>(end - digits.data())});
}

void WriteElements(JsonWriter& out, const Tensor& tensor) {
  WithType(tensor.dtype(), [&]<typename T>(T) {
    for (const T& value : tensor.span<T>()) {
      if constexpr (std::is_same_v<T, bool>) {
        out.Bool(value);
      } else if constexpr (std::is_integral_v<T>) {
        out.Integer(value);
      } else if constexpr (std::is_same_v<T, double>) {
        WriteNumber(out, value);
      } else {
        const auto number = static_cast<float>(value);
        if (std::isfinite(number)) {
          out.Number(number);
        } else {
          WriteNumber(out, number);
        }
      }
    }
  });
}

}  // namespace

std::string_view V2Name(DType dtype) {
  const auto known = std::ranges::find(kTypes, dtype, [](const auto& each) { return each.second; });
  return known == kTypes.end() ? std::string_view() : known->first;
}

InferCall ParseInferRequest(std::string_view body, std::optional<size_t> json_bytes,
                            const RuntimeGraph& graph, const openai::Limits& limits) {
  if (json_bytes && *json_bytes > body.size()) {
    throw RequestError("", "Inference-Header-Content-Length is more than the body has");
  }
  const size_t head = json_bytes.value_or(body.size());
  const Json json = openai::ParseBody(body.substr(0, head), limits);
  Fields fields(json);
  BinaryParts parts(body.substr(head));
  InferCall call;
  call.id = fields.Text("id").value_or("");
  ReadOutputs(fields, call, graph);
  ReadInputs(fields, call, graph, parts, body.size());
  fields.CheckAllKnown();
  return call;
}

InferAnswer WriteInferAnswer(const InferCall& call, const std::vector<Tensor>& outputs,
                             const RuntimeGraph& graph, std::string_view model) {
  JsonWriter out;
  std::string bytes;
  bool binary = false;
  out.Open('{').Key("model_name").String(model).Key("model_version").String("1");
  if (!call.id.empty()) out.Key("id").String(call.id);
  out.Key("outputs").Open('[');
  for (const InferCall::Output& wanted : call.outputs) {
    const Tensor& tensor = outputs.at(wanted.index);
    if (V2Name(tensor.dtype()).empty()) {
      throw RequestError({400, "a result has the type " + std::string(Name(tensor.dtype())) +
                                   ", which the protocol has no name for"});
    }
    out.Open('{').Key("name").String(graph.outputs().at(wanted.index).name);
    out.Key("datatype").String(V2Name(tensor.dtype())).Key("shape").Open('[');
    for (const int64_t extent : tensor.shape()) out.Integer(extent);
    out.Close(']');
    if (wanted.binary) {
      binary = true;
      out.Key("parameters").Open('{').Key("binary_data_size");
      out.Integer(static_cast<int64_t>(tensor.bytes())).Close('}');
      bytes.append(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
    } else {
      out.Key("data").Open('[');
      WriteElements(out, tensor);
      out.Close(']');
    }
    out.Close('}');
  }
  out.Close(']').Close('}');
  InferAnswer answer{out.Take(), {}};
  if (binary) {
    answer.json_bytes = answer.body.size();
    answer.body += bytes;
  }
  return answer;
}

}  // namespace oort::serve
