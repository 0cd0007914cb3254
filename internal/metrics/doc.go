// Package metrics is the table of the metrics that the consumer exports: their names, labels, units and meanings.
//
// docs/metrics.md is written from it. The dashboard and the rules in deploy may use only what it lists, and tests hold the
// metrics that the program registers to it, in both directions. So a name is changed in two places: here, and where the metric
// is counted.
//
//	table.go     the metrics, section by section
//	metrics.go   looking metrics up, and checking queries that name them
//	document.go  the document
//	metrics.md   its text around the tables
package metrics
