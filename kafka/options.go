package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Isolation says which records of transactions are read.
type Isolation int8

const (
	// ReadUncommitted reads every record as soon as it is replicated, those of aborted transactions too.
	ReadUncommitted Isolation = 0
	// ReadCommitted reads up to the first open transaction and leaves out aborted ones.
	ReadCommitted Isolation = 1
)

// Options are the settings of a Client and of the group it is a member of. Only Brokers is needed to read;
// a zero duration or size means the default named with it.
type Options struct {
	// Brokers are the bootstrap addresses, host:port. Metadata is always asked of these: they must stay valid.
	Brokers []string
	// Topics are the names the client routes requests for. A topic that is not listed cannot be fetched.
	Topics []string
	// ClientID names this client in the brokers' logs and quotas, "waterwheel" when empty.
	ClientID string
	// Security is the zero value for plaintext without authentication.
	Security Security

	// GroupID is the consumer group.
	GroupID string
	// InstanceID switches static membership on when it is not empty.
	InstanceID string
	// SessionTimeout is how long the coordinator waits for a member's next sign of life, 30 s.
	SessionTimeout time.Duration
	// HeartbeatInterval is the time between two heartbeats, 3 s.
	HeartbeatInterval time.Duration
	// RebalanceTimeout is how long a rebalance waits for a member to join, 60 s.
	RebalanceTimeout time.Duration
	// Lease is how long one answered commit entitles to write, 10 s.
	Lease time.Duration
	// CommitInterval is the time between two commits, 1 s.
	CommitInterval time.Duration

	// FetchBytes is the most the broker shall send for one fetch, 2 MiB; its first record batch comes whole even
	// when it is larger.
	FetchBytes int32
	// PieceBytes is how much a Cursor unfolds at a time, 1 MiB, of records that take so much on the average that there are
	// no more than a 128th of it. RecordBytes is the longest record that is unfolded whole, 2 MiB; of a longer one the
	// beginning of key and value is given out (Record.Cut).
	PieceBytes, RecordBytes int
	// FetchWait is how long the broker waits for the first new record, 500 ms.
	FetchWait time.Duration
	// Isolation is ReadUncommitted when zero.
	Isolation Isolation

	// SkipCorrupt are the places of record batches that are passed over if they cannot be read.
	SkipCorrupt []Position
	// Logger takes the few life-cycle lines of this package, nil for none.
	Logger *slog.Logger
}

// withDefaults fills in what zero means.
func (o Options) withDefaults() Options {
	setDefault(&o.ClientID, "waterwheel")
	setDefault(&o.SessionTimeout, 30*time.Second)
	setDefault(&o.HeartbeatInterval, 3*time.Second)
	setDefault(&o.RebalanceTimeout, 60*time.Second)
	setDefault(&o.Lease, 10*time.Second)
	setDefault(&o.CommitInterval, time.Second)
	setDefault(&o.FetchBytes, 2<<20)
	setDefault(&o.PieceBytes, 1<<20)
	setDefault(&o.RecordBytes, 2<<20)
	setDefault(&o.FetchWait, 500*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// recordBytes is how small the records of a piece are on the average before it is bounded by their number.
const recordBytes = 128

// PieceOf is a piece of about so many bytes.
func PieceOf(bytes int) Piece { return Piece{bytes, max(bytes/recordBytes, 1)} }

// validate refuses what could never work, all problems at once.
func (o Options) validate() error {
	var problems []error
	if len(o.Brokers) == 0 {
		problems = append(problems, errors.New("KAFKA_BROKERS names no broker"))
	}
	for _, broker := range o.Brokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			problems = append(problems, fmt.Errorf("KAFKA_BROKERS: %q is not host:port", broker))
		}
	}
	if o.FetchBytes < 1 || o.FetchBytes > maxResponseBytes/2 {
		problems = append(problems, fmt.Errorf("KAFKA_FETCH_BYTES is %d: it must be 1 to %d bytes", o.FetchBytes, maxResponseBytes/2))
	}
	if o.FetchWait < time.Millisecond || o.FetchWait > time.Minute {
		problems = append(problems, fmt.Errorf("KAFKA_FETCH_WAIT is %v: it must be 1ms to 1m", o.FetchWait))
	}
	return errors.Join(problems...)
}
