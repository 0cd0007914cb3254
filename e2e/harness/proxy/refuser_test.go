package proxy_test

import (
	"bytes"
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
)

// refusing returns a refuser in front of an embedded server, and a collection of a client behind the refuser.
func refusing(t *testing.T) (*proxy.Refuser, *mongo.Collection) {
	t.Helper()
	r, err := proxy.NewRefuser(harness.EmbeddedMongo(t).URI())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	client, err := mongo.Connect(options.Client().ApplyURI(r.URI()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(t.Context()) })
	return r, client.Database("refuser").Collection("things")
}

func kind(n int) *mongo.InsertOneModel {
	return mongo.NewInsertOneModel().SetDocument(bson.D{{Key: "_id", Value: int32(n)}, {Key: "kind", Value: []string{"good", "bad"}[n%2]}})
}

func TestRefusesSomeOfACommand(t *testing.T) {
	r, things := refusing(t)
	r.Obey(func(collection string, write bson.Raw) *proxy.Refusal {
		if collection == "things" && bytes.Contains(write, []byte("bad")) {
			return &proxy.Refusal{Code: 121, Message: "Document failed validation"}
		}
		return nil
	})
	if _, err := things.InsertOne(t.Context(), bson.D{{Key: "_id", Value: int32(4)}}); err != nil {
		t.Fatal(err)
	}
	models := []mongo.WriteModel{kind(0), kind(1), kind(2), kind(3), kind(4), kind(6)}
	result, err := things.BulkWrite(t.Context(), models, options.BulkWrite().SetOrdered(false))
	codes := map[int]int{}
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) {
		t.Fatalf("%v", err)
	}
	for _, e := range bulk.WriteErrors {
		codes[e.Index] = e.Code
	}
	if result.InsertedCount != 3 || len(codes) != 3 || codes[1] != 121 || codes[3] != 121 || codes[4] != 11000 {
		t.Errorf("%d inserted, errors %v, want 3 and those of 1, 3 and 4", result.InsertedCount, codes)
	}
	update := mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: int32(0)}}).
		SetUpdate(bson.D{{Key: "$set", Value: bson.D{{Key: "kind", Value: "bad"}}}})
	if _, err := things.BulkWrite(t.Context(), []mongo.WriteModel{update}); !errors.As(err, &bulk) || bulk.WriteErrors[0].Code != 121 {
		t.Errorf("an update: %v", err)
	}
	if n := r.Refused()[121]; n != 3 {
		t.Errorf("%d refusals are counted, want 3", n)
	}
}

func TestRefusesWholeCommands(t *testing.T) {
	r, things := refusing(t)
	r.Obey(func(string, bson.Raw) *proxy.Refusal {
		return &proxy.Refusal{Code: 13, Message: "not authorized", Whole: true}
	})
	var refused mongo.CommandError
	if _, err := things.InsertOne(t.Context(), bson.D{{Key: "_id", Value: int32(1)}}); !errors.As(err, &refused) || refused.Code != 13 {
		t.Errorf("%v", err)
	}
	r.Obey(nil)
	if _, err := things.InsertOne(t.Context(), bson.D{{Key: "_id", Value: int32(1)}}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
