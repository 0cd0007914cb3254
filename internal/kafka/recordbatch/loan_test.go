package recordbatch

import (
	"bytes"
	"testing"

	"waterwheel/internal/record"
)

// taken takes a batch from a reader that must have records at the offset.
func taken(t *testing.T, r *Reader, offset int64, most Piece) record.Batch {
	t.Helper()
	batch, err := r.Take(offset, most)
	if err != nil || len(batch.Records) == 0 {
		t.Fatal(batch, err)
	}
	return batch
}

// TestASetIsFreeWhenNothingReadsIt checks that a set is freed when the reader is closed and the last batch is released, in any
// order, and not before.
func TestASetIsFreeWhenNothingReadsIt(t *testing.T) {
	set := batchSpec{records: plainRecords(10)}.encode()
	m := NewMemory(Options{PieceBytes: 1 << 20, RecordBytes: 1 << 20})
	for name, end := range map[string]func(t *testing.T, r *Reader, first, second record.Batch, wantsNone func()){
		"the reader last": func(_ *testing.T, r *Reader, first, second record.Batch, wantsNone func()) {
			first.Release()
			second.Release()
			wantsNone()
			r.Close()
		},
		"the first batch last": func(t *testing.T, r *Reader, first, second record.Batch, wantsNone func()) {
			r.Close()
			second.Release()
			wantsNone()
			if !bytes.Equal(first.Records[0].Value, plainRecords(1)[0].value) {
				t.Errorf("%q", first.Records[0].Value)
			}
			first.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			freed := 0
			r := m.NewReader(Set{Partition: of, Bytes: bytes.Clone(set), End: 10, Free: func() { freed++ }})
			first := taken(t, r, 0, Piece{1 << 20, 4})
			second := taken(t, r, first.Next, Piece{1 << 20, 4})
			end(t, r, first, second, func() {
				if freed != 0 {
					t.Fatal("it was freed too early")
				}
			})
			if r.Close(); freed != 1 { // a second Close has no effect
				t.Errorf("it was freed %d times", freed)
			}
		})
	}
}

// TestABatchThatIsNotReleasedKeepsItsSet checks this because its records may still be in use.
func TestABatchThatIsNotReleasedKeepsItsSet(t *testing.T) {
	set := batchSpec{records: plainRecords(10)}.encode()
	m := NewMemory(Options{PieceBytes: 1 << 20, RecordBytes: 1 << 20})
	r := m.NewReader(Set{Partition: of, Bytes: set, End: 10, Free: func() { t.Error("it was freed") }})
	taken(t, r, 0, Piece{1 << 20, 4})
	taken(t, r, 0, Piece{1 << 20, 4}).Release()
	r.Close()
}
