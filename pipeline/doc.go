// Package pipeline carries measurements from a Kafka partition into buckets and commits offsets when all they caused is durable.
package pipeline
