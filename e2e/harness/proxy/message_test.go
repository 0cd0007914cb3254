package proxy

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestWritesInTheBodyComeBesideIt checks this because drivers send the writes of a command in a section of their own, and
// RunCommand sends them in its body.
func TestWritesInTheBodyComeBesideIt(t *testing.T) {
	for kind, list := range map[string]string{"insert": "documents", "update": "updates", "delete": "deletes"} {
		body, err := bson.Marshal(bson.D{
			{Key: kind, Value: "x.buckets"},
			{Key: list, Value: bson.A{bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "a", Value: 2}}}},
			{Key: "ordered", Value: false},
		})
		if err != nil {
			t.Fatal(err)
		}
		ids := answer(make(Message, headerBytes), bson.D{}).Reply
		c, ok := Parse(Command{Body: body}.Build(ids))
		if !ok || c.Sequence != list || len(c.Documents) != 2 || c.Documents[1].Lookup("a").AsInt64() != 2 {
			t.Fatalf("%s: %v, %q, %d documents", kind, ok, c.Sequence, len(c.Documents))
		}
		if _, err := c.Body.LookupErr(list); err == nil || c.Body.Validate() != nil || c.Body.Lookup("ordered").Boolean() {
			t.Errorf("%s: the body is %v", kind, c.Body)
		}
		again, ok := Parse(c.Build(ids))
		if !ok || again.Sequence != list || len(again.Documents) != 2 {
			t.Errorf("%s: with a section of its own it is %v", kind, again)
		}
	}
}
