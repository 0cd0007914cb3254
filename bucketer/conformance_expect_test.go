package bucketer

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func (r *insertRun) checkBuckets(expect bson.D) {
	for _, e := range expect {
		switch e.Key {
		case "buckets":
			buckets := e.Value.(bson.A)
			if len(r.store.order) != len(buckets) {
				r.t.Fatalf("there are %d buckets, want %d", len(r.store.order), len(buckets))
			}
			for i, want := range buckets {
				r.checkBucket(i, r.store.order[i], want.(bson.D))
			}
		case "stats":
			r.checkStats(e.Value.(bson.D))
		case "data":
			r.checkColumns(e.Value.(bson.D))
		case "idTimestampEqualsMinTime":
			r.checkIDs()
		case "notes":
		default:
			r.t.Fatalf("unknown expectation %s", e.Key)
		}
	}
}

func (r *insertRun) checkBucket(i int, id bson.ObjectID, want bson.D) {
	d := r.store.byID[id]
	ignored, _ := at(want, "ignore").(bson.A)
	// Without "exact" the named bounds are all bounds, except for the time if a case omits it.
	for _, e := range want {
		switch e.Key {
		case "count":
			if got := at(d, "control.count"); got == nil {
				r.t.Logf("bucket %d is not of ours, its count is not compared", i)
			} else if toInt(r.t, got) != toInt(r.t, e.Value) {
				r.t.Errorf("bucket %d: count is %v, want %v", i, got, e.Value)
			}
		case "state":
			if got := r.state(id); got != e.Value {
				r.t.Errorf("bucket %d: state is %s (%s), want %v", i, got, r.why[id], e.Value)
			}
		case "why":
			if got := r.why[id]; got != e.Value {
				r.t.Errorf("bucket %d: it ended by %q, want %v", i, got, e.Value)
			}
		case "min", "max":
			r.checkBound(i, e.Key, at(d, "control."+e.Key).(bson.D), e.Value.(bson.D), ignored)
		case "meta":
			if !equal(r.t, at(d, "meta"), e.Value) {
				r.t.Errorf("bucket %d: meta is %s, want %s", i, text(at(d, "meta")), text(e.Value))
			}
		case "metaMissing":
			if slices.ContainsFunc(d, func(e bson.E) bool { return e.Key == "meta" }) {
				r.t.Errorf("bucket %d has a meta", i)
			}
		case "ignore", "exact", "notes":
		default:
			r.t.Fatalf("unknown expectation %s of a bucket", e.Key)
		}
	}
	r.checkClosed(i, id)
}

// checkBound compares control.min or control.max field by field, with types, in any order.
func (r *insertRun) checkBound(i int, name string, got, want bson.D, ignored bson.A) {
	time := r.options.Collection.TimeField
	without := func(d bson.D) bson.D {
		return slices.DeleteFunc(slices.Clone(d), func(e bson.E) bool {
			return slices.Contains(ignored, any(e.Key)) || e.Key == time && at(want, time) == nil
		})
	}
	if g, w := sorted(without(got)), sorted(without(want)); !equal(r.t, g, w) {
		r.t.Errorf("bucket %d: %s is %s, want %s", i, name, text(g), text(w))
	}
}

// state returns the state of a bucket, in the words of the cases.
func (r *insertRun) state(id bson.ObjectID) string {
	b := r.seen[id]
	switch {
	case b == nil && at(r.store.byID[id], "control.closed") == true:
		return "ineligible"
	case b == nil:
		return "stored"
	case b.action == stay:
		return "open"
	case b.action == hardClose:
		return "closed"
	case b.action == archive && r.isArchived(id):
		return "archived"
	default:
		return "soft"
	}
}

func (r *insertRun) isArchived(id bson.ObjectID) bool {
	_, ok := r.catalog.archive.places[id]
	return ok
}

// checkClosed checks that control.closed is set by hard closes and in full buckets, and in no others.
func (r *insertRun) checkClosed(i int, id bson.ObjectID) {
	b, d := r.seen[id], r.store.byID[id]
	if b == nil {
		return
	}
	want := b.action == hardClose || at(d, "control.count").(int32) >= r.options.Limits.MaxCount
	if got := at(d, "control.closed") == true; got != want {
		r.t.Errorf("bucket %d: control.closed is %v, want %v", i, got, want)
	}
}

func (r *insertRun) checkStats(want bson.D) {
	got := statistics(r.catalog.Stats())
	got["numBucketQueriesFailed"] -= r.unindexedQueries // MongoDB would have made no query
	for _, e := range want {
		n, ok := got[e.Key]
		if !ok {
			r.t.Errorf("there is no statistic %s", e.Key)
		} else if n != int64(toInt(r.t, e.Value)) {
			r.t.Errorf("%s is %d, want %v", e.Key, n, e.Value)
		}
	}
}

// checkColumns compares the indexes in the columns of the only bucket.
func (r *insertRun) checkColumns(want bson.D) {
	for _, column := range want {
		var indexes []string
		for _, e := range at(r.store.byID[r.store.order[0]], "data."+column.Key).(bson.D) {
			indexes = append(indexes, e.Key)
		}
		var wanted []string
		for _, index := range column.Value.(bson.A) {
			wanted = append(wanted, index.(string))
		}
		if !slices.Equal(indexes, wanted) {
			r.t.Errorf("column %s has %s, want %s", column.Key, strings.Join(indexes, " "), strings.Join(wanted, " "))
		}
	}
}

func (r *insertRun) checkIDs() {
	for _, id := range r.store.order {
		minTime := int64(at(r.store.byID[id], "control.min."+r.options.Collection.TimeField).(bson.DateTime))
		seconds := binary.BigEndian.AppendUint32(nil, uint32(minTime/1000))
		if !bytes.Equal(id[:4], seconds) {
			r.t.Errorf("the time of _id %s is not that of %d", id.Hex(), minTime)
		}
	}
}
