package measurement

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestStepsAreBounded checks that a text with more braces than a step may have is not remembered, even if it turns out to be
// invalid.
func TestStepsAreBounded(t *testing.T) {
	var objects strings.Builder
	for i := range maxPlaces / 2 {
		fmt.Fprintf(&objects, `"o%d":{},`, i)
	}
	p, ok := newFastPair(plainOptions)
	if !ok {
		t.Fatal("no decoders")
	}
	for _, end := range []string{`"x":2}`, `"":2}`, `"x":2`} {
		p.check(t, recordOf(`{"time":1700000000,"meta":"a",`+objects.String()+end))
		if n := roomForMoves(p.fast.quick.top); n > 2*maxMoves {
			t.Errorf("a step has room for %d moves", n)
		}
	}
	if p.fast.quick.places < maxPlaces/2 {
		t.Errorf("only %d places were met", p.fast.quick.places)
	}
}

// roomForMoves returns the largest capacity of the steps at a place and below it.
func roomForMoves(p *place) int {
	n := max(cap(p.first.moves), cap(p.next.moves))
	for _, child := range p.children {
		n = max(n, roomForMoves(child))
	}
	return n
}

// TestWalkerKeepsNoLargeMeta checks that a meta that is too large for a series is not sorted, and that no copy of it is kept.
func TestWalkerKeepsNoLargeMeta(t *testing.T) {
	o := plainOptions
	o.Format = BSON
	w := newTwoWays(t, o)
	for _, size := range []int{10, maxMetaBytes, 100 * maxMetaBytes} {
		value, err := bson.Marshal(bson.D{
			{Key: "time", Value: bson.DateTime(eventTime * 1000)},
			{Key: "meta", Value: bson.D{{Key: "b", Value: strings.Repeat("x", size)}, {Key: "a", Value: 1}}},
			{Key: "x", Value: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.decode(t, recordOf(string(value)))
		if kept := cap(w.walking.walker.arranged); kept > 2*maxMetaBytes {
			t.Errorf("%d bytes of a meta of %d are kept", kept, size)
		}
	}
	if w.taken != 1 {
		t.Errorf("%d events were taken, want 1", w.taken)
	}
}
