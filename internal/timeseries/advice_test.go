package timeseries

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// seriesIndex is the index that every time series has.
const seriesIndex = `{"name": "series", "key": {"meta": 1, "control.min.t": 1}}`

func TestAdvise(t *testing.T) {
	const bySensor = `{"name": "sensor", "key": {"meta.sensor": 1, "control.min.t": 1, "control.max.t": 1}}`
	for name, c := range map[string]struct {
		filter  string
		indexes []string
		want    string
	}{
		"a whole meta and a time": {`{"m": {"a": 1}, "t": {"$gte": 5}}`, nil, `series narrows [m t]`},
		"a part of the meta":      {`{"m.sensor": "s"}`, nil, ` misses [m.sensor] wants {"m.sensor":1,"t":-1}`},
		"a part and a time": {
			`{"m.sensor": "s", "t": {"$gte": 5, "$lt": 6}}`, nil, `_id_ narrows [t] misses [m.sensor] wants {"m.sensor":1,"t":-1}`,
		},
		"an index for it":   {`{"m.sensor": "s", "t": {"$gte": 5}}`, []string{bySensor}, `sensor narrows [m.sensor t]`},
		"without the time":  {`{"m.sensor": {"$in": ["a", "b"]}}`, []string{bySensor}, `sensor narrows [m.sensor]`},
		"one part too many": {`{"m.site": 1, "m.sensor": 2}`, []string{bySensor}, `sensor narrows [m.sensor] misses [m.site] wants {"m.site":1,"m.sensor":1,"t":-1}`},
		"equality before bounds": {
			`{"m.n": {"$gt": 1}, "t": {"$gte": 5}, "m.sensor": 2}`, nil,
			`_id_ narrows [t] misses [m.n m.sensor] wants {"m.sensor":1,"m.n":1,"t":-1}`,
		},
		"the time alone":     {`{"t": {"$gte": 5}}`, nil, `_id_ narrows [t]`},
		"nothing":            {`{}`, nil, ``},
		"within $and":        {`{"$and": [{"m.sensor": "s"}, {"t": 5}]}`, []string{bySensor}, `sensor narrows [m.sensor t]`},
		"within $or":         {`{"$or": [{"m.sensor": "s"}]}`, []string{bySensor}, ` wide [$or]`},
		"inequality":         {`{"m.sensor": {"$ne": "s"}}`, []string{bySensor}, ` wide [m.sensor $ne]`},
		"another field":      {`{"x": {"$gt": 5}}`, nil, ` fields [x]`},
		"a field's index":    {`{"x": {"$gt": 5}}`, []string{`{"name": "x", "key": {"control.min.x": 1, "control.max.x": 1}}`}, `x narrows [x]`},
		"a hidden index":     {`{"m.sensor": "s"}`, []string{`{"name": "h", "hidden": true, "key": {"meta.sensor": 1}}`}, ` misses [m.sensor] wants {"m.sensor":1,"t":-1}`},
		"a partial index":    {`{"m.sensor": "s"}`, []string{`{"name": "p", "partialFilterExpression": {"meta.site": "x"}, "key": {"meta.sensor": 1}}`}, ` misses [m.sensor] wants {"m.sensor":1,"t":-1}`},
		"and what it is for": {`{"m.sensor": "s", "m.site": "x"}`, []string{`{"name": "p", "partialFilterExpression": {"meta.site": "x"}, "key": {"meta.sensor": 1}}`}, `p narrows [m.sensor] misses [m.site] wants {"m.sensor":1,"m.site":1,"t":-1}`},
		"hashed":             {`{"m.sensor": "s"}`, []string{`{"key": {"meta.sensor": "hashed"}}`}, `meta.sensor_hashed narrows [m.sensor]`},
		"hashed, bounds":     {`{"m.sensor": {"$gt": "s"}}`, []string{`{"key": {"meta.sensor": "hashed"}}`}, ` misses [m.sensor] wants {"m.sensor":1,"t":-1}`},
		"wildcard":           {`{"m.sensor": "s"}`, []string{`{"key": {"meta.$**": 1}}`}, `meta.$**_1 narrows [m.sensor]`},
		"the source index":   {`{"m.sensor": "s"}`, []string{`{"key": {"control.source.topicId": 1}}`}, ` misses [m.sensor] wants {"m.sensor":1,"t":-1}`},
	} {
		t.Run(name, func(t *testing.T) {
			indexes := []Index{indexOf(t, ext(t, `{"name": "_id_", "key": {"_id": 1}}`)), indexOf(t, ext(t, seriesIndex))}
			for _, text := range c.indexes {
				indexes = append(indexes, indexOf(t, ext(t, text)))
			}
			a, err := indexed.Advise(ext(t, c.filter), indexes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, describe(t, a)); diff != "" {
				t.Error(diff)
			}
		})
	}
	a, err := indexed.Advise(ext(t, `{"t": 5}`), []Index{indexOf(t, ext(t, seriesIndex))})
	if got := describe(t, a); err != nil || got != ` misses [t] wants {"t":-1}` {
		t.Errorf("a time, without _id: %s, %v", got, err)
	}
	for _, filter := range []string{`{"$and": 1}`, `{"$and": [1]}`, strings.Repeat(`{"$and": [`, 102) + strings.Repeat(`]}`, 102)} {
		if a, err := indexed.Advise(ext(t, filter), nil); codeOf(t, err) != "BadValue" {
			t.Errorf("%.20s: %+v, %v", filter, a, err)
		}
	}
}

func describe(t *testing.T, a Advice) string {
	t.Helper()
	text := a.Index
	for _, part := range []struct {
		name  string
		paths []string
	}{{"narrows", a.Narrows}, {"misses", a.Misses}, {"fields", a.Fields}, {"wide", a.Wide}} {
		if len(part.paths) > 0 {
			text += fmt.Sprintf(" %s %v", part.name, part.paths)
		}
	}
	if a.Keys != nil {
		keys, err := bson.MarshalExtJSON(a.Keys, false, false)
		if err != nil {
			t.Fatal(err)
		}
		text += " wants " + string(keys)
	}
	return text
}

// TestAdvisedIndexIsEnough checks that no second index is advised for the same filter after the advised index is made.
func TestAdvisedIndexIsEnough(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	advised := 0
	for range 2000 {
		var parts []string
		for _, path := range []string{"m.a", "m.b", "m.c.d", "t", "x"} {
			if random.IntN(2) == 0 {
				parts = append(parts, fmt.Sprintf(`%q: %s`, path, []string{`1`, `{"$gt": 1}`, `{"$in": [1, 2]}`, `{"$ne": 1}`}[random.IntN(4)]))
			}
		}
		filter := ext(t, "{"+strings.Join(parts, ", ")+"}")
		a, err := indexed.Advise(filter, []Index{indexOf(t, ext(t, seriesIndex))})
		if err != nil {
			t.Fatal(err)
		}
		if a.Keys == nil {
			continue
		}
		advised++
		made, err := indexed.BucketIndex(Index{Keys: a.Keys})
		if err != nil {
			t.Fatal(err)
		}
		again, err := indexed.Advise(filter, []Index{made})
		if err != nil || again.Keys != nil || len(again.Misses) > 0 || len(again.Narrows) <= len(a.Narrows) {
			t.Errorf("%v: first %s, then %s (%v)", filter, describe(t, a), describe(t, again), err)
		}
	}
	if advised < 500 {
		t.Errorf("only %d filters were advised", advised)
	}
}
