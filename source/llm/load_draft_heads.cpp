// SPDX-License-Identifier: MIT
#include "llm/load_draft_heads.h"

#include <utility>

#include "core/problems.h"
#include "decoder/decoder_graph.h"
#include "decoder/draft_heads.h"

namespace oort {

std::shared_ptr<const RuntimeGraph> LoadDraftHeads(const std::filesystem::path& folder,
                                                   Graph& decoder, LanguageModelInfo& info,
                                                   LoadOptions load) {
  try {
    const DraftHeadsFiles files = ReadDraftHeads(folder);
    Graph heads = BuildDraftHeads(files, info.hidden, info.vocabulary);
    AddHidden(decoder);
    info.draft_heads = files.heads;
    info.draft_head_bytes = WeightBytes(heads);
    info.weight_bytes += info.draft_head_bytes;
    load.progress = nullptr;
    return RuntimeGraph::Build(std::move(heads), load);
  } catch (const Error& error) {
    throw error.WithContext("draft heads " + Quote(folder.string()) + ": ");
  }
}

}  // namespace oort
