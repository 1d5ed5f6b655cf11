// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <string>

#include "oort/error.h"
#include "oort/speech.h"

namespace oort {
namespace {

constexpr int64_t kVoiceWindow = 512, kVoiceContext = 64, kVoiceState = 128;
constexpr int64_t kVoiceWindowsAtOnce = 256;  // eight seconds
// The cache grows by so many tokens: a session then sees few shapes, and plans seldom.
constexpr int64_t kCacheStep = 64;

Session LoadNetwork(const std::filesystem::path& folder, const std::string& name,
                    const LoadOptions& options) {
  return Session(
      RuntimeGraph::Load(folder / (name + ".pnnx.param"), folder / (name + ".pnnx.bin"), options));
}

[[noreturn]] void RefuseNetworks(const std::string& what) {
  throw Error(ErrorCode::kInvalidModel,
              what + "; networks of Whisper are made by tools/export-model.py");
}

/// Rows of each head behind the first `place` of another tensor's heads.
void CopyRows(const Tensor& from, Tensor& to, int64_t place) {
  const int64_t rows = from.dim(2), width = from.dim(3);
  for (int64_t head = 0; head < from.dim(1); ++head) {
    std::copy_n(from.data<float>() + head * rows * width, rows * width,
                to.data<float>() + (head * to.dim(2) + place) * width);
  }
}

/// 0 for what a token may see: the cache as far as it is filled, the tokens before it, itself.
Tensor CausalMask(int64_t count, int64_t cached, int64_t room) {
  Tensor mask(DType::kF32, {count, room + count});
  float* out = mask.data<float>();
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t i = 0; i < room + count; ++i) {
      const bool seen = i < room ? i < cached : i - room <= t;
      *out++ = seen ? 0 : -std::numeric_limits<float>::infinity();
    }
  }
  return mask;
}

}  // namespace

WhisperNetworks::WhisperNetworks(const std::filesystem::path& folder, const LoadOptions& options)
    : encoder_(LoadNetwork(folder, "encoder", options)),
      decoder_(LoadNetwork(folder, "decoder", options)) {
  const std::vector<Port>& inputs = encoder_.graph().inputs();
  if (inputs.size() != 1 || inputs[0].shape.rank() != 3) {
    RefuseNetworks("the encoder does not take one tensor of three axes");
  }
  input_ = inputs[0].shape;
  const size_t layers = encoder_.graph().outputs().size();
  if (input_[0] != 1 || input_[1] < 1 || input_[1] > 1024 || input_[2] < 1 || layers == 0 ||
      decoder_.graph().inputs().size() != 3 + 2 * layers ||
      decoder_.graph().outputs().size() != 1 + layers) {
    RefuseNetworks("encoder and decoder do not belong together");
  }
}

void WhisperNetworks::Hear(const Tensor& spectrogram, int64_t first, int64_t count) {
  if (spectrogram.rank() != 2 || spectrogram.dim(0) != mels() || first < 0 || count < 0 ||
      first + count > spectrogram.dim(1) || count > frames()) {
    throw Error(ErrorCode::kInvalidArgument,
                "WhisperNetworks::Hear: frames " + std::to_string(first) + " … " +
                    std::to_string(first + count) + " of " + spectrogram.ToString());
  }
  Tensor window = Tensor::Zeros(DType::kF32, input_);
  for (int64_t m = 0; m < mels(); ++m) {
    std::copy_n(spectrogram.data<float>() + m * spectrogram.dim(1) + first, count,
                window.data<float>() + m * frames());
  }
  heard_ = encoder_.Forward({window});
  for (const Tensor& tensor : heard_) {
    if (tensor.rank() != 4 || tensor.dim(0) != 1 || tensor.dtype() != DType::kF32) {
      RefuseNetworks("the encoder gives " + tensor.ToString() + " for keys or values");
    }
  }
  cache_.clear();
  cached_ = 0;
}

std::span<float> WhisperNetworks::Step(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (heard_.empty() || count == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "WhisperNetworks::Step before Hear, or without tokens");
  }
  while (cache_.empty() || cached_ + count > cache_[0].dim(2)) MakeRoom();
  Tensor ids(DType::kI64, {1, count}), places(DType::kI64, {1, count});
  for (int64_t t = 0; t < count; ++t) {
    ids.data<int64_t>()[t] = tokens[static_cast<size_t>(t)];
    places.data<int64_t>()[t] = cached_ + t;
  }
  std::vector<Tensor> inputs = {ids, places, CausalMask(count, cached_, cache_[0].dim(2))};
  inputs.insert(inputs.end(), cache_.begin(), cache_.end());
  inputs.insert(inputs.end(), heard_.begin(), heard_.end());
  const std::vector<Tensor> results = decoder_.Forward(inputs);
  for (size_t i = 0; i < cache_.size(); ++i) {
    const Tensor& added = results.at(i + 1);
    if (added.shape() != Shape{1, cache_[i].dim(1), count, cache_[i].dim(3)}) {
      RefuseNetworks("the decoder gives " + added.ToString() + " for a cache of " +
                     cache_[i].ToString());
    }
    CopyRows(added, cache_[i], cached_);
  }
  cached_ += count;
  logits_ = results[0];
  return {logits_.data<float>(), static_cast<size_t>(logits_.elements())};
}

void WhisperNetworks::MakeRoom() {
  std::vector<Tensor> larger;
  for (size_t i = 0; i < heard_.size();
       ++i) {  // a layer's keys and values are as wide as those heard
    const int64_t room = kCacheStep + (cache_.empty() ? 0 : cache_[i].dim(2));
    larger.push_back(Tensor::Zeros(DType::kF32, {1, heard_[i].dim(1), room, heard_[i].dim(3)}));
    if (!cache_.empty()) CopyRows(cache_[i], larger[i], 0);
  }
  cache_ = std::move(larger);
}

VoiceActivity::VoiceActivity(const std::filesystem::path& folder)
    : network_(LoadNetwork(folder, "voice", {})) {
  if (network_.graph().inputs().size() != 3 || network_.graph().outputs().size() != 3) {
    RefuseNetworks("the network 'voice' is not silero-vad");
  }
}

std::vector<float> VoiceActivity::Probabilities(std::span<const float> samples) {
  constexpr int64_t kWidth = kVoiceContext + kVoiceWindow;
  const int64_t count = static_cast<int64_t>(samples.size()) / kVoiceWindow + 1;
  std::vector<float> padded(static_cast<size_t>(kVoiceContext + count * kVoiceWindow));
  std::copy(samples.begin(), samples.end(), padded.begin() + kVoiceContext);
  std::vector<float> found;
  std::vector<Tensor> state(2, Tensor::Zeros(DType::kF32, {1, 1, kVoiceState}));
  for (int64_t first = 0; first < count; first += kVoiceWindowsAtOnce) {
    const int64_t rows = std::min(kVoiceWindowsAtOnce, count - first);
    Tensor windows(DType::kF32, {rows, kWidth});
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(padded.data() + (first + i) * kVoiceWindow, kWidth,
                  windows.data<float>() + i * kWidth);
    }
    const std::vector<Tensor> results = network_.Forward({windows, state[0], state[1]});
    if (results[0].elements() != rows) RefuseNetworks("the network 'voice' is not silero-vad");
    state = {results[1], results[2]};
    found.insert(found.end(), results[0].data<float>(), results[0].data<float>() + rows);
  }
  return found;
}

}  // namespace oort
