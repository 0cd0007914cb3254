package redrive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
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

const (
	// produceTries is how often a batch is tried before the re-drive gives up.
	produceTries = 5
	// produceRoom is how long one try, or a commit, may take after the caller's context has ended.
	produceRoom = time.Minute
)

// drive sends the batch's letters, and begins the next batch. If ctx ends, it still finishes the batch.
func (d *driver) drive(ctx context.Context, b *batch) error {
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), produceTries*(arrivalTime+produceRoom))
	defer cancel()
	if err := d.filter(sending, b); err != nil {
		return err
	}
	if b.marker != nil {
		if err := d.lookUp(sending, b); err != nil {
			return err
		}
	}
	due := b.waiting()
	d.report.Arrived += int64(len(b.letters) - len(due))
	if !d.o.DryRun && len(due) > 0 {
		if err := d.send(ctx, sending, b); err != nil {
			return err
		}
	}
	d.count(due)
	if b.marker != nil && b.start < b.next && !d.o.DryRun {
		if err := d.commit(sending, b.from, b.next, nil); err != nil {
			return err
		}
	}
	*b = batch{from: b.from, start: b.next, next: b.next, targets: map[record.Partition]bool{}}
	if d.o.Report != nil {
		d.o.Report(d.report)
	}
	d.pace(ctx, len(due))
	return nil
}

// count counts the letters that went back, or would have gone back in a dry run.
func (d *driver) count(due []*item) {
	for _, one := range due {
		if one.refused {
			continue
		}
		d.report.Driven++
		d.report.Reasons[one.Letter.Reason]++
		if one.gone {
			d.report.Gone++
		}
		if one.again != "" {
			d.report.Again[one.again]++
		}
	}
}

// send sends all letters of the batch back. Before each try it commits the marker, which also verifies that the group is still
// this run's. After a failure it looks which letters have arrived. If ctx ends, it only stops trying again.
func (d *driver) send(ctx, sending context.Context, b *batch) error {
	if b.marker == nil {
		var err error
		if b.marker, err = d.plan(sending, b); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		if err := d.commit(sending, b.from, b.start, b.marker); err != nil {
			return err
		}
		err := d.produce(sending, b)
		if err == nil {
			return nil
		}
		if try == produceTries || ctx.Err() != nil {
			return err
		}
		if err := d.lookUp(sending, b); err != nil {
			return err
		}
	}
}

// plan returns a marker with the ends of the logs that the letters go to.
func (d *driver) plan(ctx context.Context, b *batch) (*marker, error) {
	m := &marker{until: b.next, ends: map[record.Partition]int64{}}
	for _, one := range b.waiting() {
		to := one.Letter.Partition
		if _, known := m.ends[to]; known {
			continue
		}
		_, end, err := d.log.Bounds(ctx, to)
		if err != nil {
			return nil, fmt.Errorf("reading the end offset of the target partition %s: %w", to, err)
		}
		m.ends[to] = end
	}
	return m, nil
}

// produce sends the batch's waiting letters partition by partition. A letter that its topic refuses stays, and does not hold up
// others. The commit then passes it, so that it does not hold up other selections either.
func (d *driver) produce(ctx context.Context, b *batch) error {
	for due := b.waiting(); len(due) > 0; due = b.waiting() {
		to := due[0].Letter.Partition
		due = slices.DeleteFunc(due, func(one *item) bool { return one.Letter.Partition != to })
		messages := make([]kafka.Message, len(due))
		for i, one := range due {
			messages[i] = one.message
		}
		refused, err := d.target.Produce(ctx, to, messages)
		if err != nil {
			return fmt.Errorf("producing records of dead letters to %s: %w", to, err)
		}
		for i, one := range due {
			if refused[i] == nil {
				one.done = true
				continue
			}
			one.refused = true
			d.report.Refused++
			if d.o.Refused != nil {
				d.o.Refused(Refusal{Place: one.Place, To: to, Err: refused[i]})
			}
		}
	}
	return nil
}

// leave commits the progress in a partition, unless letters of an earlier run still wait.
func (d *driver) leave(ctx context.Context, b *batch) error {
	if d.o.DryRun || b.marker != nil || b.start == d.own.committed[b.from].Offset {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), produceRoom)
	defer cancel()
	return d.commit(ctx, b.from, b.start, nil)
}

// forget handles a partition without remaining letters in which an earlier run was cut off. Its letters have been deleted since.
// forget commits the end of the partition, because the old marker would block all other selections for ever.
func (d *driver) forget(ctx context.Context, b *batch) error {
	if d.o.DryRun || b.marker == nil {
		return nil
	}
	return d.commit(ctx, b.from, b.next, nil)
}

func (d *driver) commit(ctx context.Context, from record.Partition, offset int64, m *marker) error {
	metadata := ""
	if m != nil {
		metadata = m.String()
	}
	if err := d.progress.Commit(ctx, record.Commit{Place: record.Place{Partition: from, Offset: offset}, Metadata: metadata}); err != nil {
		return fmt.Errorf("committing offset %d of %s: %w", offset, from, err)
	}
	return nil
}

// pace waits until the letters sent so far are within the rate.
func (d *driver) pace(ctx context.Context, letters int) {
	d.paced += int64(letters)
	if d.o.Rate > 0 && !d.o.DryRun {
		due := d.begin.Add(time.Duration(float64(d.paced) / float64(d.o.Rate) * float64(time.Second)))
		kafka.Sleep(ctx, time.Until(due))
	}
}
