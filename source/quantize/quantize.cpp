// SPDX-License-Identifier: MIT
#include "quantize/quantize.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/cpu_limits.h"
#include "core/parallel.h"
#include "quantize/adaround.h"
#include "quantize/correct.h"
#include "quantize/describe.h"
#include "quantize/equalize.h"
#include "quantize/row_layers.h"

namespace oort::quantize {
namespace {

/// Samples that corrections are measured on, that candidates are compared on, and that the errors
/// of layers are: each layer costs a run of each.
constexpr size_t kCorrectionSamples = 64, kComparedSamples = 32, kAnalysedSamples = 8;
constexpr size_t kTracedSamples = 4;

std::vector<size_t> FirstOf(const std::vector<size_t>& numbers, size_t count) {
  return {numbers.begin(),
          numbers.begin() + static_cast<std::ptrdiff_t>(std::min(count, numbers.size()))};
}

/// One way to choose the ranges, and what comes of it.
struct Candidate {
  std::string name;
  std::vector<Range> ranges;  // by class
  Numbers numbers;
  bool corrected = false;
};

class Quantization {
 public:
  Quantization(Graph graph, const QuantizeOptions& options)
      : options_(options),
        recipe_(options.recipe),
        observable_(BuildObservable(std::move(graph))),
        graph_(observable_->graph()),
        points_(Find([&](const Operator& op) { return recipe_.Decide(op); })) {}

  QuantizeResult Run() {
    CheckRecipe(recipe_, graph_, points_);
    CheckQuantizable();
    ChooseSamples();
    RoundWeights();
    RoundByOutputs();
    Observe();
    Candidate best = Choose();
    if (options_.samples.count > 0 || options_.test.count > 0) {
      if (options_.analyse || options_.budget) RankLayers(best.numbers);
      if (options_.budget) KeepBudget(best.numbers);
    }
    QuantizeResult result;
    result.graph = IntegerGraph(graph_, points_, best.numbers);
    Describe(best, result);
    return result;
  }

 private:
  const Operator& Op(int index) const { return graph_.operators[static_cast<size_t>(index)]; }
  const std::string& NameOf(int operand) const {
    return graph_.operands[static_cast<size_t>(operand)].name;
  }

  Points Find(const Decide& decide) const {
    return recipe_.dynamic ? FindDynamicPoints(graph_, decide) : FindPoints(graph_, decide);
  }

  Session Start(Graph graph) const {
    return Session(RuntimeGraph::Build(std::move(graph)), {.threads = options_.threads});
  }

  void CheckQuantizable() const {
    if (points_.QuantizedLayers() > 0) return;
    std::string reasons;
    for (const Layer& layer : points_.layers) {
      reasons += (reasons.empty() ? ": " : "; ") + Op(layer.op).name + ", " + layer.why_float;
    }
    if (reasons.empty()) {
      reasons = NoLayers();
    } else {
      reasons += "; a rule of a recipe with \"float\": false quantizes a layer that could be";
    }
    throw Error(ErrorCode::kInvalidArgument, "nothing in the network can be quantized" + reasons);
  }

  std::string NoLayers() const {
    if (recipe_.dynamic) {
      return ": it has no nn.Linear, no recurrent layer and no nn.MultiheadAttention";
    }
    const bool dynamic =
        std::any_of(graph_.operators.begin(), graph_.operators.end(),
                    [](const Operator& op) { return DynamicTypeOf(op) != nullptr; });
    return std::string(": it has no nn.Conv2d and no nn.Linear") +
           (dynamic ? "; --dynamic also takes its recurrent layers and its attention" : "");
  }

  /// Every tenth sample is held back, if that leaves some to judge by.
  void ChooseSamples() {
    constexpr size_t kHeldBack = 10;
    for (size_t i = 0; i < options_.samples.count; ++i) {
      const bool held = options_.samples.count >= kHeldBack && i % kHeldBack == kHeldBack - 1;
      (held ? held_back_ : calibration_).push_back(i);
    }
    if (held_back_.empty()) held_back_ = calibration_;
    if (options_.test.count > 0) {
      judged_.resize(options_.test.count);
      std::iota(judged_.begin(), judged_.end(), size_t{0});
    } else {
      judged_ = held_back_;
    }
  }
  const Samples& JudgedBy() const {
    return options_.test.count > 0 ? options_.test : options_.samples;
  }

  void RoundWeights() {
    for (const Layer& layer : points_.layers) {
      if (!layer.quantized()) continue;
      if (DynamicTypeOf(Op(layer.op)) != nullptr) {
        RoundMatrices(layer.op);
        continue;
      }
      weights_[layer.op] =
          QuantizeWeights(Op(layer.op), "weight", recipe_.weights, recipe_.one_scale, threads_);
      const auto found = recipe_.layers.find(Op(layer.op).name);
      if (found == recipe_.layers.end()) continue;
      if (!found->second.rounding.empty()) MoveAsGiven(layer.op, found->second.rounding);
      if (found->second.correction.empty()) continue;
      if (found->second.correction.size() == weights_[layer.op].scales.size()) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  "recipe: the bias_correction of '" + found->first + "' has " +
                      std::to_string(found->second.correction.size()) + " numbers for " +
                      std::to_string(weights_[layer.op].scales.size()) + " channels");
    }
  }

  void RoundMatrices(int op) {
    const auto found = recipe_.layers.find(Op(op).name);
    if (found != recipe_.layers.end() &&
        !(found->second.rounding.empty() && found->second.correction.empty())) {
      throw Error(ErrorCode::kInvalidArgument,
                  "recipe: layer '" + found->first + "' is an " + Op(op).type +
                      ", which has neither 'rounding' nor 'bias_correction'");
    }
    for (const std::string& name : MatricesOf(Op(op))) {
      matrices_[op].emplace(
          name, QuantizeWeights(Op(op), name, recipe_.weights, recipe_.one_scale, threads_));
    }
  }

  void MoveAsGiven(int op, const std::string& rounding) {
    QuantizedWeights& weights = moved_[op] = weights_.at(op);
    const auto moved = MovedOf(rounding, weights.values.size());
    if (!moved) {
      throw Error(ErrorCode::kInvalidArgument,
                  "recipe: the rounding of '" + Op(op).name +
                      "' is not what this tool writes for as many weights as it has");
    }
    MoveToOther(Op(op).attributes.at("weight"), *moved, weights);
    moves_given_ = true;
  }

  /// Rounds weights by what their layers give, where the recipe does not say how.
  void RoundByOutputs() {
    if (!recipe_.adaround || options_.samples.count == 0) return;
    const std::vector<size_t> numbers = FirstOf(calibration_, kCorrectionSamples);
    std::map<int, SeenInputs> seen;
    for (const auto& [op, weights] : weights_) {
      if (recipe_.layers.count(Op(op).name) > 0) continue;
      seen.emplace(op, SeenInputs(Op(op), numbers.size()));
    }
    if (seen.empty()) return;
    Session session(observable_, {.threads = options_.threads});
    Watch(session, points_, options_.samples, numbers, "look", options_.watcher,
          [&](int operand, const Tensor& tensor) {
            for (auto& [op, inputs] : seen) {
              if (Op(op).inputs[0] == operand) inputs.Add(tensor);
            }
          });
    size_t done = 0;
    for (const auto& [op, inputs] : seen) {
      options_.watcher.Step("round", done++, seen.size());
      QuantizedWeights& weights = moved_[op] = weights_.at(op);
      RoundToOutputs(Op(op).attributes.at("weight"), inputs, weights);
    }
  }

  /// What the recipe says of a class; all operands of it must agree.
  const TensorResult* Given(const std::vector<int>& operands) const {
    const TensorResult* given = nullptr;
    for (const int operand : operands) {
      const auto found = recipe_.tensors.find(NameOf(operand));
      if (found == recipe_.tensors.end()) continue;
      if (given != nullptr && !(given->grid == found->second.grid)) {
        throw Error(ErrorCode::kInvalidArgument, "recipe: '" + NameOf(operands.front()) +
                                                     "' and '" + found->first +
                                                     "' share a scale, and differ in the recipe");
      }
      given = &found->second;
    }
    return given;
  }

  void Observe() {
    std::string missing;
    for (const std::vector<int>& operands : points_.classes) {
      if (Given(operands) == nullptr) missing = NameOf(operands.front());
    }
    if (missing.empty()) return;
    if (options_.samples.count == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "there are no samples to calibrate with, and no recipe that has the range of "
                  "operand '" +
                      missing + "'");
    }
    Session session(observable_, {.threads = options_.threads});
    observers_ =
        quantize::Observe(session, points_, options_.samples, calibration_, options_.watcher);
  }

  /// The method that rules ask for in the layers that read a class, if they do.
  std::optional<Method> RuledMethod(size_t index) const {
    for (const Layer& layer : points_.layers) {
      const bool reads = layer.quantized() && points_.class_of[static_cast<size_t>(layer.input)] ==
                                                  static_cast<int>(index);
      if (!reads) continue;
      if (const auto method = recipe_.MethodFor(Op(layer.op))) return method;
    }
    return {};
  }

  /// The ranges of all classes that the recipe has none of, several at a time.
  std::vector<Range> ChooseRanges(std::optional<Method> method) const {
    std::vector<Range> ranges(points_.classes.size());
    ParallelFor(threads_, static_cast<int64_t>(ranges.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        if (Given(points_.classes[i]) != nullptr) continue;
        ranges[i] =
            ChooseRange(observers_[i], RuledMethod(i).value_or(*method), recipe_.percentile);
      }
    });
    return ranges;
  }

  Candidate MakeCandidate(std::optional<Method> method, const std::vector<Range>& ranges,
                          bool moved) const {
    Candidate candidate;
    candidate.name = recipe_.dynamic ? "row" : method ? Name(*method) : "recipe";
    candidate.numbers = {recipe_.dynamic, recipe_.symmetric, {}, {}};
    for (size_t i = 0; i < points_.classes.size(); ++i) {
      const std::vector<int>& operands = points_.classes[i];
      TensorResult result;
      if (const TensorResult* given = Given(operands)) {
        result = *given;
      } else {
        result.range = ranges[i];
        if (recipe_.symmetric) result.range = SymmetricRange(result.range);
        try {
          result.grid = GridOf(result.range);
        } catch (const Error& error) {
          throw error.WithContext("operand '" + NameOf(operands.front()) + "': ");
        }
      }
      candidate.ranges.push_back(result.range);
      for (const int operand : operands) candidate.numbers.grids[operand] = result.grid;
    }
    for (const auto& [op, weights] : weights_) {
      LayerForm& form = candidate.numbers.forms[op];
      const auto other = moved_.find(op);
      form.weights = moved && other != moved_.end() ? other->second : weights;
      const auto found = recipe_.layers.find(Op(op).name);
      if (found != recipe_.layers.end()) form.correction = found->second.correction;
      candidate.corrected = candidate.corrected || !form.correction.empty();
    }
    for (const auto& [op, matrices] : matrices_) candidate.numbers.forms[op].matrices = matrices;
    return candidate;
  }

  /// Each candidate once more, with biases corrected where the recipe does not say how.
  std::vector<Candidate> WithCorrections(const std::vector<Candidate>& plain) const {
    std::vector<int> open;
    for (const auto& [op, weights] : weights_) {
      if (recipe_.layers.count(Op(op).name) == 0) open.push_back(op);
    }
    if (open.empty() || !recipe_.bias_correction || recipe_.dynamic) return {};
    if (options_.samples.count == 0) return {};
    // Candidates that differ by their weights alone round what layers read in the same way.
    std::vector<size_t> way_of, first_of;
    for (const Candidate& each : plain) {
      size_t way = 0;
      while (way < first_of.size() && plain[first_of[way]].numbers.grids != each.numbers.grids) {
        ++way;
      }
      if (way == first_of.size()) first_of.push_back(way_of.size());
      way_of.push_back(way);
    }
    std::map<int, InputSums> sums;
    for (const int op : open) sums.emplace(op, InputSums(Op(op), first_of.size()));
    Session session(observable_, {.threads = options_.threads});
    Watch(session, points_, options_.samples, FirstOf(calibration_, kCorrectionSamples), "correct",
          options_.watcher, [&](int operand, const Tensor& tensor) {
            std::vector<Grid> grids;
            for (const size_t i : first_of) grids.push_back(plain[i].numbers.grids.at(operand));
            for (const int op : open) {
              if (Op(op).inputs[0] == operand) sums.at(op).Add(tensor, grids, threads_);
            }
          });
    std::vector<Candidate> corrected = plain;
    for (size_t i = 0; i < corrected.size(); ++i) {
      corrected[i].corrected = true;
      for (const int op : open) {
        LayerForm& form = corrected[i].numbers.forms.at(op);
        form.correction =
            sums.at(op).Correction(Op(op).attributes.at("weight"), form.weights, way_of[i]);
      }
    }
    return corrected;
  }

  /// The candidate whose network answers most like the float one.
  Candidate Choose() const {
    std::vector<Candidate> candidates;
    std::vector<std::optional<Method>> methods{Method::kPercentile, Method::kMse};
    if (recipe_.method) methods = {recipe_.method};
    if (observers_.empty()) methods = {std::nullopt};
    for (const std::optional<Method>& method : methods) {
      const std::vector<Range> ranges = ChooseRanges(method);
      if (!moved_.empty()) candidates.push_back(MakeCandidate(method, ranges, true));
      if (!moves_given_) candidates.push_back(MakeCandidate(method, ranges, false));
    }
    std::vector<Candidate> corrected = WithCorrections(candidates);
    candidates.insert(candidates.begin(), std::make_move_iterator(corrected.begin()),
                      std::make_move_iterator(corrected.end()));
    if (candidates.size() == 1) return std::move(candidates.front());
    Session exact = Start(graph_);
    const KeptAnswers answers(exact, options_.samples, FirstOf(held_back_, kComparedSamples),
                              options_.watcher);
    size_t best = 0;
    double most = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      options_.watcher.Step("compare", i, candidates.size());
      Session rough = Start(IntegerGraph(graph_, points_, candidates[i].numbers));
      const double sqnr = answers.Compare(rough).Sqnr();
      if (i == 0 || sqnr > most) {
        most = sqnr;
        best = i;
      }
    }
    return std::move(candidates[best]);
  }

  void RankLayers(const Numbers& numbers) {
    Session exact = Start(graph_);
    const KeptAnswers answers(exact, JudgedBy(), FirstOf(judged_, kAnalysedSamples),
                              options_.watcher);
    for (size_t i = 0; i < points_.layers.size(); ++i) {
      if (!points_.layers[i].quantized()) continue;
      options_.watcher.Step("analyse", i, points_.layers.size());
      const int alone = points_.layers[i].op;
      const Points points = Find([&](const Operator& op) {
        return Decision{&op != &Op(alone), "another is looked at"};
      });
      Session rough = Start(IntegerGraph(graph_, points, numbers));
      alone_[alone] = answers.Compare(rough);
    }
  }

  /// Sends layers back to float, the worst first, as few as a bisection finds to be enough.
  void KeepBudget(const Numbers& numbers) {
    std::vector<int> worst;
    for (const auto& [op, meter] : alone_) worst.push_back(op);
    std::stable_sort(worst.begin(), worst.end(),
                     [&](int a, int b) { return alone_.at(a).Sqnr() < alone_.at(b).Sqnr(); });
    Session exact = Start(graph_);
    const auto without = [&](size_t count) {
      std::set<std::string> back;
      for (size_t i = 0; i < count; ++i) back.insert(Op(worst[i]).name);
      return Find([this, back](const Operator& op) -> std::optional<Decision> {
        if (back.count(op.name) > 0) return Decision{true, "the budget was spent without it"};
        return recipe_.Decide(op);
      });
    };
    const auto fits = [&](const Points& points) {
      Session rough = Start(IntegerGraph(graph_, points, numbers));
      const Evaluation evaluation =
          Evaluate(exact, rough, JudgedBy(), judged_, options_.labels, "budget", options_.watcher);
      return evaluation.agreement.Drop() <= *options_.budget;
    };
    if (fits(points_)) return;
    size_t few = 0, enough = worst.size();  // without all of them it is the float network
    while (few + 1 < enough) {
      const size_t middle = (few + enough) / 2;
      (fits(without(middle)) ? enough : few) = middle;
    }
    points_ = without(enough);
    if (points_.QuantizedLayers() == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "no layer can be quantized within the budget: allow more, or give more samples");
    }
  }

  void Describe(const Candidate& best, QuantizeResult& result) {
    QuantizeReport& report = result.report;
    report.method = best.name;
    report.dynamic = recipe_.dynamic;
    report.corrected = best.corrected;
    report.samples = calibration_.size();
    report.float_weights = WeightBytes(graph_);
    report.weights = WeightBytes(result.graph);
    result.recipe = recipe_;
    result.recipe.tensors.clear();
    result.recipe.layers.clear();
    if (!recipe_.method && !observers_.empty()) result.recipe.method = MethodOf(best.name);
    if (!judged_.empty()) {
      Session exact = Start(graph_), rough = Start(result.graph);
      report.result =
          Evaluate(exact, rough, JudgedBy(), judged_, options_.labels, "judge", options_.watcher);
      report.judged = judged_.size();
    }
    for (const Layer& layer : points_.layers) DescribeLayer(layer, best.numbers, result);
    if (options_.analyse && !judged_.empty()) Accumulate(result);
    if (options_.measure) Measure(result);
    for (size_t i = 0; i < best.ranges.size(); ++i) DescribePoint(i, best, result);
  }

  /// A network that is slower in bytes is no gain: who keeps the layers that lose float gets one.
  void Measure(QuantizeResult& result) const {
    QuantizeReport& report = result.report;
    std::vector<std::string> names;
    for (const LayerReport& layer : report.layers) {
      if (layer.quantized) names.push_back(layer.name);
    }
    const std::vector<Tensor> inputs =
        judged_.empty() ? TracedInputs(graph_) : JudgedBy().read(judged_.front());
    if (inputs.empty()) {
      return report.warnings.push_back("without samples it is not known how fast the result is");
    }
    report.speed =
        MeasureSpeed(graph_, result.graph, inputs, names, options_.threads, options_.watcher);
    if (report.speed.Ratio() >= 1) return;
    report.warnings.push_back(SlowerWarning(report.speed));
  }

  void DescribeLayer(const Layer& layer, const Numbers& numbers, QuantizeResult& result) const {
    const Operator& op = Op(layer.op);
    LayerReport one;
    one.name = op.name;
    one.type = op.type;
    one.quantized = layer.quantized();
    one.why_float = layer.why_float;
    LayerResult& entry = result.recipe.layers[op.name];
    entry.quantized = layer.quantized();
    entry.reason = layer.why_float;
    if (layer.quantized()) {
      const LayerForm& form = numbers.forms.at(layer.op);
      entry.correction = form.correction;
      if (form.matrices.empty()) entry.rounding = RoundingOf(layer.op, form.weights);
      one.weight_sqnr = WeightError(op, form).Sqnr();
    }
    if (const auto found = alone_.find(layer.op); found != alone_.end()) one.alone = found->second;
    result.report.layers.push_back(std::move(one));
  }

  /// Which weights are not the nearest; empty where all are.
  std::string RoundingOf(int op, const QuantizedWeights& weights) const {
    const std::vector<int8_t>& nearest = weights_.at(op).values;
    std::vector<bool> moved(nearest.size(), false);
    bool any = false;
    for (size_t i = 0; i < nearest.size(); ++i) {
      moved[i] = nearest[i] != weights.values[i];
      any = any || moved[i];
    }
    return any ? HexOf(moved) : std::string();
  }

  /// What each layer gives in the whole network, in floats and with bytes, on a few samples.
  void Accumulate(QuantizeResult& result) {
    Session exact(observable_, {.threads = options_.threads});
    Session rough(BuildObservable(result.graph), {.threads = options_.threads});
    std::map<std::string, size_t> layer_of;  // by the name of what it gives
    for (size_t i = 0; i < points_.layers.size(); ++i) {
      layer_of[NameOf(points_.layers[i].output)] = i;
    }
    const auto watch = [&](Session& session, const std::vector<Tensor>& inputs, const auto& see) {
      const Graph& graph = session.graph().graph();
      RunOptions run;
      run.stop = options_.watcher.stop;
      run.observer = [&](const NodeEvent& event) {
        for (size_t i = 0; i < event.op.outputs.size() && i < event.outputs.size(); ++i) {
          const auto operand = static_cast<size_t>(event.op.outputs[i]);
          const auto found = layer_of.find(graph.operands[operand].name);
          if (found != layer_of.end() && event.outputs[i].IsTensor()) {
            see(found->second, event.outputs[i].AsTensor());
          }
        }
      };
      session.Forward(inputs, run);
    };
    for (const size_t number : FirstOf(judged_, kTracedSamples)) {
      options_.watcher.Step("trace", 0, 1);
      const std::vector<Tensor> inputs = JudgedBy().read(number);
      std::map<size_t, Tensor> wanted;
      watch(exact, inputs, [&](size_t layer, const Tensor& t) { wanted[layer] = t.Clone(); });
      watch(rough, inputs, [&](size_t layer, const Tensor& t) {
        if (wanted.count(layer) > 0) result.report.layers[layer].accumulated.Add(wanted[layer], t);
      });
    }
  }

  void DescribePoint(size_t index, const Candidate& best, QuantizeResult& result) const {
    PointReport point;
    // After a budget some operands are float again: the others of the class stay.
    for (const int operand : all_classes_[index]) {
      if (points_.class_of[static_cast<size_t>(operand)] < 0) continue;
      point.operands.push_back(NameOf(operand));
      point.grid = best.numbers.grids.at(operand);
      result.recipe.tensors[NameOf(operand)] = {best.ranges[index], point.grid};
    }
    if (point.operands.empty()) return;
    point.range = best.ranges[index];
    if (!observers_.empty()) DescribeValues(observers_[index], point, result.report);
    result.report.points.push_back(std::move(point));
  }

  const QuantizeOptions& options_;
  const Recipe& recipe_;
  const int threads_ = options_.threads > 0 ? options_.threads : AvailableThreads();
  std::shared_ptr<const RuntimeGraph> observable_;
  const Graph graph_;
  Points points_;
  const std::vector<std::vector<int>> all_classes_ = points_.classes;
  std::vector<size_t> calibration_, held_back_, judged_;
  std::map<int, QuantizedWeights> weights_;                          // by operator, the nearest
  std::map<int, std::map<std::string, QuantizedWeights>> matrices_;  // of layers that have several
  std::map<int, QuantizedWeights> moved_;  // by operator, rounded by what it gives
  bool moves_given_ = false;               // by the recipe
  std::vector<Observer> observers_;        // by class; empty where the recipe has all ranges
  std::map<int, ErrorMeter> alone_;        // by operator
};

/// The samples that factors of channels are found with.
std::vector<size_t> EqualizedBy(const Samples& samples) {
  std::vector<size_t> numbers(std::min(samples.count, kCorrectionSamples));
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

/// With channels made alike, if that brings the answers nearer to those of the float network.
QuantizeResult QuantizeEqualized(Graph graph, const QuantizeOptions& options) {
  QuantizeOptions plain = options, equal = options;
  plain.recipe.equalize = false;
  const auto observable = BuildObservable(std::move(graph));
  const bool given = !options.recipe.equalization.empty();
  if (!given) {
    if (options.samples.count == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "there are no samples to equalize with, and no recipe that has the factors");
    }
    const Points points = FindPoints(observable->graph(),
                                     [&](const Operator& op) { return options.recipe.Decide(op); });
    Session session(observable, {.threads = options.threads});
    equal.recipe.equalization = FindEqualization(session, points, options.samples,
                                                 EqualizedBy(options.samples), options.watcher);
    if (equal.recipe.equalization.empty()) {
      QuantizeResult result = Quantization(observable->graph(), plain).Run();
      result.report.warnings.push_back("no two layers follow each other that could be equalized");
      return result;
    }
  }
  Graph changed = Equalized(observable->graph(), equal.recipe.equalization);
  QuantizeResult result = Quantization(std::move(changed), equal).Run();
  if (given) return result;
  QuantizeResult before = Quantization(observable->graph(), plain).Run();
  const double with = result.report.result.error.Sqnr(),
               without = before.report.result.error.Sqnr();
  if (with >= without) return result;
  before.report.warnings.push_back(
      "equalization was left out: it would have lowered signal over "
      "noise by " +
      std::to_string(without - with) + " dB");
  return before;
}

}  // namespace

QuantizeResult Quantize(Graph graph, const QuantizeOptions& options) {
  const bool equalizes = options.recipe.equalize || !options.recipe.equalization.empty();
  if (options.recipe.dynamic && (equalizes || options.recipe.adaround)) {
    throw Error(ErrorCode::kInvalidArgument,
                "scales of rows are found without samples, which equalization and adaptive "
                "rounding need: leave out --dynamic, or --equalize and --adaround");
  }
  if (equalizes) return QuantizeEqualized(std::move(graph), options);
  return Quantization(std::move(graph), options).Run();
}

}  // namespace oort::quantize
