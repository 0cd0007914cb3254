package segments

// readers query everything repeatedly. A query reads the clock once, and reads the documents at several moments: first one kind
// and then the other, or in any order.
func (w *world) readers(sleep func(int)) {
	for {
		sleep(1 + w.random.IntN(4))
		began := w.now
		now := began + w.random.IntN(clockError+1) - clockError/2
		stored := w.stored(began)
		var states []state
		for i := range 2 + w.random.IntN(2) {
			if i > 0 {
				sleep(w.random.IntN(queryTime/2 + 1))
			}
			states = append(states, w.db.member())
		}
		if w.clocks {
			w.judge(began, now, stored, w.query(states, now))
		}
	}
}

// stored lists the positions that every member has when a query begins.
func (w *world) stored(began int) []bool {
	stored := make([]bool, w.end)
	for _, doc := range w.db.log[w.db.oldest(began-replicaLag)].documents {
		for _, r := range doc.rows {
			stored[r.position] = true
		}
	}
	return stored
}

// query counts how often each position is shown. Each document is read in its state at one of the moments.
func (w *world) query(states []state, now int) []int {
	counts := make([]int, w.end)
	order, salt := w.random.IntN(3), w.random.Uint32()
	for i, s := range states {
		for id, doc := range s.documents {
			if moment(id, order, salt, len(states)) == i && doc.shown(now) {
				for _, r := range doc.rows {
					counts[r.position]++
				}
			}
		}
	}
	return counts
}

// moment returns the index of the moment at which a document is read. With order 0 buckets are read first, with 1 segments, and
// with 2 the order is random.
func moment(id string, order int, salt uint32, moments int) int {
	if order < 2 {
		return (order ^ int(id[0]&1)) * (moments - 1) // the character B is even, and S is odd
	}
	for _, b := range []byte(id) {
		salt = (salt ^ uint32(b)) * 16777619
	}
	return int(salt>>16) % moments
}

func (w *world) judge(began, now int, stored []bool, counts []int) {
	twice := false
	for p := range stored {
		switch {
		case w.deleted[p]: // it may be read and stored again in the meantime
		case counts[p] == 0 && stored[p]:
			w.fault("position %d is not shown to a query of %d that began at %d", p, now, began)
		case counts[p] > 1 && w.doubled[p]+replicaLag+clockError >= began:
		case counts[p] == 2 && w.unfinished(p, now, began):
			twice = true
		case counts[p] > 1:
			w.fault("position %d is shown %d times to a query of %d that began at %d", p, counts[p], now, began)
		}
	}
	if twice {
		w.saw(shownTwice)
	}
}
