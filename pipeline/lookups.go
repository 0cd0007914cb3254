package pipeline

import (
	"unsafe"

	"waterwheel/bucketer"
)

// maxLookups is how many look-ups are made at a time.
const maxLookups = 1000

// advanceLookups starts the next look-up.
func (w *Worker) advanceLookups(m Moment, actions []Action) []Action {
	if !w.mayFind(m) {
		return actions
	}
	if w.lookups == nil {
		w.lookups = w.catalog.Lookups(maxLookups)
	}
	if len(w.lookups) == 0 {
		return actions
	}
	w.busy.find = true
	return append(actions, FindBuckets{Lookups: w.lookups})
}

// mayFind reports whether the next look-up may start. A parked measurement takes more memory once its look-up is answered. So
// when memory is short, a flush comes first.
func (w *Worker) mayFind(m Moment) bool {
	if w.busy.find || w.term.revoked || !w.retry.find.ready(m.Now) {
		return false
	}
	pending, _ := w.catalog.Pending()
	return pending == 0 && w.flush == nil || !w.over(m)
}

// bucketsFound gives the answers to the catalog.
func (w *Worker) bucketsFound(m Moment, e BucketsFound) {
	w.busy.find = false
	if e.Err != nil {
		w.failed(m, &w.retry.find, MongoDB, lookingUp, e.Err)
		return
	}
	w.succeeded(&w.retry.find, MongoDB)
	w.lookups = unanswered(w.lookups, e.Answers)
	if w.catalog != nil {
		w.catalog.Load(e.Answers)
	}
}

// unanswered returns the look-ups that must be asked again. The answers have the order of the look-ups.
func unanswered(asked []bucketer.Lookup, answers []bucketer.Answer) []bucketer.Lookup {
	var left []bucketer.Lookup
	for i := range asked {
		l := &asked[i]
		if len(answers) > 0 && answers[0].Lookup.IsSame(l) {
			answers = answers[1:]
		} else if !l.Ahead {
			left = append(left, *l)
		}
	}
	return left
}

// answerBytes is the memory of answers. Several answers may share a document, which counts once.
func answerBytes(answers []bucketer.Answer) int64 {
	bytes := int64(cap(answers)) * int64(unsafe.Sizeof(bucketer.Answer{}))
	known := map[*byte]struct{}{}
	for i := range answers {
		bytes += int64(cap(answers[i].Candidates)) * int64(unsafe.Sizeof(bucketer.Candidate{}))
		for _, c := range answers[i].Candidates {
			at := unsafe.SliceData(c.Document)
			if _, ok := known[at]; !ok {
				known[at] = struct{}{}
				bytes += int64(cap(c.Document))
			}
		}
	}
	return bytes
}
