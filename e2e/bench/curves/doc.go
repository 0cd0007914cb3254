// Package curves measures how the cost of a measurement depends on the content of a topic. It varies one parameter of the base
// load at a time. For each point it drains a topic, and draws the consumer's own processor time and the rate.
//
//	curve.go      the parameters and their values
//	measure.go    the measurement
//	draw.go       the drawing and the sentence of each curve
package curves
