// Package curves measures how the cost of a measurement grows with what a topic holds: one parameter at a time, everything else
// as in the base load. It drains a topic for each point and draws the consumer's own processor time and the rate.
//
//	curve.go      what is measured: the parameters and their values
//	measure.go    measuring it
//	draw.go       drawing it, and the sentence of each curve
package curves
