// Package figure draws lines to an SVG file. The file has one or more panels side by side, with linear or logarithmic axes.
//
//	figure.go   axes, lines and panels
//	ticks.go    the numbers along an axis
//	write.go    the drawing
package figure
