package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"waterwheel/e2e/bench/reading"
)

// measureReading measures and prints either the cost of queries in each way, or the cost and the savings of rollups.
func (w *wish) measureReading(ctx context.Context) error {
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		return errors.New("-reading and -rollups measure a MongoDB: name one by E2E_MONGODB_URI")
	}
	if w.rollups {
		building, figures, err := reading.MeasureTotals(ctx, uri, w.stored)
		fmt.Printf("%s\n\n%s", building, reading.Table(figures, reading.FromMeasurements))
		return err
	}
	figures, err := reading.Measure(ctx, uri, w.stored)
	fmt.Print(reading.Table(figures, reading.Native))
	return err
}
