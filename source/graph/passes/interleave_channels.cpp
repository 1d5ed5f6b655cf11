// SPDX-License-Identifier: MIT
// Joining two images by their channels and shuffling these in two groups takes the channels in
// turn: once over the images, where there were two copies.
#include "graph/passes/channel_parts.h"

namespace oort {
namespace {

void InterleaveAt(Rewriter& rewriter, int index) {
  const Operator& shuffle = rewriter.op(index);
  if (shuffle.type != "nhwc.ChannelShuffle" || ParameterText(shuffle, "groups") != "2") {
    return;
  }
  const int joined = shuffle.inputs[0], cat = rewriter.ProducerOf(joined);
  if (cat < 0 || !rewriter.HasOneUse(joined)) return;
  const Operator& join = rewriter.op(cat);
  if (join.type != "nhwc.cat" || join.inputs.size() != 2) return;
  // torch shuffles axis 1, which is that of the channels at rank 4 alone.
  const Operand& image = rewriter.operand(joined);
  if (!AlongChannels(join, image) || image.shape.rank() != 4) return;
  const Operand &a = rewriter.operand(join.inputs[0]), &b = rewriter.operand(join.inputs[1]);
  if (TracedChannels(a) < 0 || !b.has_shape || a.dtype != b.dtype || a.shape != b.shape) return;
  rewriter.SetInputs(index, std::vector<int>(join.inputs));
  Operator& made = rewriter.op(index);
  made.type = "nhwc.interleave";
  made.params = {{"rank", Parameter("4")}};
  rewriter.Kill(cat);
}

}  // namespace

void InterleaveChannels(Graph& graph, const PassContext& context) {
  if (!HasParts(context)) return;
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) InterleaveAt(rewriter, index);
  rewriter.Finish();
}

}  // namespace oort
