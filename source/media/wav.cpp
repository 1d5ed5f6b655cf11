// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "core/file_writer.h"
#include "oort/audio.h"
#include "oort/error.h"
#include "oort/source.h"

namespace oort {
namespace {

constexpr size_t kMostSamples = size_t{1} << 28;
constexpr uint32_t kHighestRate = 768000;
constexpr uint16_t kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;

/// Little-endian numbers from untrusted bytes; the caller has checked that they are there.
template <typename T>
T LittleEndian(const std::byte* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

struct WavFormat {
  uint16_t kind = 0, channels = 0, bits = 0;
  uint32_t rate = 0;
  size_t sample_bytes() const { return bits / 8U; }
  size_t frame_bytes() const { return sample_bytes() * channels; }
};

class WavReader {
 public:
  WavReader(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  Audio Read() {
    if (bytes_.size() < 12 || !Is(0, "RIFF") || !Is(8, "WAVE")) Refuse("is no WAV file");
    size_t offset = 12;
    while (bytes_.size() - offset >= 8) {
      const size_t size = LittleEndian<uint32_t>(bytes_.data() + offset + 4);
      const size_t begin = offset + 8, left = bytes_.size() - begin;
      if (Is(offset, "fmt ")) ReadFormat(bytes_.subspan(begin, std::min(size, left)));
      // A writer that could not seek leaves a size that is too large: the data ends with the file.
      if (Is(offset, "data")) return ReadSamples(bytes_.subspan(begin, std::min(size, left)));
      if (size + size % 2 > left) break;
      offset = begin + size + size % 2;
    }
    Refuse("has no samples (no chunk 'data')");
  }

 private:
  bool Is(size_t offset, const char* tag) const {
    return std::memcmp(bytes_.data() + offset, tag, 4) == 0;
  }

  [[noreturn]] void Refuse(const std::string& why,
                           ErrorCode code = ErrorCode::kInvalidModel) const {
    throw Error(code, "'" + std::string(name_) + "' " + why);
  }

  void ReadFormat(std::span<const std::byte> chunk) {
    if (chunk.size() < 16) Refuse("is damaged: its chunk 'fmt ' ends early");
    format_.kind = LittleEndian<uint16_t>(chunk.data());
    format_.channels = LittleEndian<uint16_t>(chunk.data() + 2);
    format_.rate = LittleEndian<uint32_t>(chunk.data() + 4);
    format_.bits = LittleEndian<uint16_t>(chunk.data() + 14);
    if (format_.kind == kExtensible && chunk.size() >= 26) {
      format_.kind = LittleEndian<uint16_t>(chunk.data() + 24);
    }
    const uint16_t bits = format_.bits;
    const bool known = format_.kind == kPcm ? bits == 8 || bits == 16 || bits == 24 || bits == 32
                                            : format_.kind == kFloat && (bits == 32 || bits == 64);
    if (!known) {
      Refuse("holds format " + std::to_string(format_.kind) + " with " + std::to_string(bits) +
             " bits; integers of 8, 16, 24 or 32 bits and floats of 32 or 64 are read");
    }
    if (format_.channels == 0 || format_.rate == 0 || format_.rate > kHighestRate) {
      Refuse("is damaged: " + std::to_string(format_.channels) + " channels at " +
             std::to_string(format_.rate) + " Hz");
    }
  }

  float Sample(const std::byte* at) const {
    if (format_.kind == kFloat) {
      return format_.bits == 32 ? LittleEndian<float>(at)
                                : static_cast<float>(LittleEndian<double>(at));
    }
    switch (format_.bits) {
      case 8: return (static_cast<float>(LittleEndian<uint8_t>(at)) - 128) / 128;
      case 16: return static_cast<float>(LittleEndian<int16_t>(at)) / 32768;
      case 24: {
        const uint32_t low = LittleEndian<uint16_t>(at), high = LittleEndian<uint8_t>(at + 2);
        return static_cast<float>(static_cast<int32_t>((high << 24) | (low << 8))) / 0x1p31f;
      }
      default: return static_cast<float>(LittleEndian<int32_t>(at)) / 0x1p31f;
    }
  }

  Audio ReadSamples(std::span<const std::byte> data) const {
    if (format_.channels == 0) Refuse("is damaged: its chunk 'fmt ' is missing");
    const size_t frames = data.size() / format_.frame_bytes();
    if (frames > kMostSamples)
      Refuse("is too long: it has over 268 million samples", ErrorCode::kLimit);
    Audio audio{static_cast<int>(format_.rate), std::vector<float>(frames)};
    for (size_t i = 0; i < frames; ++i) {
      const std::byte* frame = data.data() + i * format_.frame_bytes();
      float sum = 0;
      for (size_t c = 0; c < format_.channels; ++c)
        sum += Sample(frame + c * format_.sample_bytes());
      audio.samples[i] = sum / static_cast<float>(format_.channels);
    }
    return audio;
  }

  std::span<const std::byte> bytes_;
  std::string_view name_;
  WavFormat format_;
};

template <typename T>
void AppendNumber(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace

Audio DecodeWav(std::span<const std::byte> bytes, std::string_view name) {
  return WavReader(bytes, name).Read();
}

Audio ReadWav(const std::filesystem::path& path) {
  const auto source = ByteSource::File(path);
  const auto buffer = source->MapOrRead(0, source->size());
  return DecodeWav({buffer->data(), static_cast<size_t>(source->size())}, path.string());
}

void WriteWav(const std::filesystem::path& path, const Audio& audio) {
  if (audio.rate < 1 || audio.samples.size() > kMostSamples) {
    throw Error(ErrorCode::kInvalidArgument,
                "'" + path.string() + "': " + std::to_string(audio.samples.size()) +
                    " samples at " + std::to_string(audio.rate) + " Hz cannot be written");
  }
  const auto size = static_cast<uint32_t>(2 * audio.samples.size());
  const auto rate = static_cast<uint32_t>(audio.rate);
  std::string text = "RIFF";
  AppendNumber(text, 36 + size);
  text += "WAVEfmt ";
  AppendNumber(text, uint32_t{16});
  AppendNumber(text, kPcm);
  AppendNumber(text, uint16_t{1});
  AppendNumber(text, rate);
  AppendNumber(text, 2 * rate);
  AppendNumber(text, uint16_t{2});
  AppendNumber(text, uint16_t{16});
  text += "data";
  AppendNumber(text, size);
  for (const float sample : audio.samples) {
    const float scaled = std::isnan(sample) ? 0 : std::clamp(sample * 32768, -32768.0f, 32767.0f);
    AppendNumber(text, static_cast<int16_t>(std::nearbyint(scaled)));
  }
  FileWriter file(path);
  file.Write(text);
  file.Finish(false);
  file.Publish();
}

}  // namespace oort
