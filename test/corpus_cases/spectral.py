# SPDX-License-Identifier: MIT
import torch
from torch import nn

from .kit import Each, boolean, case, f32, f64, integers


def c64(*shape):
    return lambda generator: torch.randn(shape, generator=generator, dtype=torch.complex64)


def c128(*shape):
    return lambda generator: torch.randn(shape, generator=generator, dtype=torch.complex128)


@case(f32(3, 12), c64(3, 12))
def fft_lines():
    def body(x, z):
        fft = torch.fft
        return (
            fft.fft(x),
            fft.fft(z, norm="ortho"),
            fft.ifft(z, dim=0),
            fft.ifft(x, n=7, norm="forward"),
            fft.rfft(x),
            fft.rfft(x, n=9, dim=-1, norm="ortho"),
            fft.irfft(z),
            fft.irfft(z, n=15, norm="forward"),
            fft.hfft(z, n=20),
            fft.hfft(z, dim=0, norm="ortho"),
            fft.ihfft(x, n=16),
            fft.ihfft(x, dim=0, norm="forward"),
        )

    return body


@case(f32(2, 6, 5), c64(2, 6, 5))
def fft_planes():
    def body(x, z):
        fft = torch.fft
        return (
            fft.fft2(x),
            fft.ifft2(z, s=(4, 7), norm="ortho"),
            fft.rfft2(x, dim=(0, 2)),
            fft.irfft2(z, norm="forward"),
            fft.hfft2(z, s=(5, 6)),
            fft.ihfft2(x, dim=(1, 0)),
            fft.fftn(z),
            fft.ifftn(x, dim=(0, 2), norm="forward"),
            fft.rfftn(x, s=(3, 8)),
            fft.irfftn(z, s=(3, 4, 9)),
            fft.hfftn(z, dim=(2, 0)),
            fft.ihfftn(x, norm="ortho"),
        )

    return body


# A prime beyond every radix, a line that is taken as a matrix, one that is both, and an ordinary one.
@case(f32(5, 53), c64(1, 1024), c64(1, 1031), f32(2, 600))
def fft_lengths():
    def body(prime, lone, lone_prime, long):
        fft = torch.fft
        return fft.rfft(prime), fft.fft(lone), fft.ifft(lone_prime), fft.irfft(fft.rfft(long) * 2)

    return body


@case(integers(3, 8), boolean(2, 9), f64(2, 10), c128(4, 6))
def fft_types():
    def body(i, b, d, z):
        fft = torch.fft
        return fft.rfft(i), fft.fft(b), fft.rfft(d), fft.ifft2(z), fft.irfft(z)

    return body


class Stft(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("hann", torch.hann_window(24))
        self.register_buffer("hamming", torch.hamming_window(32))

    def forward(self, x, line, z):
        stft = torch.stft
        return (
            stft(x, 32, window=self.hamming, return_complex=True),
            stft(x, 32, 7, 24, self.hann, center=False, normalized=True, return_complex=True),
            stft(line, 27, 9, pad_mode="constant", onesided=False, return_complex=True),
            stft(x, 32, window=self.hamming, return_complex=False),
            stft(z, 16, 5, return_complex=True),
            stft(line, 32, 8, 24, self.hann, center=False, align_to_window=True, return_complex=True),
        )


@case(f32(2, 150), f32(131), c64(2, 90))
def stft_forms():
    return Stft()


class Istft(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32) + 0.1)

    def forward(self, x, full):
        istft = torch.istft
        return (
            istft(x, 32, window=self.window),
            istft(x, 32, 5, window=self.window, normalized=True, length=60),
            istft(x, 32, window=self.window, center=False),
            istft(full, 32, onesided=False, return_complex=True),
            istft(full, 32, onesided=False),
        )


@case(c64(2, 17, 9), c64(32, 6))
def istft_forms():
    return Istft()


@case(c64(3, 5), f32(3, 5), f32(5), unfaithful="pnnx cannot render operators that it leaves in ATen's form")
def complex_parts():
    def body(z, x, y):
        turned = torch.polar(x, y)
        return torch.angle(z), torch.angle(x), turned, turned.conj(), torch.sgn(z), z.mH, z.conj().resolve_conj()

    return body


@case(c64(4, 5), f32(6), unfaithful="pnnx cannot render operators that it leaves in ATen's form")
def fft_shifts():
    def body(z, x):
        fft = torch.fft
        return fft.fftshift(z), fft.ifftshift(z), fft.fftshift(x), fft.ifftshift(z, dim=1), fft.fftshift(z, dim=(-1,))

    return body


# The length is an input's, so that nothing can be computed beforehand.
@case(f32(2, 40), second=[f32(2, 51)], symbolic=True,
      unfaithful="pnnx cannot render operators that it leaves in ATen's form")
def spectral_any_length():
    def body(x):
        n = x.shape[1]
        window = torch.hann_window(16)
        points = torch.stft(x, 16, window=window, return_complex=True)
        return (
            torch.istft(points, 16, window=window, length=n),
            torch.fft.rfft(x, n=2 * n),
            torch.fft.fftfreq(n),
            torch.fft.rfftfreq(n, d=0.5),
            x * torch.hann_window(n),
            x * torch.hamming_window(n, periodic=False),
            x * torch.blackman_window(n),
            x * torch.bartlett_window(n),
            x * torch.kaiser_window(n, True, 8.0),
        )

    return body


class MelFrontEnd(nn.Module):
    """The features that speech networks hear: logarithms of the energy in bands of frequency."""

    def __init__(self, n_fft=64, bands=12):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        middles = torch.linspace(0, 1, bands + 2) ** 1.5 * (n_fft // 2)
        points = torch.arange(n_fft // 2 + 1)[:, None]
        rising = (points - middles[:-2]) / (middles[1:-1] - middles[:-2])
        falling = (middles[2:] - points) / (middles[2:] - middles[1:-1])
        self.register_buffer("filters", torch.clamp(torch.minimum(rising, falling), min=0))

    def forward(self, x):
        points = torch.stft(x, self.n_fft, self.n_fft // 4, window=self.window, return_complex=True)
        energy = points.abs() ** 2
        bands = torch.matmul(energy.transpose(1, 2), self.filters)
        return torch.log10(torch.clamp(bands, min=1e-6))


@case(f32(2, 400), second=[f32(3, 777)], symbolic=True)
def mel_front_end():
    return MelFrontEnd()
