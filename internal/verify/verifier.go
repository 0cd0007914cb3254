package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// The defaults of Options.
const (
	DefaultWindow   = 1 << 24
	DefaultExamples = 10
)

// maxContentWindow bounds a window that compares content, which keeps sixteen bytes per offset.
const maxContentWindow = 1 << 21

// partsShare bounds the array elements of a window to this fraction of its offsets, because they take more than a bit each.
const partsShare = 4

// RepairMode is what to do about doubled measurements.
type RepairMode uint8

// The modes of repair.
const (
	Leave  RepairMode = iota // doubles are only reported
	DryRun                   // like Leave, and reports what Repair would do
	Repair                   // removes all copies but one: the one in the bucket (else segment) with the smallest _id
)

// Options configure a Verifier.
type Options struct {
	// Collection is the normalised definition of the time series.
	Collection timeseries.Options
	// Decoder decodes the records as the consumer does. The Verifier uses it during each call. Required.
	Decoder *measurement.Decoder
	Log     Log
	Buckets Buckets
	// Claims determine how long a repair must wait.
	Claims Claims
	// DeadLetters are the topic's dead letters, read after the committed offset. Nil means that there are none.
	DeadLetters *DeadLetters
	// Notes report what commands have deleted and changed. Nil means that they did nothing.
	Notes Notes
	// Content compares every value with its record, and every bucket with itself.
	Content bool
	// Repair is what to do about doubles. A Repair waits for pending writes. It waits at least Grace, and at least the longest
	// wait in Claims that are not released.
	Repair     RepairMode
	WriteGrace time.Duration
	// Now returns the present time in milliseconds since 1970. Measurements that have expired, or that expire within the hour and
	// so perhaps during the verification, are not missing. Measurements compacted long ago need no second look. Required if
	// measurements expire.
	Now func() int64
	// Window is how many offsets are judged at a time. Zero means DefaultWindow. Memory is a few bits per offset. With Content,
	// which limits the window further, it is sixteen bytes per offset.
	Window int64
	// Examples is how many examples of each finding are kept. Zero means DefaultExamples.
	Examples int
	// Progress is called now and then with the state of the work. Nil means that there are no calls.
	Progress func(Progress)
}

// Progress is the state of the work.
type Progress struct {
	Partition int32
	// Offset is how far the log was read, in the range [From, To). If Seconds is set, the three are seconds of waiting.
	From, Offset, To int64
	Seconds          bool
	// Records is the number of records read from the range so far.
	Records int64
	// Operation is a gerund: reading records, reading buckets.
	Operation string
}

// Verifier compares a time series with the log it comes from. It is not for concurrent use.
type Verifier struct {
	o      Options
	waited bool // a wait for pending writes is over
}

// New returns a Verifier, or an error about the options.
func New(o Options) (*Verifier, error) {
	if o.Decoder == nil || o.Log == nil || o.Buckets == nil || o.Claims == nil {
		return nil, errors.New("verifying needs a decoder, a log, buckets and claims")
	}
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	if o.Window < 1 || o.Window > 1<<31 {
		return nil, fmt.Errorf("a window of %d offsets is not between 1 and 2^31", o.Window)
	}
	if o.Content {
		o.Window = min(o.Window, maxContentWindow)
	}
	if o.Examples == 0 {
		o.Examples = DefaultExamples
	}
	if o.DeadLetters == nil {
		o.DeadLetters = &DeadLetters{}
	}
	return &Verifier{o: o}, nil
}

// Partition judges a range of one partition. If it returns an error, the report covers what was judged before. The range [Next,
// To) is still to be judged.
func (v *Verifier) Partition(ctx context.Context, r Range) (Report, error) {
	report := Report{
		Partition: r.Source.Partition, From: r.From, To: r.To, Next: r.From, FirstStored: -1, Findings: newFindings(), Notes: r.Notes,
	}
	if err := v.wait(ctx, r); err != nil {
		return report, err
	}
	var err error
	if report.Lost, err = v.lost(ctx, r); err != nil {
		return report, err
	}
	for report.Next < r.To {
		w := v.window(r, report.Next, report.Records)
		if err := w.judge(ctx); err != nil {
			return report, err
		}
		report.Add(&w.found, v.o.Examples)
		if report.FirstStored < 0 {
			report.FirstStored = w.firstStored
		}
		report.Next = w.end
	}
	return report, nil
}

func newFindings() Findings {
	none := func() Tally { return Tally{First: []timeseries.Position{}} }
	faultless := func() Faults { return Faults{First: []Fault{}} }
	return Findings{
		Deleted: none(), Missing: none(), Doubled: none(), Compacted: none(), MetaChanged: none(), Unknown: none(), DeadLetterMissing: none(), DeadLetterDeleted: none(),
		Damaged: faultless(), Different: faultless(), Repair: Repairs{Left: faultless(), First: []RepairedBucket{}},
	}
}

// Log reads records. Calls do not overlap.
type Log interface {
	// Scan calls each for the partition's records with offsets in [from, to), in their order. It returns the first offset after
	// the last record that was deleted before Scan could read it. That is from if none was. A record's bytes are valid during the
	// call. An error of each ends the scan and is returned unchanged.
	Scan(ctx context.Context, of record.Partition, from, to int64, each func(*record.Record) error) (first int64, err error)
}

// Offsets returns what a group has committed, and where logs begin and end.
type Offsets interface {
	// Committed returns what the group has committed for partitions of a topic, in their order.
	Committed(ctx context.Context, group string, partitions []record.Partition) ([]claim.Committed, error)
	// Bounds returns the first offset of a partition's log, and the offset after the last record that can be read.
	Bounds(ctx context.Context, of record.Partition) (first, end int64, err error)
	// OffsetAt returns the offset of the first record from a time on, in milliseconds since 1970. If there is none, it returns
	// the log's end.
	OffsetAt(ctx context.Context, of record.Partition, time int64) (int64, error)
}

// Claims reads the partition documents of the time series. Their owners may be writing.
type Claims interface {
	Claims(ctx context.Context) ([]claim.Document, error)
}

// Notes reports what operators have done to stored measurements by commands. A command notes a position before it acts. Each
// method calls each for positions with offsets in [from, to), in any order, and possibly more than once for the same position.
type Notes interface {
	// Deleted calls each for the positions that are noted as deleted. A noted position that is still stored was not deleted.
	Deleted(ctx context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error
	// Changed calls each for the positions that are noted because a command changed the meta of their measurements.
	Changed(ctx context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error
}

// Buckets accesses the stored measurements, including those in segments. Only Update and Delete may be called from inside each.
type Buckets interface {
	// Find calls each for every bucket and segment of the partition that may list offsets in [from, to), in any order. A document
	// that is written meanwhile may come twice. One that is inserted or deleted meanwhile may be left out. A document has _id,
	// and count, source, segment and compaction below control. With whole it has everything. It is valid during the call. An
	// error of each ends the query and is returned unchanged.
	Find(ctx context.Context, source timeseries.Source, from, to int64, whole bool, each func(bson.Raw) error) error
	// Unfinished returns the compactions that have frozen segments, and of which no segment has ended. They may be rolled back.
	Unfinished(ctx context.Context) (map[claim.Token]bool, error)
	// Update applies an update to the one bucket that the filter finds. False means that none was found.
	Update(ctx context.Context, filter, update bson.Raw) (bool, error)
	// Delete deletes the one bucket that the filter finds. False means that none was found.
	Delete(ctx context.Context, filter bson.Raw) (bool, error)
}
