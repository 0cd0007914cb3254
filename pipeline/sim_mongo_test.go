package pipeline_test

import (
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// mongod is a replica set. The writes on the primary have one total order, and the majority has a prefix of it. A majority read
// sees some state between its session's and the majority's. An election may roll back later writes.
type mongod struct {
	w              *world
	seq, majority  int64 // numbers of the last write, and of the last write on a majority
	buckets, parts *docs
	options        *docs
	upkeep         *docs              // settings of the server's own work on buckets
	definition     timeseries.Options // options of the time series, from its options document
	journal        []entry
	waiting        []acknowledgement
	stalled        bool          // the secondaries do not replicate
	hanging        time.Duration // until then most calls are late
	away           time.Duration // until then there is no primary
	elected        time.Duration // time of the last election
	claims         map[[16]byte]int64
	term           int   // number of elections so far
	floor          int64 // every member has all writes up to this one
}

// docs is a collection.
type docs struct {
	name  string
	order []string // ids in the order of their first insertion
	byID  map[string][]version
}

// version is a document after one write.
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

// acknowledgement waits until a majority has all writes up to seq.
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

// now returns the document on the primary. Nil means that it does not exist.
func (d *docs) now(id string) bson.Raw { return d.asOf(id, 1<<62) }

// asOf returns the document after the write seq.
func (d *docs) asOf(id string, seq int64) bson.Raw {
	versions := d.byID[id]
	for i := len(versions) - 1; i >= 0; i-- {
		if versions[i].seq <= seq {
			return versions[i].raw
		}
	}
	return nil
}

// put executes a write of one document. A nil document deletes it.
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

// whenDurable calls give as soon as a majority has all writes so far, unless an election comes first.
func (m *mongod) whenDurable(give func()) {
	if m.majority >= m.seq {
		give()
		return
	}
	m.waiting = append(m.waiting, acknowledgement{m.seq, give})
}

// stall stops replication. Majority reads lag, and no write is acknowledged.
func (m *mongod) stall() {
	m.stalled = true
	m.w.logf("the secondaries stop replicating at %d", m.seq)
}

// resume replicates all writes to the majority.
func (m *mongod) resume() {
	m.stalled, m.majority = false, m.seq
	waiting := m.waiting
	m.waiting = nil
	for _, a := range waiting {
		a.give()
	}
}

// elect makes another server the primary. It has at least the writes of the majority. Waiting acknowledgements are never given.
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

// ids returns the ids of the documents on the primary.
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
