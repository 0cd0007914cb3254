// Package rows writes measurements for people and programs: as a table, as CSV, or as lines of JSON. It writes rows as they come,
// and buffers a bounded number of them.
//
//	rows.go      a row, and what all forms have in common
//	cells.go     a row as texts under the names of columns; value.go: a value as text
//	table.go     a table; csv.go: CSV; json.go: lines of JSON; flat.go: flat objects
package rows
