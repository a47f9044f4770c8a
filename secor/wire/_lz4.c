/* Small LZ4 frames of a fetch, many in one call: a call of the library costs more than such a
 * frame holds work.
 *
 * Sources: "LZ4 Frame Format Description" 1.6 and "LZ4 Block Format Description", both public.
 * What is wrong, rare or large is not judged here: such a frame is left to the library, which says
 * what is wrong.  So this may be stricter, and never laxer: no checksums but the header's, no
 * dictionaries, nothing behind the frame.
 *
 * Every read is bounded by the frame's end or its block's, every write by the room that is left.
 * No size that a frame tells is believed: it is compared with what came out.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
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
};

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Input;

/* `bytes` is NULL where they are only counted. */
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
    if (output->bytes) {
        if (left >= STEP && room >= STEP)
            copy_in_steps(output->bytes + output->used, input->at, length);
        else
            memcpy(output->bytes + output->used, input->at, length);
    }
    input->at += length;
    output->used += length;
    return 1;
}

/* Repeat what stands `distance` before the end of the output; it may overlap what is added.
 * 0 without room.  The caller has seen that so many bytes are there. */
INLINE int put_match(Output *output, int64_t distance, int64_t length)
{
    int64_t room = output->room - output->used - length;
    if (room < 0)
        return 0;
    if (output->bytes) {
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

/* Decompress a frame that fills its input; 0 where that is left to the library. */
INLINE int read_frame(Input frame, Output *output)
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

/* Open what both functions take; 0 with an exception. */
static int open_frames(PyObject *arguments, const char *format, Py_buffer *data, Py_buffer *spans,
                       long long *number)
{
    if (!PyArg_ParseTuple(arguments, format, data, spans, number))
        return 0;
    const uint8_t *places = spans->buf;
    int right = spans->len % 16 == 0;
    for (int64_t at = 0; right && at < spans->len; at += 16) {
        int64_t span[2];
        memcpy(span, places + at, 16);
        right = span[0] >= 0 && span[0] <= span[1] && span[1] <= data->len;
    }
    if (!right) {
        PyErr_SetString(PyExc_ValueError, "a frame is outside of the buffer");
        PyBuffer_Release(data);
        PyBuffer_Release(spans);
    }
    return right;
}

static Input frame_at(const Py_buffer *data, const Py_buffer *spans, int64_t which)
{
    int64_t span[2];
    memcpy(span, (const uint8_t *)spans->buf + which * 16, 16);
    return (Input){(const uint8_t *)data->buf + span[0], (const uint8_t *)data->buf + span[1]};
}

const char secor_lz4_sizes_doc[] =
    "lz4_sizes(data, spans, most)\n--\n\n"
    "Tell how many bytes LZ4 frames have decompressed.\n\n"
    "spans: 64-bit integers, two for each frame: its begin and end in data.\n"
    "Returns bytes, a 64-bit integer for each: -1 where the library has to look at it, as it is\n"
    "not right, of a kind that is not read here, or has more than `most` bytes.";

PyObject *secor_lz4_sizes(PyObject *module, PyObject *arguments)
{
    Py_buffer data, spans;
    long long most;
    (void)module;
    if (!open_frames(arguments, "y*y*L:lz4_sizes", &data, &spans, &most))
        return NULL;
    int64_t count = spans.len / 16;
    PyObject *result = PyBytes_FromStringAndSize(NULL, count * 8);
    if (result) {
        int64_t *sizes = (int64_t *)PyBytes_AsString(result);
        for (int64_t which = 0; which < count; which++) {
            Output counted = {NULL, 0, most};
            sizes[which] = read_frame(frame_at(&data, &spans, which), &counted) ? counted.used : -1;
        }
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&spans);
    return result;
}

const char secor_lz4_decompress_doc[] =
    "lz4_decompress(data, spans, size)\n--\n\n"
    "Decompress LZ4 frames of which lz4_sizes has told the size, one behind the other.\n\n"
    "spans: as there.  size: of all together; another one is a ValueError.";

PyObject *secor_lz4_decompress(PyObject *module, PyObject *arguments)
{
    Py_buffer data, spans;
    long long size;
    (void)module;
    if (!open_frames(arguments, "y*y*L:lz4_decompress", &data, &spans, &size))
        return NULL;
    PyObject *result = PyBytes_FromStringAndSize(NULL, size);
    if (result) {
        Output output = {(uint8_t *)PyBytes_AsString(result), 0, size};
        int right = 1;
        for (int64_t which = 0; right && which < spans.len / 16; which++)
            right = read_frame(frame_at(&data, &spans, which), &output);
        if (!right || output.used != size) {
            PyErr_SetString(PyExc_ValueError, "the frames have another size");
            Py_CLEAR(result);
        }
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&spans);
    return result;
}
