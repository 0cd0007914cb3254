package bucketer

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// Options define a catalog.
type Options struct {
	// Collection has the collection's options, as Normalize returns them.
	Collection timeseries.Options
	Limits     timeseries.Limits
	// Source is the partition that all measurements come from.
	Source timeseries.Source
	// DeltaMax is the largest number of measurements that one update adds to a stored bucket. More measurements open a new bucket.
	// Zero means no limit.
	DeltaMax int32
	// SetsInTextOrder means that the database executes the paths of a $set in the order of their text, not of the numbers in them.
	// Then "10" would come before "9" in a column, so no update has indexes of different lengths.
	SetsInTextOrder bool
	// FlushWrites is the largest number of writes in a flush; but a fourth of the waiting writes is always allowed. It bounds the
	// memory of encoded writes. Zero means no limit.
	FlushWrites int
	// DenseFrom is the number of measurements from which a bucket gets a write of its own. Fewer measurements go into segments,
	// together with those of other series. Zero means that there are no segments.
	DenseFrom int32
	// SegmentRows is the largest number of measurements in a segment. Segments of small flushes have fewer. Zero means as many as
	// in a bucket.
	SegmentRows int32
	// SegmentOrder are paths within the meta. Series are ordered by their values, the first path first, so that each segment
	// covers few values. Series with equal values, or all if there are no paths, are ordered by their whole meta.
	SegmentOrder []string
	// Owner is the _id of the partition document whose owner compacts the segments.
	Owner string
	// CompactionMark is written into every bucket, and each bucket is closed by its first write. The catalog then serves to compact
	// segments. Nil means an ordinary catalog.
	Compaction *CompactionMark
	// Reopen means that stored buckets are looked for before new ones are opened (Lookups, Load). The catalog keeps an archive for
	// that.
	Reopen bool
}

// Catalog holds the buckets of one partition: their series, how full they are, and the measurements that wait to be written. It
// has one owner, who calls
//
//	Insert, for each measurement; Lookups and Load, when Reopen is set;
//	Prepare, for the next writes; Finish, when the outcome of each of these writes is known;
//	Release, when these writes are not read any more, so that their memory can be used again.
//
// Between Prepare and Finish every method except Prepare may be called.
type Catalog struct {
	options  Options
	span     int64 // milliseconds
	time     int64 // accounted bytes of a new time column
	series   table
	buckets  map[bson.ObjectID]*bucket // all in memory: open, rolled over, or in flight
	archive  archiveIndex
	shapes   shapes
	buffers  buffers
	bounds   boundsPool
	encoder  encoder
	spare    spare
	idle     idleList
	lookups  awaitingLookup
	unseen   unseen
	mostOpen int      // largest number of open buckets of a series
	foreseen foreseen // used only while Load places measurements

	dirty   []*bucket // buckets with something to write, in the order they were first touched
	rest    int       // how many of them, from the first on, the last flush could not take
	pending totals
	flight  *flight
	borders borders // of segments
	keptOut keptOut // of segments

	// attempts counts, by position, how often a conflict made the measurement open a bucket again.
	attempts map[timeseries.Position]int32

	memory memory
	stats  Stats
	key    []byte // scratch
}

// totals accounts for the measurements of the next Prepare.
type totals struct {
	measurements int
	bytes        int64
	oldest       int64 // at most their smallest offset, exact after each Prepare; valid if there are any
}

// New returns an empty catalog.
func New(o Options) *Catalog {
	o.Reopen = o.Reopen && o.DenseFrom == 0 // late measurements go into segments
	c := &Catalog{
		options:  o,
		series:   newTable(),
		buckets:  map[bson.ObjectID]*bucket{},
		archive:  newArchiveIndex(0),
		shapes:   newShapes(),
		encoder:  newEncoder(o.Collection.TimeField, o.Source, o.Compaction),
		attempts: map[timeseries.Position]int32{},
		mostOpen: openKinds,
	}
	if o.Compaction != nil {
		c.mostOpen = compactedKinds
	}
	c.Begin(math.MaxInt64)
	c.SetCollection(o.Collection)
	return c
}

// SetCollection applies changed options of the collection. A bucket keeps its minimum time, and the new span holds for it at
// once. The names of the fields do not change.
func (c *Catalog) SetCollection(o timeseries.Options) {
	c.options.Collection = o
	c.span = o.Span()
	c.time = columnBytes(len(o.TimeField), 8)
}

// Insert takes a measurement and keeps a copy of it. With Reopen it may have to ask the database first. Then it keeps the
// measurement, and later ones of the same series, until the answer is loaded.
//
// An error wraps ErrMalformed and means that the measurement does not come from a Decoder. The catalog is unchanged then.
func (c *Catalog) Insert(m *measurement.Measurement) error {
	r := row{position: m.Position, time: m.Time, elements: m.Elements}
	c.key = appendKey(c.key[:0], m.Meta)
	s := c.series.find(c.key)
	if s != nil && s.open != nil && !s.isAwaiting() {
		v := s.open.shape.survey(r.elements)
		if v.match != fits || v.unordered {
			if err := c.validate(r.elements); err != nil {
				return err
			}
		}
		c.place(s, r, v, mayAsk)
		return nil
	}
	if err := c.validate(r.elements); err != nil {
		return err
	}
	if s == nil {
		s = c.addSeries(string(c.key))
	}
	c.put(s, r)
	return nil
}

// put places a measurement that was already validated.
func (c *Catalog) put(s *series, r row) {
	var v survey
	if s.open != nil && !s.isAwaiting() {
		v = s.open.shape.survey(r.elements)
	}
	c.place(s, r, v, mayAsk)
}

// ErrMalformed is wrapped by errors about measurements that no Decoder makes.
var ErrMalformed = errors.New("malformed measurement")

// maxDocument is MongoDB's limit for a document, in bytes.
const maxDocument = 16 << 20

// validate checks that elements are well-formed, and that their names can name columns and are unique.
func (c *Catalog) validate(elements []byte) error {
	count := 0
	for rest := elements; len(rest) > 0; count++ {
		e, after, ok := rawbson.Read(rest)
		if !ok {
			return fmt.Errorf("%w: its fields are not valid BSON", ErrMalformed)
		}
		rest = after
		if !isColumnName(e.Name) || string(e.Name) == c.options.Collection.TimeField {
			return fmt.Errorf("%w: a field cannot have the name %q", ErrMalformed, e.Name)
		}
		if rawbson.IsNested(e.Kind) && (*schema)(nil).check(e.Kind, e.Value, 1) == malformed {
			return fmt.Errorf("%w: the field %q is not valid BSON, or is nested deeper than %d levels", ErrMalformed, e.Name, maxDepth)
		}
	}
	if hasTwins(elements, count) {
		return fmt.Errorf("%w: two fields have the same name", ErrMalformed)
	}
	return nil
}

// isColumnName reports whether the path of an update can address a name as one field.
func isColumnName(name []byte) bool {
	return len(name) > 0 && name[0] != '$' && bytes.IndexByte(name, '.') < 0
}

// hasTwins reports whether two of count elements have the same name.
func hasTwins(elements []byte, count int) bool {
	if count > indexed {
		seen := make(map[string]struct{}, count)
		for e := range rawbson.All(elements) {
			seen[string(e.Name)] = struct{}{}
		}
		return len(seen) < count
	}
	for rest := elements; len(rest) > 0; {
		var e rawbson.Element
		rest = e.Cut(rest)
		for other := range rawbson.All(rest) {
			if bytes.Equal(e.Name, other.Name) {
				return true
			}
		}
	}
	return false
}

// Pending returns how many measurements the next Prepare would find, and their bytes in memory. It counts measurements of
// series that back off, but neither those that await look-ups nor those in flight.
func (c *Catalog) Pending() (measurements int, bytes int64) {
	return c.pending.measurements, c.pending.bytes
}

// Dirty returns about how many buckets the next Prepare would write.
func (c *Catalog) Dirty() int { return len(c.dirty) }

// Oldest returns the smallest offset of a measurement that is pending, awaiting a look-up or in flight (E6).
func (c *Catalog) Oldest() (offset int64, ok bool) {
	lower := func(candidate int64) {
		if !ok || candidate < offset {
			offset, ok = candidate, true
		}
	}
	if c.pending.measurements > 0 {
		lower(c.pending.oldest)
	}
	if c.flight != nil && c.flight.Measurements > 0 {
		lower(c.flight.oldest)
	}
	if awaiting, any := c.lookups.oldest(); any {
		lower(awaiting)
	}
	return offset, ok
}

func (c *Catalog) addSeries(key string) *series {
	s := &series{key: key}
	c.series.add(s)
	c.memory.series += seriesBytes + classBytes(len(key))
	return s
}

// extra returns s.more, and makes it if necessary.
func (c *Catalog) extra(s *series) *more {
	if s.more == nil {
		s.more = &more{}
		c.memory.series += moreBytes
	}
	return s.more
}

// retire forgets the extra state that a series no longer needs, and the series itself when nothing of it is left. Exclusions
// that only hold for an open bucket end with it.
func (c *Catalog) retire(s *series) {
	empty := s.open == nil && (s.more == nil || s.more.rolled.live == 0 && s.more.wanted == nil)
	if s.more != nil && (empty || s.more.isOrdinary()) {
		c.memory.series -= moreBytes + int64(cap(s.more.others))*pointerBytes
		s.more = nil
	}
	if empty && c.series.remove(s) {
		c.memory.series -= seriesBytes + classBytes(len(s.key))
	}
}
