package sink

import (
	"bytes"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestChangesStayInOneNote has metas so large that they need several notes. A keeper must find the former and the new meta of a
// change in one note.
func TestChangesStayInOneNote(t *testing.T) {
	var metas []bson.RawValue
	for i := range 6 {
		metas = append(metas, bson.RawValue{Type: bson.TypeString, Value: bytes.Repeat([]byte{byte(i)}, maxNoteBytes*45/100)})
	}
	metas[0].Value = metas[0].Value[:100]
	for _, deletes := range []bool{false, true} {
		at := 0
		notes := newRollupNotes(metas, deletes, time.Time{})
		for _, n := range notes {
			if !deletes && len(n.Metas)%2 != 0 {
				t.Errorf("a note has %d metas, which are no whole changes", len(n.Metas))
			}
			for _, meta := range n.Metas {
				if !meta.Equal(metas[at]) {
					t.Fatalf("meta %d is another one", at)
				}
				at++
			}
		}
		if at != len(metas) || len(notes) < 2 {
			t.Errorf("%d notes have %d metas", len(notes), at)
		}
	}
}
