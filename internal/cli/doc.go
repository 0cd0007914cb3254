// Package cli is the command line: one file a command, with what it prints. The work is done in the packages beside it. Of the
// command run it has the settings and the log: what runs is given to it.
//
//	root.go, flags.go, log.go              the program, its commands, flags that several have, lines of the log
//	usage.go, completion.go                wrong command lines, and help; words that a shell completes
//	version.go, config.go                  version and config
//	status.go, serve.go, health.go         how running consumers do; measurements over HTTP; health
//	confirm.go                             asking before something is deleted, or done for good
//	init.go                                init, and run
//	check.go, checkfeed.go, checkview.go   check: the work is that of package check
//	verify*.go                             verify: the work is that of package verify
//	collection*.go                         collection show, set-granularity, set-span, set-expiry, expire, takeover, update-meta, delete-meta
//	collectionindex*.go                    collection indexes, create-index, drop-index, hide-index
//	query*.go, terminal*.go                query: the work is that of package reader; what a terminal shows
//	dlq*.go, marked.go, redriveview.go     dlq list, show, stats, redrive: the work is that of dlq and dlq/redrive
package cli
