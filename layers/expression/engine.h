// SPDX-License-Identifier: MIT
// Runs an expression on values. The layers of pnnx.Expression, of the activations and of the
// elementwise operators are thin shells around it.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "layers/expression/code.h"
#include "layers/expression/lower.h"

namespace oort::expression {

/// Thread contract: const methods run concurrently.
class Engine {
 public:
  Engine(Program program, Isa isa);
  /// `function` of operands 0, 1, ….
  Engine(Function function, Isa isa);

  /// The value without the elements of its tensors; Deferred where it depends on elements.
  Value Infer(std::span<const Value* const> operands) const;
  /// Computes the value. A tensor is written to `output` if that holds one of the right kind.
  void Forward(const Context& context, std::span<const Value* const> operands, Value& output) const;

  /// The same where the elements of the operands lie elsewhere than in their tensors.
  void Forward(const Context& context, std::span<const Value* const> operands,
               std::span<const View> views, Value& output) const;

  struct Sharing {
    int view = -1;              ///< the operand that the result is, unchanged; or -1
    std::vector<int> in_place;  ///< operands with the result's dtype and shape
  };
  Sharing Share(std::span<const Value* const> operands) const;
  /// Arithmetic operations on each element of the result.
  double OperationsPerElement(std::span<const Value* const> operands) const;

 private:
  /// What a signature of operands was compiled to.
  struct Compiled {
    std::string signature;
    std::shared_ptr<const Code> code;
  };
  std::string Signature(std::span<const Value* const> operands) const;
  /// Null unless the result is one tensor that the code computes.
  std::shared_ptr<const Code> FindCode(const std::string& signature) const;

  Program program_;
  Isa isa_;
  bool depends_on_shapes_ = false;    // through size()
  bool depends_on_elements_ = false;  // through int()
  mutable std::mutex mutex_;
  mutable Compiled last_;
};

}  // namespace oort::expression
