package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// optionsID is the _id of the one document of the options collection.
const optionsID = "options"

// definition is the document that defines a time series: MongoDB's names of its options, and a version that counts their
// changes from 1.
type definition struct {
	ID          string                 `bson:"_id"`
	Version     int32                  `bson:"version"`
	TimeField   string                 `bson:"timeField"`
	MetaField   string                 `bson:"metaField,omitempty"`
	Granularity timeseries.Granularity `bson:"granularity,omitempty"`
	MaxSpan     int32                  `bson:"bucketMaxSpanSeconds"`
	Rounding    int32                  `bson:"bucketRoundingSeconds,omitempty"` // custom bucketing only
	ExpireAfter int64                  `bson:"expireAfterSeconds,omitempty"`
}

func (d definition) options() timeseries.Options {
	return timeseries.Options{
		TimeField: d.TimeField, MetaField: d.MetaField, Granularity: d.Granularity, MaxSpanSeconds: d.MaxSpan,
		RoundingSeconds: d.Rounding, ExpireAfterSeconds: d.ExpireAfter,
	}
}

// MismatchError: the collection is defined otherwise than this consumer's settings say.
type MismatchError struct {
	Namespace   string
	Differences []string // one sentence a setting
}

// Error lists every differing setting.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s exists and is defined otherwise: %s; set these to the collection's values, or choose another MONGODB_COLLECTION",
		e.Namespace, strings.Join(e.Differences, "; "))
}

// ErrNotSetUp: the collections of the time series do not exist, or lack an index.
var ErrNotSetUp = errors.New("the collection is not set up: run `consumer init`, or let `consumer run` do it")

// Definition reads how the collection is defined now, and the version of that: one more for every change.
func (s *Store) Definition(ctx context.Context) (timeseries.Options, int32, error) {
	d, err := readDefinition(ctx, s.ports.Options)
	if err != nil {
		return timeseries.Options{}, 0, err
	}
	return d.options(), d.Version, nil
}

// SetCollection makes look-ups follow changed options: a bucket whose minimum time is less than the new span ago may take a
// measurement. The names of the fields do not change.
func (s *Store) SetCollection(o timeseries.Options) { s.collection.Store(&o) }

// span is how long after its minimum time a bucket takes measurements, in milliseconds.
func (s *Store) span() int64 { return s.collection.Load().Span() }

func readDefinition(ctx context.Context, c Collection) (definition, error) {
	const doing = "reading the collection's options"
	var d definition
	var broken error
	err := c.Find(ctx, Query{Filter: document(bson.D{{Key: "_id", Value: optionsID}}), Limit: 1}, func(raw bson.Raw) error {
		broken = bson.Unmarshal(raw, &d)
		return nil
	})
	switch {
	case err != nil:
		return definition{}, failure(doing, err)
	case broken != nil:
		return definition{}, fmt.Errorf("%s: the document %q was damaged: %w", doing, optionsID, broken)
	case d.ID == "":
		return definition{}, ErrNotSetUp
	}
	return d, nil
}

// define writes the definition unless there is one, which then holds if it fits what is wanted.
func (s *series) define(ctx context.Context) error {
	c, o := s.ports.Options, s.options
	d, err := readDefinition(ctx, c)
	if errors.Is(err, ErrNotSetUp) {
		d = definition{
			ID: optionsID, Version: 1, TimeField: o.TimeField, MetaField: o.MetaField, Granularity: o.Granularity,
			MaxSpan: o.MaxSpanSeconds, Rounding: o.RoundingSeconds, ExpireAfter: o.ExpireAfterSeconds,
		}
		d, err = insertDefinition(ctx, c, d)
	}
	if err != nil {
		return err
	}
	return s.adopt(d.options())
}

// adopt takes the options of the collection if they are the wanted ones, or were made from them since by raising the
// granularity: otherwise no consumer could be started again before its settings were changed as well.
func (s *series) adopt(have timeseries.Options) error {
	raised := have
	raised.ExpireAfterSeconds = s.options.ExpireAfterSeconds
	grown, err := s.options.Change(raised)
	if err != nil || grown != have {
		return compareOptions(s.namespace(), s.options, have)
	}
	if grown != s.options {
		s.log.Warn("the collection's granularity was raised since: the settings are not followed",
			"collection", s.namespace(), "granularity", grown.Granularity, "span_seconds", grown.MaxSpanSeconds)
		s.options = grown
	}
	return nil
}

// insertDefinition returns the definition that then exists: another consumer may have been quicker.
func insertDefinition(ctx context.Context, c Collection, d definition) (definition, error) {
	const doing = "writing the collection's options"
	raw, err := bson.Marshal(d)
	if err != nil {
		return definition{}, fmt.Errorf("%s: %w", doing, err)
	}
	reply, err := c.Insert(ctx, []bson.Raw{raw})
	if err == nil && slices.ContainsFunc(reply.Errors, func(e WriteError) bool { return e.Code == codeDuplicateKey }) {
		return readDefinition(ctx, c)
	}
	if _, err = changed(doing, reply, err); err != nil {
		return definition{}, err
	}
	return d, nil
}

// compareOptions names each setting in which the wanted options differ from those of the collection.
func compareOptions(namespace string, want, have timeseries.Options) error {
	var differences []string
	for _, s := range []struct {
		setting    string
		want, have any
	}{
		{"MONGODB_TIME_FIELD", want.TimeField, have.TimeField},
		{"MONGODB_META_FIELD", want.MetaField, have.MetaField},
		{"MONGODB_GRANULARITY", string(want.Granularity), string(have.Granularity)},
		{"MONGODB_BUCKET_MAX_SPAN (seconds)", want.MaxSpanSeconds, have.MaxSpanSeconds},
		{"MONGODB_BUCKET_ROUNDING (seconds)", want.RoundingSeconds, have.RoundingSeconds},
		{"MONGODB_EXPIRE_AFTER (seconds)", want.ExpireAfterSeconds, have.ExpireAfterSeconds},
	} {
		if s.want != s.have {
			differences = append(differences, fmt.Sprintf("%s is %#v here and %#v in the collection", s.setting, s.want, s.have))
		}
	}
	if differences == nil {
		return nil
	}
	return &MismatchError{Namespace: namespace, Differences: differences}
}
