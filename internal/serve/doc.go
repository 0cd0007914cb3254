// Package serve answers queries for stored measurements over HTTP, for Grafana, scripts and browsers.
//
//	serve.go     the pages, and what guards them: the token, the bounds of time, rows and queries
//	query.go     parsing a request into a query
//	answer.go    the answer, written while it is read
//	index.html   a page that plots a series, with index.js and index.css
//
// It reads with the package reader, and never writes. Give it a MongoDB user with read access only.
package serve
