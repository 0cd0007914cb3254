package main

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// shownCells is the number of measurements of a column that are printed.
const shownCells = 2

// showBucket prints one bucket as it is stored, with shortened columns.
func (s *stage) showBucket(ctx context.Context, buckets *mongo.Collection) error {
	latest := options.FindOne().SetSort(bson.D{{Key: "control.count", Value: -1}})
	var bucket bson.D
	if err := buckets.FindOne(ctx, bson.D{{Key: "meta.sensor", Value: "s-01"}}, latest).Decode(&bucket); err != nil {
		return fmt.Errorf("reading a bucket: %w", err)
	}
	s.out.title("One bucket of a sensor, as it is stored")
	for line := range strings.Lines(document(bucket, "  ", "")) {
		s.out.line("  %s", strings.TrimRight(line, "\n"))
	}
	return nil
}

// document formats a document, over several lines if one line is too short for it. path is the path of the document in the
// bucket.
func document(d bson.D, indent, path string) string {
	if flat := inline(d); len([]rune(flat))+len(indent)+len(path) < width-8 && path != "" {
		return flat
	}
	var b strings.Builder
	b.WriteString("{\n")
	column := strings.HasPrefix(path, "data.")
	for i, e := range d {
		if column && i == shownCells && len(d) > shownCells+1 {
			fmt.Fprintf(&b, "%s… %d more\n", indent, len(d)-shownCells)
			break
		}
		value := text(e.Value)
		if sub, ok := e.Value.(bson.D); ok {
			value = document(sub, indent+"  ", strings.TrimPrefix(path+"."+e.Key, "."))
		}
		fmt.Fprintf(&b, "%s%s: %s,\n", indent, e.Key, value)
	}
	b.WriteString(indent[2:] + "}")
	return b.String()
}

// inline formats a document on one line.
func inline(d bson.D) string {
	fields := make([]string, len(d))
	for i, e := range d {
		fields[i] = e.Key + ": " + text(e.Value)
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// text formats a value roughly as MongoDB's shell does.
func text(v any) string {
	switch v := v.(type) {
	case bson.D:
		return inline(v)
	case bson.A:
		return elements(v)
	case string:
		return fmt.Sprintf("%q", v)
	case bson.ObjectID:
		return fmt.Sprintf("ObjectId(%q)", v.Hex())
	case bson.DateTime:
		return fmt.Sprintf("ISODate(%q)", v.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	case bson.Binary:
		return binaryText(v)
	default:
		return fmt.Sprint(v)
	}
}

// elements formats an array, or only its beginning if it is long.
func elements(a bson.A) string {
	const shown = 3
	var parts []string
	for i, v := range a {
		if i == shown {
			parts = append(parts, fmt.Sprintf("… %d more", len(a)-shown))
			break
		}
		parts = append(parts, text(v))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// binaryText formats a UUID as a UUID, and other bytes in hexadecimal.
func binaryText(b bson.Binary) string {
	if d := b.Data; b.Subtype == bson.TypeBinaryUUID && len(d) == 16 {
		return fmt.Sprintf("UUID(\"%x-%x-%x-%x-%x\")", d[:4], d[4:6], d[6:8], d[8:10], d[10:])
	}
	const shown = 8
	if len(b.Data) > shown {
		return fmt.Sprintf("%d bytes %x…", len(b.Data), b.Data[:shown])
	}
	return fmt.Sprintf("%d bytes %x", len(b.Data), b.Data)
}
