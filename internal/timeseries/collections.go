package timeseries

import (
	"fmt"
	"slices"
	"strings"
)

// Suffixes that make the names of a time series' collections out of its own, which is that of a view.
const (
	BucketsSuffix    = ".buckets"
	PartitionsSuffix = ".partitions"
	OptionsSuffix    = ".options"
)

// Lengths of names that MongoDB allows, in bytes.
const (
	maxDatabaseName = 63
	// MaxNamespace is that of a database, a dot and a collection.
	MaxNamespace = 255
	// MaxShardedNamespace is the same on a sharded cluster.
	MaxShardedNamespace = 235
)

// Collections are the names that belong to a time series: its own, and those of its collections. Those of two time series
// of one database must not overlap.
func Collections(series string) []string {
	return []string{series, series + BucketsSuffix, series + PartitionsSuffix, series + OptionsSuffix}
}

// CheckDatabaseName tells why MongoDB, on whatever system it runs, would not have a database of this name. Nil means that it would.
// The error goes on behind the name.
func CheckDatabaseName(name string) error {
	i := strings.IndexAny(name, "/\\. \"$*<>:|?\x00")
	switch {
	case name == "":
		return fmt.Errorf("is empty")
	case i >= 0:
		return fmt.Errorf("has a %q: MongoDB allows none of / \\ . \" $ * < > : | ? and no space", name[i:i+1])
	case len(name) > maxDatabaseName:
		return fmt.Errorf("has %d bytes: MongoDB allows %d", len(name), maxDatabaseName)
	case slices.Contains([]string{"admin", "config", "local"}, name):
		return fmt.Errorf("is one of MongoDB's own (admin, config, local): choose another")
	}
	return nil
}

// CheckSeriesName tells why MongoDB would not have a time series of this name in a database, where a namespace has at most
// so many bytes. Nil means that it would. The error goes on behind the name.
func CheckSeriesName(database, name string, limit int) error {
	longest := len(database) + len(".") + len(name) + len(PartitionsSuffix)
	switch {
	case name == "":
		return fmt.Errorf("is empty")
	case strings.HasPrefix(name, "system."):
		return fmt.Errorf(`begins with "system.", which is MongoDB's own`)
	case strings.HasPrefix(name, ".") || strings.HasSuffix(name, "."):
		return fmt.Errorf("begins or ends with a dot")
	case strings.ContainsAny(name, "$\x00"):
		return fmt.Errorf("has a $ or a NUL")
	case longest > limit:
		return fmt.Errorf("is too long: with the database and %s it has %d bytes, MongoDB allows %d", PartitionsSuffix, longest, limit)
	}
	return nil
}
