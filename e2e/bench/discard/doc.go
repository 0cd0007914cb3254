// Package discard is a proxy in front of a MongoDB that answers the writes of buckets itself. It lets a benchmark measure a
// consumer without the database. The proxy forwards all other requests, including look-ups of buckets.
//
//	proxy.go       connections: which requests are answered, which are forwarded
//	request.go     a request's head and its number of documents, without copying them
//	answer.go      a server's answer to a write
//	upstream.go    the server's address, and the URI through the proxy
//	process.go     the proxy as a process of its own
package discard
