package sink

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/claim"
)

func TestSettlingIsReadFromPartitionDocuments(t *testing.T) {
	by := claim.Token{1, 2, 15: 3}
	for name, test := range map[string]struct {
		settling any
		want     claim.Token
	}{
		"none":         {nil, claim.Token{}},
		"announced":    {bson.D{{Key: "by", Value: uuid(by)}, {Key: "segments", Value: bson.A{bson.NewObjectID()}}}, by},
		"no by":        {bson.D{{Key: "segments", Value: bson.A{}}}, claim.Token{}},
		"a short by":   {bson.D{{Key: "by", Value: bson.Binary{Subtype: 4, Data: by[:8]}}}, claim.Token{}},
		"another type": {"settling", claim.Token{}},
	} {
		d := bson.D{{Key: "_id", Value: "c/t/0"}, {Key: "settling", Value: test.settling}}
		if got := parseSeen(document(d)).Settling; got != test.want {
			t.Errorf("%s: %x, want %x", name, got, test.want)
		}
	}
}
