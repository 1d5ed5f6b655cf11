// SPDX-License-Identifier: MIT
#include "language.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "errors.h"
#include "load.h"
#include "options.h"

namespace oort::python {
namespace {

SamplingOptions SamplingOf(const nb::dict& request) {
  SamplingOptions sampling;
  Set(sampling.temperature, request, "temperature");
  Set(sampling.top_k, request, "top_k");
  Set(sampling.top_p, request, "top_p");
  Set(sampling.min_p, request, "min_p");
  Set(sampling.repetition_penalty, request, "repetition_penalty");
  Set(sampling.presence_penalty, request, "presence_penalty");
  Set(sampling.frequency_penalty, request, "frequency_penalty");
  Set(sampling.logit_bias, request, "logit_bias");
  Set(sampling.seed, request, "seed");
  Set(sampling.top_logprobs, request, "logprobs");
  return sampling;
}

Pictures PicturesOf(const nb::object& list) {
  Pictures pictures;
  for (const nb::handle picture : list) {
    pictures.push_back(nb::cast<PictureHandle>(picture).picture);
  }
  return pictures;
}

/// As transformers has it: True, False or "never".
BeamOptions::Stop BeamStopOf(const nb::object& given) {
  bool early = false;
  if (given.is_none() || nb::try_cast(given, early)) {
    return early ? BeamOptions::kEarly : BeamOptions::kUnlikely;
  }
  if (As<std::string>(given, "early_stopping") == "never") return BeamOptions::kImpossible;
  ThrowCannotBe("early_stopping", given);
}

GenerateRequest RequestOf(const nb::dict& given) {
  GenerateRequest request;
  Set(request.prompt, given, "prompt");
  Set(request.max_tokens, given, "max_tokens");
  Set(request.min_tokens, given, "min_tokens");
  request.sampling = SamplingOf(given);
  Set(request.stops, given, "stop");
  Set(request.stop_tokens, given, "stop_tokens");
  Set(request.ignore_end, given, "ignore_end");
  Set(request.n, given, "n");
  Set(request.best_of, given, "best_of");
  Set(request.beams.width, given, "beams");
  Set(request.beams.length_penalty, given, "length_penalty");
  request.beams.stop = BeamStopOf(given["early_stopping"]);
  Set(request.prompt_logprobs, given, "prompt_logprobs");
  Set(request.priority, given, "priority");
  Set(request.adapter, given, "adapter");
  Set(request.cache_salt, given, "cache_salt");
  Set(request.draft_tokens, given, "most_draft_tokens");
  request.pictures = PicturesOf(given["pictures"]);
  std::optional<double> seconds;
  Set(seconds, given, "timeout");
  if (seconds) {
    request.deadline = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                           std::chrono::duration<double>(std::min(std::max(*seconds, 0.0), 1e9)));
  }
  return request;
}

GrammarSpec SpecOf(const nb::object& form) {
  const auto kind = nb::cast<std::string>(form[0]);
  const nb::object given = form[1];
  if (kind == "json") return GrammarSpec::JsonObject();
  if (kind == "choices") return GrammarSpec::Choice(As<std::vector<std::string>>(given, kind));
  const auto text = As<std::string>(given, kind);
  if (kind == "json_schema") return GrammarSpec::JsonSchema(text);
  if (kind == "regex") return GrammarSpec::Regex(text);
  return GrammarSpec::Gbnf(text);
}

RankOptions RanksOf(const nb::dict& given) {
  RankOptions ranks;
  Set(ranks.count, given, "ranks");
  ranks.exact = false;
  Set(ranks.exact, given, "exact");
  SetNamed(ranks.exact, given, "split", [&](const std::string& name) {
    if (name != "fast" && name != "exact" && name != "pipeline") {
      throw Error(ErrorCode::kInvalidArgument,
                  "split '" + name + "' is not fast, exact or pipeline");
    }
    ranks.pipeline = name == "pipeline";
    return name == "exact";
  });
  SetNamed(ranks.exchange, given, "exchange", [](const std::string& name) {
    if (name == "nccl") return RankOptions::Exchange::kNccl;
    if (name == "host") return RankOptions::Exchange::kHost;
    if (name == "auto") return RankOptions::Exchange::kAuto;
    throw Error(ErrorCode::kInvalidArgument, "exchange '" + name + "' is not auto, nccl or host");
  });
  Set(ranks.deadline, given, "rank_deadline");
  // With a GPU named all are on that one; with cuda alone they take GPUs in turns.
  ranks.spread = StrOf(given["device"]).find(':') == std::string::npos;
  return ranks;
}

LanguageModelOptions ModelOptionsOf(const nb::dict& given) {
  LanguageModelOptions options;
  SetDevice(options.device, given);
  Set(options.weights, given, "weights");
  Set(options.activations, given, "activations");
  Set(options.group, given, "group");
  Set(options.exact, given, "exact");
  std::vector<std::pair<std::string, std::string>> adapters;
  Set(adapters, given, "adapters");
  for (auto& [name, file] : adapters) {
    options.adapters.push_back({std::move(name), std::move(file)});
  }
  std::string heads;
  Set(heads, given, "draft_heads");
  options.draft_heads = heads;
  options.ranks = RanksOf(given);
  options.progress = ProgressOf(given["progress"]);
  return options;
}

EngineLoopOptions EngineOptionsOf(const nb::dict& given) {
  EngineLoopOptions loop;
  // One program's own requests: who has read so many prompts already has the memory for them.
  loop.most_waiting = loop.most_waiting_tokens = std::numeric_limits<int64_t>::max();
  Set(loop.most_waiting, given, "most_waiting");
  Set(loop.most_waiting_tokens, given, "most_waiting_tokens");
  EngineOptions& engine = loop.engine;
  Set(engine.threads, given, "threads");
  Set(engine.cache_tokens, given, "cache_tokens");
  SetNamed(engine.kv, given, "kv", [](const std::string& name) {
    return name.empty() ? std::optional<KvType>() : KvTypeOf(name);
  });
  Set(engine.memory_limit, given, "memory_limit");
  Set(engine.deterministic, given, "deterministic");
  Set(engine.reuse_prefixes, given, "reuse_prefixes");
  Set(engine.prompt_chunk, given, "prompt_chunk");
  Set(engine.step_tokens, given, "step_tokens");
  Set(engine.step_seconds, given, "step_seconds");
  Set(engine.most_running, given, "most_running");
  Set(engine.reserve_cache, given, "reserve_cache");
  Set(engine.swap_bytes, given, "swap_bytes");
  Set(engine.draft.tokens, given, "draft_tokens");
  SetNamed(engine.draft.source, given, "draft", [](const std::string& name) {
    if (name == "ngram") return DraftOptions::kNgram;
    if (name == "model") return DraftOptions::kModel;
    if (name == "heads") return DraftOptions::kHeads;
    if (name.empty() || name == "none") return DraftOptions::kNone;
    throw Error(ErrorCode::kInvalidArgument,
                "draft '" + name + "' is not none, ngram, model or heads");
  });
  return loop;
}

std::shared_ptr<Model> LoadModel(const std::string& path, const nb::dict& options) {
  LanguageModelOptions load = ModelOptionsOf(options);
  EngineLoopOptions engine = EngineOptionsOf(options);
  std::string drafts;
  Set(drafts, options, "draft_model");
  if (drafts.empty() != (engine.engine.draft.source != DraftOptions::kModel)) {
    throw Error(ErrorCode::kInvalidArgument, "draft=\"model\" and draft_model go together");
  }
  if (load.draft_heads.empty() != (engine.engine.draft.source != DraftOptions::kHeads)) {
    throw Error(ErrorCode::kInvalidArgument, "draft=\"heads\" and draft_heads go together");
  }
  std::shared_ptr<const LanguageModel> model;
  RunUnlocked(true, [&](const std::stop_token& stop) {
    load.stop = stop;
    model = LanguageModel::Load(path, load);
    if (drafts.empty()) return;
    // What is of the model itself; as with draft models of C and the command line.
    const LanguageModelOptions usual;
    load.adapters.clear();
    load.weights = usual.weights;
    load.group = usual.group;
    load.draft_heads.clear();
    load.ranks = usual.ranks;
    engine.engine.draft.model = LanguageModel::Load(drafts, load);
  });
  return std::make_shared<Model>(std::move(model), engine);
}

nb::dict InfoOf(const Model& self) {
  const LanguageModelInfo& info = self.model().info();
  nb::dict dict;
  dict["family"] = info.family;
  dict["layers"] = info.layers;
  dict["hidden"] = info.hidden;
  dict["heads"] = info.heads;
  dict["kv_heads"] = info.kv_heads;
  dict["head_dim"] = info.head_dim;
  dict["vocabulary"] = info.vocabulary;
  dict["context"] = info.context;
  dict["weight_bytes"] = info.weight_bytes;
  dict["step_bytes"] = info.step_bytes;
  dict["file_bytes"] = info.file_bytes;
  dict["device"] = self.model().graph()->device().ToString();
  dict["adapters"] = self.model().adapters();
  dict["chat_templates"] = self.model().chat_template_names();
  return dict;
}

openai::ToolUse ToolUseOf(const nb::dict& chat) {
  openai::ToolUse use;
  Set(use.tools, chat, "tools");
  Set(use.choice, chat, "tool_choice");
  Set(use.parallel, chat, "parallel_tool_calls");
  return use;
}

ChatInputs ChatInputsOf(const nb::dict& chat) {
  ChatInputs inputs;
  Set(inputs.messages, chat, "messages");
  Set(inputs.documents, chat, "documents");
  Set(inputs.variables, chat, "variables");
  Set(inputs.continue_final_message, chat, "continue_final_message");
  inputs.add_generation_prompt = !inputs.continue_final_message;
  return inputs;
}

void GiveTools(const LanguageModel& model, const openai::ToolUse& tools, ChatInputs& inputs) {
  CheckToolUse(tools);
  PutTools(model, tools, inputs);
}

template <typename Result, typename Work>
Result Without(const Work& work) {
  Result result;
  RunUnlocked(false, [&](const std::stop_token&) { result = work(); });
  return result;
}

void BindModel(nb::module_& module) {
  nb::class_<PictureHandle>(module, "Picture");
  nb::class_<Model>(module, "Model")
      .def(nb::new_(&LoadModel), nb::arg("path"), nb::arg("options"))
      .def("submit", &Model::Submit, nb::arg("request"))
      .def("stats", &Model::Stats)
      .def("info", &InfoOf)
      .def("tokenizer", [](const Model& self) { return self.model().tokenizer(); })
      .def("end_tokens",
           [](const Model& self) {
             const std::span<const int32_t> ends = self.model().end_tokens();
             return std::vector<int32_t>(ends.begin(), ends.end());
           })
      .def("encode_chat",
           [](const Model& self, const nb::dict& chat, const std::string& name,
              const nb::list& given) {
             ChatInputs inputs = ChatInputsOf(chat);
             const openai::ToolUse tools = ToolUseOf(chat);
             const Pictures pictures = PicturesOf(given);
             return Without<std::vector<int32_t>>([&] {
               GiveTools(self.model(), tools, inputs);
               return self.model().EncodeChat(inputs, name, {}, pictures);
             });
           })
      .def("read_picture", &Model::ReadPicture, nb::arg("given"))
      .def("format_chat", [](const Model& self, const nb::dict& chat, const std::string& name) {
        ChatInputs inputs = ChatInputsOf(chat);
        const openai::ToolUse tools = ToolUseOf(chat);
        return Without<std::string>([&] {
          GiveTools(self.model(), tools, inputs);
          return self.model().FormatChat(inputs, name);
        });
      });
}

void BindTokenizer(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer",
                        R"(Text to tokens and back, as the model's own tokenizer does it.

Its path is a GGUF file, a tokenizer.json, a sentencepiece model, or a folder with one of them.

>>> import oort
>>> tokenizer = oort.Tokenizer("models/storyteller")
>>> tokenizer.decode(tokenizer.encode("Once upon a time"))
'Once upon a time'
)")
      .def(
          "__init__",
          [](Tokenizer* self, const std::string& path) {
            RunUnlocked(false, [&](const std::stop_token&) {
              new (self) Tokenizer(Tokenizer::FromFile(path));
            });
          },
          nb::arg("path"))
      .def(
          "encode",
          [](const Tokenizer& self, const std::string& text, bool add, bool parse) {
            return Without<std::vector<int32_t>>([&] { return self.Encode(text, {add, parse}); });
          },
          nb::arg("text"), nb::kw_only(), nb::arg("add_special") = true,
          nb::arg("parse_special") = true,
          "Ids of a text. add_special puts what the model wants around it; without parse_special\n"
          "the text of a special token is nothing but its characters.")
      .def(
          "decode",
          [](const Tokenizer& self, const std::vector<int32_t>& tokens, bool skip) {
            return Without<std::string>([&] { return self.Decode(tokens, {skip}); });
          },
          nb::arg("tokens"), nb::kw_only(), nb::arg("skip_special") = true, "The text of tokens.")
      .def("__len__", &Tokenizer::size)
      .def("piece", &Tokenizer::Piece, nb::arg("token"),
           "A token as the vocabulary spells it (\"Ġthe\", \"▁the\"); empty where there is none.")
      .def("id_of", &Tokenizer::IdOf, nb::arg("piece"),
           "The token that the vocabulary spells so; None where there is none.")
      .def("is_special", &Tokenizer::IsSpecial, nb::arg("token"),
           "Whether it is a token such as the end of a text, which decode() leaves out.")
      .def_prop_ro("bos", &Tokenizer::bos, "The token that texts begin with; None without one.")
      .def_prop_ro("eos", &Tokenizer::eos, "The token that texts end with; None without one.");
}

}  // namespace

Model::~Model() { LetGo(engine_); }

std::shared_ptr<EngineThread> Model::Engine() {
  const std::lock_guard lock(mutex_);
  if (!engine_ || engine_->IsForked()) {
    engine_ = std::make_shared<EngineThread>(model_, options_);
    EndAtExit(engine_);
  }
  return engine_;
}

std::shared_ptr<const TokenConstraint> Model::Constraint(
    const nb::object& form, const std::optional<openai::ToolUse>& tools) {
  std::optional<GrammarSpec> spec;
  if (!form.is_none()) spec = SpecOf(form);
  const bool calls = tools && tools->must_call();
  if (calls && spec) {
    throw Error(ErrorCode::kInvalidArgument,
                "an answer that must call a tool has no other form: tool_choice excludes it");
  }
  if (!spec && !calls) return nullptr;
  std::shared_ptr<const TokenConstraint> constraint;
  RunUnlocked(false, [&](const std::stop_token&) {
    const std::lock_guard lock(mutex_);
    if (!grammars_) {
      grammars_ = std::make_unique<GrammarCompiler>(model_->tokenizer(),
                                                    static_cast<size_t>(model_->info().vocabulary));
    }
    std::vector<int32_t> prefix;
    if (calls) {
      spec = MustCallGrammar(*model_, *tools);
      prefix = ToolCallPrefix(openai::CallStyleOf(*model_), model_->tokenizer());
    }
    constraint = grammars_->Compile(*spec, prefix);
  });
  return constraint;
}

std::unique_ptr<Stream> Model::Submit(const nb::dict& given) {
  GenerateRequest request = RequestOf(given);
  std::optional<openai::ToolUse> tools;
  if (!given["chat"].is_none()) tools = ToolUseOf(nb::cast<nb::dict>(given["chat"]));
  request.constraint = Constraint(given["form"], tools);
  Stream::Wishes wishes;
  Set(wishes.pieces, given, "stream");
  if (tools) {
    wishes.parts = TakeApart(*model_, *tools, request);
    wishes.parallel_calls = tools->parallel;
  }
  std::shared_ptr<EngineThread> engine;
  RunUnlocked(false, [&](const std::stop_token&) { engine = Engine(); });
  return std::make_unique<Stream>(std::move(engine), std::move(request), std::move(wishes));
}

PictureHandle Model::ReadPicture(const nb::object& given) {
  PictureHandle read;
  RunUnlocked(false, [&](const std::stop_token&) {
    const std::lock_guard lock(mutex_);
    if (!pictures_) pictures_ = MakePictureSource(model_);
  });
  pictures_->Read(given, read);
  return read;
}

nb::dict Model::Stats() const {
  EngineStats stats;
  RunUnlocked(false, [&](const std::stop_token&) {
    const std::lock_guard lock(mutex_);
    // The locks of one before a fork may be held by a thread that is gone.
    if (engine_ && !engine_->IsForked()) stats = engine_->stats();
  });
  nb::dict dict;
  dict["waiting"] = stats.waiting;
  dict["running"] = stats.running;
  dict["steps"] = stats.steps;
  dict["prompt_tokens"] = stats.prompt_tokens;
  dict["reused_tokens"] = stats.reused_tokens;
  dict["generated_tokens"] = stats.generated_tokens;
  dict["preemptions"] = stats.preemptions;
  dict["cache_blocks"] = stats.blocks;
  dict["used_blocks"] = stats.used_blocks;
  return dict;
}

void BindLanguage(nb::module_& module) {
  BindTokenizer(module);
  BindStream(module);
  BindModel(module);
}

}  // namespace oort::python
