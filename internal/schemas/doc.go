// Package schemas reads schemas from a registry that speaks Confluent's protocol, and keeps them: an id never changes its meaning.
//
//	client.go   requests, and what their answers mean; one schema with those that it refers to; protobuf.go: those in Protobuf, compiled;
//	            imports.go: files that they import without a reference
//	cache.go    what is kept
//	metrics.go what is counted
package schemas
