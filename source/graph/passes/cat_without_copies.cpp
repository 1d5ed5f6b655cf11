// SPDX-License-Identifier: MIT
// Convolutions whose results are joined by their channels write them into the joined image: each
// takes the image with the parts before, which the memory plan lets it fill in place.
#include <algorithm>

#include "graph/passes/channel_parts.h"

namespace oort {
namespace {

class CatPass {
 public:
  explicit CatPass(Graph& graph) : rewriter_(graph) {}

  void Run() {
    const std::vector<int> order = rewriter_.graph().TopologicalOrder();
    place_.assign(order.size(), 0);
    for (size_t i = 0; i < order.size(); ++i) {
      place_[static_cast<size_t>(order[i])] = static_cast<int>(i);
    }
    for (int index : order) {
      if (rewriter_.op(index).type == "nhwc.cat") Join(index);
    }
    rewriter_.Finish();
  }

 private:
  struct Part {
    int operand, conv;  // the convolution that makes it, -1 where it is copied
    int64_t first;
  };

  /// The convolution that makes `operand`, if it can write that as a part of a wider image and
  /// nobody but the join reads it; else -1.
  int ConvOf(int operand) {
    const int producer = rewriter_.ProducerOf(operand);
    if (producer < 0 || !rewriter_.HasOneUse(operand)) return -1;
    const Operator& op = rewriter_.op(producer);
    const bool named =
        std::find(op.input_names.begin(), op.input_names.end(), "addend") != op.input_names.end();
    const bool fits = op.type == "nhwc.Conv2d" && !named && op.params.count("to") == 0;
    return fits ? producer : -1;
  }

  void Join(int cat) {
    const std::vector<int> inputs = rewriter_.op(cat).inputs;
    const int result = rewriter_.op(cat).outputs[0];
    if (inputs.size() < 2 || !AlongChannels(rewriter_.op(cat), rewriter_.operand(result))) return;
    std::vector<Part> parts;
    int64_t width = 0;
    for (int input : inputs) {
      const int64_t channels = TracedChannels(rewriter_.operand(input));
      if (channels < 0 ||
          rewriter_.operand(input).shape.rank() != rewriter_.operand(result).shape.rank()) {
        return;
      }
      parts.push_back({input, ConvOf(input), width});
      width += channels;
    }
    // Each writer takes the image from the one before, so convolutions come in the order in which
    // they run. Copies come last, because the memory of the joined image is taken when the first
    // writer runs.
    std::stable_sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) {
      if ((a.conv < 0) != (b.conv < 0)) return b.conv < 0;
      return a.conv >= 0 && Place(a.conv) < Place(b.conv);
    });
    if (parts[0].conv < 0 || width != TracedChannels(rewriter_.operand(result))) return;
    rewriter_.graph().SetOutputs(cat, {});
    rewriter_.Kill(cat);
    int so_far = -1;
    for (size_t i = 0; i < parts.size(); ++i) {
      const int next = i + 1 == parts.size() ? result : Unfinished(result, i);
      Write(parts[i], so_far, next, width);
      so_far = next;
    }
  }

  int Place(int index) const { return place_[static_cast<size_t>(index)]; }

  /// The joined image with the parts up to number `i`.
  int Unfinished(int result, size_t i) {
    return rewriter_.graph().AddOperandLike(
        result, rewriter_.operand(result).name + ".part" + std::to_string(i));
  }

  void Write(const Part& part, int into, int next, int64_t width) {
    int writer = part.conv;
    if (writer < 0) {
      Operator put;
      put.type = "nhwc.put";
      put.name = "put_" + rewriter_.operand(next).name;
      put.inputs = {part.operand};
      put.input_names = {"input"};
      put.outputs = {next};
      writer = rewriter_.graph().AddOperator(std::move(put));
    } else {
      rewriter_.graph().ReplaceOutput(writer, 0, next);
    }
    Operator& op = rewriter_.op(writer);
    SetNumber(op, "to", part.first);
    SetNumber(op, "width", width);
    SetNumber(op, "rank", rewriter_.operand(next).shape.rank());
    if (into < 0) return;
    if (op.input_names.empty()) op.input_names = {"input"};
    rewriter_.graph().AddInput(writer, into, "into");
  }

  Rewriter rewriter_;
  std::vector<int> place_;
};

}  // namespace

void CatWithoutCopies(Graph& graph, const PassContext& context) {
  if (HasParts(context)) CatPass(graph).Run();
}

}  // namespace oort
