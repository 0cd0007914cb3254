package redrive

import (
	"context"
	"fmt"
	"time"

	"waterwheel/dlq"
)

// driver sends letters back to the topics they come from, each once. That also holds after a crash, and when several selections
// cover the same letter. It is used once, by one goroutine.
type driver struct {
	o        Options
	log      dlq.Log
	target   target   // not used in a dry run
	progress progress // not used in a dry run
	own      past     // the commits of this selection
	others   []past

	taken     dlq.Positions // positions of letters that any selection has driven
	originals *originals
	report    Report
	begin     time.Time
	paced     int64 // number of letters since begin
}

// newDriver separates the commits of this selection from those of others.
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

// run drives the letters of the spans. If ctx ends, it finishes the current batch, commits, and returns ctx's cause. The report
// is valid even if there is an error.
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

// from returns the offset at which a partition continues.
func (d *driver) from(s dlq.Span) int64 { return max(s.First, d.own.committed[s.Partition].Offset) }

// learn reads the dead-letter topics up to the commits, and collects the positions of letters driven before.
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
