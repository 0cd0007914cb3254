package config

import (
	"io/fs"
	"path"
	"strconv"
	"strings"

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

// unknownMemory is the assumed memory if its size is unknown.
const unknownMemory = 1 << 30

// noLimit is about the number that cgroup v1 writes for "no limit".
const noLimit = 1 << 60

// MemoryRoom is how much more than MEMORY_LIMIT the process may use, at any load. It covers what Go's limit does not count, such
// as the program itself and the kernel's buffers. It also covers what exceeds the limit until the next garbage collection. A
// container needs this much more memory. The number is measured (e2e/hostile).
const MemoryRoom = 64 << 20

// leastMemory is the smallest memory limit that is useful.
const leastMemory = 32 << 20

// shareOf returns the default MEMORY_LIMIT of a process that may use at most available bytes.
func shareOf(available int64) int64 {
	return max(min(available/4*3, available-MemoryRoom), leastMemory)
}

// availableMemory returns how much memory the process may use. It is the smallest limit of its cgroup (version 2 or 1) and that
// cgroup's parents. Without a limit it is the machine's memory. root is the root file system.
func availableMemory(root fs.FS) int64 {
	limit := machineMemory(root)
	cgroups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(cgroups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			limit = cgroupLimit(root, "sys/fs/cgroup", parts[2], "memory.max", limit)
		case strings.Contains(","+parts[1]+",", ",memory,"):
			limit = cgroupLimit(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes", limit)
		}
	}
	return limit
}

// cgroupLimit returns the minimum of limit and the limits in the files of the group and its parents. In a container the group's
// path may be the host's and not exist. Then the root of the mount is the group.
func cgroupLimit(root fs.FS, mount, group, file string, limit int64) int64 {
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		text, err := fs.ReadFile(root, path.Join(mount, dir, file))
		if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil && n > 0 && n < noLimit {
			limit = min(limit, n)
		}
		if dir == "/" {
			return limit
		}
	}
}

// machineMemory returns MemTotal of /proc/meminfo.
func machineMemory(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return unknownMemory
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			if kib, err := strconv.ParseInt(fields[1], 10, 64); err == nil && kib > 0 {
				return kib << 10
			}
		}
	}
	return unknownMemory
}
