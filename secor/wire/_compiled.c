/* Records of decompressed batches (format v2) into the buffers of Arrow columns.
 *
 * What numpy does in records.py and record_headers.py, in one pass for the fields and one for
 * the bytes.  Records that are wrong in any way are not judged here: decode() returns None, and
 * the caller asks numpy, which says what is wrong.  So this may be stricter, and never laxer.
 *
 * Every read is bounded by the record's end, every record's end by its batch.  The layout is
 * in records.py; the batch header's in batch_header.py.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#ifndef SOURCE_CRC32
#define SOURCE_CRC32 0
#endif

enum {
    HEAD = 61, /* bytes of a batch's header, and where its fields are */
    BASE_OFFSET = 0,
    ATTRIBUTES = 21,
    LAST_OFFSET_DELTA = 23,
    BASE_TIMESTAMP = 27,
    MAX_TIMESTAMP = 35,
    COUNT = 57,
    SHORTEST = 7, /* bytes of a record without key, value and headers */
    VARINT = 5,
    VARLONG = 10,
};

static uint64_t big_endian(const uint8_t *at, int bytes)
{
    uint64_t number = 0;
    for (int index = 0; index < bytes; index++)
        number = number << 8 | at[index];
    return number;
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
    PyObject *sequence; /* owned: a list or tuple */
    Py_buffer *views;
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
        const uint8_t *begin = all->views[batch].buf, *head = all->heads + batch * HEAD;
        Cursor cursor = {begin, begin + all->views[batch].len};
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
        const uint8_t *begin = all->views[batch].buf, *head = all->heads + batch * HEAD;
        int64_t after = row + (int32_t)big_endian(head + COUNT, 4);
        for (; row < after; row++) {
            const Places *places = all->places + row;
            copy_value(&all->key, begin + places->key, all->key.ends[row] - key);
            copy_value(&all->value, begin + places->value, all->value.ends[row] - value);
            key = all->key.ends[row];
            value = all->value.ends[row];
            if (header == all->list_ends[row])
                continue;
            Cursor cursor = {begin + places->headers, begin + all->views[batch].len};
            Outcome outcome = copy_headers(all, cursor, header, all->list_ends[row]);
            if (outcome != DONE)
                return outcome;
            header = all->list_ends[row];
        }
    }
    return DONE;
}

/* Open the buffers and make room for what all records have; WRONG where the counts lie. */
static Outcome open_batches(Decoding *all, const Py_buffer *heads)
{
    all->batches = PySequence_Size(all->sequence);
    if (all->batches < 0)
        return FAILED;
    if (heads->len != all->batches * HEAD) {
        PyErr_SetString(PyExc_ValueError, "as many headers as batches are needed");
        return FAILED;
    }
    all->heads = heads->buf;
    all->views = PyMem_Calloc(all->batches + 1, sizeof *all->views);
    if (!all->views)
        return PyErr_NoMemory(), FAILED;
    int64_t size = 0;
    for (int64_t batch = 0; batch < all->batches; batch++) {
        PyObject *item = PySequence_GetItem(all->sequence, batch);
        if (!item)
            return FAILED;
        int failed = PyObject_GetBuffer(item, all->views + batch, PyBUF_SIMPLE);
        Py_DECREF(item);
        if (failed)
            return FAILED;
        all->opened = batch + 1;
        int64_t count = (int32_t)big_endian(all->heads + batch * HEAD + COUNT, 4);
        int64_t length = all->views[batch].len;
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
    for (int64_t batch = 0; batch < all->opened; batch++)
        PyBuffer_Release(all->views + batch);
    PyMem_Free(all->views);
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
             "decode(records, heads)\n--\n\n"
             "Decode the records of several batches; None where anything is wrong with one.\n\n"
             "records: a sequence of buffers, each what one batch holds, decompressed.\n"
             "heads: a buffer of as many batch headers of 61 bytes.\n"
             "A binary column is (validity or None, offsets, data), each bytes as in Arrow.\n"
             "Returns (rows, offsets, timestamps, their validity or None, timestamp types, key\n"
             "column, value column, headers), headers being None where there is none, else\n"
             "(offsets of lists, headers, name column, value column, names are ASCII).");

static PyObject *decode(PyObject *module, PyObject *arguments)
{
    Decoding all;
    Py_buffer heads;
    PyObject *result = NULL;
    (void)module;
    memset(&all, 0, sizeof all);
    if (!PyArg_ParseTuple(arguments, "Oy*:decode", &all.sequence, &heads))
        return NULL;
    Outcome outcome = open_batches(&all, &heads);
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
    PyBuffer_Release(&heads);
    return result;
}

static PyMethodDef methods[] = {
    {"decode", decode, METH_VARARGS, decode_doc},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module)
{
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
