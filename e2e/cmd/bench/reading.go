package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"waterwheel/e2e/bench/reading"
)

// measureReading prints what queries cost in each way.
func (w *wish) measureReading(ctx context.Context) error {
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		return errors.New("-reading measures a MongoDB: name one by E2E_MONGODB_URI")
	}
	figures, err := reading.Measure(ctx, uri, w.stored)
	fmt.Print(reading.Table(figures))
	return err
}
