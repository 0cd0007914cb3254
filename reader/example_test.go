package reader_test

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/reader"
)

// The last hour of one sensor, then the newest measurement of each at a site.
func Example() {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://localhost:27017"))
	if err != nil {
		panic(err)
	}
	defer client.Disconnect(ctx)
	series, err := reader.Open(ctx, client.Database("telemetry"), "measurements")
	if err != nil {
		panic(err)
	}

	hour := reader.Query{Meta: bson.D{{Key: "meta.sensor", Value: "s-17"}}, From: time.Now().Add(-time.Hour)}
	for m, err := range series.Find(ctx, hour) {
		if err != nil {
			panic(err)
		}
		var reading struct {
			Time    time.Time `bson:"time"`
			Celsius float64   `bson:"celsius"`
		}
		if err := m.Decode(&reading); err != nil {
			panic(err)
		}
		fmt.Println(reading.Time, reading.Celsius)
	}

	north := reader.Query{Meta: bson.D{{Key: "meta.site", Value: "north"}}, Fields: []string{"celsius"}}
	for m, err := range series.Latest(ctx, north) {
		if err != nil {
			panic(err)
		}
		fmt.Println(m.Meta, m.Time, m.Fields)
	}
}

// Measurements stored from now on, for a minute.
func ExampleSeries_Follow() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://localhost:27017"))
	if err != nil {
		panic(err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	series, err := reader.Open(ctx, client.Database("telemetry"), "measurements")
	if err != nil {
		panic(err)
	}
	for m, err := range series.Follow(ctx, reader.Query{}, time.Second) {
		if err != nil {
			panic(err)
		}
		fmt.Println(m.Document())
	}
}
