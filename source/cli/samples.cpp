// SPDX-License-Identifier: MIT
#include "cli/samples.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/text.h"
#include "oort/npy.h"

namespace oort::cli {
namespace {

namespace fs = std::filesystem;

/// A whole file, or some rows of one.
struct SamplePiece {
  std::string path;
  int64_t row = -1;
};

bool IsSampleFile(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* known : {".npy", ".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm"}) {
    if (ending == known) return true;
  }
  return false;
}

std::vector<std::string> FilesOf(const std::string& place) {
  std::error_code error;
  if (!fs::exists(place, error)) {
    throw Error(ErrorCode::kNotFound, "'" + place + "' is not there");
  }
  if (!fs::is_directory(place, error)) return {place};
  std::vector<std::string> files;
  for (auto entry = fs::recursive_directory_iterator(place, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_regular_file() && IsSampleFile(entry->path())) files.push_back(entry->path());
  }
  if (error) {
    throw Error(ErrorCode::kIo, "cannot list folder '" + place + "': " + error.message());
  }
  if (files.empty()) {
    throw Error(ErrorCode::kNotFound, "folder '" + place + "' has no .npy files and no pictures");
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The samples of one input; remembers the file that it read last, of which the next may be a row.
class PortSamples {
 public:
  PortSamples(Port port, Normalization normalization)
      : port_(std::move(port)), normalization_(std::move(normalization)) {}

  void Add(const std::string& place) {
    for (const std::string& path : FilesOf(place)) {
      if (fs::path(path).extension() != ".npy") {
        pieces_.push_back({path, -1});
        pictures_ = true;
        continue;
      }
      const int64_t rows = Load(path).dim(0) / Batch();
      if (!HasRows()) {
        pieces_.push_back({path, -1});
      } else {
        for (int64_t row = 0; row < rows; ++row) pieces_.push_back({path, row});
      }
    }
  }

  size_t size() const { return pieces_.size(); }
  bool pictures() const { return pictures_; }
  const SamplePiece& at(size_t index) const { return pieces_[index]; }

  Tensor Read(size_t index) {
    const SamplePiece& piece = pieces_[index];
    const Tensor& tensor = Load(piece.path);
    if (piece.row >= 0) return tensor.Rows(piece.row * Batch(), (piece.row + 1) * Batch());
    if (!port_.has_shape || tensor.rank() + 1 != port_.shape.rank()) return tensor;
    Shape shape{1};
    for (int axis = 0; axis < tensor.rank(); ++axis) shape.Append(tensor.shape()[axis]);
    return tensor.Reshaped(shape);
  }

 private:
  /// Rows that the network was traced with.
  int64_t Batch() const {
    const bool known = port_.has_shape && port_.shape.rank() > 0 && port_.shape[0] > 0;
    return known ? port_.shape[0] : 1;
  }
  /// Whether the file at hand has a sample in each of its rows.
  bool HasRows() const {
    return port_.has_shape && port_.shape.rank() > 0 && file_.rank() == port_.shape.rank();
  }

  const Tensor& Load(const std::string& path) {
    if (path == path_) return file_;
    path_.clear();
    bool picture = false;
    file_ = ReadInput(port_, path, normalization_, picture);
    if (file_.rank() == 0) throw Error(ErrorCode::kInvalidArgument, path + ": it is one number");
    path_ = path;
    return file_;
  }

  Port port_;
  Normalization normalization_;
  std::vector<SamplePiece> pieces_;
  bool pictures_ = false;
  std::string path_;
  Tensor file_;
};

std::vector<int64_t> ReadClasses(const std::string& path, size_t samples) {
  std::istringstream lines(ReadTextFile(path));
  std::vector<int64_t> classes;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    int64_t number = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (error != std::errc() || end != line.data() + line.size() || number < 0) {
      throw Error(
          ErrorCode::kInvalidArgument,
          path + ": line " + std::to_string(classes.size() + 1) + " is not the number of a class");
    }
    classes.push_back(number);
  }
  if (classes.size() == samples) return classes;
  throw Error(ErrorCode::kInvalidArgument, path + " has " + std::to_string(classes.size()) +
                                               " classes for " + std::to_string(samples) +
                                               " samples");
}

}  // namespace

SampleSet FindSamples(const std::vector<Port>& ports, const SampleFiles& files,
                      const Normalization& normalization) {
  SampleSet set;
  if (files.places.empty()) return set;
  auto inputs = std::make_shared<std::vector<PortSamples>>();
  for (const Port& port : ports) inputs->emplace_back(port, normalization);
  for (const std::string& place : files.places) {
    const size_t equals = place.find('=');
    const int named = equals == std::string::npos ? -1 : FindInput(ports, place.substr(0, equals));
    if (named < 0 && ports.size() != 1) {
      throw UsageError("the network has " + std::to_string(ports.size()) +
                       " inputs: give NAME=FOLDER-OR-FILE for each, not '" + place + "'");
    }
    const auto port = static_cast<size_t>(std::max(named, 0));
    (*inputs)[port].Add(named < 0 ? place : place.substr(equals + 1));
  }
  const bool pictures = std::any_of(inputs->begin(), inputs->end(),
                                    [](const PortSamples& input) { return input.pictures(); });
  if (!pictures &&
      (!normalization.mean.empty() || !normalization.std.empty() || normalization.invert)) {
    throw UsageError("--mean, --std and --invert are for pictures, and no sample is one");
  }
  const size_t count = inputs->empty() ? 0 : inputs->front().size();
  for (size_t i = 0; i < inputs->size(); ++i) {
    if ((*inputs)[i].size() == count) continue;
    throw Error(ErrorCode::kInvalidArgument,
                "input " + ports[i].name + " has " + std::to_string((*inputs)[i].size()) +
                    " samples, and " + ports[0].name + " has " + std::to_string(count));
  }
  if (count == 0) throw Error(ErrorCode::kInvalidArgument, "there is no sample in the given files");
  const size_t taken = std::min(count, files.most);
  const auto place = [count, taken](size_t index) { return index * count / taken; };
  set.samples.count = taken;
  set.samples.read = [inputs, place](size_t index) {
    std::vector<Tensor> tensors;
    for (PortSamples& input : *inputs) tensors.push_back(input.Read(place(index)));
    return tensors;
  };
  set.samples.name = [inputs, place](size_t index) {
    const SamplePiece& piece = inputs->front().at(place(index));
    return piece.row < 0 ? piece.path : piece.path + ", row " + std::to_string(piece.row);
  };
  if (!files.labels.empty()) {
    const std::vector<int64_t> all = ReadClasses(files.labels, count);
    for (size_t i = 0; i < taken; ++i) set.labels.push_back(all[place(i)]);
  }
  return set;
}

}  // namespace oort::cli
