// Package cli implements the command line, with one file for each command and its output. The packages that the commands call do
// the work. Package main passes in the function that executes run. This package loads its settings and creates its log.
//
//	root.go                   the program: its surroundings, exit codes, the tree of commands
//	usage.go                  wrong command lines, help, and the words that a shell completes
//	flags.go                  flags that several commands have; confirmation before something is deleted or cannot be undone
//	log.go                    lines of the log
//	terminal*.go              the size of a terminal, and how pictures are drawn on it
//	start.go                  run, init, config, version; rotation.go: run begins again with a secret that has changed
//	status.go                 status and health: the state of running consumers
//	statusprint.go            how status shows it
//	serve.go                  serve: measurements over HTTP, by package serve
//	check.go                  check, by package check; --sample; checksettings.go: what check says of the settings
//	verify.go, verifyview.go  verify, by package verify; its output
//	verifyports.go            what verify reads of groups, claims and dead-letter topics
//	collection.go             the family of collection, and what its commands have in common
//	collectionshow.go         collection show; collectionfill.go: how full the buckets are
//	collectionoptions.go      collection set-granularity, set-span, set-expiry
//	collectiontakeover.go     collection takeover
//	collectionshard.go        collection shard, init --shard
//	collectionindex.go        collection create-index
//	collectionindexes.go      collection indexes, drop-index, hide-index
//	collectionmeta.go         what the commands about meta have in common
//	collectionupdatemeta.go   collection update-meta
//	collectiondelete.go       collection delete-meta, expire
//	rollup.go                 the family of rollup: status, drop; rollupbuild.go: build, verify; rollupexport.go: export
//	query.go, queryline.go    query, by package reader: its flags, its arguments
//	querytotals.go            query --every: totals by windows of time
//	queryrun.go               the output of query; queryhints.go: hints about fields and indexes
//	dlq.go                    the family of dlq, and what its commands have in common
//	dlqlist.go, dlqshow.go    dlq list and stats; dlq show, with marked.go: where an event is wrong
//	dlqredrive.go             dlq redrive, by package redrive
package cli
