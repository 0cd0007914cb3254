package mongodbtest

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/leak"
	"waterwheel/internal/mongodb"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestAnswersAreThoseOfTheScript checks that the server refuses commands without a scripted answer, and keeps each command as it
// was sent.
func TestAnswersAreThoseOfTheScript(t *testing.T) {
	f := NewFake(t, ReplicaSet)
	c := Open(t, f).Collection("c")
	document := mongodb.Document(bson.D{{Key: "_id", Value: "a"}})
	if _, err := c.Insert(t.Context(), []bson.Raw{document}); err == nil {
		t.Error("an unknown command was executed")
	}
	f.Answer("insert", Counting(1))
	if stored, err := mongodb.Changed(c.Insert(t.Context(), []bson.Raw{document})); err != nil || !stored {
		t.Errorf("stored %v, %v", stored, err)
	}
	sent := f.Sent("insert")
	if len(sent) != 2 || string(sent[1].Lookup("documents", "0").Value) != string(document) {
		t.Errorf("%v", sent)
	}
}
