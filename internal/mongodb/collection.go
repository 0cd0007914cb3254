package mongodb

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Collection is a MongoDB collection as the partition protocol uses it. Each call is one command, sent at most once, with
// write concern majority and journal, or read from the primary what a majority has. Calls may overlap. Slices passed in
// are only read, and not kept after the return.
//
// An error is a *CommandError (the server refused the command as a whole), a *NotSentError (it was never executed and
// never will be), or anything else: then it is unknown what happened.
type Collection interface {
	// Insert inserts the documents, in any order, each on its own.
	Insert(ctx context.Context, documents []bson.Raw) (Reply, error)
	// Update applies the updates, in any order, each to at most one document.
	Update(ctx context.Context, updates []Update) (Reply, error)
	// Find calls each for every document found, in no particular order; the document is valid during that call. An error
	// of each ends the query and is returned as it is.
	Find(ctx context.Context, q Query, each func(document bson.Raw) error) error
}

// Editable is a Collection of which documents can be deleted, too.
type Editable interface {
	Collection
	// Delete deletes for each filter at most one document, in any order. N of the reply is how many these were.
	Delete(ctx context.Context, filters []bson.Raw) (Reply, error)
}

// Update is one conditional update.
type Update struct {
	Filter bson.Raw
	Update bson.Raw // update operators
}

// Query is what to find. A nil field is left out.
type Query struct {
	Filter     bson.Raw
	Projection bson.Raw
	Hint       bson.Raw // the key of the index to use
	Limit      int64    // Zero means all.
	Sort       bson.Raw // Nil means any order.
	Batch      int32    // how many the server may put into one answer. Zero means as many as it likes.
}

// Reply is the answer to a write command that was executed.
type Reply struct {
	// N is the number of documents inserted or matched.
	N int
	// Errors tells which documents or updates were not executed, and why.
	Errors []WriteError
	// Unconfirmed is not nil when the write concern was not met: all that was executed may yet be rolled back.
	Unconfirmed error
}

// WriteError is the server's answer to one document or update of a command.
type WriteError struct {
	Index   int // in the command
	Code    int32
	Message string
}

// Session orders reads after writes: a Find with its context sees every write that was acknowledged with it. It is used
// by one goroutine at a time.
type Session interface {
	Context(parent context.Context) context.Context
	End()
}

// First is the first document found. Nil means none.
func First(ctx context.Context, c Collection, q Query) (found bson.Raw, err error) {
	q.Limit = 1
	err = c.Find(ctx, q, func(d bson.Raw) error {
		found = slices.Clone(d)
		return nil
	})
	return found, err
}

// Changed tells of the answer to a write of one document whether it was executed and is durable. It was not where the
// document to change is not there, or the one to insert is there already.
func Changed(reply Reply, err error) (bool, error) {
	switch {
	case err != nil:
		return false, err
	case slices.ContainsFunc(reply.Errors, func(e WriteError) bool { return e.Code == CodeDuplicateKey }):
		return false, nil
	case len(reply.Errors) > 0:
		return false, &CommandError{Code: reply.Errors[0].Code, Message: reply.Errors[0].Message}
	case reply.Unconfirmed != nil:
		return false, reply.Unconfirmed
	}
	return reply.N == 1, nil
}

// Executed is how many documents a write command found; an error unless all of that is durable.
func Executed(reply Reply, err error) (int64, error) {
	switch {
	case err != nil:
		return 0, err
	case len(reply.Errors) > 0:
		return 0, &CommandError{Code: reply.Errors[0].Code, Message: reply.Errors[0].Message}
	}
	return int64(reply.N), reply.Unconfirmed
}

// Document encodes a document made of the program's own values, which always have an encoding.
func Document(d bson.D) bson.Raw {
	raw, err := bson.Marshal(d)
	if err != nil {
		panic("mongodb: a document of our own has no encoding: " + err.Error())
	}
	return raw
}

// WithID is the filter that finds a document by its _id.
func WithID(id any) bson.Raw { return Document(bson.D{{Key: "_id", Value: id}}) }

// Set is the update that sets fields.
func Set(fields bson.D) bson.Raw { return Document(bson.D{{Key: "$set", Value: fields}}) }
