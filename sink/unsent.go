package sink

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"

	"waterwheel/bucketer"
)

// outOfTime tells the errors of the driver about a command that it did not begin to send, because its time was over. They
// come from x/mongo/driver/operation.go, version 2.9.3, each before the call of roundTrip, which hands over the first byte:
//
//   - Operation.calculateMaxTimeMS, and Operation.Execute right before roundTrip, where less time is left than the way to
//     the server and back takes at least: ErrDeadlineWouldBeExceeded;
//   - Operation.Execute in the same place, where the context is over: the context's error as it is. Whatever goes wrong
//     from roundTrip on is wrapped by Operation.networkError.
//
// They could come after bytes were sent in two ways only. A second attempt: retryWrites and adaptive retries are off, and
// after a renewed login (code 391) the first attempt was refused. Or a second command of one call: see splits.
func outOfTime(err error) bool {
	return errors.Is(err, driver.ErrDeadlineWouldBeExceeded) ||
		err == context.DeadlineExceeded || err == context.Canceled //nolint:errorlint // a wrapped one may come from later
}

// bulkError is portError for a bulk call. What had no time left was not sent, if one call is one command.
func (d *Database) bulkError(err error) error {
	if outOfTime(err) && !d.splits.Load() {
		return &NotSentError{fmt.Errorf("%w: %w", bucketer.ErrNoTurn, d.reached(err))}
	}
	return d.Translate(err)
}

// commandRoom is how many bytes a command may have beside its writes: session, cluster time, names.
const commandRoom = 1 << 20

// limitsMonitor notes when a server of the database takes less in one command than our calls have: then the driver
// makes several commands of one call, and the time may be over after the first.
func (d *Database) limitsMonitor() *event.ServerMonitor {
	return &event.ServerMonitor{ServerDescriptionChanged: func(e *event.ServerDescriptionChangedEvent) {
		s := &e.NewDescription
		if s.Kind != "Unknown" && (s.MaxBatchCount < maxCallWrites || s.MaxMessageSize < maxCallBytes+commandRoom) {
			d.splits.Store(true)
		}
	}}
}
