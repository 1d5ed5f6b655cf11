// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <optional>

#include "cli/command.h"
#include "cli/limits_report.h"
#include "cli/text.h"
#include "core/cpu_limits.h"
#include "limits/device_memory.h"
#include "limits/rank_limits.h"
#include "llm/exactness.h"
#include "oort/engine.h"
#include "oort/error.h"
#include "oort/kv_cache.h"

namespace oort::cli {

std::string PrecisionName(const limits::BitWidths& precision) {
  return "w" + FormatNumber(precision.weight_bits) + (precision.bytes ? "a8" : "") + "kv" +
         FormatNumber(precision.cache_bits);
}

namespace {

using limits::Head;
using limits::Machine;

struct LimitsOptions {
  std::string config, plot;
  std::vector<std::string> machines{"this"};
  std::vector<double> weights{16, 8, 6, 4};
  std::vector<std::string> kinds{"16", "8"};  ///< of caches: bits, or names of --kv
  std::vector<double> caches;                 ///< their bits for this model
  double prompt = 512, context = 4096, memory = 0, bandwidth = 0, tflops = 0;
  std::string activations;    ///< as of products on a GPU: int8, fp8 or empty
  double layer_overhead = 0;  ///< microseconds
  int64_t group = 32;
  int threads = 0;
  std::vector<int> ranks{1, 2, 4, 8};
  std::vector<std::string> links;
  bool json = false, list = false, each_position = false;
};

std::vector<Machine> PickMachines(const LimitsOptions& options) {
  std::vector<Machine> machines;
  for (const std::string& name : options.machines) {
    if (name == "all") {
      for (const Machine& machine : limits::KnownMachines()) machines.push_back(machine);
    } else if (name == "this") {
      machines.push_back(limits::MeasureThisMachine(options.threads));
    } else {
      machines.push_back(limits::FindMachine(name));
    }
  }
  for (Machine& machine : machines) {
    if (options.bandwidth > 0) machine.bandwidth = options.bandwidth * 1e9;
    if (options.tflops > 0) machine.flops = options.tflops * 1e12;
    if (options.memory > 0) machine.memory = options.memory * 1024 * 1024 * 1024;
    machine.layer_overhead = options.layer_overhead * 1e-6;
    if (!(machine.bandwidth > 0 && machine.flops > 0)) {
      throw Error(ErrorCode::kInternal, "the speed of " + machine.name + " is not known");
    }
  }
  return machines;
}

/// Counts without a decimal point.
Json Whole(double value) { return value < 9e15 ? Json(static_cast<int64_t>(value)) : Json(value); }

Json NumberOrNull(double value) {
  return std::isfinite(value) && value >= 0 ? Whole(value) : Json();
}

Json Finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json TurnsJson(const std::vector<double>& turns) {
  Json list = Json::array();
  for (const double turn : turns) list.push_back(turn);
  return list;
}

Json TimeJson(const limits::TimeLimit& time) {
  return {{"seconds", time.seconds()},
          {"read_seconds", time.read},
          {"compute_seconds", time.compute},
          {"bound", time.compute_bound() ? "compute" : "memory"}};
}

Json PrefillJson(const LimitsReport& report, const limits::BitWidths& precision,
                 const Machine& machine, Head head) {
  Json json = TimeJson(report.Prefill(precision, machine, report.prompt, head));
  json["turning_points"] = TurnsJson(report.Turns(precision, machine, head));
  return json;
}

Json CaseJson(const LimitsReport& report, const limits::BitWidths& precision,
              const Machine& machine) {
  const limits::ModelShape& shape = report.shape;
  Json positions = Json::array();
  for (double position = 1; position <= report.context; position *= 2) {
    const double seconds = limits::DecodeLimit(shape, precision, machine, position).seconds();
    positions.push_back(
        {{"position", Whole(position)}, {"seconds", seconds}, {"tokens_per_second", 1 / seconds}});
  }
  return {
      {"precision", PrecisionName(precision)},
      {"weight_bits", precision.weight_bits},
      {"kv_bits", precision.cache_bits},
      {"activation_bits", precision.bytes ? 8 : 16},
      {"prefill", PrefillJson(report, precision, machine, Head::kOnce)},
      {"prefill_head_for_all", PrefillJson(report, precision, machine, Head::kAll)},
      {"decode_first", TimeJson(limits::DecodeLimit(shape, precision, machine, 1))},
      {"decode_at_context",
       TimeJson(limits::DecodeLimit(shape, precision, machine, report.context))},
      {"decode", positions},
      {"positions_per_millisecond",
       Finite(limits::PositionsPerMillisecond(shape, precision, machine))},
      {"longest_context", NumberOrNull(limits::LongestContext(shape, precision, machine.memory))},
      {"longest_context_without_embedding",
       NumberOrNull(limits::LongestContext(shape, precision, machine.memory, false))},
      {"largest_batch",
       NumberOrNull(limits::LargestBatch(shape, precision, machine.memory, report.context))},
      {"compute_bound_batch_at_first",
       NumberOrNull(limits::BalancedBatch(shape, precision, machine, 1))},
      {"compute_bound_batch",
       NumberOrNull(limits::BalancedBatch(shape, precision, machine, report.context))}};
}

/// What Oort takes on a GPU, for precisions that it has there.
struct GpuMemory {
  std::string precision;
  limits::DeviceMemory bytes;
};

bool IsExact(double weight_bytes) { return IsExactByDefault(DeviceType::kCuda, weight_bytes); }

std::vector<GpuMemory> GpuMemories(const LimitsReport& report, const LimitsOptions& options) {
  std::vector<GpuMemory> memories;
  if (report.shape.state_size > 0) return memories;
  const auto predict = [&](limits::BitWidths precision, double cache_bits) {
    precision.cache_bits = cache_bits;
    const limits::DeviceWeightBits weights{static_cast<int>(precision.weight_bits),
                                           static_cast<int>(precision.table_bits), options.group,
                                           precision.bytes};
    const bool exact =
        !precision.bytes && IsExact(limits::PredictDeviceWeights(report.shape, weights));
    const EngineOptions usual;
    const double rows = exact ? std::min(report.context, static_cast<double>(usual.prompt_chunk))
                              : static_cast<double>(usual.step_tokens);
    return GpuMemory{PrecisionName(precision),
                     limits::PredictDeviceMemory(report.shape, weights,
                                                 {cache_bits, report.context, rows, exact})};
  };
  const bool has_f32 = std::ranges::find(options.caches, 32) != options.caches.end();
  for (const limits::BitWidths& precision : report.precisions) {
    const double bits = precision.weight_bits;
    if (bits != 16 && bits != 8 && bits != 4) continue;
    if (precision.cache_bits != 8 && precision.cache_bits != 16 && precision.cache_bits != 32)
      continue;
    memories.push_back(predict(precision, precision.cache_bits));
    // What small models have unless told otherwise.
    const bool exact = !precision.bytes && IsExact(memories.back().bytes.weights);
    if (exact && !has_f32 && precision.cache_bits == 16) memories.push_back(predict(precision, 32));
  }
  return memories;
}

void PrintGpuMemory(const LimitsReport& report, const LimitsOptions& options) {
  const std::vector<GpuMemory> memories = GpuMemories(report, options);
  if (memories.empty()) return;
  Table table({{"on a GPU"},
               {"weights", Table::kRight},
               {"cache of " + FormatFixed(report.context, 0), Table::kRight},
               {"activations", Table::kRight},
               {"together", Table::kRight}});
  for (const GpuMemory& memory : memories) {
    table.Row({memory.precision, FormatBytes(memory.bytes.weights), FormatBytes(memory.bytes.cache),
               FormatBytes(memory.bytes.activations), FormatBytes(memory.bytes.total())});
  }
  table.Print(std::cout, "  ");
}

Json GpuMemoryJson(const LimitsReport& report, const LimitsOptions& options) {
  Json list = Json::array();
  for (const GpuMemory& memory : GpuMemories(report, options)) {
    list.push_back({{"precision", memory.precision},
                    {"weights", Whole(memory.bytes.weights)},
                    {"cache", Whole(memory.bytes.cache)},
                    {"activations", Whole(memory.bytes.activations)},
                    {"total", Whole(memory.bytes.total())}});
  }
  return list;
}

Json ReportJson(const LimitsReport& report, const LimitsOptions& options) {
  const limits::ParameterCounts counts = limits::CountParameters(report.shape);
  Json bytes = Json::object(), cache = Json::object(), machines = Json::array();
  for (const double bits : options.weights)
    bytes[FormatNumber(bits)] = Whole(counts.stored() * bits / 8);
  for (const double bits : options.caches)
    cache[FormatNumber(bits)] = Whole(limits::CacheOfPosition(report.shape) * bits / 8);
  for (const Machine& machine : report.machines) {
    Json cases = Json::array();
    for (const limits::BitWidths& precision : report.precisions)
      cases.push_back(CaseJson(report, precision, machine));
    machines.push_back({{"name", machine.name},
                        {"title", machine.title},
                        {"bandwidth", machine.bandwidth},
                        {"flops", machine.flops},
                        {"memory", Whole(machine.memory)},
                        {"cases", cases}});
    if (!report.links.empty()) machines.back()["ranks"] = RanksJson(report, machine);
  }
  return {{"model", report.name},
          {"family", report.shape.family},
          {"parameters",
           {{"attention", Whole(counts.attention)},
            {"feed_forward", Whole(counts.feed_forward)},
            {"router", Whole(counts.router)},
            {"norms", Whole(counts.norms)},
            {"embedding", Whole(counts.embedding)},
            {"head", Whole(counts.head)},
            {"tied", counts.tied},
            {"layers", Whole(counts.layers())},
            {"active", Whole(counts.active())},
            {"stored", Whole(counts.stored())}}},
          {"weight_bytes", bytes},
          {"kv_bytes_per_position", cache},
          {"state_bytes", Whole(limits::StateOf(report.shape) * sizeof(float))},
          {"gpu_memory", GpuMemoryJson(report, options)},
          {"prompt", Whole(report.prompt)},
          {"context", Whole(report.context)},
          {"machines", machines}};
}

void PrintModel(const LimitsReport& report, const LimitsOptions& options) {
  const limits::ParameterCounts counts = limits::CountParameters(report.shape);
  std::cout << report.name << (report.shape.family.empty() ? "" : " (" + report.shape.family + ")")
            << "\n";
  Table parts({{"parameters"}, {"", Table::kRight}, {"", Table::kRight}});
  const auto part = [&](const std::string& name, double count) {
    parts.Row({name, FormatCount(count), FormatFixed(100 * count / counts.stored(), 1) + " %"});
  };
  const bool states = report.shape.state_layers > 0;
  part(!states                                ? "attention"
       : report.shape.attention_layers() == 0 ? "state spaces"
                                              : "attention and state spaces",
       counts.attention);
  if (counts.feed_forward > 0) part("feed-forward", counts.feed_forward);
  if (counts.router > 0) part("router", counts.router);
  part("norms", counts.norms);
  part("embedding", counts.embedding);
  part(counts.tied ? "head (is the embedding)" : "head", counts.head);
  part("in the file", counts.stored());
  part("used by a token", counts.active());
  parts.Print(std::cout, "  ");
  std::cout << "  weights:";
  for (const double bits : options.weights) {
    std::cout << "  " << FormatNumber(bits) << "-bit " << FormatBytes(counts.stored() * bits / 8);
  }
  std::cout << "\n  cache of a position:";
  for (const double bits : options.caches) {
    std::cout << "  " << FormatNumber(bits) << "-bit "
              << FormatBytes(limits::CacheOfPosition(report.shape) * bits / 8);
  }
  if (report.shape.state_size > 0) {
    std::cout << "\n  state of a sequence:  "
              << FormatBytes(limits::StateOf(report.shape) * sizeof(float));
  }
  std::cout << "\n";
}

std::string CountOrWord(double value, const char* negative, const char* infinite = "no limit") {
  if (value < 0) return negative;
  return std::isinf(value) ? infinite : FormatFixed(value, 0);
}

std::string RateText(double rate) {
  return rate < 1000 ? FormatNumber(rate, 3) : FormatFixed(rate, 0);
}

std::string TurnsText(const std::vector<double>& turns) {
  std::vector<std::string> texts;
  for (const double turn : turns) texts.push_back(FormatFixed(std::floor(turn), 0));
  return texts.empty() ? "none" : Join(texts, ", ");
}

std::string BoundText(const limits::TimeLimit& time) {
  return FormatNumber(1e3 * time.seconds(), 3) + " ms " +
         (time.compute_bound() ? "compute" : "memory");
}

void PrintMachine(const LimitsReport& report, const Machine& machine) {
  std::cout << "\n"
            << machine.name << ": " << machine.title << "; "
            << FormatNumber(machine.bandwidth / 1e9) << " GB/s, "
            << FormatNumber(machine.flops / 1e12) << " TFLOP/s, " << FormatBytes(machine.memory)
            << "\n";
  const std::string prompt = FormatFixed(report.prompt, 0),
                    context = FormatFixed(report.context, 0);
  Table table({{""},
               {"prompt of " + prompt, Table::kRight},
               {"bound changes at", Table::kRight},
               {"with all logits", Table::kRight},
               {"changes at", Table::kRight},
               {"first token", Table::kRight},
               {"tokens/s", Table::kRight},
               {"at " + context, Table::kRight},
               {"tokens per ms", Table::kRight},
               {"longest context", Table::kRight},
               {"batch at " + context, Table::kRight},
               {"compute-bound batch", Table::kRight},
               {"at " + context, Table::kRight}});
  for (const limits::BitWidths& precision : report.precisions) {
    const limits::ModelShape& s = report.shape;
    const auto first = limits::DecodeLimit(s, precision, machine, 1);
    const auto last = limits::DecodeLimit(s, precision, machine, report.context);
    table.Row(
        {PrecisionName(precision), BoundText(report.Prefill(precision, machine, report.prompt)),
         TurnsText(report.Turns(precision, machine)),
         BoundText(report.Prefill(precision, machine, report.prompt, Head::kAll)),
         TurnsText(report.Turns(precision, machine, Head::kAll)),
         FormatNumber(1e3 * first.seconds(), 3) + " ms", RateText(1 / first.seconds()),
         RateText(1 / last.seconds()),
         CountOrWord(limits::PositionsPerMillisecond(s, precision, machine), ""),
         CountOrWord(limits::LongestContext(s, precision, machine.memory), "too large"),
         CountOrWord(limits::LargestBatch(s, precision, machine.memory, report.context),
                     "too large"),
         CountOrWord(limits::BalancedBatch(s, precision, machine, 1), "", "never"),
         CountOrWord(limits::BalancedBatch(s, precision, machine, report.context), "", "never")});
  }
  table.Print(std::cout, "  ");
}

int PrintMachines() {
  Table table({{"name"},
               {"GB/s", Table::kRight},
               {"TFLOP/s", Table::kRight},
               {"memory", Table::kRight},
               {""}});
  for (const Machine& m : limits::KnownMachines()) {
    table.Row({m.name, FormatNumber(m.bandwidth / 1e9), FormatNumber(m.flops / 1e12),
               FormatBytes(m.memory), m.title});
  }
  table.Row({"this", "", "", "", "this machine, measured"});
  table.Print(std::cout);
  return 0;
}

void WritePlot(const LimitsReport& report, const std::string& path) {
  const bool html = path.ends_with(".html") || path.ends_with(".htm");
  if (!html && !path.ends_with(".svg")) {
    throw UsageError("--plot draws an .svg or .html, not '" + path + "'");
  }
  WriteTextFile(path, html ? LimitsHtml(report) : LimitsSvg(report));
}

/// Whether it is a number of bits; such a number is within the same bounds as for weights.
std::optional<double> BitsOf(const std::string& kind) {
  double bits = 0;
  const char* const end = kind.data() + kind.size();
  const auto parsed = std::from_chars(kind.data(), end, bits);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(bits >= 1 && bits <= 64)) return {};
  return bits;
}

std::string CheckKind(const std::string& kind) {
  if (BitsOf(kind)) return {};
  try {
    KvTypeOf(kind);
  } catch (const Error&) {
    return "neither 1 to 64 bits nor one of f32, f16, int8, fp8 and k6v4: '" + kind + "'";
  }
  return {};
}

/// What a number takes in a cache. int8 counts as 8, as everywhere here: its scales come on top
/// where memory is counted. Of k6v4 they are part of it, since they are a tenth.
double BitsOf(const std::string& kind, const limits::ModelShape& shape) {
  if (const auto bits = BitsOf(kind)) return *bits;
  const KvType type = KvTypeOf(kind);
  if (type == KvType::kF32) return 32;
  if (type != KvType::kK6V4) return type == KvType::kF16 ? 16 : 8;
  const double numbers = 2.0 * KvCache::kBlockTokens * static_cast<double>(shape.head_dim);
  return 8 * static_cast<double>(KvCache::BlockBytes({1, 1, shape.head_dim, type})) / numbers;
}

/// Weights that are multiplied as bytes have 8 bits, whatever they had in a file; those of 4 bits
/// stay.
limits::BitWidths WidthsOf(double weights, double cache, bool bytes) {
  if (!bytes || weights <= 4) return {weights, cache};
  return {8, cache, true, weights > 8 ? 16.0 : 8.0};
}

int RunLimits(LimitsOptions options) {
  if (options.list) return PrintMachines();
  if (options.config.empty()) throw UsageError("limits needs a MODEL");
  LimitsReport report;
  report.shape = limits::ShapeOfModel(options.config);
  for (const std::string& kind : options.kinds) {
    options.caches.push_back(BitsOf(kind, report.shape));
  }
  std::filesystem::path path = std::filesystem::path(options.config).lexically_normal();
  if (path.filename() == "config.json") path = path.parent_path();
  if (path.filename().empty()) path = path.parent_path();
  report.name = path.filename().empty() ? options.config : path.filename().string();
  report.machines = PickMachines(options);
  if (options.each_position) report.reads = limits::CacheReads::kEachPosition;
  report.prompt = options.prompt;
  report.context = options.context;
  report.ranks = options.ranks;
  report.links = options.links;
  // An unknown one is refused before anything is printed.
  for (const std::string& link : report.links) static_cast<void>(limits::FindLink(link));
  for (const double cache : options.caches) {
    for (const double weights : options.weights) {
      const auto precision = WidthsOf(weights, cache, !options.activations.empty());
      const bool known = std::ranges::any_of(report.precisions, [&](const auto& other) {
        return PrecisionName(other) == PrecisionName(precision);
      });
      if (!known) report.precisions.push_back(precision);
    }
  }
  if (!options.plot.empty()) WritePlot(report, options.plot);
  if (options.json) {
    Print(std::cout, ReportJson(report, options));
    return 0;
  }
  PrintModel(report, options);
  PrintGpuMemory(report, options);
  for (const Machine& machine : report.machines) {
    PrintMachine(report, machine);
    PrintRanks(report, machine);
  }
  return 0;
}

}  // namespace

Action AddLimits(CLI::App& app) {
  auto options = std::make_shared<LimitsOptions>();
  LimitsOptions& o = *options;
  app.add_option(
      "MODEL", o.config,
      "A GGUF file, a config.json or the folder that holds it, or a llama2.c checkpoint");
  app.add_option("--machine", o.machines, "Machines by name, 'this' (measured) or 'all'")
      ->delimiter(',');
  app.add_flag("--list", o.list, "List the machines that are known");
  app.add_option("--weights", o.weights, "Bits of a weight")
      ->delimiter(',')
      ->check(CLI::Range(1.0, 64.0));
  app.add_option("--kv", o.kinds,
                 "Bits of a number in the cache, or how it is kept: f32, f16, int8, fp8, k6v4")
      ->delimiter(',')
      ->type_name("KIND,…")
      ->check(CheckKind);
  app.add_option("--activations", o.activations,
                 "As --activations of other commands on a GPU: weights of layers have 8 bits, and "
                 "so has what prompts multiply with them")
      ->type_name("NAME")
      ->check(CLI::IsMember({"int8", "fp8"}));
  app.add_option("--group", o.group, "Weights of 8 and 4 bits that share a scale")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--prompt", o.prompt, "Tokens of the prompt")->check(CLI::Range(1.0, 1e9));
  app.add_option("--context", o.context, "Position, and length of the sequences of a batch")
      ->check(CLI::Range(1.0, 1e9));
  app.add_option("--memory", o.memory, "GiB of memory, in place of the machine's")
      ->check(CLI::PositiveNumber);
  app.add_option("--bandwidth", o.bandwidth, "GB/s, in place of the machine's")
      ->check(CLI::PositiveNumber);
  app.add_option("--tflops", o.tflops, "TFLOP/s, in place of the machine's")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", o.threads, "Threads that measure this machine")
      ->check(CLI::Range(0, kMostThreads));
  app.add_flag("--each-position", o.each_position,
               "Each position of a prompt reads the cache before it");
  app.add_option("--link", o.links,
                 "How several of a machine reach each other for one answer: nvlink, pcie, memory, "
                 "100gbe, 10gbe, 1gbe")
      ->delimiter(',')
      ->type_name("NAME,…");
  app.add_option("--ranks", o.ranks, "With --link: how many of the machine (default 1,2,4,8)")
      ->delimiter(',')
      ->type_name("N,…")
      ->check(CLI::Range(1, 1024))
      ->needs("--link");
  app.add_option("--layer-overhead", o.layer_overhead,
                 "With --link: microseconds that each layer of a token takes beside reading its "
                 "weights, and that ranks cannot share: launches, norms")
      ->type_name("US")
      ->check(CLI::Range(0.0, 1e6))
      ->needs("--link");
  app.add_option("--plot", o.plot, "Draw an .svg or .html");
  app.add_flag("--json", o.json, "Print JSON");
  app.footer(
      "Reading weights and cache, and multiplying with them, takes at least so long, whoever does "
      "it.\n"
      "Rows are precisions: w4kv16 has weights of 4 bits and a cache of 16; a8 says that prompts "
      "multiply bytes. Columns:\n"
      "  prompt of N          the least time for a prompt, and what sets it: memory or compute\n"
      "  bound changes at     lengths of a prompt at which that changes\n"
      "  with all logits      the same where the logits of every token are wanted, not of the "
      "last\n"
      "  first token          the least time for a token with nothing before it\n"
      "  tokens/s, at N       the most tokens a second, at the first position and at position N\n"
      "  tokens per ms        so many positions more make a token a millisecond slower\n"
      "  longest context      that fits into the memory beside the weights\n"
      "  batch at N           sequences of N tokens that fit at the same time\n"
      "  compute-bound batch  sequences from which on compute is the limit, at positions 1 and N\n"
      "Examples:\n"
      "  oort limits SmolLM2-135M.gguf\n"
      "  oort limits config.json --machine h100,4090 --weights 16,4 --kv 16 --plot limits.svg\n"
      "  oort limits config.json --machine h100 --link nvlink,1gbe --ranks 1,2,8");
  return [options] { return RunLimits(*options); };
}

}  // namespace oort::cli
