package verify

import (
	"slices"

	"waterwheel/internal/timeseries"
)

// Report is what was found out about a range of one partition.
type Report struct {
	Partition int32 `json:"partition"`
	// From and To are the range of offsets that was asked for, [From, To): with a To at or below From it is empty.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Next is how far the range is judged: To when all of it is. The findings are about [From, Next).
	Next int64 `json:"next"`
	Findings
	// Lost are records that no consumer has read: they are below the log's start, and so below From.
	Lost Lost `json:"lost"`
	// FirstStored is the smallest offset of the range that is stored, -1 for none.
	FirstStored int64 `json:"firstStored"`
	// Notes are the range's.
	Notes []string `json:"notes,omitempty"`
}

// Wrong reports whether anything is not as it must be. What retention took before it was read is stored nowhere.
func (r *Report) Wrong() bool { return r.Findings.Wrong() || r.Lost.Count > 0 }

// Findings are counts of measurements. Each measurement of the log is exactly one of: stored once, doubled, missing,
// expired, deleted, dead-lettered.
type Findings struct {
	// Records of the log that were read, Tombstones among them, and Removed: offsets that the log's retention has taken
	// before they could be read.
	Records    int64 `json:"records"`
	Tombstones int64 `json:"tombstones"`
	Removed    int64 `json:"removed"`
	// Valid are the measurements that could be decoded, Bad the records and elements of arrays that could not.
	Valid int64 `json:"valid"`
	Bad   int64 `json:"bad"`

	StoredOnce int64 `json:"storedOnce"`
	// DeadLettered are bad ones, and valid ones that the database refused, for which there is a letter.
	DeadLettered int64 `json:"deadLettered"`
	// Expired are valid, not stored, and older than the collection keeps measurements.
	Expired int64 `json:"expired"`
	// Deleted are valid, not stored, and noted as deleted by a command.
	Deleted Tally `json:"deleted"`
	// Missing are valid and neither stored nor dead-lettered nor expired nor deleted.
	Missing Tally `json:"missing"`
	// Doubled are listed more than once: of valid and of compacted measurements.
	Doubled Tally `json:"doubled"`
	// Compacted are stored once, and the log has no record at their offset any more. Within a log only compaction removes records.
	Compacted Tally `json:"compacted"`
	// Unknown positions are listed by buckets or segments, and the log has a record at their offset, but no such measurement
	// could be decoded from it.
	Unknown Tally `json:"unknown"`
	// LetterMissing are bad and neither dead-lettered nor stored.
	LetterMissing Tally `json:"letterMissing"`
	// LetterDeleted are as LetterMissing, but letters were deleted from the dead-letter topic: theirs may have been among
	// them, so nothing is known to be wrong.
	LetterDeleted Tally `json:"letterDeleted"`

	// Buckets and Segments are how many were looked at; one that reaches over two windows counts in both.
	Buckets  int64 `json:"buckets"`
	Segments int64 `json:"segments"`
	// Damaged are buckets whose accounts of themselves do not agree.
	Damaged Faults `json:"damaged"`
	// Different are measurements whose content is not the record's. They are looked for only with Options.Content.
	Different Faults `json:"different"`
	// MetaChanged are stored with another meta than the record's, and noted as changed by a command. They are looked for only with
	// Options.Content.
	MetaChanged Tally `json:"metaChanged"`
	// Repair is what was done about doubles.
	Repair Repairs `json:"repair"`
}

// Wrong reports whether anything is not as it must be. Doubles that were taken out are as they must be.
func (f *Findings) Wrong() bool {
	return f.Missing.Count > 0 || f.Doubled.Count > f.Repair.Repaired || f.Unknown.Count > 0 || f.LetterMissing.Count > 0 ||
		f.Damaged.Count > 0 || f.Different.Count > 0 || f.Repair.Left.Count > 0
}

// Add adds up what was found elsewhere, keeping as many examples as each list keeps.
func (f *Findings) Add(g *Findings, examples int) {
	f.Records += g.Records
	f.Tombstones += g.Tombstones
	f.Removed += g.Removed
	f.Valid += g.Valid
	f.Bad += g.Bad
	f.StoredOnce += g.StoredOnce
	f.DeadLettered += g.DeadLettered
	f.Expired += g.Expired
	f.Deleted.merge(&g.Deleted, examples)
	f.Missing.merge(&g.Missing, examples)
	f.Doubled.merge(&g.Doubled, examples)
	f.Compacted.merge(&g.Compacted, examples)
	f.Unknown.merge(&g.Unknown, examples)
	f.LetterMissing.merge(&g.LetterMissing, examples)
	f.LetterDeleted.merge(&g.LetterDeleted, examples)
	f.Buckets += g.Buckets
	f.Segments += g.Segments
	f.Damaged.merge(&g.Damaged, examples)
	f.Different.merge(&g.Different, examples)
	f.MetaChanged.merge(&g.MetaChanged, examples)
	f.Repair.merge(&g.Repair, examples)
}

// Tally counts positions and keeps the first.
type Tally struct {
	Count int64                 `json:"count"`
	First []timeseries.Position `json:"first"`
}

// add counts a position, in any order, and keeps it if it is among the first.
func (t *Tally) add(p timeseries.Position, examples int) {
	t.Count++
	t.keep(p, examples)
}

func (t *Tally) keep(p timeseries.Position, examples int) {
	if len(t.First) >= examples && (examples == 0 || p.Compare(t.First[examples-1]) >= 0) {
		return
	}
	at, _ := slices.BinarySearchFunc(t.First, p, timeseries.Position.Compare)
	t.First = slices.Insert(t.First, at, p)
	t.First = t.First[:min(len(t.First), examples)]
}

func (t *Tally) merge(u *Tally, examples int) {
	t.Count += u.Count
	for _, p := range u.First {
		t.keep(p, examples)
	}
}

// Faults counts faults of buckets and keeps the first found.
type Faults struct {
	Count int64   `json:"count"`
	First []Fault `json:"first"`
}

// Fault is an error in a bucket.
type Fault struct {
	// Bucket is the bucket's _id, in hexadecimal digits where it is an ObjectID.
	Bucket string `json:"bucket"`
	// Position is the measurement in question. Nil means the bucket.
	Position *timeseries.Position `json:"position,omitempty"`
	// Path leads to the value in the bucket. Empty means the bucket as a whole.
	Path string `json:"path,omitempty"`
	// Text says what is there, and what should be.
	Text string `json:"text"`
}

func (f *Faults) add(fault Fault, examples int) {
	f.Count++
	if len(f.First) < examples {
		f.First = append(f.First, fault)
	}
}

func (f *Faults) merge(g *Faults, examples int) {
	f.Count += g.Count
	f.First = append(f.First, g.First[:min(len(g.First), max(0, examples-len(f.First)))]...)
}
