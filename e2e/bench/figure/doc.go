// Package figure draws lines as an SVG file: one or more panels side by side, with axes that may be logarithmic.
//
//	figure.go   what is drawn
//	ticks.go    the numbers along an axis
//	write.go    drawing it
package figure
