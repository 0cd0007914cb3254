package wire

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"
)

// The APIs that kafka-go has no names for.
const (
	DescribeProducers     protocol.ApiKey = 61
	DescribeTransactions  protocol.ApiKey = 65
	ListTransactions      protocol.ApiKey = 66
	ConsumerGroupDescribe protocol.ApiKey = 69
)

var names = map[protocol.ApiKey]string{
	DescribeProducers: "DescribeProducers", DescribeTransactions: "DescribeTransactions", ListTransactions: "ListTransactions",
	ConsumerGroupDescribe: "ConsumerGroupDescribe",
}

// own holds the requests whose answers this module decodes itself. Headers of flexible requests have tags.
var own = map[protocol.ApiKey]struct {
	version  int16
	flexible bool
}{
	protocol.CreateTopics: {6, true},
	protocol.Fetch:        {13, true}, // the first version that addresses a topic by its id; Kafka 3.1
	protocol.Metadata:     {12, true}, // the first version with topic ids
	protocol.Heartbeat:    {3, false},
	protocol.LeaveGroup:   {3, false},
	protocol.OffsetFetch:  {7, true}, // the first version that can wait for pending transactional commits
	DescribeProducers:     {0, true},
	DescribeTransactions:  {0, true},
	ListTransactions:      {0, true},
	ConsumerGroupDescribe: {0, true},
}

// Version returns the version of this module's request for an API.
func Version(api protocol.ApiKey) int16 { return own[api].version }

// isOwn reports whether this module decodes the answers to a request itself.
func isOwn(api protocol.ApiKey, version int16) bool {
	o, ok := own[api]
	return ok && o.version == version
}

// Name returns an API's name in Kafka's protocol guide.
func Name(api protocol.ApiKey) string {
	if name, ok := names[api]; ok {
		return name
	}
	return api.String()
}

// Request is a request of this module to any broker. kafka-go's Transport sends it.
type Request[A any] struct {
	API  protocol.ApiKey
	Body []byte
	// Read decodes the answer. Its result may alias the answer, which has no other user. Read may still run when the caller has
	// already given up.
	Read func(*Reader) A
	// Memory is Call.Memory.
	Memory func(size int) []byte
	// Unknown is the answer when the broker does not know the request, which is then not sent. Nil means that all brokers know
	// it.
	Unknown *A
	// unknown means that the broker does not know the request.
	unknown bool
}

// Answer is the answer to a Request. Error codes are a part of it. If they were errors of the exchange, kafka-go would drop the
// connection.
type Answer[A any] struct {
	API   protocol.ApiKey
	Value A
}

// GroupRequest is a Request to a group's coordinator.
type GroupRequest[A any] struct {
	Request[A]
	Name string // of the group
}

// TransactionRequest is a Request to a transaction's coordinator.
type TransactionRequest[A any] struct {
	Request[A]
	ID string // of the transaction
}

// RoutedRequest is a Request to the broker that Route chooses.
type RoutedRequest[A any] struct {
	Request[A]
	Route func(protocol.Cluster) (protocol.Broker, error)
}

var (
	_ protocol.RawExchanger  = (*Request[int])(nil)
	_ protocol.GroupMessage  = (*GroupRequest[int])(nil)
	_ protocol.BrokerMessage = (*RoutedRequest[int])(nil)

	_ protocol.TransactionalMessage = (*TransactionRequest[int])(nil)
)

// ApiKey implements protocol.Message.
func (m *Request[A]) ApiKey() protocol.ApiKey { return m.API }

// ApiKey implements protocol.Message.
func (a *Answer[A]) ApiKey() protocol.ApiKey { return a.API }

// Group implements protocol.GroupMessage.
func (m *GroupRequest[A]) Group() string { return m.Name }

// Transaction implements protocol.TransactionalMessage.
func (m *TransactionRequest[A]) Transaction() string { return m.ID }

// Broker implements protocol.BrokerMessage.
func (m *RoutedRequest[A]) Broker(c protocol.Cluster) (protocol.Broker, error) { return m.Route(c) }

// Required implements protocol.RawExchanger.
func (m *Request[A]) Required(versions map[protocol.ApiKey]int16) bool {
	_, known := versions[m.API]
	m.unknown = m.Unknown != nil && !known
	return true
}

// RawExchange implements protocol.RawExchanger.
func (m *Request[A]) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if m.unknown {
		return &Answer[A]{API: m.API, Value: *m.Unknown}, nil
	}
	o := own[m.API]
	answer, err := Exchange(rw, Call{API: m.API, Version: o.version, Flexible: o.flexible, Body: m.Body, Memory: m.Memory})
	if err != nil {
		return nil, err
	}
	value, err := m.Parse(answer)
	if err != nil {
		return nil, err
	}
	return &Answer[A]{API: m.API, Value: value}, nil
}

// Parse decodes an answer of Exchange.
func (m *Request[A]) Parse(answer []byte) (value A, err error) {
	o := own[m.API]
	r := NewReader(answer)
	if o.flexible {
		r.Tags()
	}
	if value = m.Read(r); r.err != nil {
		return value, fmt.Errorf("reading the answer to %s v%d: %w", Name(m.API), o.version, r.err)
	}
	return value, nil
}

// Reader decodes an answer, field by field. The first missing field sets its error, and all later fields are zero, so callers
// check the error once at the end. Returned bytes alias the answer.
type Reader struct {
	whole, rest []byte
	err         error
}

// NewReader returns a Reader of b.
func NewReader(b []byte) *Reader { return &Reader{whole: b, rest: b} }

// Err is the first error.
func (r *Reader) Err() error { return r.err }

// Wrong is the first error, with the name of the decoded thing. Nil means that there is none.
func (r *Reader) Wrong(reading string) error {
	if r.err != nil {
		return fmt.Errorf("reading %s: %w", reading, r.err)
	}
	return nil
}

// More reports whether anything is left.
func (r *Reader) More() bool { return len(r.rest) > 0 }

// Memory is the whole answer.
func (r *Reader) Memory() []byte { return r.whole }

// Fail keeps the first error and makes everything after it empty.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

// Times is a loop over n elements that ends at the first error.
func (r *Reader) Times(n int) func(yield func() bool) {
	return func(yield func() bool) {
		for ; n > 0 && r.err == nil && yield(); n-- {
		}
	}
}

// Take returns the next n bytes, or nil.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.Fail(fmt.Errorf("%w: a field has %d bytes, but only %d bytes are left", ErrMalformed, n, len(r.rest)))
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// Int16 reads two bytes.
func (r *Reader) Int16() int16 {
	if b := r.Take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

// Int32 reads four bytes.
func (r *Reader) Int32() int32 {
	if b := r.Take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads eight bytes.
func (r *Reader) Int64() int64 {
	if b := r.Take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// UUID reads a topic id.
func (r *Reader) UUID() (id [16]byte) {
	copy(id[:], r.Take(len(id)))
	return id
}

// Uvarint reads an unsigned number of variable length.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.Fail(fmt.Errorf("%w: a length is malformed", ErrMalformed))
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// ShortLen reads the length of a string that is not compact. It is negative for null.
func (r *Reader) ShortLen() int { return int(r.Int16()) }

// LongLen reads the length of a byte string or an array that is not compact. It is negative for null.
func (r *Reader) LongLen() int { return int(r.Int32()) }

// CompactLen reads the length of a compact string, byte string or array. It is -1 for null. A length beyond the remaining bytes
// is an error, because each element takes at least one byte.
func (r *Reader) CompactLen() int {
	n := r.Uvarint()
	if n > uint64(len(r.rest))+1 {
		r.Fail(fmt.Errorf("%w: a list of %d elements, but only %d bytes are left", ErrMalformed, n-1, len(r.rest)))
		return -1
	}
	return int(n) - 1
}

// ShortString reads a string with a length of 16 bits. It is empty for null.
func (r *Reader) ShortString() string { return string(r.Take(max(0, r.ShortLen()))) }

// LongBytes reads bytes with a length of 32 bits. It is nil for null.
func (r *Reader) LongBytes() []byte { return r.bytes(r.LongLen()) }

// CompactBytes reads bytes with a compact length. It is nil for null.
func (r *Reader) CompactBytes() []byte { return r.bytes(r.CompactLen()) }

// CompactString reads a string with a compact length. It is empty for null.
func (r *Reader) CompactString() string { return string(r.CompactBytes()) }

func (r *Reader) bytes(n int) []byte {
	if n < 0 {
		return nil
	}
	return r.Take(n)
}

// Tags skips the tagged fields at the end of a flexible structure.
func (r *Reader) Tags() {
	for n := r.Uvarint(); n > 0 && r.err == nil; n-- {
		r.Uvarint() // the tag
		size := r.Uvarint()
		r.Take(int(min(size, uint64(len(r.rest))+1)))
	}
}

// AppendCompactString appends a string of a flexible request.
func AppendCompactString(b []byte, s string) []byte {
	return append(AppendCompactLen(b, len(s)), s...)
}

// AppendCompactLen appends the length of a string or an array of a flexible request.
func AppendCompactLen(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)+1) }

// AppendShortString appends a string with a length of 16 bits.
func AppendShortString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// AppendLongBytes appends bytes with a length of 32 bits.
func AppendLongBytes(b, bytes []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(bytes))), bytes...)
}
