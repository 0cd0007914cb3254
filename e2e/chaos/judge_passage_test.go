package chaos

import (
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness/proxy"
)

// TestExplainsADoubling checks that a doubling is explained when one of the two writes with offset 2 took longer than the grace.
func TestExplainsADoubling(t *testing.T) {
	one, other := bson.NewObjectID(), bson.NewObjectID()
	offset2, offset4 := []byte{2 << 2}, []byte{4 << 2}
	writes := func(bucket bson.ObjectID, offsets []byte, took time.Duration) passage {
		return passage{took: took, answered: true, Write: proxy.Write{
			Kind: "insert", Began: time.Now(), Statements: []proxy.Statement{{Bucket: bucket, Offsets: [][]byte{offsets}}},
		}}
	}
	byBucket := map[bson.ObjectID][]passage{
		one:   {writes(one, offset2, time.Second), writes(one, offset4, time.Minute)},
		other: {writes(other, offset2, 11*time.Second)},
	}
	d := doubledSpot{spot: spot{0, check.Position{Offset: 2}}, buckets: []bson.ObjectID{one, other}}
	lines, late := d.explain(byBucket, 10*time.Second)
	if !late || len(lines) != 2 || !strings.Contains(lines[1], "11.00s") {
		t.Errorf("%v, %q", late, lines)
	}
	if _, late := d.explain(byBucket, 12*time.Second); late {
		t.Error("no write of that offset took so long")
	}
}
