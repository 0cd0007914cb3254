package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/kafka/wire"
)

// Isolation says which records of transactions are read.
type Isolation int8

const (
	// ReadUncommitted reads every record as soon as it is replicated, including those of aborted transactions.
	ReadUncommitted Isolation = 0
	// ReadCommitted reads up to the first open transaction and leaves out aborted ones.
	ReadCommitted Isolation = 1
)

// Start is where a partition begins when nothing is committed. The zero value means the first record that still exists.
type Start struct {
	// Latest begins at the end of the log.
	Latest bool
	// Time, when not zero, begins at the first record of this time or later.
	Time time.Time
}

// Options are the settings of a Client.
type Options struct {
	// Brokers are the bootstrap addresses, host:port. All metadata requests go to them, so they must stay valid.
	Brokers []string
	// Topics are the names that the client routes requests for, until Route replaces them. Other topics cannot be fetched.
	Topics []string
	// Security protects the connections. Its zero value means plaintext without authentication.
	Security Security
	// FetchBytes is the most bytes the broker shall send for one fetch. The first record batch comes whole even when it is
	// larger.
	FetchBytes int32
	// FetchWait is how long the broker waits for the first new record.
	FetchWait time.Duration
	// Isolation is the isolation of reads. Zero means ReadUncommitted.
	Isolation Isolation
	// Start is where logs begin when nothing is committed.
	Start Start
	// Decoding bounds the decoding of record batches.
	Decoding recordbatch.Options
	// Logger takes the few life-cycle lines of this package. Nil means no logging.
	Logger *slog.Logger
}

// validate refuses impossible settings and reports all problems at once.
func (o Options) validate() error {
	var problems []error
	if len(o.Brokers) == 0 {
		problems = append(problems, errors.New("KAFKA_BROKERS contains no broker"))
	}
	for _, broker := range o.Brokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			problems = append(problems, fmt.Errorf("KAFKA_BROKERS: %q is not an address: write host:port", broker))
		}
	}
	if o.FetchBytes < 1 || o.FetchBytes > wire.MaxResponseBytes/2 {
		problems = append(problems, fmt.Errorf("KAFKA_FETCH_BYTES is %d: it must be 1 to %d bytes", o.FetchBytes, wire.MaxResponseBytes/2))
	}
	if o.FetchWait < time.Millisecond || o.FetchWait > time.Minute {
		problems = append(problems, fmt.Errorf("KAFKA_FETCH_WAIT is %v: it must be 1ms to 1m", o.FetchWait))
	}
	return errors.Join(problems...)
}
