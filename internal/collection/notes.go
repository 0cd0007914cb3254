package collection

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// NoteKind says what an operator's commands did to the measurements of a note. It begins the note's _id.
type NoteKind string

// The kinds of notes. An edit without a kind writes no notes.
const (
	NotedDeleted NoteKind = "deleted"
	NotedChanged NoteKind = "changed" // their meta
)

// maxNoted bounds the positions of one note, so that the document stays far below MongoDB's size limit.
const maxNoted = 1 << 17

// notes collects the positions in documents that an edit is about to change or delete, for each source partition.
//
// A note is a document of the options collection that lists positions in the same fields as a bucket. An edit first writes the
// notes of a batch and waits until a majority has them. Then it changes or deletes the documents, each only if it still holds the
// positions that were read. So every measurement that an edit has deleted is noted, even if the command fails. If the command
// ended between the two writes, a position is noted as deleted and still stored. Such a position counts as stored.
//
// Deleted positions are part of the stored positions (E2), so reading the records again does not bring them back. An owner reads
// the notes after the buckets. If a delete takes a position out of a bucket before the owner reads the bucket, the position is
// already noted.
type notes struct {
	kind NoteKind
	of   map[timeseries.Source][]timeseries.Position
}

// add notes all positions that a bucket or segment lists. A document without a source has none. A list that cannot be decoded is
// left out, and `verify` reports the document as damaged.
func (n *notes) add(document bson.Raw) {
	from, ok := document.Lookup(timeseries.FieldControl, timeseries.FieldSource).DocumentOK()
	if !ok {
		return
	}
	source := timeseries.Source{TopicID: timeseries.UUIDIn(from, timeseries.FieldTopicID)}
	source.Topic, _ = from.Lookup(timeseries.FieldTopic).StringValueOK()
	partition, _ := from.Lookup(timeseries.FieldPartition).AsInt64OK()
	source.Partition = int32(partition)
	lists, _ := from.Lookup(timeseries.FieldOffsets).ArrayOK()
	elements, _ := lists.Values()
	for _, element := range elements {
		if _, encoded, ok := element.BinaryOK(); ok {
			n.of[source], _ = timeseries.DecodePositions(n.of[source], encoded)
		}
	}
}

// note writes the notes of a batch before any edit of it is sent.
func (e *editing) note(ctx context.Context, open []edited) error {
	if e.kind == "" {
		return nil
	}
	n := notes{kind: e.kind, of: map[timeseries.Source][]timeseries.Position{}}
	for _, b := range open {
		n.add(b.listed)
	}
	limited, cancel := context.WithTimeout(ctx, e.s.Timeout)
	defer cancel()
	return n.write(limited, e.s.options)
}

// write writes the notes.
func (n *notes) write(ctx context.Context, c mongodb.Collection) error {
	var documents []bson.Raw
	sources := slices.SortedFunc(maps.Keys(n.of), func(a, b timeseries.Source) int {
		return cmp.Or(slices.Compare(a.TopicID[:], b.TopicID[:]), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Topic, b.Topic))
	})
	for _, source := range sources {
		positions := n.of[source]
		slices.SortFunc(positions, timeseries.Position.Compare)
		for some := range slices.Chunk(slices.Compact(positions), maxNoted) {
			documents = append(documents, note(n.kind, source, some))
		}
	}
	if len(documents) == 0 {
		return nil
	}
	_, err := mongodb.Inserted(c.Insert(ctx, documents)) // a repeated edit has the same notes
	return err
}

// note makes the note of sorted positions. Its _id depends on the listed positions, so a repeated edit makes the same note.
func note(kind NoteKind, source timeseries.Source, positions []timeseries.Position) bson.Raw {
	encoded := timeseries.AppendPositions(nil, positions)
	first, last := positions[0].Offset, positions[len(positions)-1].Offset
	sum := sha256.Sum256(encoded)
	return mongodb.Document(bson.D{
		{Key: timeseries.FieldID, Value: fmt.Sprintf("%s%s/%x", notesOf(kind, source), noteOffset(last), sum[:8])},
		{Key: timeseries.FieldControl, Value: bson.D{
			{Key: timeseries.FieldCount, Value: int32(len(positions))},
			{Key: timeseries.FieldSource, Value: bson.D{
				{Key: timeseries.FieldTopic, Value: source.Topic},
				{Key: timeseries.FieldPartition, Value: source.Partition},
				{Key: timeseries.FieldTopicID, Value: timeseries.UUID(source.TopicID)},
				{Key: timeseries.FieldFirst, Value: first},
				{Key: timeseries.FieldLast, Value: last},
				{Key: timeseries.FieldOffsets, Value: bson.A{bson.Binary{Data: encoded}}},
			}},
		}},
	})
}

// notesOf returns the beginning of the _id of all notes of a kind about a source partition.
func notesOf(kind NoteKind, source timeseries.Source) string {
	return fmt.Sprintf("%s/%x/%d/", kind, source.TopicID, source.Partition)
}

// noteOffset formats an offset so that text sorts as offsets do.
func noteOffset(offset int64) string { return fmt.Sprintf("%019d", offset) }

// NoteQuery finds the notes of a kind that may list offsets from first to last.
func NoteQuery(kind NoteKind, source timeseries.Source, first, last int64) mongodb.Query {
	of := notesOf(kind, source)
	const behind = ":" // sorts after every digit
	return mongodb.Query{
		Filter: mongodb.Document(bson.D{
			{Key: timeseries.FieldID, Value: bson.D{{Key: "$gte", Value: of + noteOffset(first)}, {Key: "$lt", Value: of + behind}}},
			{Key: timeseries.PathFirst, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gt", Value: last}}}}},
		}),
		Projection: mongodb.Document(bson.D{{Key: timeseries.PathOffsets, Value: 1}, {Key: timeseries.PathCount, Value: 1}}),
	}
}
