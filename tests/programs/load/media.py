"""Inputs for the benchmark section crames: music, a photograph, a film; always the same bytes.

usage: media.py music|photo|film SIZE > FILE

They are made as hard to compress as the output of a recorder or a camera: there is structure at all sizes,
with the noise of a sensor, without which everything would compress far too well.
"""

import sys

import numpy as np

RATE = 44100
STEREO = 2
# Gains of the harmonics of a plucked string, and the seconds in which each fades.
HARMONICS = ((1.0, 0.9), (0.5, 0.6), (0.33, 0.45), (0.2, 0.3), (0.12, 0.2), (0.07, 0.15))
SCALE = (0, 2, 4, 7, 9, 12, 14, 16)


def music(seconds):
    """A WAV file, 16 bits: four strings and a drum, and a noise floor of about 6 steps, as on tape."""
    rng = np.random.default_rng(1)
    beat = RATE // 4
    frames = seconds * 4 * beat
    sys.stdout.buffer.write(b"RIFF" + (36 + frames * 4).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little") +
                            (1).to_bytes(2, "little") + STEREO.to_bytes(2, "little") + RATE.to_bytes(4, "little") +
                            (RATE * 4).to_bytes(4, "little") + (4).to_bytes(2, "little") + (16).to_bytes(2, "little") +
                            b"data" + (frames * 4).to_bytes(4, "little"))
    length = beat * 4  # the duration of a note
    time = np.arange(length) / RATE
    rest = np.zeros((length, STEREO))
    fade = np.exp(-time / 0.05)
    for step in range(seconds * 4):
        heard = np.zeros((length, STEREO))
        for string in range(4):
            if string and rng.random() < 0.4:
                continue
            pitch = 110 * 2 ** ((rng.choice(SCALE) + 12 * (string % 3)) / 12) * (1 + rng.normal(0, 0.0005))
            strength, place = rng.uniform(600, 2400), rng.uniform(0.2, 0.8)
            note = sum(gain * np.exp(-time / fades) * np.sin(2 * np.pi * pitch * number * time + rng.uniform(0, 6))
                       for number, (gain, fades) in enumerate(HARMONICS, 1))
            heard += np.outer(strength * note, (place, 1 - place))
        if step % 2 == 0:
            heard += (rng.normal(0, 1200, length) * fade)[:, None]
        heard += rest
        sound = heard[:beat] + rng.normal(0, 6, (beat, STEREO))
        sys.stdout.buffer.write(np.clip(np.round(sound), -32768, 32767).astype("<i2").tobytes())
        rest = np.concatenate((heard[beat:], np.zeros((beat, STEREO))))


def texture(rng, rows, columns):
    """Clouds of all sizes, 0 to 1: each octave has half the size and 0.75 of the strength of the one before."""
    total, strength, size = np.zeros((rows, columns), np.float32), 1.0, 256
    while size >= 2:
        grid = rng.random((rows // size + 2, columns // size + 2), np.float32)
        for axis, count in ((0, rows), (1, columns)):
            at = np.arange(count) / size
            low, part = at.astype(int), (at % 1).astype(np.float32)
            part = part.reshape((-1, 1) if axis == 0 else (1, -1))
            grid = grid.take(low, axis) * (1 - part) + grid.take(low + 1, axis) * part
        total += strength * grid
        strength, size = strength * 0.75, size // 2
    return (total - total.min()) / (total.max() - total.min())


def scene(rng, rows, columns, things):
    """Three colours, 0 to 255: a textured ground, and objects with sharp edges, each with its own colour and
    texture.
    """
    ground = texture(rng, rows, columns)
    picture = np.stack([40 + 150 * ground * tint for tint in (0.9, 1.0, 0.7)])
    for _ in range(things):
        high, wide = rng.integers(40, 300, 2)
        top, left = rng.integers(0, rows - high), rng.integers(0, columns - wide)
        y, x = np.ogrid[-1:1:high * 1j, -1:1:wide * 1j]
        inside = (x * x + y * y < 1) if rng.random() < 0.5 else np.ones((high, wide), bool)
        part = 0.7 + 0.3 * ground[top:top + high, left:left + wide]
        for plane, colour in zip(picture, rng.uniform(20, 240, 3)):
            plane[top:top + high, left:left + wide][inside] = (colour * part)[inside]
    return picture


def seen(rng, picture):
    """Adds the noise of a sensor, which grows with the light."""
    noise = rng.standard_normal(picture.shape, np.float32) * np.sqrt(1 + picture / 15).astype(np.float32)
    return np.clip(np.round(picture + noise), 0, 255).astype(np.uint8)


def photo(rows):
    """A PPM file of 8192 columns, made in bands."""
    rng, columns, band = np.random.default_rng(2), 8192, 1024
    sys.stdout.buffer.write(b"P6\n%d %d\n255\n" % (columns, rows))
    for _ in range(rows // band):
        sys.stdout.buffer.write(np.ascontiguousarray(seen(rng, scene(rng, band, columns, 60)).transpose(1, 2, 0)).data)


def film(frames):
    """Yuv4mpeg of 720 x 576, 4:2:0: the camera pans over a scene in which objects move."""
    rng, rows, columns = np.random.default_rng(3), 576, 720
    red, green, blue = scene(rng, rows, columns + 4 * frames, frames)
    y = 16 + 0.257 * red + 0.504 * green + 0.098 * blue
    u = (128 - 0.148 * red - 0.291 * green + 0.439 * blue)[::2, ::2]
    v = (128 + 0.439 * red - 0.368 * green - 0.071 * blue)[::2, ::2]
    things = [(rng.integers(0, rows - 160), rng.integers(0, columns - 240), rng.integers(-3, 4), rng.integers(-9, 10),
               rng.uniform(30, 220), texture(rng, 160, 240) * 60) for _ in range(6)]
    sys.stdout.buffer.write(b"YUV4MPEG2 W720 H576 F25:1 Ip A1:1 C420jpeg\n")
    for frame in range(frames):
        sys.stdout.buffer.write(b"FRAME\n")
        picture = y[:, 4 * frame:4 * frame + columns].copy()
        for top, left, down, right, light, part in things:
            top, left = (top + down * frame) % (rows - 160), (left + right * frame) % (columns - 240)
            picture[top:top + 160, left:left + 240] = light + part
        for plane, start in ((picture, 0), (u, 2 * frame), (v, 2 * frame)):
            plane = plane if plane is picture else plane[:, start:start + columns // 2]
            sys.stdout.buffer.write(seen(rng, plane).data)


if __name__ == "__main__":
    {"music": music, "photo": photo, "film": film}[sys.argv[1]](int(sys.argv[2]))
