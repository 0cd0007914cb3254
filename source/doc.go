// Package source is Kafka on the way in: group membership and its lease, assignments, fetching, record batches, offsets and topic ids.
package source
