package keeper

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// These describe the time series of the model.
const (
	baseName   = "m"
	modelGroup = "g"
	keptFor    = 6 * time.Hour
	modelSpan  = int64(60 * 60 * 1000)
)

var baseOptions = func() timeseries.Options {
	o, err := timeseries.Options{TimeField: "time", MetaField: "meta", ExpireAfterSeconds: int64(keptFor / time.Second)}.Normalize()
	if err != nil {
		panic(err)
	}
	return o
}()

// world is a random course of a time series with rollups. Two processes store its partitions. There are keepers, commands, and
// edits by hand.
type world struct {
	rnd       *rand.Rand
	mem       *memory
	now       time.Time // time of the server
	parts     []*part
	actors    []*actor
	yields    chan *actor
	bits      map[int64]int            // number of measurements of each hour
	of        map[int64]map[int]*entry // measurement by hour and bit
	handed    map[cell]bool            // hours of a series from which an edit by hand has deleted measurements
	visible   map[string]time.Time     // the moment from which queries see the buckets of a compaction
	late      map[cell]bool            // hours of compactions that were unfinished at that moment
	torn      map[cell]bool            // days of a series that lost measurements while a pass may have been reading them
	counts    map[cell]int64           // counts of the rows of hours at the last check
	checked   int                      // number of writes at the last check
	checkedAt time.Time                // time of the last check
	delay     time.Duration            // COMPACT_VISIBILITY_DELAY
	command   *command                 // a command that waits for a compaction. Nil means none.
	whole     map[string]bool          // notes whose rows were computed since queries see the whole edit
	edits     map[string]lastEdit      // last edit of each series
	stale     map[string]bool          // series with a document that was computed before an edit and inserted after it
	calm      bool                     // no faults and no other events
	nested    *Nested                  // Nil means no nested documents.
	ids       uint64
	violation string
	trail     []string
}

// cell is an hour of a series.
type cell struct {
	series string
	hour   int64
}

// entry is a measurement in the log of a partition.
type entry struct {
	offset int64
	time   int64
	series string // as the producer sent it
	bit    int
}

// part is a partition and its log.
type part struct {
	number  int32
	topic   [16]byte
	log     []*entry
	unsaved map[int64]bool // offsets that the present owner has not stored
	start   int64
	claim   claim.Token
	claimed bool

	compacting bool // its owner has begun a compaction, and has not ended
}

func (p *part) done() int64 {
	done := int64(len(p.log))
	for offset := range p.unsaved {
		done = min(done, offset)
	}
	return done
}

func (p *part) source() timeseries.Source {
	return timeseries.Source{Topic: "t", TopicID: p.topic, Partition: p.number}
}

func (p *part) id() string { return claim.DocumentID("c", "t", p.number) }

// actor does work in steps. Other actors work between its steps.
type actor struct {
	name   string
	resume chan bool // true ends the process at this step
	done   bool
	looked time.Time         // when it last asked for the server's time
	read   int               // version of the oldest buckets that it has read since then
	edits  []string          // the series that it edits
	notes  []sink.RollupNote // the notes whose rows it computes
}

type actorKey struct{}

func newWorld(seed uint64) *world {
	w := &world{
		rnd: rand.New(rand.NewPCG(seed, 7)), now: time.UnixMilli(1_772_000_000_000), yields: make(chan *actor),
		bits: map[int64]int{}, of: map[int64]map[int]*entry{}, handed: map[cell]bool{}, torn: map[cell]bool{}, counts: map[cell]int64{},
		whole: map[string]bool{}, edits: map[string]lastEdit{}, stale: map[string]bool{}, visible: map[string]time.Time{}, late: map[cell]bool{},
	}
	w.delay = []time.Duration{time.Minute, 4 * time.Minute, 30 * time.Minute}[w.rnd.IntN(3)]
	w.mem = newMemory(w)
	levels := bson.A{}
	for _, name := range []string{rollup.Minute, rollup.Hour, rollup.Day} {
		level, _ := rollup.LevelOf(name)
		w.put(name+".options", timeseries.Definition{ID: timeseries.DefinitionID, Version: 1, Options: level.Options(baseOptions), RollupOf: baseName})
		levels = append(levels, rollup.DefinedLevel{Name: name, Count: "count"})
	}
	w.put("options", timeseries.Definition{ID: timeseries.DefinitionID, Version: 1, Options: baseOptions, Segments: true})
	w.put("options", bson.D{{Key: "_id", Value: rollup.DefinitionID}, {Key: "levels", Value: levels}})
	for n := range 2 {
		w.parts = append(w.parts, &part{number: int32(n), topic: [16]byte{byte(n + 1)}, unsaved: map[int64]bool{}})
	}
	return w
}

func (w *world) put(collection string, document any) {
	raw := encoded(document)
	w.mem.write(collection, func(all map[string]bson.Raw) { all[idOf(raw)] = raw })
}

func (w *world) logf(format string, about ...any) {
	w.trail = append(w.trail, fmt.Sprintf(format, about...))
}

// begin starts an actor, and lets it run until its first step.
func (w *world) begin(name string, do func(ctx context.Context, a *actor)) {
	a := &actor{name: name, resume: make(chan bool)}
	w.actors = append(w.actors, a)
	go func() {
		if !<-a.resume {
			do(context.WithValue(context.Background(), actorKey{}, a), a)
		}
		a.done = true
		w.yields <- a
	}()
	w.go1(a, false)
}

// go1 lets an actor continue to its next step.
func (w *world) go1(a *actor, ends bool) {
	a.resume <- ends
	<-w.yields
	w.check() // with the notes of an actor whose last write was just executed
	if a.done {
		w.actors = slices.DeleteFunc(w.actors, func(o *actor) bool { return o == a })
	}
}

// step lets other actors go first. An error ends the process.
func (w *world) step(ctx context.Context) error {
	a, ok := ctx.Value(actorKey{}).(*actor)
	if !ok {
		return nil
	}
	w.yields <- a
	if <-a.resume {
		return errCrash
	}
	return nil
}

// answer returns an error if the answer is lost.
func (w *world) answer(ctx context.Context) error {
	if _, ok := ctx.Value(actorKey{}).(*actor); ok && !w.calm && w.rnd.IntN(60) == 0 {
		return fmt.Errorf("no answer")
	}
	return nil
}

// level is the collection of a level. It inserts no document long after its rows were computed, because the lease of the process
// has lapsed.
type level struct{ memoryCollection }

func (l level) Insert(ctx context.Context, documents []bson.Raw) (mongodb.Reply, error) {
	if a, ok := ctx.Value(actorKey{}).(*actor); ok && l.m.w.now.Sub(a.looked) > noteLinger-time.Minute {
		return mongodb.Reply{}, errCrash
	}
	reply, err := l.memoryCollection.Insert(ctx, documents)
	if a, ok := ctx.Value(actorKey{}).(*actor); ok {
		l.m.w.inserted(a, documents)
	}
	return reply, err
}

func (w *world) ports() collection.Ports {
	return collection.Ports{
		Buckets: memoryCollection{w.mem, "buckets"}, Partitions: memoryCollection{w.mem, "partitions"}, Options: memoryCollection{w.mem, "options"},
		Session: func() (mongodb.Session, error) { return &session{}, nil },
		Clock: func(ctx context.Context) (time.Time, error) {
			if err := w.step(ctx); err != nil {
				return time.Time{}, err
			}
			if a, ok := ctx.Value(actorKey{}).(*actor); ok {
				a.looked, a.read = w.now, len(w.mem.versions)
			}
			return w.now, nil
		},
	}
}

func (w *world) rollups() *sink.Rollups {
	ports := sink.RollupPorts{
		Ports: w.ports(), Levels: map[string]mongodb.Collection{}, LevelOptions: map[string]mongodb.Collection{},
	}
	for _, name := range []string{rollup.Minute, rollup.Hour, rollup.Day} {
		ports.Levels[name], ports.LevelOptions[name] = level{memoryCollection{w.mem, name}}, memoryCollection{w.mem, name + ".options"}
	}
	return sink.NewRollups(baseName, ports, time.Second)
}

// work returns a keeper's work.
func (w *world) work(ctx context.Context) (*work, error) {
	r := w.rollups()
	state, err := r.State(ctx)
	if err != nil {
		return nil, err
	}
	of := newWork(r, state, NewMetrics(nil))
	of.now = func() time.Time { return w.now }
	of.size = 1 + w.rnd.IntN(3)
	of.nested = w.nested
	return of, nil
}

// measurement is a measurement in the database, shown or hidden.
type measurement struct {
	record *entry
	series string
	topic  [16]byte
	part   int32
}

// bucket returns a stored document of the model.
func (w *world) bucket(series string, p *part, records []*entry, control bson.D) bson.D {
	first, last := records[0].offset, records[0].offset
	earliest, latest := records[0].time, records[0].time
	var positions []timeseries.Position
	times, values, metas := bson.D{}, bson.D{}, bson.D{}
	for i, r := range records {
		first, last = min(first, r.offset), max(last, r.offset)
		earliest, latest = min(earliest, r.time), max(latest, r.time)
		positions = append(positions, timeseries.Position{Offset: r.offset})
		index := fmt.Sprint(i)
		times = append(times, bson.E{Key: index, Value: bson.DateTime(r.time)})
		values = append(values, bson.E{Key: index, Value: int64(1) << r.bit})
		metas = append(metas, bson.E{Key: index, Value: r.series})
	}
	w.ids++
	begin := baseOptions.Round(earliest)
	control = append(bson.D{
		{Key: "version", Value: int32(1)},
		{Key: "min", Value: bson.D{{Key: "time", Value: bson.DateTime(begin)}}},
		{Key: "max", Value: bson.D{{Key: "time", Value: bson.DateTime(latest)}}},
		{Key: "count", Value: int32(len(records))},
		{Key: "source", Value: bson.D{
			{Key: "topic", Value: "t"},
			{Key: "partition", Value: p.number},
			{Key: "topicId", Value: bson.Binary{Subtype: 4, Data: slices.Clone(p.topic[:])}},
			{Key: "first", Value: first},
			{Key: "last", Value: last},
			{Key: "offsets", Value: bson.A{bson.Binary{Data: timeseries.AppendPositions(nil, positions)}}},
		}},
	}, control...)
	d := bson.D{{Key: "_id", Value: int64(w.ids)}, {Key: "control", Value: control}}
	data := bson.D{{Key: "time", Value: times}, {Key: "v", Value: values}}
	if series == "" { // a segment
		data = append(data, bson.E{Key: "meta", Value: metas})
	} else {
		d = append(d, bson.E{Key: "meta", Value: series})
	}
	return append(d, bson.E{Key: "data", Value: data})
}

// stored yields the measurements of documents, either all or those shown now.
func (w *world) stored(all bool, yield func(id string, m measurement)) {
	u := timeseries.NewUnpacker(baseOptions)
	now := w.now
	shownBuckets, shownSegments := encoded(timeseries.BucketsShown(now)), encoded(timeseries.SegmentsShown(now))
	documents := w.mem.now()["buckets"]
	for _, id := range slices.Sorted(maps.Keys(documents)) {
		d := documents[id]
		if !all && !matches(d, shownBuckets) && !matches(d, shownSegments) {
			continue
		}
		if err := u.Reset(d); err != nil {
			panic(err)
		}
		var m timeseries.Unpacked
		for u.Next(&m) {
			series, _ := m.Meta.StringValueOK()
			bit := bits.TrailingZeros64(uint64(m.Fields.Lookup("v").Int64()))
			yield(id, measurement{w.of[rollup.FloorTo(m.Time, hourMs)][bit], series, u.Source().TopicID, u.Source().Partition})
		}
		if u.Err() != nil {
			panic(u.Err())
		}
	}
}

// rowsOf reads the rows of a level by series and window. It returns the measurements in each row as bits, and their count.
func (w *world) rowsOf(name string) (sets map[cell]uint64, counts map[cell]int64) {
	sets, counts = map[cell]uint64{}, map[cell]int64{}
	of, _ := rollup.LevelOf(name)
	for _, raw := range w.mem.now()[name] {
		d, err := rollup.Decode(raw, of.Options(baseOptions))
		if err != nil {
			w.fail("a rollup document is damaged: %v", err)
			return sets, counts
		}
		series, _ := d.Meta.StringValueOK()
		for _, row := range d.Rows {
			at := cell{series, row.Time}
			n, _ := row.Fields.Lookup("v", "n").AsInt64OK()
			sum, ok := row.Fields.Lookup("v", "sum").AsInt64OK()
			if name == rollup.Hour && (!ok || bits.OnesCount64(uint64(sum)) != int(n) || row.Count("count") != n) {
				w.fail("the row of %s at %d is no set of measurements: n %d, count %d, sum %b", series, row.Time, n, row.Count("count"), sum)
			}
			sets[at] |= uint64(sum)
			counts[at] += row.Count("count")
		}
	}
	return sets, counts
}
