// Package wire is Kafka's protocol below its requests. Its connections bound what an answer may announce. It also encodes
// requests that kafka-go lacks or has in too old versions.
//
//	conn.go     Conn: a connection between kafka-go and the network; Exchange: one request and its answer, as bytes
//	shape.go    bounds for the answers that kafka-go decodes
//	request.go  Request: a request of this module, which kafka-go's Transport sends; Reader: decodes its answer
package wire
