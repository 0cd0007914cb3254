package wire

import (
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
