package proxy

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxFaults bounds the number of faults that are kept.
const maxFaults = 20

// Keys watches the commands that the program sends to a MongoDB. Every update and delete of a bucket must name the bucket's whole
// shard key. A router of a sharded cluster sends other writes to all shards, and without a shard version.
type Keys struct {
	*Proxy

	mu     sync.Mutex
	writes int
	faults []string
}

// NewKeys listens on a free port for connections to the server at uri. The caller closes it.
func NewKeys(uri string) (_ *Keys, err error) {
	w := &Keys{}
	w.Proxy, err = NewMessages(uri, func(m Message) Decision {
		w.look(m)
		return Decision{Forward: m}
	})
	return w, err
}

// Writes returns the number of updates and deletes of buckets so far.
func (w *Keys) Writes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

// Err returns an error that names the first writes without a part of the shard key, or nil.
func (w *Keys) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) == 0 {
		return nil
	}
	return fmt.Errorf("writes that mongos would send to all shards without a version: %s", strings.Join(w.faults, "; "))
}

// look counts the writes of a command, and records a fault for each that lacks a part of the shard key.
func (w *Keys) look(m Message) {
	command, ok := Parse(m)
	if !ok {
		return
	}
	name := command.Name()
	collection, _ := command.Body.Lookup(name).StringValueOK()
	if !strings.HasSuffix(collection, ".buckets") {
		return
	}
	writes := command.Documents
	switch name {
	case "update", "delete":
	case "findAndModify", "findandmodify":
		writes = []bson.Raw{command.Body}
	default:
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, write := range writes {
		w.writes++
		if lacks := Lacks(write); lacks != "" && len(w.faults) < maxFaults {
			w.faults = append(w.faults, fmt.Sprintf("%s of %s %s: %v", name, collection, lacks, write))
		}
	}
}

// Lacks says which part a write lacks to reach the one shard that has the bucket. write is an element of an update or delete
// command, or a findAndModify command. An empty string means that nothing is missing.
func Lacks(write bson.Raw) string {
	filter, ok := write.Lookup("q").DocumentOK()
	if !ok {
		filter, _ = write.Lookup("query").DocumentOK()
	}
	if findsNothing(filter) {
		return ""
	}
	elements, _ := filter.Elements()
	has := func(match func(path string) bool) bool {
		return slices.ContainsFunc(elements, func(e bson.RawElement) bool { return match(e.Key()) })
	}
	multi, _ := write.Lookup("multi").BooleanOK()
	limit, limited := write.Lookup("limit").AsInt64OK()
	switch {
	case !has(func(path string) bool { return path == "_id" }):
		return "lacks _id"
	case !has(func(path string) bool { return path == "meta" }):
		return "lacks meta"
	case !has(func(path string) bool { return strings.HasPrefix(path, "control.min.") }):
		return "lacks control.min.<time>"
	case multi, limited && limit != 1:
		return "changes several documents"
	}
	return ""
}

// findsNothing reports whether a filter asks for an _id that no bucket has. A fence has such an _id because it must reach all
// shards, and so has a trial of the user's rights.
func findsNothing(filter bson.Raw) bool {
	id, ok := filter.Lookup("_id").StringValueOK()
	return ok && (id == "fence" || strings.HasPrefix(id, "trial/"))
}
