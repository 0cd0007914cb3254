package timeseries

import (
	"fmt"
	"slices"
	"strings"
)

// Suffixes that make the names of a time series' collections from its own name, which is the name of a view.
const (
	BucketsSuffix    = ".buckets"
	PartitionsSuffix = ".partitions"
	OptionsSuffix    = ".options"
)

// Lengths of names that MongoDB allows, in bytes.
const (
	maxDatabaseName = 63
	// MaxNamespace is the length of a database's name, a dot and a collection's name.
	MaxNamespace = 255
	// MaxShardedNamespace is MaxNamespace on a sharded cluster.
	MaxShardedNamespace = 235
)

// Collections returns the names that belong to a time series, that is, its own name and the names of its collections. The names
// of two time series in one database must not overlap.
func Collections(series string) []string {
	return []string{series, series + BucketsSuffix, series + PartitionsSuffix, series + OptionsSuffix}
}

// CheckDatabaseName returns why MongoDB refuses a database of this name on one of its operating systems. Nil means that MongoDB
// accepts the name. The error's text continues a sentence that begins with the name.
func CheckDatabaseName(name string) error {
	i := strings.IndexAny(name, "/\\. \"$*<>:|?\x00")
	switch {
	case name == "":
		return fmt.Errorf("is empty")
	case i >= 0:
		return fmt.Errorf("contains %q: MongoDB does not allow / \\ . \" $ * < > : | ? or a space", name[i:i+1])
	case len(name) > maxDatabaseName:
		return fmt.Errorf("has %d bytes: MongoDB allows at most %d", len(name), maxDatabaseName)
	case slices.Contains([]string{"admin", "config", "local"}, name):
		return fmt.Errorf("is reserved by MongoDB (admin, config, local): choose another name")
	}
	return nil
}

// CheckSeriesName returns why MongoDB refuses a time series of this name in a database. limit is the largest length of a
// namespace in bytes. Nil means that MongoDB accepts the name. The error's text continues a sentence that begins with the name.
func CheckSeriesName(database, name string, limit int) error {
	longest := len(database) + len(".") + len(name) + len(PartitionsSuffix)
	switch {
	case name == "":
		return fmt.Errorf("is empty")
	case strings.HasPrefix(name, "system."):
		return fmt.Errorf(`begins with "system.", which MongoDB reserves`)
	case strings.HasPrefix(name, ".") || strings.HasSuffix(name, "."):
		return fmt.Errorf("begins or ends with a dot")
	case strings.ContainsAny(name, "$\x00"):
		return fmt.Errorf("contains a $ or a NUL")
	case longest > limit:
		return fmt.Errorf("is too long: with the database and %s the name has %d bytes, but MongoDB allows at most %d", PartitionsSuffix, longest, limit)
	}
	return nil
}
