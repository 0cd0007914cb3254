// Package status shows how the running consumer does: its pages, its gauges and the lines of its log about how far it is are
// put together from snapshots of its parts when somebody asks, and from what it asks of the servers meanwhile.
//
//	view.go       the View and its life: looking and telling until the context ends
//	snapshot.go   what the status page and /api/status show
//	readiness.go  the sentences of /readyz
//	waits.go      what the start waits for
//	looks.go      what Kafka says of partitions that are not read
//	letters.go    the last dead letters
//	progress.go   the lines of progress, and the last one
//	gauges.go     the metrics taken from the snapshots
//	http.go       the servers of the pages and of Go's profiles
//	status.html   the status page
package status
