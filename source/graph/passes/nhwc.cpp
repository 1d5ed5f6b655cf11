// SPDX-License-Identifier: MIT
// Images keep NHWC layout from convolution to convolution. Operators inside of such a region take
// and give tensors of shape (…, H, W, C); only at its borders the channels are moved. Which
// operators take part is for their declarations to say (OperatorSchema::HasNhwcForm): most of them
// are replaced by their NHWC form, elementwise ones run unchanged.
#include <algorithm>
#include <map>
#include <string>

#include "graph/passes/passes.h"

namespace oort {
namespace {

bool HasBorders(const PassContext& context) {
  return context.HasLayer("nhwc.enter") && context.HasLayer("nhwc.leave");
}

/// Whether all inputs of an operator are tensors: a number that is computed has no layout.
bool ReadsTensorsOnly(const OperatorSchema& schema, const Operator& op) {
  std::vector<Problem> problems;  // BindArguments was content with the operator before
  const BoundArgs bound = BindArguments(schema, op, problems);
  for (size_t i = 0; i < bound.args.size(); ++i) {
    const ArgType type = schema.args()[i].type;
    if (bound.args[i].input >= 0 && type != ArgType::kTensor && type != ArgType::kAny) return false;
  }
  return true;
}

class NhwcPass {
 public:
  NhwcPass(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  void Run() {
    for (int index : graph_.TopologicalOrder()) {
      const NhwcRole role = RoleAt(index);
      if (Joins(index, role)) Rewrite(index, role);
    }
    for (const auto& [nchw, nhwc] : made_) Leave(nchw, nhwc);
  }

 private:
  Operator& Op(int index) { return graph_.operators[static_cast<size_t>(index)]; }
  Operand& At(int operand) { return graph_.operands[static_cast<size_t>(operand)]; }

  /// What the operator's declaration says, as far as the device has the layer for it.
  NhwcRole RoleAt(int index) {
    const Operator& op = Op(index);
    const OperatorSchema* schema = context_.Schema(op.type);
    if (schema == nullptr || !ReadsTensorsOnly(*schema, op)) return NhwcRole::kNone;
    const NhwcForm& form = schema->nhwc_form();
    if (form.type.empty()) {
      const bool unchanged = op.outputs.size() == 1 && schema->Has(Trait::kElementwise, op);
      return unchanged && context_.HasLayer(op.type) ? NhwcRole::kFollows : NhwcRole::kNone;
    }
    if (!context_.HasLayer(form.type)) return NhwcRole::kNone;
    const Operand* first = op.inputs.empty() ? nullptr : &At(op.inputs[0]);
    const int rank = first != nullptr && first->has_shape ? first->shape.rank() : -1;
    return form.role == nullptr ? NhwcRole::kFollows : form.role(op, rank);
  }

  bool Joins(int index, NhwcRole role) {
    const Operator& op = Op(index);
    if (role == NhwcRole::kNone) return false;
    if (!TakesBytes(op)) return false;
    if (role == NhwcRole::kBegins) return MayBeF32(op.inputs[0]) || IsByteImage(op.inputs[0]);
    bool any = false;
    for (int input : op.inputs) {
      const bool inside = made_.count(input) != 0;
      if (!inside && !MayEnter(input)) return false;
      any = any || inside;
    }
    return any;
  }

  /// Whether an operand is f32 as far as the trace tells. In a network of 16-bit floats a
  /// convolution can have an f32 weight that pnnx folded, but not an f32 image.
  bool MayBeF32(int operand) {
    return At(operand).dtype == DType::kF32 || At(operand).dtype == DType::kNull;
  }

  bool IsByteImage(int operand) {
    return At(operand).dtype == DType::kU8 || At(operand).dtype == DType::kI8;
  }
  /// Whether the NHWC form of an operator takes what it reads, where these are bytes.
  bool TakesBytes(const Operator& op) {
    const OperatorSchema* form = context_.Schema(context_.Schema(op.type)->nhwc_form().type);
    if (form == nullptr || op.inputs.empty() || !IsByteImage(op.inputs[0])) return true;
    const std::vector<ArgSpec>& args = form->args();
    return !args.empty() && args[0].dtypes.Contains(At(op.inputs[0]).dtype);
  }

  /// Whether an operand from outside may be converted: it is a constant, or the trace shows a
  /// tensor with room for channels and pixels. Others may be numbers or lists.
  bool MayEnter(int operand) {
    const Operand& value = At(operand);
    if (value.producer >= 0 && Op(value.producer).type == "pnnx.Attribute") return true;
    return value.has_shape && value.shape.rank() >= 3;
  }

  void Rewrite(int index, NhwcRole role) {
    for (size_t i = 0; i < Op(index).inputs.size(); ++i) {
      const int input = Op(index).inputs[i];
      graph_.ReplaceInput(index, i, NhwcOf(input, role == NhwcRole::kBegins));
    }
    TakeForm(Op(index));
    if (role == NhwcRole::kEnds) return;
    for (size_t i = 0; i < Op(index).outputs.size(); ++i) {
      const int nchw = Op(index).outputs[i];
      const int nhwc = AddNhwcOperand(nchw);
      graph_.ReplaceOutput(index, i, nhwc);  // `nchw` has no producer until Leave
      made_[nchw] = nhwc;
    }
  }

  /// Replaces an operator by its NHWC form, if it has one.
  void TakeForm(Operator& op) {
    const std::string form = context_.Schema(op.type)->nhwc_form().type;
    if (form.empty()) return;
    op.type = form;
    const OperatorSchema* schema = context_.Schema(form);
    if (schema == nullptr) return;
    std::erase_if(op.params, [&](const auto& param) { return schema->Find(param.first) < 0; });
  }

  /// A new operand for the same image in NHWC.
  int AddNhwcOperand(int nchw) {
    const int nhwc = graph_.AddOperandLike(nchw, At(nchw).name + ".nhwc");
    At(nhwc).shape = Moved(At(nhwc).shape);
    return nhwc;
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

  /// The NHWC form of an operand; one from outside is converted when it is first asked for.
  int NhwcOf(int nchw, bool image) {
    const auto made = made_.find(nchw);
    if (made != made_.end()) return made->second;
    const auto entered = entered_.find(nchw);
    if (entered != entered_.end()) return entered->second;
    Operator enter;
    enter.type = "nhwc.enter";
    enter.name = "enter_" + At(nchw).name;
    if (image) enter.params["image"] = Parameter("True");
    const int nhwc = graph_.AddOperatorOn(nchw, std::move(enter), At(nchw).name + ".nhwc");
    At(nhwc).shape = Moved(At(nhwc).shape);
    return entered_[nchw] = nhwc;
  }

  /// Converts an image back for operators outside of the region that still read it as NCHW.
  void Leave(int nchw, int nhwc) {
    if (At(nchw).consumers.empty()) return;
    Operator leave;
    leave.type = "nhwc.leave";
    leave.name = "leave_" + At(nchw).name;
    leave.inputs = {nhwc};
    leave.outputs = {nchw};
    graph_.AddOperator(std::move(leave));
  }

  Graph& graph_;
  const PassContext& context_;
  std::map<int, int> made_;     // NCHW operand that an operator of a region made -> its NHWC form
  std::map<int, int> entered_;  // NCHW operand from outside of all regions -> its NHWC form
};

}  // namespace

void Nhwc(Graph& graph, const PassContext& context) {
  if (!HasBorders(context)) return;
  NhwcPass(graph, context).Run();
  // NCHW operands that nobody reads any more have no producer either: Remove drops them.
  graph.Remove(std::vector<bool>(graph.operators.size(), false));
}

}  // namespace oort
