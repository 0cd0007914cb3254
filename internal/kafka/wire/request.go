package wire

import (
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"
)

// These are APIs that kafka-go has no names for.
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

// own are the requests whose answers this module reads itself. Those that are flexible have tags in their headers.
var own = map[protocol.ApiKey]struct {
	version  int16
	flexible bool
}{
	protocol.CreateTopics: {6, true},
	protocol.Fetch:        {13, true}, // the first to address a topic by its id; Kafka 3.1
	protocol.Metadata:     {12, true}, // the first with topic ids
	protocol.Heartbeat:    {3, false},
	protocol.LeaveGroup:   {3, false},
	protocol.OffsetFetch:  {7, true}, // the first that can wait for pending transactional commits
	DescribeProducers:     {0, true},
	DescribeTransactions:  {0, true},
	ListTransactions:      {0, true},
	ConsumerGroupDescribe: {0, true},
}

// Version is the version of our own request of an API.
func Version(api protocol.ApiKey) int16 { return own[api].version }

// isOwn tells the requests whose answers this module reads itself.
func isOwn(api protocol.ApiKey, version int16) bool {
	o, ok := own[api]
	return ok && o.version == version
}

// Name is an API's name in Kafka's protocol guide.
func Name(api protocol.ApiKey) string {
	if name, ok := names[api]; ok {
		return name
	}
	return api.String()
}

// Request is a request of our own, to any broker. kafka-go's Transport sends it.
type Request[A any] struct {
	API  protocol.ApiKey
	Body []byte
	// Read takes the answer apart. What it returns may alias the answer, which is nobody else's: the caller may have given
	// up and gone while this is still reading.
	Read func(*Reader) A
	// Memory is Call.Memory.
	Memory func(size int) []byte
	// Unknown stands for the answer of a broker that does not know the request, which is not sent then. Nil means that all brokers know it.
	Unknown *A
	// unknown means that the broker does not know it.
	unknown bool
}

// Answer is the answer to a Request. An error code is part of it and no error of the exchange: after one of those kafka-go
// drops the connection.
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

// Parse reads an answer as Exchange returns it.
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
