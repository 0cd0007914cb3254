package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/protocol"
)

// canned is the network connection below a Conn. It accepts any request and returns a fixed answer.
type canned struct {
	net.Conn
	answer io.Reader
}

func (c *canned) Write(b []byte) (int, error) { return len(b), nil }

func (c *canned) Read(b []byte) (int, error) { return c.answer.Read(b) }

// receive lets kafka-go decode an answer that it reads from a Conn.
func receive(api protocol.ApiKey, version int16, frame []byte) (protocol.Message, error) {
	c := &Conn{Conn: &canned{answer: bytes.NewReader(frame)}}
	if _, err := c.Write(Call{API: api, Version: version}.encode(1)); err != nil {
		return nil, err
	}
	_, message, err := protocol.ReadResponse(c, api, version)
	return message, err
}

// fill sets all fields of a message to values other than zero. Each array gets two elements.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.String:
		v.SetString("text")
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	}
}

// eachAnswer calls f with a framed answer of each kind and version that kafka-go decodes.
func eachAnswer(t testing.TB, f func(api protocol.ApiKey, version int16, frame []byte)) {
	t.Helper()
	count := 0
	for api, empty := range decoded {
		for version := range int16(20) {
			if _, known := versionOf(reflect.TypeOf(empty), version); !known {
				continue
			}
			message := reflect.New(reflect.TypeOf(empty))
			fill(message.Elem())
			var frame bytes.Buffer
			if err := protocol.WriteResponse(&frame, version, 1, message.Interface().(protocol.Message)); err != nil {
				t.Fatal(err)
			}
			count++
			f(api, version, frame.Bytes())
		}
	}
	if count < 2*len(decoded) {
		t.Fatalf("only %d kinds and versions of answers", count)
	}
}

func TestConnHandsGoodAnswersOn(t *testing.T) {
	eachAnswer(t, func(api protocol.ApiKey, version int16, frame []byte) {
		_, want, err := protocol.ReadResponse(bytes.NewReader(frame), api, version)
		if err != nil {
			t.Fatal(err)
		}
		got, err := receive(api, version, frame)
		if err != nil {
			t.Errorf("%v v%d: %v", api, version, err)
		} else if diff := cmp.Diff(want, got, exportAll); diff != "" {
			t.Errorf("%v v%d: %s", api, version, diff)
		}
		if s := shapeOf(api, version); s.check(frame[answerHead:len(frame)-1]) == nil {
			t.Errorf("%v v%d: an answer without its last byte is taken", api, version)
		}
	})
}

var exportAll = cmp.Exporter(func(reflect.Type) bool { return true })

// TestConnRefusesAnswersThatAnnounceMoreThanCame checks this because kafka-go allocates what an answer announces, and panics over
// negative lengths.
func TestConnRefusesAnswersThatAnnounceMoreThanCame(t *testing.T) {
	bombs := [][]byte{
		{0x7f, 0xff, 0xff, 0xff},
		{0x7f, 0xff},
		{0xff, 0xff, 0xff, 0xff, 0x07},
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		{0x80, 0, 0, 0},
		{0xff, 0xff, 0xff, 0xfe},
		{0, 0xff, 0xff, 0xff},
	}
	most := uint64(0)
	eachAnswer(t, func(api protocol.ApiKey, version int16, frame []byte) {
		for at := range frame {
			var tried [][]byte
			taken := allocated(func() { // reading the memory statistics stops the world, so it happens once per place
				for _, bomb := range bombs {
					if at+len(bomb) > len(frame) {
						continue
					}
					hostile := bytes.Clone(frame)
					copy(hostile[at:], bomb)
					_, _ = receive(api, version, hostile)
					tried = append(tried, bomb)
				}
			})
			// With the race detector, slices.Grow also allocates the zeros that it appends.
			if taken > uint64(len(tried))*(2*readStep+1<<20) {
				t.Fatalf("%v v%d with one of %x at byte %d takes %d bytes", api, version, tried, at, taken)
			}
			most = max(most, taken)
		}
	})
	t.Logf("most: %d bytes", most)
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestConnBoundsWhatDecodingTakes checks this because six bytes on the wire may take six bytes in memory, or fifty.
func TestConnBoundsWhatDecodingTakes(t *testing.T) {
	const elements = maxAnswerBytes / 12
	for _, c := range []struct {
		api      protocol.ApiKey
		version  int16
		before   int // bytes in front of the array
		refusing error
	}{
		{protocol.ApiVersions, 0, 2, nil},         // the code
		{protocol.JoinGroup, 2, 16, ErrMalformed}, // throttle time, code, generation, three names
	} {
		body := binary.BigEndian.AppendUint32(make([]byte, c.before), elements)
		body = append(body, make([]byte, 6*elements)...)
		if err := shapeOf(c.api, c.version).check(body); !errors.Is(err, c.refusing) {
			t.Errorf("%d elements in an answer to %v: %v", elements, c.api, err)
		}
	}
}

func TestConnKeepsRequestsAndAnswersApart(t *testing.T) {
	var own bytes.Buffer // the answer to our request, followed by bytes without a request
	own.Write(framed([]byte{0, 0, 0, 0, 0, 0}))
	length := own.Len()
	own.Write(bytes.Repeat([]byte{0x7f}, 64))
	c := &Conn{Conn: &canned{answer: &own}}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errOutOfStep) {
		t.Errorf("reading before asking: %v", err)
	}
	request := Call{API: protocol.Heartbeat, Version: Version(protocol.Heartbeat)}.encode(1)
	for _, piece := range [][]byte{request[:requestHead], request[requestHead:]} {
		if _, err := c.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Write(request); !errors.Is(err, errOutOfStep) {
		t.Errorf("asking twice: %v", err)
	}
	if got, err := io.ReadAll(c); len(got) != length || !errors.Is(err, errOutOfStep) {
		t.Errorf("%d bytes of an answer of %d: %v", len(got), length, err)
	}
}

// TestConnKnowsItsRequests checks that a request is not sent if no bound for its answer is known.
func TestConnKnowsItsRequests(t *testing.T) {
	c := &Conn{Conn: &canned{}}
	if _, err := c.Write(Call{API: protocol.DescribeAcls, Version: 1}.encode(1)); err == nil {
		t.Error("an unknown request was sent")
	}
}

func FuzzConn(f *testing.F) {
	eachAnswer(f, func(api protocol.ApiKey, version int16, frame []byte) { f.Add(int16(api), version, frame[answerHead:]) })
	f.Fuzz(func(t *testing.T, api, version int16, body []byte) {
		if shapeOf(protocol.ApiKey(api), version) == nil || len(body) > 1<<16 {
			t.Skip()
		}
		var frame bytes.Buffer
		frame.Write(framed(body))
		if taken := allocated(func() { _, _ = receive(protocol.ApiKey(api), version, frame.Bytes()) }); taken > 8<<20 {
			t.Error(fmt.Errorf("%d bytes take %d", len(body), taken))
		}
	})
}

// framed returns an answer to request 1 with its head.
func framed(body []byte) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	return append(binary.BigEndian.AppendUint32(frame, 1), body...)
}

func TestFramesAreBounded(t *testing.T) {
	for _, size := range []uint32{0, 3, maxAnswerBytes + 5, 1 << 31, 1<<32 - 1} {
		client, broker := net.Pipe()
		go func() {
			defer broker.Close()
			if _, err := broker.Read(make([]byte, 1024)); err == nil {
				_, _ = broker.Write(binary.BigEndian.AppendUint64(nil, uint64(size)<<32|1))
			}
		}()
		c := &Conn{Conn: client}
		if _, err := c.Write(Call{API: protocol.ApiVersions}.encode(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); !errors.Is(err, ErrMalformed) {
			t.Errorf("an answer of %d bytes: %v", size, err)
		}
		client.Close()
	}
}

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
