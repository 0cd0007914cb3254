// Package metrics is the table of the metrics that the consumer exports: their names, labels, units and meanings.
//
// docs/metrics.md is generated from it. The dashboard and the rules in deploy may use only metrics in this table. Tests compare
// the table with the metrics that the program registers, in both directions. So a name must be changed in two places: here, and
// where the metric is counted.
//
//	table.go     the metrics, section by section
//	metrics.go   looking metrics up, and checking queries that name them
//	document.go  the document
//	metrics.md   its text around the tables
package metrics
