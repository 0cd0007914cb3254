// Package schemas reads schemas from a registry that speaks Confluent's protocol. It caches them, because an id never changes its
// meaning.
//
//	client.go    requests and their answers, the cached schemas, the metrics
//	assemble.go  a schema with its references; compilation of schemas in Protobuf, and files that these import without a reference
package schemas
