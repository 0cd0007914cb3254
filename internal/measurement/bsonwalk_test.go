package measurement

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries/rawbson"
)

// twoWays decodes each record with a walker and without.
type twoWays struct {
	walking, judge *Decoder
	taken, stored  int // numbers of events decoded by the walker, and by the judge
}

func newTwoWays(t testing.TB, o Options) *twoWays {
	w := &twoWays{walking: newDecoder(t, o), judge: newDecoder(t, o)}
	w.judge.walker = nil
	return w
}

// decode compares the complete results of the two for a record. The walker never rests.
func (w *twoWays) decode(t testing.TB, r record.Record) {
	t.Helper()
	w.walking.walker.rest = 0
	before := bytes.Clone(r.Value)
	got, gotErr := w.walking.Decode(r)
	want, wantErr := w.judge.Decode(r)
	if wantErr == nil && len(want) == 1 {
		w.stored++
		if w.walking.walker.lost == 0 {
			w.taken++
		}
	}
	if !bytes.Equal(r.Value, before) {
		t.Fatal("the record was changed")
	}
	if g, w := decodedText(got, gotErr), decodedText(want, wantErr); g != w {
		t.Fatalf("%s\n%x\ngot  %s\nwant %s", bson.Raw(r.Value), r.Value, g, w)
	}
}

// decodedText returns the complete result of a decoder as text.
func decodedText(results []Result, err error) string {
	var text strings.Builder
	if refused, ok := errors.AsType[*DecodeError](err); ok {
		fmt.Fprintf(&text, "%#v", *refused)
	} else if err != nil {
		fmt.Fprintf(&text, "%T", err)
	}
	for _, r := range results {
		m := r.Measurement
		fmt.Fprintf(&text, "%v %d meta %v %x elements %x %v;", m.Position, m.Time, m.Meta.Type, m.Meta.Value, m.Elements, r.Err)
	}
	return text.String()
}

// cutDocuments splits off consecutive documents. The last part may be anything.
func cutDocuments(list []byte) (documents [][]byte) {
	for len(list) > 0 && len(documents) < 16 {
		n := rawbson.DocumentSize(list)
		if n < 0 {
			n = len(list)
		}
		documents = append(documents, list[:n:n])
		list = list[n:]
	}
	return documents
}

// moreOptions adds a choice of time formats and bounds to fuzzOptions.
func moreOptions(choice uint16) Options {
	o := fuzzOptions(BSON, uint8(choice))
	switch choice >> 8 & 7 {
	case 1:
		o.TimeFormat = "unix"
	case 2:
		o.TimeFormat = "rfc3339"
	case 3:
		o.TimeFormat = "2006-01-02 15:04:05"
	case 4:
		o.TimeMin, o.TimeMax = FromRecord(-time.Hour), FromRecord(0)
	case 5:
		o.TimeMax = At(1 << 41)
	case 6:
		o.StoredTime, o.StoredMeta = "x", "a"
	}
	if choice>>11&1 != 0 {
		o.MaxBytes = 64
	}
	return o
}

// FuzzFastBSON decodes the same records with a decoder that walks once and learns, and with one that validates first.
func FuzzFastBSON(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for choice := range uint16(1 << 12) {
		if choice%37 != 0 && choice > 255 {
			continue
		}
		var records []byte
		for range 3 {
			records = append(records, randomRecord(random)...)
		}
		f.Add(records, choice)
	}
	f.Add(slices.Concat([]byte(everyType(f)), []byte(everyType(f))), uint16(10))
	f.Fuzz(func(t *testing.T, records []byte, choice uint16) {
		w := newTwoWays(t, moreOptions(choice))
		documents := cutDocuments(records)
		for range 2 { // the second time the names are known
			for _, document := range documents {
				w.decode(t, record.Record{Offset: 3, Timestamp: recordTime, Key: document, Value: document})
			}
		}
	})
}

// TestWalkerAgreesWithItsJudge decodes random events with random settings in both ways. Some of them are damaged.
func TestWalkerAgreesWithItsJudge(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	taken, stored := 0, 0
	for settings := 0; settings < 300; {
		o := moreOptions(uint16(random.Uint32()) &^ (1 << 11))
		if random.IntN(2) == 0 {
			o = randomPaths(random)
			o.Format, o.StoredTime, o.StoredMeta = BSON, "time", pick(random, "meta", "b")
		}
		if random.IntN(4) > 0 {
			o.StoredTime, o.StoredMeta = "", ""
		}
		if o.CheckPaths() != nil {
			continue
		}
		settings++
		w := newTwoWays(t, o)
		for range 40 {
			value := randomRecord(random)
			if random.IntN(8) == 0 {
				value[random.IntN(len(value))] ^= 1 << random.IntN(8)
			}
			w.decode(t, record.Record{Offset: 7, Timestamp: recordTime, Key: []byte("key"), Value: value})
		}
		taken, stored = taken+w.taken, stored+w.stored
	}
	t.Logf("%d of %d events were taken", taken, stored)
	if taken < stored/2 || stored < 1000 {
		t.Errorf("only %d of %d events were taken: the walker is hardly tried", taken, stored)
	}
}

// randomRecord returns an event with the names to which the tests' settings have paths, and some others.
func randomRecord(random *rand.Rand) []byte {
	event := bson.D{}
	add := func(name string, odds int, value any) {
		if random.IntN(odds) > 0 {
			event = append(event, bson.E{Key: name, Value: value})
		}
	}
	add("time", 20, randomTime(random))
	add("meta", 20, randomMeta(random))
	add("at", 20, randomTime(random))
	fields := randomFields(random, 0)
	if random.IntN(3) > 0 {
		add("x", 20, randomFields(random, 1))
	} else {
		add(pick(random, "x", "host"), 2, randomValue(random, 0))
	}
	if random.IntN(3) == 0 { // the fields at the start of paths come first
		fields = append(bson.D{{Key: "a", Value: bson.D{{Key: "time", Value: randomTime(random)}, {Key: "meta", Value: 1}}}}, fields[min(1, len(fields)):]...)
	}
	add("p", 10, append(bson.D{{Key: "meta", Value: randomMeta(random)}, {Key: "x", Value: randomFields(random, 1)}}, randomFields(random, 1)...))
	event = append(event, fields...)
	if random.IntN(3) == 0 {
		random.Shuffle(len(event), func(i, j int) { event[i], event[j] = event[j], event[i] })
	}
	value, err := bson.Marshal(event)
	if err != nil {
		panic(err)
	}
	return value
}

func randomTime(random *rand.Rand) any {
	switch random.IntN(30) {
	case 0:
		return int32(eventTime)
	case 1:
		return int64(eventTime) * 1e3
	case 2:
		return float64(eventTime) + 0.5
	case 3:
		return pick(random, "2023-11-14T22:13:20.123Z", "2023-11-14T22:13:20+01:00", "2023-11-14 22:13:20", "1700000000", "soon")
	case 4:
		return bson.D{{Key: pick(random, "$date", "date"), Value: "2023-11-14T22:13:20.123Z"}}
	case 5:
		return bson.DateTime(1 << random.IntN(63))
	}
	return bson.DateTime(eventTime*1000 + random.Int64N(1000))
}

func randomMeta(random *rand.Rand) any {
	switch random.IntN(8) {
	case 0:
		return randomValue(random, 0)
	case 1:
		return randomFields(random, 1)
	case 2:
		return bson.D{{Key: "host", Value: "a"}, {Key: "site", Value: bson.A{int32(1), bson.D{{Key: "b", Value: "é"}, {Key: "a", Value: nil}}}}}
	case 3:
		return strings.Repeat("é", random.IntN(2)*random.IntN(6000))
	case 4:
		members := bson.D{}
		for _, i := range random.Perm(random.IntN(2 * mostMembers)) {
			members = append(members, bson.E{Key: fmt.Sprint("member", i), Value: pick(random, "x", strings.Repeat("long", 1<<random.IntN(10)))})
		}
		return members
	}
	return bson.D{{Key: "site", Value: "a1"}, {Key: "host", Value: "sensor-0042"}}
}

// randomFields returns fields with few different names, so that names repeat, sometimes within one object.
func randomFields(random *rand.Rand, depth int) (fields bson.D) {
	fields = bson.D{}
	names := []string{"a", "b", "c", "d", "temperature", "y", "z"}
	for _, name := range names[:random.IntN(len(names)+1)] {
		switch random.IntN(200) {
		case 0:
			name = pick(random, "", "$set", "a.b", "a.b.c", "x\xff", strings.Repeat("n", 300), "é")
		case 1:
			name = pick(random, "a", "time", "meta")
		}
		fields = append(fields, bson.E{Key: name, Value: randomValue(random, depth)})
	}
	return fields
}

func randomValue(random *rand.Rand, depth int) any {
	switch random.IntN(12) {
	case 0, 1:
		if depth < 4 {
			return randomFields(random, depth+1)
		}
	case 2:
		array := bson.A{}
		for range random.IntN(13) {
			if depth < 4 {
				array = append(array, randomValue(random, depth+1))
			}
		}
		return array
	case 3:
		return pick(random, "", "a", "sieben.", "acht....", "neun.....", "é", "zwölf", "zwölf und mehr", "a\x00b")
	case 4:
		if random.IntN(4) > 0 {
			return pick(random, "\xff", "zehn......\xc3", "elf", "elf und mehr", "elf und noch mehr")
		}
		rare := rawbson.Content(everyRare)
		var e rawbson.Element
		for range 1 + random.IntN(22) {
			rare = e.Cut(rare)
		}
		return bson.RawValue{Type: e.Kind, Value: e.Value}
	case 5:
		return nil
	case 6:
		return random.IntN(2) == 0
	case 7, 8:
		return int32(random.Uint32())
	case 9:
		return int64(random.Uint64())
	}
	return random.NormFloat64()
}

// everyRare has a value of each type.
var everyRare = everyType(&testing.B{})

// TestWalkerTakesWhatIsUsual checks that the walker decodes the events of most topics, from the first one on.
func TestWalkerTakesWhatIsUsual(t *testing.T) {
	meta := bson.D{{Key: "site", Value: "a1"}, {Key: "host", Value: "ö-0042"}}
	at := bson.DateTime(eventTime * 1000)
	for name, c := range map[string]struct {
		options Options
		events  []bson.D
	}{
		"plain": {plainOptions, []bson.D{
			{{Key: "time", Value: at}, {Key: "meta", Value: meta}, {Key: "x", Value: 1.5}},
			{{Key: "x", Value: int32(1)}, {Key: "meta", Value: "a"}, {Key: "time", Value: int64(eventTime)}},
			{{Key: "meta", Value: nil}, {Key: "y", Value: bson.A{1, bson.D{{Key: "x", Value: "z"}}}}, {Key: "time", Value: "2023-11-14T22:13:20Z"}, {Key: "x", Value: nil}},
		}},
		"in objects": {Options{TimeField: "at.time", MetaField: "tags.meta", StoredTime: "at", StoredMeta: "meta", Drop: []string{"tags.x"}}, []bson.D{
			{{Key: "at", Value: bson.D{{Key: "time", Value: at}}}, {Key: "tags", Value: bson.D{{Key: "x", Value: bson.D{{Key: "$", Value: 1}}}, {Key: "meta", Value: meta}}}, {Key: "x", Value: 1}},
		}},
		"envelope": {Options{Root: "payload.after", TimeField: "/ts", MetaFields: []string{"id", "host=tags.host"}, Fields: "f"}, []bson.D{
			{
				{Key: "schema", Value: bson.D{{Key: "$ref", Value: bson.A{}}}},
				{Key: "payload", Value: bson.D{{Key: "after", Value: bson.D{
					{Key: "id", Value: 1}, {Key: "tags", Value: bson.D{{Key: "host", Value: "b"}}}, {Key: "f", Value: bson.D{{Key: "x", Value: 1}}},
				}}, {Key: "op", Value: "c"}, {Key: "op", Value: "c"}}},
				{Key: "ts", Value: at},
			},
		}},
		"wide": {plainOptions, []bson.D{wide(at, false), wide(at, true)}},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Format = BSON
			w := newTwoWays(t, c.options)
			for _, event := range c.events {
				value, err := bson.Marshal(event)
				if err != nil {
					t.Fatal(err)
				}
				w.decode(t, recordOf(string(value)))
				decodeOne(t, w.walking, recordOf(string(value)))
				if w.walking.walker.lost > 0 {
					t.Errorf("%s is not taken", bson.Raw(value))
				}
			}
		})
	}
}

// wide returns an event with many fields.
func wide(at bson.DateTime, reversed bool) bson.D {
	event := bson.D{{Key: "time", Value: at}, {Key: "meta", Value: "a"}}
	for i := range 200 {
		event = append(event, bson.E{Key: fmt.Sprint("field", i), Value: float64(i)})
	}
	if reversed {
		slices.Reverse(event)
	}
	return event
}

// TestWalkerForgetsNames has names that never repeat. They fill the walker's memory, and later events are still decoded. After
// some time the walker knows the new names.
func TestWalkerForgetsNames(t *testing.T) {
	o := plainOptions
	o.Format = BSON
	w := newTwoWays(t, o)
	usual, err := bson.Marshal(bson.D{{Key: "time", Value: bson.DateTime(eventTime * 1000)}, {Key: "meta", Value: "a"}, {Key: "x", Value: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxKnownNames + patience + 10 {
		event := binary.BigEndian.AppendUint32(nil, 0x61616161+uint32(i)<<4)
		value := rawbson.EndDocument(append(usual[:len(usual)-1:len(usual)-1], append(append([]byte{byte(bson.TypeNull)}, fmt.Sprintf("%x", event)...), 0)...), 0)
		w.decode(t, recordOf(string(value)))
	}
	if known := w.walking.walker.names.count; known > maxKnownNames/2 {
		t.Errorf("%d names are still known", known)
	}
	if w.taken < maxKnownNames || w.taken > w.stored-patience {
		t.Errorf("%d of %d events were taken", w.taken, w.stored)
	}
	w.decode(t, recordOf(string(usual)))
	if w.walking.walker.lost > 0 {
		t.Error("the usual event is not taken")
	}
}

// TestWalkerRests checks that the walker stops trying on events that it does not support, and tries again later.
func TestWalkerRests(t *testing.T) {
	o := plainOptions
	o.Format = BSON
	d := newDecoder(t, o)
	dotted := inBSON(t, `{"time": 1700000000, "meta": 1, "a.b": 1}`)
	walked := 0
	for range 1000 {
		if d.walker.rest == 0 {
			walked++
		}
		decodeOne(t, d, recordOf(string(dotted)))
	}
	if walked > 20 {
		t.Errorf("%d of 1000 events were walked in vain", walked)
	}
	usual := inBSON(t, `{"time": 1700000000, "meta": 1, "a": 1}`)
	for range 1 << mostLost {
		decodeOne(t, d, recordOf(string(usual)))
	}
	if d.walker.rest > 0 || d.walker.lost > 0 {
		t.Errorf("it rests for %d events", d.walker.rest)
	}
}
