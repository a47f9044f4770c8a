/* Small compressed batches of a fetch, many in one call: a call of a library from Python costs
 * more than such a batch holds work.
 *
 * LZ4 frames and Snappy are decompressed here.  Sources: "LZ4 Frame Format Description" 1.6, "LZ4
 * Block Format Description", "Snappy compressed format description", all public; xerial's framing
 * of Snappy is a magic, two versions, and blocks behind their lengths.  For gzip and Zstandard the
 * machine's own zlib and libzstd are called, where there are such: their functions and structures
 * that are used here have been the same since 2003 (zlib 1.2) and 2016 (Zstandard 1.0).
 *
 * What is wrong, rare or large is not judged here: such a batch is left to the library that Python
 * calls, which says what is wrong.  So this may be stricter, and never laxer: of LZ4 no checksums
 * but the header's and no dictionaries; one frame or member, and nothing behind it.
 *
 * Every read is bounded by the frame's end or its block's, every write by the room that is left.
 * No size that a frame states is believed: it is compared with what came out.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#ifdef __GNUC__
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

enum {
    MAGIC = 0x184D2204,
    DESCRIPTOR = 4, /* where it begins: flags, the largest block, perhaps the content's size */
    VERSION = 0x40,
    INDEPENDENT = 0x20,  /* flag: no block refers to one before */
    CONTENT_SIZE = 0x08, /* flag: the size follows */
    SIZE_BYTES = 8,
    LARGEST_BLOCK = 0x70, /* 4 to 7: 64 KiB to 4 MiB */
    LONG = 15,            /* a length in four bits that goes on in bytes */
    SHORTEST_MATCH = 4,
    LAST_LITERALS = 5, /* of a block; after a match there are at least so many */
    MATCH_BEFORE_END = 12, /* no match begins nearer to where the largest block would end */
    STEP = 16, /* bytes that are copied at once where there is room */
    SHORT_LITERALS = 60, /* of Snappy; of more, the length follows */
    XERIAL_MAGIC = 8,
    XERIAL_HEADER = 16, /* with two versions, which nobody looks at */
    ZLIB_FINISH = 4,
    ZLIB_STREAM_END = 1,
    ZLIB_GZIP_WINDOW = 31, /* 32 KiB, and gzip's header */
    ZSTD_SINGLE_SEGMENT = 0x20, /* flag: no window, the content's size is there */
    ZSTD_LARGEST_WINDOW = 17 << 3, /* 128 MiB */
};

/* Kafka's numbers. */
enum { GZIP = 1, SNAPPY, LZ4, ZSTD };

#define ZSTD_MAGIC 0xFD2FB528u

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Input;

typedef struct {
    uint8_t *bytes;
    int64_t used, room;
} Output;

static uint64_t little_endian(const uint8_t *at, int bytes)
{
    uint64_t number = 0;
    for (int index = bytes - 1; index >= 0; index--)
        number = number << 8 | at[index];
    return number;
}

static uint32_t rotate(uint32_t number, int bits) { return number << bits | number >> (32 - bits); }

/* XXH32 of fewer than 16 bytes, seed 0. */
static uint32_t short_hash(const uint8_t *at, int length)
{
    uint32_t hash = 374761393u + (uint32_t)length;
    for (; length >= 4; length -= 4, at += 4)
        hash = rotate(hash + (uint32_t)little_endian(at, 4) * 3266489917u, 17) * 668265263u;
    for (; length > 0; length--)
        hash = rotate(hash + *at++ * 374761393u, 11) * 2654435761u;
    hash = (hash ^ hash >> 15) * 2246822519u;
    hash = (hash ^ hash >> 13) * 3266489917u;
    return hash ^ hash >> 16;
}

/* Add the bytes that a long length goes on in; 0 where they lead out. */
INLINE int read_more(Input *input, int64_t *length)
{
    uint8_t byte;
    do {
        if (input->at >= input->end)
            return 0;
        byte = *input->at++;
        *length += byte;
    } while (byte == 0xFF);
    return 1;
}

/* Copy in steps, of which the last goes beyond `length`: that many bytes must be free, and
 * readable, behind it. */
INLINE void copy_in_steps(uint8_t *to, const uint8_t *from, int64_t length)
{
    for (int64_t done = 0; done < length; done += STEP)
        memcpy(to + done, from + done, STEP);
}

/* Copy the next bytes of the input; 0 where there are not so many, or no room for them. */
INLINE int put_literals(Input *input, Output *output, int64_t length)
{
    int64_t left = input->end - input->at - length, room = output->room - output->used - length;
    if (left < 0 || room < 0)
        return 0;
    if (left >= STEP && room >= STEP)
        copy_in_steps(output->bytes + output->used, input->at, length);
    else
        memcpy(output->bytes + output->used, input->at, length);
    input->at += length;
    output->used += length;
    return 1;
}

/* Repeat what is `distance` before the end of the output; it may overlap what is added.
 * 0 without room.  The caller has seen that so many bytes are there. */
INLINE int put_match(Output *output, int64_t distance, int64_t length)
{
    int64_t room = output->room - output->used - length;
    if (room < 0)
        return 0;
    uint8_t *to = output->bytes + output->used;
    const uint8_t *from = to - distance;
    if (distance >= STEP && room >= STEP) {
        copy_in_steps(to, from, length);
    } else {
        int64_t left = length;
        /* What was added makes the next piece twice as long. */
        for (; left > distance; distance *= 2) {
            memcpy(to, from, distance);
            to += distance;
            left -= distance;
        }
        memcpy(to, from, left);
    }
    output->used += length;
    return 1;
}

/* Decompress a block of at most `largest` bytes; 0 where it is not right.  Matches do not begin
 * before `reach` of the output. */
INLINE int read_block(Input block, Output *output, int64_t reach, int64_t largest)
{
    int64_t last = output->used + largest;
    while (block.at < block.end) {
        uint8_t token = *block.at++;
        int64_t literals = token >> 4, length = token & LONG;
        if ((literals == LONG && !read_more(&block, &literals)) ||
            !put_literals(&block, output, literals))
            return 0;
        if (block.at == block.end)
            return output->used <= last;
        if (block.end - block.at < 2 || last - output->used < MATCH_BEFORE_END)
            return 0;
        int64_t distance = (int64_t)little_endian(block.at, 2);
        block.at += 2;
        if (length == LONG && !read_more(&block, &length))
            return 0;
        length += SHORTEST_MATCH;
        if (!distance || distance > output->used - reach ||
            block.end - block.at < 1 + LAST_LITERALS || !put_match(output, distance, length))
            return 0;
    }
    return 0;
}

/* Read a frame's header; 0 where it is none that is read here.  `content` is the size that the
 * frame tells; 0, where it tells none, is no size to the library either. */
static int read_header(Input *frame, int *independent, int64_t *largest, uint64_t *content)
{
    if (frame->end - frame->at < DESCRIPTOR + 3 || little_endian(frame->at, 4) != MAGIC)
        return 0;
    const uint8_t *descriptor = frame->at + DESCRIPTOR;
    uint8_t flags = descriptor[0], block = descriptor[1];
    int length = flags & CONTENT_SIZE ? 2 + SIZE_BYTES : 2;
    if ((flags & ~(INDEPENDENT | CONTENT_SIZE)) != VERSION || (block & ~LARGEST_BLOCK) ||
        block < 0x40 || frame->end - descriptor < length + 1)
        return 0;
    if ((short_hash(descriptor, length) >> 8 & 0xFF) != descriptor[length])
        return 0;
    *independent = (flags & INDEPENDENT) != 0;
    *largest = (int64_t)1 << (8 + 2 * (block >> 4));
    *content = little_endian(descriptor + 2, length - 2);
    frame->at = descriptor + length + 1;
    return 1;
}

/* Decompress an LZ4 frame that fills its input; 0 where that is left to the library. */
INLINE int read_lz4(Input frame, Output *output)
{
    int independent;
    int64_t largest, begin = output->used;
    uint64_t content;
    if (!read_header(&frame, &independent, &largest, &content))
        return 0;
    while (frame.end - frame.at >= 4) {
        uint32_t word = (uint32_t)little_endian(frame.at, 4);
        int64_t size = word & 0x7FFFFFFF;
        frame.at += 4;
        if (!word)
            return frame.at == frame.end && output->used > begin &&
                   (!content || content == (uint64_t)(output->used - begin));
        if (!size || size > largest || size > frame.end - frame.at)
            return 0;
        Input block = {frame.at, frame.at + size};
        frame.at = block.end;
        int stored = word >> 31;
        if (stored ? !put_literals(&block, output, size)
                   : !read_block(block, output, independent ? output->used : begin, largest))
            return 0;
    }
    return 0;
}


/* The length in front of a Snappy block: seven bits a byte, the lowest first; -1 where it is none
 * of 32 bits. */
INLINE int64_t snappy_length(Input *block)
{
    uint64_t length = 0;
    for (int shift = 0; shift < 35 && block->at < block->end; shift += 7) {
        uint8_t byte = *block->at++;
        length |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return length > UINT32_MAX ? -1 : (int64_t)length;
    }
    return -1;
}

/* Decompress a Snappy block that fills its input; 0 where it is not right. */
INLINE int read_snappy_block(Input block, Output *output)
{
    int64_t begin = output->used, length = snappy_length(&block);
    if (length < 0 || length > output->room - output->used)
        return 0;
    while (block.at < block.end) {
        uint8_t tag = *block.at++;
        int kind = tag & 3, bytes = kind == 3 ? 4 : kind; /* of the distance */
        int64_t count = (tag >> 2) + 1;
        if (!kind) {
            if (count > SHORT_LITERALS) {
                bytes = (int)count - SHORT_LITERALS;
                if (block.end - block.at < bytes)
                    return 0;
                count = (int64_t)little_endian(block.at, bytes) + 1;
                block.at += bytes;
            }
            if (!put_literals(&block, output, count))
                return 0;
            continue;
        }
        if (block.end - block.at < bytes)
            return 0;
        int64_t distance = (int64_t)little_endian(block.at, bytes);
        block.at += bytes;
        if (kind == 1) {
            distance |= (int64_t)(tag >> 5) << 8;
            count = (tag >> 2 & 7) + SHORTEST_MATCH;
        }
        if (!distance || distance > output->used - begin || !put_match(output, distance, count))
            return 0;
    }
    return output->used - begin == length;
}

/* Decompress Snappy, framed by xerial's library or not; 0 where that is left to the library. */
static int read_snappy(Input frame, Output *output)
{
    int64_t begin = output->used;
    if (frame.end - frame.at < XERIAL_MAGIC || memcmp(frame.at, "\x82SNAPPY", XERIAL_MAGIC))
        return read_snappy_block(frame, output) && output->used > begin;
    if (frame.end - frame.at < XERIAL_HEADER)
        return 0;
    frame.at += XERIAL_HEADER;
    while (frame.end - frame.at >= 4) {
        const uint8_t *size = frame.at;
        int64_t length = (int64_t)size[0] << 24 | size[1] << 16 | size[2] << 8 | size[3];
        frame.at += 4;
        if (length > frame.end - frame.at)
            return 0;
        Input block = {frame.at, frame.at + length};
        frame.at = block.end;
        if (!read_snappy_block(block, output))
            return 0;
    }
    return frame.at == frame.end && output->used > begin;
}

/* zlib's z_stream. */
typedef struct {
    const uint8_t *next_in;
    unsigned int avail_in;
    unsigned long total_in;
    uint8_t *next_out;
    unsigned int avail_out;
    unsigned long total_out;
    const char *message;
    void *state, *(*allocate)(void *, unsigned int, unsigned int);
    void (*release)(void *, void *);
    void *opaque;
    int data_type;
    unsigned long checksum, reserved;
} ZlibStream;

/* The machine's libraries; NULL where one is not there. */
static struct {
    int (*inflate_init)(ZlibStream *, int, const char *, int);
    int (*inflate_reset)(ZlibStream *);
    int (*inflate)(ZlibStream *, int);
    int (*inflate_end)(ZlibStream *);
    void *(*zstd_open)(void);
    size_t (*zstd_close)(void *);
    size_t (*zstd_decompress)(void *, void *, size_t, const void *, size_t);
    size_t (*zstd_frame_size)(const void *, size_t);
    unsigned int (*zstd_is_error)(size_t);
} libraries;

/* Find functions of a library, named one after another; 0 where one is not there. */
static int find_functions(const char *library, const char *const *names, void **functions)
{
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    for (; opened && *names; names++, functions++) {
        *functions = dlsym(opened, *names);
        if (!*functions)
            return 0;
    }
    return opened != NULL;
}

/* Open zlib and libzstd, once, while the module is imported.  They stay open. */
static void open_libraries(int *gzip, int *zstd)
{
    static const char *const zlib_names[] = {"inflateInit2_", "inflateReset", "inflate",
                                             "inflateEnd", NULL};
    static const char *const zstd_names[] = {"ZSTD_createDCtx", "ZSTD_freeDCtx",
                                             "ZSTD_decompressDCtx", "ZSTD_findFrameCompressedSize",
                                             "ZSTD_isError", NULL};
    void *found[5];
    *gzip = find_functions("libz.so.1", zlib_names, found);
    if (*gzip)
        memcpy(&libraries.inflate_init, found, 4 * sizeof *found);
    *zstd = find_functions("libzstd.so.1", zstd_names, found);
    if (*zstd)
        memcpy(&libraries.zstd_open, found, 5 * sizeof *found);
}

/* Decompress a gzip member that fills its input; 0 where that is left to the library. */
static int read_gzip(Input frame, Output *output, void *state)
{
    ZlibStream *stream = state;
    int64_t room = output->room - output->used;
    if (libraries.inflate_reset(stream) != 0)
        return 0;
    stream->next_in = frame.at;
    stream->avail_in = (unsigned int)(frame.end - frame.at);
    stream->next_out = output->bytes + output->used;
    stream->avail_out = (unsigned int)room;
    if (libraries.inflate(stream, ZLIB_FINISH) != ZLIB_STREAM_END || stream->avail_in)
        return 0;
    int64_t size = room - stream->avail_out;
    output->used += size;
    return size > 0;
}

/* Decompress a Zstandard frame that fills its input; 0 where that is left to the library, as are
 * windows that it refuses, and formats before 1.0. */
static int read_zstd(Input frame, Output *output, void *state)
{
    size_t length = (size_t)(frame.end - frame.at);
    if (length < 6 || little_endian(frame.at, 4) != ZSTD_MAGIC)
        return 0;
    if (!(frame.at[4] & ZSTD_SINGLE_SEGMENT) && frame.at[5] > ZSTD_LARGEST_WINDOW)
        return 0;
    if (libraries.zstd_frame_size(frame.at, length) != length)
        return 0;
    size_t size = libraries.zstd_decompress(state, output->bytes + output->used,
                                            (size_t)(output->room - output->used), frame.at, length);
    if (libraries.zstd_is_error(size) || !size)
        return 0;
    output->used += (int64_t)size;
    return 1;
}

/* Open what a codec keeps from one frame to the next; 0 without memory, or without its library. */
static int open_state(int codec, ZlibStream *stream, void **state)
{
    *state = stream;
    if (codec == GZIP) {
        memset(stream, 0, sizeof *stream);
        return libraries.inflate_init &&
               libraries.inflate_init(stream, ZLIB_GZIP_WINDOW, "1", sizeof *stream) == 0;
    }
    if (codec == ZSTD)
        return libraries.zstd_open && (*state = libraries.zstd_open());
    return codec == SNAPPY || codec == LZ4;
}

static void close_state(int codec, void *state)
{
    if (codec == GZIP)
        libraries.inflate_end(state);
    else if (codec == ZSTD)
        libraries.zstd_close(state);
}

static int read_frame(int codec, Input frame, Output *output, void *state)
{
    switch (codec) {
    case GZIP: return read_gzip(frame, output, state);
    case SNAPPY: return read_snappy(frame, output);
    case LZ4: return read_lz4(frame, output);
    default: return read_zstd(frame, output, state);
    }
}

/* Decompress the frames at `spans`, one behind the other; the size of each, or -1, to `sizes`. */
static void read_frames(int codec, const Py_buffer *data, const Py_buffer *spans, int64_t most,
                        Output *output, int64_t *sizes, void *state)
{
    int64_t room = output->room;
    for (int64_t which = 0; which < spans->len / 16; which++) {
        int64_t span[2], begin = output->used;
        memcpy(span, (const uint8_t *)spans->buf + which * 16, 16);
        Input frame = {(const uint8_t *)data->buf + span[0], (const uint8_t *)data->buf + span[1]};
        output->room = room - begin < most ? room : begin + most;
        int right = span[1] - span[0] <= INT32_MAX && read_frame(codec, frame, output, state);
        if (!right)
            output->used = begin; /* what it has written is overwritten by the next one */
        sizes[which] = right ? output->used - begin : -1;
    }
    output->room = room;
}

static int spans_are_inside(const Py_buffer *data, const Py_buffer *spans)
{
    int inside = spans->len % 16 == 0;
    for (int64_t at = 0; inside && at < spans->len; at += 16) {
        int64_t span[2];
        memcpy(span, (const uint8_t *)spans->buf + at, 16);
        inside = span[0] >= 0 && span[0] <= span[1] && span[1] <= data->len;
    }
    return inside;
}

const char secor_decompress_frames_doc[] =
    "decompress_frames(codec, data, spans, most, room)\n--\n\n"
    "Decompress small frames of a codec, one behind the other.\n\n"
    "codec: Kafka's number: 1 gzip, 2 snappy, 3 LZ4, 4 Zstandard.\n"
    "spans: 64-bit integers, two for each frame: its begin and end in data.\n"
    "most: bytes of one frame, decompressed.  room: of all together, at most 2 GiB.\n"
    "Returns (records, sizes): sizes has a 64-bit integer for each frame: -1 where the library has\n"
    "to look at it, because it is not right, is of a kind that is not read here, or has no room.";

PyObject *secor_decompress_frames(PyObject *module, PyObject *arguments)
{
    Py_buffer data, spans;
    int codec;
    long long most, room;
    PyObject *records = NULL, *sizes = NULL, *result = NULL;
    ZlibStream stream;
    void *state;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "iy*y*LL:decompress_frames", &codec, &data, &spans, &most,
                          &room))
        return NULL;
    if (!spans_are_inside(&data, &spans) || most < 0 || room < 0 || room > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a frame is outside of the buffer, or a limit is wrong");
    } else if (!open_state(codec, &stream, &state)) {
        PyErr_Format(PyExc_ValueError, "codec %d is not decompressed here", codec);
    } else {
        records = PyByteArray_FromStringAndSize(NULL, room);
        sizes = PyBytes_FromStringAndSize(NULL, spans.len / 2);
        if (records && sizes) {
            Output output = {(uint8_t *)PyByteArray_AsString(records), 0, room};
            read_frames(codec, &data, &spans, most, &output,
                        (int64_t *)PyBytes_AsString(sizes), state);
            if (PyByteArray_Resize(records, output.used) == 0)
                result = PyTuple_Pack(2, records, sizes);
        }
        close_state(codec, state);
    }
    Py_XDECREF(records);
    Py_XDECREF(sizes);
    PyBuffer_Release(&data);
    PyBuffer_Release(&spans);
    return result;
}

/* Return a tuple of the codecs that `decompress_frames` knows on this machine; NULL without memory. */
PyObject *secor_open_codecs(void)
{
    int gzip, zstd;
    open_libraries(&gzip, &zstd);
    PyObject *codecs = PyList_New(0), *result = NULL;
    int right = codecs != NULL;
    for (int codec = GZIP; right && codec <= ZSTD; codec++) {
        if ((codec == GZIP && !gzip) || (codec == ZSTD && !zstd))
            continue;
        PyObject *number = PyLong_FromLong(codec);
        right = number && PyList_Append(codecs, number) == 0;
        Py_XDECREF(number);
    }
    if (right)
        result = PyList_AsTuple(codecs);
    Py_XDECREF(codecs);
    return result;
}
