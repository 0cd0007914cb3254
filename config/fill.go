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
	if c.MongoDB.Granularity == "" && c.MongoDB.BucketMaxSpan == 0 && c.MongoDB.BucketRounding == 0 {
		c.MongoDB.Granularity = "seconds"
	}
	if c.Memory.Limit == 0 {
		c.Memory.Limit = Size(shareOf(availableMemory(root)))
	}
}
