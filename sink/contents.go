package sink

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Contents are the claims and the stored documents of a time series, for commands that work beside its consumers.
type Contents struct {
	name    string // of the time series
	ports   collection.Ports
	timeout time.Duration // of a write
}

// NewContents makes the Contents of a time series. The argument timeout bounds a write.
func NewContents(name string, ports collection.Ports, timeout time.Duration) Contents {
	return Contents{name: name, ports: ports, timeout: timeout}
}

// ContentsOf returns the contents of a time series.
func ContentsOf(db *mongodb.Database, name string) Contents {
	return NewContents(name, collection.Of(db, name).Ports(), db.WriteTimeout())
}

// PartitionDocument is a partition document with the owner's claim, for commands that work beside the consumers.
type PartitionDocument struct {
	// ID is the document's _id. ClusterID, Topic and Partition are read from it. They are empty and -1 if it has another form.
	ID        string
	ClusterID string
	Topic     string
	Partition int32
	// At is when the owner last wrote the document. It is for people only.
	At time.Time
	claim.Document
}

// Partitions returns the partition documents of the time series, in the order of their ids.
func (c Contents) Partitions(ctx context.Context) ([]PartitionDocument, error) {
	var found []PartitionDocument
	err := c.ports.Partitions.Find(ctx, mongodb.Query{Filter: mongodb.Document(bson.D{})}, func(raw bson.Raw) error {
		found = append(found, parsePartitionDocument(raw))
		return nil
	})
	slices.SortFunc(found, func(a, b PartitionDocument) int { // partition 10 comes after partition 9
		return cmp.Or(strings.Compare(a.ClusterID, b.ClusterID), strings.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition), strings.Compare(a.ID, b.ID))
	})
	return found, mongodb.Failure("reading the claims of "+c.name, err)
}

// TakeOver gives a partition to another group, if its document still shows the group and the claim of seen. The claim itself
// stays unreleased. Its writes may still be under way, so the next owner waits for them. False means that the document has
// changed meanwhile, and nothing was done. After an error it is unknown what happened, and the same call may be repeated.
//
// The caller must know that the former group has no members.
func (c Contents) TakeOver(ctx context.Context, seen PartitionDocument, group string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	done, err := mongodb.Changed(c.ports.Partitions.Update(ctx, []mongodb.Update{
		replacing(seen.ID, seen.Group, seen.Claim, bson.D{{Key: "group", Value: group}, claim.IsReleased(false)}),
	}))
	return done, mongodb.Failure("giving the partition "+seen.ID+" to another group", err)
}

// Lost returns the noted losses of a partition, in the order of the offsets. Ranges may overlap.
func (c Contents) Lost(ctx context.Context, clusterID string, source timeseries.Source) (lost []claim.Lost, err error) {
	id := claim.DocumentID(clusterID, source.Topic, source.Partition)
	found, err := mongodb.First(ctx, c.ports.Partitions, mongodb.Query{Filter: mongodb.WithID(id)})
	return lostIn(found, source.TopicID), mongodb.Failure("reading the lost offsets of "+id, err)
}

func lostIn(d bson.Raw, topicID [16]byte) (lost []claim.Lost) {
	of, ok := d.Lookup(fieldLost, hex.EncodeToString(topicID[:])).DocumentOK()
	if !ok {
		return nil
	}
	elements, _ := of.Elements()
	for _, e := range elements {
		from, err := strconv.ParseInt(e.Key(), 10, 64)
		if to, ok := e.Value().AsInt64OK(); ok && err == nil && from >= 0 && from < to {
			lost = append(lost, claim.Lost{From: from, To: to})
		}
	}
	slices.SortFunc(lost, func(a, b claim.Lost) int { return cmp.Compare(a.From, b.From) })
	return lost
}

func parsePartitionDocument(raw bson.Raw) PartitionDocument {
	d := PartitionDocument{Document: parseSeen(raw), Partition: -1}
	d.ID, _ = raw.Lookup("_id").StringValueOK()
	if at, ok := raw.Lookup("at").TimeOK(); ok {
		d.At = at
	}
	rest, number, _ := cutLast(d.ID)
	if n, err := strconv.ParseInt(number, 10, 32); err == nil && n >= 0 {
		if cluster, topic, ok := cutLast(rest); ok {
			d.ClusterID, d.Topic, d.Partition = cluster, topic, int32(n)
		}
	}
	return d
}

// cutLast cuts an id at its last slash. Topics and partition numbers have no slash.
func cutLast(id string) (before, after string, found bool) {
	i := strings.LastIndexByte(id, '/')
	if i < 0 {
		return "", id, false
	}
	return id[:i], id[i+1:], true
}

// maxHoldings bounds the partitions that Holdings looks at.
const maxHoldings = 100_000

// Holding is what a time series holds of one source partition. A zero TopicID means buckets without a source, which were
// made by hand.
type Holding struct {
	Source  timeseries.Source `json:"-"`
	Buckets int64             `json:"buckets"`
	Closed  int64             `json:"closed"` // buckets with control.closed
	// Measurements counts the measurements in buckets. InSegments counts those in segments that are not in buckets yet. Each
	// measurement counts once.
	Measurements int64 `json:"measurements"`
	Segments     int64 `json:"segments"`
	InSegments   int64 `json:"measurementsInSegments"`
	// Ended counts segments whose measurements are in buckets. Unfinished counts buckets of a compaction that may be rolled back,
	// whose measurements are in segments. Neither counts above.
	Ended      int64 `json:"endedSegments"`
	Unfinished int64 `json:"unfinishedBuckets"`
	Bytes      int64 `json:"bytes"` // sum of control.size, the catalog's accounted size
	// First and Last are the smallest and the largest offset. They are -1 without a source.
	First int64 `json:"firstOffset"`
	Last  int64 `json:"lastOffset"`
	// Oldest and Newest bound the times of the measurements, in milliseconds since 1970. Oldest is rounded down as buckets are.
	// Both are zero without measurements.
	Oldest int64 `json:"-"`
	Newest int64 `json:"-"`
	// Counts is the number of buckets by their number of measurements.
	Counts map[int32]int64 `json:"-"`
	// Covered is the sum over all buckets of the time from a bucket's rounded beginning to its last measurement, in milliseconds.
	// Compacted counts the buckets that were made of segments.
	Covered   int64 `json:"-"`
	Compacted int64 `json:"-"`
	// Cut means that there are more buckets and segments, and that the holding counts those with the largest offsets.
	Cut bool `json:"cut"`
}

// looked is the number of documents that were counted.
func (h *Holding) looked() int64 { return h.Buckets + h.Segments + h.Ended + h.Unfinished }

// tally adds holdings up.
type tally struct {
	Buckets
	newest int64
	// unfinished are the compactions that may be rolled back. Their measurements count in their segments and not in their buckets.
	unfinished map[claim.Token]bool
}

// Holdings returns how many measurements of each partition are stored, in the order of topic ids and partitions. It reads at most
// newest buckets and segments of each. Zero means all. It jumps through the index of sources, which costs two or three more
// queries a partition, however much is stored. Measurements that are being compacted meanwhile may count twice or not at all.
func (c Contents) Holdings(ctx context.Context, newest int64) ([]Holding, error) {
	operation := "reading the buckets of " + c.name
	definition, err := collection.ReadDefinition(ctx, c.ports.Options)
	if err != nil {
		return nil, err
	}
	buckets := c.Buckets(definition.TimeField)
	begun, err := buckets.Unfinished(ctx)
	if err != nil {
		return nil, err
	}
	of := tally{buckets, newest, begun}
	foreign, err := of.add(ctx, bson.D{{Key: timeseries.PathTopicID, Value: nil}})
	if err != nil {
		return nil, mongodb.Failure(operation, err)
	}
	var all []Holding
	if foreign.looked() > 0 {
		all = append(all, foreign)
	}
	source, found, err := nextSource(ctx, buckets.c, timeseries.Source{Partition: -1})
	for ; err == nil && found && len(all) < maxHoldings; source, found, err = nextSource(ctx, buckets.c, source) {
		h, err := of.add(ctx, timeseries.OfSource(source))
		if err != nil {
			return nil, mongodb.Failure(operation, err)
		}
		h.Source = source
		all = append(all, h)
	}
	return all, mongodb.Failure(operation, err)
}

// nextSource returns the source behind another one in the index: a later partition of the topic, or the first partition of the
// next topic.
func nextSource(ctx context.Context, buckets mongodb.Collection, s timeseries.Source) (timeseries.Source, bool, error) {
	above := func(v any) bson.D { return bson.D{{Key: "$gt", Value: v}} }
	for _, filter := range []bson.D{
		{{Key: timeseries.PathTopicID, Value: timeseries.UUID(s.TopicID)}, {Key: timeseries.PathPartition, Value: above(s.Partition)}},
		{{Key: timeseries.PathTopicID, Value: above(timeseries.UUID(s.TopicID))}},
	} {
		bucket, err := mongodb.First(ctx, buckets, mongodb.Query{
			Filter: mongodb.Document(filter), Sort: mongodb.Document(timeseries.SourceIndex()), Projection: mongodb.Document(bson.D{{Key: timeseries.PathSource, Value: 1}}),
		})
		if err != nil {
			return timeseries.Source{}, false, err
		}
		if bucket == nil {
			continue
		}
		from := bson.Raw(bucket.Lookup(timeseries.FieldControl, timeseries.FieldSource).Value)
		next := timeseries.Source{TopicID: timeseries.UUIDIn(from, timeseries.FieldTopicID)}
		next.Topic, _ = from.Lookup(timeseries.FieldTopic).StringValueOK()
		number, ok := from.Lookup(timeseries.FieldPartition).AsInt64OK()
		if next.Partition = int32(number); !ok || next.TopicID == s.TopicID && next.Partition <= s.Partition {
			return timeseries.Source{}, false, fmt.Errorf("the bucket %v has an invalid control.source, which no consumer writes: correct control.source, or delete the bucket", bucket.Lookup(timeseries.FieldID))
		}
		return next, true, nil
	}
	return timeseries.Source{}, false, nil
}

// add adds up the buckets and segments that a filter finds. If they are too many, it takes those with the largest offsets.
func (of *tally) add(ctx context.Context, filter bson.D) (Holding, error) {
	h := Holding{First: -1, Last: -1, Counts: map[int32]int64{}}
	query := mongodb.Query{Filter: mongodb.Document(filter), Projection: mongodb.Document(bson.D{
		{Key: timeseries.FieldID, Value: 0},
		{Key: timeseries.PathCount, Value: 1},
		{Key: timeseries.PathSize, Value: 1},
		{Key: timeseries.PathClosed, Value: 1},
		{Key: timeseries.PathFirst, Value: 1},
		{Key: timeseries.PathLast, Value: 1},
		{Key: timeseries.PathSegment, Value: 1},
		{Key: timeseries.PathCompaction, Value: 1},
		{Key: timeseries.MinPath(of.timeField), Value: 1},
		{Key: timeseries.MaxPath(of.timeField), Value: 1},
	})}
	if of.newest > 0 {
		query.Limit, query.Sort = of.newest+1, mongodb.Document(bson.D{{Key: timeseries.PathLast, Value: -1}})
	}
	err := of.c.Find(ctx, query, func(d bson.Raw) error {
		if h.Cut = of.newest > 0 && h.looked() == of.newest; !h.Cut {
			h.add(d, of.timeField, of.unfinished)
		}
		return nil
	})
	return h, err
}

// add adds one document. A field that is missing or of another type counts as nothing.
func (h *Holding) add(d bson.Raw, timeField string, unfinished map[claim.Token]bool) {
	control, _ := d.Lookup(timeseries.FieldControl).DocumentOK()
	count, _ := control.Lookup(timeseries.FieldCount).AsInt64OK()
	size, _ := control.Lookup(timeseries.FieldSize).AsInt64OK()
	h.Bytes += size
	if segment, ok := control.Lookup(timeseries.FieldSegment).DocumentOK(); ok {
		if by := timeseries.UUIDIn(segment, timeseries.FieldCompaction); by != (claim.Token{}) && !unfinished[by] {
			h.Ended++
			return
		}
		h.Segments++
		h.InSegments += count
	} else {
		compaction, made := control.Lookup(timeseries.FieldCompaction).DocumentOK()
		if unfinished[timeseries.UUIDIn(compaction, timeseries.FieldCompactionID)] {
			h.Unfinished++
			return
		}
		h.Buckets++
		h.Measurements += count
		h.Counts[int32(count)]++
		if first, last, ok := timesOf(d, timeField); ok && last > first {
			h.Covered += last - first // from its rounded beginning to its last measurement
		}
		if made {
			h.Compacted++
		}
		if closed, _ := control.Lookup(timeseries.FieldClosed).BooleanOK(); closed {
			h.Closed++
		}
	}
	h.widen(control, timeField, h.Buckets+h.Segments == 1)
}

// widen extends the bounds of times and offsets by a document. The argument initial means that it is the first document.
func (h *Holding) widen(control bson.Raw, timeField string, initial bool) {
	if oldest, ok := control.Lookup(timeseries.FieldMin, timeField).DateTimeOK(); ok && (initial || oldest < h.Oldest) {
		h.Oldest = oldest
	}
	if newest, ok := control.Lookup(timeseries.FieldMax, timeField).DateTimeOK(); ok && (initial || newest > h.Newest) {
		h.Newest = newest
	}
	if first, ok := control.Lookup(timeseries.FieldSource, timeseries.FieldFirst).AsInt64OK(); ok && (h.First < 0 || first < h.First) {
		h.First = first
	}
	if last, ok := control.Lookup(timeseries.FieldSource, timeseries.FieldLast).AsInt64OK(); ok {
		h.Last = max(h.Last, last)
	}
}
