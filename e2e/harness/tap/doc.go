// Package tap is a stretch of the way between a client and a MongoDB that a test watches: a proxy that changes nothing, and
// notes of each write of buckets when its first byte came, how much of it, and when the server answered, also when the
// client is gone by then.
package tap
