package check

import (
	"encoding/binary"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
)

var topic = Topic{Name: "events", ID: [16]byte{1, 2, 3}, Partitions: 2}

// opened is the rounded time of the bucket in these tests: 2023-11-14 22:13 UTC.
const opened = 1_700_000_000_000 - 1_700_000_000_000%60_000

// sample returns readings of one series. One of them is late, and their fields differ.
func sample() []*events.Reading {
	meta := bson.D{{Key: "id", Value: int32(1)}, {Key: "at", Value: "x"}}
	return []*events.Reading{
		{Time: opened + 20_000, Meta: meta, Fields: bson.D{{Key: "v", Value: 2.5}, {Key: "o", Value: bson.D{{Key: "a", Value: int32(7)}}}}},
		{Time: opened + 5_000, Meta: meta, Fields: bson.D{{Key: "v", Value: int32(2)}, {Key: "n", Value: nil}}},
		{Time: opened + 59_000, Meta: meta, Fields: bson.D{{Key: "v", Value: 2.0}, {Key: "o", Value: bson.D{{Key: "b", Value: "z"}}}}},
	}
}

// sampleBucket returns the bucket of the sample at the offsets 10, 12 and 11. It is written by hand.
func sampleBucket(t *testing.T) bson.D {
	t.Helper()
	var id bson.ObjectID
	binary.BigEndian.PutUint32(id[:], opened/1000)
	date := func(ms int64) bson.DateTime { return bson.DateTime(opened + ms) }
	o := func(a, b any) bson.D { return bson.D{{Key: "a", Value: a}, {Key: "b", Value: b}} }
	return bson.D{
		{Key: "_id", Value: id},
		{Key: "control", Value: bson.D{
			{Key: "version", Value: int32(1)},
			{Key: "min", Value: bson.D{{Key: "time", Value: date(0)}, {Key: "v", Value: int32(2)}, {Key: "o", Value: o(int32(7), "z")}, {Key: "n", Value: nil}}},
			{Key: "max", Value: bson.D{{Key: "time", Value: date(59_000)}, {Key: "v", Value: 2.5}, {Key: "o", Value: o(int32(7), "z")}, {Key: "n", Value: nil}}},
			{Key: "count", Value: int32(3)},
			{Key: "size", Value: int32(300)},
			{Key: "source", Value: bson.D{
				{Key: "topic", Value: "events"},
				{Key: "topicId", Value: bson.Binary{Subtype: 4, Data: topic.ID[:]}},
				{Key: "partition", Value: int32(1)},
				{Key: "first", Value: int64(10)},
				{Key: "last", Value: int64(12)},
				// There are two writes: offset 10 with part 3, then 12 and 11. zigzag(10) = 20, shifted 40, with a part 41.
				{Key: "offsets", Value: bson.A{bson.Binary{Data: []byte{41, 3}}, bson.Binary{Data: []byte{48, 2}}}},
			}},
		}},
		{Key: "meta", Value: bson.D{{Key: "at", Value: "x"}, {Key: "id", Value: int32(1)}}},
		{Key: "data", Value: bson.D{
			{Key: "time", Value: bson.D{{Key: "0", Value: date(20_000)}, {Key: "1", Value: date(5_000)}, {Key: "2", Value: date(59_000)}}},
			{Key: "o", Value: bson.D{{Key: "0", Value: bson.D{{Key: "a", Value: int32(7)}}}, {Key: "2", Value: bson.D{{Key: "b", Value: "z"}}}}},
			{Key: "v", Value: bson.D{{Key: "0", Value: 2.5}, {Key: "1", Value: int32(2)}, {Key: "2", Value: 2.0}}},
			{Key: "n", Value: bson.D{{Key: "1", Value: nil}}},
		}},
	}
}

// judge checks documents as buckets of the sample.
func judge(t *testing.T, documents ...bson.D) *Report {
	t.Helper()
	j := &judgement{topic: topic, report: &Report{}, readings: map[Place]*events.Reading{}, buckets: map[Place]int{}}
	for i, p := range []Position{{10, 3}, {12, 0}, {11, 0}} {
		j.readings[Place{1, p}] = sample()[i]
	}
	for _, d := range documents {
		raw, err := bson.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := decodeBucket(raw); err != nil {
			j.report.fault("bucket: %v", err)
		} else {
			j.judgeBucket(b, true)
		}
	}
	j.countStored()
	return j.report
}

// TestAcceptsWhatIsRight checks that the bucket written by hand has no fault.
func TestAcceptsWhatIsRight(t *testing.T) {
	report := judge(t, sampleBucket(t))
	if err := report.Err(); err != nil || report.Stored != 3 {
		t.Errorf("stored %d: %v", report.Stored, err)
	}
}

// TestNoticesWhatIsWrong makes one change at a time in a correct bucket. Each change must be reported by its name.
func TestNoticesWhatIsWrong(t *testing.T) {
	for path, change := range map[string]struct {
		value any // nil removes the field
		fault string
	}{
		"_id":                       {bson.ObjectID{1}, "_id has time"},
		"control.version":           {int32(2), "control.version"},
		"control.min.time":          {bson.DateTime(opened + 5_000), "control.min"},
		"control.min.v":             {2.0, "control.min"}, // an equal value that came later
		"control.max.o.b":           {"a", "control.max"},
		"control.max.v":             {nil, "control.max"},
		"control.count":             {int32(4), "control.count"},
		"control.size":              {int32(0), "control.size"},
		"control.source.topicId":    {bson.Binary{Subtype: 4, Data: make([]byte, 16)}, "control.source"},
		"control.source.partition":  {int32(0), "must not be stored"},
		"control.source.first":      {int64(9), "control.source.first"},
		"control.source.last":       {int64(11), "control.source.first"},
		"control.source.offsets":    {bson.A{bson.Binary{Data: []byte{40}}, bson.Binary{Data: []byte{48, 2}}}, "must not be stored"},
		"control.source.offsets.":   {bson.A{bson.Binary{Data: []byte{0x80}}}, "offsets"},
		"meta":                      {bson.D{{Key: "id", Value: int32(1)}, {Key: "at", Value: "x"}}, "is of series"}, // not sorted
		"data.v.1":                  {2.0, "v is"},
		"data.v.2":                  {nil, "v is"},
		"data.o.1":                  {int32(1), "index"},
		"data.time.2":               {bson.DateTime(opened), "time is"},
		"data.w":                    {bson.D{{Key: "0", Value: true}}, "fields"},
		"data.o":                    {nil, "o is"},
		"data.n":                    {nil, "n is"},
		"data.n.1":                  {false, "n is"},
		"control.source.topic":      {"others", "control.source"},
		"control.source.offsets..":  {bson.A{bson.Binary{Data: []byte{41, 3}}}, "control.count"},
		"control.source.offsets...": {bson.A{bson.Binary{Data: []byte{41, 3}}, bson.Binary{Data: []byte{44, 4}}}, "time is"}, // 11, 12: another order
	} {
		bucket := set(sampleBucket(t), strings.Split(strings.TrimRight(path, "."), "."), change.value)
		err := judge(t, bucket).Err()
		if err == nil || !strings.Contains(err.Error(), change.fault) {
			t.Errorf("%s = %v: noticed %v, want %q", path, change.value, err, change.fault)
		}
	}
}

// TestCountsMissingAndDoubled checks a missing bucket and a bucket that is there twice.
func TestCountsMissingAndDoubled(t *testing.T) {
	if report := judge(t); report.Missing != 3 || report.Err() == nil {
		t.Errorf("without a bucket: %v", report)
	}
	again := set(sampleBucket(t), []string{"_id"}, bson.NewObjectIDFromTimestamp(bson.DateTime(opened).Time()))
	if report := judge(t, sampleBucket(t), again); report.Doubled != 3 || report.Missing != 0 || report.Err() == nil {
		t.Errorf("with two buckets: %v", report)
	}
}

// set returns the document with the value at a path set, added at the end, or removed.
func set(d bson.D, path []string, value any) bson.D {
	for i := range d {
		if d[i].Key != path[0] {
			continue
		}
		switch {
		case len(path) > 1:
			d[i].Value = set(d[i].Value.(bson.D), path[1:], value)
		case value == nil:
			return append(d[:i:i], d[i+1:]...)
		default:
			d[i].Value = value
		}
		return d
	}
	return append(d, bson.E{Key: path[0], Value: value})
}

// TestNoticesBrokenDocuments checks faults that hinder the decoding.
func TestNoticesBrokenDocuments(t *testing.T) {
	doubled := sampleBucket(t)
	data := doubled[3].Value.(bson.D)
	doubled[3].Value = append(data, bson.E{Key: "n", Value: bson.D{{Key: "2", Value: nil}}})
	for fault, document := range map[string]bson.D{
		"data.n is there twice": doubled,
		"decoding a bucket":     set(sampleBucket(t), []string{"control"}, "x"),
		"index \"0\"":           set(sampleBucket(t), []string{"control", "count"}, int32(-1)),
	} {
		raw, err := bson.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		j := &judgement{topic: topic, report: &Report{}}
		j.take(raw, true)
		if err := j.report.Err(); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("noticed %v, want %q", err, fault)
		}
	}
}
