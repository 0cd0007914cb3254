// Package serve answers questions for stored measurements over HTTP: to Grafana, to scripts, and to a browser.
//
//	serve.go     the pages, and what guards them: the token, the bounds of time, rows and queries
//	query.go     a request as a query
//	answer.go    what is found, written while it is read
//	index.html   a page that plots a series, with index.js and index.css
//
// It reads by the package reader, and only reads: give it a user of MongoDB who may do no more.
package serve
