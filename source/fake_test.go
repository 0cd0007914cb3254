package source

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
)

// fakeBroker is a cluster of one broker that answers the few requests of this side as a test wants.
type fakeBroker struct {
	listener net.Listener
	topics   []string // one partition each

	newestFetch int16
	password    string // of the user "user", empty for no SASL
	fetch       func() []byte
	listOffsets func(timestamp int64) listoffsets.ResponsePartition
	answer      func(api protocol.ApiKey, body []byte) []byte // instead of the above when not nil and not nil

	mu    sync.Mutex
	conns []net.Conn
	done  sync.WaitGroup
}

// startFake serves until the test ends.
func startFake(t *testing.T, b *fakeBroker) *fakeBroker {
	t.Helper()
	if b.listener == nil {
		b.listener = listen(t)
	}
	if b.newestFetch == 0 {
		b.newestFetch = 17
	}
	b.done.Go(func() {
		for {
			conn, err := b.listener.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.conns = append(b.conns, conn)
			b.mu.Unlock()
			b.done.Go(func() { b.serve(conn) })
		}
	})
	t.Cleanup(func() {
		b.listener.Close()
		b.mu.Lock()
		for _, conn := range b.conns {
			conn.Close()
		}
		b.mu.Unlock()
		b.done.Wait()
	})
	return b
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func (b *fakeBroker) address() string { return b.listener.Addr().String() }

// open is a client of the fake.
func (b *fakeBroker) open(t *testing.T, change func(*Options)) (*Client, error) {
	t.Helper()
	options := Options{Brokers: []string{b.address()}, Topics: b.topics, FetchWait: 50 * time.Millisecond, Isolation: ReadCommitted}
	if change != nil {
		change(&options)
	}
	client, err := Open(t.Context(), options, prometheus.NewRegistry())
	if err == nil {
		t.Cleanup(client.Close)
	}
	return client, err
}

// serve answers one connection until there is nothing to answer.
func (b *fakeBroker) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	authenticated := b.password == ""
	for {
		frame, err := readFrame(in)
		if err != nil {
			return
		}
		api := protocol.ApiKey(binary.BigEndian.Uint16(frame[4:]))
		version := int16(binary.BigEndian.Uint16(frame[6:]))
		correlation := int32(binary.BigEndian.Uint32(frame[8:]))
		if !authenticated && api != protocol.ApiVersions && api != protocol.SaslHandshake && api != protocol.SaslAuthenticate {
			return
		}
		var out bytes.Buffer
		switch {
		case api == protocol.Metadata && version == metadataVersion:
			b.write(&out, correlation, b.reply(api, frame, b.metadataBody))
		case api == protocol.Fetch:
			b.write(&out, correlation, b.reply(api, frame, b.fetch))
		case api == protocol.ApiVersions:
			b.write(&out, correlation, b.versions())
		default:
			message, allowed := b.known(api, frame)
			authenticated = authenticated || allowed
			if message == nil {
				return
			}
			if err := protocol.WriteResponse(&out, version, correlation, message); err != nil {
				panic(fmt.Sprintf("the fake broker cannot answer %v v%d: %v", api, version, err))
			}
		}
		if out.Len() == 0 {
			return
		}
		if _, err := conn.Write(out.Bytes()); err != nil {
			return
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	frame := make([]byte, 4)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(frame)
	if size < 8 || size > 1<<20 {
		return nil, fmt.Errorf("a request of %d bytes", size)
	}
	frame = append(frame, make([]byte, size)...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

func (b *fakeBroker) reply(api protocol.ApiKey, frame []byte, usual func() []byte) []byte {
	if b.answer != nil {
		if body := b.answer(api, frame); body != nil {
			return body
		}
	}
	return usual()
}

// write frames a hand-made body, and nothing for nil, which hangs up.
func (b *fakeBroker) write(out *bytes.Buffer, correlation int32, body []byte) {
	if body == nil {
		return
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	frame = binary.BigEndian.AppendUint32(frame, uint32(correlation))
	out.Write(append(frame, body...))
}

func (b *fakeBroker) versions() []byte {
	newest := map[protocol.ApiKey]int16{
		protocol.Fetch: b.newestFetch, protocol.Metadata: 13, protocol.ListOffsets: 9, protocol.ApiVersions: 4,
		protocol.SaslHandshake: 1, protocol.SaslAuthenticate: 2,
	}
	body := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(len(newest)))
	for api, version := range newest {
		body = binary.BigEndian.AppendUint16(body, uint16(api))
		body = binary.BigEndian.AppendUint16(body, 0)
		body = binary.BigEndian.AppendUint16(body, uint16(version))
	}
	return body
}

// known answers what kafka-go's own messages ask.
func (b *fakeBroker) known(api protocol.ApiKey, frame []byte) (answer protocol.Message, authenticated bool) {
	_, _, _, request, err := protocol.ReadRequest(bytes.NewReader(frame))
	if err != nil {
		return nil, false
	}
	switch r := request.(type) {
	case *metadata.Request:
		return b.layout(), false
	case *listoffsets.Request:
		partition := b.listOffsets(r.Topics[0].Partitions[0].Timestamp)
		return &listoffsets.Response{Topics: []listoffsets.ResponseTopic{{
			Topic: r.Topics[0].Topic, Partitions: []listoffsets.ResponsePartition{partition},
		}}}, false
	case *saslhandshake.Request:
		if b.password == "" {
			return &saslhandshake.Response{ErrorCode: 34}, false
		}
		if r.Mechanism != "PLAIN" {
			return &saslhandshake.Response{ErrorCode: 33, Mechanisms: []string{"PLAIN"}}, false
		}
		return &saslhandshake.Response{Mechanisms: []string{"PLAIN"}}, false
	case *saslauthenticate.Request:
		if string(r.AuthBytes) != "\x00user\x00"+b.password {
			return &saslauthenticate.Response{ErrorCode: 58, ErrorMessage: "Authentication failed: Invalid username or password"}, false
		}
		return &saslauthenticate.Response{}, true
	default:
		return nil, false
	}
}

func (b *fakeBroker) layout() *metadata.Response {
	host, port, _ := net.SplitHostPort(b.address())
	number, _ := strconv.Atoi(port)
	response := &metadata.Response{
		ClusterID: "fake", ControllerID: 1,
		Brokers: []metadata.ResponseBroker{{NodeID: 1, Host: host, Port: int32(number)}},
	}
	for _, topic := range b.topics {
		response.Topics = append(response.Topics, metadata.ResponseTopic{
			Name: topic, Partitions: []metadata.ResponsePartition{{LeaderID: 1}},
		})
	}
	return response
}

// fakeID is the id of the fake's topics.
var fakeID = [16]byte{1, 2, 3}

// metadataBody is Metadata v12 with the header's tags.
func (b *fakeBroker) metadataBody() []byte {
	body := []byte{0}
	body = binary.BigEndian.AppendUint32(body, 0) // throttle
	body = appendCompactLen(body, 1)
	body = binary.BigEndian.AppendUint32(body, 1)
	body = appendCompactString(body, "127.0.0.1")
	body = binary.BigEndian.AppendUint32(body, 9092)
	body = append(body, 0, 0) // no rack, tags
	body = appendCompactString(body, "fake")
	body = binary.BigEndian.AppendUint32(body, 1)
	body = appendCompactLen(body, len(b.topics))
	for _, topic := range b.topics {
		body = append(body, 0, 0)
		body = appendCompactString(body, topic)
		body = append(body, fakeID[:]...)
		body = append(body, 0)
		body = appendCompactLen(body, 1)
		body = append(body, 0, 0)
		body = binary.BigEndian.AppendUint32(body, 0)
		body = binary.BigEndian.AppendUint32(body, 1)
		body = binary.BigEndian.AppendUint32(body, 4)
		for range 3 {
			body = binary.BigEndian.AppendUint32(appendCompactLen(body, 1), 1)
		}
		body = append(body, 0)
		body = binary.BigEndian.AppendUint32(body, 0)
		body = append(body, 0)
	}
	return append(body, 0)
}

// fetchSpec is an answer to encode.
type fetchSpec struct {
	top, code                           int16
	id                                  [16]byte
	partition                           int32
	highWatermark, lastStable, logStart int64
	aborted                             []abortedTransaction
	set                                 []byte
}

// encode is the body of Fetch v13 with the header's tags.
func (s fetchSpec) encode() []byte {
	b := []byte{0}
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(s.top))
	b = binary.BigEndian.AppendUint32(b, 0)
	if s.top != 0 {
		return append(appendCompactLen(b, 0), 0)
	}
	b = append(appendCompactLen(b, 1), s.id[:]...)
	b = binary.BigEndian.AppendUint32(appendCompactLen(b, 1), uint32(s.partition))
	b = binary.BigEndian.AppendUint16(b, uint16(s.code))
	for _, offset := range []int64{s.highWatermark, s.lastStable, s.logStart} {
		b = binary.BigEndian.AppendUint64(b, uint64(offset))
	}
	if s.aborted == nil {
		b = append(b, 0)
	} else {
		b = appendCompactLen(b, len(s.aborted))
	}
	for _, a := range s.aborted {
		b = binary.BigEndian.AppendUint64(b, uint64(a.producer))
		b = binary.BigEndian.AppendUint64(b, uint64(a.first))
		b = append(b, 0)
	}
	b = binary.BigEndian.AppendUint32(b, 0xffffffff)
	b = append(appendCompactLen(b, len(s.set)), s.set...)
	// a tagged field of the partition, as brokers send when epochs diverge: 0, of three bytes
	return append(b, 1, 0, 3, 9, 9, 9, 0, 0)
}
