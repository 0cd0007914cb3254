package segments

import "maps"

// A row is a measurement. It has a position, and the meta that its document gives it.
type row struct{ position, meta int }

// document is a segment or a bucket.
type document struct {
	segment    bool
	rows       []row
	compaction string // for a segment, the compaction for which it is frozen; for a bucket, the compaction that made it; empty means none
	until      int    // for segments: queries see them until then; zero means that they have not ended
	from       int    // for buckets: queries see them from then on
}

// frozen reports whether a compaction has frozen a segment and has not yet ended it.
func (d document) frozen() bool { return d.segment && d.compaction != "" && d.until == 0 }

// shown is the rule that decides for every query whether it sees a document.
func (d document) shown(now int) bool {
	if d.segment {
		return d.until == 0 || d.until > now
	}
	return d.from <= now
}

// state is the content of the database. Its parts are never changed, only replaced.
type state struct {
	documents map[string]document
	claim     int // the token of the owner
}

// These are the errors of the database.
const (
	ok        = ""
	duplicate = "duplicate key"
	noMatch   = "no match"
	refused   = "refused"
)

// database is a replica set. It has one order of writes, and a majority has a prefix of them.
type database struct {
	w     *world
	term  int
	log   []state // after each write
	at    []int   // the times of the writes
	major int     // the last write that a majority has
}

func newDatabase(w *world) *database {
	return &database{w: w, log: []state{{documents: map[string]document{}}}, at: []int{0}}
}

func (d *database) last() int       { return len(d.log) - 1 }
func (d *database) now() state      { return d.log[d.last()] }
func (d *database) majority() state { return d.log[d.major] }

// write appends one atomic write, and returns its index in the order.
func (d *database) write(to state) int {
	d.log, d.at = append(d.log, to), append(d.at, d.w.now)
	return d.last()
}

// put writes a document. If it is nil, the document is deleted.
func (d *database) put(id string, doc *document) int {
	next := d.now()
	next.documents = maps.Clone(next.documents)
	if doc == nil {
		delete(next.documents, id)
	} else {
		next.documents[id] = *doc
	}
	return d.write(next)
}

// insert writes a document that must not exist yet.
func (d *database) insert(id string, doc document) (seq int, err string) {
	if _, has := d.now().documents[id]; has {
		return d.last(), duplicate
	}
	return d.put(id, &doc), ok
}

// update changes a document. change reports whether the document matches. If it leaves no rows, the document is deleted.
func (d *database) update(id string, change func(*document) bool) (seq int, err string) {
	doc, has := d.now().documents[id]
	if !has || !change(&doc) {
		return d.last(), noMatch
	}
	if len(doc.rows) == 0 {
		return d.put(id, nil), ok
	}
	return d.put(id, &doc), ok
}

// partition changes the partition document if it matches.
func (d *database) partition(change func(*state) bool) (seq int, err string) {
	next := d.now()
	if !change(&next) {
		return d.last(), noMatch
	}
	return d.write(next), ok
}

// step lets the majority receive more writes.
func (d *database) step() {
	if d.major == d.last() || !d.w.chaos {
		d.major = d.last()
		return
	}
	if !d.w.chance(d.w.catching) && d.at[d.major+1]+replicaLag >= d.w.now {
		return
	}
	d.major += 1 + d.w.random.IntN(d.last()-d.major)
	for d.major < d.last() && d.at[d.major+1]+replicaLag < d.w.now {
		d.major++
	}
}

// elect makes another member the primary. Writes that a majority does not have are lost.
func (d *database) elect() {
	if d.last() > d.major {
		d.w.saw(rolledBack)
	}
	d.term++
	d.log, d.at = d.log[:d.major+1], d.at[:d.major+1]
}

// oldest returns the oldest state that a member may have had at a time.
func (d *database) oldest(at int) int {
	seq := 0
	for seq < d.major && d.at[seq+1] <= at {
		seq++
	}
	return seq
}

// member returns a state that some member has now and that a majority has.
func (d *database) member() state {
	seq := d.oldest(d.w.now - replicaLag)
	return d.log[seq+d.w.random.IntN(d.major-seq+1)]
}
