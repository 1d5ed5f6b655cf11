// SPDX-License-Identifier: MIT
#include "layers/convolution/winograd/winograd.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/checked.h"
#include "core/host_memory.h"
#include "core/machine.h"
#include "core/parallel.h"

namespace oort {
namespace {

/// Elements of a cache line; kernels read less behind an end.
template <typename T>
constexpr int64_t kLineOf = 64 / sizeof(T);
constexpr int64_t kPatchChannels = 64;  // of an edge tile that are copied at once

template <typename T>
int64_t WinogradAlign(int64_t count) {
  return CeilDivide(count, kLineOf<T>) * kLineOf<T>;
}

/// G of U = G g G^T: row i is (1, p, p^2) over the factors that winograd_transform.h leaves out,
/// which are the product of the differences to all other points and the scale of its own forms.
struct WeightTransform {
  struct Point {
    double at, factor;
  };
  std::vector<Point> points;  // the finite ones; infinity takes g[2]
};

const WeightTransform& TransformOf(WinogradVariant variant) {
  constexpr double kRoot = 1.41421356237309504880, kHalf = 0.5 * kRoot;
  // Factors of F(4,3): -3/2 and 6 from the points, sqrt(1/2) from the forms of the second pair
  // (negated in the fourth coefficient), and 1/p since the output's forms leave out a factor p.
  static const WeightTransform kTransforms[] = {
      {{{0, -1}, {1, 2}, {-1, 2}}},
      {{{0, 1},
        {kHalf, -1.5 * kRoot},
        {-kHalf, -1.5 * kRoot},
        {kRoot, 6 * kHalf * kHalf},
        {-kRoot, -6 * kHalf * kHalf}}},
      {{{0, -1}, {1, -4.5}, {-1, -4.5}, {2, 90}, {-2, 90}, {0.5, 1.40625}, {-0.5, 1.40625}}},
  };
  return kTransforms[static_cast<size_t>(variant)];
}

/// G, row by row.
std::vector<double> FilterForm(WinogradVariant variant) {
  // Taps 0 and 2 by F(2,2), and the one between them for each of two pixels.
  if (variant == WinogradVariant::kStride2) return {1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0};
  std::vector<double> g;
  for (const auto& point : TransformOf(variant).points) {
    for (const double power : {1.0, point.at, point.at * point.at}) {
      g.push_back(power / point.factor);
    }
  }
  g.insert(g.end(), {0, 0, 1});
  return g;
}

}  // namespace

/// How a call is cut. Either each thread takes tiles of its own through all three steps, or, where
/// there are few tiles for much weight, all share V and each takes its own output channels.
template <typename T>
struct WinogradConvOf<T>::Plan {
  int64_t tiles_y = 0, tiles_x = 0, tiles = 0;
  int threads = 1;
  bool shared = false;
  int64_t group = 0;   // tiles of V at once
  int64_t part = 0;    // tiles of M at once
  int64_t panels = 1;  // of M at once
  int64_t unit = 1;    // tiles that are transformed together
  int64_t v_stride = 0, v_size = 0, m_stride = 0, m_size = 0, patch_size = 0;
  int64_t rows_size = 0;  // f32 coefficients on their way to being rounded
  int64_t thread_size = 0, size = 0;
};

template <typename T>
WinogradConvOf<T>::WinogradConvOf(Isa isa, const Tensor& weight, const Tensor& bias,
                                  WinogradVariant variant, const GemmKernels* rounding)
    : kernels_(WinogradKernelsFor<T>(isa)),
      rounding_(rounding),
      variant_(variant),
      channels_(weight.dim(1)),
      out_channels_(weight.dim(0)),
      columns_(rounding == nullptr ? kernels_.columns : rounding->columns),
      k_(CeilDivide(channels_, kernels_.width) * kernels_.width),
      panels_(CeilDivide(out_channels_, columns_)) {
  const int64_t size = WinogradWindow(variant);
  const int64_t padded = CheckedMultiply<int64_t>(panels_, columns_);
  int64_t element = sizeof(T);
  if (rounding != nullptr) {
    k_ = rounding->format.Padded(k_);
    element = rounding->format.element;
  }
  const int64_t elements = CheckedMultiply(CheckedMultiply(padded, k_), size * size);
  matrix_bytes_ = k_ * columns_ * element;
  weights_ = AllocatePages(static_cast<size_t>(
      CheckedAdd<int64_t>(CheckedMultiply(elements, element), kLineOf<T> * sizeof(T))));
  bias_ = AllocateHost(CheckedMultiply<size_t>(static_cast<size_t>(padded), sizeof(T)));
  T* to = reinterpret_cast<T*>(bias_->data());
  for (int64_t i = 0; i < padded; ++i) {
    to[i] = T(bias.defined() && i < out_channels_ ? bias.data<float>()[i] : 0.0f);
  }
  PackWeights(weight);
}

namespace {

/// Transforms the filters of one input channel for all columns of a panel: `filters` holds
/// [9][columns], `u` gets [size^2] rows of `columns`, `stride` elements apart.
template <int size, typename T>
void TransformFilters(const double* g, const double* filters, int columns, double* rows, T* u,
                      int64_t stride) {
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < 3; ++j) {
      double* row = rows + (i * 3 + j) * columns;
      const double* f = filters + j * columns;
      for (int c = 0; c < columns; ++c) {
        row[c] =
            g[3 * i] * f[c] + g[3 * i + 1] * f[3 * columns + c] + g[3 * i + 2] * f[6 * columns + c];
      }
    }
  }
  for (int i = 0; i < size; ++i) {
    const double* row = rows + i * 3 * columns;
    for (int j = 0; j < size; ++j, u += stride) {
      for (int c = 0; c < columns; ++c) {
        u[c] = T(static_cast<float>(g[3 * j] * row[c] + g[3 * j + 1] * row[columns + c] +
                                    g[3 * j + 2] * row[2 * columns + c]));
      }
    }
  }
}

}  // namespace

template <typename T>
void WinogradConvOf<T>::PackWeights(const Tensor& weight) {
  const int size = WinogradWindow(variant_), columns = columns_;
  const std::vector<double> g = FilterForm(variant_);
  const auto transform = size == 4   ? TransformFilters<4, T>
                         : size == 5 ? TransformFilters<5, T>
                         : size == 6 ? TransformFilters<6, T>
                                     : TransformFilters<8, T>;
  const float* from = weight.data<float>();
  const int64_t coefficients = size * size, panel_size = coefficients * k_ * columns;
  ParallelFor(AvailableThreads(), panels_, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> filters(static_cast<size_t>(9 * columns));
    std::vector<double> rows(static_cast<size_t>(3 * size * columns));
    std::vector<T> exact(static_cast<size_t>(rounding_ == nullptr ? 0 : panel_size));
    for (int64_t p = begin; p < end; ++p) {
      std::byte* panel = weights_->data() + p * coefficients * matrix_bytes_;
      T* to = rounding_ == nullptr ? reinterpret_cast<T*>(panel) : exact.data();
      for (int64_t k = 0; k < k_; ++k) {
        for (int c = 0; c < columns; ++c) {
          const int64_t o = p * columns + c;
          const bool real = o < out_channels_ && k < channels_;
          const float* f = from + (real ? (o * channels_ + k) * 9 : 0);
          for (int i = 0; i < 9; ++i) {
            filters[static_cast<size_t>(i * columns + c)] = real ? static_cast<double>(f[i]) : 0;
          }
        }
        transform(g.data(), filters.data(), columns, rows.data(), to + k * columns, k_ * columns);
      }
      if constexpr (std::is_same_v<T, float>) {
        for (int64_t i = 0; i < coefficients && rounding_ != nullptr; ++i) {
          rounding_->convert(to + i * k_ * columns, k_,
                             {GemmSide::kB, columns, panel + i * matrix_bytes_});
        }
      }
    }
  });
}

template <typename T>
typename WinogradConvOf<T>::Plan WinogradConvOf<T>::MakePlan(const WinogradSize& size,
                                                             int threads) const {
  constexpr int64_t kLine = kLineOf<T>, kGroup = sizeof(T) == 2 ? 24 : 25, kRoundedGroup = 48;
  const int64_t tile = WinogradTile(variant_), window = WinogradWindow(variant_);
  const int64_t coefficients = window * window;
  Plan plan;
  plan.tiles_y = CeilDivide(size.out_height, tile);
  plan.tiles_x = CeilDivide(size.out_width, tile);
  plan.tiles = CheckedMultiply(CheckedMultiply(plan.tiles_y, plan.tiles_x), size.batch);
  const int64_t weights = coefficients * k_ * panels_ * columns_;
  plan.unit = rounding_ == nullptr ? 1 : rounding_->rows;
  const double products = static_cast<double>(plan.tiles) * static_cast<double>(weights);
  plan.threads = static_cast<int>(
      std::clamp(products / GrainProducts(), 1.0, std::max(1.0, static_cast<double>(threads))));
  plan.shared = plan.threads > 1 && plan.tiles < plan.threads * (weights < (1 << 20) ? 12 : 48);
  const int64_t mine = plan.shared ? plan.tiles : CeilDivide(plan.tiles, plan.threads);
  const int64_t most = rounding_ != nullptr  ? kRoundedGroup
                       : weights < (1 << 18) ? kGroup
                                             : 2 * kGroup;
  const int64_t groups = std::max<int64_t>(1, CeilDivide(mine, most));
  // Whole turns of the product's kernel, except where everything is one group.
  plan.group = CeilDivide(mine, groups);
  const int64_t turn = rounding_ != nullptr ? plan.unit : groups > 1 ? kernels_.rows : 1;
  plan.group = CeilDivide(plan.group, turn) * turn;
  // Where weights are read once, in the order they lie; else some panels for each row of V.
  plan.panels = std::min<int64_t>(panels_, plan.group <= 16 ? 1 : k_ <= 64 ? 4 : 2);
  plan.part = plan.group;
  if (plan.shared) {
    while (plan.panels > 1 && panels_ < plan.panels * plan.threads) --plan.panels;
    const int64_t blocks = CeilDivide(panels_, plan.panels);
    const int64_t parts = std::clamp<int64_t>(CeilDivide(plan.threads, blocks), 1,
                                              std::max<int64_t>(1, plan.group / 4));
    plan.part = CeilDivide(CeilDivide(plan.group, parts), plan.unit) * plan.unit;
  }
  // One more line than whole tiles: else all coefficients of a tile fall into one cache set.
  plan.v_stride = WinogradAlign<T>(CheckedMultiply(plan.group, k_)) + kLine;
  if (rounding_ != nullptr) {
    const int64_t floats = plan.group * k_ * rounding_->format.element / 4;
    plan.v_stride = WinogradAlign<T>(floats) + kLine;
    plan.rows_size = coefficients * plan.unit * std::min(k_, kPatchChannels);
  }
  plan.m_stride = WinogradAlign<T>(plan.part * plan.panels * columns_) + kLine;
  plan.v_size = CheckedMultiply(coefficients, plan.v_stride);
  plan.m_size = coefficients * plan.m_stride;
  plan.patch_size = WinogradAlign<T>(coefficients * std::min(k_, kPatchChannels));
  plan.thread_size = plan.m_size + plan.patch_size + WinogradAlign<T>(plan.rows_size) +
                     (plan.shared ? 0 : plan.v_size);
  plan.size = CheckedAdd(CheckedMultiply<int64_t>(plan.threads, plan.thread_size),
                         kLine + (plan.shared ? plan.v_size : 0));
  return plan;
}

template <typename T>
size_t WinogradConvOf<T>::Workspace(const WinogradSize& size, int threads) const {
  return CheckedMultiply<size_t>(static_cast<size_t>(MakePlan(size, threads).size), sizeof(T));
}

template <typename T>
class WinogradConvOf<T>::Job {
 public:
  Job(const WinogradConvOf& conv, const WinogradCallOf<T>& call, const Plan& plan, T* workspace)
      : conv_(conv),
        kernels_(conv.kernels_),
        call_(call),
        plan_(plan),
        tile_(WinogradTile(conv.variant_)),
        size_(WinogradWindow(conv.variant_)),
        input_(kernels_.input[static_cast<size_t>(conv.variant_)]),
        output_(kernels_.output[static_cast<size_t>(conv.variant_)]),
        workspace_(workspace) {}

  void Go() const {
    if (plan_.shared) {
      GoShared();
    } else {
      GoPrivate();
    }
  }

 private:
  bool rounded() const { return std::is_same_v<T, float> && conv_.rounding_ != nullptr; }

  struct Place {
    int64_t image, y, x;  // of the tile's first output pixel
  };
  struct Scratch {
    T *m, *patch, *rows, *v;
  };

  Place PlaceOf(int64_t tile) const {
    const int64_t row = tile / plan_.tiles_x;
    return {row / plan_.tiles_y, row % plan_.tiles_y * tile_, tile % plan_.tiles_x * tile_};
  }

  Scratch ScratchOf(int64_t thread) const {
    T* m = workspace_ + (plan_.shared ? plan_.v_size : 0) + thread * plan_.thread_size;
    T *patch = m + plan_.m_size, *rows = patch + plan_.patch_size;
    return {m, patch, rows, plan_.shared ? workspace_ : rows + WinogradAlign<T>(plan_.rows_size)};
  }

  /// Tiles [begin, end) into V, which starts at tile `origin`.
  void Inputs(int64_t origin, int64_t begin, int64_t end, const Scratch& scratch) const {
    for (int64_t tile = begin; tile < end; tile += plan_.unit) {
      if (!rounded()) {
        Input(tile, 0, conv_.k_, scratch.v + (tile - origin) * conv_.k_, plan_.v_stride,
              scratch.patch);
      } else if constexpr (std::is_same_v<T, float>) {
        RoundedInput(origin, tile, std::min(end, tile + plan_.unit), scratch);
      }
    }
  }

  /// The tiles of one panel of V, some channels at a time, so that what is not rounded yet stays in
  /// the L1 cache.
  void RoundedInput(int64_t origin, int64_t begin, int64_t end, const Scratch& scratch) const {
    if constexpr (std::is_same_v<T, float>) {
      constexpr int64_t kMostTiles = 64;
      const GemmKernels& gemm = *conv_.rounding_;
      const int64_t panel_bytes = plan_.unit * conv_.k_ * gemm.format.element;
      const int count = static_cast<int>(end - begin);
      const T* rows[kMostTiles];
      for (int64_t first = 0; first < conv_.k_; first += kPatchChannels) {
        const int64_t depth = std::min(kPatchChannels, conv_.k_ - first);
        const int64_t stride = plan_.unit * depth;
        for (int i = 0; i < count; ++i) {
          Input(begin + i, first, first + depth, scratch.rows + i * depth, stride, scratch.patch);
        }
        for (int64_t c = 0; c < size_ * size_; ++c) {
          for (int i = 0; i < count; ++i) rows[i] = scratch.rows + c * stride + i * depth;
          std::byte* panel = reinterpret_cast<std::byte*>(scratch.v + c * plan_.v_stride) +
                             (begin - origin) / plan_.unit * panel_bytes;
          gemm.pack_rows(rows, count, first, depth,
                         {GemmSide::kA, static_cast<int>(plan_.unit), panel});
        }
      }
    }
  }

  void GoPrivate() const {
    const int64_t threads = plan_.threads;
    ParallelFor(plan_.threads, threads, 1, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        const Scratch scratch = ScratchOf(t);
        const int64_t end = plan_.tiles * (t + 1) / threads;
        for (int64_t begin = plan_.tiles * t / threads; begin < end && !IsCancelled();
             begin += plan_.group) {
          const int64_t stop = std::min(end, begin + plan_.group);
          Inputs(begin, begin, stop, scratch);
          for (int64_t panel = 0; panel < conv_.panels_; panel += plan_.panels) {
            Block(begin, scratch.v, begin, stop, panel, scratch.m);
          }
        }
      }
    });
  }

  void GoShared() const {
    const int64_t threads = plan_.threads;
    const int64_t blocks = CeilDivide(conv_.panels_, plan_.panels);
    for (int64_t begin = 0; begin < plan_.tiles; begin += plan_.group) {
      const int64_t end = std::min(plan_.tiles, begin + plan_.group);
      ParallelFor(plan_.threads, threads, 1, [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t) {
          const int64_t units = CeilDivide(end - begin, plan_.unit);
          const int64_t from = begin + units * t / threads * plan_.unit;
          const int64_t to = begin + units * (t + 1) / threads * plan_.unit;
          Inputs(begin, from, std::min(to, end), ScratchOf(t));
        }
      });
      const int64_t parts = CeilDivide(end - begin, plan_.part);
      ParallelFor(plan_.threads, threads, 1, [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t) {
          const Scratch scratch = ScratchOf(t);
          const int64_t tasks = blocks * parts;
          for (int64_t task = tasks * t / threads; task < tasks * (t + 1) / threads; ++task) {
            const int64_t from = begin + task % parts * plan_.part;
            Block(begin, scratch.v, from, std::min(end, from + plan_.part),
                  task / parts * plan_.panels, scratch.m);
          }
        }
      });
    }
  }

  /// Channels [first, last) of a tile into rows of V.
  void Input(int64_t tile, int64_t first, int64_t last, T* v, int64_t v_stride, T* patch) const {
    const Place place = PlaceOf(tile);
    const int64_t stride = WinogradStride(conv_.variant_);
    const int64_t y = place.y * stride - call_.pad_top, x = place.x * stride - call_.pad_left;
    const bool inside = y >= 0 && x >= 0 && y + size_ <= call_.height && x + size_ <= call_.width;
    WinogradInputOf<T> input;
    input.v_stride = v_stride;
    int64_t done = first;
    const int64_t whole = std::min(last, conv_.channels_ / kernels_.width * kernels_.width);
    if (inside && whole > first) {
      done = whole;
      input.patch = call_.input + first +
                    ((place.image * call_.height + y) * call_.width + x) * call_.input_stride;
      input.pixel_stride = call_.input_stride;
      input.row_stride = call_.input_stride * call_.width;
      input.channels = whole - first;
      input.v = v;
      input_(input);
    }
    for (; done < last; done += input.channels) {
      input.channels = std::min(kPatchChannels, last - done);
      FillPatch(place.image, y, x, done, input.channels, patch);
      input.patch = patch;
      input.pixel_stride = input.channels;
      input.row_stride = input.channels * size_;
      input.v = v + done - first;
      input_(input);
    }
  }

  /// Copies the pixels of a tile that exist, and zeros for the others and for missing channels.
  void FillPatch(int64_t image, int64_t y0, int64_t x0, int64_t channel, int64_t count,
                 T* patch) const {
    const int64_t real = std::clamp<int64_t>(conv_.channels_ - channel, 0, count);
    for (int64_t y = y0; y < y0 + size_; ++y) {
      for (int64_t x = x0; x < x0 + size_; ++x, patch += count) {
        int64_t copied = 0;
        if (y >= 0 && y < call_.height && x >= 0 && x < call_.width) {
          const int64_t pixel = (image * call_.height + y) * call_.width + x;
          std::copy_n(call_.input + pixel * call_.input_stride + channel, real, patch);
          copied = real;
        }
        std::fill(patch + copied, patch + count, T(0.0f));
      }
    }
  }

  /// Products and output of tiles [begin, end) for some panels; `v` starts at tile `origin`.
  void Block(int64_t origin, const T* v, int64_t begin, int64_t end, int64_t panel, T* m) const {
    const int64_t panels = std::min(plan_.panels, conv_.panels_ - panel);
    const int64_t columns = conv_.columns_, coefficients = size_ * size_;
    const int64_t matrix = conv_.matrix_bytes_, m_row = panels * columns;
    for (int64_t i = 0; i < coefficients; ++i) {
      for (int64_t p = 0; p < panels; ++p) {
        const std::byte* u = conv_.weights_->data() + ((panel + p) * coefficients + i) * matrix;
        const bool last = p + 1 == panels;  // of those that this coefficient meets
        const std::byte* soon =
            last ? conv_.weights_->data() + (panel * coefficients + i + 1) * matrix
                 : u + coefficients * matrix;
        T* to = m + i * plan_.m_stride + p * columns;
        if (!rounded()) {
          const T* row = v + i * plan_.v_stride + (begin - origin) * conv_.k_;
          ExactProduct(row, end - begin, u, soon, to, m_row);
        } else if constexpr (std::is_same_v<T, float>) {
          const std::byte* row = reinterpret_cast<const std::byte*>(v + i * plan_.v_stride);
          const int64_t out = std::min(columns, conv_.out_channels_ - (panel + p) * columns);
          RoundedProduct(row + (begin - origin) * conv_.k_ * conv_.rounding_->format.element,
                         end - begin, out, u, soon, to, m_row);
        }
      }
    }
    for (int64_t tile = begin; tile < end; ++tile) {
      Output(tile, panel * columns, panels * columns, m + (tile - begin) * m_row);
    }
  }

  void ExactProduct(const T* v, int64_t tiles, const std::byte* u, const std::byte* soon, T* m,
                    int64_t m_row) const {
    WinogradProductOf<T> product;
    product.v = v;
    product.v_row = product.k = conv_.k_;
    product.tiles = tiles;
    product.u = reinterpret_cast<const T*>(u);
    product.soon = reinterpret_cast<const T*>(soon);
    product.m = m;
    product.m_row = m_row;
    kernels_.product(product);
  }

  void RoundedProduct(const std::byte* v, int64_t tiles, int64_t columns, const std::byte* u,
                      const std::byte* soon, T* m, int64_t m_row) const {
    if constexpr (std::is_same_v<T, float>) {
      const GemmKernels& gemm = *conv_.rounding_;
      const int64_t pieces = CeilDivide(tiles, plan_.unit);
      GemmTile tile;
      tile.k = conv_.k_;
      tile.b = u;
      tile.ldc = m_row;
      tile.columns = static_cast<int>(columns);
      tile.soon_bytes = conv_.matrix_bytes_ / pieces;
      for (int64_t i = 0; i < pieces; ++i) {
        tile.a = v + i * plan_.unit * conv_.k_ * gemm.format.element;
        tile.c = m + i * plan_.unit * m_row;
        tile.rows = static_cast<int>(std::min(plan_.unit, tiles - i * plan_.unit));
        tile.soon = soon + i * tile.soon_bytes;
        gemm.tile(tile);
      }
    }
  }

  void Output(int64_t tile, int64_t channel, int64_t count, const T* m) const {
    const Place place = PlaceOf(tile);
    const int64_t pixel = (place.image * call_.out_height + place.y) * call_.out_width + place.x;
    WinogradOutputOf<T> output;
    output.m = m;
    output.m_stride = plan_.m_stride;
    output.channels = std::min(count, conv_.out_channels_ - channel);
    output.rows = static_cast<int>(std::min(tile_, call_.out_height - place.y));
    output.columns = static_cast<int>(std::min(tile_, call_.out_width - place.x));
    output.bias = reinterpret_cast<const T*>(conv_.bias_->data()) + channel;
    output.out = call_.output + pixel * call_.output_stride + channel;
    output.pixel_stride = call_.output_stride;
    output.row_stride = call_.output_stride * call_.out_width;
    if (call_.add != nullptr) output.add = call_.add + pixel * call_.add_stride + channel;
    output.add_pixel_stride = call_.add_stride;
    output.add_row_stride = call_.add_stride * call_.out_width;
    output.activation = call_.activation;
    output_(output);
  }

  const WinogradConvOf& conv_;
  const WinogradKernelsOf<T>& kernels_;
  const WinogradCallOf<T>& call_;
  const Plan& plan_;
  int64_t tile_, size_;
  void (*input_)(const WinogradInputOf<T>&);
  void (*output_)(const WinogradOutputOf<T>&);
  T* workspace_;
};

template <typename T>
void WinogradConvOf<T>::Run(const WinogradCallOf<T>& call, int threads, void* workspace) const {
  const Plan plan = MakePlan({.batch = call.batch,
                              .out_height = call.out_height,
                              .out_width = call.out_width,
                              .channels = channels_,
                              .out_channels = out_channels_},
                             threads);
  if (plan.tiles == 0 || out_channels_ == 0) return;
  Job(*this, call, plan, static_cast<T*>(workspace)).Go();
}

template class WinogradConvOf<float>;
template class WinogradConvOf<Half>;

}  // namespace oort
