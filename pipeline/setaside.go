package pipeline

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/timeseries"
)

// refusals are the series whose buckets MongoDB has refused in a compaction.
type refusals struct {
	metas   []bson.RawValue // type 0 means the series without a meta
	message string          // of the first refusal
}

// add notes that MongoDB refuses the bucket that a write inserts.
func (r *refusals) add(w *bucketer.Write, message string) {
	meta, _ := w.Document.LookupErr(timeseries.FieldMeta) // the zero value if there is none
	if r.metas = append(r.metas, meta); len(r.metas) == 1 {
		r.message = message
	}
}

// first returns the first meta as text.
func (r *refusals) first() string {
	if r.metas[0].Type == 0 {
		return "none"
	}
	return r.metas[0].String()
}

// compactionRefused rolls back a compaction with buckets that MongoDB refuses. Their series are kept out of segments, so that
// new measurements of them become a bucket or a dead letter. Segments with these series are left aside, and all others are
// compacted.
func (w *Worker) compactionRefused(m Moment, c *compaction, refused *refusals) {
	s := &w.term.segments
	for _, meta := range refused.metas {
		w.catalog.KeepOut(meta)
	}
	for i, document := range c.read {
		if holds, err := bucketer.HoldsSeries(w.o.Bucketing.Collection, document, refused.metas); holds || err != nil {
			s.leave(c.Segments[i].ID, m.Now+refusedRetry)
			c.left++
		}
	}
	w.log.Error("MongoDB refuses a bucket of a compaction: correct the index or the validator that refuses it. "+
		"Segments with this series are tried again later, and all others are compacted",
		"compaction", c.ID.String(), "meta", refused.first(), "series", len(refused.metas), "segments", c.left, "retry_in", refusedRetry, "err", refused.message)
	w.metrics.failed(compactingSegments)
	w.succeeded(&s.retry, MongoDB)
	w.rollBack(m, becauseRefused)
}
