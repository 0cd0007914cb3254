package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// Bench holds what is needed to measure peers.
type Bench struct {
	Servers *harness.Servers
	// Consumer is the path of the built program. Naive is the command of a program that calls naive.Run.
	Consumer string
	Naive    []string
	// Settings are further settings of the consumer.
	Settings harness.Settings
	// Log gets a line for each step.
	Log io.Writer
}

// Peer is a program that stores the measurements of a topic, or a part of it that is measured separately.
type Peer string

// These are the peers.
const (
	// Waterwheel is the program, with its usual settings.
	Waterwheel Peer = "waterwheel"
	// Ceiling inserts the buckets that Waterwheel has stored, in calls of the same size and with the same number of concurrent
	// calls.
	Ceiling Peer = "ceiling"
	// Discard is Waterwheel with a proxy that answers the writes of buckets and keeps nothing. It measures only the client.
	Discard Peer = "discard"
	// Naive reads, inserts 1,000 documents at a time, and commits. It inserts into a time series if the server supports them.
	Naive Peer = "naive"
)

// Peers lists all peers, in the order of reports.
var Peers = []Peer{Waterwheel, Ceiling, Discard, Naive}

// Result is the result of one peer's turn with one topic.
type Result struct {
	Peer  Peer
	Round int
	// Measurements is the number of measurements to store.
	Measurements int64
	// Wall is the time from the start of reading until the last offset is committed (of Ceiling until the last call is answered).
	Wall time.Duration
	// CPU is the processor time of the peer's own process, in user and system mode. Ceiling's counts during Wall, that of the others
	// from their start to their end. ServerCPU and KafkaCPU are those of MongoDB's and Kafka's processes during Wall. They are
	// negative if they are unknown.
	CPU, ServerCPU, KafkaCPU time.Duration
	// MaxResident is the maximum resident memory of the process in bytes. Zero means unknown.
	MaxResident int64
	// Stored is the number of measurements found in the database. For Discard it is the number that the consumer reports. Doubled is
	// the number stored more than once.
	Stored, Doubled int64
	Size            Size
	// Note says into which kind of collection the peer wrote, or what the proxy of Discard answered.
	Note string
}

// Complete reports whether each measurement is stored once.
func (r Result) Complete() bool {
	return r.Stored == r.Measurements && r.Doubled == 0
}

func (r Result) rate() float64 { return float64(r.Measurements) / r.Wall.Seconds() }

// each returns a time per measurement, in microseconds.
func (r Result) each(d time.Duration) float64 {
	return float64(d) / float64(time.Microsecond) / float64(r.Measurements)
}

// incomplete returns an error that names each turn after which not every measurement is stored once.
func incomplete(results ...Result) error {
	var errs []error
	for _, r := range results {
		if !r.Complete() {
			errs = append(errs, fmt.Errorf("round %d: %s stored %d of %d measurements, %d of them more than once", r.Round, r.Peer, r.Stored, r.Measurements, r.Doubled))
		}
	}
	return errors.Join(errs...)
}

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
	errs := []error{p.Load.Validate()}
	if p.Rounds < 1 || p.Patience <= 0 {
		errs = append(errs, fmt.Errorf("%d rounds with a patience of %s: at least one round and some time are needed", p.Rounds, p.Patience))
	}
	for _, peer := range p.Peers {
		if !slices.Contains(Peers, peer) {
			errs = append(errs, fmt.Errorf("no peer is named %q, only %v", peer, Peers))
		}
	}
	if slices.Contains(p.Peers, Ceiling) && !slices.Contains(p.Peers, Waterwheel) {
		errs = append(errs, fmt.Errorf("%s inserts again what %s has stored: ask for both", Ceiling, Waterwheel))
	}
	return errors.Join(errs...)
}

// Report is the result of a run.
type Report struct {
	Machine  string
	Settings harness.Settings
	Topic    Topic
	Results  []Result
}

// cleanPatience is how long the servers may take to delete the data of a run.
const cleanPatience = time.Minute

// Run fills a topic and has each peer drain it once a round, in turns, so that changes of the machine's load affect all peers. It
// removes its data from the servers. With any error after the first round, such as one about missing measurements, it also returns a
// report of the completed rounds.
func (b *Bench) Run(ctx context.Context, p Plan) (*Report, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	report := &Report{Machine: Machine(ctx, b.Servers), Settings: b.Settings}
	b.note("filling a topic with %d records", p.Load.Records)
	var err error
	if report.Topic, err = Fill(ctx, b.Servers, p.Load); err != nil {
		return nil, err
	}
	for round := 1; round <= p.Rounds && err == nil; round++ {
		var results []Result
		if results, err = b.round(ctx, report.Topic, round, p); err == nil {
			report.Results = append(report.Results, results...)
		}
	}
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
	defer cancel()
	err = errors.Join(err, b.Servers.DeleteTopics(cleaning, report.Topic.Name, report.Topic.Name+".dlq"))
	if len(report.Results) == 0 {
		return nil, err
	}
	return report, errors.Join(err, incomplete(report.Results...))
}

// round has each peer drain the topic once. Every other round has the reverse order. Ceiling follows Waterwheel, whose buckets it
// inserts again.
func (b *Bench) round(ctx context.Context, t Topic, round int, p Plan) (results []Result, err error) {
	order := slices.DeleteFunc(slices.Clone(p.Peers), func(p Peer) bool { return p == Ceiling })
	if round%2 == 0 {
		slices.Reverse(order)
	}
	if at := slices.Index(order, Waterwheel); slices.Contains(p.Peers, Ceiling) {
		order = slices.Insert(order, at+1, Ceiling)
	}
	for i, peer := range order {
		d := Drain{Peer: peer, Round: round}
		r, err := b.inTime(ctx, t, d, p.Patience)
		kept := i+1 < len(order) && order[i+1] == Ceiling && err == nil
		if !kept {
			err = errors.Join(err, b.Remove(ctx, t, d, Drain{Peer: Waterwheel, Round: round}))
		}
		if err != nil {
			return results, err
		}
		b.note("round %d: %s: %s/s, stored %d of %d", round, peer, thousands(r.rate()), r.Stored, r.Measurements)
		results = append(results, r)
	}
	return results, nil
}

// inTime is Drain with a timeout.
func (b *Bench) inTime(ctx context.Context, t Topic, d Drain, patience time.Duration) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return b.Drain(ctx, t, d)
}

// Remove drops the databases of peers, and deletes their consumer groups. Nothing needs to be there.
func (b *Bench) Remove(ctx context.Context, t Topic, drains ...Drain) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
	defer cancel()
	kafka, err := check.DialKafka(b.Servers.Brokers)
	if err != nil {
		return err
	}
	defer kafka.Close()
	for _, d := range drains {
		_, failed := kafka.Admin.DeleteGroups(ctx, d.Database(t))
		err = errors.Join(err, failed, b.Servers.DropDatabase(ctx, d.Database(t)))
	}
	return err
}

// note prints a line.
func (b *Bench) note(format string, args ...any) {
	fmt.Fprintf(b.Log, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// Markdown returns the report as Markdown.
func (r *Report) Markdown() string {
	var b strings.Builder
	l := r.Topic.Load
	fmt.Fprintf(&b, "%s- %d records of %.0f bytes of JSON, %d series, %d fields, a step of %s, order %s, %g %% late, %d partitions\n",
		r.Machine, l.Records, float64(r.Topic.Bytes)/float64(l.Records), l.Series, l.Fields, l.Step, l.Order, 100*l.Late, l.Partitions)
	fmt.Fprintf(&b, "- settings: %s\n", r.Settings)
	b.WriteString("- medians of the rounds; in brackets the least and the most\n\n")
	rows := [][]string{{
		"peer", "measurements/s", "a second of own CPU", "own CPU each", "server CPU each", "Kafka CPU each",
		"bytes each: data / disk / indexes", "documents", "resident", "all stored once",
	}}
	ours, notes := r.of(Waterwheel), ""
	for _, peer := range Peers {
		theirs := r.of(peer)
		if len(theirs) == 0 {
			continue
		}
		rows = append(rows, row(theirs))
		if note := theirs[0].Note; note != "" {
			notes += fmt.Sprintf("\n%s: %s.", peer, note)
		}
		if peer != Waterwheel && len(ours) > 0 {
			var ratios []float64
			for i := range ours {
				ratios = append(ratios, ours[i].rate()/theirs[i].rate())
			}
			notes += fmt.Sprintf("\nwaterwheel / %s: %s times the measurements a second.", peer, spread(ratios, digits))
		}
	}
	return b.String() + Table(rows) + notes + "\n"
}

// of returns the results of one peer, by round.
func (r *Report) of(peer Peer) []Result {
	results := slices.DeleteFunc(slices.Clone(r.Results), func(r Result) bool { return r.Peer != peer })
	slices.SortFunc(results, func(a, b Result) int { return cmp.Compare(a.Round, b.Round) })
	return results
}

// row returns a peer's line of the table. Sizes are those of the last round.
func row(results []Result) []string {
	last := results[len(results)-1]
	of := func(figure func(Result) float64, write func(float64) string) string {
		var figures []float64
		for _, r := range results {
			figures = append(figures, figure(r))
		}
		return spread(figures, write)
	}
	bytes, documents, resident, complete := unknown, unknown, unknown, "yes"
	if n := float64(last.Measurements); last.Size.Data > 0 {
		bytes = fmt.Sprintf("%.0f / %s / %s", last.Size.Data/n, digits(last.Size.Disk/n), digits(last.Size.Indexes/n))
		documents = fmt.Sprint(last.Size.Documents)
	}
	if most := slices.MaxFunc(results, func(a, b Result) int { return cmp.Compare(a.MaxResident, b.MaxResident) }); most.MaxResident > 0 {
		resident = fmt.Sprintf("%.0f MiB", float64(most.MaxResident)/(1<<20))
	}
	if slices.ContainsFunc(results, func(r Result) bool { return !r.Complete() }) {
		complete = "**no**"
	}
	return []string{
		string(last.Peer), of(Result.rate, thousands),
		of(func(r Result) float64 { return float64(r.Measurements) / r.CPU.Seconds() }, thousands),
		of(func(r Result) float64 { return r.each(r.CPU) }, micros),
		of(func(r Result) float64 { return r.each(r.ServerCPU) }, micros),
		of(func(r Result) float64 { return r.each(r.KafkaCPU) }, micros), bytes, documents, resident, complete,
	}
}
