// Package tap observes the connections between a client and a MongoDB. It is a proxy that changes nothing. For each write of
// buckets it records the time of the first byte, the number of bytes, and the time of the server's answer. The answer may come
// after the client has disconnected.
package tap
