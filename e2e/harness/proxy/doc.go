// Package proxy stands between a client and one server, so that a test can watch or disturb what they send each other. Link works
// on TCP connections of any kind. All others understand messages of MongoDB's wire protocol.
//
//	proxy.go     accepting connections; messages with a decision about each request
//	message.go   MongoDB's messages: reading, parsing, building
//	link.go      a network that a test can cut, refuse, slow down or hold, or that loses answers
//	refuser.go   a MongoDB that refuses writes, or some of them
//	discard.go   a MongoDB that acknowledges writes of buckets and keeps nothing
//	keys.go      reports writes that lack a part of the shard key
package proxy
