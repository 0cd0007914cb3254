package kafka

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"waterwheel/internal/kafka/wire"
)

// fakeBroker is a cluster of one broker that answers a few requests of the client, as a test wants.
type fakeBroker struct {
	listener net.Listener
	topics   []string // one partition each
	leader   int32    // leader of each partition. -1 means none. Zero means this broker, whose id is 1.

	newestFetch int16
	controller  bool   // listener of a controller instead of a broker
	password    string // password of the user "user". Empty means no SASL.
	hangsUp     bool   // closes the connection after a wrong password instead of answering
	fetch       func() []byte
	listOffsets func(timestamp int64) listoffsets.ResponsePartition
	answer      func(api protocol.ApiKey, body []byte) []byte // used instead of the fields above, if neither it nor its answer is nil

	mu    sync.Mutex
	conns []net.Conn
	done  sync.WaitGroup
}

// startFake runs the broker until the test ends.
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
	t.Cleanup(b.end)
	return b
}

// end stops the broker.
func (b *fakeBroker) end() {
	b.listener.Close()
	b.mu.Lock()
	for _, conn := range b.conns {
		conn.Close()
	}
	b.mu.Unlock()
	b.done.Wait()
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

// open returns a client of the fake.
func (b *fakeBroker) open(t *testing.T, change func(*Options)) (*Client, error) {
	t.Helper()
	options := tested(Options{Brokers: []string{b.address()}, Topics: b.topics, FetchWait: 50 * time.Millisecond, Isolation: ReadCommitted})
	if change != nil {
		change(&options)
	}
	client, err := Open(t.Context(), options, prometheus.NewRegistry())
	if err == nil {
		t.Cleanup(client.Close)
	}
	return client, err
}

// serve answers the requests of one connection until its end.
func (b *fakeBroker) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	authenticated := b.password == ""
	versions := 0 // number of requests for the versions before the login
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
		if versions++; api != protocol.ApiVersions || authenticated {
			versions = 0
		}
		if versions > 1 { // Kafka allows only one: "Unexpected ApiVersions request received during SASL authentication"
			return
		}
		var out bytes.Buffer
		switch {
		case api == protocol.Metadata && version == wire.Version(protocol.Metadata):
			b.write(&out, correlation, b.reply(api, frame, b.metadataBody))
		case api == protocol.Fetch:
			b.write(&out, correlation, b.reply(api, frame, b.fetch))
		case api == protocol.ApiVersions:
			b.write(&out, correlation, b.versions())
		default:
			message, allowed := b.known(api, frame)
			authenticated = authenticated || allowed
			if api == protocol.SaslAuthenticate && !allowed && b.hangsUp {
				return
			}
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

// write frames a hand-made body. A nil body writes nothing, which closes the connection.
func (b *fakeBroker) write(out *bytes.Buffer, correlation int32, body []byte) {
	if body == nil {
		return
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	frame = binary.BigEndian.AppendUint32(frame, uint32(correlation))
	out.Write(append(frame, body...))
}
