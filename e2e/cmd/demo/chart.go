package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// This is the size of the chart, in characters.
const (
	chartWidth  = 68
	chartHeight = 8
)

// point is one value of a chart.
type point struct {
	at    time.Time
	value float64
}

// showProcessors draws the load of this machine's processors, as read back from the buckets.
func (s *stage) showProcessors(ctx context.Context, buckets *mongo.Collection) error {
	points, err := processorPoints(ctx, buckets)
	if err != nil {
		return err
	}
	s.out.title(fmt.Sprintf("This machine's processors, read back from the buckets (%d measurements)", len(points)))
	if len(points) < 2 {
		s.out.line("  this system does not tell its processors' times")
		return nil
	}
	for _, line := range s.chart(points) {
		s.out.line("%s", line)
	}
	return nil
}

// processorPoints reads the column "used" of every bucket of the kind "cpu", by time.
func processorPoints(ctx context.Context, buckets *mongo.Collection) ([]point, error) {
	cursor, err := buckets.Find(ctx, bson.D{{Key: "meta.kind", Value: "cpu"}})
	if err != nil {
		return nil, fmt.Errorf("reading the processors' buckets: %w", err)
	}
	var found []struct {
		Data struct {
			Time map[string]time.Time `bson:"time"`
			Used map[string]float64   `bson:"used"`
		} `bson:"data"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return nil, fmt.Errorf("reading the processors' buckets: %w", err)
	}
	var points []point
	for _, b := range found {
		for index, at := range b.Data.Time {
			points = append(points, point{at, b.Data.Used[index]})
		}
	}
	slices.SortFunc(points, func(a, b point) int { return a.at.Compare(b.at) })
	return points, nil
}

// chart draws points as bars, and marks the moment of the crash below them.
func (s *stage) chart(points []point) []string {
	first, last := points[0].at, points[len(points)-1].at
	column := func(t time.Time) int {
		return int(math.Round(float64(t.Sub(first)) / float64(last.Sub(first)) * (chartWidth - 1)))
	}
	heights := columnMeans(points, column)
	lines := make([]string, 0, chartHeight+2)
	for row := range chartHeight {
		label := "      "
		if row%2 == 0 {
			label = fmt.Sprintf("%4d%% ", 100-row*100/chartHeight)
		}
		lines = append(lines, s.out.paint(dim, label+"┤")+s.out.paint(blue, bars(heights, chartHeight-1-row)))
	}
	killed := min(max(column(s.killed), 0), chartWidth-1)
	lines = append(lines,
		s.out.paint(dim, "   0% └"+strings.Repeat("─", killed))+s.out.paint(red, "▲")+s.out.paint(dim, strings.Repeat("─", chartWidth-1-killed)))
	const clock, note = "15:04:05", "SIGKILL"
	before := min(max(killed-len(note)/2, len(clock)+1), chartWidth-len(clock)-1-len(note)) // columns left of the note
	return append(lines, fmt.Sprintf("       %s%*s%s%*s%s",
		s.out.paint(dim, first.Format(clock)), before-len(clock), "",
		s.out.paint(red, note), chartWidth-before-len(note)-len(clock), "", s.out.paint(dim, last.Format(clock))))
}

// columnMeans returns the mean of the points of each column. A column without points takes the value of the column to its left.
func columnMeans(points []point, column func(time.Time) int) []float64 {
	sums, counts := make([]float64, chartWidth), make([]int, chartWidth)
	for _, p := range points {
		c := column(p.at)
		sums[c] += p.value
		counts[c]++
	}
	for c := range sums {
		switch {
		case counts[c] > 0:
			sums[c] /= float64(counts[c])
		case c > 0:
			sums[c] = sums[c-1]
		}
	}
	return sums
}

// bars draws one row of the chart with blocks of an eighth of a character. Row 0 is the lowest.
func bars(percents []float64, row int) string {
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, percent := range percents {
		eighths := int(math.Round(percent / 100 * chartHeight * 8))
		b.WriteRune(blocks[min(max(eighths-row*8, 0), 8)])
	}
	return strings.TrimRight(b.String(), " ")
}
