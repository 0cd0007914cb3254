// Package cli implements the command line. A file has one command, or a family of commands, with its output. The packages that the
// commands call do the work. Package main passes in the function that executes run. This package loads its settings and creates
// its log.
//
//	root.go                  the program: its surroundings, exit codes, the tree of commands, help, completion by a shell
//	flags.go                 flags that several commands have, their values; plans, and their confirmation
//	log.go                   lines of the log
//	terminal_*.go            the size of a terminal
//	run.go                   run, which begins again with a secret that has changed; init, config, version
//	status.go                status and health: the state of running consumers
//	serve.go                 serve: measurements over HTTP, by package serve
//	check.go                 check, by package check
//	verify.go                verify, by package verify, and what it reads of groups, claims and dead-letter topics
//	verifyview.go            the output of verify
//	collection.go            the family of collection, and what its commands have in common
//	collectionshow.go        collection show, and how full the buckets are
//	collectionoptions.go     collection set-granularity, set-span, set-expiry, expire
//	collectiontakeover.go    collection takeover
//	collectionshard.go       collection shard, init --shard
//	collectionindex.go       collection create-index
//	collectionindexes.go     collection indexes, drop-index, hide-index
//	collectionmeta.go        what the commands about meta have in common; collection delete-meta
//	collectionupdatemeta.go  collection update-meta
//	rollup.go                the family of rollup: status, drop, export
//	rollupbuild.go           rollup build, verify
//	query.go                 query, by package reader: its flags
//	queryline.go             its arguments: conditions and fields
//	queryrun.go              its output: rows, totals, plots
//	queryhints.go            its hints about fields and indexes
//	dlq.go                   the family of dlq, and what its commands have in common; dlq list, stats
//	dlqshow.go               dlq show, which marks where an event is wrong
//	dlqredrive.go            dlq redrive, by package redrive
package cli
