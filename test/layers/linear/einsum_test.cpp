// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <complex>

#include "oort/testing.h"

namespace oort::testing {
namespace {

/// "ij,jk->ik" as {"ij", "jk", "ik"}.
std::vector<std::string> Split(const std::string& equation) {
  std::vector<std::string> parts(1);
  for (char c : equation) {
    if (c == ',' || c == '-') {
      parts.emplace_back();
    } else if (c != '>') {
      parts.back() += c;
    }
  }
  return parts;
}

/// By the definition: every assignment of the letters adds one product. Extents of 1 repeat.
Tensor Reference(const std::string& equation, const std::vector<Tensor>& operands) {
  std::vector<std::string> terms = Split(equation);
  const std::string output = terms.back();
  terms.pop_back();
  std::map<char, int64_t> extents, index;
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t axis = 0; axis < terms[i].size(); ++axis) {
      int64_t& extent = extents.emplace(terms[i][axis], 1).first->second;
      if (extent == 1) extent = operands[i].dim(static_cast<int64_t>(axis));
    }
  }
  Shape shape;
  int64_t assignments = 1;
  for (char c : output) shape.Append(extents[c]);
  for (const auto& [letter, extent] : extents) assignments *= extent;
  Tensor result = Tensor::Zeros(DType::kC128, shape);
  const auto offset = [&](const std::string& letters, const Shape& own) {
    int64_t at = 0;
    for (size_t axis = 0; axis < letters.size(); ++axis) {
      const int64_t extent = own[static_cast<int>(axis)];
      at = at * extent + (extent == 1 ? 0 : index[letters[axis]]);
    }
    return at;
  };
  std::vector<Tensor> wide;
  for (const Tensor& operand : operands) wide.push_back(operand.To(DType::kC128));
  for (int64_t n = 0; n < assignments; ++n) {
    int64_t rest = n;
    for (const auto& [letter, extent] : extents) {
      index[letter] = rest % extent;
      rest /= extent;
    }
    std::complex<double> product = 1;
    for (size_t i = 0; i < wide.size(); ++i) {
      product *= wide[i].data<std::complex<double>>()[offset(terms[i], wide[i].shape())];
    }
    result.data<std::complex<double>>()[offset(output, shape)] += product;
  }
  return result.To(operands[0].dtype());
}

OperatorCase CaseOf(const std::string& equation, const std::vector<Tensor>& operands) {
  OperatorCase test("torch.einsum");
  test.Param("equation", equation);
  for (const Tensor& operand : operands) test.Input(operand);
  return test;
}

std::vector<Tensor> Random(const std::vector<Shape>& shapes, DType dtype = DType::kF32) {
  std::vector<Tensor> operands;
  for (const Shape& shape : shapes) {
    operands.push_back(RandomTensor(dtype, shape, operands.size() + 1));
  }
  return operands;
}

/// `meaning` is the equation in letters and with its output, where `equation` is not.
void Check(const std::string& equation, const std::vector<Shape>& shapes, std::string meaning = "",
           DType dtype = DType::kF32) {
  SCOPED_TRACE(equation);
  const std::vector<Tensor> operands = Random(shapes, dtype);
  CaseOf(equation, operands)
      .ExpectOutputs({Reference(meaning.empty() ? equation : meaning, operands)});
}

TEST(Einsum, OfOneOperand) {
  Check("ij->ji", {{3, 4}});
  Check("ij->ij", {{3, 4}});
  Check("ijk->jki", {{2, 3, 4}});
  Check("ij->", {{3, 4}});
  Check("ij->j", {{3, 4}});
  Check("ijkl->ki", {{2, 3, 4, 5}});
  Check("i->i", {{5}});
  Check("->", {Shape{}});
}

TEST(Einsum, TakesDiagonals) {
  Check("ii->i", {{4, 4}});
  Check("ii->", {{4, 4}});
  Check("iji->ji", {{3, 2, 3}});
  Check("iijj->ji", {{3, 3, 2, 2}});
  Check("iiii->i", {{3, 3, 3, 3}});
  Check("ii,ij->j", {{3, 3}, {3, 4}});
  Check("ijj,jik->k", {{2, 3, 3}, {3, 2, 4}});
}

TEST(Einsum, OfTwoOperands) {
  Check("ij,jk->ik", {{3, 4}, {4, 5}});
  Check("ij,jk->ki", {{3, 4}, {4, 5}});
  Check("ij,kj->ik", {{3, 4}, {5, 4}});
  Check("ji,jk->ik", {{4, 3}, {4, 5}});
  Check("ji,kj->ki", {{4, 3}, {5, 4}});
  Check("bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}});
  Check("bhid,bhjd->bhij", {{2, 3, 4, 5}, {2, 3, 6, 5}});
  Check("ibhd,jbhd->bhij", {{4, 2, 3, 5}, {6, 2, 3, 5}});
  Check("ikjm,imkl->ijkl", {{2, 3, 4, 5}, {2, 5, 3, 6}});
  Check("imnj,kmln->ijkl", {{2, 3, 5, 7}, {2, 3, 4, 5}});
  Check("i,j->ij", {{3}, {4}});
  Check("i,j->ji", {{3}, {4}});
  Check("i,i->", {{7}, {7}});
  Check("ij,ij->ij", {{3, 4}, {3, 4}});
  Check("ij,i->ij", {{3, 4}, {3}});
  Check("ij,kl->", {{3, 4}, {2, 5}});
  Check("ijk,jl->il", {{2, 3, 4}, {3, 5}});
  Check(",ij->ij", {Shape{}, {3, 4}});
  Check("mk,kn->mn", {{33, 70}, {70, 41}});
}

TEST(Einsum, OfSeveralOperands) {
  Check("i,j,k,l->ijkl", {{2}, {3}, {4}, {5}});
  Check("ik,jkl,il->ij", {{2, 5}, {3, 5, 4}, {2, 4}});
  Check("ij,jk,kl->il", {{2, 9}, {9, 3}, {3, 4}});
  Check("ab,bc,cd,de,ea->", {{2, 3}, {3, 4}, {4, 2}, {2, 3}, {3, 2}});
  Check("a,a,a,b->ba", {{3}, {3}, {3}, {2}});
}

TEST(Einsum, RepeatsExtentsOfOne) {
  Check("ij,ij->ij", {{3, 1}, {1, 4}});
  Check("ij,jk->ik", {{3, 1}, {4, 5}});
  Check("bij,bjk->bik", {{1, 3, 4}, {2, 4, 5}});
  Check("ij,ij->", {{1, 1}, {3, 4}});
}

TEST(Einsum, SortsTheOutputThatIsNotWritten) {
  Check("ji", {{3, 4}}, "ji->ij");
  Check("kij", {{2, 3, 4}}, "kij->ijk");
  Check("ij,jk", {{3, 4}, {4, 5}}, "ij,jk->ik");
  Check("ii", {{3, 3}}, "ii->");
  Check("bA", {{2, 3}}, "bA->Ab");
  Check("i,i", {{3}, {3}}, "i,i->");
}

TEST(Einsum, KnowsTheEllipsis) {
  Check("...ij,...jk->...ik", {{2, 3, 4, 5}, {2, 3, 5, 6}}, "abij,abjk->abik");
  Check("...ij,...jk->...ik", {{2, 3, 4, 5}, {3, 5, 6}}, "abij,bjk->abik");
  Check("...ij,jk->...ik", {{2, 3, 4}, {4, 5}}, "aij,jk->aik");
  Check("i...,i...->...", {{3, 2}, {3, 4, 2}}, "ib,iab->ab");
  Check("i...j,j->i...", {{3, 2, 4, 5}, {5}}, "iabj,j->iab");
  Check("...ii->...i", {{2, 3, 3}}, "aii->ai");
  Check("...ii", {{2, 3, 3}}, "aii->a");
  Check("...ij->i", {{2, 3, 4}}, "aij->i");
  Check("...", {{2, 3}}, "ab->ab");
  Check("...,...->...", {{2, 3}, {3}}, "ab,b->ab");
  Check("... i j -> ... j i", {{3, 4}}, "ij->ji");
  Check("b...,b...", {{2, 3}, {2, 3}}, "ba,ba->a");
}

TEST(Einsum, RestoresTheLostEllipsis) {
  Check("ik,kj->ij", {{2, 3, 4}, {2, 4, 5}}, "aik,akj->aij");
  Check("ik,kj->ij", {{6, 2, 3, 4}, {2, 4, 5}}, "baik,akj->baij");
  Check(",->", {{2, 3}, {2, 3}}, "ab,ab->ab");
  // In front the extents would not fit.
  Check("ij,j->i", {{2, 3, 4, 5}, {3}}, "ijab,j->abi");
}

/// The traced shapes say where the ellipsis was, also where the extents would allow other places.
TEST(Einsum, RestoresTheEllipsisOfTheTrace) {
  Graph graph;
  const auto add = [&](const Shape& shape) {
    const int operand = graph.AddOperand("x" + std::to_string(graph.operands.size()));
    graph.operands.back().has_shape = true;
    graph.operands.back().shape = shape;
    return operand;
  };
  Operator op{.type = "torch.einsum", .name = "tested"};
  op.inputs = {add({2, 3, 4, 5}), add({3})};
  op.outputs = {add({2, 4, 5})};
  op.params = {{"equation", Parameter("ij,j->i")}};
  graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_0", .outputs = {op.inputs[0]}});
  graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_1", .outputs = {op.inputs[1]}});
  graph.AddOperator(op);
  graph.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = op.outputs});
  Session session(RuntimeGraph::Build(std::move(graph)));
  const std::vector<Tensor> operands = Random({{3, 3, 3, 3}, {3}});
  ExpectNear(session.Forward(operands)[0], Reference("ijab,j->iab", operands));
}

TEST(Einsum, OfOtherNumbers) {
  for (DType dtype :
       {DType::kF64, DType::kI8, DType::kI32, DType::kI64, DType::kC64, DType::kC128}) {
    SCOPED_TRACE(std::string(Name(dtype)));
    Check("bij,kj->bik", {{2, 3, 4}, {5, 4}}, "", dtype);
    Check("ijk->kji", {{2, 3, 4}}, "", dtype);
    Check("ij,ij->ij", {{3, 4}, {3, 4}}, "", dtype);
  }
}

TEST(Einsum, WidensIntegersThatItSums) {
  const Tensor x = Tensor::From<int8_t>({100, 100, 100, -3}, {2, 2});
  CaseOf("ij->i", {x}).ExpectOutputs({Tensor::From<int64_t>({200, 97}, {2})});
  CaseOf("ii", {x}).ExpectOutputs({Tensor::Scalar<int64_t>(97)});
}

TEST(Einsum, OfNothing) {
  Check("ij,jk->ik", {{3, 0}, {0, 4}});
  Check("ij,jk->ik", {{0, 3}, {3, 4}});
  Check("ij->i", {{3, 0}});
  Check("i,j->ij", {{0}, {4}});
}

TEST(Einsum, RefusesWhatIsWrong) {
  const auto wrong = [](const std::string& equation, const std::vector<Shape>& shapes) {
    return CaseOf(equation, Random(shapes));
  };
  wrong("ij", {{3, 4}, {4, 5}}).ExpectError(ErrorCode::kInvalidModel, "names 1 operands");
  wrong("i?", {{3, 4}}).ExpectError(ErrorCode::kInvalidModel, "no letter");
  wrong("i..", {{3, 4}}).ExpectError(ErrorCode::kInvalidModel, "no letter");
  wrong("...i...", {{3, 4}}).ExpectError(ErrorCode::kInvalidModel, "two '...'");
  wrong("ij->ii", {{3, 4}}).ExpectError(ErrorCode::kInvalidModel, "'i' twice in its output");
  wrong("ij->ik", {{3, 4}}).ExpectError(ErrorCode::kInvalidModel, "'k' in its output");
  wrong("ijk->i", {{3, 4}})
      .ExpectError(ErrorCode::kInvalidArgument, "operand 0 of rank 3, got (3,4)");
  wrong("ii->i", {{3, 4}}).ExpectError(ErrorCode::kInvalidArgument, "different extents for 'i'");
  wrong("ij,jk->ik", {{3, 4}, {5, 6}})
      .ExpectError(ErrorCode::kInvalidArgument, "differ in the extent of 'j': 4 and 5");
  wrong("...,...->...", {{2, 3}, {2}})
      .ExpectError(ErrorCode::kInvalidArgument, "differ in the extent of '...': 3 and 2");
  wrong("abcde,fghij->abcdefghij", {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}})
      .ExpectError(ErrorCode::kInvalidArgument, "8");
  OperatorCase("torch.einsum")
      .Param("equation", "i,i->")
      .Input(RandomTensor(DType::kF32, {3}))
      .Input(RandomTensor(DType::kF64, {3}))
      .ExpectError(ErrorCode::kInvalidArgument, "one dtype");
  OperatorCase("torch.einsum").Param("equation", "i->").ExpectError(ErrorCode::kInvalidModel, "0");
}

}  // namespace
}  // namespace oort::testing
