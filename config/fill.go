package config

import (
	"io/fs"

	"waterwheel/internal/measurement"
)

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

// fillPaths sets the default paths of the event format, unless a setting names others.
func (c *Config) fillPaths(found map[string]bool) {
	byID := measurement.Options{Format: measurement.Format(c.Event.Format), Schema: c.Event.Schema, Descriptors: c.Event.Descriptors.Path}
	if byID.NeedsRegistry() && !found["EVENT_FRAMING"] {
		c.Event.Framing = string(measurement.Confluent)
	}
	paths, known := measurement.DefaultPaths(measurement.Format(c.Event.Format))
	if !known {
		return
	}
	if !found["EVENT_TIME_FIELD"] {
		c.Event.TimeField = paths.TimeField
	}
	if !found["EVENT_META_FIELD"] && !found["EVENT_META_FIELDS"] && c.Event.MetaFrom == string(measurement.MetaFromValue) {
		c.Event.MetaFields = paths.MetaFields
	}
	if !found["EVENT_FIELDS"] {
		c.Event.Fields = paths.Fields
	}
}
