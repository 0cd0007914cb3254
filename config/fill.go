package config

import "io/fs"

// fill sets the defaults that no tag can hold.
func (c *Config) fill(root fs.FS) {
	if c.MongoDB.Database == "" {
		c.MongoDB.Database = c.MongoDB.URI.Database()
	}
	if c.MongoDB.Database == "" {
		c.MongoDB.Database = "waterwheel"
	}
	c.fillBucketing()
	if c.Memory.Limit == 0 {
		c.Memory.Limit = Size(shareOf(availableMemory(root)))
	}
}

func (c *Config) fillBucketing() {
	if c.MongoDB.Granularity == "" && c.MongoDB.BucketMaxSpan == 0 && c.MongoDB.BucketRounding == 0 {
		c.MongoDB.Granularity = "seconds"
	}
}
