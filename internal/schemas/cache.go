package schemas

import (
	"sync"

	"waterwheel/internal/measurement"
)

const (
	// maxCached and maxCachedBytes bound the cached schemas.
	maxCached      = 10_000
	maxCachedBytes = 64 << 20
)

// cache keeps schemas by their ids, and the topics for which a schema was found.
type cache struct {
	mu      sync.Mutex
	schemas map[measurement.SchemaID]measurement.Schema
	bytes   int
	topics  map[string]bool
}

func newCache() *cache {
	return &cache{schemas: map[measurement.SchemaID]measurement.Schema{}, topics: map[string]bool{}}
}

// find returns a cached schema.
func (c *cache) find(topic string, id measurement.SchemaID) (measurement.Schema, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, found := c.schemas[id]
	if found {
		c.topics[topic] = true
	}
	return s, found
}

// knows reports whether a schema of a topic was found before.
func (c *cache) knows(topic string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.topics[topic]
}

// keep caches a schema, and returns the number of cached schemas. If there is no room, it drops all schemas cached before. The
// client then requests them again.
func (c *cache) keep(topic string, id measurement.SchemaID, s measurement.Schema) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics[topic] = true
	size := sizeOf(&s)
	if len(c.schemas) >= maxCached || c.bytes+size > maxCachedBytes {
		clear(c.schemas)
		c.bytes = 0
	}
	if _, found := c.schemas[id]; !found {
		c.schemas[id], c.bytes = s, c.bytes+size
	}
	return len(c.schemas)
}

func sizeOf(s *measurement.Schema) int {
	size := len(s.Text)
	for _, reference := range s.References {
		size += len(reference)
	}
	return size
}
