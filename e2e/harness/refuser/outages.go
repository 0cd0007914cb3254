package refuser

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// These are MongoDB's answers when it takes no writes at the moment, no matter what the writes hold.

// NoPrimary is the answer during an election.
func NoPrimary() Refusal { return Refusal{Code: 10107, Message: "not primary", Whole: true} }

// FullDisk is the answer of a server without disk space, which can only be read.
func FullDisk() Refusal { return Refusal{Code: 14031, Message: "No space left on device"} }

// Throttled is the answer of a server that limits the request rate.
func Throttled() Refusal { return Refusal{Code: 16500, Message: "Request rate is large"} }

// Unauthorized is the answer to a user without the privilege.
func Unauthorized() Refusal {
	return Refusal{Code: 13, Message: "not authorized to execute the command", Whole: true}
}

// AllBuckets refuses every write of a bucket with the given refusal.
func AllBuckets(with Refusal) Rule {
	return func(collection string, _ bson.Raw) *Refusal {
		if !strings.HasSuffix(collection, ".buckets") {
			return nil
		}
		return &with
	}
}
