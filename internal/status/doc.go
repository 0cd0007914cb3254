// Package status shows how the running consumer does: its pages, its gauges, and the log lines about its progress. They come from
// snapshots of its parts, taken for each request, and from what it asks of the servers meanwhile.
//
//	view.go       the View and its life: looking and telling until the context ends
//	snapshot.go   what the status page and /api/status show of the present moment
//	hour.go       what they show of the last hour: samples, and cells of each partition
//	readiness.go  the sentences of /readyz, each with its section of the runbook
//	waits.go      what the start waits for
//	looks.go      what Kafka says of partitions that are not read
//	letters.go    the last dead letters
//	progress.go   the lines of progress, and the last one
//	gauges.go     the metrics taken from the snapshots
//	http.go       the servers of the pages and of Go's profiles
//	page.go       the page as a whole, and its first sentence
//	chart.go      drawings: the four numbers, and the wall of partitions
//	manual.go     the documents at /docs/
//
// The page is status.html, with page.css and page.js; the documents come in manual.html. It works without the script, which replaces
// what has changed in place of a reload, and shows values under the pointer.
package status
