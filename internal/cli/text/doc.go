// Package text is how the commands and the pages write what people read: tables, charts, lines of progress, values in words,
// and the one form of JSON.
//
//	value.go   times, sizes, lists, ids; cutting text, and making that from outside harmless
//	table.go   columns, and counts with bars
//	output.go  JSON, a writer that keeps its first error, and a line that says how far long work is
package text
