package proxy

import (
	"net"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func raw(t *testing.T, d bson.D) bson.Raw {
	t.Helper()
	document, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func filter(paths ...string) bson.D {
	d := bson.D{}
	for _, path := range paths {
		d = append(d, bson.E{Key: path, Value: 1})
	}
	return d
}

func TestLacks(t *testing.T) {
	key := filter("_id", "meta", "control.min.time")
	for name, c := range map[string]struct {
		write bson.D
		want  string
	}{
		"an update":          {bson.D{{Key: "q", Value: key}, {Key: "u", Value: bson.D{}}}, ""},
		"a delete":           {bson.D{{Key: "q", Value: key}, {Key: "limit", Value: int32(1)}}, ""},
		"findAndModify":      {bson.D{{Key: "findAndModify", Value: "x"}, {Key: "query", Value: key}}, ""},
		"no _id":             {bson.D{{Key: "q", Value: filter("meta", "control.min.time")}}, "lacks _id"},
		"no meta":            {bson.D{{Key: "q", Value: filter("_id", "control.min.time")}}, "lacks meta"},
		"a part of the meta": {bson.D{{Key: "q", Value: filter("_id", "meta.host", "control.min.time")}}, "lacks meta"},
		"no time":            {bson.D{{Key: "q", Value: filter("_id", "meta", "control.max.time")}}, "lacks control.min.<time>"},
		"updates of several": {bson.D{{Key: "q", Value: key}, {Key: "multi", Value: true}}, "changes several documents"},
		"deletes of several": {bson.D{{Key: "q", Value: key}, {Key: "limit", Value: int32(0)}}, "changes several documents"},
		"a fence":            {bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: "fence"}}}, {Key: "multi", Value: true}}, ""},
		"a trial":            {bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: "trial/1"}}}}, ""},
	} {
		if got := Lacks(raw(t, c.write)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWatchReadsCommands covers writes in the body of a command and in a section of their own. A write to another collection than
// buckets is no fault.
func TestWatchReadsCommands(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	arrived := make(chan int, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		n := 0
		for ; n < 5; n++ {
			if _, err := Read(conn); err != nil {
				break
			}
		}
		arrived <- n
	}()
	w, err := NewKeys("mongodb://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	conn, err := net.Dial("tcp", w.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ids := answer(make(Message, headerBytes), bson.D{}).Reply
	good := raw(t, bson.D{{Key: "q", Value: filter("_id", "meta", "control.min.time")}})
	bad := raw(t, bson.D{{Key: "q", Value: filter("_id")}})
	for _, c := range []Command{
		{Body: raw(t, bson.D{{Key: "update", Value: "a.buckets"}}), Sequence: "updates", Documents: []bson.Raw{good}},
		{Body: raw(t, bson.D{{Key: "update", Value: "a.options"}}), Sequence: "updates", Documents: []bson.Raw{bad}},
		{Body: raw(t, bson.D{{Key: "find", Value: "a.buckets"}})},
		{Body: raw(t, bson.D{{Key: "delete", Value: "a.buckets"}}), Sequence: "deletes", Documents: []bson.Raw{bad, good}},
		{Body: raw(t, bson.D{{Key: "update", Value: "a.buckets"}, {Key: "updates", Value: bson.A{bad}}})},
	} {
		if _, err := conn.Write(c.Build(ids)); err != nil {
			t.Fatal(err)
		}
	}
	if n := <-arrived; n != 5 {
		t.Fatalf("%d messages arrived", n)
	}
	w.mu.Lock()
	faults := len(w.faults)
	w.mu.Unlock()
	if w.Writes() != 4 || faults != 2 || w.Err() == nil {
		t.Errorf("%d writes, %d faults, %v", w.Writes(), faults, w.Err())
	}
}
