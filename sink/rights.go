package sink

import (
	"fmt"
	"regexp"
	"strings"
)

// role is a built-in role of MongoDB's that has a right.
type role string

const (
	roleRead      role = "read"
	roleReadWrite role = "readWrite"
	roleDBAdmin   role = "dbAdmin"
)

// rightOf are the rights that MongoDB's commands need: the name of the action, and the smallest built-in role that has it.
var rightOf = map[string]struct {
	action string
	role   role
}{
	"find": {"find", roleRead}, "aggregate": {"find", roleRead}, "count": {"find", roleRead},
	"listCollections": {"listCollections", roleRead}, "listIndexes": {"listIndexes", roleRead}, "collStats": {"collStats", roleRead},
	"insert": {"insert", roleReadWrite}, "update": {"update", roleReadWrite}, "findAndModify": {"update", roleReadWrite},
	"delete": {"remove", roleReadWrite}, "create": {"createCollection", roleReadWrite}, "drop": {"dropCollection", roleReadWrite},
	"createIndexes": {"createIndex", roleReadWrite}, "dropIndexes": {"dropIndex", roleReadWrite}, "collMod": {"collMod", roleDBAdmin},
}

// indexStats is the stage of an aggregation that needs a right of its own.
const indexStats = "$indexStats"

// refusedCommand finds, in MongoDB's words about a missing right, the database, the command and the collection.
var refusedCommand = regexp.MustCompile(`^not authorized on (\S+) to execute command \{ (\w+): (?:"([^"]*)")?`)

// missingRight says which right is missing, in place of MongoDB's words, which quote the whole command. What it does not know it leaves
// as it is.
func missingRight(message string) string {
	found := refusedCommand.FindStringSubmatch(message)
	if found == nil {
		return message
	}
	database, command, collection := found[1], found[2], found[3]
	right, known := rightOf[command]
	switch {
	case !known:
		return message
	case strings.Contains(message, indexStats):
		right.action, right.role = "indexStats", roleDBAdmin
	}
	on := "the database " + database
	if collection != "" {
		on = database + "." + collection
	}
	return fmt.Sprintf("this user lacks the right %s on %s, which the role %s on the database %s has", right.action, on, right.role, database)
}
