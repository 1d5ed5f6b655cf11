// SPDX-License-Identifier: MIT
// Cutting an image by its channels moves nothing where all who read the pieces can read a part of a
// wider image.
#include <algorithm>

#include "graph/passes/channel_parts.h"

namespace oort {
namespace {

/// Whether an operator reads the operand as its first input alone, and can read a part there.
bool ReadsPart(Rewriter& rewriter, int index, int operand) {
  const Operator& op = rewriter.op(index);
  if (op.type != "nhwc.Conv2d" && op.type != "nhwc.interleave") return false;
  return op.params.count("from") == 0 && op.inputs[0] == operand &&
         std::count(op.inputs.begin(), op.inputs.end(), operand) == 1;
}

bool IsCut(Rewriter& rewriter, const Operator& op) {
  if (op.type != "nhwc.chunk" && op.type != "nhwc.split") return false;
  if (op.inputs.size() != 1 || !AlongChannels(op, rewriter.operand(op.inputs[0]))) return false;
  int64_t channels = 0;
  for (int output : op.outputs) {
    const Operand& piece = rewriter.operand(output);
    if (TracedChannels(piece) < 0) return false;
    channels += TracedChannels(piece);
    for (int consumer : piece.consumers) {
      if (!ReadsPart(rewriter, consumer, output)) return false;
    }
  }
  return channels == TracedChannels(rewriter.operand(op.inputs[0]));
}

/// The consumer reads the channels of `whole` from `first` on instead of its first input.
void ReadFrom(Rewriter& rewriter, int consumer, int whole, int64_t first) {
  rewriter.ReplaceInput(consumer, 0, whole);
  Operator& op = rewriter.op(consumer);
  SetNumber(op, "from", first);
  SetNumber(op, "of", TracedChannels(rewriter.operand(whole)));
  SetNumber(op, "rank", rewriter.operand(whole).shape.rank());
}

void DropCut(Rewriter& rewriter, int index) {
  if (!IsCut(rewriter, rewriter.op(index))) return;
  const int whole = rewriter.op(index).inputs[0];
  const std::vector<int> pieces = rewriter.op(index).outputs;
  int64_t first = 0;
  for (int piece : pieces) {
    const std::vector<int> consumers = rewriter.operand(piece).consumers;
    for (int consumer : consumers) ReadFrom(rewriter, consumer, whole, first);
    first += TracedChannels(rewriter.operand(piece));
  }
  rewriter.Kill(index);
}

}  // namespace

void SplitWithoutCopies(Graph& graph, const PassContext& context) {
  if (!HasParts(context)) return;
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) DropCut(rewriter, index);
  rewriter.Finish();
}

}  // namespace oort
