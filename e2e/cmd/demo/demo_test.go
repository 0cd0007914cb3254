package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// TestFieldLines checks that the fields of control, source and data have lines of their own, and other documents have one line.
func TestFieldLines(t *testing.T) {
	bucket, err := bson.Marshal(bson.D{
		{Key: "_id", Value: bson.ObjectID{1}},
		{Key: "control", Value: bson.D{
			{Key: "min", Value: bson.D{{Key: "x", Value: int32(0)}}},
			{Key: "source", Value: bson.D{{Key: "offsets", Value: bson.A{bson.Binary{Data: []byte{1, 2}}}}}},
		}},
		{Key: "meta", Value: "a}"},
		{Key: "data", Value: bson.D{{Key: "x", Value: bson.D{{Key: "0", Value: int32(0)}, {Key: "1", Value: 1.5}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := fieldLines(bucket, "")
	want := `_id                      {"$oid":"010000000000000000000000"}
control.min              {"x":0}
control.source.offsets   [{"$binary":{"base64":"AQI=","subType":"00"}}]
meta                     "a}"
data.x                   {"0":0,"1":1.5}`
	if err != nil || strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\n%v, want\n%s", strings.Join(got, "\n"), err, want)
	}
}

// TestSensorsSendEverything checks that some readings are late, and that there are bad events and tombstones.
func TestSensorsSendEverything(t *testing.T) {
	s := newSensors()
	now := time.Now()
	var arrived []events.Event
	for range 100 {
		arrived = append(arrived, s.measure(now)...)
	}
	var valid, bad, tombstones, late int
	for _, e := range arrived {
		switch {
		case e.Fate.Tombstone():
			tombstones++
		case e.Fate.Reason != "":
			bad++
		default:
			valid += e.Fate.Valid()
			if e.Fate.Parts[0].Reading.Time < now.Add(-400*time.Millisecond).UnixMilli() {
				late++
			}
		}
	}
	if valid < 100*sensorCount/2 || bad != 33 || tombstones != 5 || late == 0 || late > valid/5 {
		t.Errorf("%d valid, %d bad, %d tombstones, %d late", valid, bad, tombstones, late)
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
	made := measureMachine(t.Context())
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
