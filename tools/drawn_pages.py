# SPDX-License-Identifier: MIT
"""Pages of Latin and Chinese text that Pillow draws. Not a program: tools/check-demos.py, bench/demos.py and
docs/images/make_demos_svg.py import it.

The fonts are those that fontconfig finds; of Debian, fonts-dejavu-core and fonts-wqy-microhei.
"""
import functools
import pathlib
import subprocess

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont, ImageOps

SIZE = 640, 448  # pixels of a page
HARBOUR = ["The harbour of Norden", "Ships leave at 06:30 and 18:45 on every",
           "day but Sunday. Tickets are sold on board,", "bicycles travel free of charge.",
           "Please be on the quay ten minutes earlier."]  # fmt: skip
TEA = ["茶馆的菜单", "绿茶每壶二十元，红茶每壶二十五元。", "今天的点心是豆沙包和芝麻饼。", "早上八点开门，晚上十点关门。", "星期一休息。"]
MIXED = ["Museum 博物馆", "Open 09:00 - 17:30 开放时间", "成人票 Adults 60 元", "学生票 Students 30 元", "请勿拍照 No photographs"]
RECEIPT = ["RECEIPT No. 20417", "2 x Notebook            7.80", "1 x Fountain pen       24.50",
           "3 x Ink, blue          11.97", "Total EUR              44.27"]  # fmt: skip
LETTER = ["Dear Mrs. Lindqvist,", "thank you for your letter of 3 March. We have",
          "measured the bridge twice: it is 412 metres", "long, and its towers are 86 metres high.",
          "The drawings follow by post.", "Yours sincerely, K. Brandt"]  # fmt: skip
STATION = ["北京南站", "上海虹桥方向的列车在第三站台。", "发车时间十四点二十分。", "请看好您的行李。"]


@functools.cache
def font_file(pattern, sign):
    """A font of the pattern that has the sign."""
    wanted = f"{pattern}:charset={ord(sign):x}"
    found = subprocess.run(["fc-list", wanted, "file"], capture_output=True, text=True).stdout.split(":")[0].strip()
    if not pathlib.Path(found).is_file():
        raise SystemExit(f"no font '{wanted}' is installed: apt-get install fonts-dejavu-core fonts-wqy-microhei")
    return found


def sheet(lines, size=26, latin="DejaVu Serif:style=Book", ink="#202020", ground="#ffffff"):
    page = Image.new("RGB", SIZE, ground)
    draw = ImageDraw.Draw(page)
    for i, line in enumerate(lines):
        sign = next((sign for sign in line if ord(sign) > 0x2FFF), None)
        font = ImageFont.truetype(font_file(":lang=zh-cn", sign) if sign else font_file(latin, "A"), size)
        draw.text((24, 24 + i * 2.4 * size), line, fill=ink, font=font)
    return page


def columns():
    """Two columns of small type without serifs."""
    page = sheet(HARBOUR, 12, "DejaVu Sans:style=Book")
    page.paste(sheet(LETTER, 12, "DejaVu Sans:style=Book").crop((0, 0, 330, SIZE[1])), (335, 0))
    return page


def photographed(page):
    """Seen from the side in light that falls from the left, unsharp and with noise."""
    seen = page.transform(SIZE, Image.Transform.PERSPECTIVE, (1.04, 0.05, -16, 0.02, 1.08, -14, 0, 0.00012),
                          Image.Resampling.BICUBIC, fillcolor="#b8b0a4")  # fmt: skip
    pixels = np.asarray(seen.filter(ImageFilter.GaussianBlur(0.7))).astype(np.float32)
    pixels *= np.linspace(1, 0.62, SIZE[0], dtype=np.float32)[None, :, None]
    pixels += np.random.default_rng(7).normal(0, 5, pixels.shape).astype(np.float32)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def turned(page, degrees):
    return page.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor="#ffffff")


def draw_pages():
    """Ten pages by name."""
    sans, mono = "DejaVu Sans:style=Bold", "DejaVu Sans Mono:style=Book"
    return {
        "latin": sheet(HARBOUR),
        "bold": sheet(HARBOUR, 24, sans, "#103070"),
        "chinese": sheet(TEA, 30),
        "mixed": sheet(MIXED, 28, sans),
        "columns": columns(),
        "receipt": sheet(RECEIPT, 22, mono, "#404040"),
        "turned": turned(sheet(LETTER, 24), 4),
        "upside-down": turned(sheet(MIXED, 30, sans), 180),
        "light-on-dark": ImageOps.invert(sheet(STATION, 34)),
        "photographed": photographed(sheet(TEA[:2] + HARBOUR[:3], 26)),
    }


def write_pages(folder):
    """The same ten as files."""
    paths = []
    for name, page in draw_pages().items():
        paths.append(pathlib.Path(folder) / f"{name}.png")
        page.save(paths[-1])
    return paths
