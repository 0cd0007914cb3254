// Package schemas reads schemas from a registry that speaks Confluent's protocol, and keeps them: an id never changes its meaning.
//
//	client.go   requests, and what their answers mean; one schema with those that it refers to
//	cache.go    what is kept
//	metrics.go what is counted
package schemas
