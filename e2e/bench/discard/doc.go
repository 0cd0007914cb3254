// Package discard stands before a MongoDB and answers the writes of buckets itself, so that what a consumer costs is measured
// without the database: everything else, look-ups of buckets among it, is forwarded.
//
//	proxy.go       connections: what is answered here, what goes on
//	request.go     a request's head, and how many documents it has, without copying them
//	answer.go      what a server says to a write
//	upstream.go    the server's address, and the URI through the proxy
//	process.go     the proxy as a process of its own
package discard
