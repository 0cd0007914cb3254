package sink

import (
	"fmt"
	"strings"
)

// The collections of a time series are named after it.
const (
	bucketsSuffix    = ".buckets"
	partitionsSuffix = ".partitions"
	optionsSuffix    = ".options"
)

// Lengths that MongoDB allows, in bytes.
const (
	maxDatabaseName     = 63
	maxNamespace        = 255 // database.collection
	maxShardedNamespace = 235
)

// Names are the collections that belong to a time series: its view, buckets, partitions and options. The names of two
// time series of one database must not overlap.
func Names(series string) [4]string {
	return [4]string{series, series + bucketsSuffix, series + partitionsSuffix, series + optionsSuffix}
}

// CheckDatabaseName tells why MongoDB would not have a database of this name; nil: it would.
func CheckDatabaseName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the database has no name: set MONGODB_DATABASE, or name it in MONGODB_URI behind the hosts")
	case len(name) > maxDatabaseName:
		return fmt.Errorf("the database name %q has %d bytes: MongoDB allows %d; choose a shorter MONGODB_DATABASE",
			name, len(name), maxDatabaseName)
	case name == "admin" || name == "local" || name == "config":
		return fmt.Errorf("the database %q belongs to MongoDB itself: choose another MONGODB_DATABASE", name)
	}
	if i := strings.IndexAny(name, "/\\. \"$\x00"); i >= 0 {
		return fmt.Errorf("the database name %q has a %q: MongoDB allows none of / \\ . \" $ and no space; "+
			"choose another MONGODB_DATABASE", name, name[i:i+1])
	}
	return nil
}

// CheckSeriesName tells why MongoDB would not have a time series of this name in the database; nil: it would.
func CheckSeriesName(database, name string) error {
	return checkSeriesName(database, name, maxNamespace)
}

func checkSeriesName(database, name string, limit int) error {
	const wayOut = "choose another MONGODB_COLLECTION"
	switch {
	case name == "":
		return fmt.Errorf("the collection has no name: set MONGODB_COLLECTION")
	case strings.HasPrefix(name, "system."):
		return fmt.Errorf("the collection name %q begins with \"system.\", which belongs to MongoDB itself: %s", name, wayOut)
	case strings.HasPrefix(name, ".") || strings.HasSuffix(name, "."):
		return fmt.Errorf("the collection name %q begins or ends with a dot: %s", name, wayOut)
	}
	if i := strings.IndexAny(name, "$\x00"); i >= 0 {
		return fmt.Errorf("the collection name %q has a %q, which MongoDB does not allow: %s", name, name[i:i+1], wayOut)
	}
	if longest := database + "." + name + partitionsSuffix; len(longest) > limit {
		return fmt.Errorf("the namespace %q has %d bytes: MongoDB allows %d; choose a shorter MONGODB_COLLECTION or MONGODB_DATABASE",
			longest, len(longest), limit)
	}
	return nil
}
