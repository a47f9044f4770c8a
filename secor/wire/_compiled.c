/* Batches (format v2) of a fetch: where they are, and their records as Arrow's buffers.
 *
 * walk() does for a whole fetch what batch_run.py does batch by batch.  decode() does what
 * numpy does in records.py and record_headers.py, in one pass for the fields and one for the
 * bytes.  What is wrong in any way is not judged here: both return None, and the caller asks
 * Python, which says what is wrong.  So this may be stricter, and never laxer.
 *
 * Every read is bounded by the record's end, every record's end by its batch, every batch's end
 * by its buffer.  The layout is in records.py; the batch header's in batch_header.py.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#define CRC_INSTRUCTION __attribute__((target("sse4.2")))
#endif

#ifndef SOURCE_CRC32
#define SOURCE_CRC32 0
#endif

enum {
    HEAD = 61, /* bytes of a batch's header, and where its fields are */
    BASE_OFFSET = 0,
    LENGTH = 8,
    LENGTH_FOLLOWS = 12, /* bytes that the length does not count */
    MAGIC = 16,
    CRC = 17,
    ATTRIBUTES = 21, /* the checksum covers everything from here on */
    LAST_OFFSET_DELTA = 23,
    BASE_TIMESTAMP = 27,
    MAX_TIMESTAMP = 35,
    COUNT = 57,
    SHORTEST = 7, /* bytes of a record without key, value and headers */
    VARINT = 5,
    VARLONG = 10,
    SMALL = 4096, /* a larger batch's checksum is faster by the library, which Python calls */
};

static uint64_t big_endian(const uint8_t *at, int bytes)
{
    uint64_t number = 0;
    for (int index = 0; index < bytes; index++)
        number = number << 8 | at[index];
    return number;
}

#ifdef CRC_INSTRUCTION
static int has_crc_instruction(void) { return __builtin_cpu_supports("sse4.2"); }

CRC_INSTRUCTION static uint32_t crc32c(const uint8_t *at, int64_t length)
{
    uint64_t crc = 0xFFFFFFFF;
    for (; length >= 8; length -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    uint32_t rest = (uint32_t)crc;
    for (; length > 0; length--)
        rest = __builtin_ia32_crc32qi(rest, *at++);
    return ~rest;
}
#else
static int has_crc_instruction(void) { return 0; }
static uint32_t crc32c(const uint8_t *at, int64_t length) { return (void)at, (uint32_t)length; }
#endif

/* The size of the batch at `at`: 0 where it is cut off by `end`, -1 where it is none of v2. */
static int64_t batch_size(const uint8_t *at, const uint8_t *end)
{
    if (end - at < LENGTH_FOLLOWS)
        return 0;
    int64_t size = LENGTH_FOLLOWS + (int64_t)(int32_t)big_endian(at + LENGTH, 4);
    if (size > end - at)
        return 0;
    return size < HEAD || at[MAGIC] != 2 ? -1 : size;
}

static int64_t count_batches(const Py_buffer *data)
{
    const uint8_t *at = data->buf, *end = at + data->len;
    int64_t count = 0, size;
    for (; (size = batch_size(at, end)) > 0; at += size)
        count++;
    return size < 0 ? -1 : count;
}

/* Copy the headers; 0 where a checksum is wrong.  All sizes were seen by count_batches. */
static int read_heads(const Py_buffer *data, int64_t count, int64_t *begins, uint8_t *heads,
                      uint8_t *unchecked)
{
    const uint8_t *at = data->buf, *end = at + data->len;
    int by_instruction = has_crc_instruction();
    for (int64_t batch = 0; batch < count; batch++) {
        int64_t size = batch_size(at, end);
        begins[batch] = at - (const uint8_t *)data->buf;
        memcpy(heads + batch * HEAD, at, HEAD);
        unchecked[batch] = !by_instruction || size > SMALL;
        if (!unchecked[batch] &&
            crc32c(at + ATTRIBUTES, size - ATTRIBUTES) != big_endian(at + CRC, 4))
            return 0;
        at += size;
    }
    return 1;
}

PyDoc_STRVAR(walk_doc,
             "walk(data)\n--\n\n"
             "Find the batches that are whole; None where one is not of format v2 or its checksum\n"
             "is wrong.  The last one may be cut off, as fetches do it.\n\n"
             "Returns bytes: their places (64-bit integers), their headers of 61 bytes, and a 1 for\n"
             "each whose checksum was not looked at.");

static PyObject *walk(PyObject *module, PyObject *arguments)
{
    Py_buffer data;
    PyObject *begins = NULL, *heads = NULL, *unchecked = NULL, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*:walk", &data))
        return NULL;
    int64_t count = count_batches(&data);
    if (count < 0) {
        result = Py_None;
        Py_INCREF(result);
    } else {
        begins = PyBytes_FromStringAndSize(NULL, count * 8);
        heads = PyBytes_FromStringAndSize(NULL, count * HEAD);
        unchecked = PyBytes_FromStringAndSize(NULL, count);
    }
    if (begins && heads && unchecked) {
        int right = read_heads(&data, count, (int64_t *)PyBytes_AsString(begins),
                               (uint8_t *)PyBytes_AsString(heads),
                               (uint8_t *)PyBytes_AsString(unchecked));
        result = right ? PyTuple_Pack(3, begins, heads, unchecked) : Py_None;
        if (!right)
            Py_INCREF(result);
    }
    Py_XDECREF(begins);
    Py_XDECREF(heads);
    Py_XDECREF(unchecked);
    PyBuffer_Release(&data);
    return result;
}

/* Where reading stands; nothing at or behind `end` is touched. */
typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Cursor;

/* Read a zigzag varint of at most `most` bytes; 0 where it is longer or leads out. */
static inline int read_varint(Cursor *cursor, int most, int64_t *number)
{
    uint64_t bits = 0;
    for (int index = 0; index < most; index++) {
        if (cursor->at >= cursor->end)
            return 0;
        uint8_t byte = *cursor->at++;
        bits |= (uint64_t)(byte & 0x7F) << (7 * index);
        if (byte < 0x80) {
            *number = (int64_t)(bits >> 1 ^ (~(bits & 1) + 1));
            return 1;
        }
    }
    return 0;
}

/* Pass over `length` bytes, none where it is negative (null); 0 where they lead out. */
static inline int pass(Cursor *cursor, int64_t length)
{
    if (length > cursor->end - cursor->at)
        return 0;
    if (length > 0)
        cursor->at += length;
    return 1;
}

/* A binary column in the making: its buffers are bytes objects.  `used` counts its data. */
typedef struct {
    PyObject *offsets, *data, *valid; /* valid: NULL while nothing is null */
    int32_t *ends;                    /* the element after the first, which is 0 */
    uint8_t *bytes;
    int64_t used, rows;
} Column;

static void *room_in(PyObject *bytes) { return bytes ? PyBytes_AsString(bytes) : NULL; }

static int make_column(Column *column, int64_t rows)
{
    memset(column, 0, sizeof *column);
    column->rows = rows;
    column->offsets = PyBytes_FromStringAndSize(NULL, (rows + 1) * 4);
    if (!column->offsets)
        return 0;
    int32_t *first = room_in(column->offsets);
    first[0] = 0;
    column->ends = first + 1;
    return 1;
}

static int make_data(Column *column)
{
    column->data = PyBytes_FromStringAndSize(NULL, column->used);
    column->bytes = room_in(column->data);
    column->used = 0;
    return column->data != NULL;
}

static int set_null(Column *column, int64_t row)
{
    if (!column->valid) {
        int64_t size = (column->rows + 7) / 8;
        column->valid = PyBytes_FromStringAndSize(NULL, size);
        if (!column->valid)
            return 0;
        memset(room_in(column->valid), 0xFF, size);
    }
    ((uint8_t *)room_in(column->valid))[row / 8] &= (uint8_t)~(1 << row % 8);
    return 1;
}

/* Count one value; 0 without memory.  All data is below 2 GiB: it is part of what is read. */
static inline int count_value(Column *column, int64_t row, int64_t length)
{
    if (length < 0) {
        if (!set_null(column, row))
            return 0;
    } else {
        column->used += length;
    }
    column->ends[row] = (int32_t)column->used;
    return 1;
}

static inline void copy_value(Column *column, const uint8_t *from, int64_t length)
{
    if (length > 0) {
        memcpy(column->bytes + column->used, from, length);
        column->used += length;
    }
}

static void free_column(Column *column)
{
    Py_CLEAR(column->offsets);
    Py_CLEAR(column->data);
    Py_CLEAR(column->valid);
}

static PyObject *or_none(PyObject *object)
{
    PyObject *result = object ? object : Py_None;
    Py_INCREF(result);
    return result;
}

static PyObject *column_tuple(const Column *column)
{
    return Py_BuildValue("(NOO)", or_none(column->valid), column->offsets, column->data);
}

/* Places of a record in its batch, for the second pass. */
typedef struct {
    uint32_t key, value, headers;
} Places;

typedef struct {
    PyObject *sequence; /* borrowed: a list or tuple */
    Py_buffer *views;
    Cursor *records; /* of each batch */
    const uint8_t *heads;
    int64_t batches, opened, rows;
    PyObject *offset_bytes, *timestamp_bytes, *type_bytes, *list_bytes;
    int64_t *offsets, *timestamps;
    int8_t *types;
    int32_t *list_ends;
    Column time; /* only its nulls */
    Column key, value, name, content;
    Places *places;
    int64_t headers; /* of all records */
    int ascii;       /* all names are */
} Decoding;

/* Where the records of a batch are: from `begin` to `end` of that buffer. */
typedef struct {
    int64_t buffer, begin, end;
} Span;

/* What a step came to: the data is not right, or an exception is set. */
typedef enum { DONE, WRONG, FAILED } Outcome;

/* Pass over the headers of one record, which they end, and count them. */
static Outcome scan_headers(Decoding *all, Cursor *cursor, int64_t count)
{
    if (count < 0 || count > (cursor->end - cursor->at) / 2)
        return WRONG;
    for (int64_t index = 0; index < count; index++) {
        int64_t length;
        if (!read_varint(cursor, VARINT, &length) || length < 0 || !pass(cursor, length))
            return WRONG;
        all->name.used += length;
        if (!read_varint(cursor, VARINT, &length) || !pass(cursor, length))
            return WRONG;
        all->content.used += length > 0 ? length : 0;
    }
    all->headers += count;
    return cursor->at == cursor->end ? DONE : WRONG;
}

static Outcome scan_record(Decoding *all, const uint8_t *begin, Cursor *batch, const uint8_t *head,
                           int64_t row)
{
    int64_t length, timestamp, delta, key, value, count;
    if (!read_varint(batch, VARINT, &length) || length < 0 || length > batch->end - batch->at)
        return WRONG;
    Cursor cursor = {batch->at, batch->at + length};
    batch->at = cursor.end;
    if (!pass(&cursor, 1) || !read_varint(&cursor, VARLONG, &timestamp) ||
        !read_varint(&cursor, VARINT, &delta) || !read_varint(&cursor, VARINT, &key))
        return WRONG;
    if (delta < 0 || delta > (int32_t)big_endian(head + LAST_OFFSET_DELTA, 4))
        return WRONG;
    all->offsets[row] = (int64_t)(big_endian(head + BASE_OFFSET, 8) + (uint64_t)delta);
    if (row && all->offsets[row] <= all->offsets[row - 1])
        return WRONG;
    int appended = head[ATTRIBUTES + 1] >> 3 & 1;
    uint64_t stamp = appended ? big_endian(head + MAX_TIMESTAMP, 8)
                              : big_endian(head + BASE_TIMESTAMP, 8) + (uint64_t)timestamp;
    all->timestamps[row] = (int64_t)stamp;
    all->types[row] = (int8_t)appended;
    if (all->timestamps[row] == -1 && !set_null(&all->time, row))
        return FAILED;
    all->places[row].key = (uint32_t)(cursor.at - begin);
    if (!pass(&cursor, key) || !read_varint(&cursor, VARINT, &value))
        return WRONG;
    all->places[row].value = (uint32_t)(cursor.at - begin);
    if (!pass(&cursor, value) || !read_varint(&cursor, VARINT, &count))
        return WRONG;
    all->places[row].headers = (uint32_t)(cursor.at - begin);
    if (!count_value(&all->key, row, key) || !count_value(&all->value, row, value))
        return FAILED;
    Outcome outcome = scan_headers(all, &cursor, count);
    all->list_ends[row] = (int32_t)all->headers;
    return outcome;
}

static Outcome scan(Decoding *all)
{
    int64_t row = 0;
    for (int64_t batch = 0; batch < all->batches; batch++) {
        Cursor cursor = all->records[batch];
        const uint8_t *begin = cursor.at, *head = all->heads + batch * HEAD;
        int64_t after = row + (int32_t)big_endian(head + COUNT, 4);
        for (; row < after; row++) {
            Outcome outcome = scan_record(all, begin, &cursor, head, row);
            if (outcome != DONE)
                return outcome;
        }
        if (cursor.at != cursor.end)
            return WRONG;
    }
    return DONE;
}

/* Copy the headers of one record; all of it was read by scan_headers before. */
static Outcome copy_headers(Decoding *all, Cursor cursor, int64_t first, int64_t after)
{
    for (int64_t row = first; row < after; row++) {
        int64_t length = 0;
        if (!read_varint(&cursor, VARINT, &length) ||
            length < 0 || length > cursor.end - cursor.at)
            return WRONG;
        uint8_t bits = 0;
        for (int64_t index = 0; index < length; index++)
            bits |= cursor.at[index];
        all->ascii &= bits < 0x80;
        copy_value(&all->name, cursor.at, length);
        all->name.ends[row] = (int32_t)all->name.used;
        cursor.at += length;
        if (!read_varint(&cursor, VARINT, &length) || length > cursor.end - cursor.at)
            return WRONG;
        copy_value(&all->content, cursor.at, length);
        if (length < 0 && !set_null(&all->content, row))
            return FAILED;
        all->content.ends[row] = (int32_t)all->content.used;
        cursor.at += length > 0 ? length : 0;
    }
    return DONE;
}

static Outcome copy(Decoding *all)
{
    int64_t row = 0, header = 0;
    int32_t key = 0, value = 0;
    for (int64_t batch = 0; batch < all->batches; batch++) {
        const uint8_t *begin = all->records[batch].at, *head = all->heads + batch * HEAD;
        int64_t after = row + (int32_t)big_endian(head + COUNT, 4);
        for (; row < after; row++) {
            const Places *places = all->places + row;
            copy_value(&all->key, begin + places->key, all->key.ends[row] - key);
            copy_value(&all->value, begin + places->value, all->value.ends[row] - value);
            key = all->key.ends[row];
            value = all->value.ends[row];
            if (header == all->list_ends[row])
                continue;
            Cursor cursor = {begin + places->headers, all->records[batch].end};
            Outcome outcome = copy_headers(all, cursor, header, all->list_ends[row]);
            if (outcome != DONE)
                return outcome;
            header = all->list_ends[row];
        }
    }
    return DONE;
}

static Outcome open_buffers(Decoding *all)
{
    int64_t buffers = PySequence_Size(all->sequence);
    if (buffers < 0)
        return FAILED;
    all->views = PyMem_Calloc(buffers + 1, sizeof *all->views);
    if (!all->views)
        return PyErr_NoMemory(), FAILED;
    for (int64_t buffer = 0; buffer < buffers; buffer++) {
        PyObject *item = PySequence_GetItem(all->sequence, buffer);
        if (!item)
            return FAILED;
        int failed = PyObject_GetBuffer(item, all->views + buffer, PyBUF_SIMPLE);
        Py_DECREF(item);
        if (failed)
            return FAILED;
        all->opened = buffer + 1;
    }
    return DONE;
}

/* Find the records of all batches and count them; WRONG where the counts lie. */
static Outcome open_batches(Decoding *all, const Py_buffer *spans, const Py_buffer *heads)
{
    all->batches = heads->len / HEAD;
    if (heads->len != all->batches * HEAD || spans->len != all->batches * (int64_t)sizeof(Span)) {
        PyErr_SetString(PyExc_ValueError, "as many spans as headers are needed");
        return FAILED;
    }
    all->heads = heads->buf;
    all->records = PyMem_Calloc(all->batches + 1, sizeof *all->records);
    if (!all->records)
        return PyErr_NoMemory(), FAILED;
    int64_t size = 0;
    for (int64_t batch = 0; batch < all->batches; batch++) {
        Span span;
        memcpy(&span, (const uint8_t *)spans->buf + batch * sizeof span, sizeof span);
        if (span.buffer < 0 || span.buffer >= all->opened || span.begin < 0 ||
            span.end < span.begin || span.end > all->views[span.buffer].len) {
            PyErr_SetString(PyExc_ValueError, "a span is outside of the buffers");
            return FAILED;
        }
        const uint8_t *buffer = all->views[span.buffer].buf;
        all->records[batch] = (Cursor){buffer + span.begin, buffer + span.end};
        int64_t count = (int32_t)big_endian(all->heads + batch * HEAD + COUNT, 4);
        int64_t length = span.end - span.begin;
        size += length;
        if (size > INT32_MAX || count < 0 || count > length / SHORTEST)
            return WRONG;
        all->rows += count;
    }
    return DONE;
}

static Outcome make_columns(Decoding *all)
{
    int64_t rows = all->rows;
    all->offset_bytes = PyBytes_FromStringAndSize(NULL, rows * 8);
    all->timestamp_bytes = PyBytes_FromStringAndSize(NULL, rows * 8);
    all->type_bytes = PyBytes_FromStringAndSize(NULL, rows);
    all->list_bytes = PyBytes_FromStringAndSize(NULL, (rows + 1) * 4);
    all->places = PyMem_Malloc((rows + 1) * sizeof *all->places);
    if (!all->offset_bytes || !all->timestamp_bytes || !all->type_bytes || !all->list_bytes ||
        !make_column(&all->key, rows) || !make_column(&all->value, rows))
        return FAILED;
    if (!all->places)
        return PyErr_NoMemory(), FAILED;
    all->offsets = room_in(all->offset_bytes);
    all->timestamps = room_in(all->timestamp_bytes);
    all->types = room_in(all->type_bytes);
    int32_t *first = room_in(all->list_bytes);
    first[0] = 0;
    all->list_ends = first + 1;
    all->time.rows = rows;
    all->ascii = 1;
    return DONE;
}

/* Make room for the bytes that were counted. */
static Outcome make_room(Decoding *all)
{
    int64_t names = all->name.used, contents = all->content.used;
    if (!make_data(&all->key) || !make_data(&all->value) || !make_column(&all->name, all->headers))
        return FAILED;
    all->name.used = names;
    if (!make_data(&all->name) || !make_column(&all->content, all->headers))
        return FAILED;
    all->content.used = contents;
    return make_data(&all->content) ? DONE : FAILED;
}

static PyObject *headers_tuple(const Decoding *all)
{
    if (!all->headers)
        return or_none(NULL);
    return Py_BuildValue("(OLNNO)", all->list_bytes, (long long)all->headers,
                         column_tuple(&all->name), column_tuple(&all->content),
                         all->ascii ? Py_True : Py_False);
}

static PyObject *result_of(const Decoding *all)
{
    return Py_BuildValue("(LOONONNN)", (long long)all->rows, all->offset_bytes,
                         all->timestamp_bytes, or_none(all->time.valid), all->type_bytes,
                         column_tuple(&all->key), column_tuple(&all->value), headers_tuple(all));
}

static void close_decoding(Decoding *all)
{
    for (int64_t buffer = 0; buffer < all->opened; buffer++)
        PyBuffer_Release(all->views + buffer);
    PyMem_Free(all->views);
    PyMem_Free(all->records);
    PyMem_Free(all->places);
    Py_CLEAR(all->offset_bytes);
    Py_CLEAR(all->timestamp_bytes);
    Py_CLEAR(all->type_bytes);
    Py_CLEAR(all->list_bytes);
    free_column(&all->time);
    free_column(&all->key);
    free_column(&all->value);
    free_column(&all->name);
    free_column(&all->content);
}

PyDoc_STRVAR(decode_doc,
             "decode(buffers, spans, heads)\n--\n\n"
             "Decode the records of several batches; None where anything is wrong with one.\n\n"
             "buffers: a sequence of buffers that hold records, decompressed.\n"
             "spans: 64-bit integers, three for each batch: which buffer, begin and end in it.\n"
             "heads: a buffer of as many batch headers of 61 bytes.\n"
             "A binary column is (validity or None, offsets, data), each bytes as in Arrow.\n"
             "Returns (rows, offsets, timestamps, their validity or None, timestamp types, key\n"
             "column, value column, headers), headers being None where there is none, else\n"
             "(offsets of lists, headers, name column, value column, names are ASCII).");

static PyObject *decode(PyObject *module, PyObject *arguments)
{
    Decoding all;
    Py_buffer spans, heads;
    PyObject *result = NULL;
    (void)module;
    memset(&all, 0, sizeof all);
    if (!PyArg_ParseTuple(arguments, "Oy*y*:decode", &all.sequence, &spans, &heads))
        return NULL;
    Outcome outcome = open_buffers(&all);
    if (outcome == DONE)
        outcome = open_batches(&all, &spans, &heads);
    if (outcome == DONE)
        outcome = make_columns(&all);
    if (outcome == DONE)
        outcome = scan(&all);
    if (outcome == DONE)
        outcome = make_room(&all);
    if (outcome == DONE)
        outcome = copy(&all);
    if (outcome == DONE)
        result = result_of(&all);
    else if (outcome == WRONG)
        result = or_none(NULL);
    close_decoding(&all);
    PyBuffer_Release(&spans);
    PyBuffer_Release(&heads);
    return result;
}

/* In _small_frames.c. */
extern PyObject *secor_decompress_frames(PyObject *, PyObject *);
extern PyObject *secor_open_codecs(void);
extern const char secor_decompress_frames_doc[];

static PyMethodDef methods[] = {
    {"decode", decode, METH_VARARGS, decode_doc},
    {"decompress_frames", secor_decompress_frames, METH_VARARGS, secor_decompress_frames_doc},
    {"walk", walk, METH_VARARGS, walk_doc},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module)
{
    PyObject *codecs = secor_open_codecs();
    if (!codecs || PyModule_AddObjectRef(module, "SMALL_CODECS", codecs) < 0) {
        Py_XDECREF(codecs);
        return -1;
    }
    Py_DECREF(codecs);
    return PyModule_AddIntConstant(module, "SOURCE_CRC32", (long)SOURCE_CRC32);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "secor.wire._compiled",
    .m_doc = "What secor.wire does by numpy, compiled.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__compiled(void) { return PyModuleDef_Init(&definition); }
