package redrive

import (
	"context"
	"fmt"
	"time"

	"waterwheel/dlq"
)

// driver takes letters back to the topics they come from, each once: also after a crash, and also when other selections
// took some of them. It is used once, by one goroutine.
type driver struct {
	o        Options
	log      dlq.Log
	target   target   // not used in a dry run
	progress progress // not used in a dry run
	own      past     // of this selection
	others   []past

	taken     dlq.Positions // of letters driven, by whichever selection
	originals *originals
	report    Report
	begin     time.Time
	paced     int64 // letters since begin
}

// newDriver parts what this selection has committed from the others.
func newDriver(log dlq.Log, pasts []past, o Options) *driver {
	d := &driver{
		o: o, log: log, own: past{selection: o.Selection}, taken: dlq.NewPositions(), originals: newOriginals(log),
		report: Report{Reasons: map[string]int64{}, Again: map[string]int64{}},
	}
	for _, p := range pasts {
		if p.selection.String() == o.Selection.String() {
			d.own = p
		} else {
			d.others = append(d.others, p)
		}
	}
	return d
}

// run drives the letters of the spans. When ctx ends it finishes what it has begun, commits, and returns ctx's cause. The
// report is valid after an error too.
func (d *driver) run(ctx context.Context, spans []dlq.Span) (Report, error) {
	d.begin = time.Now()
	if err := d.learn(ctx, spans); err != nil {
		return d.report, err
	}
	for _, s := range spans {
		d.report.Total += max(0, s.End-d.from(s))
	}
	for _, s := range spans {
		if err := d.drivePartition(ctx, s); err != nil {
			return d.report, err
		}
	}
	return d.report, nil
}

// from is where a partition goes on.
func (d *driver) from(s dlq.Span) int64 { return max(s.First, d.own.committed[s.Partition].Offset) }

// learn reads the dead-letter topics up to what was committed, for the positions of letters driven before.
func (d *driver) learn(ctx context.Context, spans []dlq.Span) error {
	pasts := append([]past{d.own}, d.others...)
	for _, s := range spans {
		part := s
		part.End = 0
		for i, p := range pasts {
			c := p.committed[s.Partition]
			begun, err := parseMarker(c.Metadata)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Partition, err)
			}
			if begun != nil && i > 0 {
				return &UnfinishedError{p.selection}
			}
			part.End = max(part.End, min(s.End, c.Offset))
		}
		err := dlq.Scan(ctx, d.log, []dlq.Span{part}, func(f *dlq.Found) error {
			if passed(pasts, f) {
				d.taken.Add(&f.Letter)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
