package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
	"waterwheel/pipeline"
)

// Notice is a sentence about a problem, and the section of docs/runbook.md that says what to do.
type Notice struct {
	Text    string `json:"text"`
	Runbook string `json:"runbook"`
}

// These are sections of docs/runbook.md.
const (
	aboutReadiness   = "readiness"
	aboutOutages     = "outages"
	aboutStopped     = "stopped-partitions"
	aboutLate        = "waterwheelstale"
	aboutDeadLetters = "dead-letters"
)

// join joins the sentences into one line.
func join(all []Notice, between string) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].Text
	}
	return strings.Join(texts, between)
}

// readiness collects the sentences of /readyz.
type readiness struct {
	at            time.Time
	bad, doubtful []Notice
}

func (r *readiness) notReady(about, format string, args ...any) {
	r.bad = append(r.bad, Notice{fmt.Sprintf(format, args...), about})
}

func (r *readiness) degraded(format string, args ...any) {
	r.doubtful = append(r.doubtful, Notice{fmt.Sprintf(format, args...), aboutReadiness})
}

// servers adds one sentence for each server that fails.
func (r *readiness) servers(statuses []*pipeline.Status, ping *outage) {
	var failing [pipeline.Dependencies]struct {
		first *pipeline.Failure
		by    []string
	}
	for _, s := range statuses {
		for of, failure := range s.Failures {
			if failure == nil || kafka.Now()-failure.Since <= patience {
				continue
			}
			f := &failing[of]
			f.by = append(f.by, s.Partition.String())
			if f.first == nil || failure.Since < f.first.Since {
				f.first = failure
			}
		}
	}
	for of, f := range failing {
		server := pipeline.Dependency(of)
		switch {
		case server == pipeline.MongoDB && ping != nil:
			r.notReady(aboutOutages, "MongoDB has not answered since %s: %v%s", text.Time(ping.since), ping.err, waiting(f.by))
		case f.first != nil:
			since := r.at.Add(f.first.Since - kafka.Now())
			r.notReady(aboutOutages, "%s has been failing since %s: %v%s", server.Name(), text.Time(since), f.first, waiting(f.by))
		}
	}
}

// waiting names the partitions that wait for a server.
func waiting(partitions []string) string {
	if len(partitions) == 0 {
		return ""
	}
	return " [" + words.Count(len(partitions), "partition") + ": " + text.List(partitions) + "]"
}

// claims adds one sentence for each reason why partitions are not read yet.
func (r *readiness) claims(statuses []*pipeline.Status) {
	unread := map[string][]string{}
	for _, s := range statuses {
		began := kafka.Now() - s.Since
		if s.Stopped == nil && s.Refused == nil && !s.Running && !s.Between && (s.ClaimWait > 0 || began > patience) {
			unread[standing(s)] = append(unread[standing(s)], s.Partition.String())
		}
	}
	for _, why := range slices.Sorted(maps.Keys(unread)) {
		r.degraded("not read yet: %s%s", why, waiting(unread[why]))
	}
}

// standing describes the state of a partition that is not read yet.
func standing(s *pipeline.Status) string {
	if s.ClaimWait == 0 {
		return s.Phase
	}
	owner := "the previous owner"
	if s.FormerOwner != "" {
		owner += " (" + s.FormerOwner + ", perhaps killed)"
	}
	return owner + " has not released the partitions: its writes may still arrive for " + s.ClaimWait.Round(time.Second).String()
}

// joins adds a sentence about a group that is being joined. It does so at once if no partition is read meanwhile.
func (r *readiness) joins(name string, membership group.Status) {
	took := kafka.Now() - membership.Since
	switch joining := membership.State == group.Joining || membership.State == group.Syncing; {
	case membership.Generation == nil && joining:
		r.notReady(aboutReadiness, "not in group %s yet: joining for %s", name, took.Round(time.Second))
	case membership.Generation == nil:
		r.notReady(aboutReadiness, "not in group %s yet: %s", name, membership.State)
	case joining && took > patience:
		r.degraded("joining the next generation of group %s for %s: processing continues in the current generation", name, took.Round(time.Second))
	}
}

// transactions adds a sentence for each open transaction that blocks partitions.
func (r *readiness) transactions(statuses []*pipeline.Status) {
	behind := map[string][]string{}
	for _, s := range statuses {
		if s.Transaction != nil {
			behind[nameOf(s.Transaction)] = append(behind[nameOf(s.Transaction)], s.Partition.String())
		}
	}
	for _, of := range slices.Sorted(maps.Keys(behind)) {
		r.degraded("waits for a transaction open since %s: records after the transaction's first record become readable when the transaction ends%s", of, waiting(behind[of]))
	}
}

// nameOf describes since when a transaction is open, and its producer, as far as they are known.
func nameOf(t *record.Transaction) string {
	name := text.Time(t.Since)
	if t.Producer >= 0 {
		name += fmt.Sprintf(", of producer %d", t.Producer)
	}
	if t.ID != "" {
		name += fmt.Sprintf(" (transactional id %q)", t.ID)
	}
	return name
}

// losses adds a sentence about records that retention deleted before they were read, and one about KAFKA_OUT_OF_RANGE.
func (r *readiness) losses(recent []pipeline.Loss) {
	var deleted, elsewhere []string
	policy := ""
	for _, loss := range recent {
		if loss.Policy == "" {
			deleted = append(deleted, offsetsOf(loss))
		} else {
			policy, elsewhere = loss.Policy, append(elsewhere, placeOf(loss))
		}
	}
	if deleted != nil {
		r.degraded("retention deleted records before they were read, within the last hour: %s", text.List(deleted))
	}
	if elsewhere != nil {
		r.degraded("within the last hour a log ended before the next offset to read, and reading continued at another offset because of KAFKA_OUT_OF_RANGE=%s: %s",
			policy, text.List(elsewhere))
	}
}

func offsetsOf(l pipeline.Loss) string {
	return fmt.Sprintf("%s from %d to %d", l.Partition, l.From, l.To-1)
}

func placeOf(l pipeline.Loss) string {
	return fmt.Sprintf("%s at %d instead of %d", l.Partition, l.To, l.From)
}

// partitions adds the sentences about partitions. Each comes once, with all partitions that it applies to.
func (r *readiness) partitions(statuses []*pipeline.Status) {
	var stopped, refused sentences
	var poisonRecords []string
	records := 0
	for _, s := range statuses {
		switch {
		case s.Stopped != nil:
			stopped.add(s.Stopped, s.Partition.String())
		case s.Refused != nil:
			refused.add(s.Refused, s.Partition.String())
		}
		if s.PoisonRecords > 0 {
			records += s.PoisonRecords
			poisonRecords = append(poisonRecords, s.Partition.String())
		}
	}
	for _, why := range stopped {
		r.notReady(aboutStopped, "reading has stopped (%s): %s%s", why.Reason, why.Detail, waiting(why.partitions))
	}
	for _, why := range refused {
		r.notReady(aboutStopped, "the partitions cannot be claimed yet (%s): %s%s", why.Reason, why.Detail, waiting(why.partitions))
	}
	if records > 0 {
		r.degraded("a bug in this program made dead letters of %s (internal_error): please report the stack trace in the log%s",
			words.Count(records, "record"), waiting(poisonRecords))
	}
}

// sentences are statements about partitions, in the order of the first partition of each.
type sentences []*sentence

// sentence is a statement about partitions. If several partitions differ only in their names, its Detail does not name them.
type sentence struct {
	record.StopError
	common     record.StopError // the same without the partition's name
	partitions []string
}

func (all *sentences) add(why *record.StopError, partition string) {
	common := *why
	common.Detail = strings.ReplaceAll(common.Detail, partition, "…")
	i := slices.IndexFunc(*all, func(s *sentence) bool { return s.common == common })
	if i < 0 {
		*all = append(*all, &sentence{StopError: *why, common: common, partitions: []string{partition}})
		return
	}
	same := (*all)[i]
	same.StopError, same.partitions = common, append(same.partitions, partition)
}

// Topics is the last look for topics that match the patterns of KAFKA_TOPICS.
type Topics struct {
	// None means that no topic is read.
	None bool
	// Unread are topics that match and are not read, sorted, each with the reason.
	Unread []string
	// Failed is why the look failed. Since is when the first of the looks in a row failed, on the clock of package kafka.
	Failed error
	Since  time.Duration
}

// failing reports whether Kafka did not answer the last look, and there is no partition whose state would show this.
func (t *Topics) failing() bool { return t != nil && t.None && t.Failed != nil }

// topics adds sentences about the topics that match the patterns of KAFKA_TOPICS. If there are partitions, their own states show
// an outage of Kafka.
func (r *readiness) topics(t *Topics) {
	switch {
	case !t.None:
	case t.Failed != nil && kafka.Now()-t.Since > patience:
		r.notReady(aboutOutages, "Kafka has been failing since %s: %v", text.Time(r.at.Add(t.Since-kafka.Now())), t.Failed)
	default:
		r.degraded("no topic matches KAFKA_TOPICS, or this user may not see it: the consumer looks for topics every 15 seconds")
	}
	if len(t.Unread) > 0 {
		r.degraded("not read, although it matches KAFKA_TOPICS: %s", text.List(t.Unread))
	}
}

// pending is a server that the start waits for.
type pending struct {
	of    pipeline.Dependency
	at    string
	since time.Time
	why   error
	told  time.Time // when it was last reported
}

// cause returns why in one line, without the words that the sentence already has.
func (p *pending) cause() string {
	cause := strings.TrimPrefix(p.why.Error(), "connecting to "+p.of.Name()+": ")
	return strings.ReplaceAll(cause, "\n", "; ") // several brokers have one line each
}

// waits are the servers that the start waits for. It is safe for concurrent use.
type waits struct {
	mu sync.Mutex
	by map[pipeline.Dependency]pending
}

// Waiting records that the start waits for a server at an address, and why. A nil why ends the wait.
func (v *View) Waiting(of pipeline.Dependency, at string, since time.Time, why error) {
	before := v.waits.note(pending{of, at, since, why, time.Now()})
	v.outages.WithLabelValues(of.String()).Add(time.Since(before).Seconds())
}

// note records a wait, or removes it. It returns the time up to which the wait was already counted.
func (w *waits) note(p pending) (before time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = p.since
	if known, ok := w.by[p.of]; ok {
		before = known.told
	}
	if p.why == nil {
		delete(w.by, p.of)
		return before
	}
	if w.by == nil {
		w.by = map[pipeline.Dependency]pending{}
	}
	w.by[p.of] = p
	return before
}

func (w *waits) list() []pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Values(w.by), func(a, b pending) int { return int(a.of) - int(b.of) })
}

// waits adds a sentence for each server that the start waits for.
func (r *readiness) waits(list []pending) {
	for _, p := range list {
		r.notReady(aboutReadiness, "waiting for %s (%s) since %s: %s", p.of.Name(), p.at, text.Time(p.since), p.cause())
	}
	if len(list) == 0 {
		r.notReady(aboutReadiness, "connecting to Kafka and MongoDB")
	}
}
