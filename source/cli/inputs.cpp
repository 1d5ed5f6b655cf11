// SPDX-License-Identifier: MIT
#include "cli/inputs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <random>

#include "cli/command.h"
#include "cli/model.h"
#include "cli/text.h"

namespace oort::cli {
namespace {

namespace fs = std::filesystem;

std::string PortList(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(Describe(port));
  return names.empty() ? "none" : Join(names, ", ");
}

/// Splits "name=rest" where name is an input; the index of the input, or `otherwise`.
int SplitName(const std::vector<Port>& ports, std::string& text, int otherwise) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return otherwise;
  const int port = FindInput(ports, std::string_view(text).substr(0, equals));
  if (port < 0) return otherwise;
  text.erase(0, equals + 1);
  return port;
}

bool IsNpy(const ByteSource& source) {
  std::array<std::byte, 6> magic{};
  if (source.size() < magic.size()) return false;
  source.ReadAt(0, magic);
  return std::equal(magic.begin(), magic.end(), reinterpret_cast<const std::byte*>("\x93NUMPY"));
}

Tensor Meta(const std::vector<Port>& ports, size_t index, const std::optional<Shape>& given) {
  const Port& port = ports[index];
  const DType dtype = port.dtype == DType::kNull ? DType::kF32 : port.dtype;
  if (given) return Tensor::Meta(dtype, *given);
  Shape shape = port.shape;
  if (shape.rank() > 0 && shape[0] == Shape::kUnknown) shape[0] = 1;
  if (!port.has_shape || !shape.IsKnown()) {
    throw Error(ErrorCode::kInvalidArgument, "the model does not say the whole shape of input " +
                                                 Describe(port) + "; give --shape in" +
                                                 std::to_string(index) + "=N,C,H,W");
  }
  return Tensor::Meta(dtype, shape);
}

}  // namespace

Shape ParseShape(const std::string& text) {
  Shape shape;
  std::string_view rest = text;
  if (rest.size() >= 2 && rest.front() == '(' && rest.back() == ')') {
    rest = rest.substr(1, rest.size() - 2);
  }
  while (!rest.empty()) {
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    const bool separated = !rest.empty() && (rest[0] == ',' || rest[0] == 'x');
    if (error != std::errc() || extent < 0 || shape.rank() == Shape::kMaxRank ||
        (!rest.empty() && (!separated || rest.size() == 1))) {
      throw UsageError("'" + text + "' is not a shape such as 1,3,224,224");
    }
    shape.Append(extent);
    if (separated) rest.remove_prefix(1);
  }
  return shape;
}

std::vector<Tensor> InputMetas(const std::vector<Port>& ports,
                               const std::vector<std::string>& shapes) {
  std::vector<std::optional<Shape>> given(ports.size());
  for (std::string text : shapes) {
    const std::string original = text;
    const int port = SplitName(ports, text, ports.size() == 1 ? 0 : -1);
    if (port < 0 || text.find('=') != std::string::npos) {
      throw UsageError("--shape " + original +
                       " names no input; the model has: " + PortList(ports));
    }
    given[static_cast<size_t>(port)] = ParseShape(text);
  }
  std::vector<Tensor> metas;
  for (size_t i = 0; i < ports.size(); ++i) metas.push_back(Meta(ports, i, given[i]));
  return metas;
}

std::vector<Tensor> RandomInputs(const std::vector<Tensor>& metas) {
  std::mt19937_64 bits(1);
  std::vector<Tensor> inputs;
  for (const Tensor& meta : metas) {
    const bool whole = IsInteger(meta.dtype()) || meta.dtype() == DType::kBool;
    Tensor values(DType::kF32, meta.shape());
    float* data = values.data<float>();
    for (int64_t i = 0; i < values.elements(); ++i) {
      const float value = static_cast<float>(bits() >> 40) * 0x1p-24f;
      data[i] = whole ? static_cast<float>(value < 0.5f) : value;
    }
    inputs.push_back(values.To(meta.dtype()));
  }
  return inputs;
}

void AddNormalization(CLI::App& app, Normalization& normalization) {
  app.add_option("--mean", normalization.mean, "Subtracted from pixels after /255 (default 0)")
      ->delimiter(',')
      ->type_name("A,B,C")
      ->allow_extra_args(false);
  app.add_option("--std", normalization.std, "What pixels are divided by then (default 1)")
      ->delimiter(',')
      ->type_name("A,B,C")
      ->allow_extra_args(false);
  app.add_flag("--invert", normalization.invert, "Use 1 - x for every pixel x after /255");
}

void CheckNormalization(const Normalization& normalization) {
  for (const double deviation : normalization.std) {
    if (deviation == 0) throw UsageError("--std must not be 0");
  }
}

Tensor ReadInput(const Port& port, const std::string& path, const Normalization& normalization,
                 bool& picture) {
  if (!IsNpy(*ByteSource::File(path))) {
    picture = true;
    return ImageToTensor(ReadImage(path), port, normalization);
  }
  Tensor tensor = ReadNpy(fs::path(path));
  // NumPy's default is f64 where models take f32; anything else must fit as it is.
  if (IsFloat(port.dtype) && IsFloat(tensor.dtype())) return tensor.To(port.dtype);
  return tensor;
}

std::vector<Tensor> ReadInputs(const std::vector<Port>& ports,
                               const std::vector<std::string>& files,
                               const Normalization& normalization) {
  std::vector<Tensor> inputs(ports.size());
  if (files.size() != ports.size()) {
    throw UsageError("the model takes " + std::to_string(ports.size()) +
                     (ports.size() == 1 ? " input (" : " inputs (") + PortList(ports) +
                     "), --input gives " + std::to_string(files.size()));
  }
  int next = 0;
  bool pictures = false;
  for (std::string path : files) {
    const int port = SplitName(ports, path, -1);
    const size_t equals = path.find('=');
    std::error_code ignored;
    if (port < 0 && equals != std::string::npos && !fs::exists(path, ignored)) {
      throw UsageError("the model has no input '" + path.substr(0, equals) +
                       "'; it has: " + PortList(ports));
    }
    const auto index = static_cast<size_t>(port < 0 ? next++ : port);
    if (index >= inputs.size() || inputs[index].defined()) {
      throw UsageError("--input gives an input twice: '" + path + "'");
    }
    inputs[index] = ReadInput(ports[index], path, normalization, pictures);
  }
  if (!pictures &&
      (!normalization.mean.empty() || !normalization.std.empty() || normalization.invert)) {
    throw UsageError("--mean, --std and --invert are for pictures, and no input is one");
  }
  return inputs;
}

void MeasuredRuns::Add(CLI::App& app, int most) {
  app.add_option("--runs", runs, "Runs that are measured")
      ->type_name("R")
      ->capture_default_str()
      ->check(CLI::Range(1, most));
  app.add_option("--warmup", warmup, "Runs before, that are not")
      ->type_name("W")
      ->capture_default_str()
      ->check(CLI::Range(0, most));
  app.add_option("--shape", shapes, "Another shape than the traced one: in0=1,3,320,320")
      ->type_name("NAME=SHAPE");
  app.add_option("--input", files, "Inputs from files instead: x.npy, a picture, in0=x.npy")
      ->type_name("FILE")
      ->excludes("--shape");
}

std::vector<Tensor> MeasuredRuns::Inputs(const std::vector<Port>& ports) const {
  return files.empty() ? RandomInputs(InputMetas(ports, shapes)) : ReadInputs(ports, files, {});
}

}  // namespace oort::cli
