package proxy_test

import (
	"net/url"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
)

// TestNotesAnswersWhoseClientIsGone has a client, a tap, a link that is cut, another tap, and the server, in this order.
func TestNotesAnswersWhoseClientIsGone(t *testing.T) {
	uri, err := url.Parse(harness.EmbeddedMongo(t).URI())
	if err != nil {
		t.Fatal(err)
	}
	address, err := harness.NewLinkAddress()
	if err != nil {
		t.Fatal(err)
	}
	far := newTap(t, uri.Host)
	between, err := proxy.NewLink(address, far.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(between.Close)
	near := newTap(t, between.Address())
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + near.Address() + "/?directConnection=true&retryWrites=false"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(t.Context()) })
	buckets := client.Database("tap").Collection("things.buckets")
	id := bson.NewObjectID()
	document := bson.D{{Key: "_id", Value: id}, {Key: "control", Value: bson.D{{Key: "source", Value: bson.D{
		{Key: "offsets", Value: bson.A{bson.Binary{Data: []byte{4}}}},
	}}}}}
	if _, err := buckets.InsertOne(t.Context(), document); err != nil {
		t.Fatal(err)
	}
	between.LoseAnswers()
	lost := make(chan error)
	go func() {
		_, err := buckets.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}},
			bson.D{{Key: "$push", Value: bson.D{{Key: "control.source.offsets", Value: bson.Binary{Data: []byte{8}}}}}})
		lost <- err
	}()
	for end := time.Now().Add(10 * time.Second); len(far.Writes()) < 2 || far.Writes()[1].Answered.IsZero(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", far.Writes())
		}
	}
	between.Cut()
	if err := <-lost; err == nil {
		t.Error("the client got an answer that was lost")
	}
	at, behind := near.Writes(), far.Writes()
	if len(at) != 2 || len(behind) != 2 {
		t.Fatalf("%+v\n%+v", at, behind)
	}
	for i := range at {
		if at[i].Sum != behind[i].Sum || at[i].Sum == 0 || len(at[i].Statements) != 1 || at[i].Statements[0].Bucket != id {
			t.Errorf("%d: %+v, %+v", i, at[i], behind[i])
		}
	}
	if at[0].Answered.IsZero() || !at[1].Answered.IsZero() || at[1].Began.After(behind[1].Began) {
		t.Errorf("%+v, %+v", at, behind)
	}
}

func newTap(t *testing.T, target string) *proxy.Tap {
	t.Helper()
	made, err := proxy.NewTap(target, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}
