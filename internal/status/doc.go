// Package status shows the state of the running consumer: its pages, its gauges, and the log lines about its progress. They come
// from snapshots of the consumer's parts, taken for each request, and from what Kafka and MongoDB answer meanwhile.
//
//	view.go       the View and its life: it polls and logs until the context ends
//	snapshot.go   what the status page and /api/status show of the present moment
//	hour.go       what they show of the last hour: samples, and cells of each partition
//	readiness.go  the sentences of /readyz, each with its section of the runbook, also about topics that match the patterns
//	              of KAFKA_TOPICS
//	waits.go      the servers that the start waits for
//	looks.go      what Kafka reports about partitions that are not being read
//	members.go    the members of the group, with their partitions and pages
//	letters.go    the last dead letters
//	progress.go   the progress lines, and the last line
//	gauges.go     the metrics taken from the snapshots
//	http.go       the servers of the pages and of Go's profiles
//	page.go       the page as a whole, and its first sentence
//	chart.go      drawings: the four charts, and the wall of partitions
//	manual.go     the documents at /docs/
//
// The page is status.html, with page.css and page.js. manual.html shows the documents. The page works without the script. The
// script updates changed parts without a reload, and shows values under the pointer.
package status
