package bucketer

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

var updateGolden = flag.Bool("update", false, "write the golden files anew")

// golden drives a catalog with events in Extended JSON and records all writes.
type golden struct {
	t       *testing.T
	catalog *Catalog
	store   *store
	offset  int64
	flush   *Flush
	out     bytes.Buffer
}

// insert gives the catalog events with the field time and optionally sensor. Each is a record of its own.
func (g *golden) insert(events ...string) {
	g.t.Helper()
	for _, event := range events {
		g.insertAt(timeseries.Position{Offset: g.offset}, event)
		g.offset++
	}
}

func (g *golden) insertAt(p timeseries.Position, event string) {
	g.t.Helper()
	var d bson.D
	if err := bson.UnmarshalExtJSON([]byte(event), false, &d); err != nil {
		g.t.Fatal(err)
	}
	r := reading{position: p, time: int64(at(d, "time").(bson.DateTime)), series: ""}
	if sensor := at(d, "sensor"); sensor != nil {
		r.series = keyOf(sensor)
	}
	for _, e := range d {
		if e.Key != "time" && e.Key != "sensor" {
			r.fields = append(r.fields, e)
		}
	}
	if err := g.catalog.Insert(r.measurement(g.t)); err != nil {
		g.t.Fatal(err)
	}
}

// prepare cuts a flush and records its writes.
func (g *golden) prepare() {
	g.t.Helper()
	g.flush = g.catalog.Prepare(0)
	if g.flush == nil {
		g.t.Fatal("nothing to write")
	}
	for _, w := range g.flush.Writes {
		if w.Filter != nil {
			g.note("update where", w.Filter)
			g.note("do", w.Document)
		} else {
			g.note("insert", w.Document)
		}
	}
}

func (g *golden) note(what string, document bson.Raw) {
	g.out.WriteString(what + " " + shellForm(decode(g.t, document), "") + "\n")
}

// shellForm formats a value as mongosh does, on one line if it fits.
func shellForm(v any, indent string) string {
	var parts []string
	open, end := "{", "}"
	switch v := v.(type) {
	case bson.D:
		for _, e := range v {
			parts = append(parts, e.Key+": "+shellForm(e.Value, indent+"  "))
		}
	case bson.A:
		open, end = "[", "]"
		for _, e := range v {
			parts = append(parts, shellForm(e, indent+"  "))
		}
	case bson.DateTime:
		return "ISODate(" + v.Time().UTC().Format("2006-01-02T15:04:05.000Z") + ")"
	case bson.ObjectID:
		return "ObjectId(" + v.Hex() + ")"
	case bson.Binary:
		return fmt.Sprintf("BinData(%d, %x)", v.Subtype, v.Data)
	case int64:
		return fmt.Sprintf("Long(%d)", v)
	case float64:
		return fmt.Sprintf("Double(%v)", v)
	default:
		return fmt.Sprintf("%#v", v)
	}
	if line := open + strings.Join(parts, ", ") + end; len(indent)+len(line) < 100 && !strings.Contains(line, "\n") {
		return line
	}
	return open + "\n  " + indent + strings.Join(parts, ",\n  "+indent) + "\n" + indent + end
}

// write executes a flush.
func (g *golden) write() {
	g.t.Helper()
	g.prepare()
	for _, w := range g.flush.Writes {
		if !g.store.apply(w) {
			g.t.Fatalf("not applied: %s", w.Filter)
		}
	}
	g.catalog.Finish(g.flush, make([]Outcome, len(g.flush.Writes)), 0)
}

// lookUp answers the catalog's look-ups.
func (g *golden) lookUp() {
	for _, l := range g.catalog.Lookups(100) {
		g.catalog.Load([]Answer{g.store.answer(l)})
	}
}

// goldenCases produce the documents that illustrate buckets.
var goldenCases = []struct {
	name  string
	setUp func(*Options)
	run   func(*golden)
}{
	{name: "insert", run: func(g *golden) {
		g.insert(
			`{"time":{"$date":"2024-05-01T10:00:07.250Z"},"sensor":{"room":"a","unit":1},"celsius":21.5,"ok":true,"note":"first"}`,
			`{"time":{"$date":"2024-05-01T10:00:02Z"},"sensor":{"room":"a","unit":1},"celsius":19,"ok":true,"note":"late"}`,
			`{"time":{"$date":"2024-05-01T10:59:00Z"},"sensor":{"room":"a","unit":1},"celsius":{"$numberLong":"30"},"ok":false,"note":"last"}`)
		g.write()
	}},
	{name: "delta_changes_bounds", run: func(g *golden) {
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":5,"b":5,"c":5}`)
		g.write()
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":6,"b":4.5,"c":5.0}`,
			`{"time":{"$date":"2024-05-01T10:00:03Z"},"sensor":1,"a":7}`)
		g.write()
	}},
	{name: "delta_within_objects", run: func(g *golden) {
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"o":{"x":1,"y":{"z":1,"q":[1,2]}},"l":[1,{"r":1}]}`)
		g.write()
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"o":{"x":1,"y":{"z":0,"n":3,"q":[1,9]}},"l":[0,{"r":1},7]}`)
		g.write()
	}},
	{name: "delta_new_column", run: func(g *golden) {
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":1}`)
		g.write()
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"b":{"c":[]}}`)
		g.write()
	}},
	{name: "delta_names_no_path_can_address", run: func(g *golden) {
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"o":{"a.b":1,"$c":2}}`)
		g.write()
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"o":{"a.b":0,"$c":2}}`)
		g.write()
	}},
	{name: "sparse", run: func(g *golden) {
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":1}`,
			`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"b":2}`,
			`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1}`,
			`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"b":3,"a":4}`)
		g.write()
	}},
	{name: "no_meta", run: func(g *golden) {
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"a":1}`)
		g.write()
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"a":1}`)
		g.write()
	}},
	{name: "array_record", run: func(g *golden) {
		for part := range int32(3) {
			g.insertAt(timeseries.Position{Offset: 7, Part: part}, `{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":1}`)
		}
		g.insertAt(timeseries.Position{Offset: 8}, `{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":1}`)
		g.write()
	}},
	{name: "full_closes", setUp: func(o *Options) { o.Limits.MaxCount = 2 }, run: func(g *golden) {
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":1}`)
		g.write()
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":1}`)
		g.write()
	}},
	{name: "fifth_kind_closes", run: func(g *golden) {
		const begin = `{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":`
		g.insert(begin+`1}`, begin+`"one"}`, begin+`null}`, begin+`{"x":1}}`, begin+`2}`)
		g.write()
		g.insert(begin + `true}`)
		g.write()
	}},
	{name: "delta_too_dear", setUp: func(o *Options) { o.DeltaMax = 2 }, run: func(g *golden) {
		event := `{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":1}`
		g.insert(event)
		g.write()
		g.insert(event, event, event)
		g.write()
	}},
	{name: "reopened", setUp: func(o *Options) { o.Reopen = true }, run: func(g *golden) {
		g.insert(`{"time":{"$date":"2024-05-01T10:05:00Z"},"sensor":1,"a":1,"o":{"x":1}}`)
		g.lookUp()
		g.write()
		g.insert(`{"time":{"$date":"2024-05-01T12:00:00Z"},"sensor":1,"a":1}`)
		g.write()
		g.insert(`{"time":{"$date":"2024-05-01T10:06:00Z"},"sensor":1,"a":0,"o":{"x":2}}`)
		g.lookUp()
		g.write()
	}},
	{name: "before_1970", run: func(g *golden) {
		g.insert(`{"time":{"$date":"1969-12-31T23:59:59.999Z"},"sensor":1,"a":1}`)
		g.write()
	}},
	{name: "conflict_opens_again", run: func(g *golden) {
		g.insert(`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":1}`,
			`{"time":{"$date":"2024-05-01T10:00:00Z"},"sensor":1,"a":2}`)
		g.prepare()
		stored := []timeseries.Position{{Offset: 1}}
		g.catalog.Finish(g.flush, []Outcome{{Result: Conflicted, Stored: stored}}, 0)
		g.write()
	}},
}

// TestGoldenDocuments compares the writes of typical cases with reviewed files.
func TestGoldenDocuments(t *testing.T) {
	for _, one := range goldenCases {
		t.Run(one.name, func(t *testing.T) {
			o := testOptions(t)
			if one.setUp != nil {
				one.setUp(&o)
			}
			g := &golden{t: t, catalog: New(o), store: newStore(t, o.Collection)}
			one.run(g)
			file := filepath.Join("testdata", one.name+".golden")
			if *updateGolden {
				if err := os.WriteFile(file, g.out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(g.out.Bytes(), want) {
				t.Errorf("the writes are\n%swant\n%s", g.out.Bytes(), want)
			}
		})
	}
}
