package hostile

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// nothing is a kind of request that no client sends, so no request is disturbed.
const nothing kmsg.Key = -1

// meddler is a proxy between clients and a broker. It answers requests of one kind with nonsense. It replaces the address of the
// broker in answers by its own, so that clients always connect to the meddler.
type meddler struct {
	listener net.Listener
	target   string
	own      []byte // the broker's address in answers
	mine     []byte // the address of the meddler

	mu    sync.Mutex
	api   kmsg.Key
	count int
	conns []net.Conn
}

func newMeddler(t *testing.T, target string) *meddler {
	t.Helper()
	host, port, err := net.SplitHostPort(target)
	if err != nil || strings.Contains(target, ",") {
		t.Skipf("the Kafka at %q is not one broker: its answers cannot be meddled with", target)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	number, _ := strconv.Atoi(port)
	m := &meddler{listener: listener, target: target, api: nothing}
	m.own = binary.BigEndian.AppendUint32([]byte(host), uint32(number))
	m.mine = binary.BigEndian.AppendUint32([]byte(host), uint32(listener.Addr().(*net.TCPAddr).Port))
	var working sync.WaitGroup
	working.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			broker, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			m.keep(client, broker)
			asked := &sync.Map{} // the kinds of requests, by correlation id
			working.Go(func() { m.pass(broker, client, func(frame []byte) []byte { return m.ask(asked, frame) }) })
			working.Go(func() { m.pass(client, broker, func(frame []byte) []byte { return m.answer(asked, frame) }) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		m.mu.Lock()
		for _, conn := range m.conns {
			conn.Close()
		}
		m.mu.Unlock()
		working.Wait()
	})
	return m
}

func (m *meddler) address() string { return m.listener.Addr().String() }

func (m *meddler) keep(conns ...net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns = append(m.conns, conns...)
}

// disturb answers this kind of request with nonsense from now on, and passes all others on.
func (m *meddler) disturb(api kmsg.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.api, m.count = api, 0
}

// disturbed returns the number of disturbed answers.
func (m *meddler) disturbed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// pass copies frames in one direction and changes them, until one side closes the connection.
func (m *meddler) pass(to, from net.Conn, change func([]byte) []byte) {
	defer to.Close()
	defer from.Close()
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(from, size); err != nil {
			return
		}
		frame := append(size, make([]byte, binary.BigEndian.Uint32(size))...)
		if _, err := io.ReadFull(from, frame[4:]); err != nil {
			return
		}
		if _, err := to.Write(change(frame)); err != nil {
			return
		}
	}
}

func (m *meddler) ask(asked *sync.Map, frame []byte) []byte {
	asked.Store(binary.BigEndian.Uint32(frame[8:]), kmsg.Key(binary.BigEndian.Uint16(frame[4:])))
	return frame
}

func (m *meddler) answer(asked *sync.Map, frame []byte) []byte {
	api, _ := asked.LoadAndDelete(binary.BigEndian.Uint32(frame[4:]))
	m.mu.Lock()
	defer m.mu.Unlock()
	if api != m.api {
		return bytes.ReplaceAll(frame, m.own, m.mine)
	}
	m.count++
	return nonsense(frame[:8], m.count)
}

// nonsense returns an answer whose lengths exceed the data. The position of the wrong lengths depends on n.
func nonsense(head []byte, n int) []byte {
	switch n % 4 {
	case 0: // the length of the whole
		return append([]byte{0x7f, 0xff, 0xff, 0xff}, head[4:8]...)
	case 1: // arrays and strings, and an unknown error code
		return framed(head, bytes.Repeat([]byte{0x7f}, 200))
	case 2: // compact arrays and strings
		return framed(head, append(make([]byte, n%20), bytes.Repeat([]byte{0xff, 0xff, 0xff, 0xff, 0x07}, 40)...))
	}
	return framed(head, append(make([]byte, n%20), bytes.Repeat([]byte{0x7f, 0xff, 0xff, 0xff}, 40)...))
}

func framed(head, body []byte) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), head[4:8]...), body...)
}
