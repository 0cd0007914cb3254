package keeper

import (
	"bytes"
	"cmp"
	"hash/fnv"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// touched is a set of hours of series, with the number of measurements that were stored in each since the last pass.
type touched struct {
	series map[string]map[int64]int64 // by key of the series and start of the hour
	hours  int
	most   int // hours that may be held. Zero means no limit.
	// The series are divided into parts by hash. Only the series of one part are held.
	part, parts uint64
}

func newTouched(most int, part, parts uint64) *touched {
	return &touched{series: map[string]map[int64]int64{}, most: most, part: part, parts: parts}
}

// add adds one measurement. False means that there are more hours than may be held. A single series is always held.
func (t *touched) add(meta bson.RawValue, hour int64) bool {
	key := keyOf(meta)
	if t.parts > 1 && hashOf(key)%t.parts != t.part {
		return true
	}
	hours := t.series[key]
	if hours == nil {
		hours = map[int64]int64{}
		t.series[key] = hours
	}
	if hours[hour] == 0 {
		t.hours++
	}
	hours[hour]++
	return t.most == 0 || t.hours <= t.most || len(t.series) == 1
}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// keyOf returns the identity of a series as text. Metas that are only equal in MongoDB's order are two series.
func keyOf(meta bson.RawValue) string { return string(byte(meta.Type)) + string(meta.Value) }

// metaOf returns the meta of a key.
func metaOf(key string) bson.RawValue {
	return bson.RawValue{Type: bson.Type(key[0]), Value: []byte(key[1:])}
}

// run is a span of time [from, to) of whole hours, and the series to compute there.
type run struct {
	from, to int64
	keys     []string
}

// longestRun bounds the hours of one run.
const longestRun = 24 * hourMs

// runs returns the touched hours as runs of consecutive hours of one day. Series that were touched in the same hours share a run,
// in the order of their keys.
func (t *touched) runs() []run {
	type span struct{ from, to int64 }
	bySpan := map[span][]string{}
	for _, key := range slices.Sorted(maps.Keys(t.series)) {
		hours := slices.Sorted(maps.Keys(t.series[key]))
		for i := 0; i < len(hours); {
			from, to := hours[i], hours[i]+hourMs
			day := floorTo(from, longestRun)
			for i++; i < len(hours) && hours[i] == to && hours[i] < day+longestRun; i++ {
				to += hourMs
			}
			bySpan[span{from, to}] = append(bySpan[span{from, to}], key)
		}
	}
	var all []run
	for s, keys := range bySpan {
		all = append(all, run{s.from, s.to, keys})
	}
	slices.SortFunc(all, func(a, b run) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return all
}

// late returns how many measurements were stored for an hour of a series since the last pass.
func (t *touched) late(key string, hour int64) int64 {
	if t == nil {
		return 0
	}
	return t.series[key][hour]
}

const hourMs = int64(60 * 60 * 1000)

// floorTo returns the largest multiple of a unit that is not above v.
func floorTo(v, unit int64) int64 {
	rest := v % unit
	if rest < 0 {
		rest += unit
	}
	return v - rest
}

// scan adds the measurements of a stored document that have positions in [from, to). False means that there are more hours than
// may be held.
func (t *touched) scan(u *timeseries.Unpacker, document bson.Raw, from, to int64) (bool, error) {
	if err := u.Reset(document); err != nil {
		return true, err
	}
	var m timeseries.Unpacked
	for u.Next(&m) {
		if m.Position.Offset < from || m.Position.Offset >= to {
			continue
		}
		if !t.add(m.Meta, floorTo(m.Time, hourMs)) {
			return false, nil
		}
	}
	return true, u.Err()
}

func sameMeta(a, b bson.RawValue) bool { return a.Type == b.Type && bytes.Equal(a.Value, b.Value) }
