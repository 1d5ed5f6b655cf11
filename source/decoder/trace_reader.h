// SPDX-License-Identifier: MIT
// Goes through a traced decoder operator by operator and writes down what each does to one token.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decoder/graph_writer.h"
#include "decoder/traced.h"
#include "decoder/traced_tables.h"
#include "graph/passes/formula.h"

namespace oort {

struct TracedScores;

/// What an operand of the trace is in the decoder. Of a tensor with an axis of tokens the decoder
/// has a matrix (tokens, features): the other axes, flattened in their order. So most reshapes and
/// transpositions are nothing but another `shape`.
struct TracedValue {
  enum class Kind : unsigned char { kAbsent, kIds, kTokens, kConstant, kScores, kWeights };

  Kind kind = Kind::kAbsent;
  int operand = -1;  ///< of the decoder
  Shape shape;       ///< as traced
  int axis = -1;     ///< of the tokens in it
  Tensor constant;
  std::shared_ptr<const TracedScores> scores;

  // What waits for the attention that will do it: `operand` is the tensor before.
  int64_t repeat = 1;    ///< how often each head stands in `shape`
  int rotary = -1;       ///< the table that turns it
  int64_t turn_dim = 0;  ///< size of the heads that are turned

  /// Where the elements come from: [begin, end) of each `dim` elements of another operand.
  struct Part {
    int source = -1;
    int64_t dim = 0, begin = 0, end = 0, step = 1;
    bool negated = false;
  } part;
  /// An operand whose pairs (a, b) stand here as (-b, a): the other half of a rotation.
  struct Swapped {
    int source = -1;
    int64_t dim = 0;
    bool interleaved = false;
  } swapped;

  int64_t last() const { return shape[shape.rank() - 1]; }
  /// Features that `operand` has.
  int64_t width() const {
    return shape.Product(0, axis) * shape.Product(axis + 1, shape.rank()) / repeat;
  }
};

/// query times key, before the softmax: outer * tanh(inner * q k), or inner * q k.
struct TracedScores {
  TracedValue query, key;
  double inner = 1, outer = 1;
  bool capped = false;
  std::optional<int64_t> window;  ///< once it is masked
};

class TraceReader {
 public:
  explicit TraceReader(const Graph& traced) : traced_(traced), values_(traced.operands.size()) {}
  /// All operators; the graph lacks the choice of rows yet.
  TracedDecoder Read();

 private:
  using Kind = TracedValue::Kind;

  // trace_reader.cpp: the walk, and operators that only look at tensors in another way.
  void ReadInput();
  void Visit(const Operator& op);
  void ReadOutput();
  void View();
  void Permute();
  void Expand();

  // trace_layers.cpp: operators that compute with each token.
  void Embed();
  void EmbedConstant(const Tensor& ids, const Tensor& table);
  void Linear();
  void MultiplyConstant();
  void Norm();
  void Reduce();
  void Split();
  void Slice();
  void Cat();
  void Stack();
  void Elementwise(const Formula& formula);
  struct Range {
    int64_t begin, end, step;
  };
  void Cut(const TracedValue& x, int dim, const Range& range, size_t output);
  bool JoinTurned(const std::vector<TracedValue>& parts);
  TracedValue ByPosition(const Tensor& table, const Shape& padded, int axis);
  /// A look-up of rows; returns what it gives.
  int AddTable(const Tensor& table, int input, const std::string& name);
  void LimitPositions(int64_t rows);

  // trace_attention.cpp
  bool Rotate(const Formula& formula);
  std::optional<int> TableOf(int cosines, int sines, const TracedValue& x, bool interleaved);
  int Angles(int table);
  void MatMul();
  void Softmax();
  void Score(const Formula& formula);
  TracedScores ScoreOf(const Formula& formula);
  std::optional<double> NumberOf(const Formula& formula);
  const Tensor* MaskOf(const Formula& formula);
  int64_t WindowOf(const Tensor& mask);
  void AttendFused();
  void Attend(const TracedScores& scores, const TracedValue& value, bool grouped);
  int64_t HeadsOf(const TracedValue& x, int64_t head_dim);

  [[noreturn]] void Refuse(const std::string& why) const;
  Shape ShapeOf(int operand) const;
  const TracedValue& In(size_t index) const;
  /// The input of that name, or else of that index; absent where the operator has none.
  const TracedValue& In(const std::string& name, size_t index) const;
  /// The one input that is not constant.
  const TracedValue& TokenInput() const;
  const TracedValue& Plain(const TracedValue& x) const;
  int AxisParameter(const std::string& name, int rank) const;
  /// Enters an output of the operator, with its axis of tokens.
  void SetOutput(TracedValue value, int axis, size_t output = 0);
  void SetResult(int operand, int axis, size_t output = 0);
  int Reshape(int operand, std::vector<int64_t> features);
  int Constant(const Tensor& tensor);
  std::string NewName();
  Written Copy() const;

  const Graph& traced_;
  std::vector<TracedValue> values_;
  const Operator* op_ = nullptr;
  GraphWriter writer_;
  TracedDecoder decoder_;
  int64_t tokens_ = 0;
  int positions_ = -1, output_ = -1;
  int names_ = 0;
  struct Table {
    TracedRotary rotary;
    int angles = -1;
  };
  std::vector<Table> tables_;
  std::map<std::pair<int, int>, std::optional<int>> known_tables_;
};

}  // namespace oort
