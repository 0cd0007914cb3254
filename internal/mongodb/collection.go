package mongodb

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Collection is a MongoDB collection as the partition protocol uses it. Each call is one command, sent at most once. Writes have
// the write concern majority with journal. Reads go to the primary and see what a majority has. Calls may overlap. Slices that
// are passed in are only read, and not kept after the return.
//
// A *CommandError means that the server refused the command as a whole. A *NotSentError means that the command was never executed
// and never will be. After any other error the outcome is unknown.
type Collection interface {
	// Insert inserts the documents, in any order, each on its own.
	Insert(ctx context.Context, documents []bson.Raw) (Reply, error)
	// Update applies the updates, in any order, each to at most one document.
	Update(ctx context.Context, updates []Update) (Reply, error)
	// Find calls each for every found document, in no particular order. The document is valid during that call. An error of each
	// ends the query, and Find returns it as it is.
	Find(ctx context.Context, q Query, each func(document bson.Raw) error) error
}

// Editable is a Collection that can also delete documents.
type Editable interface {
	Collection
	// Delete deletes at most one document for each filter, in any order. N of the reply is the number of deleted documents.
	Delete(ctx context.Context, filters []bson.Raw) (Reply, error)
}

// Update is one conditional update.
type Update struct {
	Filter bson.Raw
	Update bson.Raw // update operators
}

// Query is a query of Find. A nil field is left out.
type Query struct {
	Filter     bson.Raw
	Projection bson.Raw
	Hint       bson.Raw // the key of the index to use
	Limit      int64    // Zero means all.
	Sort       bson.Raw // Nil means any order.
	Batch      int32    // most documents in one answer. Zero means that the server decides.
	// AtOnce reads all shards of a cluster as of one moment. Otherwise a document that another shard gets meanwhile, because its
	// shard key is changed, may be missed or found twice. MongoDB keeps the moment for five minutes by default, and then ends the
	// query with CodeSnapshotTooOld.
	AtOnce bool
}

// Reply is the answer to a write command that was executed.
type Reply struct {
	// N is the number of documents inserted or matched.
	N int
	// Errors says which documents or updates were not executed, and why.
	Errors []WriteError
	// Unconfirmed is not nil when the write concern was not met. Everything that was executed may then still be rolled back.
	Unconfirmed error
}

// WriteError is the server's answer to one document or update of a command.
type WriteError struct {
	Index   int // of the document or update in the command
	Code    int32
	Message string
}

// Err returns the answer as an error.
func (e WriteError) Err() error { return &CommandError{Code: e.Code, Message: e.Message} }

// Session orders reads after writes. A Find with its context sees every write that was acknowledged with it. Only one goroutine
// uses it at a time.
type Session interface {
	Context(parent context.Context) context.Context
	End()
}

// First returns the first found document. Nil means none.
func First(ctx context.Context, c Collection, q Query) (found bson.Raw, err error) {
	q.Limit = 1
	err = c.Find(ctx, q, func(d bson.Raw) error {
		found = slices.Clone(d)
		return nil
	})
	return found, err
}

// Changed reports whether a write of one document was executed and is durable. It was not executed if the document to change does
// not exist, or the document to insert already exists.
func Changed(reply Reply, err error) (bool, error) {
	if err == nil && slices.ContainsFunc(reply.Errors, func(e WriteError) bool { return e.Code == CodeDuplicateKey }) {
		return false, nil
	}
	n, err := Executed(reply, err)
	return n == 1, err
}

// Executed returns how many documents a write command found. It fails unless all of them are durable.
func Executed(reply Reply, err error) (int64, error) {
	switch {
	case err != nil:
		return 0, err
	case len(reply.Errors) > 0:
		return 0, reply.Errors[0].Err()
	case reply.Unconfirmed != nil:
		return 0, reply.Unconfirmed
	}
	return int64(reply.N), nil
}

// Inserted returns the indexes of the documents that an insert left out because their _ids exist already. It fails unless all
// others are durable.
func Inserted(reply Reply, err error) (existing []int, _ error) {
	if err != nil {
		return nil, err
	}
	for _, e := range reply.Errors {
		if e.Code != CodeDuplicateKey {
			return nil, e.Err()
		}
		existing = append(existing, e.Index)
	}
	return existing, reply.Unconfirmed
}

// Document encodes a bson.D or a struct of the program's own values, whose encoding cannot fail.
func Document(d any) bson.Raw {
	raw, err := bson.Marshal(d)
	if err != nil {
		panic("mongodb: a document of our own has no encoding: " + err.Error())
	}
	return raw
}

// WithID returns the filter for a document's _id.
func WithID(id any) bson.Raw { return Document(bson.D{{Key: "_id", Value: id}}) }

// Set returns the update that sets fields.
func Set(fields bson.D) bson.Raw { return Document(bson.D{{Key: "$set", Value: fields}}) }
