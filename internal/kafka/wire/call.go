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
	// MaxResponseBytes bounds what a broker's length field can make this process read. Kafka's own brokers refuse
	// record batches of 100 MiB and more unless told otherwise.
	MaxResponseBytes = 256 << 20
	// maxAnswerBytes is the same for answers that bring no records.
	maxAnswerBytes = 16 << 20
	// readStep bounds what is allocated ahead of the bytes that really arrive.
	readStep = 4 << 20
)

var (
	// ErrMalformed is an answer that is not what the protocol says.
	ErrMalformed = errors.New("malformed answer")
	// errTLSAlert is what a listener with TLS answers to who speaks without.
	errTLSAlert = errors.New("answered in TLS")
)

// answerHead is the size and the correlation id that each answer begins with.
const answerHead = 8

// ClientID names this program in the brokers' logs and quotas.
const ClientID = "waterwheel"

// Call is one request: what the protocol's header says of it, and its encoded body.
type Call struct {
	API      protocol.ApiKey
	Version  int16
	Flexible bool // the request header is v2 and the response header v1, both with tags
	Body     []byte
	// Memory, where it is not nil, lends memory to read an answer of so many bytes into; with less capacity than that, nil
	// included, it is not used. It is lost when the exchange fails: the lent buffer belongs to the owner of the answer.
	Memory func(size int) []byte
}

// Exchange sends the call and returns its answer after the correlation id: the header's tags if the call is flexible,
// then the body. It is the caller's.
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
		return nil, fmt.Errorf("%w: it belongs to request %d, not %d", ErrMalformed, answered, correlation)
	}
	var lent []byte
	if c.Memory != nil {
		lent = c.Memory(size)
	}
	return readInto(rw, size, lent)
}

// answerSize is how many bytes come after an answer's head.
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
		return 0, fmt.Errorf("%w: %d bytes announced", ErrMalformed, size)
	}
	return size, nil
}

// encode is the whole request: size, header, body.
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

// readInto reads size bytes: into lent if that has room for them, else into a buffer that grows with what arrives and not with
// what was announced.
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

// noEOF names a connection that ended inside an answer.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
