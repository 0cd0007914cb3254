// Package wire is Kafka's protocol below its requests. Its connections bound what an answer may announce. It also encodes
// requests that kafka-go lacks or has in too old versions.
//
//	conn.go     Conn: a connection between kafka-go and the network
//	shape.go    bounds for the answers that kafka-go decodes
//	call.go     Exchange: one request and its answer, as bytes
//	request.go  Request: a request of this module, which kafka-go's Transport sends
//	reader.go   Reader: decodes an answer; functions that encode requests
package wire
