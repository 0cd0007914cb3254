package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// TestDocument checks that long columns are cut, and that small documents take one line.
func TestDocument(t *testing.T) {
	column := bson.D{}
	for i := range 40 {
		column = append(column, bson.E{Key: fmt.Sprint(i), Value: int32(i)})
	}
	got := document(bson.D{
		{Key: "_id", Value: bson.ObjectID{1}},
		{Key: "control", Value: bson.D{{Key: "count", Value: int32(40)}, {Key: "offsets", Value: bson.A{bson.Binary{Data: []byte{1, 2}}}}}},
		{Key: "data", Value: bson.D{{Key: "x", Value: column}}},
	}, "  ", "")
	want := `{
  _id: ObjectId("010000000000000000000000"),
  control: {count: 40, offsets: [2 bytes 0102]},
  data: {
    x: {
      0: 0,
      1: 1,
      … 38 more
    },
  },
}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestSensorsSendEverything checks that late readings arrive in the end, and that there are bad events and tombstones.
func TestSensorsSendEverything(t *testing.T) {
	s := newSensors()
	now := time.Now()
	var arrived []events.Event
	for i := range 100 {
		arrived = append(arrived, s.measure(now.Add(time.Duration(i)*pace))...)
	}
	arrived = append(arrived, s.due(now.Add(time.Hour))...)
	var valid, bad, tombstones int
	for _, e := range arrived {
		switch {
		case e.Fate.Tombstone():
			tombstones++
		case e.Fate.Reason != "":
			bad++
		default:
			valid += e.Fate.Valid()
		}
	}
	if valid < 100*sensorCount/2 || bad != 33 || tombstones != 5 || len(s.held) != 0 {
		t.Errorf("%d valid, %d bad, %d tombstones, %d still held", valid, bad, tombstones, len(s.held))
	}
}

// TestPlottedSensorsHaveThatField checks that the demo tells its user to plot fields that exist.
func TestPlottedSensorsHaveThatField(t *testing.T) {
	s := newSensors()
	for _, name := range strings.Split(plottedSensors, ",") {
		found := false
		for i := range sensorCount {
			value := string(s.reading(i, time.Now()).Value)
			found = found || strings.Contains(value, `"`+name+`"`) && strings.Contains(value, `"`+plotted+`"`)
		}
		if !found {
			t.Errorf("%s has no %s", name, plotted)
		}
	}
}

// TestTankHasAHistory checks that a minute of it has several readings.
func TestTankHasAHistory(t *testing.T) {
	history := tankHistory(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	if len(history) != tankHours*60*4 || !strings.Contains(string(history[0].Value), tankName) {
		t.Errorf("the history has %d readings, the first %s", len(history), history[0].Value)
	}
}

// TestMachineMeasures checks that there is at least one event, and that every event is valid.
func TestMachineMeasures(t *testing.T) {
	m, err := newMachine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made := m.measure(t.Context())
	if len(made) == 0 {
		t.Error("nothing was measured")
	}
	for _, e := range made {
		if e.Fate.Valid() != 1 || !json.Valid(e.Value) {
			t.Errorf("not a good event: %s", e.Value)
		}
	}
}

// TestKeptSettingsAreForAShell checks that a shell can read the file of settings that -keep names.
func TestKeptSettingsAreForAShell(t *testing.T) {
	s := &stage{settings: harness.Settings{"MONGODB_URI": "mongodb://127.0.0.1:1/?a=b&c=d", "KAFKA_TOPICS": "x"}}
	if got, want := s.environment(), "KAFKA_TOPICS='x'\nMONGODB_URI='mongodb://127.0.0.1:1/?a=b&c=d'\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
