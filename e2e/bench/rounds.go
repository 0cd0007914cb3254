package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Plan says what to measure.
type Plan struct {
	Load   Load
	Rounds int
	// Patience is how long one turn of a peer may take.
	Patience time.Duration
	// Peers are the peers to measure. Ceiling needs Waterwheel.
	Peers []Peer
}

// Validate returns an error for everything that is wrong with the plan.
func (p Plan) Validate() error {
	err := p.Load.Validate()
	if p.Rounds < 1 {
		err = errors.Join(err, fmt.Errorf("%d rounds: at least one is needed", p.Rounds))
	}
	if p.Patience <= 0 {
		err = errors.Join(err, fmt.Errorf("a patience of %s: peers need some time", p.Patience))
	}
	if len(p.Peers) == 0 {
		err = errors.Join(err, errors.New("no peers"))
	}
	for _, peer := range p.Peers {
		if !slices.Contains(Peers, peer) {
			err = errors.Join(err, fmt.Errorf("no peer is named %q, only %s", peer, join(Peers)))
		}
	}
	if slices.Contains(p.Peers, Ceiling) && !slices.Contains(p.Peers, Waterwheel) {
		err = errors.Join(err, fmt.Errorf("%s inserts again what %s has stored: ask for both", Ceiling, Waterwheel))
	}
	return err
}

func join(peers []Peer) string {
	names := make([]string, len(peers))
	for i, p := range peers {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}

// cleanPatience is how long the servers may take to delete the data of a run.
const cleanPatience = time.Minute

// Run fills a topic and has each peer drain it once a round, in turns, so that changes of the machine's load affect all peers. It
// removes its data from the servers. With an *IncompleteError, and with any error after the first round, it also returns a report
// of the completed rounds.
func (b *Bench) Run(ctx context.Context, p Plan) (*Report, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	report := &Report{Machine: Look(ctx, b.Servers), Load: p.Load, Settings: b.Settings, At: time.Now().UTC().Truncate(time.Second)}
	b.note("filling a topic with %d records", p.Load.Records)
	topic, err := Fill(ctx, b.Servers, p.Load)
	if err != nil {
		return nil, err
	}
	report.Topic = topic.Name
	report.EventBytes = float64(topic.Bytes) / float64(p.Load.Records)
	done, err := b.rounds(ctx, topic, p, report)
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
	defer cancel()
	err = errors.Join(err, b.Servers.DeleteTopics(cleaning, topic.Name, topic.Name+".dlq"))
	if done == 0 {
		return nil, err
	}
	report.Rounds = done
	report.Summarise()
	if err != nil {
		return report, err
	}
	return report, report.incomplete()
}

// rounds adds the results of all rounds to the report, until a round fails. It returns the number of completed rounds.
func (b *Bench) rounds(ctx context.Context, t Topic, p Plan, report *Report) (int, error) {
	for round := 1; round <= p.Rounds; round++ {
		results, err := b.round(ctx, t, round, p)
		if err != nil {
			return round - 1, fmt.Errorf("round %d: %w", round, err)
		}
		report.Results = append(report.Results, results...)
	}
	return p.Rounds, nil
}

// round has each peer drain the topic once. Every other round has the reverse order.
func (b *Bench) round(ctx context.Context, t Topic, round int, p Plan) (results []Result, err error) {
	order := slices.DeleteFunc(slices.Clone(p.Peers), func(p Peer) bool { return p == Ceiling })
	if round%2 == 0 {
		slices.Reverse(order)
	}
	if at := slices.Index(order, Waterwheel); slices.Contains(p.Peers, Ceiling) {
		order = slices.Insert(order, at+1, Ceiling)
	}
	var drains []Drain
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
		defer cancel()
		err = errors.Join(err, b.Remove(ctx, t, drains...))
	}()
	for _, peer := range order {
		d := Drain{Peer: peer, Round: round}
		if peer == Ceiling {
			d.Buckets = Drain{Peer: Waterwheel, Round: round}.Database(t)
		}
		drains = append(drains, d)
		r, err := b.inTime(ctx, t, d, p.Patience)
		if err != nil {
			return results, err
		}
		b.note("round %d: %s: %s/s, stored %d of %d", round, peer, thousands(r.Rate()), r.Stored, r.Measurements)
		results = append(results, r)
		if next := len(drains); next == len(order) || order[next] != Ceiling { // otherwise Ceiling's buckets would be gone
			if err := b.Remove(ctx, t, drains...); err != nil {
				return results, err
			}
		}
	}
	return results, nil
}

// inTime is Drain with a timeout.
func (b *Bench) inTime(ctx context.Context, t Topic, d Drain, patience time.Duration) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return b.Drain(ctx, t, d)
}

// Remove drops the databases of peers, and deletes their consumer groups.
func (b *Bench) Remove(ctx context.Context, t Topic, drains ...Drain) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.Servers.Brokers, ",")...))
	if err != nil {
		return fmt.Errorf("making a Kafka client: %w", err)
	}
	defer client.Close()
	request := kmsg.NewPtrDeleteGroupsRequest()
	var errs []error
	for _, d := range drains {
		errs = append(errs, b.Servers.DropDatabase(ctx, d.Database(t)))
		request.Groups = append(request.Groups, d.Database(t))
	}
	for _, shard := range client.RequestSharded(ctx, request) { // a missing group is no error here
		errs = append(errs, shard.Err)
	}
	return errors.Join(errs...)
}
