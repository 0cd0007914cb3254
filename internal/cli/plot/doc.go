// Package plot draws values over time with characters, for a terminal. It draws several series in colours, axes with round
// values, and no line across a gap. Its memory for a series does not grow with the number of values. It keeps the smallest and
// the largest value of each column.
//
//	plot.go      collecting values, series by series
//	bins.go      a series' values in a bounded number of time spans, and the intervals between them
//	axis.go      round values; times.go: round times
//	canvas.go    dots to characters
//	draw.go      the whole picture, and the lines below it
package plot
