// Package wire is Kafka's protocol below its requests: connections that bound what an answer may announce, and the
// encoding of the requests that kafka-go does not have, or has too old.
//
//	conn.go     Conn: a connection between kafka-go and the network
//	shape.go    what the answers that kafka-go decodes may announce
//	call.go     Exchange: one request and its answer, as bytes
//	request.go  Request: one of our own, which kafka-go's Transport sends
//	reader.go   Reader: takes an answer apart; and what requests are put together from
package wire
