package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries"
)

// Defaults of Options.
const (
	DefaultWindow   = 1 << 24
	DefaultExamples = 10
)

// Bounds of a window that compares content: it keeps sixteen bytes an offset.
const maxContentWindow = 1 << 21

// partsShare is which part of a window's offsets its elements of array records may be: they take more than a bit.
const partsShare = 4

// RepairMode says what to do about doubled measurements.
type RepairMode uint8

// The modes of repair.
const (
	Leave  RepairMode = iota // doubles are only reported
	DryRun                   // and what Repair would do
	Repair                   // all copies but one are taken out: the copy in the bucket with the smallest _id stays, or else in such a segment
)

// Options say what to verify with.
type Options struct {
	// Collection is the normalised definition of the time series.
	Collection timeseries.Options
	// Decoder decodes the records as the consumer does. It is the verifier's while a call runs. Required.
	Decoder *measurement.Decoder
	Log     Log
	Buckets Buckets
	// Claims tell how long a repair must wait.
	Claims Claims
	// Letters are the topic's dead letters, read after the committed offset. Nil means that there are none.
	Letters *Letters
	// Notes tell what was deleted and changed by commands. Nil means that nothing was.
	Notes Notes
	// Content compares every value with its record, and every bucket with itself.
	Content bool
	// Repair says what to do about doubles. A Repair waits for the writes that are on their way: for Grace, and for what the
	// owners of the Claims that are not released have left.
	Repair RepairMode
	Grace  time.Duration
	// Now tells the present time in milliseconds since 1970: what has expired, or expires within the hour and may do so
	// while it is verified, is not missing; measurements compacted long ago need not be looked at twice. Required where they expire.
	Now func() int64
	// Window is how many offsets are judged at a time. Zero means DefaultWindow. Memory is a few bits an offset of it; with
	// Content, which bounds it further, sixteen bytes.
	Window int64
	// Examples is how many of the first of each finding are kept. Zero means DefaultExamples.
	Examples int
	// Progress is told now and then how far the work is. Nil means that nobody is.
	Progress func(Progress)
}

// Progress is how far the work is.
type Progress struct {
	Partition int32
	// Offset is up to where the log was read, in the range [From, To); of waiting these are Seconds.
	From, Offset, To int64
	Seconds          bool
	// Records were read of it so far.
	Records int64
	// Doing is a gerund: reading records, reading buckets.
	Doing string
}

// Verifier compares a time series with the log it comes from. It is not for concurrent use.
type Verifier struct {
	o      Options
	waited bool // for writes that were on their way
}

// New makes a Verifier, or says what is wrong with the options.
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
	if o.Letters == nil {
		o.Letters = &Letters{}
	}
	return &Verifier{o: o}, nil
}

// Partition judges a range of one partition. With an error the report is about what was judged until then: the range
// [Next, To) is still to be judged.
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
		Deleted: none(), Missing: none(), Doubled: none(), Compacted: none(), MetaChanged: none(), Unknown: none(), LetterMissing: none(), LetterDeleted: none(),
		Damaged: faultless(), Different: faultless(), Repair: Repairs{Left: faultless(), First: []RepairedBucket{}},
	}
}
