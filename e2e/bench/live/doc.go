// Package live measures a consumer that keeps up with a fixed rate: its processor time and the server's, what it writes, how
// dense that is, and how old a measurement is when it can be found in the database.
//
//	grid.go       what is measured: rates and series
//	way.go        how measurements are stored: the processes that do it
//	point.go      measuring one of them, and what comes of it
//	producer.go   records at a fixed rate
//	probe.go      how soon a record of a series of its own is visible; look.go: looking for it
//	draw.go       the table and the curves
package live
