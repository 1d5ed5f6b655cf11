// SPDX-License-Identifier: MIT
#include <algorithm>

#include "layers/expression/code.h"

namespace oort::expression {
namespace {

/// Puts the nodes that `root` needs into an order and gives them slots.
class Compiler {
 public:
  Compiler(const Dag& dag, int root)
      : dag_(dag),
        root_(root),
        need_(dag.nodes().size()),
        uses_(dag.nodes().size()),
        slot_(dag.nodes().size(), -1) {}

  Code Run() {
    code_.dtype = dag_[root_].dtype;
    CountRegisters();
    Schedule();
    StoreRoot();
    code_.in_f16 = InHalves();
    return std::move(code_);
  }

 private:
  size_t At(int node) const { return static_cast<size_t>(node); }

  /// How many registers each node needs (Sethi and Ullman), arguments before users.
  void CountRegisters() {
    for (size_t node = 0; node < need_.size(); ++node) {
      const DagNode& n = dag_.nodes()[node];
      if (n.kind != DagNode::kInstruction) continue;
      std::array<int, 3> needs{};
      for (size_t i = 0; i < needs.size(); ++i) {
        if (n.args[i] >= 0) needs[i] = need_[At(n.args[i])];
      }
      std::sort(needs.begin(), needs.end(), std::greater<>());
      need_[node] = std::max({1, needs[0], needs[1] + 1, needs[2] + 2});
    }
  }

  /// The argument that needs most registers goes first. No recursion: chains may be long.
  void Schedule() {
    std::vector<int> stack = {root_};
    std::vector<bool> opened(need_.size());
    std::vector<int> order;
    while (!stack.empty()) {
      const int node = stack.back();
      const DagNode& n = dag_[node];
      if (opened[At(node)] || n.kind != DagNode::kInstruction) {
        stack.pop_back();
        if (slot_[At(node)] == -1) order.push_back(node);
        slot_[At(node)] = -2;  // scheduled
        continue;
      }
      opened[At(node)] = true;
      std::array<int, 3> args = n.args;
      const auto need = [&](int arg) { return arg < 0 ? -1 : need_[At(arg)]; };
      std::sort(args.begin(), args.end(), [&](int a, int b) { return need(a) < need(b); });
      for (int arg : args) {
        if (arg >= 0 && !opened[At(arg)]) stack.push_back(arg);
      }
      for (int arg : n.args) {
        if (arg >= 0) ++uses_[At(arg)];
      }
    }
    for (int node : order) Place(node);
  }

  int NewSlot() { return code_.slots++; }

  void Place(int node) {
    const DagNode& n = dag_[node];
    code_.item = std::max(code_.item, n.item);
    if (n.kind == DagNode::kOperand) {
      slot_[At(node)] = NewSlot();
      code_.operands.push_back({slot_[At(node)], n.operand, n.item, n.dtype});
    } else if (n.kind == DagNode::kConstant) {
      slot_[At(node)] = NewSlot();
      code_.constants.push_back({slot_[At(node)], n.constant, n.item, ComputeDType(n.dtype)});
    } else {
      PlaceInstruction(node);
    }
  }

  void PlaceInstruction(int node) {
    const DagNode& n = dag_[node];
    Code::Instruction instruction{n.kernel, n.opcode, {-1, -1, -1}, 0, {}};
    for (size_t i = 0; i < n.args.size(); ++i) {
      if (n.args[i] >= 0) instruction.args[i] = slot_[At(n.args[i])];
    }
    // The target is taken before the arguments are given back: kernels whose elements differ in
    // size must not run in place.
    if (free_.empty()) {
      slot_[At(node)] = NewSlot();
    } else {
      slot_[At(node)] = free_.back();
      free_.pop_back();
    }
    instruction.target = slot_[At(node)];
    for (size_t i = 0; i < instruction.repeated.size() && n.opcode.kind == Opcode::kCall; ++i) {
      instruction.repeated[i] = FindRepeatedKernel(n.opcode.function, i, n.opcode.from, dag_.isa());
    }
    code_.instructions.push_back(instruction);
    if (n.arithmetic) ++code_.arithmetic;
    for (int arg : n.args) {
      if (arg < 0 || dag_[arg].kind != DagNode::kInstruction) continue;
      if (--uses_[At(arg)] == 0) free_.push_back(slot_[At(arg)]);
    }
  }

  /// The root is written straight to the output, unless its block is not what tensors store.
  void StoreRoot() {
    const DagNode& root = dag_[root_];
    code_.item = std::max(code_.item, ItemSize(root.dtype));
    const DType held = ComputeDType(root.dtype);
    if (root.kind == DagNode::kInstruction && held == root.dtype) {
      code_.instructions.back().target = 0;
      return;
    }
    const Kernel store = FindConversion(held, root.dtype);
    if (store == nullptr) {
      throw Error(ErrorCode::kUnsupported,
                  "no arithmetic on dtype " + std::string(Name(root.dtype)));
    }
    const Opcode opcode{Opcode::kConvert, {}, held, root.dtype};
    code_.instructions.push_back({store, opcode, {slot_[At(root_)], -1, -1}, 0, {}});
  }

  /// Operands that are widened, a function of them, and its result rounded and narrowed: where the
  /// function gives the same in f16, that is all there is to do.
  std::shared_ptr<const Code> InHalves() const {
    if (code_.dtype != DType::kF16 || !code_.constants.empty()) return {};
    const Code::Instruction* call = nullptr;
    std::vector<int> stored(static_cast<size_t>(code_.slots), -1);  // the operand's, by slot
    for (const Code::Instruction& instruction : code_.instructions) {
      const Opcode& opcode = instruction.opcode;
      const bool widens = opcode.from == DType::kF16 && opcode.to == DType::kF32;
      const bool narrows = opcode.from == DType::kF32 && opcode.to == DType::kF16;
      if (opcode.kind == Opcode::kCall) {
        if (call != nullptr || opcode.from != DType::kF32 || opcode.to != DType::kF32) return {};
        call = &instruction;
      } else if (call == nullptr && widens) {
        stored[At(instruction.target)] = instruction.args[0];
      } else if (call == nullptr || !narrows) {
        return {};
      }
    }
    const Kernel kernel =
        call == nullptr ? nullptr : FindHalfKernel(call->opcode.function, dag_.isa());
    if (kernel == nullptr) return {};
    auto halves = std::make_shared<Code>();
    Code::Instruction only = *call;
    only.kernel = kernel;
    only.repeated = {};
    only.opcode.from = only.opcode.to = DType::kF16;
    only.target = 0;
    for (int& arg : only.args) {
      if (arg < 0) continue;
      arg = stored[At(arg)];
      if (arg < 0) return {};
    }
    halves->instructions = {only};
    halves->operands = code_.operands;
    halves->slots = code_.slots;
    halves->item = ItemSize(DType::kF16);
    halves->dtype = DType::kF16;
    halves->arithmetic = 1;
    return halves;
  }

  const Dag& dag_;
  int root_;
  std::vector<int> need_;
  std::vector<int> uses_;
  std::vector<int> slot_;
  std::vector<int> free_;
  Code code_;
};

}  // namespace

Code Compile(const Dag& dag, int root) { return Compiler(dag, root).Run(); }

}  // namespace oort::expression
