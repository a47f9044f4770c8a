from secor.wire.compiled import Decode

SOURCE_CRC32: int
decode: Decode
