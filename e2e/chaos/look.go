package chaos

import (
	"context"

	"waterwheel/e2e/check"
)

// look compares the documents a reader sees with the committed offsets, again and again until the context ends. A database that
// does not answer is no fault, because the next look follows.
func (r *run) look(ctx context.Context) {
	for {
		sleep(ctx, r.options.Look)
		if ctx.Err() != nil {
			return
		}
		report, err := check.Shown(ctx, r.source())
		if err != nil {
			if ctx.Err() == nil {
				r.note("no look at what is shown: %v", err)
			}
			continue
		}
		r.mu.Lock()
		r.result.Looks++
		r.mu.Unlock()
		if err := report.Err(); err != nil {
			r.fault("what is shown at this moment: %v", err)
		}
	}
}

// source tells the check where the records and documents of the run are.
func (r *run) source() check.Source {
	return check.Source{
		Kafka: r.kafka, MongoURI: r.options.MongoURI, Database: r.databaseName(), Topic: r.topic,
		Group: r.group(), Fate: r.load.book.Fate,
	}
}
