// Package text formats the output of commands and pages for people: tables, charts, progress lines, values in words, and the
// common form of JSON.
//
//	value.go   times, sizes, lists, ids; cutting text, and making untrusted text harmless
//	table.go   columns, and counts with bars
//	output.go  JSON, a writer that keeps its first error, and a progress line for long work
package text
