package sink_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
)

// TestBulkCallsOfSmallAndLargeWritesAreAnsweredAlike checks both kinds. This package encodes small ones, and the driver large
// ones.
func TestBulkCallsOfSmallAndLargeWritesAreAnsweredAlike(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	course := func(base int64, padding string) (all [][]string) {
		write := func(n int64) *bucketer.Write { return insertOf(fmt.Sprint(padding, n), run(base+n*10, 2)...) }
		update := func(w *bucketer.Write, count int32) *bucketer.Write {
			u := *w
			u.Kind, u.Added, u.Count = bucketer.Update, 0, w.Count
			u.Filter = marshal(bson.D{{Key: "_id", Value: w.ID}, {Key: "control.count", Value: count}})
			u.Document = marshal(bson.D{{Key: "$set", Value: bson.D{{Key: "control.closed", Value: true}, {Key: "padding", Value: padding}}}})
			return &u
		}
		send := func(writes ...*bucketer.Write) {
			var line []string
			for _, sent := range p.Send(t.Context(), writes) {
				why := fmt.Sprint(sent.Err)
				if sent.Code != 0 {
					why = "" // the message names the bucket
				}
				line = append(line, fmt.Sprint(sent.Result, " ", sent.Code, " ", why))
			}
			all = append(all, line)
		}
		a, b, c := write(1), write(2), write(3)
		send(a, b)
		send(a, c, b) // two of them exist already
		send(update(a, 2), update(b, 2))
		send(update(a, 2), update(c, 7)) // one does not match its bucket
		return all
	}
	small := course(0, "s")
	large := course(1000, strings.Repeat("l", 6000))
	if diff := cmp.Diff(large, small); diff != "" {
		t.Error(diff)
	}
	if first := "applied 0 <nil>"; small[0][0] != first || small[2][1] != first || small[1][0] != "unknown 11000 " || small[1][0] != small[1][2] {
		t.Errorf("answered were %q", small)
	}
}

// processorNanos returns the processor time of this process.
func processorNanos(b *testing.B) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
