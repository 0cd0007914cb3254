package verify

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// readCompaction reads whether the document is a segment, and which compaction it belongs to.
func (b *listing) readCompaction() {
	at := timeseries.FieldVisibleFrom
	about := b.control(timeseries.FieldSegment)
	if b.segment = about.Type == bson.TypeEmbeddedDocument; b.segment {
		at = timeseries.FieldVisibleUntil
	} else {
		about = b.control(timeseries.FieldCompaction)
	}
	if about.Type != bson.TypeEmbeddedDocument {
		return
	}
	var dated bool
	b.moment, dated = lookup(about.Value, at).DateTimeOK()
	b.ended = b.segment && dated
	id := timeseries.FieldCompactionID
	if b.segment {
		id = timeseries.FieldCompaction
	}
	b.compaction, _ = tokenOf(lookup(about.Value, id))
}

func tokenOf(v bson.RawValue) (id claim.Token, ok bool) {
	subtype, data, binary := v.BinaryOK()
	if ok = binary && subtype == bson.TypeBinaryUUID && len(data) == len(id); ok {
		copy(id[:], data)
	}
	return id, ok
}

// compactionFault returns the path at which the document's compaction fields have a wrong form, and a text about it. An empty
// path means that they are right.
func (b *listing) compactionFault() (path, text string) {
	if about := b.control(timeseries.FieldSegment); about.Type != 0 && !b.segment {
		return timeseries.PathSegment, fmt.Sprintf("is %s, not an object", show(about))
	}
	if b.segment {
		return b.momentFault(timeseries.FieldSegment, timeseries.FieldVisibleUntil, timeseries.FieldCompaction)
	}
	return b.momentFault(timeseries.FieldCompaction, timeseries.FieldVisibleFrom, timeseries.FieldCompactionID)
}

// momentFault checks a moment and the token beside it. A segment may lack both.
func (b *listing) momentFault(within, moment, id string) (path, text string) {
	at, by := b.control(within, moment), b.control(within, id)
	if at.Type == 0 && by.Type == 0 && (b.segment || b.control(within).Type == 0) {
		return "", ""
	}
	if _, ok := at.DateTimeOK(); !ok && (at.Type != 0 || !b.segment) { // a frozen segment has no such moment
		return timeseries.Path(timeseries.FieldControl, within, moment), fmt.Sprintf("is %s, not a date", show(at))
	}
	if _, ok := tokenOf(by); !ok {
		return timeseries.Path(timeseries.FieldControl, within, id), fmt.Sprintf("is %s, not a UUID", show(by))
	}
	return "", ""
}

// checkSegment checks the fields that must have certain values in a segment with these metas.
func (w *window) checkSegment(b *listing, metas *timeseries.Bloom) {
	closed, _ := b.control(timeseries.FieldClosed).BooleanOK()
	meta := lookup(b.document, timeseries.FieldMeta)
	id, _ := lookup(b.document, timeseries.FieldID).ObjectIDOK()
	switch {
	case !meta.Equal(timeseries.SegmentMetaOf(id)):
		w.damaged(b, timeseries.FieldMeta, "is %s, but a segment with this _id has %s", show(meta), show(timeseries.SegmentMetaOf(id)))
	case !closed:
		w.damaged(b, timeseries.PathClosed, "is %s, but every segment is closed", show(b.control(timeseries.FieldClosed)))
	default:
		about, _ := b.control(timeseries.FieldSegment).DocumentOK()
		if path := metas.Lacks(about); path != "" {
			w.damaged(b, path, "is not the Bloom filter of the segment's metas, so `query` may miss measurements: remove this field with $unset")
		}
	}
}
