// Package status shows the state of the running consumer: its pages, its gauges, and the log lines about its progress. They come
// from snapshots of the consumer's parts, taken for each request, and from what Kafka and MongoDB answer meanwhile.
//
//	view.go       the View and its life: it polls and logs until the context ends; the metrics taken from snapshots
//	snapshot.go   what the status page and /api/status show of the present moment, with the members of the group
//	hour.go       what they show of the last hour: samples, and cells of each partition
//	readiness.go  the sentences of /readyz, each with its section of the runbook, also about servers that the start waits for
//	looks.go      what Kafka reports about partitions that are not being read
//	progress.go   the progress lines, the last line, and the last dead letters
//	http.go       the servers of the pages, of the documents at /docs/, and of Go's profiles
//	page.go       the page as a whole, and its first sentence
//	chart.go      drawings: the four charts, and the wall of partitions
//
// The page is status.html, with page.css and page.js. manual.html shows the documents. The page works without the script. The
// script updates changed parts without a reload, and shows values under the pointer.
package status
