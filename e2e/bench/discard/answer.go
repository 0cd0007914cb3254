package discard

import (
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// answer returns a server's answer to a successful write of n documents. id is the request id of the answer.
func answer(to head, id uint32, n int) []byte {
	b := make([]byte, headerBytes+flagsBytes, 96)
	binary.LittleEndian.PutUint32(b[4:], id)
	binary.LittleEndian.PutUint32(b[8:], to.id)
	binary.LittleEndian.PutUint32(b[12:], opMessage)
	b = append(b, kindBody)
	at, b := bsoncore.AppendDocumentStart(b)
	b = bsoncore.AppendInt32Element(b, "n", int32(min(n, math.MaxInt32)))
	if to.update {
		b = bsoncore.AppendInt32Element(b, "nModified", int32(min(n, math.MaxInt32)))
	}
	b = bsoncore.AppendDoubleElement(b, "ok", 1)
	b, _ = bsoncore.AppendDocumentEnd(b, at) // fails only for lengths that cannot occur here
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return b
}
