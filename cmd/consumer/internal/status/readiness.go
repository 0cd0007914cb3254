package status

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/kafka"
	"waterwheel/kafka/group"
	"waterwheel/pipeline"
)

// readiness collects the sentences of /readyz.
type readiness struct {
	at            time.Time
	bad, doubtful []string
}

func (r *readiness) notReady(format string, args ...any) {
	r.bad = append(r.bad, fmt.Sprintf(format, args...))
}

func (r *readiness) degraded(format string, args ...any) {
	r.doubtful = append(r.doubtful, fmt.Sprintf(format, args...))
}

// servers has one sentence for each server that fails, whoever found out.
func (r *readiness) servers(statuses []*pipeline.Status, ping *outage) {
	var failing [pipeline.Dependencies]struct {
		first *pipeline.Trouble
		by    []string
	}
	for _, s := range statuses {
		for of, trouble := range s.Troubles {
			if trouble == nil || kafka.Now()-trouble.Since <= patience {
				continue
			}
			f := &failing[of]
			f.by = append(f.by, s.Partition.String())
			if f.first == nil || trouble.Since < f.first.Since {
				f.first = trouble
			}
		}
	}
	for of, f := range failing {
		server := pipeline.Dependency(of)
		switch {
		case server == pipeline.MongoDB && ping != nil:
			r.notReady("MongoDB has not answered since %s: %v%s", text.Time(ping.since), ping.err, waiting(f.by))
		case f.first != nil:
			since := r.at.Add(f.first.Since - kafka.Now())
			r.notReady("%s has been failing since %s: %v%s", server.Name(), text.Time(since), f.first, waiting(f.by))
		}
	}
}

// waiting names the partitions that wait for a server.
func waiting(partitions []string) string {
	if len(partitions) == 0 {
		return ""
	}
	return " [" + text.Count(len(partitions), "partition") + ": " + text.List(partitions) + "]"
}

// claims has one sentence for each reason for which partitions are not read yet.
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

// standing is where the tenure of a partition that is not read stands, in words.
func standing(s *pipeline.Status) string {
	if s.ClaimWait == 0 {
		return s.Phase
	}
	owner := "a former owner"
	if s.FormerOwner != "" {
		owner += " (" + s.FormerOwner + ", killed?)"
	}
	return owner + " has not released them: its writes may still arrive for " + s.ClaimWait.Round(time.Second).String()
}

// joins has a sentence about a group that is being joined: at once if nothing is done meanwhile.
func (r *readiness) joins(name string, membership group.Status) {
	took := kafka.Now() - membership.Since
	switch joining := membership.State == group.Joining || membership.State == group.Syncing; {
	case membership.Generation == nil && joining:
		r.notReady("not in group %s yet: joining for %s", name, took.Round(time.Second))
	case membership.Generation == nil:
		r.notReady("not in group %s yet: %s", name, membership.State)
	case joining && took > patience:
		r.degraded("joining the next generation of group %s for %s: the work goes on under the present one", name, took.Round(time.Second))
	}
}

// partition has the sentences about one partition.
func (r *readiness) partition(s *pipeline.Status) {
	if s.Stopped != nil {
		r.notReady("partition %s has stopped (%s): %s", s.Partition, s.Stopped.Reason, s.Stopped.Detail)
	} else if s.Refused != nil {
		r.notReady("partition %s cannot be claimed yet (%s): %s", s.Partition, s.Refused.Reason, s.Refused.Detail)
	}
	if s.Poisoned > 0 {
		r.degraded("partition %s: %d records hit a bug in this program and became letters (internal_error); please report the stack in the log", s.Partition, s.Poisoned)
	}
}
