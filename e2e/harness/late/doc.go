// Package late is a MongoDB that is slow to write buckets: a proxy of the wire protocol in front of a server, which answers
// inserts and updates of buckets late and everything else at once. So a client sees a server that lives and has much to do.
package late
