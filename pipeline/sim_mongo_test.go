package pipeline_test

import (
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// mongod is a replica set: one total order of writes on the primary, of which a majority has a prefix. A majority read
// sees some state between what its session knows and what the majority has; an election may take back what comes after.
type mongod struct {
	w              *world
	seq, majority  int64 // numbers of the last write, and of the last one that a majority has
	buckets, parts *docs
	options        *docs
	upkeep         *docs              // what the server does with buckets by itself
	definition     timeseries.Options // of the time series, as its options document says
	journal        []entry
	waiting        []acknowledgement
	stalled        bool          // the secondaries do not replicate
	hanging        time.Duration // until then, most calls are late
	away           time.Duration // until then, there is no primary
	elected        time.Duration // when the primary became it
	claims         map[[16]byte]int64
	term           int   // elections so far
	floor          int64 // what every member is sure to have
}

// docs is a collection.
type docs struct {
	name  string
	order []string // of first insertion
	byID  map[string][]version
}

// version is a document as one write left it.
type version struct {
	seq int64
	raw bson.Raw // Nil means deleted.
}

// entry is a write in the journal.
type entry struct {
	seq int64
	of  *docs
	id  string
}

// acknowledgement waits for a majority to have everything up to seq.
type acknowledgement struct {
	seq  int64
	give func()
}

func newMongod(w *world) *mongod {
	return &mongod{
		w: w, definition: simCollection, claims: map[[16]byte]int64{}, elected: -time.Hour,
		buckets: &docs{name: "buckets", byID: map[string][]version{}},
		parts:   &docs{name: "partitions", byID: map[string][]version{}},
		options: &docs{name: "options", byID: map[string][]version{}},
		upkeep:  &docs{name: "upkeep", byID: map[string][]version{}},
	}
}

// now is the document on the primary. Nil means that there is none.
func (d *docs) now(id string) bson.Raw { return d.asOf(id, 1<<62) }

// asOf is the document after the write seq.
func (d *docs) asOf(id string, seq int64) bson.Raw {
	versions := d.byID[id]
	for i := len(versions) - 1; i >= 0; i-- {
		if versions[i].seq <= seq {
			return versions[i].raw
		}
	}
	return nil
}

// put executes a write of one document; nil deletes it.
func (m *mongod) put(of *docs, id string, raw bson.Raw, by *term) {
	before := of.now(id)
	if _, known := of.byID[id]; !known {
		of.order = append(of.order, id)
	}
	m.seq++
	of.byID[id] = append(of.byID[id], version{m.seq, raw})
	m.journal = append(m.journal, entry{m.seq, of, id})
	if !m.stalled {
		m.majority = m.seq
	}
	if of == m.parts && raw != nil {
		if claim, ok := claimIn(raw); ok && m.claims[claim] == 0 {
			m.claims[claim] = m.seq
			m.w.note("(met) claims")
		} else if released, _ := raw.Lookup("released").BooleanOK(); released && m.w.rivalWaits(claim) {
			m.w.note("(met) release while a rival waits")
		}
	}
	if of == m.buckets {
		m.w.checks.changed(m.w, before, raw, by)
	}
	m.w.checkUpkeep()
}

func claimIn(raw bson.Raw) (claim [16]byte, ok bool) {
	_, data, ok := raw.Lookup("claim").BinaryOK()
	copy(claim[:], data)
	return claim, ok
}

// whenDurable calls give as soon as a majority has everything written so far, unless an election comes first.
func (m *mongod) whenDurable(give func()) {
	if m.majority >= m.seq {
		give()
		return
	}
	m.waiting = append(m.waiting, acknowledgement{m.seq, give})
}

// stall stops replication; reads of a majority lag, and no write is acknowledged.
func (m *mongod) stall() {
	m.stalled = true
	m.w.logf("the secondaries stop replicating at %d", m.seq)
}

// resume lets a majority have everything.
func (m *mongod) resume() {
	m.stalled, m.majority = false, m.seq
	waiting := m.waiting
	m.waiting = nil
	for _, a := range waiting {
		a.give()
	}
}

// elect makes another server the primary: it has what the majority has, and perhaps more. Whoever waits for an
// acknowledgement gets none.
func (m *mongod) elect() {
	kept := m.majority
	if m.seq > kept {
		kept += m.w.rnd.Int64N(m.seq - kept + 1)
	}
	m.w.logf("election: the new primary has %d of %d writes", kept, m.seq)
	for len(m.journal) > 0 && m.journal[len(m.journal)-1].seq > kept {
		m.rollBack(m.journal[len(m.journal)-1])
		m.journal = m.journal[:len(m.journal)-1]
	}
	m.waiting = nil
	m.term++
	m.elected = m.w.now
	m.away = m.w.now + m.w.between(0, 3)
	m.resume()
	m.w.checkUpkeep()
}

func (m *mongod) rollBack(e entry) {
	m.w.note("(met) writes rolled back")
	versions := e.of.byID[e.id]
	gone := versions[len(versions)-1].raw
	e.of.byID[e.id] = versions[:len(versions)-1]
	m.w.logf("rolled back: %s %x", e.of.name, e.id)
	if e.of == m.buckets {
		delete(m.w.checks.movedBy, e.id)
		m.w.checks.changed(m.w, gone, e.of.now(e.id), nil)
	}
	if e.of == m.parts && gone != nil {
		if claim, ok := claimIn(gone); ok && m.claims[claim] == e.seq {
			m.w.note("(met) claims rolled back")
			delete(m.claims, claim)
		}
	}
}

// ids are the documents there are on the primary.
func (d *docs) ids() []string {
	return slices.DeleteFunc(slices.Clone(d.order), func(id string) bool { return d.now(id) == nil })
}

// edit is an operator's write of one document.
func (m *mongod) edit(of *docs, id string, change func(bson.D) bson.D) {
	var d bson.D
	if err := bson.Unmarshal(of.now(id), &d); err != nil {
		panic(err)
	}
	m.put(of, id, encoded(change(d)), nil)
	delete(m.w.checks.movedBy, id)
}

func encoded(d bson.D) bson.Raw {
	raw, err := bson.Marshal(d)
	if err != nil {
		panic(err)
	}
	return raw
}
