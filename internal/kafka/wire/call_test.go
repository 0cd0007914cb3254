package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
)

func TestExchangeRefusesAnswersThatAreNone(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(correlation []byte) []byte
		want   error
	}{
		"too large":         {func(c []byte) []byte { return append([]byte{0x7f, 0xff, 0xff, 0xff}, c...) }, ErrMalformed},
		"negative":          {func(c []byte) []byte { return append([]byte{0xff, 0xff, 0xff, 0xff}, c...) }, ErrMalformed},
		"to something else": {func(c []byte) []byte { return []byte{0, 0, 0, 4, c[0], c[1], c[2], c[3] ^ 1} }, ErrMalformed},
		"cut":               {func(c []byte) []byte { return append([]byte{0, 0, 1, 0}, c...) }, io.ErrUnexpectedEOF},
		"missing":           {func(c []byte) []byte { return nil }, io.ErrUnexpectedEOF},
	} {
		conn := &scriptedConn{answer: test.answer}
		if _, err := Exchange(conn, Call{API: protocol.Fetch}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadIntoGrowsWithWhatArrives checks that an announced size alone allocates nothing.
func TestReadIntoGrowsWithWhatArrives(t *testing.T) {
	buffer, err := readInto(bytes.NewReader(make([]byte, 100)), MaxResponseBytes, nil)
	if !errors.Is(err, io.ErrUnexpectedEOF) || cap(buffer) > 2*readStep {
		t.Errorf("%d bytes allocated, %v", cap(buffer), err)
	}
	want := bytes.Repeat([]byte("0123456789"), 1<<20)
	got, err := readInto(bytes.NewReader(want), len(want), nil)
	if !bytes.Equal(got, want) || err != nil {
		t.Error(len(got), err)
	}
}

// TestReadIntoLentMemory checks that readInto uses a lent buffer only if it is large enough.
func TestReadIntoLentMemory(t *testing.T) {
	for _, test := range []struct {
		size, lent int
		used       bool
	}{{10, 12, true}, {10, 10, true}, {10, 9, false}, {10, 0, false}} {
		lent := make([]byte, test.lent)
		got, err := readInto(bytes.NewReader([]byte("0123456789")), test.size, lent)
		if err != nil || string(got) != "0123456789" || (test.lent > 0 && &got[0] == &lent[0]) != test.used {
			t.Errorf("%+v: %q %v", test, got, err)
		}
	}
	if _, err := readInto(bytes.NewReader([]byte("012")), 10, make([]byte, 10)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// scriptedConn answers each request with a function.
type scriptedConn struct {
	answer func(correlation []byte) []byte
	rest   bytes.Reader
}

func (c *scriptedConn) Write(b []byte) (int, error) {
	if int(binary.BigEndian.Uint32(b)) != len(b)-4 {
		return 0, errors.New("the request's length is wrong")
	}
	c.rest.Reset(c.answer(bytes.Clone(b[8:12])))
	return len(b), nil
}

func (c *scriptedConn) Read(b []byte) (int, error) { return c.rest.Read(b) }
