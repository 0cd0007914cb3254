package timeseries

import (
	"strings"
	"testing"
)

func TestBucketFilter(t *testing.T) {
	const at, before = `{"$date": "2026-01-02T03:00:00Z"}`, `{"$date": "2026-01-02T02:00:00Z"}`
	for filter, want := range map[string]string{
		`{}`:                                   `{}`,
		`{"x": 5, "$or": [{"m": 1}]}`:          `{}`,
		`{"m.a": 1, "m": {"$gt": 2}}`:          `{"$and": [{"meta.a": 1}, {"meta": {"$gt": 2}}]}`,
		`{"$and": [{"m.a": 1}, {"m.a": 2}]}`:   `{"$and": [{"meta.a": 1}, {"meta.a": 2}]}`,
		`{"t": {"$lt": ` + at + `}}`:           `{"$and": [{"control.min.t": {"$lt": ` + at + `}}]}`,
		`{"t": {"$gte": ` + at + `}}`:          `{"$and": [{"control.max.t": {"$gte": ` + at + `}}, {"control.min.t": {"$gt": ` + before + `}}]}`,
		`{"t": ` + at + `}`:                    `{"$and": [{"control.max.t": {"$gte": ` + at + `}}, {"control.min.t": {"$gt": ` + before + `}}, {"control.min.t": {"$lte": ` + at + `}}]}`,
		`{"t": {"$eq": ` + at + `}}`:           `{"$and": [{"control.max.t": {"$gte": ` + at + `}}, {"control.min.t": {"$gt": ` + before + `}}, {"control.min.t": {"$lte": ` + at + `}}]}`,
		`{"t": {"$gt": 5, "$exists": true}}`:   `{}`,
		`{"t": "yesterday"}`:                   `{}`,
		`{"t.x": 1, "mm": 2, "$comment": "c"}`: `{}`,
		`{"t": {"$gt": {"$date": {"$numberLong": "-9223372036854775808"}}}}`: `{"$and": [{"control.max.t": {"$gt": {"$date": {"$numberLong": "-9223372036854775808"}}}}]}`,
	} {
		got, err := indexed.BucketFilter(ext(t, filter))
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		sameDocument(t, filter, got, objectValue(ext(t, want)))
	}
	for _, filter := range []string{`{"$and": 1}`, strings.Repeat(`{"$and": [`, 102) + strings.Repeat(`]}`, 102)} {
		if got, err := indexed.BucketFilter(ext(t, filter)); codeOf(t, err) != "BadValue" {
			t.Errorf("%.20s: %v, %v", filter, got, err)
		}
	}
}
