// Package schemas reads schemas from a registry that speaks Confluent's protocol. It caches them, because an id never changes its
// meaning.
//
//	client.go   requests and their answers, a schema with its references; protobuf.go: compilation of schemas in Protobuf,
//	            and files that these import without a reference
//	cache.go    the cached schemas
//	metrics.go  the metrics
package schemas
