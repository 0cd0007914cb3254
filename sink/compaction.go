package sink

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Segments reads the partition's segments without their measurements, causally after every write before, and MongoDB's clock.
func (p *Partition) Segments(ctx context.Context) (claim.Segments, error) {
	return p.segments(ctx, "reading the list of segments", mongodb.Document(bson.D{
		{Key: timeseries.FieldMeta, Value: 1},
		{Key: timeseries.MinPath(p.store.Options.TimeField), Value: 1},
		{Key: timeseries.PathSegment, Value: 1},
		{Key: timeseries.PathCount, Value: 1},
		{Key: timeseries.PathSize, Value: 1},
		{Key: timeseries.PathTopicID, Value: 1},
		{Key: timeseries.PathFirst, Value: 1},
		{Key: timeseries.PathLast, Value: 1},
	}))
}

// Frozen reads the whole segments of a compaction, causally after every write before, and then MongoDB's clock.
func (p *Partition) Frozen(ctx context.Context, c *claim.Compaction) (claim.Segments, error) {
	lowest := slices.MinFunc(c.Segments, func(a, b claim.Segment) int { return cmp.Compare(a.Min, b.Min) })
	return p.segments(ctx, "reading frozen segments", nil, bson.E{Key: timeseries.PathSegmentCompaction, Value: timeseries.UUID(c.ID)},
		bson.E{Key: timeseries.MinPath(p.store.Options.TimeField), Value: bson.D{{Key: "$gte", Value: bson.DateTime(lowest.Min)}}})
}

// segments reads segments of the partition, after a fence.
func (p *Partition) segments(ctx context.Context, operation string, projection bson.Raw, conditions ...bson.E) (found claim.Segments, err error) {
	if err := p.fence(ctx); err != nil {
		return found, err
	}
	query := mongodb.Query{
		Filter:     mongodb.Document(append(bson.D{{Key: timeseries.PathOwner, Value: p.id}}, conditions...)),
		Projection: projection, Batch: storedBatch,
	}
	err = p.find(ctx, p.store.Ports.Buckets, query, func(d bson.Raw) error {
		s := p.parseSegment(d)
		if projection == nil {
			s.Document, s.Bytes = slices.Clone(d), int64(len(d))
		}
		found.All = append(found.All, s)
		return nil
	})
	if err != nil {
		return found, mongodb.Failure(operation, err)
	}
	found.Now, err = p.store.Ports.Clock(ctx)
	return found, err
}

// parseSegment reads a document as a segment. A field of another type, as after an edit by hand, reads as zero.
func (p *Partition) parseSegment(d bson.Raw) claim.Segment {
	var s claim.Segment
	s.ID, _ = d.Lookup(timeseries.FieldID).ObjectIDOK()
	s.Meta = timeseries.Clone(d.Lookup(timeseries.FieldMeta))
	control, _ := d.Lookup(timeseries.FieldControl).DocumentOK()
	number := func(path ...string) int64 {
		n, _ := control.Lookup(path...).AsInt64OK()
		return n
	}
	source, _ := control.Lookup(timeseries.FieldSource).DocumentOK()
	segment, _ := control.Lookup(timeseries.FieldSegment).DocumentOK()
	s.TopicID, s.Compaction = timeseries.UUIDIn(source, timeseries.FieldTopicID), timeseries.UUIDIn(segment, timeseries.FieldCompaction)
	s.Min, _ = control.Lookup(timeseries.FieldMin, p.store.Options.TimeField).DateTimeOK()
	s.Count, s.Bytes = int32(number(timeseries.FieldCount)), number(timeseries.FieldSize)
	s.Low, s.High = textIn(segment, timeseries.FieldLow), textIn(segment, timeseries.FieldHigh)
	s.First = number(timeseries.FieldSource, timeseries.FieldFirst)
	s.Last = number(timeseries.FieldSource, timeseries.FieldLast)
	s.VisibleUntil, _ = segment.Lookup(timeseries.FieldVisibleUntil).DateTimeOK()
	return s
}

// textIn returns a binary field as a string. A field of another type reads as empty.
func textIn(d bson.Raw, key string) string {
	_, data, _ := d.Lookup(key).BinaryOK()
	return string(data)
}

// ChangeSegments makes one change to some segments of a compaction, each on its condition. A segment that does not meet the
// condition is left alone. After an error it is unknown which segments were changed.
func (p *Partition) ChangeSegments(ctx context.Context, c *claim.Compaction, change claim.SegmentChange, segments []claim.Segment) error {
	if p.standing != holding {
		return claim.ErrOtherOwner
	}
	ours := bson.E{Key: timeseries.PathSegmentCompaction, Value: timeseries.UUID(c.ID)}
	var condition bson.D
	var update bson.Raw
	switch change {
	case claim.Freeze:
		condition, update = bson.D{timeseries.IsAbsent(timeseries.PathSegmentCompaction)}, mongodb.Set(bson.D{ours})
	case claim.End:
		condition = bson.D{ours, timeseries.IsAbsent(timeseries.PathVisibleUntil)}
		update = mongodb.Set(bson.D{{Key: timeseries.PathVisibleUntil, Value: bson.DateTime(c.VisibleFrom)}})
	case claim.Unfreeze:
		condition = bson.D{ours, timeseries.IsAbsent(timeseries.PathVisibleUntil)}
		update = mongodb.Document(bson.D{{Key: "$unset", Value: bson.D{{Key: timeseries.PathSegmentCompaction, Value: ""}}}})
	}
	updates := make([]mongodb.Update, len(segments))
	for i := range segments {
		updates[i] = mongodb.Update{Filter: mongodb.Document(append(p.segmentKey(&segments[i]), condition...)), Update: update}
	}
	operation := [...]string{"freezing segments", "ending segments", "unfreezing segments"}[change]
	return mongodb.Failure(operation, p.updateEach(ctx, updates))
}

// segmentKey are the conditions that find a segment by its _id and shard key.
func (p *Partition) segmentKey(s *claim.Segment) bson.D {
	return bson.D{
		{Key: timeseries.FieldID, Value: s.ID},
		timeseries.HasMeta(s.Meta),
		{Key: timeseries.MinPath(p.store.Options.TimeField), Value: bson.DateTime(s.Min)},
	}
}

// updateEach carries out updates of buckets or segments, under the lease and within the write timeout.
func (p *Partition) updateEach(ctx context.Context, updates []mongodb.Update) error {
	ctx, cancel := context.WithTimeout(ctx, p.store.WriteTimeout)
	defer cancel()
	for chunk := range slices.Chunk(updates, p.store.CallWrites) {
		_, err := mongodb.Executed(p.leased(ctx, func(ctx context.Context) (mongodb.Reply, error) { return p.store.Ports.Buckets.Update(ctx, chunk) }))
		if err != nil {
			return err
		}
	}
	return nil
}

// DeleteCompacted deletes the buckets of a compaction of which no segment has ended, until it finds none. Only then may the
// segments be unfrozen. It searches without an upper offset, because a bucket may list larger offsets than the remaining
// segments. Others may have expired meanwhile. If the user may not delete, it hides the buckets for good. The error is then
// ErrUnauthorized, and an owner with the right finishes.
func (p *Partition) DeleteCompacted(ctx context.Context, c *claim.Compaction) error {
	const operation = "deleting the buckets of a compaction"
	if err := p.fence(ctx); err != nil {
		return err
	}
	minimum := timeseries.MinPath(p.store.Options.TimeField)
	source := p.source
	source.TopicID = c.TopicID
	query := mongodb.Query{
		Filter: mongodb.Document(append(timeseries.OfSource(source),
			bson.E{Key: timeseries.PathLast, Value: bson.D{{Key: "$gte", Value: c.First()}}},
			bson.E{Key: timeseries.PathCompactionID, Value: timeseries.UUID(c.ID)})),
		Projection: mongodb.Document(bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: minimum, Value: 1}}),
		Limit:      maxIDs, AtOnce: true,
	}
	for {
		var filters []bson.Raw
		err := p.find(ctx, p.store.Ports.Buckets, query, func(d bson.Raw) error {
			meta, least := d.Lookup(timeseries.FieldMeta), d.Lookup(timeseries.FieldControl, timeseries.FieldMin, p.store.Options.TimeField)
			key := timeseries.FullKey(d.Lookup(timeseries.FieldID), meta, p.store.Options.TimeField, least)
			filters = append(filters, mongodb.Document(append(key, bson.E{Key: timeseries.PathCompactionID, Value: timeseries.UUID(c.ID)})))
			return nil
		})
		if err != nil || len(filters) == 0 {
			return mongodb.Failure(operation, err)
		}
		err = p.delete(ctx, filters)
		if mongodb.LacksRight(err) {
			hide := make([]mongodb.Update, len(filters))
			for i, filter := range filters {
				hide[i] = mongodb.Update{Filter: filter, Update: mongodb.Set(bson.D{{Key: timeseries.PathVisibleFrom, Value: timeseries.Never}})}
			}
			if hidden := p.updateEach(ctx, hide); hidden != nil {
				return mongodb.Failure("hiding the buckets of a compaction that is rolled back", hidden)
			}
		}
		if err != nil {
			return mongodb.Failure(operation, err)
		}
	}
}

// delete deletes at most one document for each filter, under the lease and within the write timeout.
func (p *Partition) delete(ctx context.Context, filters []bson.Raw) error {
	if p.standing != holding {
		return claim.ErrOtherOwner
	}
	_, err := mongodb.Executed(p.leased(ctx, func(ctx context.Context) (mongodb.Reply, error) { return p.store.Ports.Buckets.Delete(ctx, filters) }))
	return err
}

// Sweep deletes segments that ended before a moment of MongoDB's clock.
func (p *Partition) Sweep(ctx context.Context, segments []claim.Segment, before time.Time) error {
	for chunk := range slices.Chunk(segments, maxIDs) {
		filters := make([]bson.Raw, len(chunk))
		for i := range chunk {
			filters[i] = mongodb.Document(append(p.segmentKey(&chunk[i]),
				bson.E{Key: timeseries.PathVisibleUntil, Value: bson.D{{Key: "$lt", Value: bson.NewDateTimeFromTime(before)}}}))
		}
		err := p.delete(ctx, filters)
		if err != nil {
			return mongodb.Failure("deleting ended segments", err)
		}
	}
	return nil
}
