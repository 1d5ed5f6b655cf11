// SPDX-License-Identifier: MIT
// Images are kept in NHWC from convolution to convolution: the
// rewritten operators take and give tensors of shape (…, H, W, C), and only at the borders of such
// a region the channels are moved. Operators that treat all elements alike come along unchanged.
#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "cpu/activation.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

/// How an operator takes part in a region.
enum class Role {
  kNone,      ///< it does not: it reads and writes NCHW
  kAnchor,    ///< it begins a region
  kFollower,  ///< it runs there as well if its inputs are there already
  kExit,      ///< so does it, but what it gives is no image any more
};

struct Renamed {
  std::string_view from, to;
};

/// Operators that have a twin for NHWC images, with the same parameters.
constexpr std::array kTwins = std::to_array<Renamed>({
    {"nn.Conv2d", "nhwc.Conv2d"},
    {"nn.MaxPool2d", "nhwc.MaxPool2d"},
    {"F.max_pool2d", "nhwc.MaxPool2d"},
    {"nn.AvgPool2d", "nhwc.AvgPool2d"},
    {"F.avg_pool2d", "nhwc.AvgPool2d"},
    {"nn.AdaptiveAvgPool2d", "nhwc.AdaptiveAvgPool2d"},
    {"F.adaptive_avg_pool2d", "nhwc.AdaptiveAvgPool2d"},
    {"nn.AdaptiveMaxPool2d", "nhwc.AdaptiveMaxPool2d"},
    {"F.adaptive_max_pool2d", "nhwc.AdaptiveMaxPool2d"},
    {"torch.cat", "nhwc.cat"},
    {"torch.chunk", "nhwc.chunk"},
    {"torch.split", "nhwc.split"},
    {"torch.mean", "nhwc.mean"},
    {"torch.sum", "nhwc.sum"},
    {"nn.Softmax", "nhwc.softmax"},
    {"F.softmax", "nhwc.softmax"},
    {"nn.LogSoftmax", "nhwc.log_softmax"},
    {"F.log_softmax", "nhwc.log_softmax"},
    {"nn.Upsample", "nhwc.Upsample"},
    {"F.interpolate", "nhwc.Upsample"},
    {"F.upsample", "nhwc.Upsample"},
    {"nn.UpsamplingNearest2d", "nhwc.Upsample"},
    {"F.upsample_nearest", "nhwc.Upsample"},
    {"nn.ChannelShuffle", "nhwc.ChannelShuffle"},
    {"nn.PixelShuffle", "nhwc.PixelShuffle"},
    {"F.pixel_shuffle", "nhwc.PixelShuffle"},
    {"nn.PixelUnshuffle", "nhwc.PixelUnshuffle"},
    {"F.pixel_unshuffle", "nhwc.PixelUnshuffle"},
});

/// Operators on single elements whose parameters are numbers.
constexpr std::array<std::string_view, 10> kElementwise = {
    "nn.Dropout",  "nn.Dropout2d", "nn.Identity", "nn.Softplus", "nn.SELU",
    "nn.Softsign", "nn.CELU",      "F.selu",      "F.softplus",  "nn.Threshold"};

std::string_view TwinOf(std::string_view type) {
  for (const Renamed& twin : kTwins) {
    if (twin.from == type) return twin.to;
  }
  return {};
}

/// What a region is made of where there is one.
bool HasRegions(const PassContext& context) {
  return context.HasLayer("nhwc.Conv2d") && context.HasLayer("nhwc.enter") &&
         context.HasLayer("nhwc.leave");
}

std::string_view ParamText(const Operator& op, const char* name, std::string_view fallback) {
  const auto found = op.params.find(name);
  return found == op.params.end() ? fallback : std::string_view(found->second.text());
}

/// A convolution that a weight of its own makes f32, padded with zeros.
bool IsPlainConv(const Operator& op) {
  const auto weight = op.attributes.find("weight");
  return weight != op.attributes.end() && weight->second.dtype() == DType::kF32 &&
         weight->second.rank() == 4 && weight->second.has_data() && op.inputs.size() == 1 &&
         ParamText(op, "padding_mode", "zeros") == "zeros";
}

/// One filter a channel: too little work to pay for moving the channels.
bool IsDepthwise(const Operator& op) {
  return op.attributes.at("weight").dim(1) == 1 && ParamText(op, "groups", "1") != "1";
}

/// An expression of elements alone, not of sizes.
bool IsElementwiseExpression(const Operator& op) {
  return op.type == "pnnx.Expression" &&
         ParamText(op, "expr", "size").find("size") == std::string_view::npos;
}

/// Axes that are computed, or that torch finds by an old rule, stay where they are.
bool HasKnownAxis(const Operator& op) {
  const bool computed =
      std::find(op.input_names.begin(), op.input_names.end(), "dim") != op.input_names.end();
  return !computed && ParamText(op, "dim", "None") != "None";
}

/// A reduction that keeps the rank gives an image; one over all pixels of a batch the same matrix
/// in both layouts.
Role ReductionRole(const Operator& op, int rank) {
  if (!HasKnownAxis(op)) return Role::kNone;
  if (ParamText(op, "keepdim", "False") == "True") return Role::kFollower;
  const Value dims = op.params.at("dim").value();
  if (rank != 4 || !dims.IsList() || dims.AsList().size() != 2) return Role::kNone;
  std::array<bool, 4> reduced{};
  for (int64_t dim : dims.AsInts()) {
    if (dim < -4 || dim > 3) return Role::kNone;
    reduced[static_cast<size_t>((dim + 4) % 4)] = true;
  }
  return reduced[2] && reduced[3] ? Role::kExit : Role::kNone;
}

/// Of rank 3 these resize one axis; sizes that are computed stay where they are.
bool ResizesImages(const Operator& op, int rank) {
  constexpr std::array<std::string_view, 4> kModes = {"nearest", "nearest-exact", "bilinear",
                                                      "bicubic"};
  const std::string_view mode = ParamText(op, "mode", "nearest");
  return rank == 4 && op.inputs.size() == 1 && ParamText(op, "antialias", "False") == "False" &&
         std::find(kModes.begin(), kModes.end(), mode) != kModes.end();
}

/// `rank` is that of the first input, -1 where it is not known.
Role TwinRole(const Operator& op, int rank) {
  const std::string_view twin = TwinOf(op.type).substr(std::string_view("nhwc.").size());
  if (twin.ends_with("Pool2d")) {
    const bool indices = ParamText(op, "return_indices", "False") != "False";
    return indices || op.outputs.size() != 1 ? Role::kNone : Role::kFollower;
  }
  if (twin == "mean" || twin == "sum") return ReductionRole(op, rank);
  if (twin == "Upsample") return ResizesImages(op, rank) ? Role::kFollower : Role::kNone;
  const bool along_axis = twin == "cat" || twin == "chunk" || twin == "split" ||
                          twin == "softmax" || twin == "log_softmax";
  return !along_axis || HasKnownAxis(op) ? Role::kFollower : Role::kNone;
}

Role RoleOf(const Operator& op, int rank) {
  if (op.type == "nn.Conv2d") {
    if (!IsPlainConv(op)) return Role::kNone;
    return IsDepthwise(op) ? Role::kFollower : Role::kAnchor;
  }
  if (!TwinOf(op.type).empty()) return TwinRole(op, rank);
  if (op.outputs.size() != 1) return Role::kNone;
  const bool known =
      std::find(kElementwise.begin(), kElementwise.end(), op.type) != kElementwise.end();
  if (known || ActivationOf(op) || IsElementwiseExpression(op)) return Role::kFollower;
  return Role::kNone;
}

class NhwcPass {
 public:
  NhwcPass(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  void Run() {
    for (int index : graph_.TopologicalOrder()) {
      if (Joins(index)) Rewrite(index);
    }
    for (const auto& [first, last] : last_of_) Leave(first, last);
  }

 private:
  bool IsLast(int operand) const { return last_of_.count(operand) != 0; }
  Operator& Op(int index) { return graph_.operators[static_cast<size_t>(index)]; }
  Operand& At(int operand) { return graph_.operands[static_cast<size_t>(operand)]; }

  bool Joins(int index) {
    const Operator& op = Op(index);
    const Role role = RoleAt(index);
    if (role == Role::kNone) return false;
    if (role == Role::kAnchor) return MayBeF32(op.inputs[0]);
    bool any = false;
    for (int input : op.inputs) {
      any = any || IsLast(input);
      if (!IsLast(input) && !MayEnter(input)) return false;
    }
    return any;
  }

  Role RoleAt(int index) {
    const Operator& op = Op(index);
    const std::string_view twin = TwinOf(op.type);
    if (!context_.HasLayer(twin.empty() ? op.type : twin)) return Role::kNone;
    const Operand* first = op.inputs.empty() ? nullptr : &At(op.inputs[0]);
    return RoleOf(op, first != nullptr && first->has_shape ? first->shape.rank() : -1);
  }

  /// Networks of 16 bits keep the few weights that pnnx folds in f32.
  bool MayBeF32(int operand) {
    return At(operand).dtype == DType::kF32 || At(operand).dtype == DType::kNull;
  }

  /// Constants and tensors that are known to be such; the kind of other operands is not known.
  bool MayEnter(int operand) {
    const Operand& value = At(operand);
    if (value.producer >= 0 && Op(value.producer).type == "pnnx.Attribute") return true;
    return value.has_shape && value.shape.rank() >= 3;
  }

  void Rewrite(int index) {
    std::vector<int> inputs = Op(index).inputs;
    const Role role = RoleAt(index);
    for (int& input : inputs) input = LastOf(input, role == Role::kAnchor);
    Operator& op = Op(index);
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::vector<int>& users = At(op.inputs[i]).consumers;
      users.erase(std::find(users.begin(), users.end(), index));
      At(inputs[i]).consumers.push_back(index);
    }
    op.inputs = std::move(inputs);
    if (const std::string_view twin = TwinOf(op.type); !twin.empty()) {
      op.type = std::string(twin);
      for (const char* settled : {"padding_mode", "antialias"}) op.params.erase(settled);
    }
    if (role == Role::kExit) return;
    for (size_t i = 0; i < Op(index).outputs.size(); ++i) {
      const int first = Op(index).outputs[i];
      const int last = Twin(first);
      Op(index).outputs[i] = last;
      At(last).producer = index;
      At(first).producer = -1;  // until Leave
      last_of_[first] = last;
    }
  }

  /// A new operand for the same image in NHWC.
  int Twin(int first) {
    const int last = graph_.AddOperand(At(first).name + ".nhwc");
    const Operand& from = At(first);
    Operand& to = At(last);
    to.dtype = from.dtype;
    to.has_shape = from.has_shape;
    to.shape = Moved(from.shape);
    return last;
  }

  static Shape Moved(Shape shape) {
    while (shape.rank() < 3) shape.Insert(0, 1);
    const int rank = shape.rank();
    Shape moved = shape;
    moved[rank - 3] = shape[rank - 2];
    moved[rank - 2] = shape[rank - 1];
    moved[rank - 1] = shape[rank - 3];
    return moved;
  }

  /// The NHWC form of an operand, made where it is used for the first time.
  int LastOf(int first, bool image) {
    const auto found = last_of_.find(first);
    if (found != last_of_.end()) return found->second;
    const auto entered = entered_.find(first);
    if (entered != entered_.end()) return entered->second;
    const int last = Twin(first);
    Operator enter;
    enter.type = "nhwc.enter";
    enter.name = "enter_" + At(first).name;
    enter.inputs = {first};
    enter.outputs = {last};
    if (image) enter.params["image"] = Parameter("True");
    graph_.AddOperator(std::move(enter));
    entered_[first] = last;
    return last;
  }

  /// Who still reads the NCHW form gets it back.
  void Leave(int first, int last) {
    if (At(first).consumers.empty()) return;
    Operator leave;
    leave.type = "nhwc.leave";
    leave.name = "leave_" + At(first).name;
    leave.inputs = {last};
    leave.outputs = {first};
    graph_.AddOperator(std::move(leave));
  }

  Graph& graph_;
  const PassContext& context_;
  std::map<int, int> last_of_;  // operands that a region makes
  std::map<int, int> entered_;  // operands from outside
};

}  // namespace

void Nhwc(Graph& graph, const PassContext& context) {
  if (!HasRegions(context)) return;
  NhwcPass(graph, context).Run();
  // Operands that nobody reads NCHW any more have no producer now.
  graph.Remove(std::vector<bool>(graph.operators.size(), false));
}

}  // namespace oort
