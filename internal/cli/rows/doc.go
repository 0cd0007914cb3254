// Package rows writes measurements for people and programs: as a table, as CSV, or as lines of JSON. It writes rows as they come,
// and buffers a bounded number of them.
//
//	rows.go      a row, its cells under the names of columns, and a value as text
//	table.go     a table, and CSV
//	json.go      lines of JSON, and flat objects
package rows
