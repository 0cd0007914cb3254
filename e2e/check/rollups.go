package check

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/events"
)

// levels are the steps of the levels of rollups.
var levels = map[string]time.Duration{"1m": time.Minute, "1h": time.Hour, "1d": 24 * time.Hour}

// Rollups compares the rows of all levels with the totals of all readings of the topic. It returns the number of rows, and the
// first difference, which is empty if there is none.
func Rollups(ctx context.Context, s Source) (rows int, difference string, err error) {
	j, err := s.expectations(ctx)
	if err != nil {
		return 0, "", err
	}
	err = s.withBuckets(ctx, func(buckets *mongo.Collection) error {
		edited, err := editedMetas(ctx, buckets)
		if err != nil {
			return err
		}
		totals := NewTotals()
		for at, r := range j.readings {
			meta, fields, err := stored(r)
			if err != nil {
				return err
			}
			if now, ok := edited[at]; ok {
				meta = now
			}
			totals.Add(meta, time.UnixMilli(r.Time), fields)
		}
		rows, difference, err = totals.Compare(ctx, buckets.Database(), s.Topic)
		return err
	})
	return rows, difference, err
}

// editedMetas returns the metas of measurements whose metas were edited.
func editedMetas(ctx context.Context, buckets *mongo.Collection) (map[Place]bson.RawValue, error) {
	edited := map[Place]bson.RawValue{}
	filter := bson.D{exists("meta."+EditedField, true)}
	return edited, each(ctx, buckets, filter, []string{"meta", "control"}, func(document bson.Raw) error {
		b, err := decodeBucket(document)
		meta := bson.RawValue{Type: b.Meta.Type, Value: bytes.Clone(b.Meta.Value)}
		b.eachPlace(func(at Place) { edited[at] = meta })
		return err
	})
}

// stored returns the meta and the fields of a reading as they are stored.
func stored(r *events.Reading) (meta bson.RawValue, fields bson.Raw, err error) {
	document, err := bson.Marshal(bson.D{{Key: "meta", Value: normalised(r.Meta)}, {Key: "fields", Value: r.Fields}})
	if err != nil {
		return meta, nil, fmt.Errorf("encoding a reading: %w", err)
	}
	raw := bson.Raw(document)
	fields, _ = raw.Lookup("fields").DocumentOK()
	return raw.Lookup("meta"), fields, nil
}

// BehindRollups says which rows may not be computed yet. Empty means that the rows have all records of the topic.
func BehindRollups(ctx context.Context, s Source) (string, error) {
	topic, err := s.topicNow(ctx)
	if err != nil {
		return "", err
	}
	ends, err := s.Kafka.Ends(ctx, topic)
	if err != nil {
		return "", err
	}
	var all []struct {
		ID     string                  `bson:"_id"`
		Rollup []struct{ Below int64 } `bson:"rollup"`
	}
	if err := WithDatabase(ctx, s.MongoURI, s.Database, func(database *mongo.Database) error {
		cursor, err := database.Collection(s.Topic+".partitions").Find(ctx, bson.D{})
		if err != nil {
			return err
		}
		return cursor.All(ctx, &all)
	}); err != nil {
		return "", fmt.Errorf("reading watermarks: %w", err)
	}
	if len(all) != len(ends) {
		return fmt.Sprintf("%d of %d partitions have a document", len(all), len(ends)), nil
	}
	var below, end int64
	for _, p := range all {
		if len(p.Rollup) != 1 {
			return fmt.Sprintf("%s has %d watermarks", p.ID, len(p.Rollup)), nil
		}
		below += p.Rollup[0].Below
	}
	for _, e := range ends {
		end += e
	}
	if below != end {
		return fmt.Sprintf("the watermarks add up to %d, and the log's ends to %d", below, end), nil
	}
	return "", nil
}

// total is the expected total of one field.
type total struct {
	n                      int64
	sum, least, most, size float64
}

// window is a key of totals: a series, a window and a field. Counts of measurements have an empty field.
type window struct {
	meta  string
	from  int64 // milliseconds since 1970
	field string
}

// windows holds the expected totals of one level.
type windows struct {
	totals map[window]*total
	// objects are fields with an object in some measurement. A number in another measurement has no total then.
	objects map[window]bool
}

// Totals adds measurements up by window, for each level.
type Totals map[string]*windows

// NewTotals returns empty totals.
func NewTotals() Totals {
	t := Totals{}
	for name := range levels {
		t[name] = &windows{map[window]*total{}, map[window]bool{}}
	}
	return t
}

// Add adds a measurement.
func (t Totals) Add(meta bson.RawValue, at time.Time, fields bson.Raw) {
	for name, step := range levels {
		w := t[name]
		key := window{meta: string(meta.Value), from: at.Truncate(step).UnixMilli()}
		w.add(key, 0)
		w.addFields(key, fields, "")
	}
}

func (w *windows) add(key window, v float64) {
	t := w.totals[key]
	if t == nil {
		t = &total{least: math.Inf(1), most: math.Inf(-1)}
		w.totals[key] = t
	}
	t.n++
	t.sum += v
	t.size += math.Abs(v)
	t.least, t.most = min(t.least, v), max(t.most, v)
}

// addFields adds each number within an object, except in arrays.
func (w *windows) addFields(key window, object bson.Raw, path string) {
	elements, _ := object.Elements()
	for _, e := range elements {
		key.field = path + e.Key()
		switch v := e.Value(); v.Type {
		case bson.TypeEmbeddedDocument:
			w.addFields(key, v.Document(), key.field+".")
		case bson.TypeInt32, bson.TypeInt64:
			w.addNumber(key, float64(v.AsInt64()))
		case bson.TypeDouble:
			if !math.IsNaN(v.Double()) {
				w.addNumber(key, v.Double())
			}
		}
	}
}

func (w *windows) addNumber(key window, v float64) {
	w.add(key, v)
	path := key.field
	for i := range path {
		if path[i] == '.' {
			key.field = path[:i]
			w.objects[key] = true
		}
	}
}

// Compare compares the stored rows of all levels with the totals. It returns the number of rows, and the first difference, which
// is empty if there is none. The totals are empty afterwards.
func (t Totals) Compare(ctx context.Context, database *mongo.Database, topic string) (rows int, difference string, err error) {
	for name, want := range t {
		for key := range want.objects {
			delete(want.totals, key)
		}
		found := 0
		err := each(ctx, bucketsOf(database, topic+"_"+name), bson.D{}, nil, func(document bson.Raw) error {
			b, err := decodeBucket(document)
			if err != nil {
				difference = cmp.Or(difference, fmt.Sprintf("the document %v: %v", b.ID, err))
			}
			for _, row := range b.rows {
				if found++; difference == "" {
					difference = want.take(b.Meta, row)
				}
			}
			return nil
		})
		switch {
		case err != nil:
			return rows, "", err
		case difference == "" && found == 0:
			difference = "there are no rows"
		case difference == "":
			difference = want.left()
		}
		if difference != "" {
			return rows, "level " + name + ": " + difference, nil
		}
		rows += found
	}
	return rows, "", nil
}

// left names a total that no row has.
func (w *windows) left() string {
	for key, t := range w.totals {
		return fmt.Sprintf("%d totals are missing, that of %v, %+v, among them; its row is there: %v",
			len(w.totals), key, *t, w.totals[window{meta: key.meta, from: key.from}] == nil)
	}
	return ""
}

// take compares a row with the expected totals, and removes them.
func (w *windows) take(meta bson.RawValue, row row) string {
	at, _ := row["time"].TimeOK()
	key := window{meta: string(meta.Value), from: at.UnixMilli()}
	count, _ := row["count"].AsInt64OK()
	if w.totals[key] == nil || w.totals[key].n != count {
		return fmt.Sprintf("the row of %v counts %d, want %+v", key, count, w.totals[key])
	}
	delete(w.totals, key)
	for name, value := range row {
		if object, ok := value.DocumentOK(); ok {
			if difference := w.takeTotal(key, name, object); difference != "" {
				return difference
			}
		}
	}
	return ""
}

// takeTotal compares the total of a field, or the totals of the fields below it.
func (w *windows) takeTotal(key window, path string, object bson.Raw) string {
	n, ok := object.Lookup("n").AsInt64OK()
	if !ok {
		elements, _ := object.Elements()
		for _, e := range elements {
			inner, _ := e.Value().DocumentOK()
			if difference := w.takeTotal(key, strings.Join([]string{path, e.Key()}, "."), inner); difference != "" {
				return difference
			}
		}
		return ""
	}
	key.field = path
	t := w.totals[key]
	sum, _ := object.Lookup("sum").AsFloat64OK()
	least, _ := object.Lookup("min").AsFloat64OK()
	most, _ := object.Lookup("max").AsFloat64OK()
	if t == nil || t.n != n || t.least != least || t.most != most || math.Abs(t.sum-sum) > 1e-9*(1+t.size) {
		return fmt.Sprintf("the total of %v is %v, want %+v", key, object, t)
	}
	delete(w.totals, key)
	return ""
}
