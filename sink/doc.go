// Package sink is MongoDB: the set-up of a collection, claims on partitions, what is already stored, bulk writes and what became of them.
package sink
