"""LZ4 frames for tests, made byte by byte: right ones and wrong ones.

Sources: "LZ4 Frame Format Description", "LZ4 Block Format Description", XXH32.
"""

from __future__ import annotations

import random
import struct

import lz4.frame

MAGIC = b"\x04\x22\x4d\x18"
INDEPENDENT, BLOCK_CHECKSUM, CONTENT_SIZE, CONTENT_CHECKSUM, DICTIONARY = 0x20, 0x10, 8, 4, 1
VERSION = 0x40
END = bytes(4)


def rotated(number: int, bits: int) -> int:
    """A number of 32 bits, rotated to the left."""
    return (number << bits | number >> (32 - bits)) & 0xFFFFFFFF


def short_xxh32(data: bytes) -> int:
    """XXH32 of fewer than 16 bytes, seed 0."""
    hashed, at = 374761393 + len(data), 0
    for at in range(0, len(data) - len(data) % 4, 4):
        (word,) = struct.unpack_from("<I", data, at)
        hashed = rotated((hashed + word * 3266489917) & 0xFFFFFFFF, 17) * 668265263 & 0xFFFFFFFF
    for byte in data[len(data) - len(data) % 4 :]:
        hashed = rotated((hashed + byte * 374761393) & 0xFFFFFFFF, 11) * 2654435761 & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 15) * 2246822519 & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 13) * 3266489917 & 0xFFFFFFFF
    return hashed ^ hashed >> 16


def header(flags: int = VERSION | INDEPENDENT, largest: int = 0x40, rest: bytes = b"") -> bytes:
    """A frame's header with the right checksum; ``rest`` stands before that."""
    descriptor = bytes([flags, largest]) + rest
    return MAGIC + descriptor + bytes([short_xxh32(descriptor) >> 8 & 0xFF])


def stored(content: bytes) -> bytes:
    """A block that is not compressed."""
    return struct.pack("<I", len(content) | 1 << 31) + content


def packed(sequences: bytes) -> bytes:
    """A compressed block."""
    return struct.pack("<I", len(sequences)) + sequences


def long_length(length: int) -> bytes:
    """What follows four bits that hold 15."""
    rest = length - 15
    return b"" if rest < 0 else b"\xff" * (rest // 255) + bytes([rest % 255])


def sequence(literals: bytes, distance: int = 0, length: int = 0) -> bytes:
    """Literals, and a match of ``length`` from 4 on; without it the last sequence of a block."""
    match = max(length - 4, 0)
    begun = bytes([min(len(literals), 15) << 4 | min(match, 15)])
    begun += long_length(len(literals)) + literals
    return begun + (struct.pack("<H", distance) + long_length(match) if length else b"")


def drawn_frame(chance: random.Random) -> bytes:
    """A frame of drawn blocks; many are wrong by little."""
    flags = chance.choice((VERSION, VERSION | INDEPENDENT))
    made = 0
    blocks = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        before = 0 if flags & INDEPENDENT else made
        if chance.random() < 0.2:
            blocks.append(stored(chance.randbytes(chance.choice((1, 9, 300)))))
            made += len(blocks[-1]) - 4
            continue
        sequences, size = b"", 0
        for _ in range(chance.choice((0, 1, 2, 5))):
            literals = chance.randbytes(chance.choice((0, 1, 14, 15, 16, 40, 270)))
            size += len(literals)
            distance = chance.choice((1, 2, 4, 15, 16, 17, size, size + before, 65535))
            length = chance.choice((4, 5, 18, 19, 20, 300, 5000))
            if chance.random() < 0.95:
                distance = max(min(distance, size + before), 1)
            sequences += sequence(literals, min(distance, 65535), length)
            size += length
        if chance.random() < 0.2:  # around the largest block's end
            literals = b"s" * max(65536 - chance.choice((30, 17, 16, 12, 11, 5, 4)) - size, 1)
            length = max(min(65536 - size - len(literals) - chance.choice((5, 4, 6, 0)), 99), 4)
            sequences += sequence(literals, 1, length)
            size += len(literals) + length
        last = b"l" * chance.choice((0, 4, 5, 5, 6, 6, 8, 9, 12, 13, 40))
        blocks.append(packed(sequences + sequence(last)))
        made += size + len(last)
    told = chance.choice((None, None, made, made, made + 1, 0))
    rest = b"" if told is None else struct.pack("<Q", told)
    return header(flags | (0 if told is None else CONTENT_SIZE), rest=rest) + b"".join(blocks) + END


def library_frame(chance: random.Random, content: bytes) -> bytes:
    """A frame as the library makes it, of any kind that it makes."""
    return bytes(
        lz4.frame.compress(
            content,
            block_linked=chance.random() < 0.5,
            store_size=chance.random() < 0.5,
            block_size=chance.choice((4, 4, 5, 6, 7)),
            compression_level=chance.choice((0, 0, 9, -5)),
            content_checksum=chance.random() < 0.1,
            block_checksum=chance.random() < 0.1,
        )
    )


def damaged_frame(frame: bytes, chance: random.Random) -> bytes:
    """The frame with some bytes changed, cut out or put in; its header's checksum is right."""
    changed = bytearray(frame)
    for _ in range(chance.choice((1, 1, 2, 5))):
        near = chance.choice((30, len(changed), len(changed)))
        at = min(chance.randrange(near), len(changed) - 1)
        match chance.randrange(6):
            case 0:
                del changed[at : at + chance.choice((1, 2, 8))]
            case 1:
                changed[at:at] = chance.randbytes(chance.choice((1, 2, 8)))
            case 2:
                del changed[at:]
            case 3:
                changed[at] = chance.choice((0, 1, 0x0F, 0x10, 0xF0, 0xFF))
            case _:
                changed[at] ^= 1 << chance.randrange(8)
        changed = changed or bytearray(1)
    length = 10 if len(changed) > 4 and changed[4] & CONTENT_SIZE else 2
    if len(changed) > 4 + length and chance.random() < 0.9:
        changed[4 + length] = short_xxh32(bytes(changed[4 : 4 + length])) >> 8 & 0xFF
    return bytes(changed)
