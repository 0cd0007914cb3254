package chaos

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Options describe a run.
type Options struct {
	// Binary is the consumer's program and Args its arguments.
	Binary string
	Args   []string
	// Naive tells that the program is the naive consumer of this package, which is judged by what it writes.
	Naive bool
	// Jars is the folder of Kafka's jars.
	Jars string
	// Dir keeps the brokers' data and the consumers' logs.
	Dir string
	// MongoURI names the database, with one host. DatabaseCommands, when there are any, are programs with their arguments that
	// together serve a durable database there: the run starts them, kills one and starts it again.
	MongoURI         string
	DatabaseCommands [][]string
	// ShardKey is "ranged" or "hashed": MongoURI names a router, the buckets are sharded so, and chunks move, with ChunkPause between
	// two moves. Empty means that the buckets are not sharded.
	ShardKey   string
	ChunkPause time.Duration
	// Look is how often a reader looks at what is shown, beside the disturbances. Zero means never.
	Look time.Duration
	// Duration of the chaos and the mean time between two disturbances.
	Duration, Every time.Duration
	// Members is the number of consumers at first, 2 to 5.
	Members int
	// WriteTimeout is MONGODB_WRITE_TIMEOUT. The test servers do not honour maxTimeMS, and on a machine shared by all
	// processes they hold commands for seconds: the grace of twice this time must cover that.
	WriteTimeout time.Duration
	// Settings of the consumers beside the usual ones: pairs of name and value.
	Settings []string
	// Rate of records a second, over Series series, into Partitions partitions at first.
	Rate, Series, Partitions int
	// Reopen is BUCKET_REOPEN.
	Reopen bool
	// Seed decides which disturbances come. When they hit depends on the machine as well.
	Seed uint64
	// Actions are the names of the disturbances that come, each as often as it stands here.
	Actions []string
	// Patience is how long the consumers have at the end to store what is left.
	Patience time.Duration
	// Log gets a line for each disturbance.
	Log io.Writer
}

// Members of a group, at least and at most.
const (
	leastMembers = 2
	mostMembers  = 5
)

// DefaultActions are the disturbances of a run in which topic and database stay what they are.
func DefaultActions() []string {
	return []string{
		"kill", "kill", "freeze", "freeze", "leave", "join", "join",
		"broker-kill", "broker-restart", "database", "database", "kafka", "grow", "reset",
	}
}

// memberActions are the disturbances that make members of the group come, go or die.
var memberActions = []string{"kill", "freeze", "leave", "join"}

// Churn makes the disturbances of members come so many times as often, and all others as often as before.
func (o *Options) Churn(times int) {
	before, actions := len(o.Actions), []string(nil)
	for _, name := range o.Actions {
		repeat := 1
		if slices.Contains(memberActions, name) {
			repeat = times
		}
		actions = append(actions, slices.Repeat([]string{name}, repeat)...)
	}
	o.Actions, o.Every = actions, o.Every*time.Duration(before)/time.Duration(len(actions))
}

// validate names what is wrong with the options.
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
	if o.ShardKey != "" && o.ShardKey != "ranged" && o.ShardKey != "hashed" {
		wrong = append(wrong, fmt.Errorf("the shard key is ranged or hashed, not %q", o.ShardKey))
	}
	return errors.Join(wrong...)
}
