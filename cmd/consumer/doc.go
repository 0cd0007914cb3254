// Command consumer reads measurement events from Kafka and keeps them as buckets in MongoDB, every record exactly once.
//
// It holds the commands and the wiring; the work is done in the packages beside it. No other package reads config.
//
//	main.go, root.go, flags.go, log.go     the program, its commands, flags that several have, lines of the log
//	usage.go, completion.go                wrong command lines, and help; words that a shell completes
//	version.go, config.go                  version and config
//	status.go, serve.go                    how running consumers do; measurements over HTTP
//	translate.go, connect.go, patience.go  settings to the options of each package; both ends, opened and set up; waiting for them
//	run.go, member.go, runcollection.go    run, from top to bottom; what the group decides; options that change
//	notify.go, health.go                   telling systemd how the process is; health
//	ending.go                              how much of SHUTDOWN_TIMEOUT closing has
//	adapters.go                            what workers read and write
//	confirm.go                             asking before something is deleted, or done for good
//	init.go                                init
//	check.go, checkfeed.go, checkview.go   check: the work is that of package check
//	verify*.go, topiclog.go                verify: the work is that of package verify
//	collection*.go                         collection show, set-granularity, set-span, set-expiry, expire, takeover, update-meta, delete-meta
//	collectionindex*.go, metaindexes.go    collection indexes, create-index, drop-index, hide-index; those of META_INDEXES
//	query*.go, terminal*.go                query: the work is that of package reader; what a terminal shows
//	dlq*.go, marked.go, redriveview.go     dlq list, show, stats, redrive: the work is that of dlq and dlq/redrive
package main
