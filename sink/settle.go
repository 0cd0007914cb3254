package sink

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/claim"
	"waterwheel/timeseries"
)

// fieldSettling is where a partition document announces a settling, in the form of settlingField.
const fieldSettling = "settling"

// Staging reads which segments the partition has, and whether a settling is announced.
func (p *Partition) Staging(ctx context.Context) (claim.Staging, error) {
	const doing = "reading which segments there are"
	var all claim.Staging
	if err := p.fence(ctx); err != nil {
		return all, err
	}
	query := Query{Filter: document(bson.D{{Key: "_id", Value: p.id}}), Projection: document(bson.D{{Key: fieldSettling, Value: 1}}), Limit: 1}
	err := p.find(ctx, p.store.ports.Partitions, query, func(d bson.Raw) error {
		if announced, ok := d.Lookup(fieldSettling).DocumentOK(); ok {
			all.Settling = parseSettling(announced)
		}
		return nil
	})
	if err != nil {
		return all, failure(doing, err)
	}
	query = Query{
		Filter: document(bson.D{{Key: timeseries.PathLow, Value: bson.D{{Key: "$gte", Value: int32(0)}}}, {Key: timeseries.PathOwner, Value: p.id}}),
		Projection: document(bson.D{
			{Key: timeseries.PathSegment, Value: 1},
			{Key: timeseries.PathCount, Value: 1},
			{Key: timeseries.PathSize, Value: 1},
			{Key: timeseries.PathTopicID, Value: 1},
		}),
		Batch: storedBatch,
	}
	err = p.find(ctx, p.store.ports.Buckets, query, func(d bson.Raw) error {
		s := parseSegment(d)
		size, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldSize).AsInt64OK()
		s.Bytes = size
		all.Segments = append(all.Segments, s)
		return nil
	})
	if err != nil {
		return all, failure(doing, err)
	}
	now, err := p.store.ports.Clock(ctx)
	all.Now = now.UnixMilli()
	return all, err
}

// parseSegment reads what a document says of itself as a segment; a field of another type, as after an edit by hand, reads as zero.
func parseSegment(d bson.Raw) claim.Segment {
	var s claim.Segment
	s.ID, _ = d.Lookup(timeseries.FieldID).ObjectIDOK()
	number := func(path ...string) int32 {
		n, _ := d.Lookup(append([]string{timeseries.FieldControl}, path...)...).AsInt64OK()
		return int32(n)
	}
	source, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldSource).DocumentOK()
	s.TopicID = uuidIn(source, timeseries.FieldTopicID)
	s.Count = number(timeseries.FieldCount)
	s.Low, s.High = number(timeseries.FieldSegment, timeseries.FieldLow), number(timeseries.FieldSegment, timeseries.FieldHigh)
	s.Edits = number(timeseries.FieldSegment, timeseries.FieldEdits)
	s.First, _ = d.Lookup(timeseries.FieldControl, timeseries.FieldSource, timeseries.FieldFirst).AsInt64OK()
	s.Last, _ = d.Lookup(timeseries.FieldControl, timeseries.FieldSource, timeseries.FieldLast).AsInt64OK()
	s.Until, _ = d.Lookup(timeseries.FieldControl, timeseries.FieldSegment, timeseries.FieldUntil).DateTimeOK()
	s.Bytes = int64(len(d))
	return s
}

// settlingField is a settling as the partition document has it.
func settlingField(s *claim.Settling) bson.D {
	ids := make(bson.A, len(s.Segments))
	for i := range s.Segments {
		ids[i] = s.Segments[i].ID
	}
	return bson.D{
		{Key: "by", Value: uuid(s.By)},
		{Key: "topicId", Value: uuid(s.TopicID)},
		{Key: "from", Value: bson.DateTime(s.From)},
		{Key: "segments", Value: ids},
		{Key: "first", Value: s.First},
		{Key: "last", Value: s.Last},
	}
}

func parseSettling(d bson.Raw) *claim.Settling {
	s := &claim.Settling{By: uuidIn(d, "by"), TopicID: uuidIn(d, "topicId")}
	s.From, _ = d.Lookup("from").DateTimeOK()
	s.First, _ = d.Lookup("first").AsInt64OK()
	s.Last, _ = d.Lookup("last").AsInt64OK()
	ids, _ := d.Lookup("segments").ArrayOK()
	values, _ := ids.Values()
	for _, v := range values {
		if id, ok := v.ObjectIDOK(); ok {
			s.Segments = append(s.Segments, claim.Segment{ID: id})
		}
	}
	return s
}

// Segments reads segments as a whole, and then MongoDB's clock. Those that are gone or have ended are left out.
func (p *Partition) Segments(ctx context.Context, ids []bson.ObjectID) (found []claim.Segment, now time.Time, err error) {
	for chunk := range slices.Chunk(ids, maxIDs) {
		query := Query{Filter: document(append(amongIDs(chunk),
			bson.E{Key: timeseries.PathLow, Value: bson.D{{Key: "$gte", Value: int32(0)}}}, notEnded()))}
		err := p.find(ctx, p.store.ports.Buckets, query, func(d bson.Raw) error {
			s := parseSegment(d)
			s.Document = slices.Clone(d)
			found = append(found, s)
			return nil
		})
		if err != nil {
			return nil, now, failure("reading segments", err)
		}
	}
	now, err = p.store.ports.Clock(ctx)
	return found, now, err
}

func amongIDs(ids []bson.ObjectID) bson.D {
	return bson.D{{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}}
}

func idsOf(segments []claim.Segment) []bson.ObjectID {
	ids := make([]bson.ObjectID, len(segments))
	for i := range segments {
		ids[i] = segments[i].ID
	}
	return ids
}

// notEnded is the condition that a segment has no end.
func notEnded() bson.E {
	return bson.E{Key: timeseries.PathUntil, Value: bson.D{{Key: "$exists", Value: false}}}
}

// Announce writes a settling into the partition document, unless another one stands there, or the claim is not ours any
// more: ErrAnnounced; which of them, Staging finds out.
func (p *Partition) Announce(ctx context.Context, s *claim.Settling) error {
	update := Update{
		Filter: document(append(p.shown(), bson.E{Key: fieldSettling, Value: bson.D{{Key: "$exists", Value: false}}})),
		Update: setFields(bson.D{{Key: fieldSettling, Value: settlingField(s)}}),
	}
	done, err := p.write(ctx, "announcing a settling", func(ctx context.Context, c Collection) (Reply, error) {
		return c.Update(ctx, []Update{update})
	})
	if err == nil && !done {
		return claim.ErrAnnounced
	}
	return err
}

// shown finds the partition document if it shows our claim.
func (p *Partition) shown() bson.D {
	return bson.D{{Key: "_id", Value: p.id}, {Key: "group", Value: p.group}, {Key: "claim", Value: uuid(p.token)}}
}

// CommitSettling ends some segments of a settling whose buckets are all inserted. An error, whatever it is, leaves it open how far
// that came: RecoverSettling finds out.
func (p *Partition) CommitSettling(ctx context.Context, s *claim.Settling, segments []claim.Segment) error {
	const doing = "ending settled segments"
	if p.standing != holding {
		return claim.ErrOtherOwner
	}
	end := setFields(bson.D{{Key: timeseries.PathUntil, Value: bson.DateTime(s.From)}, {Key: timeseries.PathSegmentBy, Value: uuid(s.By)}})
	updates := make([]Update, len(segments))
	for i := range segments {
		edits := bson.E{Key: timeseries.PathEdits, Value: bson.D{{Key: "$exists", Value: false}}}
		if n := segments[i].Edits; n != 0 {
			edits.Value = n
		}
		updates[i] = Update{Filter: document(bson.D{{Key: timeseries.FieldID, Value: segments[i].ID}, notEnded(), edits}), Update: end}
	}
	n, err := p.updateSegments(ctx, updates)
	if err != nil {
		return failure(doing, err)
	}
	if n != len(updates) {
		return claim.ErrEdited
	}
	return nil
}

// updateSegments carries updates out, and returns how many found their segment. An error tells that it is not known.
func (p *Partition) updateSegments(ctx context.Context, updates []Update) (found int, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.store.WriteTimeout)
	defer cancel()
	if ctx, err = p.ordered(ctx); err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(updates, p.store.CallWrites) {
		if !p.store.held() {
			return 0, claim.ErrLapsed
		}
		reply, err := p.store.ports.Buckets.Update(ctx, chunk)
		switch {
		case err != nil:
			return 0, within(p.store.WriteTimeout, err)
		case len(reply.Errors) > 0:
			return 0, &CommandError{Code: reply.Errors[0].Code, Message: reply.Errors[0].Message}
		case reply.Unconfirmed != nil:
			return 0, reply.Unconfirmed
		}
		found += reply.N
	}
	return found, nil
}

// ForgetSettling takes a settling out of the partition document, if it is there.
func (p *Partition) ForgetSettling(ctx context.Context, s *claim.Settling) error {
	update := Update{
		Filter: document(append(p.shown(), bson.E{Key: fieldSettling + ".by", Value: uuid(s.By)})),
		Update: document(bson.D{{Key: "$unset", Value: bson.D{{Key: fieldSettling, Value: ""}}}}),
	}
	_, err := p.write(ctx, "forgetting a settling", func(ctx context.Context, c Collection) (Reply, error) {
		return c.Update(ctx, []Update{update})
	})
	return err
}

// RecoverSettling tells whether all segments of a settling have ended. Else it must be undone: by TakeBackSettling until that
// succeeds, then by DeleteSettled. No insert of it may still be executed.
func (p *Partition) RecoverSettling(ctx context.Context, s *claim.Settling) (finished bool, err error) {
	if err := p.fence(ctx); err != nil {
		return false, err
	}
	ended := 0
	for chunk := range slices.Chunk(idsOf(s.Segments), maxIDs) {
		query := Query{
			Filter:     document(append(amongIDs(chunk), bson.E{Key: timeseries.PathSegmentBy, Value: uuid(s.By)})),
			Projection: document(bson.D{{Key: timeseries.FieldID, Value: 1}}),
		}
		err := p.find(ctx, p.store.ports.Buckets, query, func(bson.Raw) error {
			ended++
			return nil
		})
		if err != nil {
			return false, failure("recovering a settling", err)
		}
	}
	return ended == len(s.Segments) && ended > 0, nil
}

// TakeBackSettling takes back that some segments of a settling have ended, and counts their edits, so that nothing of a commit that
// is still on its way finds them.
func (p *Partition) TakeBackSettling(ctx context.Context, s *claim.Settling, segments []claim.Segment) error {
	if p.standing != holding {
		return claim.ErrOtherOwner
	}
	update := document(bson.D{
		{Key: "$unset", Value: bson.D{{Key: timeseries.PathUntil, Value: ""}, {Key: timeseries.PathSegmentBy, Value: ""}}},
		{Key: "$inc", Value: bson.D{{Key: timeseries.PathEdits, Value: int32(1)}}},
	})
	updates := make([]Update, len(segments))
	for i := range segments {
		updates[i] = Update{
			Filter: document(bson.D{
				{Key: timeseries.FieldID, Value: segments[i].ID},
				{Key: "$or", Value: bson.A{
					bson.D{{Key: timeseries.PathSegmentBy, Value: bson.D{{Key: "$exists", Value: false}}}},
					bson.D{{Key: timeseries.PathSegmentBy, Value: uuid(s.By)}},
				}},
			}),
			Update: update,
		}
	}
	_, err := p.updateSegments(ctx, updates)
	return failure("taking back the end of segments", err)
}

// DeleteSettled deletes the buckets of a settling that was taken back. Only then may it be forgotten: as long as it stands in the
// partition document, whoever comes next goes on with this. Stale are _ids at which its inserts met other documents: buckets of an
// earlier settling that came late. They are deleted as well.
func (p *Partition) DeleteSettled(ctx context.Context, s *claim.Settling, stale []bson.ObjectID) error {
	const doing = "deleting the buckets of a settling"
	source := p.source
	source.TopicID = s.TopicID
	err := p.delete(ctx, append(sourceFilter(source),
		bson.E{Key: timeseries.PathLast, Value: bson.D{{Key: "$gte", Value: s.First}, {Key: "$lte", Value: s.Last}}},
		bson.E{Key: timeseries.PathSettledBy, Value: uuid(s.By)}))
	if err == nil {
		err = p.deleteStale(ctx, s, stale)
	}
	return failure(doing, err)
}

// deleteStale deletes those of some buckets of other settlings that hold nothing but what the segments of this one hold: they were
// undone. It names the settlings: executed late, it finds no bucket of a later one.
func (p *Partition) deleteStale(ctx context.Context, s *claim.Settling, ids []bson.ObjectID) error {
	if len(ids) == 0 {
		return nil
	}
	held := map[timeseries.Position]bool{}
	for chunk := range slices.Chunk(idsOf(s.Segments), maxIDs) {
		err := p.eachOf(ctx, amongIDs(chunk), func(_ bson.Raw, positions []timeseries.Position) {
			for _, position := range positions {
				held[position] = true
			}
		})
		if err != nil {
			return err
		}
	}
	var stale []bson.ObjectID
	var by bson.A
	settled := append(amongIDs(ids), bson.E{Key: timeseries.PathSettledBy, Value: bson.D{{Key: "$exists", Value: true}}})
	err := p.eachOf(ctx, settled, func(d bson.Raw, positions []timeseries.Position) {
		if id, ok := d.Lookup(timeseries.FieldID).ObjectIDOK(); ok && !slices.ContainsFunc(positions, func(o timeseries.Position) bool { return !held[o] }) {
			stale = append(stale, id)
			by = append(by, cloned(d.Lookup(timeseries.FieldControl, timeseries.FieldSettled, timeseries.FieldBy)))
		}
	})
	if err != nil || len(stale) == 0 {
		return err
	}
	return p.delete(ctx, append(amongIDs(stale), bson.E{Key: timeseries.PathSettledBy, Value: bson.D{{Key: "$in", Value: by}}}))
}

// eachOf calls use for each document that a filter finds, with the positions that it lists.
func (p *Partition) eachOf(ctx context.Context, filter bson.D, use func(d bson.Raw, positions []timeseries.Position)) error {
	query := Query{Filter: document(filter), Projection: document(bson.D{
		{Key: timeseries.PathOffsets, Value: 1}, {Key: timeseries.PathCount, Value: 1}, {Key: timeseries.PathSettledBy, Value: 1},
	})}
	return p.find(ctx, p.store.ports.Buckets, query, func(d bson.Raw) error {
		var positions []timeseries.Position
		err := p.readListed(d, func(element []byte) (int, error) {
			before := len(positions)
			var err error
			positions, err = timeseries.DecodePositions(positions, element)
			return len(positions) - before, err
		})
		if err == nil {
			use(d, positions)
		}
		return err
	})
}

// delete deletes all buckets that a filter finds, if the lease holds, within the write timeout.
func (p *Partition) delete(ctx context.Context, filter bson.D) error {
	ctx, cancel := context.WithTimeout(ctx, p.store.WriteTimeout)
	defer cancel()
	if p.standing != holding {
		return claim.ErrOtherOwner
	}
	if !p.store.held() {
		return claim.ErrLapsed
	}
	_, err := p.store.ports.Buckets.Delete(ctx, document(filter))
	return within(p.store.WriteTimeout, err)
}

// Sweep deletes segments that ended before a moment of MongoDB's clock.
func (p *Partition) Sweep(ctx context.Context, ids []bson.ObjectID, before time.Time) error {
	ended := bson.E{Key: timeseries.PathUntil, Value: bson.D{{Key: "$lt", Value: bson.NewDateTimeFromTime(before)}}}
	for chunk := range slices.Chunk(ids, maxIDs) {
		if err := p.delete(ctx, append(amongIDs(chunk), ended)); err != nil {
			return failure("deleting ended segments", err)
		}
	}
	return nil
}
