package reader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/auth"

	"waterwheel/internal/timeseries"
)

// ErrNotSetUp means that there is no time series of this name in the database.
var ErrNotSetUp = errors.New("no such time series: check the names of the collection and the database; " +
	"`waterwheel init` creates the time series, and so does a consumer when it starts")

// QueryError means that a Query is invalid. Nothing was read.
type QueryError struct{ Err error }

// Error says what is wrong with the query.
func (e *QueryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *QueryError) Unwrap() error { return e.Err }

// BucketError tells of one stored bucket or segment that cannot be read. A caller that continues the iteration gets the next one.
type BucketError struct {
	Namespace string        // of the collection of buckets
	ID        bson.RawValue // _id. Type 0 means that it has none, or that it cannot be read.
	Segment   bool          // it is a segment
	Err       error         // a *timeseries.Error for anything that MongoDB could not unpack either
}

func newBucketError(namespace string, bucket bson.Raw, err error) *BucketError {
	return &BucketError{Namespace: namespace, ID: timeseries.Clone(idOf(bucket)), Segment: isSegment(bucket), Err: err}
}

// Error names the bucket, what is wrong with it, and the way out.
func (e *BucketError) Error() string {
	id := "without a readable _id"
	if e.ID.Type != 0 {
		id = fmt.Sprintf("with the _id %v", e.ID)
	}
	what := "bucket"
	if e.Segment {
		what = "segment"
	}
	return fmt.Sprintf("the %s %s in %s cannot be read: %v; waterwheel does not write documents in this form: read the document with find(), "+
		"then correct it, or move it to another collection", what, id, e.Namespace, e.Err)
}

// Unwrap returns the cause.
func (e *BucketError) Unwrap() error { return e.Err }

const (
	// patience is how long reading may make no progress before it returns a failure that might pass.
	patience = time.Minute
	// The pause before another try doubles from shortestPause to longestPause.
	shortestPause = 50 * time.Millisecond
	longestPause  = 2 * time.Second
)

// passing are the codes of failures that pass by themselves. Causes are an election, a server that shuts down, changed routes, a
// lost or expired cursor, and overload. Names and numbers are those of src/mongo/base/error_codes.yml in MongoDB's sources.
var passing = []int32{
	6,     // HostUnreachable
	7,     // HostNotFound
	43,    // CursorNotFound
	63,    // StaleShardVersion
	89,    // NetworkTimeout
	91,    // ShutdownInProgress
	133,   // FailedToSatisfyReadPreference
	134,   // ReadConcernMajorityNotAvailableYet
	150,   // StaleEpoch
	175,   // QueryPlanKilled
	189,   // PrimarySteppedDown
	237,   // CursorKilled
	262,   // ExceededTimeLimit
	365,   // TemporarilyUnavailable
	402,   // ResourceExhausted
	433,   // AdmissionQueueOverflow
	449,   // RateLimitExceeded
	462,   // IngressRequestRateLimitExceeded
	9001,  // SocketException
	10058, // LegacyNotPrimary
	10107, // NotWritablePrimary
	11600, // InterruptedAtShutdown
	11602, // InterruptedDueToReplStateChange
	13388, // StaleConfig
	13435, // NotPrimaryNoSecondaryOk
	13436, // NotPrimaryOrSecondary
	16500, // TooManyRequests, Azure Cosmos DB's throttling
}

// transient reports whether the same query may succeed later. An error of the server is transient only if its code is known to
// be. Any other failure counts as one of the connection. Such a failure is transient unless the login was rejected, the query is
// wrong, or the context or the client was closed.
func transient(err error) bool {
	var (
		answer  mongo.CommandError
		refused *auth.Error
		wrong   *QueryError
	)
	switch {
	case errors.As(err, &answer) && answer.Code != 0:
		return slices.Contains(passing, answer.Code) || answer.HasErrorLabel("RetryableError")
	case errors.As(err, &refused) || errors.As(err, &wrong) || errors.Is(err, errDisorder):
		return false
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, mongo.ErrClientDisconnected)
}

// retry paces tries that make no progress.
type retry struct {
	since time.Time // the first failure. Zero means that the last try made progress.
	pause time.Duration
}

// progressed resets the failures.
func (r *retry) progressed() { *r = retry{} }

// persist calls do until it succeeds or fails with an error that is not transient.
func persist(ctx context.Context, do func() error) error {
	var r retry
	for {
		err := do()
		if err == nil {
			return nil
		}
		if err := r.wait(ctx, err); err != nil {
			return err
		}
	}
}

// wait waits before another try. It returns err itself if there is no other try, because the error is not transient or patience
// is exhausted. If the context ends, it returns the cause of that.
func (r *retry) wait(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if !transient(err) {
		return err
	}
	if r.since.IsZero() {
		r.since, r.pause = time.Now(), shortestPause
	}
	if time.Since(r.since) >= patience {
		return err
	}
	pause := r.pause/2 + rand.N(r.pause)
	r.pause = min(2*r.pause, longestPause)
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
