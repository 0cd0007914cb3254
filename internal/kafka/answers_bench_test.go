package kafka

import (
	"bytes"
	"encoding/binary"
	"io"
	"syscall"
	"testing"

	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/wire"
)

// BenchmarkAnswer reads answers of 2 MiB from a connection that copies, into new memory and into lent memory.
func BenchmarkAnswer(b *testing.B) {
	const size = 2 << 20
	answers := newAnswerMemory(size)
	for name, lend := range map[string]func(int) []byte{"own": nil, "lent": answers.lend} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			connection := &repeating{body: make([]byte, size)}
			start := processorTime(b)
			for b.Loop() {
				answer, err := wire.Exchange(connection, wire.Call{API: protocol.Fetch, Memory: lend})
				if err != nil || len(answer) != size {
					b.Fatal(len(answer), err)
				}
				answers.takeBack(answer)
			}
			b.ReportMetric(float64(processorTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

func processorTime(b *testing.B) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// repeating answers each request with the same body.
type repeating struct {
	body         []byte
	head, answer bytes.Reader
}

func (r *repeating) Write(request []byte) (int, error) {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(r.body)+4))
	r.head.Reset(append(head, request[8:12]...))
	r.answer.Reset(r.body)
	return len(request), nil
}

func (r *repeating) Read(b []byte) (int, error) {
	if r.head.Len() > 0 {
		return r.head.Read(b)
	}
	if r.answer.Len() > 0 {
		return r.answer.Read(b)
	}
	return 0, io.EOF
}
