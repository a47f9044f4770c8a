/* Rows of messages into the bytes of a SequenceFile: records, or the columns of blocks.
 *
 * What layouts.py, header_field.py and writer.py do by numpy, in one pass for the sizes and one
 * for the bytes; the layout of keys is in layouts.py.  None is returned for what is not made
 * here, such as a record that is too large: the caller asks numpy, which says what is wrong.
 *
 * Every place that a column names is compared with its buffer before anything is written, and
 * the bytes written are counted against the sizes.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#ifndef SOURCE_CRC32
#define SOURCE_CRC32 0
#endif

enum { OFFSET, TIMESTAMP, TYPE, KEY, VALUE, LISTS, NAMES, CONTENTS, COLUMNS };

/* A column as Arrow has it: `first` is numbers or places, `second` the bytes of binaries. */
typedef struct {
    long long offset;
    Py_buffer valid, first, second;
    int opened;
} Column;

typedef struct {
    Column columns[COLUMNS];
    int64_t rows, largest; /* bytes of a record */
    int legacy, has_headers;
    int64_t *key_sizes; /* with the four bytes before the map */
} Batch;

/* ------------------------------------------------------------------ reading columns */

static int open_column(Column *column, PyObject *tuple)
{
    column->opened = PyArg_ParseTuple(tuple, "Lz*y*z*", &column->offset, &column->valid,
                                      &column->first, &column->second);
    return column->opened;
}

/* 0 where `count` elements of `width` bytes, or their validity, are not in the buffers. */
static int holds(const Column *column, int64_t count, int width)
{
    int64_t last = column->offset + count;
    return column->offset >= 0 && count >= 0 && last <= column->first.len / width &&
           (!column->valid.buf || last <= column->valid.len * 8);
}

static inline int is_valid(const Column *column, int64_t row)
{
    int64_t bit = column->offset + row;
    return !column->valid.buf || ((const uint8_t *)column->valid.buf)[bit / 8] >> bit % 8 & 1;
}

static inline int64_t number(const Column *column, int64_t row)
{
    return ((const int64_t *)column->first.buf)[column->offset + row];
}

static inline int32_t place(const Column *column, int64_t row)
{
    return ((const int32_t *)column->first.buf)[column->offset + row];
}

/* The bytes of a row, 0 for null. */
static inline int64_t length(const Column *column, int64_t row)
{
    return is_valid(column, row) ? place(column, row + 1) - place(column, row) : 0;
}

/* 0 where places fall, or lead out of the `most` bytes or rows that they are places in. */
static int rises(const Column *column, int64_t count, int64_t most)
{
    if (!holds(column, count, 4) || column->offset + count + 1 > column->first.len / 4 ||
        place(column, 0) < 0)
        return 0;
    for (int64_t row = 0; row < count; row++)
        if (place(column, row + 1) < place(column, row))
            return 0;
    return place(column, count) <= most;
}

static int is_binary(const Column *column, int64_t count)
{
    return rises(column, count, column->second.len);
}

/* ------------------------------------------------------------------ MessagePack */

static inline uint8_t *put(uint8_t *at, uint64_t number, int bytes)
{
    for (int index = bytes - 1; index >= 0; index--)
        *at++ = (uint8_t)(number >> (8 * index));
    return at;
}

/* The bytes behind the first one of an integer in its shortest form. */
static inline int integer_bytes(int64_t number)
{
    if (number >= 128)
        return number < 1 << 8 ? 1 : number < 1 << 16 ? 2 : number < (int64_t)1 << 32 ? 4 : 8;
    if (number >= -32)
        return 0;
    return number >= -(1 << 7) ? 1 : number >= -(1 << 15) ? 2 : number >= -((int64_t)1 << 31) ? 4 : 8;
}

static inline uint8_t *put_integer(uint8_t *at, int64_t number)
{
    int bytes = integer_bytes(number);
    int power = bytes == 8 ? 3 : bytes == 4 ? 2 : bytes == 2 ? 1 : 0;
    if (bytes)
        *at++ = (uint8_t)((number < 0 ? 0xD0 : 0xCC) + power);
    return put(at, (uint64_t)number, bytes ? bytes : 1);
}

static inline int binary_bytes(int64_t size) { return size < 1 << 8 ? 1 : size < 1 << 16 ? 2 : 4; }

static inline uint8_t *put_binary(uint8_t *at, int64_t size)
{
    int bytes = binary_bytes(size);
    *at++ = (uint8_t)(0xC4 + bytes / 2);
    return put(at, (uint64_t)size, bytes);
}

static inline int string_bytes(int64_t size) { return size < 32 ? 0 : binary_bytes(size); }

static inline uint8_t *put_string(uint8_t *at, int64_t size)
{
    int bytes = string_bytes(size);
    if (!bytes)
        return put(at, 0xA0 + (uint64_t)size, 1);
    *at++ = (uint8_t)(0xD9 + bytes / 2);
    return put(at, (uint64_t)size, bytes);
}

static inline int array_bytes(int64_t count) { return count < 16 ? 0 : count < 1 << 16 ? 2 : 4; }

static inline uint8_t *put_array(uint8_t *at, int64_t count)
{
    int bytes = array_bytes(count);
    if (!bytes)
        return put(at, 0x90 + (uint64_t)count, 1);
    *at++ = (uint8_t)(0xDB + bytes / 2);
    return put(at, (uint64_t)count, bytes);
}

static inline uint8_t *put_bytes(uint8_t *at, const Column *column, int64_t row)
{
    int64_t size = length(column, row);
    if (size)
        memcpy(at, (const uint8_t *)column->second.buf + place(column, row), size);
    return at + size;
}

/* ------------------------------------------------------------------ keys */

static inline int is_appended(const Batch *batch, int64_t row)
{
    const Column *column = batch->columns + TYPE;
    return is_valid(column, row) && ((const int8_t *)column->first.buf)[column->offset + row] == 1;
}

static inline int64_t headers_of(const Batch *batch, int64_t row)
{
    const Column *lists = batch->columns + LISTS;
    return batch->has_headers ? place(lists, row + 1) - place(lists, row) : 0;
}

static int64_t header_field_size(const Batch *batch, int64_t row)
{
    int64_t count = headers_of(batch, row);
    if (!count)
        return 0;
    int64_t first = place(batch->columns + LISTS, row), size = 2 + array_bytes(count);
    const Column *names = batch->columns + NAMES, *contents = batch->columns + CONTENTS;
    for (int64_t header = first; header < first + count; header++) {
        int64_t name = length(names, header), content = length(contents, header);
        size += 2 + string_bytes(name) + name + 1;
        if (is_valid(contents, header))
            size += binary_bytes(content) + content;
    }
    return size;
}

static uint8_t *put_header_field(uint8_t *at, const Batch *batch, int64_t row)
{
    int64_t count = headers_of(batch, row);
    if (!count)
        return at;
    int64_t first = place(batch->columns + LISTS, row);
    const Column *names = batch->columns + NAMES, *contents = batch->columns + CONTENTS;
    *at++ = 0x04;
    at = put_array(at, count);
    for (int64_t header = first; header < first + count; header++) {
        *at++ = 0x92;
        at = put_string(at, length(names, header));
        at = put_bytes(at, names, header);
        if (!is_valid(contents, header)) {
            *at++ = 0xC0;
            continue;
        }
        at = put_binary(at, length(contents, header));
        at = put_bytes(at, contents, header);
    }
    return at;
}

static int64_t key_size(const Batch *batch, int64_t row)
{
    const Column *columns = batch->columns;
    if (batch->legacy)
        return 8;
    int64_t size = 4 + 1 + 2 + integer_bytes(number(columns + OFFSET, row));
    if (is_valid(columns + TIMESTAMP, row))
        size += 2 + integer_bytes(number(columns + TIMESTAMP, row));
    if (is_valid(columns + KEY, row)) {
        int64_t key = length(columns + KEY, row);
        size += 2 + binary_bytes(key) + key;
    }
    size += header_field_size(batch, row);
    return size + (is_valid(columns + VALUE, row) ? 0 : 2) + (is_appended(batch, row) ? 2 : 0);
}

static uint8_t *put_key(uint8_t *at, const Batch *batch, int64_t row)
{
    const Column *columns = batch->columns;
    int64_t offset = number(columns + OFFSET, row);
    if (batch->legacy)
        return put(at, (uint64_t)offset, 8);
    int timed = is_valid(columns + TIMESTAMP, row), keyed = is_valid(columns + KEY, row);
    int tombstone = !is_valid(columns + VALUE, row), appended = is_appended(batch, row);
    at = put(at, (uint64_t)(batch->key_sizes[row] - 4), 4);
    *at++ = (uint8_t)(0x81 + timed + keyed + (headers_of(batch, row) > 0) + tombstone + appended);
    *at++ = 0x01;
    at = put_integer(at, offset);
    if (timed) {
        *at++ = 0x03;
        at = put_integer(at, number(columns + TIMESTAMP, row));
    }
    if (keyed) {
        *at++ = 0x02;
        at = put_binary(at, length(columns + KEY, row));
        at = put_bytes(at, columns + KEY, row);
    }
    at = put_header_field(at, batch, row);
    if (tombstone)
        at = put(at, 0x05C3, 2);
    return appended ? put(at, 0x0601, 2) : at;
}

static inline uint8_t *put_value(uint8_t *at, const Batch *batch, int64_t row)
{
    at = put(at, (uint64_t)length(batch->columns + VALUE, row), 4);
    return put_bytes(at, batch->columns + VALUE, row);
}

/* Hadoop's WritableUtils.writeVInt, for what is not negative. */
static inline int vint_bytes(int64_t number)
{
    return number < 128 ? 0 : number < 1 << 8 ? 1 : number < 1 << 16 ? 2 : number < 1 << 24 ? 3 : 4;
}

static inline uint8_t *put_vint(uint8_t *at, int64_t number)
{
    int bytes = vint_bytes(number);
    if (!bytes)
        return put(at, (uint64_t)number, 1);
    *at++ = (uint8_t)(0x90 - bytes);
    return put(at, (uint64_t)number, bytes);
}

/* ------------------------------------------------------------------ batches */

static void close_batch(Batch *batch)
{
    for (int index = 0; index < COLUMNS; index++) {
        Column *column = batch->columns + index;
        if (!column->opened)
            continue;
        PyBuffer_Release(&column->valid);
        PyBuffer_Release(&column->first);
        PyBuffer_Release(&column->second);
    }
    PyMem_Free(batch->key_sizes);
}

/* Tell whether all that the columns name is in their buffers. */
static int is_whole(const Batch *batch)
{
    const Column *columns = batch->columns;
    int64_t rows = batch->rows;
    if (!holds(columns + OFFSET, rows, 8) || columns[OFFSET].valid.buf ||
        !holds(columns + TIMESTAMP, rows, 8) || !holds(columns + TYPE, rows, 1) ||
        !is_binary(columns + KEY, rows) || !is_binary(columns + VALUE, rows))
        return 0;
    if (!batch->has_headers)
        return 1;
    const Column *lists = columns + LISTS;
    if (lists->valid.buf || columns[NAMES].valid.buf || !rises(lists, rows, INT32_MAX))
        return 0;
    int64_t headers = place(lists, rows);
    return is_binary(columns + NAMES, headers) && is_binary(columns + CONTENTS, headers);
}

/* Open the columns and find the sizes of keys; 1, 0 for what is not made here, -1 for an error. */
static int open_batch(Batch *batch, PyObject *columns)
{
    Py_ssize_t count = PyTuple_Size(columns);
    if (count < 0)
        return -1;
    if (count != COLUMNS && count != LISTS) {
        PyErr_SetString(PyExc_ValueError, "five or eight columns are needed");
        return -1;
    }
    batch->has_headers = count == COLUMNS;
    for (Py_ssize_t index = 0; index < count; index++)
        if (!open_column(batch->columns + index, PyTuple_GetItem(columns, index)))
            return -1;
    if (batch->rows < 0 || !is_whole(batch)) {
        PyErr_SetString(PyExc_ValueError, "a column names what is not in its buffers");
        return -1;
    }
    batch->key_sizes = PyMem_Malloc((batch->rows + 1) * sizeof *batch->key_sizes);
    if (!batch->key_sizes)
        return PyErr_NoMemory(), -1;
    for (int64_t row = 0; row < batch->rows; row++) {
        batch->key_sizes[row] = key_size(batch, row);
        if (batch->key_sizes[row] + length(batch->columns + VALUE, row) + 4 > batch->largest)
            return 0;
    }
    return 1;
}

static PyObject *none(void)
{
    Py_INCREF(Py_None);
    return Py_None;
}

static inline int64_t record_size(const Batch *batch, int64_t row)
{
    return 4 + 4 + batch->key_sizes[row] + 4 + length(batch->columns + VALUE, row);
}

static PyObject *make_records(const Batch *batch, int64_t interval, const Py_buffer *marker,
                              int64_t since)
{
    int64_t size = 0, counted = since;
    for (int64_t row = 0; row < batch->rows; row++) {
        if (counted >= interval) {
            size += marker->len;
            counted = 0;
        }
        size += record_size(batch, row);
        counted += record_size(batch, row);
    }
    PyObject *framed = PyBytes_FromStringAndSize(NULL, size);
    if (!framed)
        return NULL;
    uint8_t *begin = (uint8_t *)PyBytes_AsString(framed), *at = begin;
    for (int64_t row = 0; row < batch->rows; row++) {
        if (since >= interval) {
            memcpy(at, marker->buf, marker->len);
            at += marker->len;
            since = 0;
        }
        at = put(at, (uint64_t)record_size(batch, row) - 8, 4);
        at = put(at, (uint64_t)batch->key_sizes[row], 4);
        at = put_key(at, batch, row);
        at = put_value(at, batch, row);
        since += record_size(batch, row);
    }
    if (at - begin != size) {
        Py_DECREF(framed);
        PyErr_SetString(PyExc_SystemError, "records are not as long as was counted");
        return NULL;
    }
    return Py_BuildValue("(NL)", framed, (long long)since);
}

PyDoc_STRVAR(records_doc,
             "records(columns, rows, legacy, largest, interval, marker, since)\n--\n\n"
             "Frame rows as records; None where one has more than `largest` bytes.\n\n"
             "columns: offset, timestamp, timestamp type, key, value, and where there are headers\n"
             "their lists, names and values; each (first row, validity or None, numbers or places,\n"
             "bytes or None) as in Arrow.  A marker precedes a record when at least `interval`\n"
             "bytes came since the last one; `since` of them were there before.\n"
             "Returns the bytes, and how many came since the last marker.");

static PyObject *records(PyObject *module, PyObject *arguments)
{
    Batch batch;
    PyObject *columns, *result = NULL;
    Py_buffer marker;
    long long rows, largest, interval, since;
    (void)module;
    memset(&batch, 0, sizeof batch);
    if (!PyArg_ParseTuple(arguments, "O!LpLLy*L:records", &PyTuple_Type, &columns, &rows,
                          &batch.legacy, &largest, &interval, &marker, &since))
        return NULL;
    batch.rows = rows;
    batch.largest = largest;
    int opened = open_batch(&batch, columns);
    if (opened == 1)
        result = make_records(&batch, interval, &marker, since);
    else if (opened == 0)
        result = none();
    close_batch(&batch);
    PyBuffer_Release(&marker);
    return result;
}

/* The four columns of a block; `ends` is where each stands. */
typedef struct {
    PyObject *bytes[4];
    uint8_t *begin[4], *at[4];
} Parts;

static int make_parts(Parts *parts, const Batch *batch)
{
    int64_t sizes[4] = {0, 0, 0, 0};
    for (int64_t row = 0; row < batch->rows; row++) {
        int64_t key = batch->key_sizes[row], value = length(batch->columns + VALUE, row) + 4;
        sizes[0] += 1 + vint_bytes(key);
        sizes[1] += key;
        sizes[2] += 1 + vint_bytes(value);
        sizes[3] += value;
    }
    for (int part = 0; part < 4; part++) {
        parts->bytes[part] = PyBytes_FromStringAndSize(NULL, sizes[part]);
        if (!parts->bytes[part])
            return 0;
        parts->begin[part] = parts->at[part] = (uint8_t *)PyBytes_AsString(parts->bytes[part]);
    }
    return 1;
}

static int note_end(PyObject *ends, const Parts *parts, int64_t row)
{
    PyObject *end = Py_BuildValue("(LLLLL)", (long long)row, (long long)(parts->at[0] - parts->begin[0]),
                                  (long long)(parts->at[1] - parts->begin[1]),
                                  (long long)(parts->at[2] - parts->begin[2]),
                                  (long long)(parts->at[3] - parts->begin[3]));
    int noted = end && !PyList_Append(ends, end);
    Py_XDECREF(end);
    return noted;
}

static int fill_parts(Parts *parts, const Batch *batch, PyObject *ends, int64_t most, int64_t *size)
{
    for (int64_t row = 0; row < batch->rows; row++) {
        int64_t key = batch->key_sizes[row], value = length(batch->columns + VALUE, row) + 4;
        parts->at[0] = put_vint(parts->at[0], key);
        parts->at[1] = put_key(parts->at[1], batch, row);
        parts->at[2] = put_vint(parts->at[2], value);
        parts->at[3] = put_value(parts->at[3], batch, row);
        *size += key + value;
        if (*size < most)
            continue;
        *size = 0;
        if (!note_end(ends, parts, row + 1))
            return 0;
    }
    for (int part = 0; part < 4; part++)
        if (parts->at[part] - parts->begin[part] != PyBytes_Size(parts->bytes[part])) {
            PyErr_SetString(PyExc_SystemError, "columns are not as long as was counted");
            return 0;
        }
    return note_end(ends, parts, batch->rows);
}

PyDoc_STRVAR(blocks_doc,
             "blocks(columns, rows, legacy, largest, most, size)\n--\n\n"
             "Frame rows as the columns of blocks; None where one has more than `largest` bytes.\n\n"
             "columns: as for records().  A block ends with the row whose keys and values reach\n"
             "`most` bytes; `size` of them were there before.\n"
             "Returns the sizes of keys, the keys, the sizes of values, the values; a list of\n"
             "(row, and how far each of the four goes) for each end of a block and the end of\n"
             "the rows; and the bytes of keys and values since the last block's end.");

static PyObject *blocks(PyObject *module, PyObject *arguments)
{
    Batch batch;
    Parts parts;
    PyObject *columns, *ends = NULL, *result = NULL;
    long long rows, largest, most, before;
    (void)module;
    memset(&batch, 0, sizeof batch);
    memset(&parts, 0, sizeof parts);
    if (!PyArg_ParseTuple(arguments, "O!LpLLL:blocks", &PyTuple_Type, &columns, &rows,
                          &batch.legacy, &largest, &most, &before))
        return NULL;
    batch.rows = rows;
    batch.largest = largest;
    int64_t size = before;
    int opened = open_batch(&batch, columns);
    if (opened == 0)
        result = none();
    if (opened == 1 && make_parts(&parts, &batch) && (ends = PyList_New(0)) &&
        fill_parts(&parts, &batch, ends, most, &size))
        result = Py_BuildValue("(OOOOOL)", parts.bytes[0], parts.bytes[1], parts.bytes[2],
                               parts.bytes[3], ends, (long long)size);
    Py_XDECREF(ends);
    for (int part = 0; part < 4; part++)
        Py_XDECREF(parts.bytes[part]);
    close_batch(&batch);
    return result;
}

static PyMethodDef methods[] = {
    {"records", records, METH_VARARGS, records_doc},
    {"blocks", blocks, METH_VARARGS, blocks_doc},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module)
{
    return PyModule_AddIntConstant(module, "SOURCE_CRC32", (long)SOURCE_CRC32);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "secor.formats.sequencefile._framing",
    .m_doc = "What the SequenceFile writer does by numpy, compiled.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__framing(void) { return PyModuleDef_Init(&definition); }
