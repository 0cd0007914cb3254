package pipeline_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// alarm is a partition that has stopped until an operator acts.
type alarm struct {
	source timeseries.Source
	stop   *record.StopError
}

// String returns a short text for the trace.
func (a alarm) String() string {
	return fmt.Sprintf("partition %d: %s", a.source.Partition, a.stop.Reason)
}

// attending makes an operator look for alarms from time to time.
func (w *world) attending() {
	w.at(w.now+w.between(3, 12), w.attending)
	if alarms := w.alarms(); len(alarms) > 0 && !w.maintained {
		w.maintain(alarms)
	}
}

// needsHands reports whether a partition that stopped for a reason needs an operator. One that found a late claim of a former
// group needs an operator once the chaos is over.
func (w *world) needsHands(reason string) bool {
	return reason == "bad_record" || reason == "offset_out_of_range" || reason == "other_group" && !w.chaos
}

// alarms returns the stopped partitions that need an operator, as the processes report them.
func (w *world) alarms() (alarms []alarm) {
	for _, p := range w.all {
		if p.dead || p.paused > w.now || p.present == nil || p.group != w.group {
			continue
		}
		for _, r := range p.working() {
			stop := r.worker.Status(p.clock()).Stopped
			if stop != nil && w.needsHands(stop.Reason) {
				w.note("(met) partition stopped: " + stop.Reason)
				alarms = append(alarms, alarm{r.source, stop})
			}
		}
	}
	return alarms
}

// maintain stops all processes, answers the alarms, and starts the processes again.
func (w *world) maintain(alarms []alarm) {
	w.maintained = true
	group := w.group
	w.logf("an operator stops everything: %v", alarms)
	for _, p := range w.all {
		p.term = true
	}
	w.whenStopped(40, func() {
		if group == w.group {
			for _, a := range alarms {
				w.answerAlarm(a)
			}
		}
		w.maintained, w.eased = false, w.now
		for _, slot := range sortedKeys(w.slots) {
			w.start(slot)
		}
	})
}

// whenStopped calls do as soon as no process is alive and the group is empty. After patience seconds it kills the processes.
func (w *world) whenStopped(patience int, do func()) {
	w.at(w.now+time.Second, func() {
		if patience == 0 {
			for _, p := range w.all {
				p.crash()
			}
		}
		if len(w.group.members) == 0 && !w.group.preparing && !slices.ContainsFunc(w.all, func(p *process) bool { return !p.dead }) {
			do()
			return
		}
		w.whenStopped(patience-1, do)
	})
}

// answerAlarm does what the text of an alarm says.
func (w *world) answerAlarm(a alarm) {
	l := w.kafka.find(a.source.TopicID, a.source.Partition)
	switch {
	case a.stop.Reason == "other_group":
		w.takeOverAgain()
	case l == nil: // the topic was recreated in the meantime
	case a.stop.Reason == "offset_out_of_range":
		w.setOffset(l, pick(w, l.first, l.end), l.first)
	case !w.chaos || w.chance(0.3):
		w.logf("an operator makes a dead-letter topic")
		w.traits.noDeadLetters, w.traits.settings.stopOnBad = false, false
	default:
		w.skip(l, a)
	}
}

// skip sets the offset behind a bad record, if everything before it is committed.
func (w *world) skip(l *partitionLog, a alarm) {
	var bad, next int64
	from := strings.Index(a.stop.Detail, "at offset ")
	to := strings.LastIndex(a.stop.Detail, "group's offset to ")
	if from < 0 || to < 0 {
		w.fail("alarm", "does not name the record: %s", a.stop.Detail)
		return
	}
	if _, err := fmt.Sscanf(a.stop.Detail[from:], "at offset %d", &bad); err != nil {
		w.fail("alarm", "%v: %s", err, a.stop.Detail)
	}
	if _, err := fmt.Sscanf(a.stop.Detail[to:], "group's offset to %d", &next); err != nil || next != bad+1 {
		w.fail("alarm", "%v: %s", err, a.stop.Detail)
	}
	last := w.group.last(l.partition)
	if last.ofAnotherProgram() {
		return // a reset would forget what the other program's commit passed over
	}
	for o := last.offset; o < bad; o++ {
		if o < 0 || l.records[o] != nil {
			return // the partition will stop there again
		}
	}
	w.note("(met) bad record skipped by an operator")
	w.setOffset(l, next, bad)
}

// setOffset is an operator's reset of one partition. Measurements between the two offsets that are not stored need not be stored
// any more.
func (w *world) setOffset(l *partitionLog, to, from int64) {
	l.excuse(w, from, to, "skipped by a reset")
	w.group.commits[l.partition] = append(w.group.commits[l.partition], committed{visible: w.now, offset: to})
	w.logf("an operator resets partition %d to %d", l.partition, to)
}
