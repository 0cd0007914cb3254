package bucketer

import (
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries"
)

// Options define a catalog.
type Options struct {
	// Collection is as its Normalize returns it.
	Collection timeseries.Options
	Limits     timeseries.Limits
	// Source is the partition that all measurements come from.
	Source timeseries.Source
	// DeltaMax is for how many measurements a stored bucket still gets an update; beyond it they open a new bucket.
	// Zero means no limit.
	DeltaMax int32
	// SetsInTextOrder means that the database carries the paths of a $set out in the order of their text, not of the numbers in
	// them, so that "10" would come before "9" in a column. No update then holds indexes of different lengths.
	SetsInTextOrder bool
	// FlushWrites is how many writes a flush has at most, or a fourth of those that wait if that is more. It bounds what
	// encoded writes take. Zero means no limit.
	FlushWrites int
	// DenseFrom is of how many measurements that wait for a bucket they get a write of their own. Fewer are written together
	// with those of other series, in segments. Zero means that there are no segments.
	DenseFrom int32
	// SegmentRows is how many measurements a segment of a large flush has at most; segments of smaller flushes have fewer. Zero means
	// as many as a bucket.
	SegmentRows int32
	// SegmentOrder are the paths within the meta by whose values series are put into segments, so that each covers few values: the
	// first path counts most. Series that agree in all of them, or all where there are none, go by their whole meta.
	SegmentOrder []string
	// Owner is the _id of the partition document whose owner compacts the segments.
	Owner string
	// Compaction is put into every bucket, which is closed by its first write: the catalog serves to compact segments. Nil means that it
	// does not.
	Compaction *Compaction
	// Reopen looks for stored buckets before new ones are opened (Lookups, Load), and keeps an archive for that.
	Reopen bool
}

// Catalog is the buckets of one partition: of which series, how full, what of them waits to be written. It has one
// owner, who calls
//
//	Insert, for each measurement; Lookups and Load, when Reopen is set;
//	Prepare, for what is to be written; Finish, when the outcome of each of these writes is known;
//	Release, when nobody reads these writes any more, if the memory is to be used again.
//
// Between Prepare and Finish everything else may be called, except Prepare.
type Catalog struct {
	options  Options
	span     int64 // milliseconds
	time     int64 // accounted bytes of the column of the time, when it is new
	series   table
	buckets  map[bson.ObjectID]*bucket // all in memory: open, rolled over, in flight
	archive  archiveIndex
	shapes   shapes
	buffers  buffers
	bounds   boundsPool
	encoder  encoder
	spare    spare
	idle     idleList
	lookups  parking
	unseen   unseen
	mostOpen int      // largest number of open buckets of a series
	foreseen foreseen // only while Load places measurements

	dirty   []*bucket // buckets with something to write, in the order they were first touched
	rest    int       // so many of them, the first, the last flush could not take
	pending totals
	flight  *flight
	borders borders // of segments
	keptOut keptOut // of segments

	// attempts holds the positions that a conflict made to open a bucket again, and how often.
	attempts map[timeseries.Position]int32

	memory memory
	stats  Stats
	key    []byte // scratch
}

// totals accounts for the measurements in the next Prepare.
type totals struct {
	measurements int
	bytes        int64
	oldest       int64 // not above the smallest offset of them, exact after each Prepare; valid if there are any
}

// New returns an empty catalog.
func New(o Options) *Catalog {
	o.Reopen = o.Reopen && o.DenseFrom == 0 // what comes late goes into segments
	c := &Catalog{
		options:  o,
		series:   newTable(),
		buckets:  map[bson.ObjectID]*bucket{},
		archive:  newArchiveIndex(),
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

// SetCollection applies changed options of the collection. A bucket keeps its minimum time; the new span holds for it
// at once. The names of the fields do not change.
func (c *Catalog) SetCollection(o timeseries.Options) {
	c.options.Collection = o
	c.span = o.Span()
	c.time = columnBytes(len(o.TimeField), 8)
}

// Insert takes a measurement, of which it keeps a copy. With Reopen it may have to ask the database first; the
// measurement is then parked, and so are later ones of its series, until the answer is loaded.
//
// The error wraps ErrMalformed: the measurement does not come from a Decoder. Nothing has then changed.
func (c *Catalog) Insert(m *measurement.Measurement) error {
	r := row{position: m.Position, time: m.Time, elements: m.Elements}
	c.key = appendKey(c.key[:0], m.Meta)
	s := c.series.find(c.key)
	if s != nil && s.open != nil && !s.isParked() {
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

// put places a measurement that was validated before.
func (c *Catalog) put(s *series, r row) {
	var v survey
	if s.open != nil && !s.isParked() {
		v = s.open.shape.survey(r.elements)
	}
	c.place(s, r, v, mayAsk)
}

// Pending returns how many measurements the next Prepare would find, and their bytes in memory. Parked ones and those
// in flight are not among them; measurements of series that back off are.
func (c *Catalog) Pending() (measurements int, bytes int64) {
	return c.pending.measurements, c.pending.bytes
}

// Dirty returns how many buckets the next Prepare would write, about.
func (c *Catalog) Dirty() int { return len(c.dirty) }

// Oldest returns the smallest offset of a measurement that is pending, parked or in flight (E6).
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
	if parked, any := c.lookups.oldest(); any {
		lower(parked)
	}
	return offset, ok
}

func (c *Catalog) addSeries(key string) *series {
	s := &series{key: key}
	c.series.add(s)
	c.memory.series += seriesBytes + classBytes(len(key))
	return s
}

// extra returns s.more, made when it is not there.
func (c *Catalog) extra(s *series) *more {
	if s.more == nil {
		s.more = &more{}
		c.memory.series += moreBytes
	}
	return s.more
}

// retire forgets what a series no longer needs, and the series when nothing is left of it. Bounds that were only to hold
// for an open bucket end with it.
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
