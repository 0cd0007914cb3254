package chaos

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Options describes a run.
type Options struct {
	// Binary is the consumer's program.
	Binary string
	// Naive reports that Binary is a naive consumer. The judge then reads the documents it inserted.
	Naive bool
	// Jars is the folder of Kafka's jars.
	Jars string
	// Dir is the folder for the brokers' data and the consumers' logs.
	Dir string
	// MongoURI is the URI of the database, with one host. DatabaseCommands are programs with their arguments that together serve
	// a durable database at this address. The run starts them, and kills and restarts one at a time. Without commands the
	// database is foreign.
	MongoURI         string
	DatabaseCommands [][]string
	// ShardKey is "ranged" or "hashed". MongoURI is then the URI of a router, the buckets are sharded with this key, and chunks
	// move. An empty ShardKey means that the buckets are not sharded.
	ShardKey string
	// Look is the pause between two looks of a reader during the disturbances. Zero means no looks.
	Look time.Duration
	// Duration is how long disturbances come. Every is the mean time between two disturbances.
	Duration, Every time.Duration
	// Members is the initial number of consumers, 2 to 5.
	Members int
	// WriteTimeout is MONGODB_WRITE_TIMEOUT. The test servers do not honour maxTimeMS. On a machine shared by all processes they
	// hold commands for seconds, so the grace of twice this timeout must cover that time.
	WriteTimeout time.Duration
	// Settings are further settings of the consumers, as pairs of name and value.
	Settings []string
	// Rate is in records a second. Series is the number of series. Partitions is the initial number of partitions.
	Rate, Series, Partitions int
	// Seed selects the disturbances. Their exact moments also depend on the machine.
	Seed uint64
	// Actions are the names of the disturbances. A disturbance comes in proportion to the number of its entries.
	Actions []string
	// Log gets a line for each disturbance.
	Log io.Writer
}

// A group has at least leastMembers and at most mostMembers members.
const (
	leastMembers = 2
	mostMembers  = 5
)

// DefaultActions returns the disturbances of a run that does not disturb the database's own processes.
func DefaultActions() []string {
	return []string{
		"kill", "kill", "freeze", "freeze", "leave", "join", "join",
		"broker-kill", "broker-restart", "database", "database", "kafka", "grow", "reset",
	}
}

// hasRollups reports whether the consumers keep rollups of all levels. The judge then compares the rows with the records.
func (o *Options) hasRollups() bool {
	at := slices.Index(o.Settings, "ROLLUP_LEVELS")
	return !o.Naive && at >= 0 && o.Settings[at+1] == "1m,1h,1d"
}

// validate returns an error for every wrong option.
func (o *Options) validate() error {
	var wrong []error
	if o.Rate < 10 || o.Series < 1 || o.Partitions < 1 {
		wrong = append(wrong, errors.New("a run needs at least 10 records a second, one series and one partition"))
	}
	if o.Members < leastMembers || o.Members > mostMembers {
		wrong = append(wrong, fmt.Errorf("%d members, not %d to %d", o.Members, leastMembers, mostMembers))
	}
	if o.WriteTimeout < time.Second {
		wrong = append(wrong, errors.New("a write timeout below 1s"))
	}
	if o.Every < 100*time.Millisecond {
		wrong = append(wrong, errors.New("less than 100ms between two disturbances"))
	}
	for _, name := range o.Actions {
		if !slices.Contains(Names(), name) {
			wrong = append(wrong, fmt.Errorf("no disturbance is named %s, only %s", name, strings.Join(Names(), ", ")))
		}
	}
	if slices.Contains(o.Actions, "database-kill") && len(o.DatabaseCommands) == 0 {
		wrong = append(wrong, errors.New("database-kill needs a database of the run's own"))
	}
	if slices.Contains(o.Actions, "step-down") && o.ShardKey == "" {
		wrong = append(wrong, errors.New("step-down needs a sharded cluster: -shard"))
	}
	if o.ShardKey != "" && o.Look > 0 && slices.Contains(o.Actions, "update-meta") {
		wrong = append(wrong, errors.New("update-meta moves buckets to other shards, where a query without a meta may miss them or see them twice: leave -look out"))
	}
	if o.ShardKey != "" && o.ShardKey != "ranged" && o.ShardKey != "hashed" {
		wrong = append(wrong, fmt.Errorf("the shard key is ranged or hashed, not %q", o.ShardKey))
	}
	return errors.Join(wrong...)
}
