// Package live measures a consumer that keeps up with a fixed rate. It measures the processor time of the consumer and the
// server, the writes, and the density of the buckets. It also measures the age of a measurement when the database first shows it.
//
//	grid.go       the rates and the numbers of series
//	way.go        the ways to store measurements, and their processes
//	point.go      the measurement of one case, and its result
//	producer.go   records at a fixed rate
//	probe.go      the time until a record of a probe series is visible; look.go: looking for it
//	draw.go       the table and the curves
package live
