package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/segmentio/kafka-go/protocol"
)

const (
	// MaxResponseBytes bounds how many bytes a broker's length field can make this process read. Kafka's own brokers refuse
	// record batches of 100 MiB and more by default.
	MaxResponseBytes = 256 << 20
	// maxAnswerBytes bounds answers without records in the same way.
	maxAnswerBytes = 16 << 20
	// readStep bounds what is allocated ahead of the bytes that have arrived.
	readStep = 4 << 20
)

var (
	// ErrMalformed means that an answer breaks the protocol.
	ErrMalformed = errors.New("malformed answer")
	// errTLSAlert means that a listener with TLS answered a client without TLS.
	errTLSAlert = errors.New("the answer is a TLS alert")
)

// answerHead is the length of an answer's size and correlation id.
const answerHead = 8

// ClientID names this program in the brokers' logs and quotas.
const ClientID = "waterwheel"

// Call is one request: the fields of its header, and its encoded body.
type Call struct {
	API      protocol.ApiKey
	Version  int16
	Flexible bool // the request header is v2 and the response header v1. Both have tags.
	Body     []byte
	// Memory lends a buffer for an answer of that size. A buffer with less capacity is not used. Nil means no lending. If the
	// exchange fails, the buffer is lost, because it belongs to the owner of the answer.
	Memory func(size int) []byte
}

// Exchange sends the call and returns its answer after the correlation id. If the call is flexible, the answer begins with the
// header's tags, and the body follows. The caller owns the answer.
func Exchange(rw io.ReadWriter, c Call) ([]byte, error) {
	correlation := rand.Int32()
	if _, err := rw.Write(c.encode(correlation)); err != nil {
		return nil, err
	}
	var head [answerHead]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, noEOF(err)
	}
	size, err := answerSize(c.API, head)
	if err != nil {
		return nil, err
	}
	if answered := int32(binary.BigEndian.Uint32(head[4:])); answered != correlation {
		return nil, fmt.Errorf("%w: it answers request %d instead of request %d", ErrMalformed, answered, correlation)
	}
	var lent []byte
	if c.Memory != nil {
		lent = c.Memory(size)
	}
	return readInto(rw, size, lent)
}

// answerSize returns how many bytes follow an answer's head.
func answerSize(api protocol.ApiKey, head [answerHead]byte) (int, error) {
	const alert, version = 0x15, 0x03
	if head[0] == alert && head[1] == version {
		return 0, errTLSAlert
	}
	most := maxAnswerBytes
	if api == protocol.Fetch {
		most = MaxResponseBytes
	}
	size := int(int32(binary.BigEndian.Uint32(head[:4]))) - 4
	if size < 0 || size > most {
		return 0, fmt.Errorf("%w: its header says that it has %d bytes", ErrMalformed, size)
	}
	return size, nil
}

// encode encodes the whole request: size, header, body.
func (c Call) encode(correlation int32) []byte {
	b := make([]byte, 4, 32+len(ClientID)+len(c.Body))
	b = binary.BigEndian.AppendUint16(b, uint16(c.API))
	b = binary.BigEndian.AppendUint16(b, uint16(c.Version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = binary.BigEndian.AppendUint16(b, uint16(len(ClientID)))
	b = append(b, ClientID...)
	if c.Flexible {
		b = append(b, 0) // no tags
	}
	b = append(b, c.Body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// readInto reads size bytes. It uses lent if that is large enough. Otherwise its buffer grows with the bytes that arrive, and not
// with the announced size.
func readInto(r io.Reader, size int, lent []byte) ([]byte, error) {
	if size <= cap(lent) {
		_, err := io.ReadFull(r, lent[:size])
		return lent[:size], noEOF(err)
	}
	var buffer []byte
	for len(buffer) < size {
		have, step := len(buffer), min(size-len(buffer), readStep)
		buffer = slices.Grow(buffer, step)[:have+step]
		if _, err := io.ReadFull(r, buffer[have:]); err != nil {
			return buffer, noEOF(err)
		}
	}
	return buffer, nil
}

// noEOF turns io.EOF inside an answer into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
