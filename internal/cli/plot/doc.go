// Package plot draws values over time with characters, for a terminal: several series in colours, axes with round values, no
// line across a gap. What it keeps of a series does not grow with the number of values; the smallest and the largest value of
// each column stay.
//
//	plot.go      what is collected, series by series
//	bins.go      a series' values, as many as fit into a bounded number of spans of time, and how far they are apart
//	axis.go      round values; times.go: round times
//	canvas.go    dots to characters
//	draw.go      the whole picture, and the lines below it
package plot
