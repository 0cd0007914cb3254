package bucketer

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// The functions of this file append BSON to dst, faster than the driver does. An element is a type, a name and a value.

func appendInt64(dst []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(dst, uint64(v)) }

func appendInt32Named(dst []byte, name string, v int32) []byte {
	return binary.LittleEndian.AppendUint32(rawbson.AppendHeader(dst, bson.TypeInt32, name), uint32(v))
}

func appendDateNamed(dst []byte, name string, v int64) []byte {
	return appendInt64(rawbson.AppendHeader(dst, bson.TypeDateTime, name), v)
}

func appendBinaryNamed(dst []byte, name string, data []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(rawbson.AppendHeader(dst, bson.TypeBinary, name), uint32(len(data)))
	return append(append(dst, bson.TypeBinaryGeneric), data...)
}

func appendNamed(dst []byte, v value, name string) []byte {
	return appendData(rawbson.AppendHeader(dst, v.kind, name), v.data)
}

// appendData appends a value's bytes. Most numbers and dates need no call.
func appendData(dst, data []byte) []byte {
	if len(data) == 8 {
		return binary.LittleEndian.AppendUint64(dst, binary.LittleEndian.Uint64(data))
	}
	return append(dst, data...)
}

// appendFields appends a document of elements.
func appendFields(dst, elements []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(4+len(elements)+1))
	return append(append(dst, elements...), 0)
}

// startDocument appends the start of an object or array. endDocument needs the returned start to end it.
func startDocument(dst []byte, kind bson.Type, name string) (_ []byte, start int) {
	dst = rawbson.AppendHeader(dst, kind, name)
	return append(dst, 0, 0, 0, 0), len(dst)
}
