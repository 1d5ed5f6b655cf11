// SPDX-License-Identifier: MIT
// A .param, followed by a zip or not: load it, and run it on small inputs. Only an Error may come
// out. Without a zip the weights are made up, so that mutations of the text alone reach far.
#include <cstring>
#include <random>

#include "oort/oort.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace oort;

constexpr int64_t kMaxElements = 1 << 16;
constexpr double kMaxFlops = 5e7;
constexpr size_t kMemory = size_t{64} << 20;

/// Gives every attribute elements, unless they are too many.
bool FillAttributes(Graph& graph) {
  int64_t elements = 0;
  for (Operator& op : graph.operators) {
    for (auto& [name, tensor] : op.attributes) {
      if (tensor.elements() > kMaxElements) return false;
      elements += tensor.elements();
      if (elements > 4 * kMaxElements) return false;
      tensor = Tensor::Zeros(tensor.dtype(), tensor.shape());
      std::byte* bytes = tensor.raw();
      const bool boolean = tensor.dtype() == DType::kBool;
      for (size_t i = 0; i < tensor.bytes(); ++i) {
        bytes[i] = static_cast<std::byte>(boolean ? i % 2 : i * 37 % 64);
      }
    }
  }
  return true;
}

/// Small numbers, some negative and out of range for an index; or the largest that there are.
void FillInput(Tensor& tensor, bool extreme) {
  const bool boolean = tensor.dtype() == DType::kBool;
  if (extreme) {
    std::memset(tensor.raw(), boolean ? 1 : 0x7f, tensor.bytes());
  } else if (tensor.dtype() != DType::kC32) {
    Tensor wide(DType::kF64, tensor.shape());
    for (int64_t i = 0; i < wide.elements(); ++i) {
      wide.data<double>()[i] = static_cast<double>(i % 7 - 2);
    }
    CopyElements(wide, tensor);
  }
}

bool MakeInputs(const RuntimeGraph& graph, size_t variant, std::vector<Tensor>& inputs) {
  for (const Port& port : graph.inputs()) {
    Shape shape = port.shape;
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] == Shape::kUnknown) shape[i] = 3;
    }
    const DType dtype = port.dtype == DType::kNull ? DType::kF32 : port.dtype;
    if (shape.elements() > kMaxElements) return false;
    inputs.push_back(Tensor::Zeros(dtype, shape));
    if (variant % 4 != 0) FillInput(inputs.back(), variant % 4 == 1);
  }
  return inputs.size() < 16;
}

void LoadAndRun(std::string param, std::string bin) {
  const size_t variant = std::hash<std::string>()(param);
  const LoadOptions options{.verify_checksums = false};
  std::shared_ptr<const RuntimeGraph> graph;
  if (bin.empty()) {
    Graph structure = ReadPnnxParam(*ByteSource::Owned(std::move(param)));
    if (!FillAttributes(structure)) return;
    graph = RuntimeGraph::Build(std::move(structure), options);
  } else {
    graph = RuntimeGraph::Load(*ByteSource::Owned(std::move(param)),
                               ByteSource::Owned(std::move(bin)), options);
  }
  std::vector<Tensor> inputs;
  if (!MakeInputs(*graph, variant, inputs)) return;
  double flops = 0, bytes = 0;
  for (const NodeReport& node : graph->Plan(inputs).nodes) {
    flops += node.work.flops;
    bytes += node.work.bytes;
  }
  if (flops > kMaxFlops || bytes > kMaxFlops) return;
  Session session(graph, {.threads = 1, .memory_limit = kMemory});
  session.Forward(inputs);
}

/// Changes one value of the text, so that the rest of the model stays whole and the change reaches
/// the operator that it is meant for.
class TextMutator {
 public:
  TextMutator(std::string& text, unsigned seed) : text_(text), random_(seed) {}

  void Mutate() {
    // A random word of the form key=value.
    const size_t equal = text_.find('=', text_.empty() ? 0 : random_() % text_.size());
    if (equal == text_.npos || equal == 0) return;
    const size_t begin = text_.find_last_of(" \n", equal) + 1;
    const size_t end = std::min(text_.find_first_of(" \n", equal), text_.size());
    const std::string key = text_.substr(begin, equal - begin + 1);
    const std::string value = text_.substr(equal + 1, end - equal - 1);
    if (key.starts_with('#')) {
      // A hint stands at every use of its operand: all must change alike.
      const std::string changed = key + ChangeShape(value);
      for (size_t at = 0; (at = text_.find(key + value, at)) != text_.npos; at += changed.size()) {
        text_.replace(at, key.size() + value.size(), changed);
      }
    } else if (key.starts_with('@')) {
      text_.replace(equal + 1, value.size(), ChangeShape(value));
    } else {
      text_.replace(equal + 1, value.size(), ChangeValue(value));
    }
  }

 private:
  static constexpr const char* kNumbers[] = {"0",
                                             "1",
                                             "-1",
                                             "2",
                                             "3",
                                             "7",
                                             "-7",
                                             "4",
                                             "65536",
                                             "nan",
                                             "inf",
                                             "1.5",
                                             "2147483647",
                                             "4294967296",
                                             "-2147483648",
                                             "1e300",
                                             "0.0",
                                             "-0.5",
                                             "9223372036854775807",
                                             "-9223372036854775808"};
  static constexpr const char* kWords[] = {"None", "True",    "False",     "()",     "zeros",
                                           "same", "reflect", "replicate", "linear", "constant",
                                           "mean", "@0",      "(1,2,3,4)", "[0,1]",  "size(@0,0)"};
  static constexpr const char* kDTypes[] = {"f32", "f64", "f16",  "bf16", "i8",   "u8", "i16",
                                            "i32", "i64", "bool", "c64",  "c128", "c32"};

  template <size_t N>
  std::string Pick(const char* const (&choices)[N]) {
    return choices[random_() % N];
  }

  /// Another number in the place of one of those in `value`.
  std::string ChangeNumber(std::string value, const std::string& by) {
    const size_t from = value.empty() ? 0 : random_() % value.size();
    const size_t digit = value.find_first_of("0123456789", from);
    if (digit == value.npos) return by;
    const size_t end = std::min(value.find_first_not_of("0123456789", digit), value.size());
    return value.replace(digit, end - digit, by);
  }
  std::string ChangeShape(const std::string& value) {
    const size_t close = value.find(')');
    if (close == value.npos || random_() % 8 == 0) return "(2,3)f32";
    const std::string shape = value.substr(0, close + 1), dtype = value.substr(close + 1);
    switch (random_() % 6) {
      case 0: return shape + Pick(kDTypes);
      case 1:
        return "(" + std::to_string(random_() % 3) + (shape == "()" ? "" : ",") + value.substr(1);
      case 2: return "()" + dtype;
      default: return ChangeNumber(shape, std::to_string(random_() % 6)) + dtype;
    }
  }
  std::string ChangeValue(const std::string& value) {
    switch (random_() % 6) {
      case 0: return Pick(kWords);
      case 1: return value.starts_with('(') ? "(1," + value.substr(1) : "(" + value + ",1)";
      case 2: return ChangeNumber(value, Pick(kNumbers));
      case 3: return Pick(kNumbers);
      default: return ChangeNumber(value, std::to_string(random_() % 5));
    }
  }

  std::string& text_;
  std::minstd_rand random_;
};

size_t FindZip(const std::string& input) {
  return std::min({input.find("PK\3\4"), input.find("PK\5\6"), input.size()});
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  if (seed % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string input(reinterpret_cast<const char*>(data), size);
  std::string text = input.substr(0, FindZip(input));
  const std::string zip = input.substr(text.size());
  TextMutator mutator(text, seed);
  for (unsigned i = 0; i <= seed % 3; ++i) mutator.Mutate();
  text += zip;
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t zip = FindZip(input);
  try {
    LoadAndRun(input.substr(0, zip), input.substr(zip));
  } catch (const oort::Error&) {
  }
  return 0;
}
