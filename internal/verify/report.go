package verify

import (
	"slices"

	"waterwheel/internal/timeseries"
)

// Report is the result of verifying a range of one partition.
type Report struct {
	Partition int32 `json:"partition"`
	// From and To are the range of offsets that was requested, [From, To). The range is empty if To is at or below From.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Next is how far the range was judged. It is To if all of it was. The findings cover [From, Next).
	Next int64 `json:"next"`
	Findings
	// Lost are records that no consumer has read. They are below the log's start, and so below From.
	Lost Lost `json:"lost"`
	// FirstStored is the smallest offset of the range that is stored. It is -1 if none is.
	FirstStored int64 `json:"firstStored"`
	// Notes are the notes of the range.
	Notes []string `json:"notes,omitempty"`
}

// Wrong reports whether anything is wrong. That includes lost records, which are stored nowhere.
func (r *Report) Wrong() bool { return r.Findings.Wrong() || r.Lost.Count > 0 }

// Findings are counts of measurements. Each measurement of the log is in exactly one of these groups: stored once, doubled,
// missing, expired, deleted, dead-lettered.
type Findings struct {
	// Records is the number of records read from the log, and Tombstones the number of tombstones among them. Removed is the
	// number of offsets that retention has removed before they could be read.
	Records    int64 `json:"records"`
	Tombstones int64 `json:"tombstones"`
	Removed    int64 `json:"removed"`
	// Valid is the number of measurements that could be decoded. Bad is the number of records and array elements that could not.
	Valid int64 `json:"valid"`
	Bad   int64 `json:"bad"`

	StoredOnce int64 `json:"storedOnce"`
	// DeadLettered are those that have a letter. They are bad, or they are valid and the database rejected them.
	DeadLettered int64 `json:"deadLettered"`
	// Expired are valid, not stored, and older than the time for which the collection keeps measurements.
	Expired int64 `json:"expired"`
	// Deleted are valid, not stored, and noted as deleted by a command.
	Deleted Tally `json:"deleted"`
	// Missing are valid, but neither stored, dead-lettered, expired nor deleted.
	Missing Tally `json:"missing"`
	// Doubled are valid or compacted measurements that are listed more than once.
	Doubled Tally `json:"doubled"`
	// Compacted are stored once, but the log no longer has a record at their offset. Within a log, only compaction removes
	// records.
	Compacted Tally `json:"compacted"`
	// Unknown positions are listed by buckets or segments. The log has a record at their offset, but no such measurement could be
	// decoded from it.
	Unknown Tally `json:"unknown"`
	// DeadLetterMissing are bad, but neither dead-lettered nor stored.
	DeadLetterMissing Tally `json:"deadLetterMissing"`
	// DeadLetterDeleted are like DeadLetterMissing, but letters were deleted from the dead-letter topic. Theirs may have been among
	// them, so nothing is known to be wrong.
	DeadLetterDeleted Tally `json:"deadLetterDeleted"`

	// Buckets and Segments are how many documents were read. A document that spans two windows counts in both.
	Buckets  int64 `json:"buckets"`
	Segments int64 `json:"segments"`
	// Damaged are buckets that contradict themselves.
	Damaged Faults `json:"damaged"`
	// Different are measurements whose content differs from the record. They are looked for only with Options.Content.
	Different Faults `json:"different"`
	// MetaChanged are stored with another meta than the record's, and noted as changed by a command. They are looked for only
	// with Options.Content.
	MetaChanged Tally `json:"metaChanged"`
	// Repair is what was done about doubled measurements.
	Repair Repairs `json:"repair"`
}

// Wrong reports whether anything is wrong. Repaired doubles are not.
func (f *Findings) Wrong() bool {
	return f.Missing.Count > 0 || f.Doubled.Count > f.Repair.Repaired || f.Unknown.Count > 0 || f.DeadLetterMissing.Count > 0 ||
		f.Damaged.Count > 0 || f.Different.Count > 0 || f.Repair.Left.Count > 0
}

// Add adds the findings of g. It keeps as many examples as each list allows.
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
	f.DeadLetterMissing.merge(&g.DeadLetterMissing, examples)
	f.DeadLetterDeleted.merge(&g.DeadLetterDeleted, examples)
	f.Buckets += g.Buckets
	f.Segments += g.Segments
	f.Damaged.merge(&g.Damaged, examples)
	f.Different.merge(&g.Different, examples)
	f.MetaChanged.merge(&g.MetaChanged, examples)
	f.Repair.merge(&g.Repair, examples)
}

// Tally counts positions and keeps the first of them.
type Tally struct {
	Count int64                 `json:"count"`
	First []timeseries.Position `json:"first"`
}

// add counts a position, and keeps it if it is among the first. Positions come in any order.
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

// Faults counts faults of buckets and keeps the first ones found.
type Faults struct {
	Count int64   `json:"count"`
	First []Fault `json:"first"`
}

// Fault is an error in a bucket.
type Fault struct {
	// Bucket is the bucket's _id, in hexadecimal digits if it is an ObjectID.
	Bucket string `json:"bucket"`
	// Position is the measurement that has the fault. Nil means that the bucket has it.
	Position *timeseries.Position `json:"position,omitempty"`
	// Path is the path of the value in the bucket. Empty means the bucket as a whole.
	Path string `json:"path,omitempty"`
	// Text says what the value is, and what it should be.
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

// Repairs is what a repair did about doubled measurements, or would have done.
type Repairs struct {
	// Repaired is the number of doubled measurements that are now stored once. Copies is how many copies were removed for it.
	// Updated counts the buckets that keep other measurements, and Deleted those that kept none.
	Repaired int64 `json:"mended"`
	Copies   int64 `json:"copies"`
	Updated  int64 `json:"updated"`
	Deleted  int64 `json:"deleted"`
	// Planned is what a repair would have counted in Repaired, after a dry run.
	Planned int64 `json:"planned"`
	// Left are copies that were not removed, with the reasons.
	Left Faults `json:"left"`
	// First are the first buckets that were, or would be, changed.
	First []RepairedBucket `json:"first"`
}

// RepairedBucket is the change of one bucket.
type RepairedBucket struct {
	Bucket string `json:"bucket"`
	// Removed is the number of measurements removed, and Kept the number of those that stay. If Kept is zero, the bucket is
	// deleted.
	Removed int `json:"removed"`
	Kept    int `json:"kept"`
}

func (r *Repairs) merge(s *Repairs, examples int) {
	r.Repaired += s.Repaired
	r.Copies += s.Copies
	r.Updated += s.Updated
	r.Deleted += s.Deleted
	r.Planned += s.Planned
	r.Left.merge(&s.Left, examples)
	r.First = append(r.First, s.First[:min(len(s.First), max(0, examples-len(r.First)))]...)
}
